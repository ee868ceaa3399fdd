package topology

import (
	"cmp"
	"slices"
	"strings"

	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/controllers/plan"
)

// fillSlots gives the reflectors their slots. Who has one keeps it; of two with the same the
// one that has been there longer. The others, by zone, are left for slot to place.
func (l *Layout) fillSlots(reflectors []plan.Node, slot func(free map[string][]string)) {
	slots := map[string]int{}
	for i, s := range l.Slots {
		slots[s.Name] = i
	}
	free := map[string][]string{}
	for _, n := range slices.SortedFunc(slices.Values(reflectors), longestInRole) {
		i, ok := slots[n.Slot]
		if n.RoleLabel && ok && l.Slots[i].Node == "" {
			l.Slots[i].Node = n.Name
		} else {
			free[n.Zone] = append(free[n.Zone], n.Name)
		}
	}
	slot(free)
}

// longestInRole sorts those in the role first, by the time they got it, then Ready ones,
// then the oldest.
func longestInRole(a, b plan.Node) int {
	return cmp.Or(
		plan.TrueFirst(a.RoleLabel, b.RoleLabel),
		a.RoleSince.Compare(b.RoleSince),
		plan.TrueFirst(a.Ready, b.Ready),
		older(&a, &b),
	)
}

// arrangeSingle: all slots are alike.
func arrangeSingle(spec Spec, s Session, clients, reflectors []plan.Node, slots int) Layout {
	l := Layout{Kind: v1alpha1.TopologySingle, Peers: Single(spec.RoleLabel, s), Depth: slots}
	here := func(n plan.Node) bool { return n.RoleLabel && KindOf(n.Slot) == v1alpha1.TopologySingle }
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

// foreignIDs are the cluster IDs of reflectors that are not in their slot yet.
func (l *Layout) foreignIDs(reflectors []plan.Node) []string {
	slot := map[string]string{}
	for _, s := range l.Slots {
		slot[s.Node] = s.Name
	}
	var out []string
	for _, n := range reflectors {
		if n.ClusterID != "" && slot[n.Name] != n.Slot {
			out = append(out, n.ClusterID)
		}
	}
	return out
}

// divide makes the groups of a census and their BGPPeers. Open names the one that takes
// all others, "" for one of its own.
func (l *Layout) divide(spec Spec, s Session, c *census, open string, slots func(group string) []string) {
	names := c.names()
	others := len(c.others) - len(l.Racks)
	if open == "" {
		names = append(names, "")
	}
	for _, name := range names {
		g := Group{Name: name, Open: name == open, Slots: slots(name)}
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
		l.Peers = append(l.Peers, peer(peerName(l.Kind, name), g.Selector, in(spec.RoleLabel, g.Slots), s))
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
		if rack := slotPlace(SlotRack, n.Slot); n.RoleLabel && isRack(rack) && !slices.Contains(s.Racks, rack) {
			s.Racks = append(s.Racks, rack)
		}
	}
	slices.SortFunc(s.Racks, natural)
	return s
}
