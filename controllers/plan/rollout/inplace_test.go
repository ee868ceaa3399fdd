package rollout_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/rrpool/rrpool/config/api/v1alpha1"
)

// announced: a step has said that these two would lose each other.
func (w *world) announced(a, b *machine) bool {
	return slices.ContainsFunc([]string{a.Name, b.Name, pair(a.Name, b.Name)}, func(name string) bool { return w.now.Before(w.excused[name]) })
}

var promotions = rapid.SampledFrom([]v1alpha1.Promotion{
	v1alpha1.PromotionStaged, v1alpha1.PromotionCordon, v1alpha1.PromotionDrain, v1alpha1.PromotionImmediate,
})

func drawInPlaceWorld(t *rapid.T, nodes, idle *rapid.Generator[int]) *world {
	t.Helper()
	seed := rapid.Uint64().Draw(t, "seed")
	return newInPlaceWorld(seed, nodes.Draw(t, "nodes"), idle.Draw(t, "idle"), rapid.IntRange(1, 3).Draw(t, "zones"))
}

func TestInPlaceNodesMigrateAndReturnWithoutLosingARoute(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		w := drawInPlaceWorld(t, rapid.IntRange(5, 9), rapid.IntRange(0, 2))
		w.d.Promotion = promotions.Draw(t, "promotion")
		w.hold(t, w.settle())
		require.False(t, w.bgp.MeshOn())
		require.Len(t, w.reflectors(), w.d.Pool.SizePerZone*len(w.d.Pool.Zones))
		require.Len(t, w.watches, len(w.reflectors()), "one status a reflector, whatever the cluster's size")

		w.d.Mode = v1alpha1.ModeFullMesh
		w.hold(t, w.settle())
		require.Empty(t, w.reflectors())
		require.Empty(t, w.peers)
		for _, m := range w.nodes {
			require.False(t, m.Cordoned || m.Pooled, m.Name)
		}
	})
}

// The same with anything happening in between: drift, cordons, changes of the spec, failures that Kubernetes sees
// and others, refusals, and a manager that is killed or away.
func TestInPlaceNodesHoldTheInvariantsInAnyOrderOfDisturbances(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		w := drawInPlaceWorld(t, rapid.IntRange(4, 8), rapid.IntRange(0, 1))
		w.regular = rapid.Bool().Draw(t, "regular")
		w.d.Timer = rapid.IntRange(0, 5).Draw(t, "timer") == 0
		if rapid.Bool().Draw(t, "settled") {
			if v := w.settle(); !strings.HasPrefix(v, unsettled) { // four nodes in three zones may wait for a fifth
				w.hold(t, v)
			}
		}
		w.suffer(t, inPlaceEvents(!w.d.Timer), w.run)
		w.narrative = append(w.narrative, "##### everything returns")
		w.everythingReturns()
		w.hold(t, w.run(60))
		w.hold(t, w.settle())
		// There is what the mode wants and nothing else.
		require.Equal(t, w.d.Mode == v1alpha1.ModeFullMesh, w.bgp.MeshOn())
		for _, m := range w.nodes {
			require.False(t, m.CordonedByUs, m.Name)
		}
		peers := 0
		if n := len(w.reflectors()); w.d.Mode != v1alpha1.ModeFullMesh {
			peers = 1 + n*(n-1)/2
		}
		require.Len(t, w.peers, peers)
	})
}
