package simulate

import (
	"encoding/binary"
	"math/bits"
	"net/netip"
	"slices"
	"strconv"

	"github.com/projectcalico/calico/libcalico-go/lib/selector"
	"github.com/projectcalico/calico/libcalico-go/lib/selector/parser"
	"github.com/projectcalico/calico/libcalico-go/lib/selector/tokenizer"

	"github.com/rrpool/rrpool/controllers/plan"
)

// kind is a set of nodes with the same cluster ID that the same BGPPeers select. A node that a BGPPeer names is a kind of its own.
type kind struct {
	// from are the peerings for these nodes, by node or nodeSelector; to are the peerings whose peers
	// these nodes are. automatic are those of from whose reverse side Calico configures by itself.
	from, to, automatic bitset
	clusterID           string
}

// bitset is a set of small numbers.
type bitset []uint64

func (s bitset) add(i int) { s[i/64] |= 1 << (i % 64) }

func (s bitset) has(i int) bool { return s[i/64]>>(i%64)&1 == 1 }

// first returns the least number that is in both sets, or -1.
func (s bitset) first(o bitset) int {
	for i := range s {
		if both := s[i] & o[i]; both != 0 {
			return i*64 + bits.TrailingZeros64(both)
		}
	}
	return -1
}

// sorter sorts nodes into kinds. It evaluates the selectors once for all nodes that have the same values of the labels in these selectors.
type sorter struct {
	roleLabel string
	peerings  []peering
	selectors []sideSelector
	// labels are the keys in the selectors.
	labels  []string
	matched map[string]matches // by the values of the labels
	// byNode are the peerings by the node that they name, byAddress by the address of their peer.
	byNode    map[string][]int
	byAddress map[netip.Addr][]int

	kinds []kind
	known map[string]int
}

// sideSelector is a selector of a peering: its peerSelector if to is true, else its nodeSelector.
type sideSelector struct {
	*selector.Selector
	peering int
	to      bool
}

// matches lists the peerings whose selectors match a node.
type matches struct{ from, to bitset }

func newSorter(roleLabel string, peerings []peering) *sorter {
	s := &sorter{
		roleLabel: roleLabel, peerings: peerings, matched: map[string]matches{},
		byNode: map[string][]int{}, byAddress: map[netip.Addr][]int{}, known: map[string]int{},
	}
	left := mostSelectors
	for i, p := range peerings {
		if !readable(p.Peer, &left) {
			continue
		}
		switch {
		case p.global:
			s.addSelector("all()", i, false)
		case p.NodeSelector != "":
			s.addSelector(p.NodeSelector, i, false)
		default:
			s.byNode[p.Node] = append(s.byNode[p.Node], i)
		}
		if p.address.IsValid() {
			s.byAddress[p.address] = append(s.byAddress[p.address], i)
		} else {
			s.addSelector(p.PeerSelector, i, true)
		}
	}
	slices.Sort(s.labels)
	s.labels = slices.Compact(s.labels)
	return s
}

// The bounds of selectors in BGPPeers of others: the time and the stack that parsing takes grow faster than the text.
const (
	LongestSelector = 4 << 10  // bytes of one selector
	deepestSelector = 64       // nested parentheses
	mostSelectors   = 64 << 10 // bytes of all selectors in BGPPeers of others
)

// Unread returns the names of BGPPeers of others whose selectors exceed these bounds. The model assumes that these BGPPeers select no node.
func Unread(peers []plan.Peer) (names []string) {
	left := mostSelectors
	for _, p := range peers {
		if !readable(p, &left) && !p.Owned {
			names = append(names, p.Name)
		}
	}
	return names
}

// readable reports whether a BGPPeer's selectors are within the bounds. left is what remains of mostSelectors; readable reduces it.
func readable(p plan.Peer, left *int) bool {
	if !p.Owned {
		*left -= len(p.NodeSelector) + len(p.PeerSelector)
	}
	for _, text := range []string{p.NodeSelector, p.PeerSelector} {
		open, deepest := 0, 0
		for _, c := range text {
			switch c {
			case '(':
				open++
			case ')':
				open--
			}
			deepest = max(deepest, open)
		}
		if len(text) > LongestSelector || deepest > deepestSelector {
			return false
		}
	}
	return p.Owned || *left >= 0
}

// addSelector adds a selector. A selector that cannot be parsed matches no node.
func (s *sorter) addSelector(text string, peering int, to bool) {
	sel, err := selector.Parse(text)
	if err != nil {
		return
	}
	s.selectors = append(s.selectors, sideSelector{sel, peering, to})
	tokens, _ := tokenizer.Tokenize(text) // Parse has succeeded with the same text
	for _, t := range tokens {
		if t.Kind == tokenizer.TokLabel || t.Kind == tokenizer.TokHas {
			s.labels = append(s.labels, t.Value)
		}
	}
}

// kindOf returns the index of a node's kind.
func (s *sorter) kindOf(n *plan.Node) int {
	a, named, reached, key := s.match(n), s.byNode[n.Name], []int(nil), []byte(nil)
	for _, address := range n.Addresses {
		reached = append(reached, s.byAddress[address]...)
	}
	for i := range a.from {
		key = binary.LittleEndian.AppendUint64(key, a.from[i])
		key = binary.LittleEndian.AppendUint64(key, a.to[i])
	}
	key = strconv.AppendQuote(key, n.ClusterID)
	if len(named)+len(reached) > 0 {
		key = append(key, n.Name...)
	}
	i, ok := s.known[string(key)]
	if !ok {
		i = len(s.kinds)
		s.known[string(key)] = i
		s.kinds = append(s.kinds, s.newKind(a, n.ClusterID, named, reached))
	}
	return i
}

func (s *sorter) newKind(a matches, clusterID string, named, reached []int) kind {
	k := kind{from: slices.Clone(a.from), to: slices.Clone(a.to), automatic: s.newBitset(), clusterID: clusterID}
	for _, i := range named {
		k.from.add(i)
	}
	for _, i := range reached {
		k.to.add(i)
	}
	for i, p := range s.peerings {
		if !p.Manual && k.from.has(i) {
			k.automatic.add(i)
		}
	}
	return k
}

func (s *sorter) newBitset() bitset { return make(bitset, (len(s.peerings)+63)/64) }

// match returns the peerings whose selectors match a node.
func (s *sorter) match(n *plan.Node) matches {
	var values []byte
	for _, key := range s.labels {
		if value, ok := s.label(n, key); ok {
			values = strconv.AppendQuote(values, value)
		}
		values = append(values, ',')
	}
	if out, ok := s.matched[string(values)]; ok {
		return out
	}
	labels, out := parser.MapAsLabels{}, matches{s.newBitset(), s.newBitset()}
	for _, key := range s.labels {
		if value, ok := s.label(n, key); ok {
			labels[key] = value
		}
	}
	for _, q := range s.selectors {
		switch {
		case !q.EvaluateLabels(labels):
		case q.to:
			out.to.add(q.peering)
		default:
			out.from.add(q.peering)
		}
	}
	s.matched[string(values)] = out
	return out
}

// label returns the value of a label in the evaluation of selectors, and whether the node has it. The role label has the value Slot.
func (s *sorter) label(n *plan.Node, key string) (string, bool) {
	if key == s.roleLabel {
		if n.HasRoleLabel && !n.Relabel && n.Slot == "" {
			return anySlot, true
		}
		return n.Slot, n.HasRoleLabel && !n.Relabel
	}
	value, ok := n.Labels[key]
	if key == plan.RackLabel && !ok && n.Rack != "" {
		return n.Rack, true
	}
	return value, ok
}

// anySlot is the value of the role label of a reflector without a slot.
const anySlot = "true"
