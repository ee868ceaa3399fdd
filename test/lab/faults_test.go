//go:build linux

package lab_test

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rrpool/rrpool/test/lab"
)

func TestNodesComeAndGoAndFail(t *testing.T) {
	running := goleak.IgnoreCurrent()
	t.Cleanup(func() { goleak.VerifyNone(t, running) })
	l := start(t, lab.Options{}, lab.Workers(4)...)
	ctx := t.Context()
	const victim = "worker-3"

	t.Run("a node that joins a running cluster is probed from its first answer on", func(t *testing.T) {
		l.Checkpoint("join")
		require.NoError(t, l.AddNode(ctx, lab.NodeSpec{
			Name: "late", Zone: "zone-2", Pods: 2, ProviderID: "ibm://acct///cluster/late", Labels: map[string]string{"pool": "extra"},
		}))
		require.NoError(t, l.WaitMesh(ctx))
		watch(ctx, time.Second)
		joined := l.Report().Phase("join")
		require.Len(t, joined.Pairs, 20)
		require.NoError(t, joined.ZeroLoss())

		node, err := l.Kube().CoreV1().Nodes().Get(ctx, "late", metav1.GetOptions{})
		require.NoError(t, err)
		require.Equal(t, []string{"zone-2", "extra", "ibm://acct///cluster/late"}, []string{
			node.Labels[corev1.LabelTopologyZone], node.Labels["pool"], node.Spec.ProviderID,
		})
		require.Error(t, l.AddNode(ctx, lab.NodeSpec{Name: "late"}), "the name is taken")
	})

	t.Run("SetReady holds, whatever is written over it", func(t *testing.T) {
		require.Equal(t, corev1.ConditionTrue, readiness(t, l, victim))
		require.NoError(t, l.SetReady(ctx, victim, false))
		require.Equal(t, corev1.ConditionFalse, readiness(t, l, victim))
		patch := []byte(`{"status":{"conditions":[{"type":"Ready","status":"True"}]}}`)
		_, err := l.Kube().CoreV1().Nodes().Patch(ctx, victim, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
		require.NoError(t, err)
		require.Equal(t, corev1.ConditionTrue, readiness(t, l, victim))
		for end := time.Now().Add(10 * time.Second); readiness(t, l, victim) != corev1.ConditionFalse; watch(ctx, 100*time.Millisecond) {
			require.True(t, time.Now().Before(end), "nobody put the condition right")
		}
		require.NoError(t, l.SetReady(ctx, victim, true))
		require.Equal(t, corev1.ConditionTrue, readiness(t, l, victim))
	})

	t.Run("a node that is removed leaves no trace, and the others lose nothing", func(t *testing.T) {
		l.Checkpoint("leave")
		require.NoError(t, l.RemoveNode(ctx, "late"))
		watch(ctx, time.Second)
		require.NoError(t, l.Report().Phase("leave").Without("late").ZeroLoss())
		_, err := l.Kube().CoreV1().Nodes().Get(ctx, "late", metav1.GetOptions{})
		require.True(t, apierrors.IsNotFound(err), "got %v", err)
		require.NotContains(t, l.Nodes(), "late")
		_, err = l.Sessions("late")
		require.Error(t, err)
		require.Error(t, l.RemoveNode(ctx, "late"))
	})

	t.Run("a killed BIRD costs nothing for now: peers keep its routes, and the kernel keeps its own", func(t *testing.T) {
		l.Checkpoint("kill")
		require.NoError(t, l.KillBIRD(victim))
		watch(ctx, time.Second)
		require.NoError(t, l.StartBIRD(ctx, victim))
		require.NoError(t, l.WaitMesh(ctx))
		require.NoError(t, l.Report().Phase("kill").ZeroLoss())
	})

	t.Run("a stopped BIRD takes its pods off the network, and nobody else's", func(t *testing.T) {
		l.Checkpoint("stop")
		require.NoError(t, l.StopBIRD(victim))
		watch(ctx, time.Second)
		requireOnlyLost(t, l, "stop", victim)
		require.NoError(t, l.StartBIRD(ctx, victim))
		requireRecovery(t, l)
	})

	t.Run("a cut link takes its node off the network, until it is restored", func(t *testing.T) {
		l.Checkpoint("cut")
		require.NoError(t, l.CutLink(victim))
		watch(ctx, time.Second)
		requireOnlyLost(t, l, "cut", victim)
		require.NoError(t, l.RestoreLink(victim))
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
	require.NoError(t, l.Report().Phase("recovered").ZeroLoss())
}

// requireOnlyLost checks that in a phase all pairs of one node lost a lot, and the others nothing.
func requireOnlyLost(t *testing.T, l *lab.Lab, phase, node string) {
	t.Helper()
	report := l.Report().Phase(phase)
	require.NoError(t, report.Without(node).ZeroLoss())
	lossy := report.Lossy()
	require.Len(t, lossy, 2*(len(l.Nodes())-1))
	for _, pair := range lossy {
		require.True(t, slices.Contains([]string{pair.From, pair.To}, node), pair.String())
		require.Greater(t, pair.LongestRun, 10, pair.String())
	}
}

func readiness(t *testing.T, l *lab.Lab, name string) corev1.ConditionStatus {
	t.Helper()
	node, err := l.Kube().CoreV1().Nodes().Get(t.Context(), name, metav1.GetOptions{})
	require.NoError(t, err)
	for _, condition := range node.Status.Conditions {
		if condition.Type == corev1.NodeReady {
			return condition.Status
		}
	}
	return corev1.ConditionUnknown
}
