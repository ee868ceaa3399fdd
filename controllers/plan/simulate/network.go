package simulate

// Network is what comes of a configuration once everything has settled: who has a
// session with whom, and who learns whose routes, by how many paths. It works on
// classes of nodes that nothing tells apart, so its cost does not grow with their
// number.
type Network struct{}

// Class is a set of nodes that nothing tells apart.
type Class struct {
	// Nodes, sorted by name.
	Nodes []string
	// Reflects: they have a cluster ID.
	Reflects bool
}

// Count is a number of paths. Beyond what is worth counting it is a lower bound.
type Count struct {
	Paths uint64
	More  bool
}

// Network gives the sessions and routes that come of c while exactly those nodes are up
// that up says.
func (c *Configuration) Network(up func(node string) bool) *Network { panic("skeleton") }

// Classes of the nodes that are up, sorted by their first node.
func (n *Network) Classes() []Class { panic("skeleton") }

// Without is the network while these nodes are down as well.
func (n *Network) Without(nodes ...string) *Network { panic("skeleton") }

// Connected reports whether two nodes have a session.
func (n *Network) Connected(a, b string) bool { panic("skeleton") }

// Sessions counts the sessions of a node.
func (n *Network) Sessions(node string) int { panic("skeleton") }

// Paths counts the paths that node to has to the prefixes of node from; none, that it
// cannot reach it.
func (n *Network) Paths(from, to string) Count { panic("skeleton") }

// Senders are the neighbours that node to has paths to from's prefixes from, sorted: from
// itself, reflectors, or both.
func (n *Network) Senders(from, to string) []string { panic("skeleton") }

// RIB counts the paths that a node holds to all prefixes of others, one prefix a node.
func (n *Network) RIB(node string) Count { panic("skeleton") }

// Unreached gives pairs of nodes, among those that want accepts, without a path from
// one to the other's prefixes; of a class two nodes stand for all. Sorted.
func (n *Network) Unreached(want func(node string) bool) []Pair { panic("skeleton") }

// Depth is the smallest number of reflectors whose loss cuts some of the nodes that want
// accepts off from each other, but at most most: 0 if some are cut off already.
// Only nodes with a cluster ID that want does not accept are lost.
func (n *Network) Depth(most int, want func(node string) bool) int { panic("skeleton") }

// Change is what the nodes do when one configuration follows another, counted in
// sessions.
type Change struct{ Added, Removed, Restarted int }

// Compare says what becomes of the sessions when after follows before, among the nodes
// that both have.
func Compare(before, after *Configuration) Change { panic("skeleton") }
