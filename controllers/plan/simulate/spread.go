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

// spreading is how the routes to a node of class origin spread. Of routes that the same
// class holds only those are followed that may get further than the others.
type spreading struct {
	*graph
	origin int
	// visit is called for each class that learns them: from the origin (-1), or from
	// whoever holds the route of that index. It says whether to go on.
	visit func(from, sender, to int) bool
	// all that is held, in the order in which it is passed on, and where, by class.
	all     []held
	byClass [][]int
}

// spread follows the routes to a node of class origin, and gives all that is held.
func (g *graph) spread(origin int, visit func(from, sender, to int) bool) []held {
	s := &spreading{graph: g, origin: origin, visit: visit, byClass: make([][]int, len(g.size))}
	more := s.originate()
	for next := 0; more && next < len(s.all); {
		more = s.reflect(next)
		next++
	}
	return s.all
}

// originate gives the node's own routes to its neighbours.
func (s *spreading) originate() bool {
	for _, l := range s.links[s.origin] {
		if s.others(l.to, s.origin, -1) < 1 {
			continue
		}
		if !s.visit(-1, s.origin, l.to) {
			return false
		}
		s.learn(held{l.to, 0, l.served, -1})
	}
	return true
}

// reflect passes on what is held.
func (s *spreading) reflect(i int) bool {
	h := s.all[i]
	list := s.lists.add(h.list, s.id[h.class])
	for _, l := range s.links[h.class] {
		if !s.passes(s.origin, h.class, h.client, list, l) {
			continue
		}
		if !s.visit(i, h.class, l.to) {
			return false
		}
		s.learn(held{l.to, list, l.served, i})
	}
	return true
}

// learn keeps what may be passed on, and further than what is held already.
func (s *spreading) learn(h held) {
	if !s.reflects(h.class, h.list) || len(s.all) >= followed {
		return
	}
	for _, i := range s.byClass[h.class] {
		if o := &s.all[i]; (o.client || !h.client) && s.lists.within(o.list, h.list) {
			return
		}
	}
	s.byClass[h.class] = append(s.byClass[h.class], len(s.all))
	s.all = append(s.all, h)
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
