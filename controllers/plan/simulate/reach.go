package simulate

import (
	"encoding/binary"
	"slices"
	"time"

	"github.com/rrpool/rrpool/controllers/plan"
)

// moment is what the sessions that are up at one moment make of the model's nodes.
type moment struct {
	// Of the versions that matter the first and the last, and the model's changes.
	first, last, changes int
	// groups of the nodes that are up: nothing that matters tells those of one apart.
	groups [][]int // indexes of m.nodes
	of     []int   // by index of m.nodes, -1 for nodes that are down
	*graph
}

// moment gives that of now.
func (m *Model) moment() *moment {
	last := m.current()
	// A session is up if nothing has changed about it since it had the time to come up.
	first := last
	for first > 0 && m.versions[first].from.Add(Connect).After(m.now) {
		first--
	}
	if o := m.latest; o != nil && o.first == first && o.last == last && o.changes == m.changes {
		return o
	}
	out := &moment{first: first, last: last, changes: m.changes, of: make([]int, len(m.nodes))}
	known := map[string]int{}
	var key []byte
	for i, n := range m.nodes {
		if out.of[i] = -1; !m.versions[last].alive[n.Name] {
			continue
		}
		key = m.kind(key[:0], n.Name, first, last)
		group, ok := known[string(key)]
		if !ok {
			group = len(out.groups)
			known[string(key)] = group
			out.groups = append(out.groups, nil)
		}
		out.of[i] = group
		out.groups[group] = append(out.groups[group], i)
	}
	size := make([]int, len(out.groups))
	for i, g := range out.groups {
		size[i] = len(g)
	}
	v := m.versions[last]
	out.graph = newGraph(
		size,
		func(g int) string { return v.Members[m.nodes[out.groups[g][0]].Name].ClusterID },
		func(a, b int) (Side, Side, bool) { return m.between(out.groups[a], out.groups[b]) },
	)
	m.latest = out
	return out
}

// kind is what the sessions of a node depend on, in those versions.
func (m *Model) kind(key []byte, name string, first, last int) []byte {
	for _, v := range m.versions[first : last+1] {
		member, known := v.Members[name]
		if !known || !v.alive[name] {
			member.kind = -1
		}
		key = binary.AppendVarint(key, int64(member.kind))
	}
	return key
}

// between gives the sides of the session that nodes of two groups, or of one, have with
// each other, if it is up.
func (m *Model) between(g, h []int) (mine, yours Side, up bool) {
	a, b := g[0], h[0]
	if a == b {
		if len(h) < 2 {
			return Side{}, Side{}, false
		}
		b = h[1]
	}
	s, ok := m.session(m.nodes[a].Name, m.nodes[b].Name)
	return s.mine, s.yours, ok && s.up
}

// Alike are the nodes that cannot be told apart from a node, itself among them.
func (m *Model) Alike(name string) []string {
	now, i := m.moment(), m.index[name]
	if i >= len(m.nodes) || m.nodes[i].Name != name || now.of[i] < 0 {
		return []string{name}
	}
	var out []string
	for _, o := range now.groups[now.of[i]] {
		out = append(out, m.nodes[o].Name)
	}
	return out
}

// Unreached gives pairs of nodes without a route from one to the other, sorted; none is
// the rule. Of nodes that cannot be told apart two stand for all. want leaves nodes out.
func (m *Model) Unreached(want func(plan.Node) bool) []Pair {
	now := m.moment()
	nodes := make([][]string, len(now.groups))
	for g, members := range now.groups {
		for _, i := range members {
			if len(nodes[g]) == 2 {
				break
			}
			if want(m.nodes[i]) {
				nodes[g] = append(nodes[g], m.nodes[i].Name)
			}
		}
	}
	return unreached(now.graph, nodes)
}

// Sessions counts the Established sessions of the cluster, and the most that a node
// has: one in the role, and one that is not.
func (m *Model) Sessions() (all, perReflector, perClient int) {
	now := m.moment()
	for g, members := range now.groups {
		degree := now.degree(g)
		all += degree * len(members)
		for _, i := range members {
			if n := &m.nodes[i]; n.RoleLabel && n.ClusterID != "" {
				perReflector = max(perReflector, degree)
			} else {
				perClient = max(perClient, degree)
			}
		}
	}
	return all / 2, perReflector, perClient
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
