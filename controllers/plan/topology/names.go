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

// KindOf returns the topology that a slot belongs to: Single for "", and "" for a value that is no slot.
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

// slotName returns the name of a slot of a zone or rack. The name is unique, and a valid label value.
func slotName(prefix, place string, number int) string {
	return prefix + namePart(place, isSlotPart) + "-" + strconv.Itoa(number)
}

// slotPlace returns the zone or rack in a slot's name, or the hash that slotName wrote for it; "" for none.
func slotPlace(prefix, slot string) string {
	place, found := strings.CutPrefix(slot, prefix)
	dash := strings.LastIndexByte(place, '-')
	if !found || dash < 0 {
		return ""
	}
	return place[:dash]
}

// slotNumber returns the number at the end of a slot's name, 0 for none.
func slotNumber(slot string) int {
	n, _ := strconv.Atoi(slot[strings.LastIndexByte(slot, '-')+1:])
	return n
}

// peerName returns the name of the BGPPeer of a group of clients.
func peerName(kind v1alpha1.TopologyType, group string) string {
	if group == "" {
		return peerNames[kind]
	}
	return peerNames[kind] + "." + namePart(group, isPeerPart)
}

var peerNames = map[v1alpha1.TopologyType]string{
	v1alpha1.TopologyQuorum: PeerQuorum, v1alpha1.TopologyMultiCluster: PeerMulti, v1alpha1.TopologyHierarchy: PeerRack,
}

// hashLength is the length of a hash in a name, in hexadecimal digits.
const hashLength = 16

// namePart returns a value for use in a name. If fits refuses the value, it returns a hash. A
// value that looks like a hash is hashed too, so that no two values result in the same name.
func namePart(value string, fits func(string) bool) string {
	if fits(value) && (len(value) != hashLength || strings.Trim(value, "0123456789abcdef") != "") {
		return value
	}
	sum := sha256.Sum256([]byte(value))
	return fmt.Sprintf("%x", sum[:hashLength/2])
}

// isSlotPart reports whether s fits into a slot's name: of the 63 characters of a label value, prefix and number leave at least 48.
func isSlotPart(s string) bool { return len(s) <= 48 && isValue(s) }

// isPeerPart reports whether a BGPPeer's name may contain s.
func isPeerPart(s string) bool { return len(validation.IsDNS1123Label(s)) == 0 }

// isValue reports whether s is a label value and not empty. rrpool writes no other values into selectors.
func isValue(s string) bool { return s != "" && len(validation.IsValidLabelValue(s)) == 0 }

// isRack reports whether rrpool may have named a rack s: a number from 1 to mostGroups.
func isRack(s string) bool {
	n, err := strconv.Atoi(s)
	return err == nil && n > 0 && n <= mostGroups && strconv.Itoa(n) == s
}

// Selectors, in Calico's syntax.

func isClient(role string) string { return "!has(" + role + ")" }

// RoleLabel returns the role label that is in the selector of one of rrpool's
// BGPPeers for clients. For any other BGPPeer it returns the argument otherwise.
func RoleLabel(p plan.Peer, otherwise string) string {
	_, rest, _ := strings.Cut(p.NodeSelector, "!has(")
	key, _, _ := strings.Cut(rest, ")")
	return cmp.Or(key, otherwise)
}

func equals(key, value string) string { return key + ` == "` + value + `"` }

func in(key string, values []string) string { return key + " in " + list(values) }

// notIn returns a selector of nodes whose label has none of the values, and of nodes without the label.
func notIn(key string, values []string) string { return key + " not in " + list(values) }

func list(values []string) string { return `{"` + strings.Join(values, `","`) + `"}` }

func startsWith(key, prefix string) string { return key + ` starts with "` + prefix + `"` }

// peer returns one of rrpool's BGPPeers.
func peer(name, nodes, peers string, s Session) plan.Peer {
	return plan.Peer{
		Name: name, Owned: true, NodeSelector: nodes, PeerSelector: peers,
		Password: s.Password, MaxRestartTime: s.MaxRestartTime,
	}
}

// SelectsByRack reports whether a BGPPeer selects clients by plan.RackLabel.
func SelectsByRack(p plan.Peer) bool { return strings.Contains(p.NodeSelector, " "+plan.RackLabel+" ") }

// Scoped returns the BGPPeers of Single for a change of topology, while some reflectors have the cluster IDs of another topology.
// They select only the reflectors of Single and of Quorum, which have the same cluster ID, and do not change the sessions of these.
func Scoped(roleLabel string, s Session) []plan.Peer {
	return singlePeers(roleLabel, equals(roleLabel, SlotSingle)+" || "+startsWith(roleLabel, SlotQuorum), s)
}
