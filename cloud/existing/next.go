package existing

import (
	"fmt"
	"maps"
	"slices"

	"github.com/rrpool/rrpool/cloud"
	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/controllers/plan"
	"github.com/rrpool/rrpool/controllers/plan/selection"
)

// step is one change of membership, or (without a node) the answer that there
// is nothing to change.
type step struct {
	node plan.Node
	// join the pool, or leave it.
	join     bool
	progress cloud.Progress
}

// next gives the one next change towards want. Who comes does so before anybody
// goes, except for those that the caller says are out of service.
func next(nodes []plan.Node, rules selection.Rules, want cloud.PoolSpec) step {
	retired := func(n plan.Node) bool { return slices.Contains(want.Retire, n.Name) }
	replaced := func(n plan.Node) bool { return slices.Contains(want.Replace, n.Name) }
	if n, ok := member(nodes, retired); ok {
		return step{node: n}
	}
	// Whoever is named and has left already must not come back by the next call.
	others := slices.DeleteFunc(slices.Clone(nodes), func(n plan.Node) bool {
		return !n.Pooled && (retired(n) || replaced(n))
	})
	if n, ok := selection.Next(others, rules); ok {
		return step{node: n, join: true}
	}
	chosen := selection.Choose(others, rules)
	dead := func(n plan.Node) bool { return replaced(n) && !rules.Counts(n) }
	if n, ok := member(others, dead); ok && len(chosen) >= rules.Total() {
		return step{node: n}
	}
	return step{progress: rest(others, chosen, rules)}
}

// member gives the first member of the pool that is so.
func member(nodes []plan.Node, so func(plan.Node) bool) (plan.Node, bool) {
	i := slices.IndexFunc(nodes, func(n plan.Node) bool { return n.Pooled && so(n) })
	if i < 0 {
		return plan.Node{}, false
	}
	return nodes[i], true
}

// unserved: no node counts and none is in the role, so the next one to join is the
// first reflector. Nodes that reflect but are to go, all cordoned for instance, carry
// the routes of whoever follows them, and must not wait for pods to be counted.
func unserved(nodes []plan.Node, rules selection.Rules) bool {
	return !slices.ContainsFunc(nodes, func(n plan.Node) bool {
		return rules.Counts(n) || n.Ready && n.Marked && n.RoleLabel
	})
}

// checkSpec refuses what existing nodes cannot be given. Of Labels only the marks
// of a pool are accepted: membership stands for them.
func (p *Provider) checkSpec(want cloud.PoolSpec) error {
	if want.SizePerZone < 1 {
		return invalid("size per zone is %d, it must be at least 1", want.SizePerZone)
	}
	zones := slices.Sorted(slices.Values(want.Zones))
	for i := 1; i < len(zones); i++ {
		if zones[i] == zones[i-1] {
			return invalid("zone %q is listed twice; list it once", zones[i])
		}
	}
	if want.Flavor != "" {
		return invalid("flavor is %q, but existing nodes are as they are; leave it empty", want.Flavor)
	}
	if len(want.Taints) > 0 {
		return invalid("taint %q is given, but existing nodes run workloads and are never tainted; leave taints empty", want.Taints[0].Key)
	}
	for _, key := range slices.Sorted(maps.Keys(want.Labels)) {
		value := want.Labels[key]
		mark := key == v1alpha1.ManagedByLabel && value == v1alpha1.ManagedByValue || key == v1alpha1.PoolLabel && value == p.cfg.PoolName
		if !mark {
			return invalid("label %s=%s is given, but membership of pool %q is all that is written to existing nodes; leave it out",
				key, value, p.cfg.PoolName)
		}
	}
	return nil
}

func invalid(format string, args ...any) error {
	return &cloud.Error{Kind: cloud.InvalidInput, Op: "checking the wanted pool", Message: fmt.Sprintf(format, args...)}
}
