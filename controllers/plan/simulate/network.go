package simulate

import (
	"cmp"
	"slices"
)

// Network is what comes of a configuration once everything has settled: who has a session with whom, and who learns
// whose routes, by how many paths. It works on classes of nodes that nothing tells apart, so its cost does not grow
// with their number. It is not safe for concurrent use.
type Network struct {
	classes []Class
	// class of each node: an index.
	class map[string]int
	graph *graph
	// counts, and who has a route, by the class of the origin, as far as they have been asked for.
	counts  [][]Count
	reached [][]bool
}

// Class is a set of nodes that nothing tells apart.
type Class struct {
	// Nodes, sorted by name.
	Nodes []string
	// Reflects: they have a cluster ID.
	Reflects bool
}

// Count is a number of paths. Beyond what is worth counting it is a lower bound: there are More.
type Count struct {
	Paths uint64 `json:"count"`
	More  bool   `json:"atLeast,omitempty"`
}

// Network gives the sessions and routes that come of c while exactly those nodes are up that up says.
func (c *Configuration) Network(up func(node string) bool) *Network {
	names := slices.DeleteFunc(slices.Clone(c.names), func(name string) bool { return !up(name) })
	kind := func(name string) int { return c.nodes[name] }
	return newNetwork(names, kind, func(name string) string { return c.kinds[kind(name)].clusterID }, c.session)
}

// newNetwork makes a network of nodes that are up, sorted by name. Those with one key have
// the same cluster ID, and the same sessions.
func newNetwork[K comparable](names []string, key func(name string) K, clusterID func(name string) string, session func(a, b string) (sides, bool)) *Network {
	n := &Network{class: make(map[string]int, len(names))}
	known := map[K]int{}
	for _, name := range names {
		k := key(name)
		i, ok := known[k]
		if !ok {
			i = len(n.classes)
			known[k] = i
			n.classes = append(n.classes, Class{Reflects: clusterID(name) != ""})
		}
		n.class[name] = i
		n.classes[i].Nodes = append(n.classes[i].Nodes, name)
	}
	first := func(class int) string { return n.classes[class].Nodes[0] }
	n.graph = newGraph(
		sizes(n.classes),
		func(class int) string { return clusterID(first(class)) },
		func(a, b int) (sides, bool) { return session(first(a), n.classes[b].Nodes[len(n.classes[b].Nodes)-1]) },
	)
	n.counts, n.reached = make([][]Count, len(n.classes)), make([][]bool, len(n.classes))
	return n
}

// NetworkOf is the network of nodes, sorted by name, of which each pair has a session that session says is up. Unlike
// those of a Configuration, its nodes may have read the datastore at different times.
func NetworkOf(names []string, session func(a, b string) (mine, yours Side, up bool)) *Network {
	name := func(name string) string { return name }
	clusterID := func(name string) string {
		for _, peer := range names {
			if mine, _, up := session(name, peer); up && mine.Client {
				return mine.ClusterID
			}
		}
		return ""
	}
	return newNetwork(names, name, clusterID, func(a, b string) (sides, bool) {
		mine, yours, up := session(a, b)
		return sides{mine: mine, yours: yours}, up
	})
}

func sizes(classes []Class) []int {
	out := make([]int, len(classes))
	for i, c := range classes {
		out[i] = len(c.Nodes)
	}
	return out
}

// Classes of the nodes that are up, sorted by their first node.
func (n *Network) Classes() []Class { return n.classes }

// ClassOf gives the class of a node that is up, or -1.
func (n *Network) ClassOf(node string) int {
	if i, up := n.class[node]; up {
		return i
	}
	return -1
}

// pair gives the classes of two different nodes that are up.
func (n *Network) pair(a, b string) (x, y int, ok bool) {
	x, y = n.ClassOf(a), n.ClassOf(b)
	return x, y, a != b && x >= 0 && y >= 0
}

// Connected reports whether two nodes have a session.
func (n *Network) Connected(a, b string) bool {
	x, y, ok := n.pair(a, b)
	return ok && n.graph.linked(x, y)
}

// Linked reports whether different nodes of two classes have sessions.
func (n *Network) Linked(a, b int) bool { return a >= 0 && b >= 0 && n.graph.linked(a, b) }

// Sessions counts the sessions of a node.
func (n *Network) Sessions(node string) int {
	class := n.ClassOf(node)
	if class < 0 {
		return 0
	}
	return n.graph.degree(class)
}

// Paths counts the paths that node to has to the prefixes of node from; none, that it cannot reach it.
func (n *Network) Paths(from, to string) Count {
	x, y, ok := n.pair(from, to)
	if !ok {
		return Count{}
	}
	return n.count(x)[y]
}

func (n *Network) count(origin int) []Count {
	if n.counts[origin] == nil {
		n.counts[origin] = n.graph.count(origin)
	}
	return n.counts[origin]
}

// Senders are the neighbours that node to has paths to from's prefixes from, sorted: from
// itself, reflectors, or both.
func (n *Network) Senders(from, to string) []string {
	x, y, ok := n.pair(from, to)
	if !ok {
		return nil
	}
	itself, classes := n.graph.senders(x, y)
	var out []string
	if itself {
		out = append(out, from)
	}
	for _, class := range classes {
		for _, name := range n.classes[class].Nodes {
			if name != from && name != to {
				out = append(out, name)
			}
		}
	}
	slices.Sort(out)
	return out
}

// RIB counts the paths that a node holds to all prefixes of others, one prefix a node.
func (n *Network) RIB(node string) Count {
	class := n.ClassOf(node)
	_, all := n.held(class, func(origin int) int {
		if origin == class {
			return len(n.classes[origin].Nodes) - 1
		}
		return len(n.classes[origin].Nodes)
	})
	return all
}

// HeldPaths counts the paths that a node holds to a prefix of another node, the most that there
// are, and those to all prefixes. Each node that announces has one prefix.
func (n *Network) HeldPaths(node string, announces func(node string) bool) (most, all Count) {
	return n.held(n.ClassOf(node), func(origin int) (others int) {
		for _, name := range n.classes[origin].Nodes {
			if name != node && announces(name) {
				others++
			}
		}
		return others
	})
}

// held is Held for a node of a class, or -1 for none, where so many others of each class announce.
func (n *Network) held(class int, others func(origin int) int) (most, all Count) {
	if class < 0 {
		return Count{}, Count{}
	}
	for origin := range n.classes {
		if count := others(origin); count > 0 {
			one := n.count(origin)[class]
			most, all = most.Max(one), all.plus(one.times(count))
		}
	}
	return most, all
}

// Pair is a node without a route to the blocks of another.
type Pair struct{ From, To string }

// Unreached gives pairs of nodes, among those that want accepts, without a path from
// the first to the other's prefixes; of a class two nodes stand for all. Sorted.
func (n *Network) Unreached(want func(node string) bool) []Pair {
	nodes := n.samples(want)
	var out []Pair
	for origin, targets := range nodes {
		if len(targets) == 0 {
			continue
		}
		if n.reached[origin] == nil {
			n.reached[origin] = n.graph.reached(origin)
		}
		for class, sources := range nodes {
			for _, to := range targets {
				for _, from := range sources {
					if !n.reached[origin][class] && from != to {
						out = append(out, Pair{from, to})
					}
				}
			}
		}
	}
	slices.SortFunc(out, func(a, b Pair) int { return cmp.Or(cmp.Compare(a.From, b.From), cmp.Compare(a.To, b.To)) })
	return out
}

// samples are up to two nodes of each class that want accepts.
func (n *Network) samples(want func(node string) bool) [][]string {
	out := make([][]string, len(n.classes))
	for i, c := range n.classes {
		for _, name := range c.Nodes {
			if len(out[i]) < 2 && want(name) {
				out[i] = append(out[i], name)
			}
		}
	}
	return out
}

// Depth is the smallest number of reflectors whose loss cuts some of the nodes that want
// accepts off from each other, but at most most: 0 if some are cut off already.
// Only nodes with a cluster ID that want does not accept are lost.
func (n *Network) Depth(most int, want func(node string) bool) int {
	d := depth{graph: n.graph.resized(sizes(n.classes)), wanted: make([]int, len(n.classes))}
	for i, c := range n.classes {
		for _, name := range c.Nodes {
			if want(name) {
				d.wanted[i]++
			}
		}
	}
	for origin, x := range d.wanted {
		for to, y := range d.wanted {
			if x == 0 || y == 0 || origin == to && x < 2 {
				continue
			}
			most = d.cut(origin, to, most)
		}
	}
	return most
}

// depth looks for reflectors to lose. Losing some of a class does nothing while others
// of it pass routes on, so it loses all that it may, or none.
type depth struct {
	graph  *graph
	wanted []int // how many of each class must stay
}

// cut is how many reflectors must be lost until to has no route to origin, at most most:
// on each way that there is, all of some class of which none must stay.
func (d *depth) cut(origin, to, most int) int {
	way, ok := d.graph.way(origin, to)
	if !ok {
		return 0
	}
	for _, class := range way {
		cost := d.graph.size[class] - d.wanted[class]
		staying := d.graph.resized(d.wanted).others(class, origin, to)
		if staying > 0 || cost >= most {
			continue
		}
		d.graph.size[class] -= cost
		most = min(most, cost+d.cut(origin, to, most-cost))
		d.graph.size[class] += cost
	}
	return most
}
