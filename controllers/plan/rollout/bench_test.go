package rollout_test

import (
	"cmp"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/controllers/plan"
	"github.com/rrpool/rrpool/controllers/plan/rollout"
)

// BenchmarkNext measures one decision of a large cluster at rest.
func BenchmarkNext(b *testing.B) {
	for kind, reflectors := range map[v1alpha1.TopologyType]int{v1alpha1.TopologySingle: 24, v1alpha1.TopologyQuorum: 24, v1alpha1.TopologyHierarchy: 12} {
		w := newWorld(1, 12, 3)
		require.Empty(b, w.want(kind, 3, reflectors))
		require.Empty(b, w.settle(), w.story())
		w.now, w.d.Topology.MaxClients = w.now.Add(time.Hour), 50_000
		for _, nodes := range []int{1000, 5000, 50_000} {
			w.crowd = nodes - 12
			o := w.observe()
			slices.SortFunc(o.Nodes, func(a, b plan.Node) int { return cmp.Compare(a.Name, b.Name) })
			b.Run(fmt.Sprintf("%s-%d", kind, nodes), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					require.Equal(b, rollout.Steady, rollout.Next(o, w.d, w.clock()).Name)
				}
			})
		}
	}
}
