// Package selection chooses, among the nodes that are already there, those that
// become route reflectors. It is pure and deterministic: the same nodes and rules
// give the same choice, in whatever order the nodes come.
package selection

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/rrpool/rrpool/controllers/plan"
)

// Rules say how many nodes are wanted, and which.
type Rules struct {
	// PerZone nodes are wanted in each of Zones; "" is the zone of nodes without one.
	PerZone int
	Zones   []string
	// Preferred nodes are chosen first, Excluded ones never; nil for no such rule.
	Preferred, Excluded labels.Selector
	// Lost says of a node that it has been NotReady for too long; nil: any that is
	// NotReady.
	Lost func(plan.Node) bool
}

// Total is how many nodes are wanted in all.
func (r Rules) Total() int { return r.PerZone * len(r.Zones) }

// Unfit says why a node can neither be chosen nor kept, "" when it can. Being
// NotReady for a moment is no such reason.
func (r Rules) Unfit(n plan.Node) string {
	switch {
	case !n.SpeaksBGP():
		return "it announces no BGP address"
	case n.Deleting:
		return "it is being deleted"
	case n.Leaving:
		return "it is tainted for shutdown"
	case n.Cordoned && !n.CordonedByUs:
		return "it is cordoned"
	case r.Excluded != nil && !r.Excluded.Empty() && r.Excluded.Matches(labels.Set(n.Labels)):
		return "spec.provider.existingNodes.excluded selects it"
	case n.ClusterID != "" && !n.Marked:
		return "it is somebody else's route reflector"
	case !slices.Contains(r.Zones, n.Zone):
		return fmt.Sprintf("its zone %q gets no route reflectors", n.Zone)
	}
	return ""
}

// Choose gives the nodes that should be in the pool, sorted by name: at most
// Total, fewer when there are not enough. Nodes of the pool stay unless they are
// unfit or lost, or another zone can take back the share that it had lent. A zone
// with too few nodes lends its share to the others.
func Choose(nodes []plan.Node, r Rules) []plan.Node {
	zones := map[string]*zone{}
	for _, name := range r.Zones {
		zones[name] = &zone{name: name}
	}
	anyKept := false
	for _, n := range nodes {
		if r.Unfit(n) != "" {
			continue
		}
		switch z := zones[n.Zone]; {
		case n.Pooled && !r.lost(n):
			z.kept, anyKept = append(z.kept, n), true
		case !n.Pooled && n.Ready:
			z.fresh = append(z.fresh, n)
		}
	}
	order := r.compare
	if !anyKept {
		order = r.firstBefore(nodes)
	}
	var chosen []plan.Node
	for _, z := range r.share(zones) {
		slices.SortFunc(z.kept, keep)
		slices.SortFunc(z.fresh, order)
		chosen = append(chosen, append(z.kept, z.fresh...)[:z.share]...)
	}
	slices.SortFunc(chosen, func(a, b plan.Node) int { return cmp.Compare(a.Name, b.Name) })
	return chosen
}

// Cheapest gives the node whose promotion disturbs the fewest pods, as the first
// reflector of a cluster should be: preferred ones first, then those with the
// fewest pods, then control-plane nodes, then the oldest. It is false without nodes.
func Cheapest(nodes []plan.Node, r Rules) (plan.Node, bool) {
	if len(nodes) == 0 {
		return plan.Node{}, false
	}
	return slices.MinFunc(nodes, r.cheaper), true
}

// zone is what one zone has to offer.
type zone struct {
	name        string
	kept, fresh []plan.Node
	share       int
}

func (z *zone) room() bool { return z.share < len(z.kept)+len(z.fresh) }

// share gives each zone its number of nodes, and what a zone cannot take to others:
// first to where such nodes are already, then to where the fewest are.
func (r Rules) share(zones map[string]*zone) []*zone {
	var all []*zone
	left := r.Total()
	for _, z := range zones {
		z.share = min(r.PerZone, len(z.kept)+len(z.fresh))
		left -= z.share
		all = append(all, z)
	}
	slices.SortFunc(all, func(a, b *zone) int { return cmp.Compare(a.name, b.name) })
	for ; left > 0; left-- {
		open := slices.DeleteFunc(slices.Clone(all), func(z *zone) bool { return !z.room() })
		if len(open) == 0 {
			break
		}
		slices.MinFunc(open, func(a, b *zone) int {
			return cmp.Or(
				plan.TrueFirst(len(a.kept) > a.share, len(b.kept) > b.share),
				cmp.Compare(a.share, b.share), cmp.Compare(a.name, b.name),
			)
		}).share++
	}
	return all
}

func (r Rules) lost(n plan.Node) bool {
	if r.Lost == nil {
		return !n.Ready
	}
	return r.Lost(n)
}

// keep orders the nodes of the pool: those in the role first, then those that
// have been Ready for longest, so that one that flaps goes before one that does not.
func keep(a, b plan.Node) int {
	return cmp.Or(
		plan.TrueFirst(a.Marked && a.RoleLabel, b.Marked && b.RoleLabel),
		plan.TrueFirst(a.Marked, b.Marked),
		plan.TrueFirst(a.Ready, b.Ready),
		a.ReadyChanged.Compare(b.ReadyChanged),
		a.Created.Compare(b.Created),
		cmp.Compare(a.Name, b.Name),
	)
}

// compare orders nodes that could join.
func (r Rules) compare(a, b plan.Node) int {
	return cmp.Or(
		plan.TrueFirst(r.prefers(a), r.prefers(b)),
		a.Created.Compare(b.Created),
		cmp.Compare(a.Name, b.Name),
	)
}

// cheaper orders nodes by what their promotion as the first one would disturb.
func (r Rules) cheaper(a, b plan.Node) int {
	return cmp.Or(
		plan.TrueFirst(r.prefers(a), r.prefers(b)),
		cmp.Compare(pods(a), pods(b)),
		plan.TrueFirst(a.ControlPlane, b.ControlPlane),
		r.compare(a, b),
	)
}

// firstBefore orders as compare does, with the cheapest node of all before the others.
func (r Rules) firstBefore(nodes []plan.Node) func(a, b plan.Node) int {
	fit := slices.DeleteFunc(slices.Clone(nodes), func(n plan.Node) bool { return !n.Ready || r.Unfit(n) != "" })
	first, _ := Cheapest(fit, r)
	return func(a, b plan.Node) int {
		return cmp.Or(plan.TrueFirst(a.Name == first.Name, b.Name == first.Name), r.compare(a, b))
	}
}

func (r Rules) prefers(n plan.Node) bool {
	return r.Preferred != nil && !r.Preferred.Empty() && r.Preferred.Matches(labels.Set(n.Labels))
}

// pods is how many pods a node runs; one that nobody has counted has many.
func pods(n plan.Node) int {
	if n.Pods == nil {
		return math.MaxInt
	}
	return *n.Pods
}
