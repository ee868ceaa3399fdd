package simulate

import (
	"encoding/binary"
	"math/bits"
	"net/netip"
	"slices"

	"github.com/projectcalico/calico/libcalico-go/lib/selector"
	"github.com/projectcalico/calico/libcalico-go/lib/selector/parser"

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

// sorter sorts nodes into kinds. Selectors that look at the same labels are asked
// together, and once for all nodes with the same values of them.
type sorter struct {
	roleLabel string
	peerings  []peering
	asking    []*asking
	// naming are the peerings that name a node, reaching those that name an address.
	naming   map[string][]int
	reaching map[netip.Addr][]int
	all      bitset // peerings of all nodes

	kinds []kind
	known map[string]int
	key   []byte
}

// asking is a set of selectors that look at the same labels.
type asking struct {
	keys      []string
	questions []question
	// byValues gives the index of an answer, by the values of the labels.
	byValues map[string]int
	answers  []answer
	known    map[string]int
	key      []byte
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
		roleLabel: roleLabel, peerings: peerings, naming: map[string][]int{}, reaching: map[netip.Addr][]int{},
		known: map[string]int{},
	}
	s.all = s.none()
	for i, p := range peerings {
		switch {
		case p.global:
			s.all.add(i)
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
	return s
}

func (s *sorter) none() bitset { return make(bitset, (len(s.peerings)+63)/64) }

// ask adds a selector, unless nobody can read it: then it matches nobody.
func (s *sorter) ask(text string, peering int, to bool) {
	sel, err := selector.Parse(text)
	if err != nil {
		return
	}
	var keys keys
	sel.AcceptVisitor(&keys)
	slices.Sort(keys)
	keys = slices.Compact(keys)
	i := slices.IndexFunc(s.asking, func(a *asking) bool { return slices.Equal(a.keys, keys) })
	if i < 0 {
		i = len(s.asking)
		s.asking = append(s.asking, &asking{keys: keys, byValues: map[string]int{}, known: map[string]int{}})
	}
	s.asking[i].questions = append(s.asking[i].questions, question{sel, peering, to})
}

// keys collects the labels that a selector looks at.
type keys []string

// Visit is called with each part of the selector.
func (k *keys) Visit(part any) {
	switch p := part.(type) {
	case *parser.LabelEqValueNode:
		*k = append(*k, p.LabelName.Value())
	case *parser.LabelNeValueNode:
		*k = append(*k, p.LabelName.Value())
	case *parser.LabelContainsValueNode:
		*k = append(*k, p.LabelName.Value())
	case *parser.LabelStartsWithValueNode:
		*k = append(*k, p.LabelName.Value())
	case *parser.LabelEndsWithValueNode:
		*k = append(*k, p.LabelName.Value())
	case *parser.LabelInSetNode:
		*k = append(*k, p.LabelName.Value())
	case *parser.LabelNotInSetNode:
		*k = append(*k, p.LabelName.Value())
	case *parser.HasNode:
		*k = append(*k, p.LabelName.Value())
	}
}

// kindOf gives the index of a node's kind.
func (s *sorter) kindOf(n *plan.Node) int {
	// Each part says where it ends: no two kinds have one key.
	key := s.key[:0]
	for _, a := range s.asking {
		key = binary.AppendUvarint(key, uint64(a.about(n, s))) //nolint:gosec // G115: an index
	}
	key = append(key, n.ClusterID...)
	named, reached := s.naming[n.Name], s.reached(n)
	if len(named)+len(reached) > 0 {
		key = append(append(key, ' '), n.Name...)
	}
	s.key = key
	if i, ok := s.known[string(key)]; ok {
		return i
	}
	s.known[string(key)] = len(s.kinds)
	s.kinds = append(s.kinds, s.newKind(n, named, reached))
	return len(s.kinds) - 1
}

func (s *sorter) reached(n *plan.Node) []int {
	if len(s.reaching) == 0 {
		return nil
	}
	var out []int
	for _, a := range n.Addresses {
		out = append(out, s.reaching[a]...)
	}
	return out
}

func (s *sorter) newKind(n *plan.Node, named, reached []int) kind {
	k := kind{from: slices.Clone(s.all), to: s.none(), automatic: s.none(), clusterID: n.ClusterID}
	for _, a := range s.asking {
		a := a.answers[a.about(n, s)]
		for i := range k.from {
			k.from[i] |= a.from[i]
			k.to[i] |= a.to[i]
		}
	}
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

// label is the value that selectors see.
func (s *sorter) label(n *plan.Node, key string) (string, bool) {
	if key == s.roleLabel {
		if n.RoleLabel && n.Slot == "" {
			return anySeat, true
		}
		return n.Slot, n.RoleLabel
	}
	value, ok := n.Labels[key]
	if key == plan.RackLabel && !ok && n.Rack != "" {
		return n.Rack, true
	}
	return value, ok
}

// anySeat is the value of the role label where nobody wrote another.
const anySeat = "true"

// about gives the index of what a's selectors say of a node.
func (a *asking) about(n *plan.Node, s *sorter) int {
	key := a.key[:0]
	for _, k := range a.keys {
		if value, ok := s.label(n, k); ok {
			key = binary.AppendUvarint(key, uint64(len(value))+1)
			key = append(key, value...)
		} else {
			key = append(key, 0)
		}
	}
	a.key = key
	if i, ok := a.byValues[string(key)]; ok {
		return i
	}
	i := a.answer(n, s)
	a.byValues[string(key)] = i
	return i
}

// answer asks all selectors, and gives the same index for the same answer.
func (a *asking) answer(n *plan.Node, s *sorter) int {
	labels := make(parser.MapAsLabels, len(a.keys))
	for _, k := range a.keys {
		if value, ok := s.label(n, k); ok {
			labels[k] = value
		}
	}
	out := answer{s.none(), s.none()}
	for _, q := range a.questions {
		switch {
		case !q.EvaluateLabels(labels):
		case q.to:
			out.to.add(q.peering)
		default:
			out.from.add(q.peering)
		}
	}
	var key []byte
	for i := range out.from {
		key = binary.LittleEndian.AppendUint64(key, out.from[i])
		key = binary.LittleEndian.AppendUint64(key, out.to[i])
	}
	i, ok := a.known[string(key)]
	if !ok {
		i = len(a.answers)
		a.known[string(key)] = i
		a.answers = append(a.answers, out)
	}
	return i
}
