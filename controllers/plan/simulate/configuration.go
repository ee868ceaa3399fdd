// Package simulate is a model of a Calico cluster: what its nodes make of the
// datastore, which sessions and routes come of it, and when. It is pure, and its clock
// is moved by hand. The rules are those measured with the real parts (docs/architecture.md).
package simulate

import (
	"net/netip"

	"github.com/rrpool/rrpool/controllers/plan"
)

// Configuration is what all nodes configure their BGP sessions from.
type Configuration struct {
	// RoleLabel is the key of the label that selectors ask for.
	RoleLabel string
	// MeshOn, and the password of the mesh.
	MeshOn       bool
	MeshPassword string
	// Members are the nodes that speak BGP, by name.
	Members map[string]Member

	selecting []selecting
	reaching  map[end]plan.Peer
}

// Member is a node as far as the configuration depends on it.
type Member struct {
	Addresses []netip.Addr
	Role      bool
	ClusterID string
}

// end is a node, and the address that a BGPPeer of it names.
type end struct {
	node    string
	address netip.Addr
}

// selecting is a BGPPeer that connects nodes by the role label.
type selecting struct {
	plan.Peer
	from, to wanted
}

// wanted is a selector as far as it is about the role label.
type wanted int

const (
	nobody wanted = iota
	withRole
	withoutRole
)

func (w wanted) matches(m Member) bool { return w == withRole && m.Role || w == withoutRole && !m.Role }

// Side is what a node configures about one peer. A session whose sides change restarts.
type Side struct {
	// Mesh: the session is one of the mesh. Client: the peer is a client of this node.
	Mesh, Client bool
	// Twice: the peer has two protocols that fight for one connection.
	Twice               bool
	ClusterID, Password string
}

// Fits reports whether two sides get a session.
func (s Side) Fits(o Side) bool { return s.Password == o.Password && !s.Twice && !o.Twice }

// NewConfiguration reads nodes, BGPConfiguration and BGPPeers. Of the peers only those
// count that connect nodes: by the role label, or one node with one address.
func NewConfiguration(roleLabel string, nodes []plan.Node, bgp plan.BGPConfig, peers []plan.Peer) *Configuration {
	c := &Configuration{
		RoleLabel: roleLabel, MeshOn: bgp.MeshOn(), MeshPassword: password(bgp.Mesh.Password),
		Members: make(map[string]Member, len(nodes)), reaching: map[end]plan.Peer{},
	}
	for _, n := range nodes {
		if n.SpeaksBGP() {
			c.Members[n.Name] = Member{Addresses: n.Addresses, Role: n.RoleLabel, ClusterID: n.ClusterID}
		}
	}
	for _, p := range peers {
		if address, err := netip.ParseAddr(p.PeerIP); err == nil {
			c.reaching[end{p.Node, address}] = p
		} else {
			c.selecting = append(c.selecting, selecting{p, c.read(p.NodeSelector), c.read(p.PeerSelector)})
		}
	}
	return c
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
	if !known || !there {
		return Side{}, false
	}
	mesh := c.MeshOn && n.ClusterID == "" && o.ClusterID == ""
	p, peerID, ok := c.peering(node, n, peer, o)
	switch {
	case ok:
		s := Side{Twice: mesh && p.PeerIP != "", Client: n.ClusterID != "" && peerID != n.ClusterID, Password: password(p.Password)}
		if s.Client {
			s.ClusterID = n.ClusterID
		}
		return s, true
	case mesh:
		return Side{Mesh: true, Password: c.MeshPassword}, true
	}
	return Side{}, false
}

// peering is the BGPPeer that a node has for another, and the other's cluster ID as it
// says.
func (c *Configuration) peering(node string, n Member, peer string, o Member) (p plan.Peer, peerID string, ok bool) {
	if p, ok := c.named(node, o); ok {
		return p, "", true
	}
	reverse, reversed := plan.Peer{}, false
	for i := range c.selecting {
		p := &c.selecting[i]
		switch {
		case p.from.matches(n) && p.to.matches(o):
			return p.Peer, o.ClusterID, true
		case p.from.matches(o) && p.to.matches(n) && !p.Manual:
			reverse, reversed = p.Peer, true
		}
	}
	if p, ok := c.named(peer, n); ok && !p.Manual {
		reverse, reversed = p, true
	}
	return reverse, o.ClusterID, reversed
}

// named is the BGPPeer of a node that names an address of another.
func (c *Configuration) named(node string, o Member) (plan.Peer, bool) {
	if len(c.reaching) == 0 {
		return plan.Peer{}, false
	}
	for _, address := range o.Addresses {
		if p, ok := c.reaching[end{node, address}]; ok {
			return p, true
		}
	}
	return plan.Peer{}, false
}

// read understands the selectors that rrpool writes; others match nobody.
func (c *Configuration) read(selector string) wanted {
	switch selector {
	case "has(" + c.RoleLabel + ")":
		return withRole
	case "!has(" + c.RoleLabel + ")":
		return withoutRole
	}
	return nobody
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
