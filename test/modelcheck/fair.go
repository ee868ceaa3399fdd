package modelcheck

import (
	"fmt"

	"github.com/rrpool/rrpool/controllers/plan"
)

// longest is more steps than any fair run takes.
const longest = 400

// fair is the next state of the run in which nothing disturbs and nobody is slow: all
// render, all sessions come up, all reports arrive, the manager takes its turn; and when
// none of that changes anything, time passes. It reports whether anything has changed.
func (m *model) fair(s *state) (state, bool) {
	next := *s
	for _, do := range []func(*state){m.allRender, m.allComeUp, m.allHappens, m.allReport, func(s *state) { m.turn(s, maxActions) }, (*state).tick} {
		do(&next)
		m.forgive(&next)
		m.normalise(&next)
		if next != *s {
			return next, true
		}
	}
	return next, false
}

func (m *model) allRender(s *state) {
	conf := m.configuration(s)
	for i := range m.size() {
		if s.nodes[i].is(exists|alive) && s.rows[i] != conf[i] {
			m.take(s, i, conf[i])
		}
	}
}

func (m *model) allComeUp(s *state) {
	for p, u := range s.up {
		if u != down {
			s.up[p] = carrying
		}
	}
}

func (m *model) allHappens(s *state) {
	for i := range m.size() {
		n, id := &s.nodes[i], uint8(i)
		switch {
		case n.is(ordered):
			m.change(s, move{kind: joins, a: id})
		case n.is(exists) && n.is(alive) != n.is(ready):
			m.change(s, move{kind: noticed, a: id})
		}
	}
}

func (m *model) allReport(s *state) {
	for i := range m.size() {
		if m.news(s, i) {
			m.report(s, i)
		}
	}
}

// run follows the fair run from a state until it rests, or meets one that was followed
// before, and says what is wrong with where it ends.
func (x *explorer) run(s state) string {
	own := map[key]bool{}
	for range longest {
		h := hash(&s)
		if own[h] {
			if !x.m.onlyAsks(s) {
				return "4: the manager goes round in circles, and writes for ever"
			}
			break
		}
		if x.calm.has(h[0], h) {
			break
		}
		own[h] = true
		next, changed := x.m.fair(&s)
		if !changed {
			if why := x.m.atRest(&s); why != "" {
				return why
			}
			break
		}
		s = next
	}
	if len(own) == longest {
		return fmt.Sprintf("4: the run from here has not settled after %d steps", longest)
	}
	for h := range own {
		x.calm.add(h[0], h, struct{}{})
	}
	x.runs.Add(1)
	return ""
}

// onlyAsks: in the circle that a run has come to, something is broken that no manager can
// put right, and all that is written are questions for reports.
func (m *model) onlyAsks(s state) bool {
	first := s
	for range longest {
		st := m.next(&s)
		if !m.faulty(&s) || len(st.WaitingFor) == 0 {
			return false
		}
		for _, a := range st.Actions {
			if _, asks := a.(plan.RefreshStatus); !asks {
				return false
			}
		}
		if s, _ = m.fair(&s); s == first {
			return true
		}
	}
	return false
}
