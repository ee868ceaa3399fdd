package modelcheck

import (
	"github.com/rrpool/rrpool/controllers/plan/simulate"
)

// row is what one node has configured about each other one.
type row [maxNodes]end

// end is one of a session. A node that has none has the zero value.
type end struct {
	simulate.Side
	There bool
}

func (m *model) row(s *state, i int) *row { return m.rows.get(s.rows[i]) }

// take lets a node have a new row: sessions of which its side changes start anew.
func (m *model) take(s *state, i int, to uint32) {
	was, is := m.row(s, i), m.rows.get(to)
	s.rows[i] = to
	for j := range m.names {
		if was[j] != is[j] {
			m.restart(s, i, j)
		}
	}
}

// restart ends a session. If both sides want one, it starts.
func (m *model) restart(s *state, i, j int) {
	p := pairOf(i, j)
	if s.up[p] >= upFromHere {
		m.restarts(s, i, j)
		m.restarts(s, j, i)
	}
	s.up[p] = down
	a, b := m.row(s, i)[j], m.row(s, j)[i]
	if a.There && b.There && a.Fits(b.Side) && s.alive.has(i) && s.alive.has(j) {
		s.up[p] = starting
	}
}

// restartAll is what the death of a node, or its return, does.
func (m *model) restartAll(s *state, i int) {
	for j := range m.names {
		if j != i {
			m.restart(s, i, j)
		}
	}
}

// network is what routes depend on.
type network struct {
	rows  [maxNodes]uint32
	up    pairSet
	muted nodeSet
}

// routes say who has a path to whom.
type routes struct {
	// from are, for each node, those that it has each origin's routes from.
	from [maxNodes]heard
	// joined are the pairs that reach each other.
	joined pairSet
}

// heard are the neighbours that a node has routes from, by origin.
type heard [maxNodes]nodeSet

// routes over the sessions that carry them now.
func (m *model) routes(s *state) *routes {
	return m.routesOver(s, func(int, int) bool { return true })
}

// stable are the pairs that reach each other by sessions that stay as they are when every node has rendered everything.
func (m *model) stable(s *state) pairSet {
	c := m.cluster(s)
	return m.routesOver(s, func(i, j int) bool { return m.settled(s, c, i, j) }).joined
}

// routesOver are those over the sessions that carry any and that are so.
func (m *model) routesOver(s *state, so func(i, j int) bool) *routes {
	up := m.pairs(func(i, j int) bool { return s.up[pairOf(i, j)] == carrying && so(i, j) })
	n := network{s.rows, up, s.muted}
	return m.nets.get(n, func() *routes { return m.spread(n) })
}

// pairs are those that are so.
func (m *model) pairs(so func(i, j int) bool) (out pairSet) {
	for j := range m.names {
		for i := range j {
			if so(i, j) {
				out.add(i, j)
			}
		}
	}
	return out
}

// settled: what both have rendered about each other is what they are to.
func (m *model) settled(s *state, c *cluster, i, j int) bool {
	if s.rows[i] == c.rows[i] && s.rows[j] == c.rows[j] {
		return true
	}
	return m.row(s, i)[j] == m.rows.get(c.rows[i])[j] && m.row(s, j)[i] == m.rows.get(c.rows[j])[i]
}

// spread follows every route. A muted node has no clients, and so passes nothing on.
func (m *model) spread(n network) *routes {
	side := func(i, j int) simulate.Side {
		out := m.rows.get(n.rows[i])[j].Side
		out.Client = out.Client && !n.muted.has(i)
		return out
	}
	net := simulate.NetworkOf(m.names, func(a, b string) (mine, yours simulate.Side, up bool) {
		i, j := m.indexOf(a), m.indexOf(b)
		return side(i, j), side(j, i), i != j && n.up.has(i, j)
	})
	out := &routes{}
	for to := range m.names {
		for origin := range m.names {
			for _, from := range net.Senders(m.names[origin], m.names[to]) {
				out.from[to][origin].set(m.indexOf(from), true)
			}
		}
	}
	out.joined = m.pairs(func(i, j int) bool { return out.from[i][j] != 0 && out.from[j][i] != 0 })
	return out
}
