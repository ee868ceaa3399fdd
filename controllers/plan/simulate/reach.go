package simulate

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/rrpool/rrpool/controllers/plan"
)

// group is a set of nodes that the model cannot tell apart: what holds for two of them
// holds for all.
type group struct {
	names []string
	first []plan.Node // at most two of them
}

// groups of the nodes that are up, in a fixed order. want leaves nodes out.
func (m *Model) groups(want func(plan.Node) bool) []group {
	i := m.current()
	v := m.versions[i]
	named, reached := map[string]bool{}, map[netip.Addr]bool{}
	for x := range m.versions[:i+1] {
		for key := range m.versions[x].reaching {
			named[key.node], reached[key.address] = true, true
		}
	}
	byKind := map[string]int{}
	var out []group
	for _, n := range m.nodes {
		if !v.alive[n.Name] || !want(n) {
			continue
		}
		kind := m.kind(n, i)
		isReached := func(address netip.Addr) bool { return reached[address] }
		if named[n.Name] || slices.ContainsFunc(n.Addresses, isReached) {
			kind = n.Name
		}
		at, known := byKind[kind]
		if !known {
			at = len(out)
			byKind[kind], out = at, append(out, group{})
		}
		g := &out[at]
		g.names = append(g.names, n.Name)
		if len(g.first) < 2 {
			g.first = append(g.first, n)
		}
	}
	return out
}

// kind is what the sessions of a node depend on, in all versions until now.
func (m *Model) kind(n plan.Node, until int) string {
	kind := make([]byte, 0, 64)
	last := ""
	for i := range m.versions[:until+1] {
		v := m.versions[i]
		member := v.Members[n.Name]
		now := fmt.Sprint(v.alive[n.Name], member.Role, member.ClusterID)
		if now != last {
			kind, last = append(kind, fmt.Sprint(i, now, ";")...), now
		}
	}
	return string(kind)
}

// Alike are the nodes that cannot be told apart from a node, itself among them.
func (m *Model) Alike(name string) []string {
	for _, g := range m.groups(func(plan.Node) bool { return true }) {
		if slices.Contains(g.names, name) {
			return g.names
		}
	}
	return []string{name}
}

// Pair is a node without a route to the blocks of another.
type Pair struct{ From, To string }

// Unreached gives pairs of nodes without a route from one to the other, sorted; none is
// the rule. Of nodes that cannot be told apart two stand for all. want leaves nodes out.
func (m *Model) Unreached(want func(plan.Node) bool) []Pair {
	var nodes []plan.Node
	for _, g := range m.groups(want) {
		nodes = append(nodes, g.first...)
	}
	vias := m.reflecting()
	var out []Pair
	for _, a := range nodes {
		for _, b := range nodes {
			if a.Name != b.Name && !m.reaches(a.Name, b.Name, vias) {
				out = append(out, Pair{a.Name, b.Name})
			}
		}
	}
	slices.SortFunc(out, func(a, b Pair) int { return cmp.Or(cmp.Compare(a.From, b.From), cmp.Compare(a.To, b.To)) })
	return out
}

// reaches reports whether a has a route to b.
func (m *Model) reaches(a, b string, vias []plan.Node) bool {
	if m.passes(b, b, a) {
		return true
	}
	return slices.ContainsFunc(vias, func(via plan.Node) bool { return m.passes(b, via.Name, a) })
}

// Sessions counts the Established sessions of the cluster, and the most that a node
// has: one in the role, and one that is not.
func (m *Model) Sessions() (all, perReflector, perClient int) {
	groups := m.groups(func(plan.Node) bool { return true })
	degrees := 0
	for _, g := range groups {
		n := g.first[0]
		degree := 0
		for _, h := range groups {
			degree += m.between(g, h)
		}
		degrees += degree * len(g.names)
		if n.RoleLabel && n.ClusterID != "" {
			perReflector = max(perReflector, degree)
		} else {
			perClient = max(perClient, degree)
		}
	}
	return degrees / 2, perReflector, perClient
}

// between counts the sessions of one node of g with those of h.
func (m *Model) between(g, h group) int {
	n := g.first[0]
	for _, o := range h.first {
		if o.Name == n.Name {
			continue
		}
		if s, ok := m.session(n.Name, o.Name); !ok || !s.up {
			return 0
		}
		if slices.ContainsFunc(h.first, func(x plan.Node) bool { return x.Name == n.Name }) {
			return len(h.names) - 1
		}
		return len(h.names)
	}
	return 0
}

// Quiet reports whether everything has settled: all nodes have taken over the last
// change, and all sessions that come of it had the time to come up.
func (m *Model) Quiet() bool {
	return !m.versions[len(m.versions)-1].from.Add(Connect).After(m.now)
}

// Moments are when something may change from now until d later, in order: a node takes
// over a change, or a session comes up.
func (m *Model) Moments(d time.Duration) []time.Time {
	var out []time.Time
	for _, v := range m.versions[1:] {
		for _, at := range []time.Time{v.from, v.from.Add(Connect)} {
			if at.After(m.now) && !at.After(m.now.Add(d)) {
				out = append(out, at)
			}
		}
	}
	slices.SortFunc(out, time.Time.Compare)
	return slices.CompactFunc(out, time.Time.Equal)
}
