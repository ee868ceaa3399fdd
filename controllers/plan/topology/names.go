package topology

import (
	"cmp"
	"crypto/sha256"
	"fmt"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/controllers/plan"
)

// KindOf is the kind that a slot belongs to: Single for none, "" for a value that is no slot's.
func KindOf(slot string) v1alpha1.TopologyType {
	switch {
	case slot == SlotSingle, slot == "":
		return v1alpha1.TopologySingle
	case strings.HasPrefix(slot, SlotQuorum):
		return v1alpha1.TopologyQuorum
	case strings.HasPrefix(slot, SlotMulti):
		return v1alpha1.TopologyMultiCluster
	case strings.HasPrefix(slot, SlotRack), strings.HasPrefix(slot, SlotSpine):
		return v1alpha1.TopologyHierarchy
	}
	return ""
}

// slotName is a valid label value, and no two places have the same.
func slotName(prefix, place string, number int) string {
	return prefix + part(place, isSlotPart) + "-" + strconv.Itoa(number)
}

// slotPlace is the place of a slot name, as part wrote it.
func slotPlace(prefix, slot string) string {
	place, found := strings.CutPrefix(slot, prefix)
	dash := strings.LastIndexByte(place, '-')
	if !found || dash < 0 {
		return ""
	}
	return place[:dash]
}

// slotNumber is the number at the end of a slot's name, 0 for none.
func slotNumber(slot string) int {
	n, _ := strconv.Atoi(slot[strings.LastIndexByte(slot, '-')+1:])
	return n
}

// peerName of the BGPPeer of a group of clients.
func peerName(kind v1alpha1.TopologyType, group string) string {
	if group == "" {
		return peerNames[kind]
	}
	return peerNames[kind] + "." + part(group, isPeerPart)
}

var peerNames = map[v1alpha1.TopologyType]string{
	v1alpha1.TopologyQuorum: PeerQuorum, v1alpha1.TopologyMultiCluster: PeerMulti, v1alpha1.TopologyHierarchy: PeerRack,
}

// hashed is how long a part is that stands for another.
const hashed = 16

// part is a value as part of a name, or something as unique where it does not fit. What
// looks like a hash gets one as well, so that none can choose another's name.
func part(value string, fits func(string) bool) string {
	if fits(value) && (len(value) != hashed || strings.Trim(value, "0123456789abcdef") != "") {
		return value
	}
	sum := sha256.Sum256([]byte(value))
	return fmt.Sprintf("%x", sum[:hashed/2])
}

// isSlotPart: "quorum-" before it and a number after it leave a label value of at most 63 characters.
func isSlotPart(s string) bool { return len(s) <= 48 && isValue(s) }

// isPeerPart: names of BGPPeers are in lower case.
func isPeerPart(s string) bool { return len(validation.IsDNS1123Label(s)) == 0 }

// isValue reports whether s is a label value, not empty. No other ever gets into a selector.
func isValue(s string) bool { return s != "" && len(validation.IsValidLabelValue(s)) == 0 }

// isRack reports whether s is a rack that rrpool itself has made: a number from 1.
func isRack(s string) bool {
	n, err := strconv.Atoi(s)
	return err == nil && n > 0 && n <= mostGroups && strconv.Itoa(n) == s
}

// Selectors, in Calico's syntax.

func isClient(role string) string { return "!has(" + role + ")" }

// RoleLabel is the role label that a BGPPeer of ours knows clients by; of one without clients, the one given.
func RoleLabel(p plan.Peer, otherwise string) string {
	_, rest, _ := strings.Cut(p.NodeSelector, "!has(")
	key, _, _ := strings.Cut(rest, ")")
	return cmp.Or(key, otherwise)
}

func equals(key, value string) string { return key + ` == "` + value + `"` }

func in(key string, values []string) string { return key + " in " + list(values) }

// notIn is true of nodes without the label as well.
func notIn(key string, values []string) string { return key + " not in " + list(values) }

func list(values []string) string { return `{"` + strings.Join(values, `","`) + `"}` }

func startsWith(key, prefix string) string { return key + ` starts with "` + prefix + `"` }

// peer is a BGPPeer of ours.
func peer(name, nodes, peers string, s Session) plan.Peer {
	return plan.Peer{
		Name: name, Owned: true, NodeSelector: nodes, PeerSelector: peers,
		Password: s.Password, MaxRestartTime: s.MaxRestartTime,
	}
}

// SelectsByRack reports whether a BGPPeer selects clients by the label that rrpool writes.
func SelectsByRack(p plan.Peer) bool { return strings.Contains(p.NodeSelector, " "+plan.RackLabel+" ") }

// Scoped gives Single's peers as they have to be while there are reflectors of a
// topology that has other cluster IDs: they select those of Single only, and of Quorum,
// which has the same ID and may not be rid of them yet. They render the same sessions.
func Scoped(roleLabel string, s Session) []plan.Peer {
	return flat(roleLabel, equals(roleLabel, SlotSingle)+" || "+startsWith(roleLabel, SlotQuorum), s)
}
