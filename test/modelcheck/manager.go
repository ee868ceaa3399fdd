package modelcheck

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/rrpool/rrpool/controllers/plan"
	"github.com/rrpool/rrpool/controllers/plan/rollout"
)

// step is what rollout says, once for all states that look the same to it.
type step struct {
	rollout.Step
	// asked nodes are to report, routed ones routes as well.
	asked, routed nodeSet
}

// next asks rollout what to do.
func (m *model) next(s *state) *step {
	return m.steps.get(s.visible, func() *step {
		out := &step{Step: rollout.Next(m.observe(s), m.wanted(s), today)}
		for _, w := range out.Watch {
			out.asked.set(m.indexOf(w.Node), true)
			out.routed.set(m.indexOf(w.Node), w.Routes)
		}
		return out
	})
}

// wanted is what the RouteReflectorPool named default wants, the only one that the manager asks for.
func (m *model) wanted(s *state) rollout.Desired {
	if s.second && m.Heeds {
		return m.Other.desired()[bit(m.Other.Back)]
	}
	return m.desired[bit(s.back)]
}

func bit(b bool) int {
	if b {
		return 1
	}
	return 0
}

// observe is what the manager sees and remembers.
func (m *model) observe(s *state) rollout.Observed {
	c := m.cluster(s)
	o := rollout.Observed{Cluster: c.Cluster, Evictable: map[string][]string{}}
	o.Statuses = map[string]plan.Status{}
	if s.problem {
		o.Problems = []plan.Problem{{Reason: "Unreadable", Message: "the datastore cannot be read"}}
	}
	for i, name := range m.names {
		if s.reports[i] != 0 {
			o.Statuses[name] = *m.reports.get(s.reports[i])
		}
		if o.Evictable[name] = nil; pods(c.at[i]) {
			o.Evictable[name] = []string{"default/web"}
		}
	}
	if !s.unknown {
		o.Pool = m.pool(c)
	}
	o.Memory = s.memory()
	o.Observe(&o.Cluster, today)
	return o
}

// memory is what the manager remembers.
func (s *state) memory() rollout.Memory {
	return rollout.Memory{MeshSince: ago(s.meshSince), ShortSince: ago(s.shortSince), StraySince: ago(s.straySince)}
}

// remember takes in what was observed and decided.
func (m *model) remember(s *state, st *step) {
	memory, cluster := s.memory(), m.cluster(s).Cluster
	cluster.Statuses = nil
	if s.straySince != never {
		memory.Stray = st.Stray
	}
	memory.Observe(&cluster, today)
	memory.After(st.Step, today)
	s.meshSince, s.shortSince, s.straySince = howLong(memory.MeshSince), howLong(memory.ShortSince), howLong(memory.StraySince)
	if s.meshSince != never && !m.Timer {
		s.meshSince = longAgo // where there are reports, no rule reads it
	}
}

// everything is more actions than a step has.
const everything = 200

// reconcile dies after so many actions; with all of them it does not.
func (m *model) reconcile(s *state, actions int) {
	st := m.next(s)
	m.remember(s, st)
	if st.Problem != nil {
		return
	}
	m.watch(s, st)
	for _, a := range st.Actions[:min(actions, len(st.Actions))] {
		if ask, ok := a.(plan.RefreshStatus); ok {
			if awaited := func(what string) bool { return strings.HasSuffix(what, "report from "+ask.Node) }; !slices.ContainsFunc(st.WaitingFor, awaited) {
				continue // at rest, every 15 minutes: that would have no end where there are no minutes
			}
			m.clear(s, m.indexOf(ask.Node))
		}
		m.edit(s, fmt.Sprintf("%T%s", a, text(a)), func(c *cluster) { m.apply(c, a) })
		m.excuse(s, st)
	}
	if actions < len(st.Actions) {
		m.crash(s)
	}
}

// watch makes exactly these nodes report.
func (m *model) watch(s *state, st *step) {
	s.routed = 0
	for i, n := range m.cluster(s).at {
		switch want := st.asked.has(i) && n != nil; {
		case !want:
			s.reports[i], s.restarted[i] = 0, 0
		case s.reports[i] == 0:
			s.reports[i] = m.reports.of(plan.Status{Node: n.Name, Cleared: today})
			fallthrough
		default:
			s.routed.set(i, st.routed.has(i))
		}
	}
}

// clear empties a report, so that only a reporter that runs can fill it in.
func (m *model) clear(s *state, i int) {
	if r := m.reports.get(s.reports[i]); s.reports[i] != 0 && r.Cleared.IsZero() {
		s.reports[i] = m.reports.edit(s.reports[i], "clear", func(st *plan.Status) { st.Cleared, st.Updated = today, time.Time{} })
	}
}

// enter makes the cluster of a state another one. Nodes that have left take their sessions with them.
func (m *model) enter(s *state, cluster uint32) {
	was, is := m.cluster(s), m.clusters.get(cluster)
	s.cluster = cluster
	for i := range m.names {
		switch {
		case was.at[i] != nil && is.at[i] == nil:
			s.alive.set(i, false)
			s.muted.set(i, false)
			s.fresh.set(i, false)
			s.routed.set(i, false)
			s.reports[i], s.restarted[i], s.rows[i], s.owed[i] = 0, 0, 0, 0
			if int(s.dead) == i+1 {
				s.dead = 0
			}
			m.restartAll(s, i)
		case was.at[i] == nil && is.at[i] != nil:
			s.alive.set(i, true)
			m.take(s, i, is.rows[i])
		case reflects(is.at[i]) && !reflects(was.at[i]):
			s.fresh.set(i, true)
		}
	}
}

// excuse notes whom a step says that it cuts off: nothing else may be.
func (m *model) excuse(s *state, st *step) {
	for _, d := range st.Disrupts {
		if i := m.indexOf(d.Node); d.From == "" {
			m.excuseNode(s, i)
		} else {
			s.excused.add(i, m.indexOf(d.From))
		}
	}
}

// excuseNode lets a node be cut off until it is reached by what stays.
func (m *model) excuseNode(s *state, i int) {
	s.excused |= m.pairs(func(a, b int) bool { return a == i || b == i })
}
