package modelcheck

import (
	"fmt"
	"slices"
	"strings"

	"github.com/rrpool/rrpool/controllers/plan"
)

// Result is what an exploration has found.
type Result struct {
	States, Depth int
	// Violation is the first that was found, "" for none, and Trace the shortest way to it.
	Violation, Trace string
}

type explorer struct {
	*model
	seen    map[state]bool
	settles map[state]bool // the fair run from these settles
	queue   []*found
}

// found is a state, and how it was reached first.
type found struct {
	state
	from  *found
	move  move
	depth int
}

// violation is a broken invariant: of a state, or of the fair run from there.
type violation struct {
	why string
	at  *found
}

// Explore looks at every state of a scenario, breadth first, up to its limit, and stops at the first violation.
func Explore(sc Scenario) Result {
	x := &explorer{model: newModel(sc), seen: map[state]bool{}, settles: map[state]bool{}}
	first := &found{state: x.beginning()}
	x.seen[first.state] = true
	x.queue = []*found{first}
	r := Result{}
	for i := 0; i < len(x.queue) && len(x.queue) < x.Limit; i++ {
		if bad := x.expand(x.queue[i]); bad != nil {
			r.Violation, r.Trace = bad.why, x.trace(*bad)
			break
		}
	}
	r.States, r.Depth = len(x.queue), x.queue[len(x.queue)-1].depth
	return r
}

// expand adds the states that follow one and are new.
func (x *explorer) expand(from *found) *violation {
	s := &from.state
	if why := x.run(*s); why != "" {
		return &violation{why, from}
	}
	if why := x.brokenStep(s, x.next(s)); why != "" {
		return &violation{why, &found{state: *s, from: from, move: move{kind: manages}}}
	}
	for _, mv := range x.moves(s) {
		after := *s
		if x.make(&after, mv); after == *s {
			continue
		}
		for _, mv.lag = range x.lags(s, &after, mv) {
			next := &found{after, from, mv, from.depth + 1}
			x.receive(&next.state, mv.lag)
			if x.seen[next.state] {
				continue
			}
			x.seen[next.state] = true
			x.queue = append(x.queue, next)
			if why := x.broken(&next.state); why != "" {
				return &violation{why, next}
			}
		}
	}
	return nil
}

// trace lists the moves that lead to a violation.
func (x *explorer) trace(v violation) string {
	var lines []string
	for f := v.at; f.from != nil; f = f.from {
		lines = append(lines, x.describeMove(&f.from.state, f.move))
	}
	slices.Reverse(lines)
	lines = append(lines, "then:   "+x.cluster(&v.at.state).describe())
	return fmt.Sprintf("%s\n%s\nBROKEN: %s\n", x.Name, strings.Join(lines, "\n"), v.why)
}

// longest is more steps than any fair run takes.
const longest = 400

// fair is the next state of the run without disturbances and delays: all render, all sessions come up, all reports arrive, the manager
// reconciles; and when none of that changes anything, time passes. It reports whether anything has changed.
func (m *model) fair(s *state) (state, bool) {
	next := *s
	for _, moves := range m.rounds {
		for _, mv := range moves {
			m.make(&next, mv)
		}
		m.endExcuses(&next)
		if next != *s {
			return next, true
		}
	}
	return next, false
}

// run follows the fair run from a state until it rests, or meets one that was followed
// before, and says what is wrong with where it ends.
func (x *explorer) run(s state) string {
	own := map[state]bool{}
	for range longest {
		if own[s] {
			if !x.onlyAsks(s) {
				return "4: the manager writes for ever, and nothing comes of it"
			}
			break
		}
		if x.settles[s] {
			break
		}
		own[s] = true
		next, changed := x.fair(&s)
		if !changed {
			if why := x.atRest(&s); why != "" {
				return why
			}
			break
		}
		s = next
	}
	if len(own) == longest {
		return fmt.Sprintf("4: the run from here has not settled after %d steps", longest)
	}
	for s := range own {
		x.settles[s] = true
	}
	return ""
}

// onlyAsks: in the circle that a run has come to, something is broken that no manager can repair, and only reports are asked for.
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
