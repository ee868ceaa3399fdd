package simulate

import (
	"math"
	"math/bits"
	"slices"
)

// heldRoute is a route that nodes of a class have and may pass on.
type heldRoute struct {
	class int
	list  clusterList
	// client: the nodes have the route from a client.
	client bool
	// before is the index of the route that was passed on to become this one, -1 if it came from the origin.
	before int
}

// mostFollowed is the maximum number of routes of one origin that propagate follows. Working networks have far fewer.
const mostFollowed = 1 << 16

// propagation computes which classes learn the route of a node of class origin. If a class holds
// a route that goes wherever another one would go, the other one is not followed: see learn.
type propagation struct {
	*graph
	origin int
	// visit is called when class to learns the route from class sender. from is the index of the sender's route, -1 for the origin. It returns
	// whether to go on.
	visit func(from, sender, to int) bool
	// all are the held routes in the order in which they are passed on, byClass their indices.
	all     []heldRoute
	byClass [][]int
}

// propagate follows the route of a node of class origin, and returns all held routes.
func (g *graph) propagate(origin int, visit func(from, sender, to int) bool) []heldRoute {
	s := &propagation{graph: g, origin: origin, visit: visit, byClass: make([][]int, len(g.size))}
	more := s.originate()
	for next := 0; more && next < len(s.all); {
		more = s.reflect(next)
		next++
	}
	return s.all
}

// originate advertises the origin's route to its neighbours.
func (s *propagation) originate() bool {
	for _, l := range s.links[s.origin] {
		if l.silent || s.others(l.to, s.origin, -1) < 1 {
			continue
		}
		if !s.visit(-1, s.origin, l.to) {
			return false
		}
		s.learn(heldRoute{l.to, "", l.selfIsClient, -1})
	}
	return true
}

// reflect passes on the i-th held route.
func (s *propagation) reflect(i int) bool {
	h := s.all[i]
	list := h.list.with(s.id[h.class])
	for _, l := range s.links[h.class] {
		if !s.passes(s.origin, h.class, h.client, list, l) {
			continue
		}
		if !s.visit(i, h.class, l.to) {
			return false
		}
		s.learn(heldRoute{l.to, list, l.selfIsClient, i})
	}
	return true
}

// learn keeps a route if its class may pass it on, and holds no other route that goes wherever this one does.
func (s *propagation) learn(h heldRoute) {
	if !s.reflects(h.class, h.list) || len(s.all) >= mostFollowed {
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

// reached returns for each class whether it has a route to a node of class origin.
func (g *graph) reached(origin int) []bool {
	out := make([]bool, len(g.size))
	g.propagate(origin, func(_, _, to int) bool { out[to] = true; return true })
	return out
}

// senders returns the classes of reflectors that advertise origin's routes to class to, and whether origin itself does.
func (g *graph) senders(origin, to int) (itself bool, classes []int) {
	g.propagate(origin, func(from, sender, learns int) bool {
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

// shortestPath returns the classes of reflectors on a shortest path of routes from class origin to class to, and whether there is a path.
func (g *graph) shortestPath(origin, to int) (classes []int, ok bool) {
	last := -1
	all := g.propagate(origin, func(from, _, learns int) bool {
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

// The bounds of counting, in advertisements from one class to another: stepsPerOrigin for one origin, stepsInAll
// for all origins of a network, and fewestSteps for each further origin once these are used up. Working networks
// take far fewer; 11 reflectors in full mesh, each with a cluster ID of its own, take about 150,000 for one origin.
const (
	stepsPerOrigin = 1 << 20
	stepsInAll     = 1 << 23
	fewestSteps    = 1 << 13
)

// heldCounts are the numbers of paths that a node holds, by class: from clients and from others.
type heldCounts [][2]Count

// counting counts the paths to a node of class origin.
type counting struct {
	*graph
	origin int
	// held is the number of paths of a node, by class.
	held []Count
	// next are the paths that are still to be passed on, by cluster list. All these
	// lists have the same length. order has the lists in the order in which they came.
	next        map[clusterList]heldCounts
	order       []clusterList
	steps, most int
}

// count returns the number of paths to a node of class origin that a node of each class has: one for each chain of sessions on which no node
// refuses the route.
func (g *graph) count(origin int) []Count {
	c := &counting{graph: g, origin: origin, held: make([]Count, len(g.size)), next: map[clusterList]heldCounts{}}
	c.most = max(fewestSteps, min(stepsPerOrigin, stepsInAll-g.counted))
	for _, l := range g.links[origin] {
		if !l.silent && g.others(l.to, origin, -1) > 0 {
			c.pass(l, "", Count{Paths: 1})
		}
	}
	for len(c.order) > 0 && c.steps < c.most {
		now, order := c.next, c.order
		c.next, c.order = map[clusterList]heldCounts{}, nil
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

// reflect passes on the paths whose cluster list is before.
func (c *counting) reflect(before clusterList, held heldCounts) {
	for class, n := range held {
		fromClients, fromOthers := n[0], n[1]
		if fromClients.Paths == 0 && fromOthers.Paths == 0 || c.steps >= c.most {
			continue
		}
		c.steps += len(c.links[class])
		list := before.with(c.id[class])
		for _, l := range c.links[class] {
			n := fromClients
			if l.peerIsClient {
				n = n.plus(fromOthers)
			}
			if n.Paths > 0 && c.passes(c.origin, class, true, list, l) {
				c.pass(l, list, n.times(c.others(class, c.origin, l.to)))
			}
		}
	}
}

// pass adds n paths with a cluster list that are advertised over l.
func (c *counting) pass(l link, list clusterList, n Count) {
	c.held[l.to] = c.held[l.to].plus(n)
	if !c.reflects(l.to, list) {
		return
	}
	next, known := c.next[list]
	if !known {
		next = make(heldCounts, len(c.size))
		c.next[list], c.order = next, append(c.order, list)
	}
	from := 1
	if l.selfIsClient {
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

// Max returns the larger count.
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
