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
