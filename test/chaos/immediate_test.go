//go:build linux

package chaos_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/test/e2e/site"
	"github.com/rrpool/rrpool/test/lab"
)

// This is the negative control of all the others: without the preparation, a
// busy node that becomes a reflector while the mesh is on loses more than a
// second. It is not the first one, which runs no pods.
func TestImmediatePromotionLosesPackets(t *testing.T) {
	idle := lab.NodeSpec{Name: "control-plane", Labels: map[string]string{"node-role.kubernetes.io/control-plane": ""}}
	c := start(t, site.Options{Nodes: []lab.NodeSpec{
		idle, {Name: "worker-0", Pods: 1}, {Name: "worker-1", Pods: 1}, {Name: "worker-2", Pods: 1}, {Name: "worker-3", Pods: 1},
	}})
	e := c.begin("onto busy nodes, at once")
	require.NoError(t, c.CreatePool(c.ctx, func(o *v1alpha1.RouteReflectorPool) {
		o.Spec.Provider.ExistingNodes.Promotion = v1alpha1.PromotionImmediate
	}))
	var holders []string
	c.waitFor("three reflectors", func(*v1alpha1.RouteReflectorPool) bool {
		var err error
		holders, err = c.Holders(c.ctx)
		return err == nil && len(holders) == 3
	})
	time.Sleep(10 * time.Second) // until their sessions are back
	require.Equal(t, idle.Name, holders[0])
	promoted := holders[1:]
	for i, n := range promoted {
		c.told(e, []string{"ReflectorAdded", n, "at once (promotion: Immediate)", "cannot be reached from other nodes"})
		require.Greater(t, c.lost(e, promoted[1-i]).LongestOutage(), time.Second, "%s and the plain nodes", n)
	}
	c.requireLostNothing(e, promoted...)
}
