package topology

import (
	"crypto/sha256"
	"encoding/binary"
	"slices"
	"strconv"
	"strings"

	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/controllers/plan"
)

// sharing is what becomes of a census where all reflectors peer with each other: Quorum
// and MultiCluster.
type sharing struct {
	*census
	kind          v1alpha1.TopologyType
	zones         []string
	perZone, each int
	zoned, others *shares
}

func newSharing(spec Spec, c *census, zones []string, perZone int) *sharing {
	s := &sharing{census: c, kind: spec.Kind, zones: zones, perZone: perZone}
	quota := quorums(len(zones), spec.Redundancy-1)
	if spec.Kind == v1alpha1.TopologyMultiCluster {
		quota = fixed(len(zones), spec.Redundancy)
	}
	s.each = quota(perZone)
	if c.division == byZone && spec.Kind == v1alpha1.TopologyQuorum {
		s.zoned = share(len(zones), perZone, zoned(len(zones)), quota)
	}
	members := map[division]int{byLabel: sizeGroups * len(zones), byZone: len(zones), bySize: sizeGroups}[c.division]
	s.others = share(len(zones), perZone, anywhere(len(zones), members), quota)
	return s
}

// all: every client peers with every reflector.
func (s *sharing) all() bool { return s.each == len(s.zones)*s.perZone }

// slots of a group, as names.
func (s *sharing) slots(group string) []string {
	var out []string
	for z, has := range s.share(group) {
		for i, yes := range has {
			if yes {
				out = append(out, slotName(prefixes[s.kind], s.zones[z], i+1))
			}
		}
	}
	slices.Sort(out)
	return out
}

var prefixes = map[v1alpha1.TopologyType]string{
	v1alpha1.TopologyQuorum: SlotQuorum, v1alpha1.TopologyMultiCluster: SlotMulti,
}

// share of a group in the slots of each zone.
func (s *sharing) share(group string) [][]bool {
	home := slices.Index(s.zones, group)
	switch {
	case group == "":
		return s.others.has[0]
	case s.division == byZone && home >= 0 && s.zoned != nil:
		return s.zoned.has[home]
	case s.division == byZone && home >= 0:
		return s.others.has[home]
	case s.division == byZone:
		return s.others.has[0]
	case s.division == bySize:
		n, _ := strconv.Atoi(group)
		return s.others.has[(n-1)%len(s.others.has)]
	}
	sum := sha256.Sum256([]byte(group))
	home = slices.Index(s.zones, s.groups[group].home())
	if home < 0 {
		home = int(sum[4]) % len(s.zones)
	}
	return s.others.has[int(binary.BigEndian.Uint32(sum[:4])%sizeGroups)*len(s.zones)+home]
}

// home is the zone of the oldest client: whoever comes later does not change it.
func (t *tally) home() string {
	if t.oldest == nil {
		return ""
	}
	return t.oldest.Zone
}

// busiest is how many clients the busiest reflector has.
func (s *sharing) busiest() int {
	load := make([]int, len(s.zones)*s.perZone)
	add := func(group string, clients int) {
		for z, has := range s.share(group) {
			for i, yes := range has {
				if yes {
					load[z*s.perZone+i] += clients
				}
			}
		}
	}
	others := len(s.census.others)
	if s.division == bySize {
		for i, clients := range even(s.census, sizeGroups) {
			add(strconv.Itoa(i+1), clients)
		}
		others = 0
	}
	for name, group := range s.groups {
		add(name, group.clients)
	}
	add("", others)
	return slices.Max(load)
}

// even counts how many of those without a group each number would get, for all to be
// as large.
func even(c *census, groups int) []int {
	has, out := make([]int, groups), make([]int, groups)
	for i := range has {
		if group := c.groups[strconv.Itoa(i+1)]; group != nil {
			has[i] = group.clients
		}
	}
	for range c.others {
		least := smallest(has)
		has[least]++
		out[least]++
	}
	return out
}

// smallest is the first of the least.
func smallest(counts []int) int {
	least := 0
	for i, n := range counts {
		if n < counts[least] {
			least = i
		}
	}
	return least
}

// quorumFits reports whether some number of reflectors has few enough clients each.
func quorumFits(spec Spec, c *census, zones []string) bool {
	_, ok := fewest(spec, c, zones, 1)
	return ok
}

// fewest is the smallest number per zone, from least on, with which no reflector has too
// many clients.
func fewest(spec Spec, c *census, zones []string, least int) (perZone int, ok bool) {
	for p := least; p <= max(least, mostPerZone/len(zones)); p++ {
		if within(newSharing(spec, c, zones, p).busiest(), spec.MaxClients) {
			return p, true
		}
	}
	return least, false
}

// arrangeShared arranges Quorum and MultiCluster.
func arrangeShared(spec Spec, s Session, clients, reflectors []plan.Node, zones []string, perZone int) Layout {
	c := divide(spec, clients, zones)
	sh := newSharing(spec, c, zones, perZone)
	l := Layout{Kind: spec.Kind}
	for n := 1; n <= perZone; n++ {
		for _, z := range zones {
			l.Slots = append(l.Slots, Slot{Name: slotName(prefixes[spec.Kind], z, n), ClusterID: spec.ClusterID})
		}
	}
	l.fillSlots(reflectors, func(free map[string][]string) {
		for i, s := range l.Slots {
			zone := zones[i%len(zones)]
			if s.Node == "" && len(free[zone]) > 0 {
				l.Slots[i].Node, free[zone] = free[zone][0], free[zone][1:]
			}
		}
	})
	reflector := startsWith(spec.RoleLabel, prefixes[spec.Kind])
	name := PeerQuorumReflectors
	if spec.Kind == v1alpha1.TopologyMultiCluster {
		l.number(spec, reflectors)
		name = PeerMultiReflectors
	}
	l.Peers = append(l.Peers, peer(name, reflector, reflector, s))
	if sh.all() {
		l.everyone(spec, s, len(clients))
		return l
	}
	open := ""
	if c.division == bySize {
		served := divided(spec, c, reflectors)
		for _, name := range sizeNames() {
			c.open(name)
		}
		var serving []string
		if served {
			serving = c.names()
		}
		open = l.assign(spec, c, serving, 0)
	}
	l.divide(spec, s, c, open, sh.slots)
	l.Depth = depth(l.Groups, spec.Kind)
	return l
}

// sizeNames are the groups by size.
func sizeNames() []string {
	out := make([]string, sizeGroups)
	for i := range out {
		out[i] = strconv.Itoa(i + 1)
	}
	return out
}

// divided reports whether clients are served by groups of their size already.
func divided(spec Spec, c *census, reflectors []plan.Node) bool {
	if spec.standing {
		return slices.ContainsFunc(spec.Open, func(name string) bool { return strings.HasPrefix(name, peerNames[spec.Kind]+".") })
	}
	return len(c.groups) > 0 && slices.ContainsFunc(reflectors, func(n plan.Node) bool {
		return n.RoleLabel && KindOf(n.Slot) == spec.Kind
	})
}

// everyone peers with every reflector: nobody has to be divided.
func (l *Layout) everyone(spec Spec, s Session, clients int) {
	g := Group{Open: true, Selector: isClient(spec.RoleLabel), Clients: clients}
	for _, slot := range l.Slots {
		g.Slots = append(g.Slots, slot.Name)
	}
	slices.Sort(g.Slots)
	l.Groups, l.Depth = []Group{g}, len(l.Slots)
	l.Peers = append(l.Peers, peer(peerName(l.Kind, ""), g.Selector, in(spec.RoleLabel, g.Slots), s))
	l.sortPeers()
}

// number gives each slot a cluster ID of its own.
func (l *Layout) number(spec Spec, reflectors []plan.Node) {
	ids := newIDs(spec.ClusterID, firstSlotID, endOfIDs, l.foreignIDs(reflectors))
	now := map[string]string{}
	for _, n := range reflectors {
		now[n.Name] = n.ClusterID
	}
	for i, slot := range l.Slots {
		l.Slots[i].ClusterID = ids.keep([]string{now[slot.Node]})
	}
	for i := range l.Slots {
		if l.Slots[i].ClusterID == "" {
			l.Slots[i].ClusterID = ids.fresh()
		}
	}
}
