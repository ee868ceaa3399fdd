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

// unserved is a client with an address that no reflector has a session with. Its calico-node pod does not show why: Calico's
// readiness probe fails if no session is Established, whether BIRD is dead or its packets get lost. The client's own report shows it.
type unserved struct {
	plan.Node
	addr  netip.Addr
	since time.Time
}

// findUnserved fills in Unserved and CutOff from the reports of the witnesses. If there are none, both stay nil, which means unknown.
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
	if len(e.Unready) > 0 { // copy the large nodes only if some are not Ready
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

// seen is what the reports of the witnesses say together.
type seen struct {
	witnesses []plan.Node
	reports   []*report
	// down is, by address, the latest time at which a witness lost its session with the address.
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

// lacksSessions reports whether no reflector has a session with an address, although some reflector should.
func (e *Evidence) lacksSessions(a netip.Addr, s seen) bool {
	if slices.ContainsFunc(s.reports, func(r *report) bool { return r.has(e.numbers[a]) }) {
		return false
	}
	return e.isCommon(a) || slices.ContainsFunc(s.witnesses, func(r plan.Node) bool { return r.HasFamily(a) })
}

// isUnserved reports whether a node has lacked its sessions for long enough;
// due is since when. A node that is dead, as far as can be told, is left out.
func (e *Evidence) isUnserved(c *unserved, s seen) (due time.Time, is bool) {
	since, listed := s.down[c.addr]
	if !listed {
		since = e.LastWrite() // no reflector has this session configured, until a repair is rendered
	}
	c.since = since
	due = plan.Latest(since.Add(e.opts.NetAfter), c.Created.Add(TimerWait), c.ReadyChanged.Add(TimerWait))
	if !e.clock.Passed(due, 0) {
		return due, false
	}
	return due, plan.Usable(c.Node) || !e.clock.Passed(due, DeadTime) || e.hasReported(c.Node)
}

// ask chooses the clients whose own reports are requested. If there are more than maxAsked,
// they take turns, so that clients whose BIRD is dead do not keep others from being asked.
func (e *Evidence) ask(silent []unserved) {
	if e.cluster.BGP.MeshOn() || !e.cluster.Relied() {
		return
	}
	e.asked = inTurn(e.clock, silent, maxAsked, plan.RoutesTimeout)
}

// judge decides by the client's own report, which may be younger than those of the reflectors: in a large cluster these come
// every 5 minutes. A client that does not answer counts as unserved if it is Ready and all reflectors have sent readable reports.
func (e *Evidence) judge(c unserved, due time.Time, all bool) {
	up, down := e.reportedBy(c)
	if down && !up && c.ClusterID == "" && e.clock.Passed(c.CalicoNode.Since, returnTime) {
		e.CutOff = append(e.CutOff, c.Name) // its BIRD runs, and has not just started
	}
	if plan.Usable(c.Node) && !up && (down || all && e.clock.Passed(due, answerTime)) {
		e.Unserved = append(e.Unserved, c.Name)
	}
}

// reportedBy returns whether a client reports sessions with reflectors that are Established or may be (up), and sessions that are not (down).
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

// Asked returns requests for the reports of the clients that ask has chosen,
// and those clients whose report is older than the loss of the session.
func (e *Evidence) Asked() (watch []plan.StatusRequest, refresh []plan.Node) {
	for _, c := range e.asked {
		watch = append(watch, plan.StatusRequest{Node: c.Name, Period: smallPeriod})
		if st, ok := e.cluster.Statuses[c.Name]; ok && !cleared(st) && !e.answers(c) {
			refresh = append(refresh, c.Node)
		}
	}
	return watch, refresh
}
