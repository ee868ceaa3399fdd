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

// groupSlots assigns slots to the groups of a census in a Quorum or MultiCluster, where all reflectors peer with each other.
type groupSlots struct {
	*census
	kind              v1alpha1.TopologyType
	zones             []string
	perZone, perGroup int
	byHome, spreadOut *shares
}

func newGroupSlots(spec Spec, c *census, zones []string, perZone int) *groupSlots {
	s := &groupSlots{census: c, kind: spec.Kind, zones: zones, perZone: perZone}
	quota := quorumSizes(len(zones), spec.Redundancy-1)
	if spec.Kind == v1alpha1.TopologyMultiCluster {
		quota = func(perZone int) int { return min(spec.Redundancy, len(zones)*perZone) }
	}
	s.perGroup = quota(perZone)
	members := map[division]int{byLabel: sizeGroups * len(zones), byZone: len(zones), bySize: sizeGroups}[c.division]
	s.spreadOut = newShares(len(zones), perZone, members, false, quota)
	s.byHome = s.spreadOut
	if c.division == byZone && spec.Kind == v1alpha1.TopologyQuorum {
		s.byHome = newShares(len(zones), perZone, len(zones), len(zones) > 1, quota)
	}
	return s
}

// fullMesh reports whether every client peers with every reflector.
func (s *groupSlots) fullMesh() bool { return s.perGroup == len(s.zones)*s.perZone }

// slotNames returns the names of a group's slots, sorted.
func (s *groupSlots) slotNames(group string) []string {
	var out []string
	for z, has := range s.slotsByZone(group) {
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

// slotsByZone returns which slots of each zone a group has.
func (s *groupSlots) slotsByZone(group string) [][]bool {
	home := slices.Index(s.zones, group)
	switch {
	case group == "" || s.division == byZone && home < 0:
		return s.spreadOut.has[0]
	case s.division == byZone:
		return s.byHome.has[home]
	case s.division == bySize:
		n, _ := strconv.Atoi(group)
		return s.spreadOut.has[(n-1)%len(s.spreadOut.has)]
	}
	sum := sha256.Sum256([]byte(group))
	// The home zone is that of the oldest client, so that new clients do not change it.
	if home = slices.Index(s.zones, s.groups[group].oldest.Zone); home < 0 {
		home = int(sum[4]) % len(s.zones)
	}
	return s.spreadOut.has[int(binary.BigEndian.Uint32(sum[:4])%sizeGroups)*len(s.zones)+home]
}

// busiest returns the number of clients that the reflector with most clients has.
func (s *groupSlots) busiest() int {
	load := make([]int, len(s.zones)*s.perZone)
	add := func(group string, clients int) {
		for z, has := range s.slotsByZone(group) {
			for i, yes := range has {
				if yes {
					load[z*s.perZone+i] += clients
				}
			}
		}
	}
	others := len(s.ungrouped)
	if s.division == bySize { // each ungrouped client will get the group with fewest clients
		names := sizeGroupNames()
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

// quorumFits reports whether there is a number of reflectors with which no reflector has too many clients.
func quorumFits(spec Spec, c *census, zones []string) bool {
	_, ok := fewestPerZone(spec, c, zones, 1)
	return ok
}

// fewestPerZone returns the smallest number of reflectors per zone, but no fewer than least, with which no reflector has too many clients.
func fewestPerZone(spec Spec, c *census, zones []string, least int) (perZone int, ok bool) {
	for p := least; p <= max(least, mostPerZone/len(zones)); p++ {
		if newGroupSlots(spec, c, zones, p).busiest() <= spec.MaxClients {
			return p, true
		}
	}
	return least, false
}

// arrangeShared returns the layout of a Quorum or MultiCluster.
func arrangeShared(spec Spec, s Session, clients, reflectors []plan.Node, zones []string, perZone int) Layout {
	c := chooseDivision(spec, clients, zones)
	sh := newGroupSlots(spec, c, zones, perZone)
	l := Layout{Kind: spec.Kind}
	for n := 1; n <= perZone; n++ {
		for _, z := range zones {
			l.Slots = append(l.Slots, Slot{Name: slotName(prefixes[spec.Kind], z, n), ClusterID: spec.ClusterID})
		}
	}
	l.fillByZone(reflectors, zones)
	reflector, name := startsWith(spec.RoleLabel, prefixes[spec.Kind]), PeerQuorumReflectors
	if spec.Kind == v1alpha1.TopologyMultiCluster {
		l.assignIDs(spec, firstSlotID, endOfIDs, reflectors)
		name = PeerMultiReflectors
	}
	l.Peers = append(l.Peers, peer(name, reflector, reflector, s))
	open := ""
	switch {
	case sh.fullMesh():
		c = &census{} // one group is enough
		for i := range clients {
			c.ungrouped = append(c.ungrouped, &clients[i])
		}
	case c.division == bySize:
		for _, name := range sizeGroupNames() {
			c.group(name)
		}
		var serving []string
		if slices.ContainsFunc(spec.Open, func(name string) bool { return strings.HasPrefix(name, peerNames[spec.Kind]+".") }) {
			serving = c.names()
		}
		open = l.assignRacks(spec, c, serving)
	}
	l.addGroups(spec, s, c, open, sh.slotNames)
	l.Depth = depth(l.Groups, spec.Kind)
	return l
}

// fillByZone assigns reflectors without a slot to the free slots of their zone.
func (l *Layout) fillByZone(reflectors []plan.Node, zones []string) {
	free := l.fillSlots(reflectors)
	for i, s := range l.Slots {
		zone := zones[i%len(zones)]
		if s.Node == "" && len(free[zone]) > 0 {
			l.Slots[i].Node, free[zone] = free[zone][0], free[zone][1:]
		}
	}
}

// sizeGroupNames returns the names of the groups in a division by size.
func sizeGroupNames() []string {
	out := make([]string, sizeGroups)
	for i := range out {
		out[i] = strconv.Itoa(i + 1)
	}
	return out
}
