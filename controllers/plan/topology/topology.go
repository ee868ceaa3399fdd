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

// PeerReflectors and PeerClients are the names of the BGPPeers of topology Single.
const (
	PeerReflectors = "rrpool-reflectors"
	PeerClients    = "rrpool-clients"
)

// Session holds the settings of all sessions with reflectors.
type Session struct {
	Password       *plan.SecretRef
	MaxRestartTime *time.Duration
}

// InPlace returns the BGPPeers of Single for reflectors that run workloads too. Clients peer with reflectors as in Single. Each pair
// of reflectors has BGPPeers of its own (peerings, see Peerings), which make one of the two the other's client. So their session does
// not change when the client gets or loses the role. The caller sets manual until there is a reflector. It keeps the first reflector
// from connecting to its clients: if both sides connect at the same time, they break each other's connection for some seconds.
func InPlace(roleLabel string, s Session, peerings []plan.Peer, manual bool) []plan.Peer {
	clients := Single(roleLabel, s)[0]
	clients.Manual = manual
	return append([]plan.Peer{clients}, peerings...)
}

// Peerings returns the BGPPeers that make client a client of reflector, one for each common address family. client may have
// the role too. Calico takes a peer given by address to have no cluster ID, so it configures "rr client" for that peer in
// BIRD. Calico configures the reverse side by itself: it is that of an ordinary client if both nodes have the same cluster ID.
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

// longestName is the maximum length of a BGPPeer's name, with room for what Calico may append.
const longestName = 200

// peeringName returns the name of a BGPPeer for two nodes. It does not depend on which of them is the
// reflector, so one write reverses the peering. If the nodes' names are too long, a hash replaces them.
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
		return fmt.Sprintf("%s.%x", name, sum[:4]) // nodes a.b and c must not get the name of nodes a and b.c
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

// Choose returns perZone reflectors in each of zones from the dedicated nodes, sorted by name. If zones is empty, it takes all
// zones that have such nodes. Current reflectors come first unless leaves accepts them, then Ready nodes, then the oldest. When
// a Hierarchy changes to another topology, spines come before reflectors that have clients, because spines can change first.
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

// preference compares nodes for Choose: the better reflector comes first.
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
