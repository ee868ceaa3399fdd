package plan

import "reflect"

// SamePeer reports whether Calico configures the same sessions for both BGPPeers.
func SamePeer(a, b Peer) bool {
	b.Name, b.Owned, b.Peering, b.Written = a.Name, a.Owned, a.Peering, a.Written
	return reflect.DeepEqual(a, b)
}

// TrueFirst is a comparison function that sorts true before false.
func TrueFirst(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return -1
	}
	return 1
}
