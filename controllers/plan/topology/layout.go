package topology

import (
	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/controllers/plan"
)

// SeatSingle is the seat of every reflector in Single: there they are all alike.
const SeatSingle = "true"

// Spec is what of the user's spec a layout depends on.
type Spec struct {
	// Kind is never Auto: see Size.
	Kind v1alpha1.TopologyType
	// ClusterID is the first cluster ID.
	ClusterID string
	// Redundancy is how many reflectors keep two clients in touch.
	Redundancy int
	// MaxClients per reflector, and MaxPaths to a prefix on any node.
	MaxClients, MaxPaths int
	// RoleLabel, ZoneLabel and RackLabel are label keys; no RackLabel: see Arrange.
	RoleLabel, ZoneLabel, RackLabel string
}

// Seat is the place of one reflector in a layout. Its name is the value of the role
// label, so that the cluster itself remembers who sits where.
type Seat struct {
	Name, ClusterID string
	// Group is the group of clients that the seat belongs to (Hierarchy), "" for none.
	Group string
	// Spine seats join the racks of a Hierarchy and have no clients.
	Spine bool
	// Node that sits here, "" while nobody does.
	Node string
}

// Group is a set of clients that have the same reflectors.
type Group struct {
	// Name is a zone, a rack, or a number.
	Name string
	// Selector gives its nodes, in Calico's syntax.
	Selector string
	// Seats that its clients peer with, by name, sorted.
	Seats []string
	// Clients is how many there are now.
	Clients int
}

// Layout is who reflects for whom.
type Layout struct {
	Kind v1alpha1.TopologyType
	// Seats in the order in which they are to be filled: whatever prefix of it is
	// filled serves everyone as well as so many can.
	Seats []Seat
	// Groups of clients, sorted by name.
	Groups []Group
	// Peers are the BGPPeers, sorted by name.
	Peers []plan.Peer
	// Racks are the values of plan.RackLabel that have yet to be written, by node. Until
	// then a node counts for the group that it will be in.
	Racks map[string]string
	// Depth is how many reflectors keep any two clients in touch once all seats are
	// filled: one less may fail.
	Depth int
}

// The names of the BGPPeers of the other topologies begin with these, and then comes a
// dot and the group; those between reflectors have no group. They differ between the
// topologies, and so do the seats that they select, so that two of them can stand side
// by side while the cluster moves from one to the other. (This replaces what the plan
// said before: no peer but Single's selects has(role), also where every client peers
// with every reflector.)
const (
	PeerQuorum           = "rrpool-quorum"            // !has(role) && group -> role in {seats}
	PeerQuorumReflectors = "rrpool-quorum-reflectors" // role starts with "quorum-" -> the same
	PeerMulti            = "rrpool-multi"             // !has(role) && group -> role in {seats}
	PeerMultiReflectors  = "rrpool-multi-reflectors"  // role starts with "multi-" -> the same
	PeerRack             = "rrpool-rack"              // !has(role) && rack -> role in {seats}
	PeerSpines           = "rrpool-spines"            // role starts with "spine-" -> role starts with "rack-"
)
