package topology

import (
	"cmp"
	"slices"
	"strconv"

	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/controllers/plan"
)

// tiers are the racks and spines of a Hierarchy.
type tiers struct {
	*census
	racks []string
	// perRack is the number of reflectors of each rack, spines that of the reflectors that connect the racks.
	perRack, spines int
}

// newTiers returns the racks and spines of a Hierarchy with so many slots, or with more if it needs more.
// Slots that it does not need become further spines, or reflectors of the only rack, up to MaxPaths.
func newTiers(spec Spec, clients []plan.Node, zones []string, slots int) *tiers {
	c := chooseDivision(spec, clients, zones)
	if c.division == bySize {
		c.addRacks(spec)
	}
	if len(c.groups) == 0 {
		c.group("1") // no client has a rack: one rack for all
	}
	t := &tiers{census: c, racks: c.names(), perRack: spec.Redundancy}
	if len(t.racks) == 1 {
		t.perRack = max(spec.Redundancy, min(slots, spec.MaxPaths))
	} else {
		t.spines = max(spec.Redundancy, min(slots-len(t.racks)*t.perRack, spec.MaxPaths/(t.perRack*t.perRack)))
	}
	return t
}

// slots returns the slots in the order in which they are filled: the first of each rack, a spine, the second of each rack, and so on.
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

// arrangeTiers returns the layout of a Hierarchy.
func arrangeTiers(spec Spec, s Session, clients, reflectors []plan.Node, zones []string, perZone int) Layout {
	t := newTiers(spec, clients, zones, len(zones)*perZone)
	l := Layout{Kind: v1alpha1.TopologyHierarchy, Slots: t.slots(spec)}
	l.placeReflectors(t, zones, reflectors, perZone, l.fillSlots(reflectors))
	l.assignIDs(spec, firstRackID, firstSlotID, reflectors)
	settled := l.settled(reflectors)
	serving := slices.DeleteFunc(slices.Clone(t.racks), func(rack string) bool {
		return !slices.ContainsFunc(l.Slots, func(s Slot) bool { return s.Group == rack && settled[s.Name].Name != "" })
	})
	var open string
	if now := currentOpen(spec, serving); t.division == bySize {
		open = l.assignRacks(spec, t.census, serving)
	} else if now >= 0 {
		open = serving[now]
	} else { // the first rack, which has the lowest cluster ID
		inRacks := slices.DeleteFunc(slices.Clone(l.Slots), func(s Slot) bool { return s.Spine })
		open = slices.MinFunc(inRacks, func(a, b Slot) int {
			return cmp.Compare(placeOf(spec.ClusterID, a.ClusterID), placeOf(spec.ClusterID, b.ClusterID))
		}).Group
	}
	slots := map[string][]string{}
	for _, slot := range l.Slots {
		slots[slot.Group] = append(slots[slot.Group], slot.Name)
	}
	l.addGroups(spec, s, t.census, open, func(rack string) []string { return slices.Sorted(slices.Values(slots[rack])) })
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

// homeZone returns the zone that most clients of a rack are in.
func (t *tiers) homeZone(rack string, zones []string) string {
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

// placement assigns slots of a Hierarchy to nodes, so that the reflectors of each rack are in different zones.
type placement struct {
	slots    []Slot
	zone     []string // by slot: the zone of its node
	occupied []bool   // by slot: whether it had a node before
	free     map[string][]string
	zones    []string // the zones that have free nodes
	home     func(rack string) string
}

// placeReflectors assigns the free slots to the nodes without a slot. A rack gets its first reflector from the zone
// that most of its clients are in, the second from another zone, and so on; spines are from different zones. Slots are
// kept free for future nodes, up to perZone in each zone, so that no reflector changes its slot when these nodes join.
func (l *Layout) placeReflectors(t *tiers, zones []string, reflectors []plan.Node, perZone int, free map[string][]string) {
	p := &placement{
		slots: l.Slots, zone: make([]string, len(l.Slots)), occupied: make([]bool, len(l.Slots)), free: free,
		home: func(rack string) string { return t.homeZone(rack, zones) },
	}
	zoneOf, have, elsewhere := map[string]string{}, map[string]int{}, map[string]bool{}
	for _, n := range reflectors {
		zoneOf[n.Name] = n.Zone
		elsewhere[n.Name] = n.HasRoleLabel
		have[n.Zone]++
	}
	for _, zone := range zones {
		for ; t.perRack > 1 && len(l.Slots) >= len(zones)*perZone && have[zone] < perZone; have[zone]++ {
			free[zone] = append(free[zone], "") // a future node
		}
	}
	for zone := range free { // nodes with the slot of another topology are the last to change it, so they get the last slots
		slices.SortStableFunc(free[zone], func(a, b string) int { return plan.TrueFirst(!elsewhere[a], !elsewhere[b]) })
		p.zones = append(p.zones, zone)
	}
	slices.Sort(p.zones)
	for i, s := range l.Slots {
		p.occupied[i] = s.Node != ""
		p.zone[i] = zoneOf[s.Node]
	}
	for i, here := range p.occupied {
		if !here {
			p.place(i)
		}
	}
	for i := range p.slots {
		p.exchange(i)
	}
}

// place assigns a slot to a node from the best zone.
func (p *placement) place(i int) {
	used, home := p.used(p.slots[i].Group), p.home(p.slots[i].Group)
	offered := slices.DeleteFunc(slices.Clone(p.zones), func(z string) bool { return len(p.free[z]) == 0 })
	if len(offered) == 0 {
		p.occupied[i] = true // no node is left for this slot, so exchange must skip it
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

// used counts the slots of a group that are assigned, by zone.
func (p *placement) used(group string) map[string]int {
	used := map[string]int{}
	for i, s := range p.slots {
		if s.Group == group && (p.occupied[i] && s.Node != "" || !p.occupied[i] && p.zone[i] != "") {
			used[p.zone[i]]++
		}
	}
	return used
}

// exchange swaps the nodes of two newly assigned slots if all reflectors of the first slot's group
// are in one zone, and the reflectors of the second slot's group will not be after the swap.
func (p *placement) exchange(i int) {
	if p.occupied[i] {
		return
	}
	mine := p.used(p.slots[i].Group)
	for j := range p.slots {
		if len(mine) != 1 || mine[p.zone[i]] < 2 {
			return
		}
		if p.occupied[j] || p.zone[j] == p.zone[i] {
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
