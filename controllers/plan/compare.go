package plan

import "reflect"

// SamePeer reports whether two BGPPeers render the same sessions.
func SamePeer(a, b Peer) bool {
	b.Name, b.Owned, b.Peering, b.Written = a.Name, a.Owned, a.Peering, a.Written
	return reflect.DeepEqual(a, b)
}

// TrueFirst compares for sorting: what is true comes first.
func TrueFirst(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return -1
	}
	return 1
}
