package topology

import (
	"cmp"
	"slices"
	"strings"

	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/controllers/plan"
)

// sit gives the reflectors their seats. Who has one keeps it; of two with the same the
// one that has been there longer. The others, by zone, are left for seat to place.
func (l *Layout) sit(reflectors []plan.Node, seat func(free map[string][]string)) {
	seats := map[string]int{}
	for i, s := range l.Seats {
		seats[s.Name] = i
	}
	free := map[string][]string{}
	for _, n := range slices.SortedFunc(slices.Values(reflectors), bySeniority) {
		i, ok := seats[n.Seat]
		if n.RoleLabel && ok && l.Seats[i].Node == "" {
			l.Seats[i].Node = n.Name
		} else {
			free[n.Zone] = append(free[n.Zone], n.Name)
		}
	}
	seat(free)
}

// bySeniority sorts those in the role first, by the time they got it, then Ready ones,
// then the oldest.
func bySeniority(a, b plan.Node) int {
	return cmp.Or(
		plan.TrueFirst(a.RoleLabel, b.RoleLabel),
		a.RoleSince.Compare(b.RoleSince),
		plan.TrueFirst(a.Ready, b.Ready),
		older(&a, &b),
	)
}

// arrangeSingle: all seats are alike.
func arrangeSingle(spec Spec, s Session, clients, reflectors []plan.Node, seats int) Layout {
	l := Layout{Kind: v1alpha1.TopologySingle, Peers: Single(spec.RoleLabel, s), Depth: seats}
	here := func(n plan.Node) bool { return n.RoleLabel && KindOf(n.Seat) == v1alpha1.TopologySingle }
	sorted := slices.SortedFunc(slices.Values(reflectors), func(a, b plan.Node) int {
		return cmp.Or(plan.TrueFirst(here(a), here(b)), bySeniority(a, b))
	})
	for i := range seats {
		l.Seats = append(l.Seats, Seat{Name: SeatSingle, ClusterID: spec.ClusterID})
		if i < len(sorted) {
			l.Seats[i].Node = sorted[i].Name
		}
	}
	l.Groups = []Group{{Open: true, Selector: isClient(spec.RoleLabel), Seats: []string{SeatSingle}, Clients: len(clients)}}
	l.sortPeers()
	return l
}

// foreignIDs are the cluster IDs of reflectors that are not in their seat yet.
func (l *Layout) foreignIDs(reflectors []plan.Node) []string {
	seat := map[string]string{}
	for _, s := range l.Seats {
		seat[s.Node] = s.Name
	}
	var out []string
	for _, n := range reflectors {
		if n.ClusterID != "" && seat[n.Name] != n.Seat {
			out = append(out, n.ClusterID)
		}
	}
	return out
}

// divide makes the groups of a census and their BGPPeers. Open names the one that takes
// all others, "" for one of its own.
func (l *Layout) divide(spec Spec, s Session, c *census, open string, seats func(group string) []string) {
	names := c.names()
	others := len(c.others) - len(l.Racks)
	if open == "" {
		names = append(names, "")
	}
	for _, name := range names {
		g := Group{Name: name, Open: name == open, Seats: seats(name)}
		if c.groups[name] != nil {
			g.Clients = c.groups[name].clients
		}
		for _, rack := range l.Racks {
			if rack == name {
				g.Clients++
			}
		}
		g.Selector = isClient(spec.RoleLabel)
		switch {
		case !g.Open:
			g.Selector += " && " + equals(c.key, name)
		case len(names) > 1:
			g.Clients += others
			g.Selector += " && " + notIn(c.key, slices.DeleteFunc(slices.Clone(names), func(n string) bool { return n == open }))
		default:
			g.Clients += others
		}
		l.Groups = append(l.Groups, g)
		l.Peers = append(l.Peers, peer(peerName(l.Kind, name), g.Selector, in(spec.RoleLabel, g.Seats), s))
	}
	slices.SortFunc(l.Groups, func(a, b Group) int { return cmp.Compare(a.Name, b.Name) })
	l.sortPeers()
}

func (l *Layout) sortPeers() {
	slices.SortFunc(l.Peers, func(a, b plan.Peer) int { return cmp.Compare(a.Name, b.Name) })
}

// Standing adds to a spec what the cluster itself remembers: which group is open, and
// which racks have reflectors. That keeps a layout still at the edge, where one client
// more or less fills or empties a rack.
func (s Spec) Standing(nodes []plan.Node, peers []plan.Peer) Spec {
	s.Open, s.Racks, s.standing = nil, nil, true
	for _, p := range peers {
		prefix, _, found := strings.Cut(p.Name, ".")
		grouped := found && slices.Contains([]string{PeerQuorum, PeerMulti, PeerRack}, prefix)
		if p.Owned && grouped && !strings.Contains(p.NodeSelector, "==") {
			s.Open = append(s.Open, p.Name)
		}
	}
	for _, n := range nodes {
		if rack := seatPlace(SeatRack, n.Seat); n.RoleLabel && isRack(rack) && !slices.Contains(s.Racks, rack) {
			s.Racks = append(s.Racks, rack)
		}
	}
	slices.SortFunc(s.Racks, natural)
	return s
}
