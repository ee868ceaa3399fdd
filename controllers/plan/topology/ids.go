package topology

import (
	"cmp"
	"encoding/binary"
	"maps"
	"math"
	"net/netip"
	"slices"

	"github.com/rrpool/rrpool/controllers/plan"
)

// The places of cluster IDs, counted from the one in the spec: that is Single's and Quorum's. Topologies that
// follow each other share none, since a reflector refuses what carries its own.
const (
	spineID     = 1
	firstRackID = 2
	firstSlotID = 256
	endOfIDs    = 512
)

// clusterID is the ID at a place. They count like IPv4 addresses, and leave out 0.0.0.0.
func clusterID(first string, place int) string {
	base := number(first)
	at := base + uint32(place) //nolint:gosec // G115: places are small, and wrapping is what is wanted
	if at < base {
		at++
	}
	var bytes [4]byte
	binary.BigEndian.PutUint32(bytes[:], at)
	return netip.AddrFrom4(bytes).String()
}

// placeOf is the place of an ID, far away for what is none.
func placeOf(first, id string) int {
	base, at := number(first), number(id)
	if at == 0 {
		return math.MaxInt
	}
	place := at - base
	if at < base {
		place--
	}
	return int(place)
}

// number of an ID, 0 for what is none.
func number(id string) uint32 {
	addr, err := netip.ParseAddr(id)
	if err != nil || !addr.Is4() {
		return 0
	}
	bytes := addr.As4()
	return binary.BigEndian.Uint32(bytes[:])
}

// number gives each rack a cluster ID, or in a MultiCluster each slot, of the places
// between from and to. It keeps the one that most of its reflectors have, also those that are about to leave: beside
// one with another ID they would pass on each other's routes. New ones are above the
// lowest that is kept: the rack that was there first stays the lowest, see arrangeTiers.
func (l *Layout) number(spec Spec, from, to int, reflectors []plan.Node) {
	first := spec.ClusterID
	now, taken := l.places(spec, from, to, reflectors)
	place, lowest := map[string]int{}, to
	for _, s := range l.Slots {
		for _, at := range mostFrequent(now[s.owner()]) {
			if place[s.owner()] == 0 && !taken[at] {
				place[s.owner()], taken[at], lowest = at, true, min(lowest, at)
			}
		}
	}
	if lowest == to {
		lowest = from
	}
	for i, s := range l.Slots {
		if s.Spine {
			continue
		}
		at := cmp.Or(place[s.owner()], lowest)
		for place[s.owner()] == 0 && taken[at] {
			at++
		}
		place[s.owner()], taken[at] = at, true
		l.Slots[i].ClusterID = clusterID(first, at)
	}
}

// owner of a slot's cluster ID.
func (s Slot) owner() string { return cmp.Or(s.Group, s.Name) }

// places are those that the reflectors of each owner have now, and those that are taken:
// by reflectors that are not in their slot yet, unless a settled one has the same.
func (l *Layout) places(spec Spec, from, to int, reflectors []plan.Node) (now map[string][]int, taken map[int]bool) {
	first := spec.ClusterID
	now, taken = map[string][]int{}, map[int]bool{}
	settled := l.settled(reflectors)
	for _, n := range reflectors {
		if settled[n.Slot].Name != n.Name {
			taken[placeOf(first, n.ClusterID)] = true
		}
	}
	for _, s := range l.Slots {
		id := cmp.Or(settled[s.Name].ClusterID, spec.IDs[s.Name])
		if at := placeOf(first, id); !s.Spine && at >= from && at < to {
			now[s.owner()] = append(now[s.owner()], at)
			if id == settled[s.Name].ClusterID {
				delete(taken, at)
			}
		}
	}
	return now, taken
}

// settled are the reflectors that are in their slots already, by these.
func (l *Layout) settled(reflectors []plan.Node) map[string]plan.Node {
	slot, out := map[string]string{}, map[string]plan.Node{}
	for _, s := range l.Slots {
		slot[s.Node] = s.Name
	}
	for _, n := range reflectors {
		if n.Slot != "" && slot[n.Name] == n.Slot {
			out[n.Slot] = n
		}
	}
	return out
}

// mostFrequent sorts what is there more often first.
func mostFrequent(places []int) []int {
	often := map[int]int{}
	for _, at := range places {
		often[at]++
	}
	return slices.SortedFunc(maps.Keys(often), func(a, b int) int {
		return cmp.Or(cmp.Compare(often[b], often[a]), cmp.Compare(a, b))
	})
}
