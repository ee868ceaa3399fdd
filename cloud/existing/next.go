package existing

import (
	"cmp"
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

// next gives the one next change towards want. Nodes join before others
// leave, except for those that the caller says are out of service.
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
	return step{progress: stillMissing(others, chosen, rules)}
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
// the routes of the next reflectors, and must not wait for pods to be counted.
func unserved(nodes []plan.Node, rules selection.Rules) bool {
	return !slices.ContainsFunc(nodes, func(n plan.Node) bool {
		return rules.Counts(n) || n.Ready && n.Marked && n.RoleLabel
	})
}

// checkSpec refuses what existing nodes cannot be given. Of Labels only the marks
// of a pool are accepted: membership stands for them.
func (p *Provider) checkSpec(want cloud.PoolSpec) error {
	if want.SizePerZone < 1 {
		return cloud.InvalidSpec("size per zone is %d, it must be at least 1", want.SizePerZone)
	}
	zones := slices.Sorted(slices.Values(want.Zones))
	for i := 1; i < len(zones); i++ {
		if zones[i] == zones[i-1] {
			return cloud.InvalidSpec("zone %q is listed twice; list it once", zones[i])
		}
	}
	if want.Flavor != "" {
		return cloud.InvalidSpec("flavor is %q, but existing nodes are as they are; leave it empty", want.Flavor)
	}
	if len(want.Taints) > 0 {
		return cloud.InvalidSpec("taint %q is given, but existing nodes run workloads and are never tainted; leave taints empty", want.Taints[0].Key)
	}
	for _, key := range slices.Sorted(maps.Keys(want.Labels)) {
		value := want.Labels[key]
		mark := key == v1alpha1.ManagedByLabel && value == v1alpha1.ManagedByValue || key == v1alpha1.PoolLabel && value == p.cfg.PoolName
		if !mark {
			return cloud.InvalidSpec("label %s=%s is given, but membership of pool %q is all that is written to existing nodes; leave it out",
				key, value, p.cfg.PoolName)
		}
	}
	return nil
}

// stillMissing says what is missing when nothing can be changed.
func stillMissing(nodes, chosen []plan.Node, rules selection.Rules) cloud.Progress {
	var missing []string
	switch short := rules.Total() - len(chosen); {
	case rules.Total() == 0:
		missing = append(missing, "the cluster to have a node that announces a BGP address")
	case short > 0:
		missing = append(missing, fmt.Sprintf("%d more eligible nodes (%s)", short, whyNotOthers(nodes, rules)))
	}
	for _, n := range nodes {
		if text := problemOf(n, chosen, rules); n.Pooled && text != "" {
			missing = append(missing, place(n)+" "+text)
		}
	}
	if len(missing) == 0 {
		return cloud.Progress{Done: true}
	}
	return cloud.Progress{WaitingFor: cloud.Capped(missing, "; ")}
}

// problemOf says what has to become of a member, "" for nothing.
func problemOf(n plan.Node, chosen []plan.Node, rules selection.Rules) string {
	switch reason := rules.Unfit(n); {
	case reason != "":
		return "to be retired: " + reason
	case !rules.Counts(n):
		return "to be Ready again, or replaced"
	case !slices.ContainsFunc(chosen, func(c plan.Node) bool { return c.Name == n.Name }):
		return fmt.Sprintf("to be retired: it is more than the %d wanted", rules.Total())
	case !n.Ready:
		return "to be Ready again"
	}
	return ""
}

// whyNotOthers says why nodes that are not in the pool cannot join, the likeliest
// first: those that need only become Ready, then those that speak BGP.
func whyNotOthers(nodes []plan.Node, rules selection.Rules) string {
	others := slices.DeleteFunc(slices.Clone(nodes), func(n plan.Node) bool { return n.Pooled })
	slices.SortFunc(others, func(a, b plan.Node) int {
		return cmp.Or(
			plan.TrueFirst(rules.Unfit(a) == "", rules.Unfit(b) == ""),
			plan.TrueFirst(a.SpeaksBGP(), b.SpeaksBGP()),
			cmp.Compare(a.Name, b.Name),
		)
	})
	var reasons []string
	for _, n := range others {
		reasons = append(reasons, fmt.Sprintf("%s: %s", n.Name, cmp.Or(rules.Unfit(n), "it is NotReady")))
	}
	if len(reasons) == 0 {
		return "there are no others"
	}
	return cloud.Capped(reasons, ", ")
}
