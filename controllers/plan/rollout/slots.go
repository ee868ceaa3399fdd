package rollout

import (
	"slices"

	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/controllers/plan"
	"github.com/rrpool/rrpool/controllers/plan/simulate"
	"github.com/rrpool/rrpool/controllers/plan/topology"
)

// arrangement holds the slots and sessions of reflectors that are not all alike: dedicated
// ones of another topology than Single, or on the way from one topology to another.
type arrangement struct {
	topology.Layout
	slots map[string]topology.Slot // by node
	// is holds what is configured on the nodes now, without the mesh.
	is *simulate.Configuration
	// now is the network that results from field is if every node is up. then
	// is the network that results once everything is as planned; see goal.
	now, then *simulate.Network
	// edited: a planned BGPPeer is missing or different, or a client lacks the label of its rack.
	edited bool
}

// arranged reports whether the reflectors are not all alike, and have slots that differ.
func (t *target) arranged() bool { return t.arrangement != nil }

// needsSlots reports whether the reflectors are to differ in their slots, or still do.
func (t *target) needsSlots() bool {
	if !t.d.Dedicated {
		return false
	}
	kind := t.d.Topology.Kind
	return t.d.Mode == v1alpha1.ModeRouteReflector && kind != "" && kind != v1alpha1.TopologySingle || t.isScoped() ||
		slices.ContainsFunc(t.Current, func(n plan.Node) bool { return topology.KindOf(n.Slot) != v1alpha1.TopologySingle }) ||
		slices.ContainsFunc(t.Nodes, func(n plan.Node) bool { return n.Rack != "" })
}

// isScoped reports whether a BGPPeer of Single selects only reflectors of Single and Quorum, as it has to beside another topology.
func (t *target) isScoped() bool {
	return slices.ContainsFunc(topology.Scoped(t.d.RoleLabel, t.session()), func(p plan.Peer) bool {
		have, ok := t.peer(p.Name)
		return ok && have.PeerSelector == p.PeerSelector
	})
}

// arrange gives every reflector its slot, and determines the planned BGPPeers and the present network.
func (t *target) arrange() {
	layout := topology.Layout{Kind: v1alpha1.TopologySingle, Peers: t.peers} // on the way back no reflector moves
	if t.d.Mode == v1alpha1.ModeRouteReflector {
		layout = topology.Arrange(t.d.Topology.WithCurrent(t.Nodes, t.Peers), t.session(), t.workloads(), t.wanted, t.d.Pool.Zones, t.d.Pool.SizePerZone)
	}
	a := &arrangement{Layout: layout, slots: map[string]topology.Slot{}}
	for _, s := range layout.Slots {
		if s.Node != "" {
			a.slots[s.Node] = s
		}
	}
	t.arrangement = a
	if t.d.Mode == v1alpha1.ModeRouteReflector { // nodes of the pool that the layout has no slot for stay without a role
		t.wanted = slices.DeleteFunc(t.wanted, func(n plan.Node) bool { return a.slots[n.Name].Node == "" })
		t.total = len(layout.Slots)
	}
	t.peers = t.scoped(layout)
	a.edited = len(layout.Racks) > 0 || slices.ContainsFunc(t.peers, func(p plan.Peer) bool { have, there := t.peer(p.Name); return !there || !fits(have, p) })
	a.is = t.configuration(t.Nodes, t.Peers)
	a.now = a.is.Network(everyNode)
}

// workloads returns the nodes that speak BGP and run pods, Ready or not.
func (t *target) workloads() []plan.Node {
	return plan.Filter(t.Nodes, func(n plan.Node) bool { return n.SpeaksBGP() && !t.d.dedicated(n) })
}

// configuration returns what nodes have configured, without the mesh.
func (t *target) configuration(nodes []plan.Node, peers []plan.Peer) *simulate.Configuration {
	off, bgp := false, t.BGP
	bgp.Mesh.Enabled = &off
	return simulate.NewConfiguration(t.d.RoleLabel, nodes, bgp, peers)
}

// assigned returns all nodes as they will be once each reflector is in its
// slot and each client in its rack. A reflector without a slot loses the role.
func (t *target) assigned() []plan.Node {
	out := t.arrangement.Applied(t.Nodes, t.d.RoleLabel)
	for i, n := range out {
		if _, ok := t.arrangement.slots[n.Name]; !ok && n.IsOurs() {
			out[i] = withSlot(n, "", "")
		}
	}
	return out
}

// scoped returns the BGPPeers of the layout. Those of Single select every reflector, whatever its slot. Beside reflectors
// with other cluster IDs, present or to come, they must not: all reflectors would pass on each other's routes, and the
// paths would multiply. So if any BGPPeer of Single exists, it is scoped before the first of these reflectors comes.
func (t *target) scoped(layout topology.Layout) []plan.Peer {
	slots := func(kinds ...v1alpha1.TopologyType) bool {
		return slices.ContainsFunc(t.Current, func(n plan.Node) bool {
			return n.HasRoleLabel && slices.Contains(kinds, topology.KindOf(n.Slot))
		})
	}
	const multi, tiers = v1alpha1.TopologyMultiCluster, v1alpha1.TopologyHierarchy
	comes, scoped := layout.Kind == multi || layout.Kind == tiers, topology.Scoped(t.d.RoleLabel, t.session())
	there := plan.Filter(scoped, func(p plan.Peer) bool { _, ok := t.peer(p.Name); return ok })
	unscoped := slices.ContainsFunc(there, func(p plan.Peer) bool { have, _ := t.peer(p.Name); return have.PeerSelector != p.PeerSelector })
	switch {
	case !comes && !slots(multi, tiers):
	case layout.Kind == v1alpha1.TopologySingle:
		return scoped
	case unscoped, len(there) > 0 && comes && slots(v1alpha1.TopologySingle, v1alpha1.TopologyQuorum):
		return append(slices.Clone(layout.Peers), scoped...)
	}
	return layout.Peers
}

// slot returns the slot in which a reflector belongs, and its cluster ID, in mode
// RouteReflector. Without an arrangement all reflectors have the slot "" and the same ID.
func (t *target) slot(n plan.Node) (name, id string) {
	if !t.arranged() {
		return "", t.clusterID
	}
	s := t.arrangement.slots[n.Name]
	return s.Name, s.ClusterID
}

// setReflector returns the action that gives a node its role, and its slot.
func (t *target) setReflector(n plan.Node) plan.Action {
	slot, id := t.slot(n)
	return plan.SetReflector{Node: n.Name, ClusterID: id, Slot: slot}
}

func everyNode(string) bool { return true }

// withSlot returns a node with this slot and cluster ID, or without the role if slot is "".
func withSlot(n plan.Node, slot, id string) plan.Node {
	n.HasRoleLabel, n.Slot, n.ClusterID = slot != "", slot, id
	return n
}

// goal returns the planned network, nil if all reflectors are alike.
func (t *target) goal() *simulate.Network {
	if t.arrangement == nil {
		return nil
	}
	if t.arrangement.then == nil {
		t.arrangement.then = t.configuration(t.assigned(), t.peers).Network(everyNode)
	}
	return t.arrangement.then
}
