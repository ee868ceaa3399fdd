package topology

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/projectcalico/calico/libcalico-go/lib/selector"

	"github.com/rrpool/rrpool/controllers/plan"
)

// families is a set of address families: bit 0 for IPv4, bit 1 for IPv6.
type families uint8

const bothFamilies families = 3

func familyOf(a netip.Addr) families {
	if a.Is4() {
		return 1
	}
	return 2
}

func (f families) has(a netip.Addr) bool { return f&familyOf(a) != 0 }

// hasFamily: the node has an address of IPv4 (0) or IPv6 (1).
func hasFamily(n plan.Node, family int) bool { return familiesOf(n)&(1<<family) != 0 }

func familiesOf(n plan.Node) families {
	var out families
	for _, a := range n.Addresses {
		out |= familyOf(a)
	}
	return out
}

// peering says who has sessions with whom by the BGPPeers, as far as reflectors take
// part. It knows Calico's rule that one BGPPeer makes both ends.
type peering struct {
	// clients and members are, for each member, the families that it has sessions in
	// with each client, and each other member.
	clients, members [][]families
	// racks and groups of the nodes, members first and then clients, as far as the
	// BGPPeers name them.
	racks, groups []string
	// outside are the BGPPeers that lead out of the cluster.
	outside []string
}

// peeringOf also gives a sentence for each BGPPeer that cannot be understood.
func peeringOf(peers []plan.Peer, members, clients []plan.Node) (peering, []string) {
	all := slices.Concat(members, clients)
	p := peering{
		clients: table(len(members), len(clients)), members: table(len(members), len(members)),
		racks: make([]string, len(all)), groups: make([]string, len(all)),
	}
	var strange []string
	for _, peer := range peers {
		e, common, err := endsOf(peer, all)
		switch {
		case err != nil:
			strange = append(strange, fmt.Sprintf("BGPPeer %s: %v: its sessions are not drawn", peer.Name, err))
		case e.to == nil:
			p.outside = append(p.outside, peer.Name)
		default:
			p.join(e, common, members, clients)
			p.name(peer, e)
		}
	}
	return p, strange
}

// name notes which nodes the BGPPeer of a group is for.
func (p *peering) name(peer plan.Peer, e ends) {
	name, rack := groupNamed(peer)
	if name == "" {
		return
	}
	for i := range p.groups {
		if e.from[i] {
			p.groups[i] = name
		}
		if rack && (e.from[i] || e.to[i]) {
			p.racks[i] = name
		}
	}
}

func table(rows, columns int) [][]families {
	out := make([][]families, rows)
	for i := range out {
		out[i] = make([]families, columns)
	}
	return out
}

// ends of a BGPPeer by the places of the nodes: members come first, clients after them.
type ends struct{ from, to []bool }

// meet: the BGPPeer makes a session of these two.
func (e ends) meet(i, j int) bool { return i != j && (e.from[i] && e.to[j] || e.from[j] && e.to[i]) }

// join marks the pairs that a BGPPeer makes.
func (p *peering) join(e ends, common families, members, clients []plan.Node) {
	for i, member := range members {
		if !e.from[i] && !e.to[i] {
			continue
		}
		with := common & familiesOf(member)
		join(p.members[i], members, with, func(j int) bool { return e.meet(i, j) })
		if member.ClusterID != "" {
			join(p.clients[i], clients, with, func(j int) bool { return e.meet(i, len(members)+j) })
		}
	}
}

// join adds the families in common with those nodes that are peers.
func join(row []families, nodes []plan.Node, common families, isPeer func(int) bool) {
	for j, node := range nodes {
		if isPeer(j) {
			row[j] |= common & familiesOf(node)
		}
	}
}

// endsOf gives the nodes that have a BGPPeer, and those that it leads to: none at all
// (nil) when it leads to what is no node.
func endsOf(p plan.Peer, nodes []plan.Node) (ends, families, error) {
	here, err := chosen(p.Node, p.NodeSelector)
	if err != nil {
		return ends{}, 0, err
	}
	there, common, err := target(p)
	if err != nil {
		return ends{}, 0, err
	}
	out := ends{make([]bool, len(nodes)), make([]bool, len(nodes))}
	for i, node := range nodes {
		out.from[i], out.to[i] = here(node), there(node)
	}
	if p.PeerSelector == "" && !slices.Contains(out.to, true) {
		out.to = nil
	}
	return out, common, nil
}

func chosen(name, text string) (func(plan.Node) bool, error) {
	if name != "" {
		return func(n plan.Node) bool { return n.Name == name }, nil
	}
	selected, err := selector.Parse(text) // an empty one selects all nodes
	if err != nil {
		return nil, fmt.Errorf("its selector %q cannot be read (%w)", text, err)
	}
	return func(n plan.Node) bool { return selected.Evaluate(n.Labels) }, nil
}

// target says which nodes a BGPPeer leads to, and in which families.
func target(p plan.Peer) (func(plan.Node) bool, families, error) {
	if p.PeerSelector != "" {
		match, err := chosen("", p.PeerSelector)
		return match, bothFamilies, err
	}
	addr, ok := addressOf(p.PeerIP)
	if !ok {
		return nil, 0, fmt.Errorf("its peerIP %q cannot be read", p.PeerIP)
	}
	return func(n plan.Node) bool { return slices.Contains(n.Addresses, addr) }, familyOf(addr), nil
}

// addressOf reads what Calico takes: an address, or one with a port.
func addressOf(text string) (netip.Addr, bool) {
	if with, err := netip.ParseAddrPort(text); err == nil {
		return with.Addr().Unmap(), true
	}
	addr, err := netip.ParseAddr(text)
	return addr.Unmap(), err == nil
}

// with is a key for the set of reflectors that a client peers with.
func (p *peering) with(client int) string {
	var out strings.Builder
	for _, row := range p.clients {
		out.WriteByte('0' + byte(row[client]))
	}
	return out.String()
}

func (p *peering) notes() []string {
	if len(p.outside) == 0 {
		return nil
	}
	const few = 3
	names := slices.Sorted(slices.Values(p.outside))
	text := strings.Join(names[:min(few, len(names))], ", ")
	if len(names) > few {
		text += fmt.Sprintf(" and %d more", len(names)-few)
	}
	return []string{fmt.Sprintf("%s out of the cluster: not drawn (%s)", count(len(names), "BGPPeer")+" that lead"+map[bool]string{true: "s"}[len(names) == 1], text)}
}
