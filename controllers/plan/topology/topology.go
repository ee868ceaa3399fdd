// Package topology decides which nodes reflect and which BGPPeers that takes.
package topology

import (
	"cmp"
	"crypto/sha256"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/rrpool/rrpool/config/api/v1alpha1"
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

// InPlace gives the BGPPeers of one reflector group whose reflectors run workloads too. Clients peer with
// reflectors as in Single. Between two reflectors there is one peer of its own, by which one is the other's client
// (see Peerings), so that nothing about their session changes when the client gets the role, or gives it back.
// While there is no reflector, manual keeps the first one from having sessions before its clients have begun to
// connect: both sides of these sessions connect, and at the same moment they break each other's connection for
// seconds.
func InPlace(roleLabel string, s Session, peerings []plan.Peer, manual bool) []plan.Peer {
	clients := Single(roleLabel, s)[0]
	clients.Manual = manual
	return append([]plan.Peer{clients}, peerings...)
}

// Peerings gives the BGPPeers by which client is a client of reflector, whether that has the role or not: one in
// each address family that both have. A peer given by address has no cluster ID for Calico, hence always "rr
// client"; the reverse side, which Calico adds by itself, is that of an ordinary client as long as both have the
// same cluster ID.
func Peerings(reflector, client plan.Node, asn uint32, s Session) []plan.Peer {
	var out []plan.Peer
	for _, addr := range plan.Common(reflector, client) {
		p := peer(peeringName(reflector.Name, client.Name, addr), "", "", s)
		p.Node, p.PeerIP, p.ASN = reflector.Name, addr.String(), asn
		out = append(out, p)
	}
	return out
}

// IsPairPeer reports whether rrpool made the BGPPeer for one pair of in-place nodes, as Peerings does.
func IsPairPeer(p plan.Peer) bool { return p.Owned && p.Node != "" && p.PeerIP != "" }

// longestName is what a BGPPeer's name may have, less what Calico may append.
const longestName = 200

// peeringName is the same whichever of the two is the reflector, so that one write reverses the peering.
// Where the names are too long it is something as unique.
func peeringName(a, b string, addr netip.Addr) string {
	family := "v4"
	if addr.Is6() {
		family = "v6"
	}
	name := fmt.Sprintf("rrpool.%s.%s.%s", min(a, b), max(a, b), family)
	sum := sha256.Sum256([]byte(min(a, b) + "/" + max(a, b)))
	switch {
	case len(name) > longestName:
		return fmt.Sprintf("rrpool.pair.%x.%s", sum[:16], family)
	case strings.Contains(a+b, "."):
		return fmt.Sprintf("%s.%x", name, sum[:4]) // a.b with c is not a with b.c
	}
	return name
}

// Single gives the BGPPeers of one reflector group: every client peers with every reflector, and reflectors with
// each other. The two selectors exclude each other, so no two forward peers ever match the same pair of nodes
// (whose winner Calico does not define).
func Single(roleLabel string, s Session) []plan.Peer {
	return flat(roleLabel, "has("+roleLabel+")", s)
}

// flat are the BGPPeers of one group, of the reflectors that this selector selects.
func flat(roleLabel, reflector string, s Session) []plan.Peer {
	return []plan.Peer{peer(PeerClients, isClient(roleLabel), reflector, s), peer(PeerReflectors, reflector, reflector, s)}
}

// Choose picks perZone reflectors in each of zones from the dedicated nodes; no zones means every zone that has
// some. It is sticky: nodes in the role come first unless they are lost, then Ready ones, then the oldest. For a
// topology without spines, spines come before those that have clients: they can be spared first. The result is
// sorted by name.
func Choose(kind v1alpha1.TopologyType, nodes []plan.Node, perZone int, zones []string, leaves func(plan.Node) bool) []plan.Node {
	byZone := map[string][]plan.Node{}
	for _, n := range nodes {
		if n.Pooled && !n.Deleting && (len(zones) == 0 || slices.Contains(zones, n.Zone)) {
			byZone[n.Zone] = append(byZone[n.Zone], n)
		}
	}
	var chosen []plan.Node
	for _, inZone := range byZone {
		slices.SortFunc(inZone, func(a, b plan.Node) int { return preference(kind, a, b, leaves) })
		chosen = append(chosen, inZone[:min(perZone, len(inZone))]...)
	}
	slices.SortFunc(chosen, func(a, b plan.Node) int { return cmp.Compare(a.Name, b.Name) })
	return chosen
}

// preference sorts the better reflector first.
func preference(kind v1alpha1.TopologyType, a, b plan.Node, leaves func(plan.Node) bool) int {
	spare := func(n plan.Node) bool {
		return kind != v1alpha1.TopologyHierarchy && strings.HasPrefix(n.Slot, SlotSpine)
	}
	return cmp.Or(
		plan.TrueFirst(a.Marked && !leaves(a), b.Marked && !leaves(b)),
		plan.TrueFirst(spare(a), spare(b)),
		plan.TrueFirst(a.Ready && !leaves(a), b.Ready && !leaves(b)),
		plan.TrueFirst(a.Ready, b.Ready),
		plan.TrueFirst(a.Marked, b.Marked),
		cmp.Compare(slotNumber(a.Slot), slotNumber(b.Slot)),
		a.Created.Compare(b.Created),
		cmp.Compare(a.Name, b.Name),
	)
}
