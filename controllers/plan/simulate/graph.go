package simulate

import "slices"

// graph is the sessions between classes of nodes, and how routes spread along them. In a
// class each node has the same sessions, so that one stands for all.
//
// A node passes on what it learned on session s to session p (BIRD 1.6, proto/bgp/attrs.c) if p is not s, at least
// one of the two is with a client, and, where p is, the cluster list lacks its own cluster ID, which it adds. A
// node takes what is not its own and, on a session with a client, what lacks its own cluster ID. What a node
// originates goes to every session. As Calico writes the configuration, two nodes with cluster IDs that are not
// each other's client have the same ID. It follows that the reflectors on a route's way all have different IDs, so
// no class comes twice, and that no route goes back where it came from: neither needs a check of its own here.
type graph struct {
	size []int
	id   []int32 // of the cluster ID, -1 for none
	// links of each class, by the other class.
	links [][]link
	// counted is how many steps all counting has taken.
	counted int
}

// link is the sessions of each node of a class with each node of another, or with the others of its own.
type link struct {
	to int
	// client: the other is a client of this one. served: this one is a client of it.
	client, served bool
	// silent: these nodes pass on nothing to those.
	silent bool
}

// newGraph makes a graph of classes: session gives the sides of one between nodes of two, or of one.
func newGraph(size []int, clusterID func(class int) string, session func(a, b int) (sides, bool)) *graph {
	g := &graph{size: size, id: make([]int32, len(size)), links: make([][]link, len(size))}
	ids := map[string]int32{"": -1}
	for a := range size {
		id := clusterID(a)
		if _, ok := ids[id]; !ok {
			ids[id] = int32(len(ids) - 1) //nolint:gosec // G115: far fewer
		}
		g.id[a] = ids[id]
		for b := range size[:a+1] {
			s, ok := session(a, b)
			if !ok {
				continue
			}
			g.links[a] = append(g.links[a], link{b, s.mine.Client, s.yours.Client, s.silent})
			if a != b {
				g.links[b] = append(g.links[b], link{a, s.yours.Client, s.mine.Client, s.unheard})
			}
		}
	}
	return g
}

// resized is the graph with other numbers of nodes in its classes.
func (g *graph) resized(size []int) *graph {
	return &graph{size: size, id: g.id, links: g.links}
}

// linked reports whether nodes of two classes have sessions.
func (g *graph) linked(a, b int) bool {
	return slices.ContainsFunc(g.links[a], func(l link) bool { return l.to == b })
}

// degree counts the sessions of a node of a class.
func (g *graph) degree(a int) int {
	n := 0
	for _, l := range g.links[a] {
		if n += g.size[l.to]; l.to == a {
			n--
		}
	}
	return n
}

// others counts the nodes of class c, without those that come from classes a and b.
func (g *graph) others(c, a, b int) int {
	n := g.size[c]
	if c == a {
		n--
	}
	if c == b {
		n--
	}
	return n
}

// passes reports whether nodes of a class give what they hold to those at the other end
// of l: client, where they have it from; list, the cluster list with their own ID in it.
func (g *graph) passes(origin, class int, client bool, list clusterList, l link) bool {
	looped := l.served && list.has(g.id[l.to])
	meet := g.others(class, origin, l.to) > 0 && g.others(l.to, origin, -1) > 0 // two that are not the origin
	return (client || l.client) && !looped && !l.silent && meet
}

// reflects reports whether a class may pass on what carries a cluster list.
func (g *graph) reflects(class int, list clusterList) bool {
	return g.id[class] >= 0 && !list.has(g.id[class])
}

// clusterList is a cluster list as a set of cluster IDs, one bit each, up to the highest.
type clusterList string

func (l clusterList) has(id int32) bool { return int(id/8) < len(l) && l[id/8]>>(id%8)&1 == 1 }

// with is the list with id in it.
func (l clusterList) with(id int32) clusterList {
	out := make([]byte, max(len(l), int(id/8)+1))
	copy(out, l)
	out[id/8] |= 1 << (id % 8)
	return clusterList(out)
}

// within reports whether all of l is in o.
func (l clusterList) within(o clusterList) bool {
	for i := range len(l) {
		if i >= len(o) || l[i]&^o[i] != 0 {
			return false
		}
	}
	return true
}
