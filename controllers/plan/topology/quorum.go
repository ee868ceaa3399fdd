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

// sharing is what becomes of a census where all reflectors peer with each other: Quorum and MultiCluster.
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
		quota = func(perZone int) int { return min(spec.Redundancy, len(zones)*perZone) }
	}
	s.each = quota(perZone)
	members := map[division]int{byLabel: sizeGroups * len(zones), byZone: len(zones), bySize: sizeGroups}[c.division]
	s.others = share(len(zones), perZone, members, false, quota)
	s.zoned = s.others
	if c.division == byZone && spec.Kind == v1alpha1.TopologyQuorum {
		s.zoned = share(len(zones), perZone, len(zones), len(zones) > 1, quota)
	}
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
	case group == "" || s.division == byZone && home < 0:
		return s.others.has[0]
	case s.division == byZone:
		return s.zoned.has[home]
	case s.division == bySize:
		n, _ := strconv.Atoi(group)
		return s.others.has[(n-1)%len(s.others.has)]
	}
	sum := sha256.Sum256([]byte(group))
	// Home is the zone of the oldest client: those that come later do not change it.
	if home = slices.Index(s.zones, s.groups[group].oldest.Zone); home < 0 {
		home = int(sum[4]) % len(s.zones)
	}
	return s.others.has[int(binary.BigEndian.Uint32(sum[:4])%sizeGroups)*len(s.zones)+home]
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
	if s.division == bySize { // they will go where fewest are
		names := sizeNames()
		before := s.counts(names)
		after := slices.Clone(before)
		for ; others > 0; others-- {
			after[smallest(after)]++
		}
		for i, name := range names {
			add(name, after[i]-before[i])
		}
	}
	for name, group := range s.groups {
		add(name, group.clients)
	}
	add("", others)
	return slices.Max(load)
}

// quorumFits reports whether some number of reflectors has few enough clients each.
func quorumFits(spec Spec, c *census, zones []string) bool {
	_, ok := fewest(spec, c, zones, 1)
	return ok
}

// fewest is the smallest number per zone, from least on, with which no reflector has too many clients.
func fewest(spec Spec, c *census, zones []string, least int) (perZone int, ok bool) {
	for p := least; p <= max(least, mostPerZone/len(zones)); p++ {
		if newSharing(spec, c, zones, p).busiest() <= spec.MaxClients {
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
	l.fillByZone(reflectors, zones)
	reflector, name := startsWith(spec.RoleLabel, prefixes[spec.Kind]), PeerQuorumReflectors
	if spec.Kind == v1alpha1.TopologyMultiCluster {
		l.number(spec, firstSlotID, endOfIDs, reflectors)
		name = PeerMultiReflectors
	}
	l.Peers = append(l.Peers, peer(name, reflector, reflector, s))
	open := ""
	switch {
	case sh.all():
		c = &census{} // the clients need not be divided
		for i := range clients {
			c.others = append(c.others, &clients[i])
		}
	case c.division == bySize:
		for _, name := range sizeNames() {
			c.open(name)
		}
		var serving []string
		if slices.ContainsFunc(spec.Open, func(name string) bool { return strings.HasPrefix(name, peerNames[spec.Kind]+".") }) {
			serving = c.names()
		}
		open = l.assign(spec, c, serving)
	}
	l.divide(spec, s, c, open, sh.slots)
	l.Depth = depth(l.Groups, spec.Kind)
	return l
}

// fillByZone puts reflectors without a slot into the free ones of their zone.
func (l *Layout) fillByZone(reflectors []plan.Node, zones []string) {
	free := l.fillSlots(reflectors)
	for i, s := range l.Slots {
		zone := zones[i%len(zones)]
		if s.Node == "" && len(free[zone]) > 0 {
			l.Slots[i].Node, free[zone] = free[zone][0], free[zone][1:]
		}
	}
}

// sizeNames are the groups by size.
func sizeNames() []string {
	out := make([]string, sizeGroups)
	for i := range out {
		out[i] = strconv.Itoa(i + 1)
	}
	return out
}
