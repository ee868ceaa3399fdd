package topology

import (
	"cmp"
	"slices"

	"github.com/rrpool/rrpool/controllers/plan"
)

// placing slots the reflectors of a Hierarchy over the zones.
type placing struct {
	slots []Slot
	zone  []string // of who sits in each slot, or is going to
	here  []bool   // the slot was taken before
	free  map[string][]string
	zones []string // that have somebody to give
	home  func(rack string) string
}

// spread places those who have no slot yet. A rack gets its first reflector from the zone
// that most of its clients are in, the second from another, and so on; spines come from
// zones that have none. For nodes that are still to come, up to perZone in each zone, it
// keeps slots free: nobody has to move when they do.
func (l *Layout) spread(t *tiers, zones []string, reflectors []plan.Node, perZone int, free map[string][]string) {
	p := &placing{
		slots: l.Slots, zone: make([]string, len(l.Slots)), here: make([]bool, len(l.Slots)), free: free,
		home: func(rack string) string { return t.home(rack, zones) },
	}
	zoneOf, have, elsewhere := map[string]string{}, map[string]int{}, map[string]bool{}
	for _, n := range reflectors {
		zoneOf[n.Name] = n.Zone
		elsewhere[n.Name] = n.RoleLabel
		have[n.Zone]++
	}
	for _, zone := range zones {
		for ; t.perRack > 1 && len(l.Slots) >= len(zones)*perZone && have[zone] < perZone; have[zone]++ {
			free[zone] = append(free[zone], "") // somebody who is still to come
		}
	}
	for zone := range free { // who reflects elsewhere yet is the last to move, and to the last slots
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

// place gives a slot to somebody from the best zone.
func (p *placing) place(i int) {
	used, home := p.used(p.slots[i].Group), p.home(p.slots[i].Group)
	offered := slices.DeleteFunc(slices.Clone(p.zones), func(z string) bool { return len(p.free[z]) == 0 })
	if len(offered) == 0 {
		p.here[i] = true // there is nobody to swap with
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
