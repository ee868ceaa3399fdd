package pool

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/controllers/plan"
)

// ExistingPool is the name of the pool that existing nodes make up.
const ExistingPool = "existing-nodes"

// busy: the route reflectors are nodes that run workloads too.
func (t *turn) busy() bool { return t.origin.kind == v1alpha1.ProviderExistingNodes }

// existingConfig describes the choice among existing nodes. A selector that cannot
// be read selects nothing here: the way back needs none, and desire refuses the rest.
func existingConfig(object *v1alpha1.RouteReflectorPool) ProviderConfig {
	preferred, excluded, _ := selectors(object.Spec.Provider.ExistingNodes)
	return ProviderConfig{
		Type:          v1alpha1.ProviderExistingNodes,
		PoolName:      ExistingPool,
		Scope:         scopeOf(object),
		Preferred:     preferred.String(),
		Excluded:      excluded.String(),
		NotReadyGrace: object.Spec.Rollout.NotReadyGrace.Duration,
	}
}

// selectors reads the selectors of nodes; one that is wrong is empty and a problem.
func selectors(spec v1alpha1.ExistingNodesSpec) (preferred, excluded labels.Selector, problem *plan.Problem) {
	read := func(field string, in metav1.LabelSelector) labels.Selector {
		out, err := metav1.LabelSelectorAsSelector(&in)
		if err != nil {
			problem = selectorProblem(field, in, err)
			return labels.Everything()
		}
		return out
	}
	return read("preferred", spec.Preferred), read("excluded", spec.Excluded), problem
}

// enlisted is fillIn for nodes that were there before: each is its own machine, and
// belongs to the pool when it says so.
func enlisted(nodes []plan.Node) {
	for i := range nodes {
		nodes[i].WorkerID = nodes[i].Name
		nodes[i].Pooled = nodes[i].Labels[PoolLabel] == ExistingPool
	}
}

// anyPooled reports whether some node belongs to the pool.
func anyPooled(nodes []plan.Node) bool {
	return slices.ContainsFunc(nodes, func(n plan.Node) bool { return n.Pooled })
}
