package simulate

import (
	"cmp"
	"slices"
)

// Network is the stable result of a configuration: which nodes have sessions, and how many paths each node has to each other node. It
// computes with classes of equal nodes, so its cost depends on the number of classes, not of nodes. It is not safe for concurrent use.
type Network struct {
	classes []Class
	// class is the index of each node's class.
	class map[string]int
	graph *graph
	// counts and reached cache the results of graph.count and graph.reached by the class of the origin.
	counts  [][]Count
	reached [][]bool
}

// Class is a set of nodes with the same cluster ID and the same sessions.
type Class struct {
	// Nodes, sorted by name.
	Nodes []string
	// Reflects: the nodes have a cluster ID.
	Reflects bool
}

// Count is a number of paths. If More is true, it is a lower bound, because counting has stopped.
type Count struct {
	Paths uint64 `json:"count"`
	More  bool   `json:"atLeast,omitempty"`
}

// Network returns the sessions and routes that result from c if only the nodes that up accepts run.
func (c *Configuration) Network(up func(node string) bool) *Network {
	names := slices.DeleteFunc(slices.Clone(c.names), func(name string) bool { return !up(name) })
	kind := func(name string) int { return c.nodes[name] }
	return newNetwork(names, kind, func(name string) string { return c.kinds[kind(name)].clusterID }, c.session)
}

// newNetwork returns the network of running nodes, sorted by name. Nodes with the same key must have the same cluster ID and the same sessions.
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

// NetworkOf returns the network of nodes whose names are sorted. Two nodes have a session if session returns
// up for them. Unlike with Configuration.Network, nodes may have applied different states of the datastore.
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

// Classes returns the classes of running nodes, sorted by their first node.
func (n *Network) Classes() []Class { return n.classes }

// ClassOf returns the index of a running node's class, or -1.
func (n *Network) ClassOf(node string) int {
	if i, up := n.class[node]; up {
		return i
	}
	return -1
}

// pair returns the classes of two nodes. ok: they are different nodes, and both run.
func (n *Network) pair(a, b string) (x, y int, ok bool) {
	x, y = n.ClassOf(a), n.ClassOf(b)
	return x, y, a != b && x >= 0 && y >= 0
}

// Connected reports whether two nodes have a session.
func (n *Network) Connected(a, b string) bool {
	x, y, ok := n.pair(a, b)
	return ok && n.graph.linked(x, y)
}

// Linked reports whether nodes of class a have sessions with nodes of class b.
func (n *Network) Linked(a, b int) bool { return a >= 0 && b >= 0 && n.graph.linked(a, b) }

// Sessions counts the sessions of a node.
func (n *Network) Sessions(node string) int {
	class := n.ClassOf(node)
	if class < 0 {
		return 0
	}
	return n.graph.degree(class)
}

// Paths counts the paths to a prefix of one node (from) that another (to) has, 0 if it has no route.
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

// Senders returns the neighbours that send the routes of one node (from) to another (to), sorted: the first node itself, reflectors, or both.
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

// RIB counts the paths in a node's routing table to the prefixes of all other nodes, if each of them announces one prefix.
func (n *Network) RIB(node string) Count {
	class := n.ClassOf(node)
	_, all := n.heldPaths(class, func(origin int) int {
		if origin == class {
			return len(n.classes[origin].Nodes) - 1
		}
		return len(n.classes[origin].Nodes)
	})
	return all
}

// HeldPaths counts the paths in a node's routing table: the most to one prefix, and those
// to all prefixes. It assumes that each other node that announces accepts has one prefix.
func (n *Network) HeldPaths(node string, announces func(node string) bool) (most, all Count) {
	return n.heldPaths(n.ClassOf(node), func(origin int) (others int) {
		for _, name := range n.classes[origin].Nodes {
			if name != node && announces(name) {
				others++
			}
		}
		return others
	})
}

// heldPaths is HeldPaths for a node of a class, given the number of other nodes of each class that announce. If class is -1, it returns 0.
func (n *Network) heldPaths(class int, others func(origin int) int) (most, all Count) {
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

// Pair is two nodes, of which From has no route to the blocks of To.
type Pair struct{ From, To string }

// Unreached returns the pairs of nodes whose first node has no path to the second's prefixes,
// sorted. It considers only nodes that want accepts, and at most two of each class.
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

// samples returns for each class up to two of its nodes that want accepts.
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

// Depth returns the smallest number of reflectors whose failure leaves two of the nodes that want accepts without a route to each
// other, but never more than most; 0 if two have no route now. Only nodes with a cluster ID that want does not accept may fail.
func (n *Network) Depth(most int, want func(node string) bool) int {
	d := depth{graph: n.graph.resized(sizes(n.classes)), mayNotFail: make([]int, len(n.classes))}
	for i, c := range n.classes {
		for _, name := range c.Nodes {
			if want(name) {
				d.mayNotFail[i]++
			}
		}
	}
	for origin, x := range d.mayNotFail {
		for to, y := range d.mayNotFail {
			if x == 0 || y == 0 || origin == to && x < 2 {
				continue
			}
			most = d.cutSize(origin, to, most)
		}
	}
	return most
}

// depth computes Network.Depth. While one node of a class passes routes on, the failure of the
// others has no effect. So it only considers the failure of all nodes of a class that may fail.
type depth struct {
	graph      *graph
	mayNotFail []int // by class, how many nodes may not fail
}

// cutSize returns how many reflectors, but no more than most, must fail until class to has no route to class origin. On each
// path, one class must fail. A class can fail only if its nodes that may not fail do not pass the routes on by themselves.
func (d *depth) cutSize(origin, to, most int) int {
	way, ok := d.graph.shortestPath(origin, to)
	if !ok {
		return 0
	}
	for _, class := range way {
		cost := d.graph.size[class] - d.mayNotFail[class]
		staying := d.graph.resized(d.mayNotFail).others(class, origin, to)
		if staying > 0 || cost >= most {
			continue
		}
		d.graph.size[class] -= cost
		most = min(most, cost+d.cutSize(origin, to, most-cost))
		d.graph.size[class] += cost
	}
	return most
}
