package modelcheck

import (
	"github.com/rrpool/rrpool/controllers/plan/simulate"
)

// configured is what all that nodes render depends on.
type configured struct {
	nodes [maxNodes]struct {
		flags          uint16
		slot, id, rack uint8
	}
	peers [maxPeers]uint16
	mesh  uint8
}

// configuration gives what each node renders once it has read everything.
func (m *model) configuration(s *state) [maxNodes]uint16 {
	c := configured{mesh: s.mesh.is}
	for i := range s.nodes {
		if n := &s.nodes[i]; n.is(exists) {
			c.nodes[i].flags, c.nodes[i].slot, c.nodes[i].id, c.nodes[i].rack = n.flags&(exists|labelled), n.slot, n.id, n.rack
		}
	}
	for i, w := range s.peers {
		c.peers[i] = w.spec
	}
	return m.configs.get(c, func() [maxNodes]uint16 { return m.render(s) })
}

func (m *model) render(s *state) [maxNodes]uint16 {
	conf := simulate.NewConfiguration(label, m.nodes(s), m.bgp(s), m.peersOf(s))
	var out [maxNodes]uint16
	for i := range m.size() {
		var r row
		for j := range m.size() {
			if side, ok := conf.Side(m.name(i), m.name(j)); ok && i != j {
				r[j] = small(m.sides.of(text(side), side))
			}
		}
		out[i] = uint16(m.rows.of(rowKey(r), r)) //nolint:gosec // G115: a few hundred
	}
	return out
}

// take lets a node have a new row: sessions of which its side changes start anew.
func (m *model) take(s *state, i int, id uint16) {
	was, is := m.rows.get(int(s.rows[i])), m.rows.get(int(id))
	s.rows[i] = id
	for j := range m.size() {
		if j != i && was[j] != is[j] {
			m.restart(s, i, j)
		}
	}
}

// restart ends a session. If both sides want one, it starts.
func (m *model) restart(s *state, i, j int) {
	p := pairOf(i, j)
	if s.up[p] >= upFromHere {
		s.reports[i].missed(j)
		s.reports[j].missed(i)
	}
	s.up[p] = down
	a, b := m.rows.get(int(s.rows[i]))[j], m.rows.get(int(s.rows[j]))[i]
	if a == 0 || b == 0 || !s.nodes[i].is(alive) || !s.nodes[j].is(alive) {
		return
	}
	if m.sides.get(int(a)).Fits(m.sides.get(int(b))) {
		s.up[p] = starting
	}
}

// restartAll is what the death of a node, or its return, does.
func (m *model) restartAll(s *state, i int) {
	for j := range m.size() {
		if j != i {
			m.restart(s, i, j)
		}
	}
}

// network is what routes depend on.
type network struct {
	rows  [maxNodes]uint16
	up    uint32 // pairs
	muted uint8
}

// routes say who has a path to whom.
type routes struct {
	// from[origin][at] are the neighbours that at has origin's routes from.
	from [maxNodes][maxNodes]uint8
	// joined are the pairs that reach each other.
	joined uint32
}

func (m *model) routesOver(s *state, up uint32) *routes {
	n := network{s.rows, up, s.muted}
	return m.nets.get(n, func() *routes { return m.spread(n) })
}

// routes that there are now.
func (m *model) routes(s *state) *routes {
	var up uint32
	for p, x := range s.up {
		if x == carrying {
			up |= 1 << p
		}
	}
	return m.routesOver(s, up)
}

// stable are the pairs that reach each other by sessions that stay as they are when
// every node has rendered everything.
func (m *model) stable(s *state) uint32 {
	conf := m.configuration(s)
	var up uint32
	for i := range m.size() {
		for j := i + 1; j < m.size(); j++ {
			if p := pairOf(i, j); s.up[p] == carrying && m.settled(s, &conf, i, j) {
				up |= 1 << p
			}
		}
	}
	return m.routesOver(s, up).joined
}

// settled: what both have rendered about each other is what they are to.
func (m *model) settled(s *state, conf *[maxNodes]uint16, i, j int) bool {
	if s.rows[i] == conf[i] && s.rows[j] == conf[j] {
		return true
	}
	return m.rows.get(int(s.rows[i]))[j] == m.rows.get(int(conf[i]))[j] && m.rows.get(int(s.rows[j]))[i] == m.rows.get(int(conf[j]))[i]
}

// heard is a route at a node: from whom, and through which clusters.
type heard struct{ at, from, clusters uint8 }

// spread follows every route by BIRD's rules of reflection.
func (m *model) spread(n network) *routes {
	out := &routes{}
	var rows [maxNodes]row
	for i := range m.size() {
		rows[i] = m.rows.get(int(n.rows[i]))
	}
	for origin := range m.size() {
		seen := map[heard]bool{}
		queue := []heard{{uint8(origin), uint8(origin), 0}}
		for len(queue) > 0 {
			h := queue[0]
			queue = queue[1:]
			for next := range m.size() {
				x, ok := m.sends(&n, &rows, origin, h, next)
				if ok && !seen[x] {
					seen[x] = true
					out.from[origin][next] |= 1 << h.at
					queue = append(queue, x)
				}
			}
		}
	}
	for i := range m.size() {
		for j := i + 1; j < m.size(); j++ {
			if out.from[i][j] != 0 && out.from[j][i] != 0 {
				out.joined |= 1 << pairOf(i, j)
			}
		}
	}
	return out
}

// sends reports whether the node that has heard a route gives it to next.
func (m *model) sends(n *network, rows *[maxNodes]row, origin int, h heard, next int) (heard, bool) {
	at, from := int(h.at), int(h.from)
	if next == at || next == from || next == origin || n.up>>pairOf(min(at, next), max(at, next))&1 == 0 {
		return heard{}, false
	}
	to, back := m.sides.get(int(rows[at][next])), m.sides.get(int(rows[next][at]))
	clusters := h.clusters
	if at != origin {
		source := m.sides.get(int(rows[at][from]))
		if n.muted>>at&1 == 1 || !m.reflects(source, to, clusters) {
			return heard{}, false
		}
		clusters |= m.cluster(source) | m.cluster(to)
	}
	if back.Client && clusters&m.cluster(back) != 0 {
		return heard{}, false
	}
	return heard{uint8(next), h.at, clusters}, true //nolint:gosec // G115: at most eight
}

// reflects reports whether what came by one side goes to the other.
func (m *model) reflects(source, to simulate.Side, clusters uint8) bool {
	return (source.Client || to.Client) && clusters&m.cluster(to) == 0
}

// cluster is the bit of the cluster ID that a side adds for a client.
func (m *model) cluster(s simulate.Side) uint8 {
	if !s.Client {
		return 0
	}
	i := m.ids.of(s.ClusterID, s.ClusterID)
	if i > 8 {
		panic("modelcheck: too many cluster IDs for a set of eight")
	}
	return 1 << (i - 1)
}
