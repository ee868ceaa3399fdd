package topology

import (
	"cmp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/labels"

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
	// Open are the BGPPeers of groups that take clients that are in no other, as things are
	// now, and Racks those that have reflectors now; see Standing. Without them the same
	// clients give the same layout, but it may change where a rack fills up or empties.
	Open, Racks []string
	// IDs are the cluster IDs that slots have now, by the slot: of the reflector that has been in it for longest.
	IDs map[string]string
}

// ReadSpec gives the Spec of what an object says, complete also where that has no defaults.
// Reflectors that are not dedicated run workloads as well, and serve fewer clients.
func ReadSpec(spec v1alpha1.TopologySpec, roleLabel string, dedicated bool) Spec {
	limit := v1alpha1.MaxClientsShared
	if dedicated {
		limit = v1alpha1.MaxClientsDedicated
	}
	return Spec{
		Kind: spec.Type, ClusterID: spec.ClusterID, Redundancy: max(int(spec.Redundancy), 1),
		MaxClients: cmp.Or(int(spec.MaxClientsPerReflector), limit), MaxPaths: cmp.Or(int(spec.MaxPathsPerPrefix), 64),
		RoleLabel: roleLabel, ZoneLabel: spec.ZoneLabel, RackLabel: spec.RackLabel,
	}
}

// Slot is the place of one reflector in a layout. Its name is the value of the role
// label, so that the cluster itself remembers which node is where.
type Slot struct {
	Name, ClusterID string
	// Group is the group of clients that the slot belongs to (Hierarchy), "" for none.
	Group string
	// Spine slots join the racks of a Hierarchy and have no clients.
	Spine bool
	// Node that has it, "" for none yet.
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

// Layout is which nodes reflect, and for which clients.
type Layout struct {
	Kind v1alpha1.TopologyType
	// Slots in the order in which they are to be filled: whatever prefix of it is
	// filled serves all clients as well as so many can.
	Slots []Slot
	// Groups of clients, sorted by name.
	Groups []Group
	// Peers are the BGPPeers, sorted by name.
	Peers []plan.Peer
	// Racks are the values of plan.RackLabel that have yet to be written, by node. Until
	// then a node counts for the group that it will be in.
	Racks map[string]string
	// Depth is how many reflectors keep any two clients in touch once all slots are filled: one less may fail.
	Depth int
}

// Applied gives nodes as they are once the layout is written to them: clients in their
// racks, reflectors in their slots.
func (l Layout) Applied(nodes []plan.Node, roleLabel string) []plan.Node {
	slots := map[string]Slot{}
	for _, s := range l.Slots {
		slots[s.Node] = s
	}
	out := make([]plan.Node, 0, len(nodes))
	for _, n := range nodes {
		if rack := l.Racks[n.Name]; rack != "" {
			n.Rack, n.Labels = rack, labels.Merge(n.Labels, labels.Set{plan.RackLabel: rack})
		}
		if s, ok := slots[n.Name]; ok {
			n.HasRoleLabel, n.Marked, n.Slot, n.ClusterID = true, true, s.Name, s.ClusterID
			n.Labels = labels.Merge(n.Labels, labels.Set{roleLabel: s.Name})
		}
		out = append(out, n)
	}
	return out
}

// The names of the BGPPeers of the other topologies begin with these, and then comes a dot and the group; those
// between reflectors have no group. They differ between the topologies, and so do the slots that they select, so
// that two of them can stand side by side while the cluster moves from one to the other.
const (
	PeerQuorum           = "rrpool-quorum"            // !has(role) && group -> role in {slots}
	PeerQuorumReflectors = "rrpool-quorum-reflectors" // role starts with "quorum-" -> the same
	PeerMulti            = "rrpool-multi"             // !has(role) && group -> role in {slots}
	PeerMultiReflectors  = "rrpool-multi-reflectors"  // role starts with "multi-" -> the same
	PeerRack             = "rrpool-rack"              // !has(role) && rack -> role in {slots}
	PeerSpines           = "rrpool-spines"            // role starts with "spine-" -> role starts with "rack-"
	PeerRackReflectors   = "rrpool-rack-reflectors"   // of the only rack: role in {slots} -> the same
)

// Arrange gives all nodes a place. The reflectors are the nodes chosen to reflect, in a role already or not: one
// that has a slot of this layout keeps it. There are as many slots as perZone in each of zones, or what a Hierarchy
// needs if that is more; where that would make too many paths, the nodes left over stay without a slot.
//
// Clients are divided by the label that the spec names. Where it names none, by zone, or
// by plan.RackLabel if there are not two zones, or they do not fit.
func Arrange(spec Spec, s Session, clients, reflectors []plan.Node, zones []string, perZone int) Layout {
	zones, perZone = sound(zones), max(perZone, 1)
	switch spec.Kind {
	case v1alpha1.TopologyQuorum, v1alpha1.TopologyMultiCluster:
		return arrangeShared(spec, s, clients, reflectors, zones, perZone)
	case v1alpha1.TopologyHierarchy:
		return arrangeTiers(spec, s, clients, reflectors, zones, perZone)
	case v1alpha1.TopologySingle, v1alpha1.TopologyAuto:
	}
	return arrangeSingle(spec, s, clients, reflectors, len(zones)*perZone)
}

// sound are the zones sorted, each once, and at least one.
func sound(zones []string) []string {
	if len(zones) == 0 {
		return []string{""}
	}
	return slices.Compact(slices.Sorted(slices.Values(zones)))
}

// fillSlots gives the reflectors that have a slot already the same again; of two in one
// slot, the one that has been there longer. It returns the others, by zone.
func (l *Layout) fillSlots(reflectors []plan.Node) (free map[string][]string) {
	slots := map[string]int{}
	for i, s := range l.Slots {
		slots[s.Name] = i
	}
	free = map[string][]string{}
	for _, n := range slices.SortedFunc(slices.Values(reflectors), longestInRole) {
		i, ok := slots[n.Slot]
		if n.HasRoleLabel && ok && l.Slots[i].Node == "" {
			l.Slots[i].Node = n.Name
		} else {
			free[n.Zone] = append(free[n.Zone], n.Name)
		}
	}
	return free
}

// longestInRole sorts those in the role first, by the time they got it, then Ready ones, then the oldest.
func longestInRole(a, b plan.Node) int {
	return cmp.Or(
		plan.TrueFirst(a.HasRoleLabel, b.HasRoleLabel),
		a.RoleSince.Compare(b.RoleSince),
		plan.TrueFirst(a.Ready, b.Ready),
		older(&a, &b),
	)
}

// arrangeSingle: all slots are alike.
func arrangeSingle(spec Spec, s Session, clients, reflectors []plan.Node, slots int) Layout {
	l := Layout{Kind: v1alpha1.TopologySingle, Peers: Single(spec.RoleLabel, s), Depth: slots}
	here := func(n plan.Node) bool { return n.HasRoleLabel && KindOf(n.Slot) == v1alpha1.TopologySingle }
	sorted := slices.SortedFunc(slices.Values(reflectors), func(a, b plan.Node) int {
		return cmp.Or(plan.TrueFirst(here(a), here(b)), longestInRole(a, b))
	})
	for i := range slots {
		l.Slots = append(l.Slots, Slot{Name: SlotSingle, ClusterID: spec.ClusterID})
		if i < len(sorted) {
			l.Slots[i].Node = sorted[i].Name
		}
	}
	l.Groups = []Group{{Open: true, Selector: isClient(spec.RoleLabel), Slots: []string{SlotSingle}, Clients: len(clients)}}
	l.sortPeers()
	return l
}

// divide makes the groups of a census and their BGPPeers. Open names the one that takes
// all others, "" for one of its own.
func (l *Layout) divide(spec Spec, s Session, c *census, open string, slots func(group string) []string) {
	names := c.names()
	if open == "" {
		names = append(names, "")
	}
	clients := c.counts(names)
	for _, n := range c.others {
		clients[slices.Index(names, cmp.Or(l.Racks[n.Name], open))]++
	}
	for i, name := range names {
		g := Group{Name: name, Open: name == open, Slots: slots(name), Clients: clients[i], Selector: isClient(spec.RoleLabel)}
		if !g.Open {
			g.Selector += " && " + equals(c.key, name)
		} else if len(names) > 1 {
			g.Selector += " && " + notIn(c.key, slices.Delete(slices.Clone(names), i, i+1))
		}
		l.Groups = append(l.Groups, g)
		l.Peers = append(l.Peers, peer(peerName(l.Kind, name), g.Selector, in(spec.RoleLabel, g.Slots), s))
	}
	slices.SortFunc(l.Groups, func(a, b Group) int { return cmp.Compare(a.Name, b.Name) })
	l.sortPeers()
}

func (l *Layout) sortPeers() {
	slices.SortFunc(l.Peers, func(a, b plan.Peer) int { return cmp.Compare(a.Name, b.Name) })
}

// WithCurrent adds to a spec what the cluster itself remembers: which group is open, and which racks have reflectors.
// That keeps a layout still at the edge, where one client more or less fills or empties a rack.
func (s Spec) WithCurrent(nodes []plan.Node, peers []plan.Peer) Spec {
	s.Open, s.Racks, s.IDs = nil, nil, map[string]string{}
	for _, p := range peers {
		prefix, _, found := strings.Cut(p.Name, ".")
		grouped := found && slices.Contains([]string{PeerQuorum, PeerMulti, PeerRack}, prefix)
		if p.Owned && grouped && !strings.Contains(p.NodeSelector, "==") {
			s.Open = append(s.Open, p.Name)
		}
	}
	for _, n := range nodes {
		if rack := slotPlace(SlotRack, n.Slot); n.HasRoleLabel && isRack(rack) && !slices.Contains(s.Racks, rack) {
			s.Racks = append(s.Racks, rack)
		}
	}
	var reflectors []plan.Node
	for i := range nodes { // nodes are large, and few reflect
		if n := &nodes[i]; n.HasRoleLabel && n.ClusterID != "" && n.IsOurs() {
			reflectors = append(reflectors, *n)
		}
	}
	slices.SortFunc(reflectors, longestInRole)
	for _, n := range reflectors {
		if _, known := s.IDs[n.Slot]; !known {
			s.IDs[n.Slot] = n.ClusterID
		}
	}
	slices.SortFunc(s.Racks, natural)
	return s
}
