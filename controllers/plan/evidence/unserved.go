package evidence

import (
	"cmp"
	"net/netip"
	"slices"
	"time"

	"github.com/rrpool/rrpool/controllers/plan"
)

// maxAsked bounds how many nodes without sessions are asked at a time for a report of their own.
const maxAsked = 16

// unserved is a client that no reflector has a session with, at one of its addresses.
// Its calico-node pod does not tell why: Calico's readiness probe fails where no session is
// Established, whether BIRD is dead or its packets get lost. Its own report does.
type unserved struct {
	plan.Node
	addr  netip.Addr
	since time.Time
}

// findUnserved fills in Unserved and CutOff by the reports of the reflectors that may be alive. While there is none, nothing is known.
func (e *Evidence) findUnserved() {
	isMissing := func(n plan.Node) bool { _, ok := e.cluster.Statuses[n.Name]; return !ok }
	witnesses := slices.DeleteFunc(e.witnesses(), isMissing)
	if e.opts.Timer || len(witnesses) == 0 {
		return
	}
	e.Unserved = []string{}
	seen := e.seenBy(witnesses)
	all := !slices.ContainsFunc(e.Current, func(n plan.Node) bool {
		return plan.Usable(n) && (isMissing(n) || len(e.status(n).Unread) > 0)
	})
	workloads, silent := e.Clients, []unserved{}
	if len(e.Unready) > 0 { // nodes are large, and mostly all are Ready
		workloads = slices.Concat(e.Clients, e.Unready)
	}
	for _, c := range workloads {
		i := slices.IndexFunc(c.Addresses, func(a netip.Addr) bool { return e.lacksSessions(a, seen) })
		if i < 0 {
			continue
		}
		one := unserved{Node: c, addr: c.Addresses[i]}
		if due, is := e.isUnserved(&one, seen); is {
			silent = append(silent, one)
			e.judge(one, due, all)
		}
	}
	if !all && len(e.Unserved) == 0 {
		e.Unserved = nil
	}
	e.ask(silent)
}

// seen is what the reports of reflectors say together.
type seen struct {
	witnesses []plan.Node
	reports   []*report
	// down is since when an address lacks a session with one of them.
	down map[netip.Addr]time.Time
}

func (e *Evidence) seenBy(witnesses []plan.Node) seen {
	out := seen{witnesses: witnesses, down: map[netip.Addr]time.Time{}}
	for _, r := range witnesses {
		one := e.report(r.Name)
		out.reports = append(out.reports, one)
		for _, s := range one.down {
			out.down[s.Peer] = plan.Latest(out.down[s.Peer], cmp.Or(s.Since, e.reportedAt(e.status(r))))
		}
	}
	return out
}

// lacksSessions reports whether no reflector has a session with an address, although one should.
func (e *Evidence) lacksSessions(a netip.Addr, s seen) bool {
	if slices.ContainsFunc(s.reports, func(r *report) bool { return r.has(e.numbers[a]) }) {
		return false
	}
	return e.isCommon(a) || slices.ContainsFunc(s.witnesses, func(r plan.Node) bool { return r.HasFamily(a) })
}

// isUnserved reports whether a node has lacked its sessions for long enough, and since when that counts. One that is dead, as far as can
// be told, is left out.
func (e *Evidence) isUnserved(c *unserved, s seen) (due time.Time, is bool) {
	since, listed := s.down[c.addr]
	if !listed {
		since = e.LastWrite() // no reflector is to peer with it, until a repair is rendered
	}
	c.since = since
	due = plan.Latest(since.Add(e.opts.NetAfter), c.Created.Add(TimerWait), c.ReadyChanged.Add(TimerWait))
	if !e.clock.Passed(due, 0) {
		return due, false
	}
	return due, plan.Usable(c.Node) || !e.clock.Passed(due, DeadTime) || e.hasReported(c.Node)
}

// ask chooses whose reports are asked for: all, or where they are many, some of them in turn, so that those whose BIRD is dead
// do not keep others from being asked.
func (e *Evidence) ask(silent []unserved) {
	if e.cluster.BGP.MeshOn() || !e.cluster.Relied() {
		return
	}
	e.asked = inTurn(e.clock, silent, maxAsked, plan.RoutesTimeout)
}

// judge decides by the client's own report, which may be younger than those of the reflectors: these come every 5 minutes in a
// large cluster. Without an answer a client counts as unserved if it is Ready and all reflectors have reported readably.
func (e *Evidence) judge(c unserved, due time.Time, all bool) {
	up, down := e.reportedBy(c)
	if down && !up && c.ClusterID == "" && e.clock.Passed(c.CalicoNode.Since, returnTime) {
		e.CutOff = append(e.CutOff, c.Name) // its BIRD runs, and has not just started
	}
	if plan.Usable(c.Node) && !up && (down || all && e.clock.Passed(due, answerTime)) {
		e.Unserved = append(e.Unserved, c.Name)
	}
}

// reportedBy tells whether a client reports sessions with reflectors that are Established, or may be, and some that are not.
func (e *Evidence) reportedBy(c unserved) (up, down bool) {
	if !e.answers(c) {
		return false, false
	}
	up = len(e.cluster.Statuses[c.Name].Unread) > 0
	others := false
	for _, s := range e.cluster.Statuses[c.Name].Sessions {
		if isPeer(s.Kind) && s.Peer.Is4() == c.addr.Is4() {
			up, down = up || s.Established, down || !s.Established
		}
		others = others || s.Established && s.Peer.Is4() != c.addr.Is4()
	}
	return up, down || !up && others // no reflector has an address of the family any more
}

// answers reports whether a client has reported since the reflectors lost it.
func (e *Evidence) answers(c unserved) bool {
	st := e.cluster.Statuses[c.Name]
	return !cleared(st) && st.Updated.After(c.since)
}

// Asked returns the reports of clients without a session that are needed, and the clients whose report is older than the loss of it.
func (e *Evidence) Asked() (watch []plan.StatusRequest, refresh []plan.Node) {
	for _, c := range e.asked {
		watch = append(watch, plan.StatusRequest{Node: c.Name, Period: smallPeriod})
		if st, ok := e.cluster.Statuses[c.Name]; ok && !cleared(st) && !e.answers(c) {
			refresh = append(refresh, c.Node)
		}
	}
	return watch, refresh
}
