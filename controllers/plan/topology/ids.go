package topology

import (
	"encoding/binary"
	"math"
	"net/netip"
)

// The places of cluster IDs, counted from the one in the spec: that is Single's and
// Quorum's. Topologies that follow each other share none, since a reflector refuses what
// carries its own.
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

// idKeeper hands out cluster IDs: who has one keeps it, whoever else comes and goes.
type idKeeper struct {
	first        string
	from, to     int // places
	taken        map[int]bool
	lowest, next int
}

// newIDs keeps the IDs of places from to to. Those of others are avoided.
func newIDs(first string, from, to int, others []string) *idKeeper {
	k := &idKeeper{first: first, from: from, to: to, taken: map[int]bool{}, lowest: to}
	for _, id := range others {
		k.taken[placeOf(first, id)] = true
	}
	return k
}

// keep gives the first of candidates that is free and in place, or "".
func (k *idKeeper) keep(candidates []string) string {
	for _, id := range candidates {
		at := placeOf(k.first, id)
		if at >= k.from && at < k.to && !k.taken[at] {
			k.taken[at], k.lowest = true, min(k.lowest, at)
			return clusterID(k.first, at)
		}
	}
	return ""
}

// fresh gives the lowest free ID above the lowest that was kept: the one that came first
// stays the lowest, see openRack.
func (k *idKeeper) fresh() string {
	at := max(k.next, k.from)
	if k.lowest < k.to {
		at = max(at, k.lowest)
	}
	for k.taken[at] {
		at++
	}
	k.taken[at], k.next = true, at
	return clusterID(k.first, at)
}
