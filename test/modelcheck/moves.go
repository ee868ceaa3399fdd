package modelcheck

import "fmt"

// move is one transition. lag is the node whose report stays behind, plus one.
type move struct{ kind, a, b, lag uint8 }

// Kinds of move.
const (
	began       uint8 = iota
	manages           // the manager reconciles
	dies              // the manager dies after a actions, and forgets
	renders           // node a
	comesUp           // all sessions of node a that are starting
	carries           // all sessions of node a have passed on all routes
	noticed           // Kubernetes sees whether node a runs
	reports           // the report of node a arrives
	joins             // worker a becomes a node
	returns           // node a, which a disturbance took
	timePasses        // one tick
	disturbance       // a is the kind, b the node or BGPPeer
)

// moves are all that can happen next.
func (m *model) moves(s *state) []move {
	out := make([]move, 0, 24)
	st := m.next(s)
	for k := range st.Actions {
		if st.Problem == nil && !m.Unbroken {
			out = append(out, move{kind: dies, a: uint8(k)})
		}
	}
	out = append(out, move{kind: manages})
	conf := m.configuration(s)
	calm := true
	for i := range m.size() {
		out = m.movesOf(s, &conf, out, i, &calm)
	}
	if calm {
		out = append(out, move{kind: timePasses})
	}
	return m.disturbances(s, out)
}

// movesOf are those of one node. Calm stays true where time may pass: every node that runs has rendered everything, no session has been
// starting for longer than any takes, what is Established carries, and Kubernetes has seen which nodes run.
func (m *model) movesOf(s *state, conf *[maxNodes]uint16, out []move, i int, calm *bool) []move {
	n, id := &s.nodes[i], uint8(i) //nolint:gosec // G115: at most eight
	if n.is(ordered) {
		out = append(out, move{kind: joins, a: id})
	}
	if !n.is(exists) {
		return out
	}
	if n.is(alive) && s.rows[i] != conf[i] {
		out = append(out, move{kind: renders, a: id})
		*calm = false
	}
	if n.is(alive) != n.is(ready) {
		out = append(out, move{kind: noticed, a: id})
		*calm = false
	}
	if m.news(s, i) {
		out = append(out, move{kind: reports, a: id})
	}
	if s.dead == id+1 && !n.is(alive) {
		out = append(out, move{kind: returns, a: id})
	}
	return m.sessionMoves(s, out, i, calm)
}

func (m *model) sessionMoves(s *state, out []move, i int, calm *bool) []move {
	var count [carrying + 1]int // sessions, by state
	for j := range m.size() {
		if j != i {
			count[s.up[pairOf(i, j)]]++
		}
	}
	*calm = *calm && count[late]+count[quietUp] == 0 && (m.Late || count[starting] == 0)
	if count[starting]+count[late] > 0 {
		out = append(out, move{kind: comesUp, a: small(i)})
	}
	if count[quietUp] > 0 {
		out = append(out, move{kind: carries, a: small(i)})
	}
	return out
}

// do makes a move, and lets all reports arrive but one.
func (m *model) do(s *state, mv move) {
	m.make(s, mv)
	m.receive(s, mv.lag)
}

// receive lets all reports arrive but one.
func (m *model) receive(s *state, lag uint8) {
	if lag&begins != 0 {
		s.lagged++
	}
	for i := range m.size() {
		if i+1 != int(lag&^begins) && m.news(s, i) {
			m.report(s, i)
		}
	}
	m.endExcuses(s)
	m.normalise(s)
}

// normalise gives states that no rule distinguishes the same form. Of when BGPPeers were written, and dedicated nodes got their roles, rules
// read only the latest; since when the mesh is on, only where there are no reports.
func (m *model) normalise(s *state) {
	last := never
	for _, w := range s.peers {
		if w.spec != 0 {
			last = min(last, w.at)
		}
	}
	for i := range s.nodes {
		if m.Dedicated && s.nodes[i].is(marked) {
			last = min(last, s.nodes[i].roleAge)
		}
	}
	m.dateWrites(s, last)
	s.undate()
	if !m.Timer && s.meshSince != never {
		s.meshSince = longAgo
	}
}

func (m *model) dateWrites(s *state, last age) {
	for i := range s.peers {
		if s.peers[i].at != never {
			s.peers[i].at = last
		}
	}
	for i := range s.nodes {
		if m.Dedicated && s.nodes[i].is(marked) {
			s.nodes[i].roleAge = last
		}
	}
}

// undate: what has been Established since an unknown time counts as long so.
func (s *state) undate() {
	for i := range s.nodes {
		for j, x := range s.reports[i].sess {
			if kind := x & kindBits; (kind == nodeUp || kind == meshUp) && age(x>>sinceShift&7) == never {
				s.reports[i].sess[j] = x&^(7<<sinceShift) | uint8(longAgo)<<sinceShift
			}
		}
	}
}

// begins marks a report that was not behind before.
const begins = 1 << 7

// flatters: the report shows sessions Established that are not so any more, or paths. One that shows too little only makes the manager wait.
func (m *model) flatters(s *state, i int) bool {
	r := &s.reports[i]
	if r.cleared != never {
		return false
	}
	for j, x := range r.sess {
		if kind := x & kindBits; (kind == meshUp || kind == nodeUp) && (kind != m.seen(s, i, j) || x&restarted != 0) {
			return true
		}
	}
	return r.has && r.learned&^m.learnedBy(s, i) != 0
}

// lags gives the reports that may stay behind after a move that was made: the one that
// was behind before, as long as it is; else, while Stale allows it, any that has news.
func (m *model) lags(before, after *state, mv move) []uint8 {
	out := []uint8{0}
	for i := range m.size() {
		if !m.news(after, i) {
			continue
		}
		if m.news(before, i) && mv != (move{kind: reports, a: uint8(i)}) {
			return []uint8{small(i) + 1}
		}
		if int(before.lagged) < m.Stale && m.flatters(after, i) {
			out = append(out, begins|small(i)+1)
		}
	}
	return out
}

func (m *model) make(s *state, mv move) {
	i := int(mv.a)
	switch mv.kind {
	case manages:
		m.reconcile(s, maxActions)
	case dies:
		m.reconcile(s, i)
	case renders:
		m.take(s, i, m.configuration(s)[i])
	case comesUp, carries:
		m.advance(s, mv)
	case timePasses:
		s.tick()
	case reports:
		m.report(s, i)
	case disturbance:
		m.disturb(s, mv)
	default:
		m.change(s, mv)
	}
}

const maxActions = 200

// change is what happens to a node.
func (m *model) change(s *state, mv move) {
	i := int(mv.a)
	n := &s.nodes[i]
	switch mv.kind {
	case noticed:
		n.set(ready, n.is(alive))
		n.readyAge = justNow
	case joins:
		*n = node{flags: exists | alive | ready | pooled, readyAge: justNow, roleAge: never, born: justNow}
		s.owed[i] = 0
		m.take(s, i, m.configuration(s)[i])
	case returns:
		n.set(alive, true)
		m.restartAll(s, i)
		m.excuseNode(s, i)
		m.oweLess(s)
	}
}

// advance brings a node's sessions up, or lets their routes arrive.
func (m *model) advance(s *state, mv move) {
	for j := range m.size() {
		if j == int(mv.a) {
			continue
		}
		switch up := &s.up[pairOf(int(mv.a), j)]; {
		case mv.kind == carries && *up == quietUp:
			*up = carrying
		case mv.kind == comesUp && (*up == starting || *up == late):
			*up = carrying
			if m.Slow {
				*up = quietUp
			}
		}
	}
}

// seen is what a reporter would write of a session.
func (m *model) seen(s *state, i, j int) uint8 {
	side := m.rows.get(int(s.rows[i]))[j]
	if side == 0 || i == j {
		return unseen
	}
	up := s.up[pairOf(i, j)] >= upFromHere
	kind := nodeDown
	if m.sides.get(int(side)).Mesh {
		kind = meshDown
	}
	return kind + bit(up)
}

func (m *model) learnedBy(s *state, i int) uint64 {
	all, out := m.routes(s), uint64(0)
	for origin := range m.size() {
		if origin != i {
			out |= uint64(all.from[origin][i]) << (origin * maxNodes)
		}
	}
	return out
}

// news: the reporter has something to write.
func (m *model) news(s *state, i int) bool {
	r := &s.reports[i]
	if !r.watched || !s.nodes[i].is(alive) {
		return false
	}
	if r.cleared != never || r.wants != r.has || r.has && r.learned != m.learnedBy(s, i) {
		return true
	}
	for j := range m.size() {
		if x := r.sess[j]; x&kindBits != m.seen(s, i, j) || x&restarted != 0 {
			return true
		}
	}
	return false
}

// report is what the reporter writes, and the manager receives. All sessions of a kind have the date of the youngest: rules ask for no other.
func (m *model) report(s *state, i int) {
	r := &s.reports[i]
	old := r.sess
	r.updated, r.cleared, r.has, r.learned = justNow, never, r.wants, 0
	if r.has {
		r.learned = m.learnedBy(s, i)
	}
	youngest := [nodeUp + 1]uint8{meshDown: uint8(never), meshUp: uint8(never), nodeDown: uint8(never), nodeUp: uint8(never)}
	for j := range m.size() {
		kind, since := m.seen(s, i, j), uint8(justNow)
		if x := old[j]; x&kindBits == kind && x&restarted == 0 && age(x>>sinceShift&7) != never {
			since = x >> sinceShift & 7
		}
		r.sess[j] = kind
		youngest[kind] = min(youngest[kind], since)
	}
	for j, kind := range r.sess {
		if kind != unseen {
			r.sess[j] = kind | youngest[kind]<<sinceShift
		}
	}
}

// describeMove says what a move does.
func (m *model) describeMove(s *state, mv move) string {
	a := m.name(int(mv.a))
	switch mv.kind {
	case renders:
		return a + " renders what the datastore says now"
	case comesUp:
		return "all sessions of " + a + " come up that are starting"
	case carries:
		return "the routes of all sessions of " + a + " have arrived"
	case noticed:
		return "Kubernetes notices whether " + a + " runs"
	case reports:
		return "the report of " + a + " arrives"
	case joins:
		return "worker " + a + " becomes a node"
	case returns:
		return a + " runs again"
	case timePasses:
		return "time passes"
	case disturbance:
		return "DISTURBANCE: " + m.describeDisturbance(s, mv)
	}
	return m.describeStep(s, mv)
}

func (m *model) describeStep(s *state, mv move) string {
	st := m.next(s)
	line := fmt.Sprintf("the manager: %s: %s", st.Name, st.Reason)
	for k, a := range st.Actions {
		if mv.kind == dies && k == int(mv.a) {
			line += "\n        and dies here"
			break
		}
		line += "\n        do    " + a.String()
	}
	for k, w := range st.WaitingFor {
		if k == 3 {
			line += fmt.Sprintf("\n        and %d more", len(st.WaitingFor)-k)
			break
		}
		line += "\n        await " + w
	}
	return line
}
