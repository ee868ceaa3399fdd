// Package simulate is a model of a Calico cluster: what nodes configure from the datastore, which sessions and routes result from that, and when.
// It is pure; its clock advances by calls only. Tests compare it with real confd and BIRD (docs/architecture.md).
package simulate

import (
	"cmp"
	"maps"
	"net/netip"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/rrpool/rrpool/controllers/plan"
)

// Configuration is what nodes derive their BGP sessions from. It assumes that all nodes have the same AS number and address families.
type Configuration struct {
	MeshOn       bool
	meshPassword string
	// peerings are sorted by precedence: the first that matches a session wins.
	peerings []peering
	// nodes has the index of its kind for each node that speaks BGP. names are the names of these nodes, sorted.
	nodes map[string]int
	names []string
	kinds []kind
}

// peering is a BGPPeer between nodes of the cluster.
type peering struct {
	plan.Peer
	// global: the BGPPeer is for all nodes. address is the address in its peerIP, if it has a peerIP.
	global   bool
	address  netip.Addr
	password string
}

// Side is what a node configures for one peer. A session restarts when one of its sides changes.
type Side struct {
	// Mesh: the session is one of the mesh. Global: it is of a BGPPeer for all nodes. Client: the peer is a client of this node.
	Mesh, Global, Client bool
	// Twice: the node has two BIRD protocols for this peer, which break each other's connection.
	Twice               bool
	ClusterID, Password string
}

// Fits reports whether a session with these sides can be Established.
func (s Side) Fits(o Side) bool { return s.Password == o.Password && !s.Twice && !o.Twice }

// sides are both sides of a session, mine and yours. mineSilent: my node passes on no routes; yoursSilent: your node passes on none.
type sides struct {
	mine, yours             Side
	mineSilent, yoursSilent bool
}

// NewConfiguration returns the configuration of nodes. A BGPPeer whose selector cannot be parsed, or whose address is that of no node, connects
// no nodes. For selectors, role label and rack label have the values of a node's Slot and Rack.
func NewConfiguration(roleLabel string, nodes []plan.Node, bgp plan.BGPConfig, peers []plan.Peer) *Configuration {
	c := &Configuration{
		MeshOn: bgp.MeshOn(), meshPassword: password(bgp.Mesh.Password),
		peerings: connectingPeers(nodes, peers), nodes: make(map[string]int, len(nodes)),
	}
	sorter := newSorter(roleLabel, c.peerings)
	for i := range nodes {
		if n := &nodes[i]; n.SpeaksBGP() {
			c.nodes[n.Name] = sorter.kindOf(n)
			c.names = append(c.names, n.Name)
		}
	}
	slices.Sort(c.names)
	c.kinds = sorter.kinds
	return c
}

// connectingPeers returns the BGPPeers that may connect nodes, sorted by precedence: those for all nodes first, then those that name an address.
// Calico does not define which of two equal ones wins: here it is the first by name.
func connectingPeers(nodes []plan.Node, peers []plan.Peer) []peering {
	var out []peering
	here := sync.OnceValue(func() sets.Set[netip.Addr] { // most clusters have no BGPPeer that names an address
		all := sets.Set[netip.Addr]{}
		for i := range nodes {
			all.Insert(nodes[i].Addresses...)
		}
		return all
	})
	for _, p := range peers {
		c := peering{Peer: p, global: isGlobal(p), password: password(p.Password)}
		if p.PeerSelector == "" {
			if c.address = PeerAddress(p.PeerIP); !here().Has(c.address) {
				continue
			}
		}
		out = append(out, c)
	}
	slices.SortStableFunc(out, func(a, b peering) int {
		return cmp.Or(
			plan.TrueFirst(a.global, b.global),
			plan.TrueFirst(a.address.IsValid(), b.address.IsValid()),
			cmp.Compare(a.Name, b.Name),
		)
	})
	return out
}

func isGlobal(p plan.Peer) bool { return p.NodeSelector == "" && p.Node == "" }

// Selects reports whether a BGPPeer is for any of these nodes, whatever its peers are.
func Selects(p plan.Peer, nodes []plan.Node, roleLabel string) bool {
	s := newSorter(roleLabel, []peering{{Peer: p, global: isGlobal(p)}})
	return slices.ContainsFunc(nodes, func(n plan.Node) bool { return s.kinds[s.kindOf(&n)].from.has(0) })
}

// Sides counts the nodes that a BGPPeer is for, and the nodes that are its peers.
func Sides(p plan.Peer, nodes []plan.Node, roleLabel string) (from, to int) {
	s := newSorter(roleLabel, []peering{{Peer: p, global: isGlobal(p), address: PeerAddress(p.PeerIP)}})
	for i := range nodes {
		kind := s.kindOf(&nodes[i])
		if !nodes[i].SpeaksBGP() {
			continue
		}
		if s.kinds[kind].from.has(0) {
			from++
		}
		if s.kinds[kind].to.has(0) {
			to++
		}
	}
	return from, to
}

// PeerAddress parses a BGPPeer's peerIP: an address, address:port or
// [address]:port. For anything else it returns the zero Addr, which no node has.
func PeerAddress(peerIP string) netip.Addr {
	if a, err := netip.ParseAddrPort(peerIP); err == nil {
		return a.Addr().Unmap()
	}
	a, _ := netip.ParseAddr(peerIP)
	return a.Unmap()
}

func password(ref *plan.SecretRef) string {
	if ref == nil {
		return ""
	}
	return ref.Name + "/" + ref.Key
}

// Side returns what node configures for peer, and whether it configures a session at all. As in Calico's confd, a BGPPeer that is for the node
// wins over the reverse side of one that is for the peer, and a peer given by its address has no cluster ID.
func (c *Configuration) Side(node, peer string) (Side, bool) {
	n, known := c.nodes[node]
	o, there := c.nodes[peer]
	if !known || !there || node == peer {
		return Side{}, false
	}
	return c.side(n, o)
}

// session returns the sides of the session of two nodes, and whether they have one. If both are the same node, it is the session with another
// node of its kind.
func (c *Configuration) session(node, peer string) (sides, bool) {
	n, known := c.nodes[node]
	o, there := c.nodes[peer]
	if !known || !there {
		return sides{}, false
	}
	return c.sides(n, o)
}

// side returns what a node of one kind configures for a node of another.
func (c *Configuration) side(node, peer int) (Side, bool) {
	n, o := &c.kinds[node], &c.kinds[peer]
	mesh := c.MeshOn && n.clusterID == "" && o.clusterID == ""
	if i := n.from.first(o.to); i >= 0 {
		p, peerID := &c.peerings[i], o.clusterID
		if p.address.IsValid() {
			peerID = ""
		}
		s := p.side(n.clusterID, peerID, mesh)
		s.Global = p.global
		return s, true
	}
	if i := n.to.first(o.automatic); i >= 0 {
		return c.peerings[i].side(n.clusterID, o.clusterID, mesh), true
	}
	if mesh {
		return Side{Mesh: true, Password: c.meshPassword}, true
	}
	return Side{}, false
}

// side returns what a node configures by the BGPPeer, given both cluster IDs and whether the mesh connects the two as well.
func (p *peering) side(clusterID, peerID string, mesh bool) Side {
	s := Side{Twice: mesh && p.address.IsValid(), Password: p.password}
	if s.Client = clusterID != "" && peerID != clusterID; s.Client {
		s.ClusterID = clusterID
	}
	return s
}

// sides returns the sides of a session of nodes of two kinds, and whether they have one.
func (c *Configuration) sides(a, b int) (sides, bool) {
	mine, here := c.side(a, b)
	yours, there := c.side(b, a)
	if !here || !there || !mine.Fits(yours) {
		return sides{}, false
	}
	return sides{mine: mine, yours: yours}, true
}

// Peered reports whether a BGPPeer gives a node a session with a peer's address at. If the BGPPeer
// names an address, it does so only for that address family. Sessions of the mesh do not count.
func (c *Configuration) Peered(node, peer string, at netip.Addr) bool {
	s, ok := c.session(node, peer)
	if !ok || node == peer || s.mine.Mesh && s.yours.Mesh {
		return false
	}
	n, o := &c.kinds[c.nodes[node]], &c.kinds[c.nodes[peer]]
	for i, p := range c.peerings {
		if n.connects(o, i) && (!p.address.IsValid() || p.address.Is4() == at.Is4()) {
			return true
		}
	}
	return false
}

// connects reports whether the i-th BGPPeer gives nodes of these kinds sessions.
func (k *kind) connects(o *kind, i int) bool {
	return k.from.has(i) && o.to.has(i) || o.from.has(i) && k.to.has(i)
}

// Connects reports whether the BGPPeer of that name has nodes on both of its sides.
func (c *Configuration) Connects(name string) bool {
	i := slices.IndexFunc(c.peerings, func(p peering) bool { return p.Name == name })
	here := func(k kind) bool { return k.from.has(i) }
	there := func(k kind) bool { return k.to.has(i) }
	return i >= 0 && slices.ContainsFunc(c.kinds, here) && slices.ContainsFunc(c.kinds, there)
}

// ByAddress returns the name of the first BGPPeer of others that connects two nodes without a cluster ID by an address.
// If the mesh is on, both nodes then have two BIRD protocols for one connection, and no session stays Established.
func (c *Configuration) ByAddress() string {
	for i, p := range c.peerings {
		for a, n := range c.kinds {
			for b, o := range c.kinds {
				if !p.Owned && p.address.IsValid() && a != b && n.clusterID+o.clusterID == "" && n.from.has(i) && o.to.has(i) {
					return p.Name
				}
			}
		}
	}
	return ""
}

// Change counts the sessions that change from one configuration to another.
type Change struct{ Added, Removed, Restarted int }

// Compare counts the changes of sessions from before to after, among the nodes that both have.
func Compare(before, after *Configuration) Change {
	// Nodes with the same kind before and the same kind after are counted together.
	type kinds struct{ before, after int }
	size, out := map[kinds]int{}, Change{}
	for name, kind := range before.nodes {
		if next, known := after.nodes[name]; known {
			size[kinds{kind, next}]++
		}
	}
	groups := slices.Collect(maps.Keys(size))
	for i, a := range groups {
		for _, b := range groups[:i+1] {
			n := size[a] * size[b]
			if a == b {
				n = size[a] * (size[a] - 1) / 2
			}
			was, had := before.sides(a.before, b.before)
			is, has := after.sides(a.after, b.after)
			switch {
			case had == has && was == is:
			case !had:
				out.Added += n
			case !has:
				out.Removed += n
			default:
				out.Restarted += n
			}
		}
	}
	return out
}
