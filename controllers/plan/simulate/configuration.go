// Package simulate is a model of a Calico cluster: what its nodes make of the
// datastore, which sessions and routes come of it, and when. It is pure, and its clock
// is moved by hand. The rules are those measured with the real parts (docs/architecture.md).
package simulate

import (
	"cmp"
	"net/netip"
	"slices"

	"github.com/rrpool/rrpool/controllers/plan"
)

// Configuration is what all nodes configure their BGP sessions from. All nodes have the
// same AS number and address families.
type Configuration struct {
	// RoleLabel is the key of the label that marks reflectors.
	RoleLabel string
	// MeshOn, and the password of the mesh.
	MeshOn       bool
	MeshPassword string
	// Members are the nodes that speak BGP, by name.
	Members map[string]Member

	// names of the members, sorted.
	names []string
	// peerings in the order in which the first that matches wins.
	peerings []peering
	kinds    []kind
}

// Member is a node as far as the configuration depends on it.
type Member struct {
	Addresses []netip.Addr
	// Labels are those of the node. Selectors see the role label and the rack as the
	// node's Slot and Rack say, whatever stands here.
	Labels    map[string]string
	ClusterID string

	// kind is an index: nothing tells nodes of one kind apart.
	kind int
}

// peering is a BGPPeer that connects nodes.
type peering struct {
	plan.Peer
	// global: the peer is one of all nodes. address is the one it names, if it does.
	global   bool
	address  netip.Addr
	password string
}

// Side is what a node configures about one peer. A session whose sides change restarts.
type Side struct {
	// Mesh: the session is one of the mesh. Global: it is one that all nodes have.
	// Client: the peer is a client of this node.
	Mesh, Global, Client bool
	// Twice: the peer has two protocols that fight for one connection.
	Twice               bool
	ClusterID, Password string
}

// Fits reports whether two sides get a session.
func (s Side) Fits(o Side) bool { return s.Password == o.Password && !s.Twice && !o.Twice }

// NewConfiguration reads nodes, BGPConfiguration and BGPPeers. A BGPPeer whose selector
// cannot be read, or whose address is that of no node, connects nobody.
func NewConfiguration(roleLabel string, nodes []plan.Node, bgp plan.BGPConfig, peers []plan.Peer) *Configuration {
	c := &Configuration{
		RoleLabel: roleLabel, MeshOn: bgp.MeshOn(), MeshPassword: password(bgp.Mesh.Password),
		Members: make(map[string]Member, len(nodes)),
	}
	c.peerings = connecting(nodes, peers)
	sorter := newSorter(roleLabel, c.peerings)
	for i := range nodes {
		if n := &nodes[i]; n.SpeaksBGP() {
			c.names = append(c.names, n.Name)
			c.Members[n.Name] = Member{Addresses: n.Addresses, Labels: n.Labels, ClusterID: n.ClusterID, kind: sorter.kindOf(n)}
		}
	}
	if slices.Sort(c.names); len(c.names) > len(c.Members) {
		c.names = slices.Compact(c.names)
	}
	c.kinds = sorter.kinds
	return c
}

// connecting are the BGPPeers that may connect nodes, the one that wins first: peers of
// all nodes before those of some, those that name an address before those that select.
// Calico leaves it open which of two alike wins, so here it is the first by name.
func connecting(nodes []plan.Node, peers []plan.Peer) []peering {
	var out []peering
	named := map[netip.Addr]bool{}
	for _, p := range peers {
		c := peering{Peer: p, global: p.NodeSelector == "" && p.Node == "", password: password(p.Password)}
		if p.PeerSelector == "" {
			c.address = addressOf(p.PeerIP)
			named[c.address] = true
		}
		out = append(out, c)
	}
	known := having(nodes, named)
	out = slices.DeleteFunc(out, func(p peering) bool { return p.PeerSelector == "" && !known[p.address] })
	slices.SortStableFunc(out, func(a, b peering) int {
		return cmp.Or(
			plan.TrueFirst(a.global, b.global),
			plan.TrueFirst(a.address.IsValid(), b.address.IsValid()),
			cmp.Compare(a.Name, b.Name),
		)
	})
	return out
}

// having gives those of some addresses that nodes have.
func having(nodes []plan.Node, some map[netip.Addr]bool) map[netip.Addr]bool {
	out := map[netip.Addr]bool{}
	for i := range nodes {
		if len(some) == 0 {
			break
		}
		for _, a := range nodes[i].Addresses {
			if some[a] {
				out[a] = true
			}
		}
	}
	return out
}

// addressOf reads an address with or without a port.
func addressOf(peerIP string) netip.Addr {
	if a, err := netip.ParseAddrPort(peerIP); err == nil {
		return a.Addr()
	}
	a, _ := netip.ParseAddr(peerIP) // invalid: no node has it
	return a
}

func password(ref *plan.SecretRef) string {
	if ref == nil {
		return ""
	}
	return ref.Name + "/" + ref.Key
}

// Side gives what node configures about peer, and whether it has a session with it at
// all. As Calico's confd does it, a BGPPeer that names the node wins over the reverse
// side of one that names the peer, and a peer given by its address has no cluster ID.
func (c *Configuration) Side(node, peer string) (Side, bool) {
	n, known := c.Members[node]
	o, there := c.Members[peer]
	if !known || !there || node == peer {
		return Side{}, false
	}
	return c.side(n.kind, o.kind)
}

// side is what a node of one kind configures about a node of another.
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
		return Side{Mesh: true, Password: c.MeshPassword}, true
	}
	return Side{}, false
}

// side is what a node makes of the BGPPeer, given both cluster IDs and whether the mesh
// connects the two as well.
func (p *peering) side(clusterID, peerID string, mesh bool) Side {
	s := Side{Twice: mesh && p.address.IsValid(), Password: p.password}
	if s.Client = clusterID != "" && peerID != clusterID; s.Client {
		s.ClusterID = clusterID
	}
	return s
}

// sides are those of a session between nodes of two kinds, if they get one.
func (c *Configuration) sides(a, b int) (mine, yours Side, ok bool) {
	mine, here := c.side(a, b)
	yours, there := c.side(b, a)
	return mine, yours, here && there && mine.Fits(yours)
}

// Peered reports whether BGPPeers give a node a session with a peer at that address of the
// peer's: one that names an address does so only at that. Sessions of the mesh do not count.
func (c *Configuration) Peered(node, peer string, at netip.Addr) bool {
	mine, here := c.Side(node, peer)
	yours, there := c.Side(peer, node)
	if !here || !there || mine.Mesh && yours.Mesh || !mine.Fits(yours) {
		return false
	}
	n, o := &c.kinds[c.Members[node].kind], &c.kinds[c.Members[peer].kind]
	for i, p := range c.peerings {
		if selects(n, o, i) && (!p.address.IsValid() || p.address.Is4() == at.Is4()) {
			return true
		}
	}
	return false
}

// selects reports whether a peering has nodes of two kinds on its two sides.
func selects(a, b *kind, peering int) bool {
	return a.from.has(peering) && b.to.has(peering) || b.from.has(peering) && a.to.has(peering)
}

// Connects reports whether the BGPPeer of that name has nodes on both of its sides.
func (c *Configuration) Connects(name string) bool {
	i := slices.IndexFunc(c.peerings, func(p peering) bool { return p.Name == name })
	here := func(k kind) bool { return k.from.has(i) }
	there := func(k kind) bool { return k.to.has(i) }
	return i >= 0 && slices.ContainsFunc(c.kinds, here) && slices.ContainsFunc(c.kinds, there)
}

// Passes reports whether to gets origin's routes from via, given what the three have
// configured about each other and that the sessions between them are Established: from
// the origin itself, or reflected once. With one cluster ID a route is never reflected
// twice.
func Passes(viaOrigin, viaTo, toVia Side) bool {
	if !viaOrigin.Client && !viaTo.Client {
		return false
	}
	// BIRD refuses, on a session with a client, what carries its own cluster ID.
	return !toVia.Client || toVia.ClusterID != viaOrigin.ClusterID && toVia.ClusterID != viaTo.ClusterID
}
