//go:build linux

package e2e_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/test/e2e/site"
	"github.com/rrpool/rrpool/test/lab"
)

// The manager runs where no cloud is: it is told of none, and asks for no
// credentials.
func TestASiteWithoutACloud(t *testing.T) {
	nodes := append(lab.Workers(3), lab.NodeSpec{
		Name: "control-plane", Zone: "zone-1", Labels: map[string]string{"node-role.kubernetes.io/control-plane": ""},
		Taints: []corev1.Taint{{Key: "node-role.kubernetes.io/control-plane", Effect: corev1.TaintEffectNoSchedule}},
	})
	ctx, s := start(t, site.Options{Nodes: nodes})
	require.Equal(t, []string{"worker-0", "worker-1", "worker-2"}, s.Workers)
	list, err := s.Lab.Kube().CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	require.NoError(t, err)
	require.Len(t, list.Items, 4)
	for i := range list.Items {
		require.Empty(t, list.Items[i].Spec.ProviderID)
	}
	secrets, err := s.Lab.Kube().CoreV1().Secrets(site.Namespace).List(ctx, metav1.ListOptions{})
	require.NoError(t, err)
	require.Empty(t, secrets.Items)

	require.NoError(t, s.StartManager("--leader-elect=false"))
	require.NoError(t, s.CreatePool(ctx, func(o *v1alpha1.RouteReflectorPool) { o.Spec.Mode = v1alpha1.ModePaused }))
	require.NoError(t, s.WaitFor(within(t, ctx), "a first look", func(o *v1alpha1.RouteReflectorPool) bool {
		return o.Status.ObservedGeneration == o.Generation
	}))
	pool, err := s.Pool(ctx)
	require.NoError(t, err)
	require.Equal(t, v1alpha1.ProviderExistingNodes, pool.Spec.Provider.Type)
	t.Log(site.Describe(pool))
	holders, err := s.Holders(ctx)
	require.NoError(t, err)
	require.Empty(t, holders)
	log, err := s.ManagerLog()
	require.NoError(t, err)
	require.NotContains(t, log, "rrpool-ibmcloud")
	require.NoError(t, s.StopManager())
	require.NoError(t, s.Lab.Report().ZeroLoss())
}
