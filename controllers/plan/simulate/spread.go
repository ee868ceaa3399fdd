package simulate

import (
	"math"
	"math/bits"
	"slices"
)

// held is a route that nodes of a class have and may pass on.
type held struct {
	class int
	list  int32
	// client: they have it from a client.
	client bool
	// before is where they have it from: an index, or -1 for the origin.
	before int
}

// enough is how many different routes of one origin are followed at most, which no
// network that somebody meant comes near.
const enough = 1 << 16

// spread follows the routes of a node of class origin, and calls visit for each class
// that learns them: from the origin (-1), or from whoever holds the route of that index.
// Of routes that the same class holds only those are followed that may get further than
// the others. It ends early when visit says so.
func (g *graph) spread(origin int, visit func(from int, sender, to int) bool) []held {
	var all []held
	byClass := make([][]int, len(g.size))
	learn := func(h held) {
		if !g.reflects(h.class, h.list) || len(all) >= enough {
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

// wave is the routes with equally long cluster lists: for each list, how many a node of
// each class holds, from clients and from others.
type wave struct {
	order  []int32
	routes map[int32][][2]Count
}

func (w *wave) at(list int32, classes int) [][2]Count {
	routes, ok := w.routes[list]
	if !ok {
		routes = make([][2]Count, classes)
		w.order, w.routes[list] = append(w.order, list), routes
	}
	return routes
}

// count gives how many routes to a node of class origin each node of each class has:
// one for each way on which nobody refuses it.
func (g *graph) count(origin int) []Count {
	out := make([]Count, len(g.size))
	now, followed := &wave{routes: map[int32][][2]Count{}}, 0
	for _, l := range g.links[origin] {
		if g.others(l.to, origin, -1) > 0 {
			g.pass(now, out, l, 0, Count{Paths: 1})
		}
	}
	for len(now.order) > 0 {
		next := &wave{routes: map[int32][][2]Count{}}
		for _, before := range now.order {
			for class, routes := range now.routes[before] {
				if routes == [2]Count{} {
					continue
				}
				if followed++; followed > enough {
					return incomplete(out)
				}
				g.reflect(origin, class, g.lists.add(before, g.id[class]), routes, func(l link, list int32, n Count) { g.pass(next, out, l, list, n) })
			}
		}
		now = next
	}
	return out
}

// reflect passes on what a node of a class holds: routes from clients, and from others.
func (g *graph) reflect(origin, class int, list int32, routes [2]Count, pass func(l link, list int32, n Count)) {
	for _, l := range g.links[class] {
		var n Count
		for from, client := range []bool{true, false} {
			if g.passes(origin, class, client, list, l) {
				n = n.plus(routes[from])
			}
		}
		if n.Paths > 0 {
			pass(l, list, n.times(g.others(class, origin, l.to)))
		}
	}
}

// pass counts what comes along l.
func (g *graph) pass(w *wave, out []Count, l link, list int32, n Count) {
	out[l.to] = out[l.to].plus(n)
	if !g.reflects(l.to, list) {
		return
	}
	from := 1
	if l.served {
		from = 0
	}
	routes := w.at(list, len(g.size))
	routes[l.to][from] = routes[l.to][from].plus(n)
}

func incomplete(out []Count) []Count {
	for i := range out {
		out[i].More = true
	}
	return out
}

func (c Count) plus(o Count) Count {
	sum, carry := bits.Add64(c.Paths, o.Paths, 0)
	if carry > 0 {
		return Count{math.MaxUint64, true}
	}
	return Count{sum, c.More || o.More}
}

func (c Count) times(n int) Count {
	high, low := bits.Mul64(c.Paths, uint64(max(n, 0))) //nolint:gosec // G115: not negative
	if high > 0 {
		return Count{math.MaxUint64, true}
	}
	return Count{low, c.More}
}
