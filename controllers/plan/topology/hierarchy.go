package topology

import (
	"cmp"
	"maps"
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
		c.open("1") // nobody has a rack: one for all
	}
	t := &tiers{census: c, racks: c.names(), perRack: spec.Redundancy}
	if len(t.racks) == 1 {
		t.perRack = max(t.perRack, slots)
		if spec.MaxPaths > 0 {
			t.perRack = max(spec.Redundancy, min(t.perRack, spec.MaxPaths))
		}
		return t
	}
	t.spines = max(spec.Redundancy, slots-len(t.racks)*t.perRack)
	if spec.MaxPaths > 0 {
		t.spines = max(spec.Redundancy, min(t.spines, spec.MaxPaths/(t.perRack*t.perRack)))
	}
	return t
}

// needed is how many reflectors there have to be at least.
func (t *tiers) needed(redundancy int) int {
	if len(t.racks) == 1 {
		return redundancy
	}
	return (len(t.racks) + 1) * redundancy
}

// slots in the order in which they are filled: the first of each rack, a spine, the
// second of each rack, and so on.
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
	l.fillSlots(reflectors, func(free map[string][]string) { l.spread(t, zones, reflectors, perZone, free) })
	lowest := l.numberRacks(spec, t, reflectors)
	serving := slices.DeleteFunc(slices.Clone(t.racks), func(rack string) bool { return !l.serves(rack, reflectors) })
	open := lowest
	switch now := slices.IndexFunc(serving, func(rack string) bool { return slices.Contains(spec.Open, peerName(spec.Kind, rack)) }); {
	case t.division == bySize:
		open = l.assign(spec, t.census, serving, spec.MaxClients)
	case now >= 0:
		open = serving[now]
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

// serves reports whether a rack has a reflector already.
func (l *Layout) serves(rack string, reflectors []plan.Node) bool {
	return slices.ContainsFunc(l.Slots, func(s Slot) bool {
		return s.Group == rack && slices.ContainsFunc(reflectors, func(n plan.Node) bool { return n.Name == s.Node && n.Slot == s.Name })
	})
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

// numberRacks gives each rack a cluster ID, which it keeps as long as one of its
// reflectors has it, and returns the rack with the lowest: the one that was there first.
func (l *Layout) numberRacks(spec Spec, t *tiers, reflectors []plan.Node) (lowest string) {
	now, names := map[string][]string{}, map[string]plan.Node{}
	for _, n := range reflectors {
		names[n.Name] = n
	}
	for _, s := range l.Slots {
		if n := names[s.Node]; !s.Spine && n.ClusterID != "" && n.Slot == s.Name {
			now[s.Group] = append(now[s.Group], n.ClusterID)
		}
	}
	foreign := slices.DeleteFunc(l.foreignIDs(reflectors), func(id string) bool { // a slot that somebody has edited costs its rack nothing
		return slices.ContainsFunc(slices.Collect(maps.Values(now)), func(ids []string) bool { return slices.Contains(ids, id) })
	})
	ids := newIDs(spec.ClusterID, firstRackID, firstSlotID, foreign)
	id := map[string]string{}
	for _, rack := range t.racks {
		id[rack] = ids.keep(mostFrequent(now[rack]))
	}
	for _, rack := range t.racks {
		if id[rack] == "" {
			id[rack] = ids.fresh()
		}
	}
	for i, s := range l.Slots {
		if !s.Spine {
			l.Slots[i].ClusterID = id[s.Group]
		}
	}
	return slices.MinFunc(t.racks, func(a, b string) int {
		return cmp.Compare(placeOf(spec.ClusterID, id[a]), placeOf(spec.ClusterID, id[b]))
	})
}

// mostFrequent sorts what is there more often first.
func mostFrequent(ids []string) []string {
	often := map[string]int{}
	for _, id := range ids {
		often[id]++
	}
	return slices.SortedFunc(maps.Keys(often), func(a, b string) int {
		return cmp.Or(cmp.Compare(often[b], often[a]), cmp.Compare(a, b))
	})
}
