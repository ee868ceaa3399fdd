package rollout

import (
	"cmp"
	"net/netip"
	"slices"

	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/controllers/plan"
	"github.com/rrpool/rrpool/controllers/plan/simulate"
	"github.com/rrpool/rrpool/controllers/plan/topology"
)

// arrangement is what the view knows where reflectors are not all alike: dedicated
// ones of another topology than Single, or on the way from one to the other.
type arrangement struct {
	topology.Layout
	slots map[string]topology.Slot // by node
	// is what the nodes have configured; the mesh does not count.
	is *simulate.Configuration
	// now is what comes of that with every node up, then what will once everything is as planned; see goal.
	now, then *simulate.Network
	// edited: a BGPPeer is gone or not as planned, or the label of a rack is not there.
	edited bool
	// owners of address blocks, by prefix.
	owners map[netip.Prefix]string
}

// arranged reports whether reflectors have slots that differ.
func (v *view) arranged() bool { return v.arrangement != nil }

// needsSlots: the reflectors are not all alike, or not yet, or no longer.
func (v *view) needsSlots() bool {
	if !v.d.Dedicated {
		return false
	}
	kind := v.d.Topology.Kind
	return v.d.Mode == v1alpha1.ModeRouteReflector && kind != "" && kind != v1alpha1.TopologySingle || v.isScoped() ||
		slices.ContainsFunc(v.current, func(n plan.Node) bool { return topology.KindOf(n.Slot) != v1alpha1.TopologySingle }) ||
		slices.ContainsFunc(v.Nodes, func(n plan.Node) bool { return n.Rack != "" })
}

// isScoped: Single's BGPPeers are as they have to be beside another topology.
func (v *view) isScoped() bool {
	return slices.ContainsFunc(topology.Scoped(v.d.RoleLabel, v.session()), func(p plan.Peer) bool {
		have, ok := v.peer(p.Name)
		return ok && have.PeerSelector == p.PeerSelector
	})
}

// arrange gives every reflector its slot, and makes the two networks.
func (v *view) arrange() {
	layout := topology.Layout{Kind: v1alpha1.TopologySingle, Peers: v.peers} // on the way back no reflector moves
	if v.d.Mode == v1alpha1.ModeRouteReflector {
		layout = topology.Arrange(v.d.Topology.WithCurrent(v.Nodes, v.Peers), v.session(), v.workloads(), v.wanted, v.d.Pool.Zones, v.d.Pool.SizePerZone)
	}
	a := &arrangement{Layout: layout, slots: map[string]topology.Slot{}, owners: map[netip.Prefix]string{}}
	for _, s := range layout.Slots {
		if s.Node != "" {
			a.slots[s.Node] = s
		}
	}
	v.arrangement = a
	if v.d.Mode == v1alpha1.ModeRouteReflector { // nodes of the pool that the layout has no slot for stay without a role
		v.wanted = slices.DeleteFunc(v.wanted, func(n plan.Node) bool { return a.slots[n.Name].Node == "" })
		v.total = len(layout.Slots)
	}
	v.peers = v.scoped(layout)
	a.edited = len(layout.Racks) > 0 || slices.ContainsFunc(v.peers, func(p plan.Peer) bool { have, there := v.peer(p.Name); return !there || !fits(have, p) })
	a.is = v.configuration(v.Nodes, v.Peers)
	a.now = a.is.Network(everyNode)
	for _, n := range v.clients {
		for _, b := range n.Blocks {
			a.owners[b] = n.Name
		}
	}
}

func everyNode(string) bool { return true }

// workloads are the nodes that speak BGP and run pods, Ready or not.
func (v *view) workloads() []plan.Node {
	return filter(v.Nodes, func(n plan.Node) bool { return n.SpeaksBGP() && !v.d.dedicated(n) })
}

// configuration is what nodes configure without the mesh.
func (v *view) configuration(nodes []plan.Node, peers []plan.Peer) *simulate.Configuration {
	off, bgp := false, v.BGP
	bgp.Mesh.Enabled = &off
	return simulate.NewConfiguration(v.d.RoleLabel, nodes, bgp, peers)
}

// assigned are all nodes as they are once each is in place, clients in their racks: one without a slot has no role.
func (v *view) assigned() []plan.Node {
	out := v.arrangement.Applied(v.Nodes, v.d.RoleLabel)
	for i, n := range out {
		if _, ok := v.arrangement.slots[n.Name]; !ok && n.IsOurs() {
			out[i] = withSlot(n, "", "")
		}
	}
	return out
}

// withSlot is a node in a slot, or without one.
func withSlot(n plan.Node, slot, id string) plan.Node {
	n.HasRoleLabel, n.Slot, n.ClusterID = slot != "", slot, id
	return n
}

// scoped are the BGPPeers of the layout. Single's select every reflector, whatever its slot. Beside reflectors with
// other cluster IDs, those that are there and those that are to come, they must not: all would pass on each other's
// routes, and the paths multiply. So where any of Single's is there, it is scoped before the first of these comes.
func (v *view) scoped(layout topology.Layout) []plan.Peer {
	slots := func(kinds ...v1alpha1.TopologyType) bool {
		return slices.ContainsFunc(v.current, func(n plan.Node) bool {
			return n.HasRoleLabel && slices.Contains(kinds, topology.KindOf(n.Slot))
		})
	}
	const multi, tiers = v1alpha1.TopologyMultiCluster, v1alpha1.TopologyHierarchy
	comes, scoped := layout.Kind == multi || layout.Kind == tiers, topology.Scoped(v.d.RoleLabel, v.session())
	there := filter(scoped, func(p plan.Peer) bool { _, ok := v.peer(p.Name); return ok })
	unscoped := slices.ContainsFunc(there, func(p plan.Peer) bool { have, _ := v.peer(p.Name); return have.PeerSelector != p.PeerSelector })
	switch {
	case !comes && !slots(multi, tiers):
	case layout.Kind == v1alpha1.TopologySingle:
		return scoped
	case unscoped, len(there) > 0 && comes && slots(v1alpha1.TopologySingle, v1alpha1.TopologyQuorum):
		return append(slices.Clone(layout.Peers), scoped...)
	}
	return layout.Peers
}

// mostPaths is how many paths to a prefix a node may have: those of two topologies side by side.
func (v *view) mostPaths() int { return 2 * cmp.Or(v.d.Topology.MaxPaths, 64) }

// multiplied counts the paths that a node has to a prefix with the BGPPeers and roles as they are, where they are more than that, else 0.
func (v *view) multiplied() (paths int) {
	for _, c := range v.samples() {
		most, _ := v.arrangement.now.HeldPaths(c.Name, everyNode)
		paths = max(paths, int(min(most.Paths, 1<<30)))
	}
	if paths <= v.mostPaths() {
		return 0
	}
	return paths
}

// slot is where a reflector belongs, and its cluster ID, in mode RouteReflector. Without an arrangement all have the same.
func (v *view) slot(n plan.Node) (name, id string) {
	if !v.arranged() {
		return "", v.d.ClusterID
	}
	s := v.arrangement.slots[n.Name]
	return s.Name, s.ClusterID
}

// setReflector gives a node its role, and its slot.
func (v *view) setReflector(n plan.Node) plan.Action {
	slot, id := v.slot(n)
	return plan.SetReflector{Node: n.Name, ClusterID: id, Slot: slot}
}

// peersOf are those of nodes that r has a session with in a network; all, where there is no arrangement.
func (v *view) peersOf(net *simulate.Network, r plan.Node, nodes []plan.Node) []plan.Node {
	return filter(nodes, func(n plan.Node) bool { return net == nil || net.Connected(r.Name, n.Name) })
}

// present is the network as it is, nil where all reflectors are alike.
func (v *view) present() *simulate.Network {
	if !v.arranged() {
		return nil
	}
	return v.arrangement.now
}

// goal is the network that is wanted, nil where all reflectors are alike.
func (v *view) goal() *simulate.Network {
	if !v.arranged() {
		return nil
	}
	if v.arrangement.then == nil {
		v.arrangement.then = v.configuration(v.assigned(), v.peers).Network(everyNode)
	}
	return v.arrangement.then
}

// depthAmong is how many of these reflectors keep any two of some clients in touch, counted up to most.
func (v *view) depthAmong(serving []plan.Node, most int, among func(plan.Node) bool) int {
	clients, reflectors := map[string]bool{}, map[string]bool{}
	for _, n := range serving {
		reflectors[n.Name] = true
	}
	for _, n := range v.relying(2) {
		clients[n.Name] = among(n)
	}
	net := v.arrangement.is.Network(func(name string) bool { return clients[name] || reflectors[name] })
	return net.Depth(most, func(name string) bool { return clients[name] })
}

// serving are the reflectors that serve.
func (v *view) serving() []plan.Node {
	return filter(v.current, v.serves)
}

// idling: there is no session that a change could restart. A reflector may serve fewer nodes than it should, as when a BGPPeer of
// somebody else gives it more, and carry all their routes.
func (v *view) idling() bool {
	carries := func(n plan.Node) bool {
		return usable(n) && hasRole(n) && !v.unanswered(n, silence) && slices.ContainsFunc(v.dependantsOf(n.Name), v.report(n.Name).isUp)
	}
	return len(v.serving()) == 0 && !slices.ContainsFunc(v.current, carries)
}
