package topology

import (
	"cmp"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"github.com/rrpool/rrpool/cmd/rrpool/iostreams"
	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/controllers/plan"
	"github.com/rrpool/rrpool/controllers/plan/simulate"
	"github.com/rrpool/rrpool/controllers/plan/topology"
)

// observed is a cluster as it was read, or invented.
type observed struct {
	plan.Cluster
	// roleLabel is the node label of reflectors.
	roleLabel string
	// name is the kubeconfig's context, step the manager's step; step is empty if there is no RouteReflectorPool.
	name, step string
	// wanted is set if the nodes of the pool are to become reflectors.
	wanted bool
	// invented is set if the cluster does not exist, so that its sessions have no states.
	invented bool

	config *simulate.Configuration
	// members are the reflectors and the nodes that become reflectors; clients are all other nodes that speak BGP.
	members, clients []plan.Node
}

// drawingOf draws the nodes by their roles, the sessions by the BGPPeers, and their states by the reports of the reflectors.
func drawingOf(o observed) Drawing {
	o.config = simulate.NewConfiguration(o.roleLabel, o.Nodes, o.BGP, o.Peers)
	n := Drawing{Live: !o.invented, Title: "BGP topology of cluster " + o.name}
	silent, kinds := o.sort()
	n.Topology, n.Mesh = strings.Join(kinds, " and "), o.mesh()
	o.addReflectors(&n)
	o.addGroups(&n)
	o.addRemotes(&n)
	if silent > 0 {
		n.Notes = append(n.Notes, iostreams.Number(silent, "node")+" without a BGP address: not drawn")
	}
	if idle := o.unconnected(); len(idle) > 0 {
		n.Notes = append(n.Notes, fmt.Sprintf("%s without nodes of the cluster on both sides: not drawn (%s)", iostreams.Number(len(idle), "BGPPeer"), plan.Few(idle)))
	}
	for _, p := range o.Problems {
		n.Warnings = append(n.Warnings, p.Message)
	}
	n.Subtitle = n.subtitle(o.step)
	n.arrange()
	return n
}

// sort sets the members and clients. It returns the number of nodes that do
// not speak BGP, and the topologies to which the reflectors' slots belong.
func (o *observed) sort() (silent int, kinds []string) {
	for _, node := range slices.SortedFunc(slices.Values(o.Nodes), func(x, y plan.Node) int { return cmp.Compare(x.Name, y.Name) }) {
		switch {
		case !node.SpeaksBGP():
			silent++
		case o.isMember(node):
			o.members = append(o.members, node)
			if kind := topology.KindOf(node.Slot); node.ClusterID != "" && node.HasRoleLabel && kind != "" {
				kinds = append(kinds, string(kind))
			}
		default:
			o.clients = append(o.clients, node)
		}
	}
	slices.Sort(kinds)
	return silent, slices.Compact(kinds)
}

// isMember reports whether a node is a reflector (it has a cluster ID, whoever set that),
// or becomes one (it has the role label, or is in the pool while reflectors are wanted).
func (o *observed) isMember(n plan.Node) bool {
	return n.ClusterID != "" || n.HasRoleLabel || o.wanted && n.Pooled
}

// unconnected returns the names of the BGPPeers that are not rrpool's and make no session
// between nodes: they lead out of the cluster, select no node, or cannot be parsed.
func (o *observed) unconnected() []string {
	var out []string
	for _, p := range o.Peers {
		if _, drawn := o.remote(p); !drawn && !p.Owned && !o.config.Connects(p.Name) {
			out = append(out, p.Name)
		}
	}
	slices.Sort(out)
	return out
}

func (o *observed) addRemotes(n *Drawing) {
	for _, p := range o.Peers {
		if r, ok := o.remote(p); ok {
			n.Remotes = append(n.Remotes, r)
		}
	}
}

// remote returns the session of a ClusterPeering's BGPPeer, and false if no reflector of this cluster has that session.
func (o *observed) remote(p plan.Peer) (Remote, bool) {
	i := slices.IndexFunc(o.members, func(m plan.Node) bool { return m.Name == p.Node })
	if addr := simulate.PeerAddress(p.PeerIP); p.Peering != "" && i >= 0 && addr.IsValid() {
		return Remote{p.Node, p.Peering, addr.String(), single[o.reported(o.members[i], addr)]}, true
	}
	return Remote{}, false
}

// mesh counts the nodes and sessions of the mesh. Nodes with a cluster ID are not in the mesh: Calico removes them.
func (o *observed) mesh() Mesh {
	m, families := Mesh{On: o.BGP.MeshOn()}, map[bool]int{}
	for _, node := range slices.Concat(o.members, o.clients) {
		if node.ClusterID != "" {
			continue
		}
		m.Nodes++
		for _, addr := range node.Addresses {
			m.Sessions += families[addr.Is4()]
			families[addr.Is4()]++
		}
	}
	return m
}

func (o *observed) addReflectors(n *Drawing) {
	for i, node := range o.members {
		in := frameOf(node)
		r := Reflector{Name: node.Name, ClusterID: node.ClusterID, Detail: detailOf(node)}
		if in.Kind != zoneFrame {
			r.Zone = node.Zone
		}
		if topology.KindOf(node.Slot) != v1alpha1.TopologySingle {
			r.Slot = node.Slot
		}
		zone := n.zone(in)
		zone.Reflectors = append(zone.Reflectors, r)
		for _, other := range o.members[i+1:] {
			if with := o.sessions(node, other); with.Expected > 0 {
				n.Links = append(n.Links, Link{Reflector: node.Name, To: other.Name, Sessions: with})
			}
		}
	}
}

// frameOf returns the frame of a reflector: its zone, or in a Hierarchy the rack or the spines, by its slot.
func frameOf(n plan.Node) frame {
	if isSpine(n) {
		return frame{Kind: spineFrame}
	}
	if place, isRack := strings.CutPrefix(n.Slot, topology.SlotRack); isRack {
		return frame{place[:max(strings.LastIndexByte(place, '-'), 0)], rackFrame}
	}
	return frame{n.Zone, zoneFrame}
}

func isSpine(n plan.Node) bool { return strings.HasPrefix(n.Slot, topology.SlotSpine) }

// detailOf says what a reflector lacks for its role, and if its node is not Ready.
func detailOf(n plan.Node) string {
	role := map[[2]bool]string{{true, false}: "no cluster ID", {false, false}: "no role yet", {false, true}: "without rrpool's label"}
	ready := map[bool]string{false: "not Ready"}
	return joined(role[[2]bool{n.HasRoleLabel, n.ClusterID != ""}], ready[n.Ready])
}

// single counts one session, by its state.
var single = map[state]Sessions{up: {1, 1, 0}, none: {1, 0, 0}, unknown: {1, 0, 1}, planned: {1, 0, 0}}

// sessions counts the sessions of reflector r with node n, one for each address family. If n
// is a reflector too, both report each session: the session is down if either reports it down.
func (o *observed) sessions(r, n plan.Node) Sessions {
	var out Sessions
	for _, addr := range n.Addresses {
		own := slices.IndexFunc(r.Addresses, func(a netip.Addr) bool { return a.Is4() == addr.Is4() })
		if own < 0 || !o.config.Peered(r.Name, n.Name, addr) {
			continue
		}
		is := o.reported(r, addr)
		if o.isMember(n) {
			if other := o.reported(n, r.Addresses[own]); is == unknown || other == none {
				is = other
			}
		}
		out = out.plus(single[is])
	}
	return out
}

// reported returns the state of a reflector's session with an address. It is unknown without a report, if the
// report was cleared and has no sessions, and if the node is not Ready, since its last report may be out of date.
func (o *observed) reported(reflector plan.Node, addr netip.Addr) state {
	if o.invented {
		return planned
	}
	report, ok := o.Statuses[reflector.Name]
	if !ok || !reflector.Ready || !report.Cleared.IsZero() && len(report.Sessions) == 0 {
		return unknown
	}
	i, _ := slices.BinarySearchFunc(report.Sessions, addr, func(s plan.Session, a netip.Addr) int { return s.Peer.Compare(a) })
	for ; i < len(report.Sessions) && report.Sessions[i].Peer == addr; i++ {
		if report.Sessions[i].Established && report.Sessions[i].Kind != plan.SessionMesh {
			return up
		}
	}
	return none
}

// groupKey is what the clients of a group have in common: their frame, how many reflectors each
// peers with (each), and how many of these are in which frame with how many sessions (shape).
type groupKey struct {
	frame
	each  int
	shape string
}

// clientGroup is a group with the sessions of its clients, by the member's name.
type clientGroup struct {
	Group
	with map[string]Sessions
}

// addGroups puts all clients of one frame that peer with equally many reflectors in each
// frame into one group. In a Hierarchy the frame of a client is the rack of its reflectors.
func (o *observed) addGroups(n *Drawing) {
	groups := map[groupKey]*clientGroup{}
	for _, client := range o.clients {
		key, with := o.groupOf(client)
		g, all := groups[key], Sessions{}
		if g == nil {
			g = &clientGroup{Group{Each: key.each}, map[string]Sessions{}}
			groups[key] = g
		}
		for member, sessions := range with {
			g.with[member] = g.with[member].plus(sessions)
			all = all.plus(sessions)
		}
		g.count(client, n.of(all), o.BGP.MeshOn())
	}
	// Groups whose clients have the most reflectors come first.
	for _, key := range slices.SortedFunc(maps.Keys(groups), func(x, y groupKey) int {
		return cmp.Or(cmp.Compare(y.each, x.each), cmp.Compare(x.shape, y.shape))
	}) {
		g, zone := groups[key], n.zone(key.frame)
		g.ID = fmt.Sprintf("%s/%d", zone.title(), len(zone.Groups)+1)
		zone.Groups = append(zone.Groups, g.Group)
		for member, sum := range g.with {
			n.Links = append(n.Links, Link{Group: g.ID, To: member, Sessions: sum})
		}
	}
}

// groupOf returns the group of a client, and the client's sessions by member.
func (o *observed) groupOf(client plan.Node) (groupKey, map[string]Sessions) {
	with, counts, racks := map[string]Sessions{}, map[string]int{}, map[frame]bool{}
	for _, member := range o.members {
		sessions := o.sessions(member, client)
		if sessions.Expected == 0 {
			continue
		}
		with[member.Name] = sessions
		of := frameOf(member)
		counts[fmt.Sprintf("%s %q %d", of.Kind, of.Name, sessions.Expected)]++
		if of.Kind == rackFrame {
			racks[of] = true
		}
	}
	key := groupKey{frame{client.Zone, zoneFrame}, len(with), fmt.Sprint(counts)} // fmt prints a map sorted by key
	for rack := range racks {
		if len(racks) == 1 {
			key.frame = rack
		}
	}
	return key, with
}

// count adds a client by the state of its sessions. While the mesh is on, a client without sessions is in none of the counts by state.
func (g *Group) count(client plan.Node, is state, meshOn bool) {
	g.Clients++
	if !client.Ready {
		g.NotReady++
	}
	switch {
	case is == planned || is == idle && meshOn:
	case is == up:
		g.All++
	case is == partial:
		g.Some++
	case is == unknown:
		g.NotKnown++
	default:
		g.None++
	}
}
