package simulate

import "slices"

// held is a route that nodes of a class have and may pass on.
type held struct {
	class int
	list  int32
	// client: they have it from a client.
	client bool
	// before is where they have it from: an index, or -1 for the origin.
	before int
}

// followed is how many different routes of one origin are followed at most, which no
// network that somebody meant comes near.
const followed = 1 << 16

// spread follows the routes of a node of class origin, and calls visit for each class
// that learns them: from the origin (-1), or from whoever holds the route of that index.
// Of routes that the same class holds only those are followed that may get further than
// the others. It ends early when visit says so.
func (g *graph) spread(origin int, visit func(from int, sender, to int) bool) []held {
	var all []held
	byClass := make([][]int, len(g.size))
	learn := func(h held) {
		if !g.reflects(h.class, h.list) || len(all) >= followed {
			return
		}
		for _, i := range byClass[h.class] {
			if o := &all[i]; (o.client || !h.client) && g.lists.within(o.list, h.list) {
				return
			}
		}
		byClass[h.class] = append(byClass[h.class], len(all))
		all = append(all, h)
	}
	for _, l := range g.links[origin] {
		if g.others(l.to, origin, -1) < 1 {
			continue
		}
		if !visit(-1, origin, l.to) {
			return all
		}
		learn(held{l.to, 0, l.served, -1})
	}
	for i := 0; i < len(all); i++ {
		h := all[i]
		list := g.lists.add(h.list, g.id[h.class])
		for _, l := range g.links[h.class] {
			if !g.passes(origin, h.class, h.client, list, l) {
				continue
			}
			if !visit(i, h.class, l.to) {
				return all
			}
			learn(held{l.to, list, l.served, i})
		}
	}
	return all
}

// reached says which classes have a route to a node of class origin.
func (g *graph) reached(origin int) []bool {
	out := make([]bool, len(g.size))
	g.spread(origin, func(_, _, to int) bool { out[to] = true; return true })
	return out
}

// senders says who gives a node of class to its routes to one of class origin: that one
// itself, and which classes of reflectors.
func (g *graph) senders(origin, to int) (itself bool, classes []int) {
	g.spread(origin, func(from, sender, learns int) bool {
		switch {
		case learns != to:
		case from < 0:
			itself = true
		case !slices.Contains(classes, sender):
			classes = append(classes, sender)
		}
		return true
	})
	return itself, classes
}

// way gives the classes of reflectors on a shortest way from a node of class origin to
// one of class to, and whether there is a way.
func (g *graph) way(origin, to int) (classes []int, ok bool) {
	last := -1
	all := g.spread(origin, func(from, _, learns int) bool {
		if ok = learns == to; ok {
			last = from
		}
		return !ok
	})
	for i := last; i >= 0; i = all[i].before {
		classes = append(classes, all[i].class)
	}
	return classes, ok
}
