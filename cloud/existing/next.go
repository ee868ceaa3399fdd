package existing

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"

	"github.com/rrpool/rrpool/cloud"
	"github.com/rrpool/rrpool/controllers/plan"
	"github.com/rrpool/rrpool/controllers/plan/selection"
)

// unserved: no node counts and none is in the role, so the next one to join is the
// first reflector. Nodes that reflect but are to go, all cordoned for instance, carry
// the routes of the next reflectors, and must not wait for pods to be counted.
func unserved(nodes []plan.Node, rules selection.Rules) bool {
	return !slices.ContainsFunc(nodes, func(n plan.Node) bool {
		return rules.Counts(n) || n.Ready && n.Marked && n.RoleLabel
	})
}

// checkSpec refuses what existing nodes cannot be given.
func checkSpec(want cloud.PoolSpec) error {
	if want.SizePerZone < 1 {
		return cloud.InvalidSpec("size per zone is %d, it must be at least 1", want.SizePerZone)
	}
	for i, zone := range want.Zones {
		if slices.Contains(want.Zones[:i], zone) {
			return cloud.InvalidSpec("zone %q is listed twice; list it once", zone)
		}
	}
	if want.Flavor != "" || len(want.Taints) > 0 || !reflect.ValueOf(want.Options).IsZero() {
		return cloud.InvalidSpec("a flavor, taints or options are given, but existing nodes stay as they are; leave these empty")
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
