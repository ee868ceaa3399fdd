package selection

import (
	"cmp"
	"slices"

	"github.com/rrpool/rrpool/controllers/plan"
)

// Choose returns the nodes that should be in the pool, sorted by name: Total nodes, or fewer if there are not enough.
//
// If a zone has fewer than PerZone nodes, other zones get the rest of its share: first those that have more than PerZone nodes in the pool
// already, then those that have fewest.
//
// Nodes that count (see Rules.Counts) stay while there are no more than Total of them, with one
// exception: if a zone has nodes for its share again, zones with more than PerZone give nodes up. In a
// zone, nodes that are no reflectors go first, then those that have been Ready for the shortest time.
func Choose(nodes []plan.Node, r Rules) []plan.Node {
	r = r.Of(nodes)
	var chosen []plan.Node
	for _, z := range r.share(r.sortIntoZones(nodes)) {
		chosen = append(chosen, z.nodes[:z.share]...)
	}
	slices.SortFunc(chosen, func(a, b plan.Node) int { return cmp.Compare(a.Name, b.Name) })
	return chosen
}

// Next returns the node that should join the pool next, and whether there is one. While no node counts, it is the cheapest
// node. Later it is a reflector that has lost the pool's label, or else a node of the zone with the fewest members.
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
			r.compareJoining(a, b),
		)
	}), true
}

// Cheapest returns the node to promote as the first reflector of a cluster: a preferred one, then one with
// the fewest pods, then a control-plane node, then the oldest. If there are no nodes, it returns false.
func Cheapest(nodes []plan.Node, r Rules) (plan.Node, bool) {
	if len(nodes) == 0 {
		return plan.Node{}, false
	}
	return slices.MinFunc(nodes, r.compareCost), true
}

// zone holds the nodes of a zone in the order in which they are chosen. The
// first ones, kept of them, count already. The first share of them are chosen.
type zone struct {
	nodes []plan.Node
	kept  int
	share int
}

// sortIntoZones returns the zones, in each the nodes that count before those that may join.
// While no node counts in any zone, the cheapest node of all comes first in its zone.
func (r Rules) sortIntoZones(nodes []plan.Node) []*zone {
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
	order := r.compareJoining
	if first, ok := Cheapest(eligible, r); ok && len(kept) == 0 {
		order = func(a, b plan.Node) int {
			return cmp.Or(plan.TrueFirst(a.Name == first.Name, b.Name == first.Name), r.compareJoining(a, b))
		}
	}
	var out []*zone
	for _, name := range r.zoneNames() {
		slices.SortFunc(kept[name], compareKept)
		slices.SortFunc(fresh[name], order)
		out = append(out, &zone{nodes: append(kept[name], fresh[name]...), kept: len(kept[name])})
	}
	return out
}

// share sets how many nodes to choose from each zone.
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
		slices.MinFunc(open, r.compareBorrowing).share++
	}
	return zones
}

// compareBorrowing compares zones that have a node left to choose: first
// zones whose next node counts already, then those with the smallest share.
func (r Rules) compareBorrowing(a, b *zone) int {
	order := r.compareJoining
	if a.share < a.kept {
		order = compareKept
	}
	return cmp.Or(
		plan.TrueFirst(a.share < a.kept, b.share < b.kept), cmp.Compare(a.share, b.share), order(a.nodes[a.share], b.nodes[b.share]),
	)
}
