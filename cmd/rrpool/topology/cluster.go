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

// observed is a cluster as it was read, or as it is planned.
type observed struct {
	plan.Cluster
	// roleLabel marks reflectors. provider is the one that Auto stands for.
	roleLabel string
	provider  v1alpha1.ProviderType
	// name of the context, step of the manager ("" without a RouteReflectorPool).
	name, step string
	// wanted: nodes of the dedicated pool are to reflect.
	wanted bool
	// planned: there are no sessions yet whose states could be read.
	planned bool
}

// builder makes the network of a cluster.
type builder struct {
	observed
	config *simulate.Configuration
	// members reflect, or are about to; clients are all others that speak BGP.
	members, clients []plan.Node
}

// networkOf shows the nodes by their roles, the sessions that the BGPPeers give them, and
// their states by the reports of the reflectors.
func networkOf(o observed) Network {
	b := &builder{observed: o, config: simulate.NewConfiguration(o.roleLabel, o.Nodes, o.BGP, o.Peers)}
	n := Network{Cluster: o.name, Live: !o.planned, Title: "BGP topology of cluster " + o.name}
	silent, kinds := b.sort()
	n.Topology, n.Mesh = strings.Join(kinds, " and "), b.mesh()
	b.addReflectors(&n)
	b.addGroups(&n)
	if silent > 0 {
		n.Notes = append(n.Notes, count(silent, "node")+" without a BGP address: not drawn")
	}
	if idle := b.unconnected(); len(idle) > 0 {
		n.Notes = append(n.Notes, fmt.Sprintf("%s without nodes of the cluster on both sides: not drawn (%s)", count(len(idle), "BGPPeer"), iostreams.Few(idle)))
	}
	for _, p := range o.Problems {
		n.Warnings = append(n.Warnings, p.Message)
	}
	n.Subtitle = b.subtitle(&n)
	n.arrange()
	return n
}

// sort finds members and clients, and gives the number of nodes that do not speak BGP, and
// the topologies that the reflectors have by their seats.
func (b *builder) sort() (silent int, kinds []string) {
	for _, node := range slices.SortedFunc(slices.Values(b.Nodes), func(x, y plan.Node) int { return cmp.Compare(x.Name, y.Name) }) {
		switch {
		case !node.SpeaksBGP():
			silent++
		case b.isMember(node):
			b.members = append(b.members, node)
			if kind := topology.KindOf(node.Slot); node.ClusterID != "" && node.RoleLabel && kind != "" {
				kinds = append(kinds, string(kind))
			}
		default:
			b.clients = append(b.clients, node)
		}
	}
	slices.Sort(kinds)
	return silent, slices.Compact(kinds)
}

func (b *builder) subtitle(n *Network) string {
	out := n.size()
	if n.Topology != "" && n.Topology != string(v1alpha1.TopologySingle) {
		out += ", topology " + n.Topology
	}
	if ids := n.clusterIDs(); len(ids) == 1 {
		out += ", cluster ID " + ids[0]
	}
	if b.step != "" {
		out += ", step " + b.step
	}
	return out
}

// isMember: a node with a cluster ID reflects, whoever gave it. One with the role label
// alone is to reflect, and so is a worker of a dedicated pool while reflectors are wanted.
func (b *builder) isMember(n plan.Node) bool {
	return n.ClusterID != "" || n.RoleLabel || b.wanted && n.Pooled && b.provider != v1alpha1.ProviderExistingNodes
}

// unconnected are the BGPPeers of others that give no session between nodes: those to
// addresses outside of the cluster, and those that select no node, or cannot be read.
func (b *builder) unconnected() []string {
	var out []string
	for _, p := range b.Peers {
		if !p.Owned && !b.config.Connects(p.Name) {
			out = append(out, p.Name)
		}
	}
	slices.Sort(out)
	return out
}

// mesh counts its sessions. Calico takes a node with a cluster ID out of it.
func (b *builder) mesh() Mesh {
	m, families := Mesh{On: b.BGP.MeshOn()}, map[bool]int{}
	for _, node := range slices.Concat(b.members, b.clients) {
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

func (b *builder) addReflectors(n *Network) {
	for i, node := range b.members {
		frame := n.frame(frameOf(node))
		r := Reflector{Name: node.Name, ClusterID: node.ClusterID, Role: node.ClusterID != "", Detail: detailOf(node)}
		if frame.Kind != zoneFrame {
			r.Zone = node.Zone
		}
		if topology.KindOf(node.Slot) != v1alpha1.TopologySingle {
			r.Seat = node.Slot
		}
		frame.Reflectors = append(frame.Reflectors, r)
		for _, other := range b.members[i+1:] {
			if with := b.sessions(node, other); with.Expected > 0 {
				n.Links = append(n.Links, Link{Reflector: node.Name, To: other.Name, Sessions: with})
			}
		}
	}
}

// frameOf is the frame of a reflector: in a Hierarchy its seat says which.
func frameOf(n plan.Node) (frameKind, string) {
	if strings.HasPrefix(n.Slot, topology.SlotSpine) {
		return spineFrame, ""
	}
	if place, isRack := strings.CutPrefix(n.Slot, topology.SlotRack); isRack {
		return rackFrame, place[:max(strings.LastIndexByte(place, '-'), 0)]
	}
	return zoneFrame, n.Zone
}

// detailOf is what a reflector's name does not show.
func detailOf(n plan.Node) string {
	role := map[[2]bool]string{{true, false}: "no cluster ID", {false, false}: "no role yet", {false, true}: "without rrpool's label"}
	ready := map[bool]string{false: "not Ready"}
	return joined(role[[2]bool{n.RoleLabel, n.ClusterID != ""}], ready[n.Ready])
}

// sessions of a reflector with a node. Of two reflectors both report: a session is up
// when neither reports it down.
func (b *builder) sessions(r, n plan.Node) Sessions {
	var out Sessions
	for _, addr := range n.Addresses {
		own := slices.IndexFunc(r.Addresses, func(a netip.Addr) bool { return a.Is4() == addr.Is4() })
		if own < 0 || !b.config.Peered(r.Name, n.Name, addr) {
			continue
		}
		is := b.reported(r, addr)
		if b.isMember(n) {
			if other := b.reported(n, r.Addresses[own]); is == unknown || other == none {
				is = other
			}
		}
		out.Expected++
		switch is {
		case up:
			out.Established++
		case unknown:
			out.Unknown++
		default: // down, or planned
		}
	}
	return out
}

// reported is the state of a reflector's session with an address. The last report of one
// that is not Ready may be out of date, and a cleared report holds nothing.
func (b *builder) reported(reflector plan.Node, addr netip.Addr) state {
	if b.planned {
		return planned
	}
	report, ok := b.Statuses[reflector.Name]
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

// groupKey is what the clients of a group have in common.
type groupKey struct {
	kind frameKind
	name string
	// each and shape are how many reflectors they peer with: in all, and by frame and
	// number of sessions.
	each  int
	shape string
}

// addGroups puts the clients of a frame together that peer with as many reflectors in each
// frame. In a Hierarchy the frame of a client is the rack of its reflectors.
func (b *builder) addGroups(n *Network) {
	groups, links := map[groupKey]Group{}, map[groupKey]map[int]Sessions{}
	for _, client := range b.clients {
		key, with := b.groupOf(client)
		if links[key] == nil {
			links[key] = map[int]Sessions{}
		}
		g, all := groups[key], Sessions{}
		for i, sessions := range with {
			sum := links[key][i]
			sum.add(sessions)
			links[key][i] = sum
			all.add(sessions)
		}
		g.count(client, n.of(all), b.BGP.MeshOn())
		groups[key] = g
	}
	// The more reflectors its clients have, the earlier a group comes.
	for _, key := range slices.SortedFunc(maps.Keys(groups), func(x, y groupKey) int {
		return cmp.Or(cmp.Compare(y.each, x.each), cmp.Compare(x.shape, y.shape))
	}) {
		g, frame := groups[key], n.frame(key.kind, key.name)
		g.ID, g.Each = fmt.Sprintf("%s/%d", frame.title(), len(frame.Groups)+1), key.each
		frame.Groups = append(frame.Groups, g)
		for i, sum := range links[key] {
			n.Links = append(n.Links, Link{Group: g.ID, To: b.members[i].Name, Sessions: sum})
		}
	}
}

// groupOf gives the group of a client, and its sessions by member.
func (b *builder) groupOf(client plan.Node) (groupKey, map[int]Sessions) {
	with, counts, racks := map[int]Sessions{}, map[string]int{}, map[string]bool{}
	for i, member := range b.members {
		sessions := b.sessions(member, client)
		if sessions.Expected == 0 {
			continue
		}
		with[i] = sessions
		kind, name := frameOf(member)
		counts[fmt.Sprintf("%s %q %d", kind, name, sessions.Expected)]++
		if kind == rackFrame {
			racks[name] = true
		}
	}
	key := groupKey{zoneFrame, client.Zone, len(with), fmt.Sprint(counts)} // sorted by key
	for rack := range racks {
		if len(racks) == 1 {
			key.kind, key.name = rackFrame, rack
		}
	}
	return key, with
}

// count adds a client by the state of its sessions. On the mesh it needs none.
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
