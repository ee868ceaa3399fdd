// Package topology decides which nodes are route reflectors, for which clients, and by which BGPPeers.
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

// The names of the BGPPeers of Single.
const (
	PeerReflectors = "rrpool-reflectors"
	PeerClients    = "rrpool-clients"
)

// Session holds the settings of all sessions with reflectors.
type Session struct {
	Password       *plan.SecretRef
	MaxRestartTime *time.Duration
}

// InPlace returns the BGPPeers of Single for reflectors that run workloads too. Clients peer with reflectors as in Single. Each pair of
// reflectors has BGPPeers of its own, by which one is the other's client (see Peerings): their session does not change when the client gets the
// role, or gives it up. While there is no reflector yet, manual keeps the first one from connecting to its clients: if both sides connect at the
// same time, they break each other's connection for some seconds.
func InPlace(roleLabel string, s Session, peerings []plan.Peer, manual bool) []plan.Peer {
	clients := Single(roleLabel, s)[0]
	clients.Manual = manual
	return append([]plan.Peer{clients}, peerings...)
}

// Peerings returns the BGPPeers, one for each common address family, by which client is a client of reflector, whether or not client has the role
// too. For Calico, a peer given by address has no cluster ID, so BIRD gets "rr client" for it. The reverse side, which Calico configures by
// itself, is that of an ordinary client if both have the same cluster ID.
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

// longestName is the limit of BGPPeer names less what Calico may append.
const longestName = 200

// peeringName does not depend on which of the two is the reflector, so that one write reverses the peering. If the nodes' names are too long it
// contains a hash of them.
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

// Single returns the BGPPeers of Single: every client peers with every reflector, and reflectors with each other. The two node selectors exclude
// each other, so no session is configured by two BGPPeers: Calico does not define which of them would win.
func Single(roleLabel string, s Session) []plan.Peer {
	return singlePeers(roleLabel, "has("+roleLabel+")", s)
}

// singlePeers returns the BGPPeers of Single for the reflectors that a selector selects.
func singlePeers(roleLabel, reflector string, s Session) []plan.Peer {
	return []plan.Peer{peer(PeerClients, isClient(roleLabel), reflector, s), peer(PeerReflectors, reflector, reflector, s)}
}

// Choose returns perZone reflectors in each of zones from the dedicated nodes, sorted by name; no zones means all zones that have any. Current
// reflectors come first unless leaves accepts them, then Ready nodes, then the oldest. If the topology has no spines, current spines come before
// reflectors of clients, because they can change first.
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
