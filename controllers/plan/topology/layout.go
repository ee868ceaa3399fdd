package topology

import (
	"cmp"
	"maps"
	"slices"

	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/controllers/plan"
)

// SlotSingle is the slot of every reflector in Single: there they are all alike. The
// others' names begin with these, see KindOf.
const (
	SlotSingle  = "true"
	SlotQuorum  = "quorum-"
	SlotMulti   = "multi-"
	SlotRack    = "rack-"
	SlotSpine   = "spine-"
	mostPerZone = 64 // of which Size finds the fewest that do
)

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
	// Open are the BGPPeers of groups that take whoever is in no other, as things are
	// now, and Racks those that have reflectors now; see Standing. Without them the same
	// clients give the same layout, but it may change where a rack fills up or empties.
	Open, Racks []string
	// standing: these two are known.
	standing bool
}

// Read gives the Spec of what an object says. Reflectors that are not dedicated run
// workloads as well, and serve fewer clients where it says nothing.
func Read(spec v1alpha1.TopologySpec, roleLabel string, dedicated bool) Spec {
	limit := v1alpha1.MaxClientsShared
	if dedicated {
		limit = v1alpha1.MaxClientsDedicated
	}
	return Spec{
		Kind: spec.Type, ClusterID: spec.ClusterID, Redundancy: int(spec.Redundancy),
		MaxClients: cmp.Or(int(spec.MaxClientsPerReflector), limit), MaxPaths: int(spec.MaxPathsPerPrefix),
		RoleLabel: roleLabel, ZoneLabel: spec.ZoneLabel, RackLabel: spec.RackLabel,
	}
}

// Slot is the place of one reflector in a layout. Its name is the value of the role
// label, so that the cluster itself remembers who sits where.
type Slot struct {
	Name, ClusterID string
	// Group is the group of clients that the slot belongs to (Hierarchy), "" for none.
	Group string
	// Spine slots join the racks of a Hierarchy and have no clients.
	Spine bool
	// Node that sits here, "" while nobody does.
	Node string
}

// Group is a set of clients that have the same reflectors.
type Group struct {
	// Name is a zone, a rack, or a number; "" for those that no label puts into one.
	Name string
	// Open: the group takes every node that is in no other.
	Open bool
	// Selector gives its nodes, in Calico's syntax.
	Selector string
	// Slots that its clients peer with, by name, sorted.
	Slots []string
	// Clients is how many there are now.
	Clients int
}

// Layout is who reflects for whom.
type Layout struct {
	Kind v1alpha1.TopologyType
	// Slots in the order in which they are to be filled: whatever prefix of it is
	// filled serves everyone as well as so many can.
	Slots []Slot
	// Groups of clients, sorted by name.
	Groups []Group
	// Peers are the BGPPeers, sorted by name.
	Peers []plan.Peer
	// Racks are the values of plan.RackLabel that have yet to be written, by node. Until
	// then a node counts for the group that it will be in.
	Racks map[string]string
	// Depth is how many reflectors keep any two clients in touch once all slots are
	// filled: one less may fail.
	Depth int
}

// Written gives nodes as they are once the layout is written to them: clients in their
// racks, reflectors in their slots.
func (l Layout) Written(nodes []plan.Node, roleLabel string) []plan.Node {
	slots := map[string]Slot{}
	for _, s := range l.Slots {
		slots[s.Node] = s
	}
	out := make([]plan.Node, 0, len(nodes))
	for _, n := range nodes {
		if rack := l.Racks[n.Name]; rack != "" {
			n.Rack, n.Labels = rack, with(n.Labels, plan.RackLabel, rack)
		}
		if s, ok := slots[n.Name]; ok {
			n.RoleLabel, n.Marked, n.Slot, n.ClusterID = true, true, s.Name, s.ClusterID
			n.Labels = with(n.Labels, roleLabel, s.Name)
		}
		out = append(out, n)
	}
	return out
}

func with(labels map[string]string, key, value string) map[string]string {
	out := map[string]string{}
	maps.Copy(out, labels)
	out[key] = value
	return out
}

// The names of the BGPPeers of the other topologies begin with these, and then comes a
// dot and the group; those between reflectors have no group. They differ between the
// topologies, and so do the slots that they select, so that two of them can stand side
// by side while the cluster moves from one to the other. (This replaces what the plan
// said before: no peer but Single's selects has(role), also where every client peers
// with every reflector.)
const (
	PeerQuorum           = "rrpool-quorum"            // !has(role) && group -> role in {slots}
	PeerQuorumReflectors = "rrpool-quorum-reflectors" // role starts with "quorum-" -> the same
	PeerMulti            = "rrpool-multi"             // !has(role) && group -> role in {slots}
	PeerMultiReflectors  = "rrpool-multi-reflectors"  // role starts with "multi-" -> the same
	PeerRack             = "rrpool-rack"              // !has(role) && rack -> role in {slots}
	PeerSpines           = "rrpool-spines"            // role starts with "spine-" -> role starts with "rack-"
	PeerRackReflectors   = "rrpool-rack-reflectors"   // of the only rack: role in {slots} -> the same
)

// Arrange gives everybody a place. The reflectors are the nodes chosen to reflect, in a
// role already or not: who has a slot of this layout keeps it. There are as many slots
// as perZone in each of zones, or what a Hierarchy needs if that is more; where that
// would make too many paths, the nodes left over stay without a slot.
//
// Clients are divided by the label that the spec names. Where it names none, by zone, or
// by plan.RackLabel if there are not two zones, or they do not fit.
func Arrange(spec Spec, s Session, clients, reflectors []plan.Node, zones []string, perZone int) Layout {
	spec, zones, perZone = spec.sound(), sound(zones), max(perZone, 1)
	switch spec.Kind {
	case v1alpha1.TopologyQuorum, v1alpha1.TopologyMultiCluster:
		return arrangeShared(spec, s, clients, reflectors, zones, perZone)
	case v1alpha1.TopologyHierarchy:
		return arrangeTiers(spec, s, clients, reflectors, zones, perZone)
	case v1alpha1.TopologySingle, v1alpha1.TopologyAuto:
	}
	return arrangeSingle(spec, s, clients, reflectors, len(zones)*perZone)
}

func (s Spec) sound() Spec {
	s.Redundancy = max(s.Redundancy, 1)
	return s
}

// sound are the zones sorted, each once, and at least one.
func sound(zones []string) []string {
	if len(zones) == 0 {
		return []string{""}
	}
	return slices.Compact(slices.Sorted(slices.Values(zones)))
}
