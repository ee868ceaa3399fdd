package cost

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/rrpool/rrpool/cloud/cost"
	"github.com/rrpool/rrpool/config/api/v1alpha1"
)

// Which nodes are paid for as the pool, and as what; `rrpool status` asks the same.
func TestPoolOf(t *testing.T) {
	ours := nodesOf(1, frankfurt[:1], ibm, labelled("bx2.2x8.encrypted", "eu-de", v1alpha1.PoolLabel, "route-reflectors", "example.com/room", "7"))
	others := nodesOf(2, frankfurt, ibm, labelled("bx2.4x16", "eu-de", v1alpha1.PoolLabel, "somebody-else"))
	bare := nodesOf(2, frankfurt[:1], "", map[string]string{v1alpha1.PoolLabel: "existing-nodes"})
	for name, tc := range map[string]struct {
		edit     func(*v1alpha1.RouteReflectorPool)
		nodes    []corev1.Node
		workers  []cost.Worker
		existing bool
	}{
		"workers of IBM's": {nil, slices.Concat(ours, others), []cost.Worker{{Zone: "eu-de-1", Region: "eu-de", Flavor: "bx2.2x8"}}, false},
		"zones by another label": {func(o *v1alpha1.RouteReflectorPool) { o.Spec.Topology.ZoneLabel = "example.com/room" }, ours, []cost.Worker{{
			Zone: "7", Region: "eu-de", Flavor: "bx2.2x8",
		}}, false},
		"nodes of nobody's":   {nil, bare, []cost.Worker{{Zone: "eu-de-1"}, {Zone: "eu-de-1"}}, true},
		"the spec says it":    {func(o *v1alpha1.RouteReflectorPool) { o.Spec.Provider.Type = v1alpha1.ProviderIKS }, bare, nil, false},
		"the manager knows":   {func(o *v1alpha1.RouteReflectorPool) { o.Status.Provider = "existing" }, others[:1], []cost.Worker{{Zone: "eu-de-1", Region: "eu-de", Flavor: "bx2.4x16"}}, true},
		"a pool without node": {nil, others, nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			workers, existing := PoolOf(poolObject(tc.edit), tc.nodes)
			require.Equal(t, tc.workers, workers)
			require.Equal(t, tc.existing, existing)
		})
	}
}
