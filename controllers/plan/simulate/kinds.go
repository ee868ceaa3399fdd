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

// kind is a set of nodes that no BGPPeer and no cluster ID tells apart. Each node that a
// BGPPeer names is one of its own.
type kind struct {
	// from and to: the peerings that have these nodes on their one side, and on the other.
	// automatic are those of from whose other side Calico adds by itself.
	from, to, automatic bitset
	clusterID           string
}

// bitset is a set of small numbers.
type bitset []uint64

func (s bitset) add(i int) { s[i/64] |= 1 << (i % 64) }

func (s bitset) has(i int) bool { return s[i/64]>>(i%64)&1 == 1 }

// first is the least number that both have, or -1.
func (s bitset) first(o bitset) int {
	for i := range s {
		if both := s[i] & o[i]; both != 0 {
			return i*64 + bits.TrailingZeros64(both)
		}
	}
	return -1
}

// sorter sorts nodes into kinds. Selectors are asked once for all nodes with the same
// values of the labels that they look at.
type sorter struct {
	roleLabel string
	peerings  []peering
	questions []question
	// labels are those that the questions look at.
	labels  []string
	answers map[string]answer // by the values of the labels
	// naming are the peerings that name a node, reaching those that name an address.
	naming   map[string][]int
	reaching map[netip.Addr][]int

	kinds []kind
	known map[string]int
}

// question is the selector of one side of a peering.
type question struct {
	*selector.Selector
	peering int
	to      bool
}

// answer is which peerings select a node, on which side.
type answer struct{ from, to bitset }

func newSorter(roleLabel string, peerings []peering) *sorter {
	s := &sorter{
		roleLabel: roleLabel, peerings: peerings, answers: map[string]answer{},
		naming: map[string][]int{}, reaching: map[netip.Addr][]int{}, known: map[string]int{},
	}
	left := mostSelectors
	for i, p := range peerings {
		if !readable(p.Peer, &left) {
			continue
		}
		switch {
		case p.global:
			s.ask("all()", i, false)
		case p.NodeSelector != "":
			s.ask(p.NodeSelector, i, false)
		default:
			s.naming[p.Node] = append(s.naming[p.Node], i)
		}
		if p.address.IsValid() {
			s.reaching[p.address] = append(s.reaching[p.address], i)
		} else {
			s.ask(p.PeerSelector, i, true)
		}
	}
	slices.Sort(s.labels)
	s.labels = slices.Compact(s.labels)
	return s
}

// Bounds of what is read of selectors, which in BGPPeers of others may be anything: the time and the stack that reading
// takes grow faster than the text.
const (
	LongestSelector = 4 << 10  // bytes of one
	deepestSelector = 64       // nested parentheses
	mostSelectors   = 64 << 10 // bytes of all those of others
)

// Unread names the BGPPeers of others whose selectors are beyond these bounds. It is not known which nodes they select; the model takes none.
func Unread(peers []plan.Peer) (names []string) {
	left := mostSelectors
	for _, p := range peers {
		if !readable(p, &left) && !p.Owned {
			names = append(names, p.Name)
		}
	}
	return names
}

// readable reports whether selectors are within the bounds, left of which are for those of others.
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

// ask adds a selector. One that cannot be read matches no node.
func (s *sorter) ask(text string, peering int, to bool) {
	sel, err := selector.Parse(text)
	if err != nil {
		return
	}
	s.questions = append(s.questions, question{sel, peering, to})
	tokens, _ := tokenizer.Tokenize(text) // as Parse did
	for _, t := range tokens {
		if t.Kind == tokenizer.TokLabel || t.Kind == tokenizer.TokHas {
			s.labels = append(s.labels, t.Value)
		}
	}
}

// kindOf gives the index of a node's kind.
func (s *sorter) kindOf(n *plan.Node) int {
	a, named, reached, key := s.answer(n), s.naming[n.Name], []int(nil), []byte(nil)
	for _, address := range n.Addresses {
		reached = append(reached, s.reaching[address]...)
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

func (s *sorter) newKind(a answer, clusterID string, named, reached []int) kind {
	k := kind{from: slices.Clone(a.from), to: slices.Clone(a.to), automatic: s.none(), clusterID: clusterID}
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

func (s *sorter) none() bitset { return make(bitset, (len(s.peerings)+63)/64) }

// answer is what all selectors say of a node.
func (s *sorter) answer(n *plan.Node) answer {
	var values []byte
	for _, key := range s.labels {
		if value, ok := s.label(n, key); ok {
			values = strconv.AppendQuote(values, value)
		}
		values = append(values, ',')
	}
	if out, ok := s.answers[string(values)]; ok {
		return out
	}
	labels, out := parser.MapAsLabels{}, answer{s.none(), s.none()}
	for _, key := range s.labels {
		if value, ok := s.label(n, key); ok {
			labels[key] = value
		}
	}
	for _, q := range s.questions {
		switch {
		case !q.EvaluateLabels(labels):
		case q.to:
			out.to.add(q.peering)
		default:
			out.from.add(q.peering)
		}
	}
	s.answers[string(values)] = out
	return out
}

// label is the value that selectors see.
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

// anySlot is the value of the role label where no other is written.
const anySlot = "true"
