package topology

import (
	"math"
	"slices"

	"github.com/rrpool/rrpool/config/api/v1alpha1"
)

// depth is how many reflectors have to be lost to cut some clients off from others,
// among those groups that have clients: where none has two, among all.
func depth(groups []Group, kind v1alpha1.TopologyType) int {
	withClients := slices.DeleteFunc(slices.Clone(groups), func(g Group) bool { return g.Clients == 0 })
	total := 0
	for _, g := range withClients {
		total += g.Clients
	}
	if total < 2 {
		withClients = groups
	}
	least := math.MaxInt
	for i, a := range withClients {
		for _, b := range withClients[i+1:] {
			if kind == v1alpha1.TopologyQuorum {
				least = min(least, shared(a.Slots, b.Slots))
			}
			least = min(least, len(a.Slots), len(b.Slots))
		}
		if a.Clients > 1 || len(withClients) == 1 {
			least = min(least, len(a.Slots))
		}
	}
	return least
}

// shared counts what two sorted lists have in common.
func shared(a, b []string) int {
	n := 0
	for _, s := range a {
		if _, ok := slices.BinarySearch(b, s); ok {
			n++
		}
	}
	return n
}

// walks counts the ways from one reflector to another in a full mesh of them where each
// has its own cluster ID: a route goes each way that meets nobody twice.
func walks(reflectors int) uint64 {
	sum, way := uint64(1), uint64(1)
	for k := reflectors - 2; k > 0; k-- {
		if way > math.MaxUint32 {
			return way // more than anybody counts
		}
		way *= uint64(k)
		sum += way
	}
	return sum
}

// pathsInMesh is the most paths to one prefix in a MultiCluster: on a client of some
// reflectors to a client of others.
func pathsInMesh(groups []Group, reflectors int) uint64 {
	var most uint64
	each := walks(reflectors)
	for i, a := range groups {
		for _, b := range groups[i:] {
			both := uint64(shared(a.Slots, b.Slots)) //nolint:gosec // G115: a count
			peerings := uint64(len(a.Slots) * len(b.Slots))
			most = max(most, both+(peerings-both)*each)
		}
		if len(a.Slots) < reflectors {
			most = max(most, uint64(len(a.Slots))*each) // on a reflector that the origin does not have
		}
	}
	return most
}
