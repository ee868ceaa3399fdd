package modelcheck

import (
	"fmt"
	"slices"
	"strings"

	"github.com/rrpool/rrpool/controllers/plan"
)

// move is one transition. lag is the node whose report stays behind, plus one.
type move struct {
	kind kind
	a, b int
	lag  lag
}

// kind of a move, in words about node a.
type kind string

const (
	manages     kind = "the manager reconciles"
	dies        kind = "the manager dies" // after a actions, and forgets
	renders     kind = "%s renders what the datastore says"
	comesUp     kind = "all sessions of %s that are starting come up"
	carries     kind = "the routes of all sessions of %s arrive"
	noticed     kind = "Kubernetes notices whether %s runs"
	reports     kind = "the report of %s arrives"
	joins       kind = "worker %s becomes a node"
	returns     kind = "%s runs again" // which a disturbance took
	timePasses  kind = "time passes"
	disturbance kind = "DISTURBANCE" // a is the kind, b the node or BGPPeer
)

// lag is a report that stays behind: that of a node, plus one. begins: it was not behind before.
type lag uint8

const begins lag = 1 << 7

// moves are all that may happen next, and some that change nothing.
func (m *model) moves(s *state) []move {
	out := []move{{kind: manages}, {kind: timePasses}}
	for k := range m.next(s).Actions {
		if !m.Unbroken {
			out = append(out, move{kind: dies, a: k})
		}
	}
	out = append(out, m.each(renders, comesUp, carries, noticed, reports, joins, returns)...)
	for k := range m.Disturbances {
		for i := range max(len(m.names), len(m.cluster(s).Peers)) {
			out = append(out, move{kind: disturbance, a: k, b: i})
		}
	}
	return out
}

// each is these moves of each node.
func (m *model) each(kinds ...kind) (out []move) {
	for i := range m.names {
		for _, k := range kinds {
			out = append(out, move{kind: k, a: i})
		}
	}
	return out
}

// receive lets all reports arrive but one.
func (m *model) receive(s *state, behind lag) {
	if behind&begins != 0 {
		s.lagged++
	}
	for i := range m.names {
		if i+1 != int(behind&^begins) {
			m.report(s, i)
		}
	}
	m.undate(s)
	m.endExcuses(s)
}

// lags gives the reports that may stay behind after a move that was made: the one that was behind before, as long as it is; else, while
// Stale allows it, any that has news.
func (m *model) lags(before, after *state, mv move) []lag {
	out := []lag{0}
	for i := range m.names {
		l, behind := m.look(after, i), lag(i)+1
		if !l.news {
			continue
		}
		if m.look(before, i).news && mv != (move{kind: reports, a: i}) {
			return []lag{behind}
		}
		if int(before.lagged) < m.Stale && l.flatters {
			out = append(out, begins|behind)
		}
	}
	return out
}

// make makes a move. One that cannot be made changes nothing.
func (m *model) make(s *state, mv move) {
	switch mv.kind {
	case manages:
		m.reconcile(s, everything)
	case dies:
		m.reconcile(s, mv.a)
	case renders:
		if s.alive.has(mv.a) {
			m.take(s, mv.a, m.cluster(s).rows[mv.a])
		}
	case comesUp, carries:
		m.advance(s, mv)
	case reports:
		m.report(s, mv.a)
	case timePasses:
		if m.calm(s) {
			m.tick(s)
		}
	case disturbance:
		m.disturb(s, mv)
	default:
		m.change(s, mv)
	}
}

// change is what happens to a node.
func (m *model) change(s *state, mv move) {
	i := mv.a
	c, alive := m.cluster(s), s.alive.has(i)
	switch {
	case mv.kind == noticed && c.at[i] != nil && c.at[i].Ready != alive:
		m.editNode(s, fmt.Sprint("ready ", alive), i, func(n *plan.Node) { n.Ready, n.ReadyChanged = alive, today })
	case mv.kind == joins && slices.Contains(c.Ordered, m.names[i]):
		m.edit(s, fmt.Sprint("joins ", i), func(c *cluster) {
			c.remove(m.names[i])
			c.Nodes = append(c.Nodes, m.newNode(i, 0))
			slices.SortFunc(c.Nodes, func(a, b plan.Node) int { return strings.Compare(a.Name, b.Name) })
		})
	case mv.kind == returns && int(s.dead) == i+1 && !alive && c.at[i] != nil:
		s.alive.set(i, true)
		m.restartAll(s, i)
		m.excuseNode(s, i)
		m.oweLess(s)
	}
}

// calm: time may pass. Every node that runs has rendered everything, no session has been starting for longer than any takes, what is
// Established carries, and Kubernetes has seen which nodes run.
func (m *model) calm(s *state) bool {
	c := m.cluster(s)
	for i, n := range c.at {
		if alive := s.alive.has(i); n != nil && (alive != n.Ready || alive && s.rows[i] != c.rows[i]) {
			return false
		}
	}
	return !slices.ContainsFunc(s.up[:], func(u uint8) bool { return u == late || u == quietUp || u == starting && !m.Late })
}

// advance brings a node's sessions up, or lets their routes arrive.
func (m *model) advance(s *state, mv move) {
	for j := range m.names {
		if j == mv.a {
			continue
		}
		switch up := &s.up[pairOf(mv.a, j)]; {
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

// describeMove says what a move does.
func (m *model) describeMove(s *state, mv move) string {
	switch mv.kind {
	case manages, dies:
		return m.describeStep(s, mv)
	case disturbance:
		return fmt.Sprintf("%s: %s (%d)", mv.kind, m.Disturbances[mv.a], mv.b+1)
	case timePasses:
		return string(mv.kind)
	default:
		return fmt.Sprintf(string(mv.kind), m.names[mv.a])
	}
}

func (m *model) describeStep(s *state, mv move) string {
	st := m.next(s)
	line := fmt.Sprintf("the manager: %s: %s", st.Name, st.Reason)
	for k, a := range st.Actions {
		if mv.kind == dies && k == mv.a {
			line += "\n        and dies here"
			break
		}
		line += "\n        do    " + a.String()
	}
	for _, w := range st.WaitingFor[:min(3, len(st.WaitingFor))] {
		line += "\n        await " + w
	}
	return line
}
