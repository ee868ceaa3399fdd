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

// A cluster ID's place is its distance from the ID in the spec, which Single and Quorum have. A
// reflector refuses routes with its own ID in the cluster list, so other topologies have places
// of their own: 1 for spines, 2 to 255 for racks, 256 to 511 for the slots of a MultiCluster.
const (
	spineID     = 1
	firstRackID = 2
	firstSlotID = 256
	endOfIDs    = 512
)

// clusterID returns the ID at a place. IDs count like IPv4 addresses and wrap around; 0.0.0.0 is left out.
func clusterID(first string, place int) string {
	base := idNumber(first)
	at := base + uint32(place) //nolint:gosec // G115: places are small, and the sum may overflow
	if at < base {
		at++
	}
	var bytes [4]byte
	binary.BigEndian.PutUint32(bytes[:], at)
	return netip.AddrFrom4(bytes).String()
}

// placeOf returns the place of an ID, math.MaxInt if the ID is not valid.
func placeOf(first, id string) int {
	base, at := idNumber(first), idNumber(id)
	if at == 0 {
		return math.MaxInt
	}
	place := at - base
	if at < base {
		place--
	}
	return int(place)
}

// idNumber returns an ID as a number, 0 if the ID is not valid.
func idNumber(id string) uint32 {
	addr, err := netip.ParseAddr(id)
	if err != nil || !addr.Is4() {
		return 0
	}
	bytes := addr.As4()
	return binary.BigEndian.Uint32(bytes[:])
}

// assignIDs assigns a cluster ID to each rack, or in a MultiCluster to each slot, with a place in [from, to). A rack keeps the ID that
// most of its reflectors have, including reflectors that will leave: two reflectors of a rack with different IDs would pass on each
// other's routes. New IDs are above the lowest ID that is kept, so that the first rack keeps the lowest, which arrangeTiers relies on.
func (l *Layout) assignIDs(spec Spec, from, to int, reflectors []plan.Node) {
	first := spec.ClusterID
	now, taken := l.currentPlaces(spec, from, to, reflectors)
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

// owner returns what a slot's cluster ID is assigned to: its rack, or the slot itself.
func (s Slot) owner() string { return cmp.Or(s.Group, s.Name) }

// currentPlaces returns the current places of the reflectors of each owner. taken are the places of
// reflectors that do not have their slot yet, except places that a reflector with its slot has too.
func (l *Layout) currentPlaces(spec Spec, from, to int, reflectors []plan.Node) (now map[string][]int, taken map[int]bool) {
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

// settled returns, by slot, the reflectors that already have the slot that the layout gives them.
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

// mostFrequent returns the distinct places, the most frequent first.
func mostFrequent(places []int) []int {
	often := map[int]int{}
	for _, at := range places {
		often[at]++
	}
	return slices.SortedFunc(maps.Keys(often), func(a, b int) int {
		return cmp.Or(cmp.Compare(often[b], often[a]), cmp.Compare(a, b))
	})
}
