package modelcheck

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rrpool/rrpool/controllers/plan"
)

// Result is what an exploration has found.
type Result struct {
	Scenario string
	States   int
	Moves    int
	Depth    int
	// Runs is how many fair runs were followed: one from each state.
	Runs int
	// Complete: there is no state that was not looked at.
	Complete bool
	Took     time.Duration
	// Violation is the first that was found, "" for none, and Trace the shortest way to it.
	Violation string
	Trace     string
}

type explorer struct {
	m       *model
	limit   int
	workers int

	seen    sync.Map // of states, by key
	settles sync.Map // the fair run from these settles
	runs    atomic.Int64
	log     []entry
}

// entry is how a state was reached first.
type entry struct {
	parent uint32
	move   move
}

// found is a state, how it was reached first, and its place in the log.
type found struct {
	state state
	entry entry
	index uint32
}

// violation is a broken invariant: of the state that entry leads to, of its last move,
// or (settles) of the fair run from there.
type violation struct {
	why     string
	entry   entry
	settles bool
}

// Explore looks at every state of a scenario, breadth first, up to its limit, and stops at the first violation.
func Explore(sc Scenario, workers int) Result {
	start := time.Now()
	x := &explorer{m: newModel(sc), limit: sc.Limit, workers: max(workers, 1)}
	r := Result{Scenario: sc.Name, Complete: true}
	first := x.m.beginning()
	x.seen.Store(hash(&first), true)
	x.log = append(x.log, entry{})
	level := []found{{state: first}}
	var bad *violation
	for len(level) > 0 && bad == nil {
		var moves int
		level, moves, bad = x.expand(level)
		r.Moves += moves
		for i := range level {
			level[i].index = uint32(len(x.log)) //nolint:gosec // G115: some millions
			x.log = append(x.log, level[i].entry)
		}
		if len(level) > 0 {
			r.Depth++
		}
		if x.limit > 0 && len(x.log) >= x.limit && len(level) > 0 {
			r.Complete = false
			break
		}
	}
	r.States, r.Runs, r.Took = len(x.log), int(x.runs.Load()), time.Since(start)
	if bad != nil {
		r.Complete, r.Violation, r.Trace = false, bad.why, x.trace(*bad)
	}
	return r
}

// expand makes all moves from the states of one level.
func (x *explorer) expand(level []found) (out []found, moves int, bad *violation) {
	var mu sync.Mutex
	var wg sync.WaitGroup
	var next atomic.Int64
	for range x.workers {
		wg.Go(func() {
			for i := next.Add(1) - 1; i < int64(len(level)); i = next.Add(1) - 1 {
				after, made, broken := x.successors(&level[i])
				mu.Lock()
				out, moves = append(out, after...), moves+made
				if broken != nil {
					bad = broken
					next.Store(int64(len(level))) // no more
				}
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	return out, moves, bad
}

// successors gives the states that follow one and are new.
func (x *explorer) successors(from *found) (out []found, made int, bad *violation) {
	s := &from.state
	if why := x.run(*s); why != "" {
		return nil, 0, &violation{why, entry{parent: from.index}, true}
	}
	if why := x.m.brokenStep(s, x.m.next(s)); why != "" {
		return nil, 0, &violation{why, entry{from.index, move{kind: manages}}, false}
	}
	for _, mv := range x.m.moves(s) {
		after := *s
		x.m.make(&after, mv)
		for _, mv.lag = range x.m.lags(s, &after, mv) {
			next := after
			x.m.receive(&next, mv.lag)
			made++
			if _, known := x.seen.LoadOrStore(hash(&next), true); known {
				continue
			}
			e := entry{from.index, mv}
			if why := x.m.broken(&next); why != "" {
				return nil, made, &violation{why, e, false}
			}
			out = append(out, found{state: next, entry: e})
		}
	}
	return out, made, nil
}

// trace lists the moves that lead to a violation.
func (x *explorer) trace(v violation) string {
	var moves []move
	if !v.settles {
		moves = append(moves, v.entry.move)
	}
	for i := v.entry.parent; i != 0; i = x.log[i].parent {
		moves = append(moves, x.log[i].move)
	}
	slices.Reverse(moves)
	s := x.m.beginning()
	var b strings.Builder
	fmt.Fprintf(&b, "%s\nstart:  %s\n", x.m.Name, x.m.describe(&s))
	for i, mv := range moves {
		fmt.Fprintf(&b, "%3d.    %s\n", i+1, x.m.describeMove(&s, mv))
		x.m.do(&s, mv)
	}
	fmt.Fprintf(&b, "then:   %s\n", x.m.describe(&s))
	if v.settles {
		x.describeRun(&b, s)
	}
	fmt.Fprintf(&b, "BROKEN: %s\n", v.why)
	return b.String()
}

// describeRun lists the last steps of a fair run that does not settle.
func (x *explorer) describeRun(b *strings.Builder, s state) {
	var lines []string
	for range longest {
		step := x.m.describeStep(&s, move{kind: manages})
		next, changed := x.m.fair(&s)
		if len(lines) == 0 || lines[len(lines)-1] != step {
			lines = append(lines, step)
		}
		if s = next; !changed {
			break
		}
	}
	fmt.Fprintln(b, "and undisturbed, in the end:")
	for _, line := range lines[max(0, len(lines)-12):] {
		fmt.Fprintf(b, "        %s\n", line)
	}
	fmt.Fprintf(b, "        %s\n", x.m.describe(&s))
}

// describe is a state in a few words.
func (m *model) describe(s *state) string {
	var parts []string
	for i := range m.size() {
		n := &s.nodes[i]
		if !n.is(exists) {
			continue
		}
		about := ""
		for _, f := range []struct {
			on   bool
			name string
		}{
			{!n.is(alive), " dead"},
			{n.is(labelled), " label " + m.values.get(int(n.slot))},
			{n.id != 0, " ID " + m.values.get(int(n.id))},
			{n.is(cordoned), " cordoned"},
			{n.is(pooled) && !m.Dedicated, " chosen"},
		} {
			if f.on {
				about += f.name
			}
		}
		parts = append(parts, m.name(i)+about)
	}
	on := "off"
	if m.bgp(s).MeshOn() {
		on = "on"
	}
	parts = append(parts, "mesh "+on)
	for _, p := range m.peersOf(s) {
		parts = append(parts, "BGPPeer "+p.Name)
	}
	waiting := 0
	for _, u := range s.up {
		waiting += int(bit(u == starting || u == late))
	}
	if waiting > 0 {
		parts = append(parts, fmt.Sprintf("%d sessions starting", waiting))
	}
	return strings.Join(parts, ", ")
}

// longest is more steps than any fair run takes.
const longest = 400

// fair is the next state of the run without disturbances and delays: all render, all sessions come up, all reports arrive, the manager
// reconciles; and when none of that changes anything, time passes. It reports whether anything has changed.
func (m *model) fair(s *state) (state, bool) {
	next := *s
	for _, do := range []func(*state){m.allRender, m.allComeUp, m.allHappens, m.allReport, func(s *state) { m.reconcile(s, maxActions) }, (*state).tick} {
		do(&next)
		m.endExcuses(&next)
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
				return "4: the manager writes for ever, and nothing comes of it"
			}
			break
		}
		if _, known := x.settles.Load(h); known {
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
		x.settles.Store(h, true)
	}
	x.runs.Add(1)
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
