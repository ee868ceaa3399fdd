package simulate

import (
	"math"
	"math/bits"
)

// How many steps, from one node to another, are counted for one origin, and for all
// origins of a network. When these are used up, few is what each further origin gets.
// A network that somebody meant takes far fewer; with 11 reflectors that all have their
// own cluster ID it is about 150,000 for one origin.
const (
	enough    = 1 << 20
	enoughAll = 1 << 23
	few       = 1 << 13
)

// wave is the routes with equally long cluster lists: for each list, how many a node of
// each class holds, from clients and from others.
type wave struct {
	order  []int32
	routes map[int32][][2]Count
}

func newWave() *wave { return &wave{routes: map[int32][][2]Count{}} }

func (w *wave) at(list int32, classes int) [][2]Count {
	routes, ok := w.routes[list]
	if !ok {
		routes = make([][2]Count, classes)
		w.order, w.routes[list] = append(w.order, list), routes
	}
	return routes
}

// counting is the counting of the routes to one node.
type counting struct {
	*graph
	origin int
	// held is how many routes each node of each class has, by class.
	held []Count
	// now are those to be passed on, next those that come of it.
	now, next *wave
	steps     int
}

// count gives how many routes to a node of class origin each node of each class has: one
// for each way on which nobody refuses it.
func (g *graph) count(origin int) []Count {
	c := &counting{graph: g, origin: origin, held: make([]Count, len(g.size)), next: newWave()}
	for _, l := range g.links[origin] {
		if g.others(l.to, origin, -1) > 0 {
			c.pass(l, 0, nil, Count{Paths: 1})
		}
	}
	most := max(few, min(enough, enoughAll-*g.counted))
	for len(c.next.order) > 0 && c.steps < most {
		c.now, c.next = c.next, newWave()
		for _, list := range c.now.order {
			c.reflect(list, most)
		}
	}
	*g.counted += c.steps
	if c.steps >= most {
		for i := range c.held {
			c.held[i].More = true
		}
	}
	return c.held
}

// reflect passes on what carries a cluster list.
func (c *counting) reflect(before int32, most int) {
	for class, routes := range c.now.routes[before] {
		fromClients, fromOthers := routes[0], routes[1]
		if fromClients.Paths == 0 && fromOthers.Paths == 0 || c.steps >= most {
			continue
		}
		c.steps += len(c.links[class])
		list := c.lists.add(before, c.id[class])
		beyond := c.next.routes[list] // mostly there
		for _, l := range c.links[class] {
			n := fromClients
			if l.client {
				n = n.plus(fromOthers)
			}
			if n.Paths > 0 && c.passes(c.origin, class, true, list, l) {
				beyond = c.pass(l, list, beyond, n.times(c.others(class, c.origin, l.to)))
			}
		}
	}
}

// pass counts what comes along l, among the routes with that list.
func (c *counting) pass(l link, list int32, routes [][2]Count, n Count) [][2]Count {
	c.held[l.to] = c.held[l.to].plus(n)
	if !c.reflects(l.to, list) {
		return routes
	}
	if routes == nil {
		routes = c.next.at(list, len(c.size))
	}
	from := 1
	if l.served {
		from = 0
	}
	routes[l.to][from] = routes[l.to][from].plus(n)
	return routes
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
