package simulate

import "slices"

// graph is the sessions between classes of nodes, and how routes spread along them. In a
// class each node has the same sessions, so that one stands for all.
//
// A node passes on what it learned on session s to session p (BIRD 1.6, proto/bgp/attrs.c)
// if p is not s, at least one of the two is with a client, and, where p is, the cluster
// list lacks its own cluster ID, which it adds. A node takes what is not its own and, on
// a session with a client, what lacks its own cluster ID. What a node originates goes to
// every session. As Calico writes the configuration, two nodes with cluster IDs that are
// not each other's client have the same ID. It follows that the reflectors on a route's
// way all have different IDs, so no class comes twice, and that no route goes back where
// it came from: neither needs a check of its own here.
type graph struct {
	size []int
	id   []int32 // of the cluster ID, -1 for none
	// links of each class, by the other class.
	links [][]link
	lists *clusterLists
	// counted is how many steps all counting has taken.
	counted *int
}

// link is the sessions of each node of a class with each node of another, or with the
// others of its own.
type link struct {
	to int
	// client: the other is a client of this one. served: this one is a client of it.
	client, served bool
}

// newGraph makes a graph of n classes: sides gives the sides of the session between
// nodes of two, or of one.
func newGraph(size []int, clusterID func(class int) string, sides func(a, b int) (mine, yours Side, ok bool)) *graph {
	g := &graph{size: size, id: make([]int32, len(size)), links: make([][]link, len(size)), counted: new(int)}
	ids := map[string]int32{"": -1}
	for a := range size {
		id := clusterID(a)
		if _, ok := ids[id]; !ok {
			ids[id] = int32(len(ids) - 1) //nolint:gosec // G115: far fewer
		}
		g.id[a] = ids[id]
		for b := range size[:a+1] {
			mine, yours, ok := sides(a, b)
			if !ok {
				continue
			}
			g.links[a] = append(g.links[a], link{b, mine.Client, yours.Client})
			if a != b {
				g.links[b] = append(g.links[b], link{a, yours.Client, mine.Client})
			}
		}
	}
	g.lists = newClusterLists(len(ids) - 1)
	return g
}

// resized is the graph with other numbers of nodes in its classes.
func (g *graph) resized(size []int) *graph {
	return &graph{size: size, id: g.id, links: g.links, lists: g.lists, counted: new(int)}
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
func (g *graph) passes(origin, class int, client bool, list int32, l link) bool {
	looped := l.served && g.lists.has(list, g.id[l.to])
	return (client || l.client) && !looped && g.meet(origin, class, l)
}

// meet reports whether there are two nodes at the ends of l that are not the origin.
func (g *graph) meet(origin, class int, l link) bool {
	return g.others(class, origin, l.to) > 0 && g.others(l.to, origin, -1) > 0
}

// reflects reports whether a class may pass on what carries a cluster list.
func (g *graph) reflects(class int, list int32) bool {
	return g.id[class] >= 0 && !g.lists.has(list, g.id[class])
}
