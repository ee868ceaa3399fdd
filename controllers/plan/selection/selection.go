package selection

import (
	"cmp"
	"slices"

	"github.com/rrpool/rrpool/controllers/plan"
)

// Choose gives the nodes that should be in the pool, sorted by name: at most
// Total, fewer when there are not enough.
//
// A zone with fewer than PerZone nodes lends the rest of its share to the others: first to where more than PerZone
// are in the pool already, then to where the fewest are.
//
// Nodes that count (see Rules.Counts) stay as long as there are no more than Total of them, but for one case: a
// zone that had lent has a node of its own again and takes its share back. Then a zone with more than PerZone gives
// a node up. Among several of a zone the last in the role, least steadily Ready goes.
func Choose(nodes []plan.Node, r Rules) []plan.Node {
	r = r.Of(nodes)
	var chosen []plan.Node
	for _, z := range r.share(r.sortOut(nodes)) {
		chosen = append(chosen, z.nodes[:z.share]...)
	}
	slices.SortFunc(chosen, func(a, b plan.Node) int { return cmp.Compare(a.Name, b.Name) })
	return chosen
}

// Next gives the one node that should join the pool next, false when none should: one in our service that lost the
// pool's label; the cheapest, where nothing counts yet; else one of the zone with the fewest.
func Next(nodes []plan.Node, r Rules) (plan.Node, bool) {
	r = r.Of(nodes)
	members, counted := map[string]int{}, false
	for _, n := range nodes {
		if r.Counts(n) {
			members[n.Zone]++
			counted = true
		}
	}
	joining := slices.DeleteFunc(Choose(nodes, r), func(n plan.Node) bool { return n.Pooled })
	if !counted || len(joining) == 0 {
		return Cheapest(joining, r)
	}
	return slices.MinFunc(joining, func(a, b plan.Node) int {
		return cmp.Or(
			plan.TrueFirst(a.Marked, b.Marked),
			cmp.Compare(members[a.Zone], members[b.Zone]),
			r.compare(a, b),
		)
	}), true
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
	// nodes in the order in which they are taken, the first kept of which count already.
	nodes []plan.Node
	kept  int
	share int
}

// sortOut puts the nodes that count, and those that could join, into their
// zones, best first. While none counts, the cheapest of all comes first.
func (r Rules) sortOut(nodes []plan.Node) []*zone {
	kept, fresh := map[string][]plan.Node{}, map[string][]plan.Node{}
	var eligible []plan.Node
	for _, n := range nodes {
		switch {
		case r.Counts(n):
			kept[n.Zone] = append(kept[n.Zone], n)
		case r.Eligible(n):
			fresh[n.Zone] = append(fresh[n.Zone], n)
			eligible = append(eligible, n)
		}
	}
	order := r.compare
	if first, ok := Cheapest(eligible, r); ok && len(kept) == 0 {
		order = func(a, b plan.Node) int {
			return cmp.Or(plan.TrueFirst(a.Name == first.Name, b.Name == first.Name), r.compare(a, b))
		}
	}
	var out []*zone
	for _, name := range r.zoneNames() {
		slices.SortFunc(kept[name], keep)
		slices.SortFunc(fresh[name], order)
		out = append(out, &zone{nodes: append(kept[name], fresh[name]...), kept: len(kept[name])})
	}
	return out
}

// share gives each zone its number of nodes, and what a zone cannot take to others.
func (r Rules) share(zones []*zone) []*zone {
	left := r.Total()
	for _, z := range zones {
		z.share = min(max(r.PerZone, 0), len(z.nodes))
		left -= z.share
	}
	for ; left > 0; left-- {
		open := slices.DeleteFunc(slices.Clone(zones), func(z *zone) bool { return z.share == len(z.nodes) })
		if len(open) == 0 {
			break
		}
		slices.MinFunc(open, r.borrowsFirst).share++
	}
	return zones
}

// borrowsFirst orders zones that have room for one more.
func (r Rules) borrowsFirst(a, b *zone) int {
	order := r.compare
	if a.share < a.kept {
		order = keep
	}
	return cmp.Or(
		plan.TrueFirst(a.share < a.kept, b.share < b.kept), cmp.Compare(a.share, b.share), order(a.nodes[a.share], b.nodes[b.share]),
	)
}
