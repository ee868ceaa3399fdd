// Package topology decides which nodes reflect and which BGPPeers that takes.
package topology

import (
	"cmp"
	"slices"
	"time"

	"github.com/rrpool/rrpool/controllers/plan"
)

// The names of our BGPPeers. Their number depends on groups, never on nodes.
const (
	PeerReflectors = "rrpool-reflectors"
	PeerClients    = "rrpool-clients"
)

// Session is what all sessions with reflectors have in common.
type Session struct {
	Password       *plan.SecretRef
	MaxRestartTime *time.Duration
}

// Single gives the BGPPeers of one reflector group: every client peers with
// every reflector, and reflectors with each other. The two selectors exclude
// each other, so no two forward peers ever match the same pair of nodes (whose
// winner Calico does not define).
func Single(roleLabel string, s Session) []plan.Peer {
	reflector := "has(" + roleLabel + ")"
	return []plan.Peer{
		{
			Name: PeerClients, Owned: true, NodeSelector: "!" + reflector, PeerSelector: reflector,
			Password: s.Password, MaxRestartTime: s.MaxRestartTime,
		},
		{
			Name: PeerReflectors, Owned: true, NodeSelector: reflector, PeerSelector: reflector,
			Password: s.Password, MaxRestartTime: s.MaxRestartTime,
		},
	}
}

// Choose picks perZone reflectors in each of zones from the dedicated nodes; no
// zones means every zone that has some. It is sticky: nodes in the role come
// first unless they are lost, then Ready ones, then the oldest. The result is
// sorted by name.
func Choose(nodes []plan.Node, perZone int, zones []string, lost func(plan.Node) bool) []plan.Node {
	byZone := map[string][]plan.Node{}
	for _, n := range nodes {
		if n.Dedicated && !n.Deleting && (len(zones) == 0 || slices.Contains(zones, n.Zone)) {
			byZone[n.Zone] = append(byZone[n.Zone], n)
		}
	}
	var chosen []plan.Node
	for _, inZone := range byZone {
		slices.SortFunc(inZone, func(a, b plan.Node) int { return preference(a, b, lost) })
		chosen = append(chosen, inZone[:min(perZone, len(inZone))]...)
	}
	slices.SortFunc(chosen, func(a, b plan.Node) int { return cmp.Compare(a.Name, b.Name) })
	return chosen
}

// preference sorts the better reflector first.
func preference(a, b plan.Node, lost func(plan.Node) bool) int {
	return cmp.Or(
		yesFirst(a.Marked && !lost(a), b.Marked && !lost(b)),
		yesFirst(a.Ready, b.Ready),
		a.Created.Compare(b.Created),
		cmp.Compare(a.Name, b.Name),
	)
}

func yesFirst(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return -1
	}
	return 1
}
