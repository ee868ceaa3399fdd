package simulate

import (
	"math"
	"math/bits"
	"slices"
)

// held is a route that nodes of a class have and may pass on.
type held struct {
	class int
	list  clusterList
	// client: they have it from a client.
	client bool
	// before is where they have it from: an index, or -1 for the origin.
	before int
}

// followed is how many different routes of one origin are followed at most, which no
// network that is meant to work comes near.
const followed = 1 << 16

// spreading is how the routes to a node of class origin spread. Of routes that the same
// class holds only those are followed that may get further than the others.
type spreading struct {
	*graph
	origin int
	// visit is called for each class that learns them: from the origin (-1), or from
	// the holder of the route of that index. It says whether to go on.
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
		if l.silent || s.others(l.to, s.origin, -1) < 1 {
			continue
		}
		if !s.visit(-1, s.origin, l.to) {
			return false
		}
		s.learn(held{l.to, "", l.served, -1})
	}
	return true
}

// reflect passes on what is held.
func (s *spreading) reflect(i int) bool {
	h := s.all[i]
	list := h.list.with(s.id[h.class])
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
		if o := &s.all[i]; (o.client || !h.client) && o.list.within(h.list) {
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

// senders are those that give a node of class to its routes to one of class origin: that one
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

// How many steps, from one node to another, are counted for one origin, and for all origins of a network. When
// these are used up, few is what each further origin gets. A network that is meant to work takes far fewer; with 11
// reflectors that all have their own cluster ID it is about 150,000 for one origin.
const (
	enough    = 1 << 20
	enoughAll = 1 << 23
	few       = 1 << 13
)

// routes are how many a node of each class holds, from clients and from others.
type routes [][2]Count

// counting is the counting of the routes to one node.
type counting struct {
	*graph
	origin int
	// held is how many routes each node of each class has, by class.
	held []Count
	// next are the routes yet to be passed on, by their cluster lists, which are of one
	// length; order is that in which these came.
	next        map[clusterList]routes
	order       []clusterList
	steps, most int
}

// count gives how many routes to a node of class origin each node of each class has: one
// for each way on which no node refuses it.
func (g *graph) count(origin int) []Count {
	c := &counting{graph: g, origin: origin, held: make([]Count, len(g.size)), next: map[clusterList]routes{}}
	c.most = max(few, min(enough, enoughAll-g.counted))
	for _, l := range g.links[origin] {
		if !l.silent && g.others(l.to, origin, -1) > 0 {
			c.pass(l, "", Count{Paths: 1})
		}
	}
	for len(c.order) > 0 && c.steps < c.most {
		now, order := c.next, c.order
		c.next, c.order = map[clusterList]routes{}, nil
		for _, list := range order {
			c.reflect(list, now[list])
		}
	}
	g.counted += c.steps
	for i := range c.held {
		c.held[i].More = c.held[i].More || c.steps >= c.most
	}
	return c.held
}

// reflect passes on what carries a cluster list.
func (c *counting) reflect(before clusterList, held routes) {
	for class, n := range held {
		fromClients, fromOthers := n[0], n[1]
		if fromClients.Paths == 0 && fromOthers.Paths == 0 || c.steps >= c.most {
			continue
		}
		c.steps += len(c.links[class])
		list := before.with(c.id[class])
		for _, l := range c.links[class] {
			n := fromClients
			if l.client {
				n = n.plus(fromOthers)
			}
			if n.Paths > 0 && c.passes(c.origin, class, true, list, l) {
				c.pass(l, list, n.times(c.others(class, c.origin, l.to)))
			}
		}
	}
}

// pass counts what comes along l with that list.
func (c *counting) pass(l link, list clusterList, n Count) {
	c.held[l.to] = c.held[l.to].plus(n)
	if !c.reflects(l.to, list) {
		return
	}
	next, known := c.next[list]
	if !known {
		next = make(routes, len(c.size))
		c.next[list], c.order = next, append(c.order, list)
	}
	from := 1
	if l.served {
		from = 0
	}
	next[l.to][from] = next[l.to][from].plus(n)
}

func (c Count) plus(o Count) Count {
	sum, carry := bits.Add64(c.Paths, o.Paths, 0)
	if carry > 0 {
		return Count{math.MaxUint64, true}
	}
	return Count{sum, c.More || o.More}
}

// Max is the larger number.
func (c Count) Max(o Count) Count {
	if o.Paths > c.Paths || o.Paths == c.Paths && o.More {
		return o
	}
	return c
}

func (c Count) times(n int) Count {
	high, low := bits.Mul64(c.Paths, uint64(max(n, 0)))
	if high > 0 {
		return Count{math.MaxUint64, true}
	}
	return Count{low, c.More}
}
