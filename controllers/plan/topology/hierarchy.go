package topology

import (
	"cmp"
	"slices"
	"strconv"

	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/controllers/plan"
)

// tiers is what becomes of a census in a Hierarchy.
type tiers struct {
	*census
	racks []string
	// perRack reflectors serve each rack, and spines join them.
	perRack, spines int
}

// newTiers counts the slots that racks and spines need, and those that they get when
// there are more: further spines, as far as the paths allow it.
func newTiers(spec Spec, clients []plan.Node, zones []string, slots int) *tiers {
	c := divide(spec, clients, zones)
	if c.division == bySize {
		c.racks(spec)
	}
	if len(c.groups) == 0 {
		c.open("1") // no client has a rack: one for all
	}
	t := &tiers{census: c, racks: c.names(), perRack: spec.Redundancy}
	if len(t.racks) == 1 {
		t.perRack = max(spec.Redundancy, min(slots, spec.MaxPaths))
	} else {
		t.spines = max(spec.Redundancy, min(slots-len(t.racks)*t.perRack, spec.MaxPaths/(t.perRack*t.perRack)))
	}
	return t
}

// slots in the order in which they are filled: the first of each rack, a spine, the second of each rack, and so on.
func (t *tiers) slots(spec Spec) []Slot {
	var out []Slot
	for n := 1; n <= max(t.perRack, t.spines); n++ {
		for _, rack := range t.racks {
			if n <= t.perRack {
				out = append(out, Slot{Name: slotName(SlotRack, rack, n), Group: rack})
			}
		}
		if n <= t.spines {
			out = append(out, Slot{Name: SlotSpine + strconv.Itoa(n), Spine: true, ClusterID: clusterID(spec.ClusterID, spineID)})
		}
	}
	return out
}

// arrangeTiers arranges a Hierarchy.
func arrangeTiers(spec Spec, s Session, clients, reflectors []plan.Node, zones []string, perZone int) Layout {
	t := newTiers(spec, clients, zones, len(zones)*perZone)
	l := Layout{Kind: v1alpha1.TopologyHierarchy, Slots: t.slots(spec)}
	l.spread(t, zones, reflectors, perZone, l.fillSlots(reflectors))
	l.number(spec, firstRackID, firstSlotID, reflectors)
	settled := l.settled(reflectors)
	serving := slices.DeleteFunc(slices.Clone(t.racks), func(rack string) bool {
		return !slices.ContainsFunc(l.Slots, func(s Slot) bool { return s.Group == rack && settled[s.Name].Name != "" })
	})
	var open string
	if now := nowOpen(spec, serving); t.division == bySize {
		open = l.assign(spec, t.census, serving)
	} else if now >= 0 {
		open = serving[now]
	} else { // the one that was there first
		inRacks := slices.DeleteFunc(slices.Clone(l.Slots), func(s Slot) bool { return s.Spine })
		open = slices.MinFunc(inRacks, func(a, b Slot) int {
			return cmp.Compare(placeOf(spec.ClusterID, a.ClusterID), placeOf(spec.ClusterID, b.ClusterID))
		}).Group
	}
	slots := map[string][]string{}
	for _, slot := range l.Slots {
		slots[slot.Group] = append(slots[slot.Group], slot.Name)
	}
	l.divide(spec, s, t.census, open, func(rack string) []string { return slices.Sorted(slices.Values(slots[rack])) })
	if t.spines > 0 {
		l.Peers = append(l.Peers, peer(PeerSpines, startsWith(spec.RoleLabel, SlotSpine), startsWith(spec.RoleLabel, SlotRack), s))
	} else {
		reflector := in(spec.RoleLabel, l.Groups[0].Slots)
		l.Peers = append(l.Peers, peer(PeerRackReflectors, reflector, reflector, s))
	}
	l.sortPeers()
	l.Depth = depth(l.Groups, l.Kind)
	if withClients := slices.DeleteFunc(slices.Clone(l.Groups), func(g Group) bool { return g.Clients == 0 }); len(withClients) != 1 && t.spines > 0 {
		l.Depth = min(l.Depth, t.spines)
	}
	return l
}

// home is the zone that most clients of a rack are in.
func (t *tiers) home(rack string, zones []string) string {
	group := t.groups[rack]
	if group == nil {
		return ""
	}
	if t.division == byZone {
		return rack
	}
	return slices.MaxFunc(append([]string{""}, zones...), func(a, b string) int {
		return cmp.Or(cmp.Compare(group.zones[a], group.zones[b]), cmp.Compare(b, a))
	})
}

// placing slots the reflectors of a Hierarchy over the zones.
type placing struct {
	slots []Slot
	zone  []string // of the node in each slot, also of one that is new there
	here  []bool   // the slot was taken before
	free  map[string][]string
	zones []string // that have free nodes
	home  func(rack string) string
}

// spread places the nodes that have no slot yet. A rack gets its first reflector from the zone that most of its
// clients are in, the second from another, and so on; spines come from zones that have none. For nodes that are
// still to come, up to perZone in each zone, it keeps slots free: no reflector has to move when they do.
func (l *Layout) spread(t *tiers, zones []string, reflectors []plan.Node, perZone int, free map[string][]string) {
	p := &placing{
		slots: l.Slots, zone: make([]string, len(l.Slots)), here: make([]bool, len(l.Slots)), free: free,
		home: func(rack string) string { return t.home(rack, zones) },
	}
	zoneOf, have, elsewhere := map[string]string{}, map[string]int{}, map[string]bool{}
	for _, n := range reflectors {
		zoneOf[n.Name] = n.Zone
		elsewhere[n.Name] = n.HasRoleLabel
		have[n.Zone]++
	}
	for _, zone := range zones {
		for ; t.perRack > 1 && len(l.Slots) >= len(zones)*perZone && have[zone] < perZone; have[zone]++ {
			free[zone] = append(free[zone], "") // one that is still to come
		}
	}
	for zone := range free { // one that reflects elsewhere yet is the last to move, and to the last slots
		slices.SortStableFunc(free[zone], func(a, b string) int { return plan.TrueFirst(!elsewhere[a], !elsewhere[b]) })
		p.zones = append(p.zones, zone)
	}
	slices.Sort(p.zones)
	for i, s := range l.Slots {
		p.here[i] = s.Node != ""
		p.zone[i] = zoneOf[s.Node]
	}
	for i, here := range p.here {
		if !here {
			p.place(i)
		}
	}
	for i := range p.slots {
		p.improve(i)
	}
}

// place gives a slot to a node from the best zone.
func (p *placing) place(i int) {
	used, home := p.used(p.slots[i].Group), p.home(p.slots[i].Group)
	offered := slices.DeleteFunc(slices.Clone(p.zones), func(z string) bool { return len(p.free[z]) == 0 })
	if len(offered) == 0 {
		p.here[i] = true // there is none to swap with
		return
	}
	zone := slices.MinFunc(offered, func(a, b string) int {
		return cmp.Or(
			cmp.Compare(used[a], used[b]),
			plan.TrueFirst(a == home, b == home),
			plan.TrueFirst(p.free[a][0] != "", p.free[b][0] != ""),
			cmp.Compare(len(p.free[b]), len(p.free[a])),
			cmp.Compare(a, b),
		)
	})
	p.slots[i].Node, p.zone[i], p.free[zone] = p.free[zone][0], zone, p.free[zone][1:]
}

// used counts the slots of a group by zone.
func (p *placing) used(group string) map[string]int {
	used := map[string]int{}
	for i, s := range p.slots {
		if s.Group == group && (p.here[i] && s.Node != "" || !p.here[i] && p.zone[i] != "") {
			used[p.zone[i]]++
		}
	}
	return used
}

// improve swaps a new one with another new one, where all of its group are in one zone
// and the other's group then are not.
func (p *placing) improve(i int) {
	if p.here[i] {
		return
	}
	mine := p.used(p.slots[i].Group)
	for j := range p.slots {
		if len(mine) != 1 || mine[p.zone[i]] < 2 {
			return
		}
		if p.here[j] || p.zone[j] == p.zone[i] {
			continue
		}
		yours := p.used(p.slots[j].Group)
		if len(yours) < 2 || len(yours) == 2 && yours[p.zone[j]] == 1 && yours[p.zone[i]] > 0 {
			continue
		}
		p.zone[i], p.zone[j] = p.zone[j], p.zone[i]
		p.slots[i].Node, p.slots[j].Node = p.slots[j].Node, p.slots[i].Node
		mine = p.used(p.slots[i].Group)
	}
}
