//go:build linux

package chaos_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/test/e2e/site"
	"github.com/rrpool/rrpool/test/lab"
)

// replicated and bare are the nodes that a drained cluster prefers: a ReplicaSet
// replaces the pods of the former, and those of the latter have no controller.
var replicated, bare = []string{"infra-0", "infra-1"}, "infra-2"

// byHand is a node that a person has cordoned.
const byHand = "worker-0"

// A cluster without zones gets its reflectors by draining them, one more by
// staging, one less, and in the end loses all of them together.
func TestDrainedReflectors(t *testing.T) {
	c := start(t, site.Options{Nodes: infraAndWorkers(5)})
	c.stages([]stage{
		{"promotion is Drain", migrateDraining},
		{"one more is wanted", growStaged},
		{"a node comes and goes at a threshold", crossThreshold},
		{"one less is wanted", shrinkStaged},
		{"all reflectors are shut down in the same second", shutDownTogether},
	})
}

// infraAndWorkers describes a cluster without zones. The first worker has no pods,
// so that those that are moved have somewhere to go.
func infraAndWorkers(workers int) []lab.NodeSpec {
	infra := map[string]string{"node-role.kubernetes.io/infra": ""}
	specs := []lab.NodeSpec{
		{Name: replicated[0], Labels: infra, Pods: 1, Replicated: true},
		{Name: replicated[1], Labels: infra, Pods: 2, Replicated: true},
		{Name: bare, Labels: infra, Pods: 3},
	}
	for i := range workers {
		specs = append(specs, lab.NodeSpec{Name: fmt.Sprintf("worker-%d", i), Pods: 1})
	}
	specs[len(specs)-1].Pods = 0
	return specs
}

// migrateDraining: what can be moved is moved and loses nothing, what cannot stays
// and loses nothing either, and every cordon of ours is undone.
func migrateDraining(c *cluster) {
	stay, err := c.Lab.Pods(c.ctx, bare)
	require.NoError(c.t, err)
	require.Len(c.t, stay, 3)
	require.NoError(c.t, c.Lab.Cordon(c.ctx, byHand))
	e := c.begin("onto drained nodes")
	require.NoError(c.t, c.CreatePool(c.ctx, func(o *v1alpha1.RouteReflectorPool) {
		hasty(o)
		o.Spec.Provider.ExistingNodes.Promotion = v1alpha1.PromotionDrain
		o.Spec.Provider.ExistingNodes.Preferred.MatchLabels = map[string]string{"node-role.kubernetes.io/infra": ""}
	}))
	reflectors := c.waitReflectors("three reflectors", func(h []string) bool { return len(h) == 3 })
	require.Equal(c.t, append(slices.Clone(replicated), bare), reflectors)
	c.requireMesh(false)
	require.Equal(c.t, []string{byHand}, c.cordoned(), "ours are undone, a person's is not")
	left, err := c.Lab.Pods(c.ctx, bare)
	require.NoError(c.t, err)
	require.Subset(c.t, left, stay, "pods without a controller stay")
	events := [][]string{{"PodsStay", bare, stay[0]}}
	for _, n := range replicated {
		events = append(events, []string{"NodeCordoned", n}, []string{"PodsEvicted", n}, []string{"NodeUncordoned", n})
	}
	c.requireEvents(e, events...)
	c.requireLostNothing(e)
	report := c.lost(e)
	for _, moved := range []struct{ from, when string }{{replicated[0], "before"}, {replicated[1], "before"}, {"worker-4", "after"}} {
		sent, _ := report.Only(moved.from, "worker-1").Totals()
		require.Greater(c.t, sent, 500, "pods that were moved were probed on %s, %s", moved.from, moved.when)
	}
}

// growStaged: one more reflector, without loss.
func growStaged(c *cluster) {
	before := c.reflectors()
	e := c.begin("one more, staged")
	c.edit(func(spec *v1alpha1.RouteReflectorPoolSpec) {
		spec.Provider.ExistingNodes.Promotion = v1alpha1.PromotionStaged
		spec.Sizing.Min = 4
	})
	after := c.waitReflectors("four reflectors", func(h []string) bool { return len(h) == 4 })
	c.requireEvents(e, []string{"ReflectorAdded", newOne(before, after)})
	require.Empty(c.t, c.meshWrites(e))
	c.requireLostNothing(e)
}

// crossThreshold: there are as many nodes as the next step of the sizing needs; one of them goes, and comes back.
func crossThreshold(c *cluster) {
	before := c.reflectors()
	nodes := c.Lab.Nodes()
	c.edit(func(spec *v1alpha1.RouteReflectorPoolSpec) {
		spec.Sizing = v1alpha1.SizingSpec{
			Method: v1alpha1.SizingStepping, Min: 3, MinPerZone: 1, Max: 25,
			Steps: []v1alpha1.SizingStep{{UpToNodes: int32(len(nodes) - 1), Reflectors: 3}, {UpToNodes: 100, Reflectors: 4}},
		}
	})
	c.reflectors()
	e := c.begin("a node at the threshold comes and goes")
	count := func(n int) func(*v1alpha1.RouteReflectorPool) bool {
		return func(o *v1alpha1.RouteReflectorPool) bool { return int(o.Status.Nodes) == n && ready(o) }
	}
	require.NoError(c.t, c.Lab.RemoveNode(c.ctx, byHand))
	c.waitFor("one node less", count(len(nodes)-1))
	time.Sleep(5 * time.Second)
	require.NoError(c.t, c.Lab.AddNodes(c.ctx, lab.NodeSpec{Name: byHand, Pods: 1}))
	c.waitFor("one node more", count(len(nodes)))
	require.ElementsMatch(c.t, before, c.reflectors())
	for _, one := range c.requireEvents(e) {
		require.NotContains(c.t, []string{"ReflectorAdded", "ReflectorRemoved", "PeerWritten", "PoolChanged"}, one.Reason, "%s", one)
	}
	c.requireLostNothing(e, byHand)
}

// shrinkStaged: one reflector less, without loss.
func shrinkStaged(c *cluster) {
	e := c.begin("one less, staged")
	c.edit(func(spec *v1alpha1.RouteReflectorPoolSpec) {
		spec.Sizing = v1alpha1.SizingSpec{Method: v1alpha1.SizingPerHundred, Min: 3, MinPerZone: 1, Max: 25}
	})
	after := c.waitReflectors("three reflectors", func(h []string) bool { return len(h) == 3 })
	require.Equal(c.t, append(slices.Clone(replicated), bare), after, "those that were there first stay")
	c.requireEvents(e, []string{"ReflectorRemoved", "is more than the 3 wanted"})
	require.Empty(c.t, c.meshWrites(e))
	c.requireLostNothing(e)
}
