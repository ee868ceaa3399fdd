package plan

import "time"

// SamePeer reports whether two BGPPeers render the same sessions.
func SamePeer(a, b Peer) bool {
	return a.Node == b.Node && a.NodeSelector == b.NodeSelector && a.PeerIP == b.PeerIP &&
		a.PeerSelector == b.PeerSelector && a.ASN == b.ASN && a.Manual == b.Manual && a.Extra == b.Extra &&
		SameRef(a.Password, b.Password) && SameDuration(a.MaxRestartTime, b.MaxRestartTime)
}

// SameRef reports whether two references, nil for none, name the same key.
func SameRef(a, b *SecretRef) bool {
	return a == b || a != nil && b != nil && *a == *b
}

// SameDuration does the same for durations.
func SameDuration(a, b *time.Duration) bool {
	return a == b || a != nil && b != nil && *a == *b
}
