//go:build linux

package chaos_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/controllers/plan/topology"
	"github.com/rrpool/rrpool/test/e2e/site"
)

// roleLabel is what spec.bgp.nodeLabel is by default.
const roleLabel = "rrpool.io/route-reflector"

// A cluster moves from one topology to another, and reflectors come, go and fail in each. No
// packet is lost, and the mesh is never needed in between.
func TestTopologiesGrowShrinkAndChange(t *testing.T) {
	c := start(t, site.Options{MeshPassword: "s3cret"})
	c.stages([]stage{
		{"onto Single", migrateDedicated},
		{"Single to Quorum", move(v1alpha1.TopologyQuorum, 6, 2, 6)},
		{"a reflector more in each zone", move(v1alpha1.TopologyQuorum, 9, 2, 9)},
		{"and one less", move(v1alpha1.TopologyQuorum, 6, 2, 6)},
		{"Quorum to Hierarchy", move(v1alpha1.TopologyHierarchy, 3, 2, 9)},
		{"a reflector more in each rack", move(v1alpha1.TopologyHierarchy, 3, 3, 12)},
		{"a rack's reflector is lost", loseReflector},
		{"and one less in each rack", move(v1alpha1.TopologyHierarchy, 3, 2, 9)},
		{"Hierarchy to Single", move(v1alpha1.TopologySingle, 3, 2, 3)},
		{"Single to Hierarchy", move(v1alpha1.TopologyHierarchy, 3, 2, 9)},
		{"Hierarchy to MultiCluster", move(v1alpha1.TopologyMultiCluster, 3, 3, 3)},
		{"back to the mesh", backToMesh},
	})
}

func migrateDedicated(c *cluster) {
	e := c.begin("onto dedicated nodes")
	require.NoError(c.t, c.CreatePool(c.ctx, hasty))
	c.waitReflectors("three reflectors", func(h []string) bool { return len(h) == 3 })
	c.requireMesh(false)
	c.requireLostNothing(e)
}

// move changes the topology, and how many reflectors it has, and waits until they all have their slots.
func move(kind v1alpha1.TopologyType, sized, redundancy int32, reflectors int) func(*cluster) {
	return func(c *cluster) {
		e := c.begin(string(kind))
		c.edit(func(spec *v1alpha1.RouteReflectorPoolSpec) {
			spec.Topology.Type, spec.Topology.Redundancy, spec.Sizing.Min = kind, redundancy, sized
		})
		c.waitReflectors("the new slots", func(h []string) bool {
			slots := c.slots()
			if len(h) != reflectors || len(slots) != reflectors {
				return false
			}
			for _, slot := range slots {
				if topology.KindOf(slot) != kind {
					return false
				}
			}
			return true
		})
		c.requireMesh(false)
		require.Empty(c.t, c.meshWrites(e), "the mesh was not needed")
		c.requireEvents(e)
		c.requireLostNothing(e)
	}
}

// slots are the reflectors' slots by node.
func (c *cluster) slots() map[string]string {
	c.t.Helper()
	list, err := c.Lab.Kube().CoreV1().Nodes().List(c.ctx, metav1.ListOptions{LabelSelector: roleLabel})
	require.NoError(c.t, err)
	out := map[string]string{}
	for i := range list.Items {
		out[list.Items[i].Name] = list.Items[i].Labels[roleLabel]
	}
	return out
}

// loseReflector: the machine of one of a rack's reflectors is shut down, and comes back.
func loseReflector(c *cluster) {
	e := c.begin("a rack's reflector is lost")
	hit := ""
	for node, slot := range c.slots() {
		if slot == "rack-us-south-1-1" {
			hit = node
		}
	}
	require.NotEmpty(c.t, hit)
	require.NoError(c.t, c.Lab.Shutdown(c.ctx, hit))
	c.waitFor("it to be missed", func(o *v1alpha1.RouteReflectorPool) bool { return !ready(o) })
	require.NoError(c.t, c.Lab.PowerOn(c.ctx, hit))
	c.waitReflectors("all twelve", func(h []string) bool { return len(h) == 12 })
	require.Empty(c.t, c.meshWrites(e), "the mesh was not needed")
	c.requireEvents(e)
	c.requireLostNothing(e)
}

func backToMesh(c *cluster) {
	e := c.begin("back to the mesh")
	require.NoError(c.t, c.SetMode(c.ctx, v1alpha1.ModeFullMesh))
	c.waitFor("the mesh", func(o *v1alpha1.RouteReflectorPool) bool {
		return o.Status.ObservedGeneration == o.Generation && o.Status.Step.Name == "Steady" && len(c.slots()) == 0
	})
	c.requireMesh(true)
	c.requireLostNothing(e)
}
