package topology

import (
	"cmp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/controllers/plan"
)

// SlotSingle is the slot of every reflector in Single. The slots of other topologies begin with one of the prefixes, see KindOf.
const (
	SlotSingle  = "true"
	SlotQuorum  = "quorum-"
	SlotMulti   = "multi-"
	SlotRack    = "rack-"
	SlotSpine   = "spine-"
	mostPerZone = 64 // the most reflectors, in all zones together, that fewestPerZone tries beyond its minimum
)

// Spec holds what a layout depends on: the user's settings and, if WithCurrent has added it, the state of the cluster.
type Spec struct {
	// Kind is never Auto: see Size.
	Kind v1alpha1.TopologyType
	// ClusterID is the cluster ID from which others are counted, see clusterID.
	ClusterID string
	// Redundancy is how many reflectors connect any two clients.
	Redundancy int
	// MaxClients is the limit of clients per reflector, MaxPaths that of paths to a prefix on any node.
	MaxClients, MaxPaths int
	// RoleLabel, ZoneLabel and RackLabel are label keys; RackLabel may be "", see Arrange.
	RoleLabel, ZoneLabel, RackLabel string
	// Open are the names of the existing BGPPeers of open groups (see Group.Open). Racks are the racks that have reflectors.
	// WithCurrent sets both. Without them a layout is valid too, but may change more when a rack becomes full or empty.
	Open, Racks []string
	// IDs are the current cluster IDs by slot. If several reflectors have a slot, it is the ID of the reflector that got the slot first.
	IDs map[string]string
}

// ReadSpec returns the Spec for a RouteReflectorPool's topology, with defaults for what is not set. Without dedicated nodes, reflectors run
// workloads too, so the default of MaxClients is lower.
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

// Slot is the position of one reflector in a layout. Its name is the value
// of the role label, so the nodes' labels record which node has which slot.
type Slot struct {
	Name, ClusterID string
	// Group is the group of clients that the slot belongs to (Hierarchy), "" for none.
	Group string
	// Spine slots connect the racks of a Hierarchy and have no clients.
	Spine bool
	// Node that has the slot, "" for none yet.
	Node string
}

// Group is a set of clients that have the same reflectors.
type Group struct {
	// Name is a zone, a rack, or a number; "" for the group of clients whose labels name no group.
	Name string
	// Open: the group accepts every client that is in no other group.
	Open bool
	// Selector selects the group's nodes, in Calico's syntax.
	Selector string
	// Slots are the names of the slots that its clients peer with, sorted.
	Slots []string
	// Clients is the current number of clients.
	Clients int
}

// Layout says which nodes are route reflectors, for which clients, and by which BGPPeers.
type Layout struct {
	Kind v1alpha1.TopologyType
	// Slots are in the order in which they are to be filled, the most needed first.
	Slots []Slot
	// Groups of clients, sorted by name.
	Groups []Group
	// Peers are the BGPPeers, sorted by name.
	Peers []plan.Peer
	// Racks are the values of plan.RackLabel that are still to be written, by node. These nodes already count as clients of their new rack.
	Racks map[string]string
	// Depth is how many reflectors must fail, once all slots are filled, until two clients have no route to each other.
	Depth int
}

// Applied returns the nodes with the labels and cluster IDs that the layout gives them.
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

// The names of the BGPPeers of topologies other than Single; each comment shows nodeSelector -> peerSelector.
// In BGPPeers for clients, a dot and the group's name follow. Names and selected slots differ between
// topologies, so that two topologies can exist at the same time while a cluster changes from one to the other.
const (
	PeerQuorum           = "rrpool-quorum"            // !has(role) && group -> role in {slots}
	PeerQuorumReflectors = "rrpool-quorum-reflectors" // role starts with "quorum-" -> the same
	PeerMulti            = "rrpool-multi"             // !has(role) && group -> role in {slots}
	PeerMultiReflectors  = "rrpool-multi-reflectors"  // role starts with "multi-" -> the same
	PeerRack             = "rrpool-rack"              // !has(role) && rack -> role in {slots}
	PeerSpines           = "rrpool-spines"            // role starts with "spine-" -> role starts with "rack-"
	PeerRackReflectors   = "rrpool-rack-reflectors"   // of the only rack: role in {slots} -> the same
)

// Arrange returns the layout of a cluster. reflectors are the nodes chosen to be reflectors, whether or not
// they have the role. A node that has a slot of this layout keeps it. There are perZone slots in each of zones.
// A Hierarchy has more slots if it needs more, or fewer slots to limit the paths: some nodes then get no slot.
//
// Clients are divided into groups by the label that the spec names. If it names none, they are divided
// by zone, or by plan.RackLabel if there are fewer than two zones or a zone has too many clients.
func Arrange(spec Spec, s Session, clients, reflectors []plan.Node, zones []string, perZone int) Layout {
	zones, perZone = distinctZones(zones), max(perZone, 1)
	switch spec.Kind {
	case v1alpha1.TopologyQuorum, v1alpha1.TopologyMultiCluster:
		return arrangeShared(spec, s, clients, reflectors, zones, perZone)
	case v1alpha1.TopologyHierarchy:
		return arrangeTiers(spec, s, clients, reflectors, zones, perZone)
	case v1alpha1.TopologySingle, v1alpha1.TopologyAuto:
	}
	return arrangeSingle(spec, s, clients, reflectors, len(zones)*perZone)
}

// distinctZones returns the zones sorted, without duplicates; if there are none, the zone "".
func distinctZones(zones []string) []string {
	if len(zones) == 0 {
		return []string{""}
	}
	return slices.Compact(slices.Sorted(slices.Values(zones)))
}

// fillSlots assigns reflectors to the slots that they have. If two have the same slot,
// the one that got the role first keeps it. It returns the other reflectors, by zone.
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

// longestInRole compares nodes: current reflectors first, by the time they got the role, then Ready ones, then the oldest.
func longestInRole(a, b plan.Node) int {
	return cmp.Or(
		plan.TrueFirst(a.HasRoleLabel, b.HasRoleLabel),
		a.RoleSince.Compare(b.RoleSince),
		plan.TrueFirst(a.Ready, b.Ready),
		older(&a, &b),
	)
}

// arrangeSingle returns the layout of Single, in which all slots have the same name.
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

// addGroups adds the groups of a census and their BGPPeers. open is the name
// of the open group. If it is "", addGroups adds an open group without a name.
func (l *Layout) addGroups(spec Spec, s Session, c *census, open string, slots func(group string) []string) {
	names := c.names()
	if open == "" {
		names = append(names, "")
	}
	clients := c.counts(names)
	for _, n := range c.ungrouped {
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

// WithCurrent adds the state of the cluster to a spec: which groups are open, which racks have reflectors,
// and the cluster IDs. This keeps layouts from changing back and forth when single clients come and go.
func (s Spec) WithCurrent(nodes []plan.Node, peers []plan.Peer) Spec {
	s.Open, s.Racks, s.IDs = nil, nil, map[string]string{}
	for _, p := range peers {
		if isOpen(p) {
			s.Open = append(s.Open, p.Name)
		}
	}
	var reflectors []plan.Node
	for i := range nodes { // nodes are large, and few are reflectors
		if nodes[i].HasRoleLabel {
			reflectors = append(reflectors, nodes[i])
		}
	}
	slices.SortFunc(reflectors, longestInRole)
	for _, n := range reflectors {
		if rack := slotPlace(SlotRack, n.Slot); isRack(rack) && !slices.Contains(s.Racks, rack) {
			s.Racks = append(s.Racks, rack)
		}
		if n.ClusterID != "" && n.IsOurs() {
			s.IDs[n.Slot] = cmp.Or(s.IDs[n.Slot], n.ClusterID)
		}
	}
	slices.SortFunc(s.Racks, byNumber)
	return s
}

// isOpen reports whether a BGPPeer is for the clients of an open group.
func isOpen(p plan.Peer) bool {
	prefix, _, found := strings.Cut(p.Name, ".")
	return p.Owned && found && slices.Contains([]string{PeerQuorum, PeerMulti, PeerRack}, prefix) && !strings.Contains(p.NodeSelector, "==")
}
