package existing

import (
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

// stillMissing says what is missing when nothing can be changed. Why other nodes cannot be chosen the plan says.
func stillMissing(nodes, chosen []plan.Node, rules selection.Rules) cloud.Progress {
	var missing []string
	if total := rules.Total(); len(chosen) < max(total, 1) {
		missing = append(missing, fmt.Sprintf("nodes that can be chosen: %d of %d are there", len(chosen), total))
	}
	for _, n := range nodes {
		stays := n.Ready && slices.ContainsFunc(chosen, func(c plan.Node) bool { return c.Name == n.Name })
		if n.Pooled && !stays {
			missing = append(missing, place(n)+" to be Ready and fit, or retired")
		}
	}
	if len(missing) == 0 {
		return cloud.Progress{Done: true}
	}
	return cloud.Progress{WaitingFor: cloud.Capped(missing, "; ")}
}
