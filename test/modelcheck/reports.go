package modelcheck

import (
	"slices"

	"github.com/rrpool/rrpool/controllers/plan"
)

// view is what a node's next report depends on.
type view struct {
	node, report, row uint32
	up, restarted     nodeSet
	routed            bool
	from              heard
}

// look compares what a node would report with what it has reported.
type look struct {
	report uint32
	// news: there is something to write.
	news bool
	// flatters: the report shows sessions Established that are not so any more, or paths. One that shows too little only makes the
	// manager wait.
	flatters bool
}

// look at a node that is asked for reports, and can write them.
func (m *model) look(s *state, i int) look {
	if s.reports[i] == 0 || !s.alive.has(i) {
		return look{}
	}
	v := view{node: uint32(i), report: s.reports[i], row: s.rows[i], restarted: s.restarted[i], routed: s.routed.has(i)} //nolint:gosec // G115: at most eight
	for j := range m.names {
		v.up.set(j, j != i && s.up[pairOf(i, j)] >= upFromHere)
	}
	if v.routed || m.reports.get(v.report).HasRoutes {
		v.from = m.routes(s).from[i]
	}
	return m.looks.get(v, func() look { return m.compare(v) })
}

func (m *model) compare(v view) look {
	old, paths := m.reports.get(v.report), m.paths(v.from)
	now := plan.Status{Node: m.names[v.node], Updated: today, HasRoutes: v.routed, Sessions: m.sessions(v)}
	if v.routed {
		now.Routes = paths
	}
	kept, lost := v.keep(old.Sessions, now.Sessions)
	filled, same := old.Cleared.IsZero(), kept == len(old.Sessions) && kept == len(now.Sessions)
	if filled && same && old.HasRoutes == now.HasRoutes && slices.Equal(old.Routes, now.Routes) {
		return look{}
	}
	youngest(now.Sessions)
	stale := func(r plan.Route) bool { return !slices.Contains(paths, r) }
	return look{report: m.reports.of(now), news: true, flatters: filled && (lost || slices.ContainsFunc(old.Routes, stale))}
}

// keep gives sessions that are as they were reported the date that they had. It counts them, and says whether an Established one is not.
func (v view) keep(old, now []plan.Session) (kept int, lost bool) {
	for _, was := range old {
		i := slices.IndexFunc(now, func(is plan.Session) bool { return v.goesOn(was, is) })
		if i < 0 {
			lost = lost || was.Established
			continue
		}
		kept++
		if !was.Since.IsZero() {
			now[i].Since = was.Since
		}
	}
	return kept, lost
}

// goesOn: the session is as it was reported, and has been so all the time.
func (v view) goesOn(was, is plan.Session) bool {
	return was.Peer == is.Peer && was.Kind == is.Kind && was.Established == is.Established && !v.restarted.has(int(is.Peer.As4()[3])-1)
}

// sessions are what a node has now, as if since now.
func (m *model) sessions(v view) (out []plan.Session) {
	for j, e := range m.rows.get(v.row) {
		if !e.There {
			continue
		}
		x := plan.Session{Peer: address(j), Kind: plan.SessionNode, Established: v.up.has(j), Since: today}
		if e.Mesh {
			x.Kind = plan.SessionMesh
		}
		out = append(out, x)
	}
	return out
}

// paths are what a node has from its neighbours.
func (m *model) paths(from heard) (out []plan.Route) {
	for origin, senders := range from {
		for i := range m.names {
			if senders.has(i) {
				out = append(out, plan.Route{Prefix: block(origin), From: address(i)})
			}
		}
	}
	return out
}

// youngest gives all sessions of a kind the date of the youngest: rules ask for no other.
func youngest(sessions []plan.Session) {
	for i := range sessions {
		x := &sessions[i]
		for _, o := range sessions {
			if o.Kind == x.Kind && o.Established == x.Established && o.Since.After(x.Since) {
				x.Since = o.Since
			}
		}
	}
}

// report is what the reporter of a node writes, and the manager receives.
func (m *model) report(s *state, i int) {
	if l := m.look(s, i); l.news {
		s.reports[i], s.restarted[i] = l.report, 0
	}
}

// restarts notes that a session that node i may have reported has ended, whatever the report says.
func (m *model) restarts(s *state, i, j int) {
	reported := func(x plan.Session) bool { return x.Peer == address(j) }
	if slices.ContainsFunc(m.reports.get(s.reports[i]).Sessions, reported) {
		s.restarted[i].set(j, true)
	}
}
