package simulate

import "slices"

// graph computes how routes propagate over the sessions between classes of nodes. All nodes of a class have the same sessions.
//
// A node advertises the routes that it originates on every session. It advertises a route that it learned on session s on another session p (BIRD
// 1.6, proto/bgp/attrs.c) if s or p is with a client. If p is with a client, the route's cluster list must lack the node's own cluster ID, which
// the node adds. A node accepts a route that it did not originate; on a session with a client, its cluster list must lack the node's own cluster
// ID. As Calico writes the configuration, two nodes with cluster IDs that are not each other's client have the same ID. So all reflectors on a
// route's path have different IDs: no class comes twice, and no route returns to its sender. Neither is checked here.
type graph struct {
	size []int
	id   []int32 // index of the cluster ID, -1 for none
	// links[a] are the links of class a.
	links [][]link
	// counted is how many steps all calls of count have taken.
	counted int
}

// link stands for the sessions of each node of a class with each node of class to, which may be its own class.
type link struct {
	to int
	// peerIsClient: nodes of to are clients of this class. selfIsClient: this class is a client of them.
	peerIsClient, selfIsClient bool
	// silent: this class advertises nothing to the other.
	silent bool
}

// newGraph returns a graph of classes. session returns the sides of a session of nodes of classes a and b.
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
			g.links[a] = append(g.links[a], link{b, s.mine.Client, s.yours.Client, s.mineSilent})
			if a != b {
				g.links[b] = append(g.links[b], link{a, s.yours.Client, s.mine.Client, s.yoursSilent})
			}
		}
	}
	return g
}

// resized returns the graph with other numbers of nodes in its classes.
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

// others counts the nodes of class c other than one node of class a and one of class b.
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

// passes reports whether a class advertises a route of origin over l. client: it has the route from a client; list: the route's cluster list with
// the class' own ID added.
func (g *graph) passes(origin, class int, client bool, list clusterList, l link) bool {
	looped := l.selfIsClient && list.has(g.id[l.to])
	meet := g.others(class, origin, l.to) > 0 && g.others(l.to, origin, -1) > 0 // a sender and a receiver other than the origin
	return (client || l.peerIsClient) && !looped && !l.silent && meet
}

// reflects reports whether a class accepts and passes on routes with a cluster list.
func (g *graph) reflects(class int, list clusterList) bool {
	return g.id[class] >= 0 && !list.has(g.id[class])
}

// clusterList is the set of cluster IDs in a cluster list: bit i stands for the ID with index i.
type clusterList string

func (l clusterList) has(id int32) bool { return int(id/8) < len(l) && l[id/8]>>(id%8)&1 == 1 }

// with returns the list with id added.
func (l clusterList) with(id int32) clusterList {
	out := make([]byte, max(len(l), int(id/8)+1))
	copy(out, l)
	out[id/8] |= 1 << (id % 8)
	return clusterList(out)
}

// within reports whether all IDs of l are in o.
func (l clusterList) within(o clusterList) bool {
	for i := range len(l) {
		if i >= len(o) || l[i]&^o[i] != 0 {
			return false
		}
	}
	return true
}
