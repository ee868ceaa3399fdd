package simulate

import (
	"cmp"
	"slices"
	"strings"
)

// Network is what comes of a configuration once everything has settled: who has a
// session with whom, and who learns whose routes, by how many paths. It works on
// classes of nodes that nothing tells apart, so its cost does not grow with their
// number. It is not safe for concurrent use.
type Network struct {
	config *Configuration
	// classes by index: some may be empty. index gives that of a kind.
	classes []Class
	index   []int
	graph   *graph
	// counts by the class of the origin, as far as somebody has asked.
	counts [][]Count
}

// Class is a set of nodes that nothing tells apart.
type Class struct {
	// Nodes, sorted by name.
	Nodes []string
	// Reflects: they have a cluster ID.
	Reflects bool
}

// Count is a number of paths. Beyond what is worth counting it is a lower bound: there
// are More.
type Count struct {
	Paths uint64 `json:"count"`
	More  bool   `json:"atLeast,omitempty"`
}

// Network gives the sessions and routes that come of c while exactly those nodes are up
// that up says.
func (c *Configuration) Network(up func(node string) bool) *Network {
	n := &Network{config: c, index: make([]int, len(c.kinds))}
	for i := range n.index {
		n.index[i] = -1
	}
	var kinds []int
	for _, name := range c.names {
		if !up(name) {
			continue
		}
		kind := c.Members[name].kind
		if n.index[kind] < 0 {
			n.index[kind] = len(kinds)
			kinds = append(kinds, kind)
			n.classes = append(n.classes, Class{Reflects: c.kinds[kind].clusterID != ""})
		}
		class := &n.classes[n.index[kind]]
		class.Nodes = append(class.Nodes, name)
	}
	n.graph = newGraph(
		sizes(n.classes),
		func(class int) string { return c.kinds[kinds[class]].clusterID },
		func(a, b int) (Side, Side, bool) { return c.sides(kinds[a], kinds[b]) },
	)
	n.counts = make([][]Count, len(n.classes))
	return n
}

func sizes(classes []Class) []int {
	out := make([]int, len(classes))
	for i, c := range classes {
		out[i] = len(c.Nodes)
	}
	return out
}

// Classes of the nodes that are up, sorted by their first node.
func (n *Network) Classes() []Class {
	var out []Class
	for _, c := range n.classes {
		if len(c.Nodes) > 0 {
			out = append(out, c)
		}
	}
	slices.SortFunc(out, func(a, b Class) int { return strings.Compare(a.Nodes[0], b.Nodes[0]) })
	return out
}

// Without is the network while these nodes are down as well.
func (n *Network) Without(nodes ...string) *Network {
	down := make(map[string]bool, len(nodes))
	out := &Network{config: n.config, index: n.index, classes: slices.Clone(n.classes), counts: make([][]Count, len(n.classes))}
	for _, name := range nodes {
		down[name] = true
	}
	for i, c := range n.classes {
		isDown := func(name string) bool { return down[name] }
		if slices.ContainsFunc(c.Nodes, isDown) {
			out.classes[i].Nodes = slices.DeleteFunc(slices.Clone(c.Nodes), isDown)
		}
	}
	out.graph = n.graph.resized(sizes(out.classes))
	return out
}

// class of a node that is up, or -1.
func (n *Network) class(node string) int {
	m, known := n.config.Members[node]
	if !known || n.index[m.kind] < 0 {
		return -1
	}
	i := n.index[m.kind]
	if _, up := slices.BinarySearch(n.classes[i].Nodes, node); !up {
		return -1
	}
	return i
}

// pair gives the classes of two different nodes that are up.
func (n *Network) pair(a, b string) (x, y int, ok bool) {
	x, y = n.class(a), n.class(b)
	return x, y, a != b && x >= 0 && y >= 0
}

// Connected reports whether two nodes have a session.
func (n *Network) Connected(a, b string) bool {
	x, y, ok := n.pair(a, b)
	return ok && n.graph.linked(x, y)
}

// Sessions counts the sessions of a node.
func (n *Network) Sessions(node string) int {
	class := n.class(node)
	if class < 0 {
		return 0
	}
	return n.graph.degree(class)
}

// Paths counts the paths that node to has to the prefixes of node from; none, that it
// cannot reach it.
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
	_, all := n.Held(node, func(string) bool { return true })
	return all
}

// Held counts the paths that a node holds to a prefix of another node, the most that there
// are, and those to all prefixes. Each node that announces has one prefix.
func (n *Network) Held(node string, announces func(node string) bool) (most, all Count) {
	class := n.class(node)
	if class < 0 {
		return Count{}, Count{}
	}
	for origin, c := range n.classes {
		others := 0
		for _, name := range c.Nodes {
			if name != node && announces(name) {
				others++
			}
		}
		if others == 0 {
			continue
		}
		one := n.count(origin)[class]
		most, all = most.Max(one), all.plus(one.times(others))
	}
	return most, all
}

// Unreached gives pairs of nodes, among those that want accepts, without a path from
// the first to the other's prefixes; of a class two nodes stand for all. Sorted.
func (n *Network) Unreached(want func(node string) bool) []Pair {
	return unreached(n.graph, n.wanted(want, 2))
}

// wanted gives the first nodes of each class that want accepts, at most so many.
func (n *Network) wanted(want func(node string) bool, most int) [][]string {
	out := make([][]string, len(n.classes))
	for i, c := range n.classes {
		for _, name := range c.Nodes {
			if len(out[i]) == most {
				break
			}
			if want(name) {
				out[i] = append(out[i], name)
			}
		}
	}
	return out
}

// Pair is a node without a route to the blocks of another.
type Pair struct{ From, To string }

// unreached gives the pairs among some nodes of each class.
func unreached(g *graph, nodes [][]string) []Pair {
	var out []Pair
	for origin, targets := range nodes {
		if len(targets) == 0 {
			continue
		}
		reached := g.reached(origin)
		for class, sources := range nodes {
			if reached[class] {
				continue
			}
			for _, to := range targets {
				for _, from := range sources {
					if from != to {
						out = append(out, Pair{from, to})
					}
				}
			}
		}
	}
	slices.SortFunc(out, func(a, b Pair) int { return cmp.Or(cmp.Compare(a.From, b.From), cmp.Compare(a.To, b.To)) })
	return out
}
