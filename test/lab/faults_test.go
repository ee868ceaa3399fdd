//go:build linux

package lab_test

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/rrpool/rrpool/test/lab"
)

func TestNodesComeAndGoAndFail(t *testing.T) {
	l := inMesh(t, "")
	ctx := t.Context()
	const failing = "worker-3"

	t.Run("a node that joins a running cluster is probed from its first answer on", func(t *testing.T) {
		l.Checkpoint("join")
		require.NoError(t, l.AddNodes(ctx, lab.NodeSpec{
			Name: "late", Zone: "zone-2", Pods: 2, ProviderID: "ibm://acct///cluster/late", Labels: map[string]string{"pool": "extra"},
		}))
		require.NoError(t, l.WaitMesh(ctx))
		watch(ctx, time.Second)
		require.Len(t, requireNothingLost(t, l, "join").Pairs, 42)

		node, err := l.Kube().CoreV1().Nodes().Get(ctx, "late", metav1.GetOptions{})
		require.NoError(t, err)
		require.Equal(t, []string{"zone-2", "extra", "ibm://acct///cluster/late"}, []string{
			node.Labels[corev1.LabelTopologyZone], node.Labels["pool"], node.Spec.ProviderID,
		})
		require.Error(t, l.AddNodes(ctx, lab.NodeSpec{Name: "late"}), "the name is taken")
	})

	t.Run("SetReady is seen in the API", func(t *testing.T) {
		require.Equal(t, corev1.ConditionTrue, readiness(t, l, failing))
		require.NoError(t, l.SetReady(ctx, failing, false))
		require.Equal(t, corev1.ConditionFalse, readiness(t, l, failing))
		require.NoError(t, l.SetReady(ctx, failing, true))
		require.Equal(t, corev1.ConditionTrue, readiness(t, l, failing))
	})

	t.Run("a node that is removed leaves no trace, and the others lose nothing", func(t *testing.T) {
		l.Checkpoint("leave")
		require.NoError(t, l.RemoveNode(ctx, "late"))
		watch(ctx, time.Second)
		requireNothingLost(t, l, "leave", "late")
		_, err := l.Kube().CoreV1().Nodes().Get(ctx, "late", metav1.GetOptions{})
		require.True(t, apierrors.IsNotFound(err), "got %v", err)
		require.NotContains(t, l.Nodes(), "late")
		_, err = l.Sessions("late")
		require.Error(t, err)
		require.Error(t, l.RemoveNode(ctx, "late"))
	})

	t.Run("a killed BIRD costs nothing for now: peers keep its routes, and the kernel keeps its own", func(t *testing.T) {
		l.Checkpoint("kill")
		require.NoError(t, l.KillBIRD(failing))
		watch(ctx, time.Second)
		require.NoError(t, l.StartBIRD(ctx, failing))
		require.NoError(t, l.WaitMesh(ctx))
		requireNothingLost(t, l, "kill")
	})

	t.Run("a stopped BIRD takes its pods off the network, and no others", func(t *testing.T) {
		l.Checkpoint("stop")
		require.NoError(t, l.StopBIRD(failing))
		watch(ctx, time.Second)
		requireOnlyLost(t, l, "stop", failing)
		require.NoError(t, l.StartBIRD(ctx, failing))
		requireRecovery(t, l)
	})

	t.Run("a cut link takes its node off the network, until it is restored", func(t *testing.T) {
		l.Checkpoint("cut")
		require.NoError(t, l.CutLink(failing))
		watch(ctx, time.Second)
		requireOnlyLost(t, l, "cut", failing)
		require.NoError(t, l.RestoreLink(failing))
		requireRecovery(t, l)
	})
	t.Log("\n" + l.Report().String())
}

func requireRecovery(t *testing.T, l *lab.Lab) {
	t.Helper()
	require.NoError(t, l.WaitMesh(t.Context()))
	watch(t.Context(), time.Second)
	l.Checkpoint("recovered")
	watch(t.Context(), time.Second)
	requireNothingLost(t, l, "recovered")
}

// requireOnlyLost waits until all pairs of one node have lost a lot since a phase began, and checks that the others have lost nothing.
func requireOnlyLost(t *testing.T, l *lab.Lab, phase, node string) {
	t.Helper()
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		report := l.Report().Phase(phase)
		pairs := len(report.Pairs) - len(report.Without(node).Pairs)
		require.Positive(c, pairs)
		broken := 0
		for _, pair := range report.Lossy() {
			if pair.LongestRun > 10 && slices.Contains([]string{pair.From, pair.To}, node) {
				broken++
			}
		}
		require.Equal(c, pairs, broken, "%v", report.Lossy())
	}, patience, 100*time.Millisecond)
	requireNothingLost(t, l, phase, node)
}

func readiness(t *testing.T, l *lab.Lab, name string) corev1.ConditionStatus {
	t.Helper()
	node, err := l.Kube().CoreV1().Nodes().Get(t.Context(), name, metav1.GetOptions{})
	require.NoError(t, err)
	return readinessOf(node)
}

func readinessOf(node *corev1.Node) corev1.ConditionStatus {
	for _, condition := range node.Status.Conditions {
		if condition.Type == corev1.NodeReady {
			return condition.Status
		}
	}
	return corev1.ConditionUnknown
}

func TestPodsMoveAndHostsFailAsRealOnesDo(t *testing.T) {
	lab.SkipLong(t)
	specs := lab.Workers(6)
	specs[0].Replicated, specs[0].Pods = true, 2
	specs = append(specs, lab.NodeSpec{Name: "idle", Zone: "zone-1"})
	l := start(t, lab.Options{}, specs...)
	ctx := t.Context()
	const source = "worker-0"

	t.Run("evicted pods move to where there is room, and nothing that was running is lost", func(t *testing.T) {
		l.Checkpoint("drain")
		require.NoError(t, l.Drain(ctx, source))
		requirePods(t, l, source, 0)
		requirePods(t, l, "idle", 1)
		requireRoutes(t, l)
		watch(ctx, time.Second)
		drained := l.Report().Phase("drain")
		require.NoError(t, drained.ZeroLoss())
		require.Len(t, drained.Only("idle", "worker-1", "worker-2", "worker-3", "worker-4", "worker-5").Pairs, 30, "the idle node is one of them now")
		require.True(t, l.Block("idle").IsValid())
		l.Checkpoint("drained")
		watch(ctx, 500*time.Millisecond)
		require.Empty(t, l.Report().Phase("drained").Only(source, "worker-1").Pairs, "what does not run is not probed")
	})

	t.Run("a deleted pod without a ReplicaSet is gone", func(t *testing.T) {
		l.Checkpoint("delete")
		pods, err := l.Pods(ctx, "worker-5")
		require.NoError(t, err)
		require.Len(t, pods, 1)
		require.NoError(t, l.Kube().CoreV1().Pods("default").Delete(ctx, pods[0], metav1.DeleteOptions{}))
		require.EventuallyWithT(t, func(c *assert.CollectT) {
			_, err := l.Kube().CoreV1().Pods("default").Get(ctx, pods[0], metav1.GetOptions{})
			require.True(c, apierrors.IsNotFound(err), "got %v", err)
		}, patience, 50*time.Millisecond)
		watch(ctx, 500*time.Millisecond)
		require.NoError(t, l.Report().Phase("delete").ZeroLoss())
		requirePods(t, l, "worker-5", 0)
	})

	t.Run("a pod that fits nowhere waits until a node is uncordoned", func(t *testing.T) {
		for _, name := range l.Nodes() {
			require.NoError(t, l.Cordon(ctx, name))
		}
		pods, err := l.Pods(ctx, "idle")
		require.NoError(t, err)
		require.NoError(t, l.Kube().CoreV1().Pods("default").Delete(ctx, pods[0], metav1.DeleteOptions{}))
		requirePods(t, l, "idle", 0)
		require.EventuallyWithT(t, func(c *assert.CollectT) {
			pending, err := l.Kube().CoreV1().Pods("default").List(ctx, metav1.ListOptions{FieldSelector: "spec.nodeName="})
			require.NoError(c, err)
			require.Len(c, pending.Items, 1)
		}, patience, 50*time.Millisecond)
		for _, name := range l.Nodes() {
			require.NoError(t, l.Uncordon(ctx, name))
		}
		requirePods(t, l, source, 1)
	})

	t.Run("a node that is shut down in order is NotReady and silent, until it is powered on", func(t *testing.T) {
		l.Checkpoint("shutdown")
		require.NoError(t, l.Shutdown(ctx, "worker-1"))
		require.Equal(t, corev1.ConditionFalse, readiness(t, l, "worker-1"))
		_, err := l.Sessions("worker-1")
		require.Error(t, err)
		sessions, err := l.Sessions("worker-2")
		require.NoError(t, err)
		require.True(t, slices.ContainsFunc(sessions, func(s lab.Session) bool {
			return s.Peer == l.Address("worker-1") && !s.Established()
		}), "its peers have got a NOTIFICATION: %v", sessions)
		watch(ctx, time.Second)
		requireLossAt(t, l, "shutdown", "worker-1")
		require.NoError(t, l.PowerOn(ctx, "worker-1"))
		require.Equal(t, corev1.ConditionTrue, readiness(t, l, "worker-1"))
		requireRecovery(t, l)
	})

	t.Run("a node that crashes says nothing to its peers", func(t *testing.T) {
		l.Checkpoint("crash")
		require.NoError(t, l.Crash("worker-1"))
		require.Equal(t, corev1.ConditionTrue, readiness(t, l, "worker-1"))
		sessions, err := l.Sessions("worker-2")
		require.NoError(t, err)
		require.True(t, slices.ContainsFunc(sessions, func(s lab.Session) bool {
			return s.Peer == l.Address("worker-1") && s.Established()
		}), "its peers have got no NOTIFICATION: %v", sessions)
		watch(ctx, time.Second)
		requireLossAt(t, l, "crash", "worker-1")
	})

	t.Run("a node that is lost takes its objects along, and its pods move", func(t *testing.T) {
		l.Checkpoint("lose")
		pods, err := l.Pods(ctx, source)
		require.NoError(t, err)
		require.Len(t, pods, 1)
		require.NoError(t, l.LoseNode(ctx, source))
		require.NoError(t, l.LoseNode(ctx, "worker-1"))
		for _, name := range []string{source, "worker-1"} {
			_, err := l.Kube().CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
			require.True(t, apierrors.IsNotFound(err), "got %v", err)
			requirePods(t, l, name, 0)
		}
		requirePods(t, l, "idle", 1)
		requireRoutes(t, l)
		require.NoError(t, l.Report().Phase("lose").Without(source, "worker-1").ZeroLoss())
	})

	t.Run("a zone that is cut off is Unknown, and costs the others nothing", func(t *testing.T) {
		requireRecovery(t, l)
		l.Checkpoint("zone")
		cut, err := l.CutZone(ctx, "zone-3")
		require.NoError(t, err)
		require.Equal(t, []string{"worker-2", "worker-5"}, cut)
		watch(ctx, time.Second)
		for _, name := range cut {
			require.Equal(t, corev1.ConditionUnknown, readiness(t, l, name))
		}
		report := l.Report().Phase("zone")
		require.NoError(t, report.Without(cut...).ZeroLoss())
		require.Error(t, report.ZeroLoss())
		require.NoError(t, l.RestoreZone(ctx, "zone-3"))
		requireRecovery(t, l)
		_, err = l.CutZone(ctx, "nowhere")
		require.Error(t, err)
	})
	t.Log("\n" + l.Report().String())
}

// requirePods waits until so many pods run on a node.
func requirePods(t *testing.T, l *lab.Lab, node string, want int) {
	t.Helper()
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		list, err := l.Kube().CoreV1().Pods("default").List(t.Context(), metav1.ListOptions{FieldSelector: "spec.nodeName=" + node})
		require.NoError(c, err)
		require.Len(c, list.Items, want, node)
		for i := range list.Items {
			require.Equal(c, corev1.PodRunning, list.Items[i].Status.Phase)
		}
	}, patience, 50*time.Millisecond)
}

func requireRoutes(t *testing.T, l *lab.Lab) {
	t.Helper()
	require.NoError(t, l.WaitRoutes(t.Context()))
}

// requireLossAt checks that in a phase pairs of one node lost something, and the others nothing.
func requireLossAt(t *testing.T, l *lab.Lab, phase, node string) {
	t.Helper()
	report := l.Report().Phase(phase)
	require.NoError(t, report.Without(node).ZeroLoss())
	require.NotEmpty(t, report.Lossy())
}
