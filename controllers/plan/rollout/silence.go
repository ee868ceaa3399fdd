package rollout

import (
	"fmt"
	"slices"
	"time"

	"github.com/rrpool/rrpool/controllers/plan"
	"github.com/rrpool/rrpool/controllers/plan/simulate"
)

const (
	// silence is how long a cleared report may stay empty before its node counts as no
	// reflector, whatever its pods show.
	silence = time.Minute
	// answerTime is the same for a node whose calico-node pod is missing or not Ready,
	// where no other reflector is left: pods and reporter agree. BIRD keeps the routes of
	// a killed neighbour for 120 s, and the mesh takes up to 18 s to come up.
	answerTime = 20 * time.Second
	// unseenAnswerTime is that where pods cannot be seen: the reporter alone says it, and
	// has been asked three times.
	unseenAnswerTime = 35 * time.Second
	// hungTime is how old a report may get of a reporter that writes changes only, while its pod is Ready.
	hungTime = 15 * time.Minute
	// returnTime is how long after its pod has changed a node's report may show no
	// sessions yet: they take up to 18 s, and the report comes every 10 s or 30 s.
	returnTime = 45 * time.Second
	// restartTime is how long calico-node may take to restart, as an upgrade does node
	// after node, before too few reflectors serve because of it.
	restartTime = 90 * time.Second
)

// quietSince is when a reflector was last known to answer: its report was cleared then,
// or, where there are no reports, its calico-node pod failed. False: it is not quiet.
func (v *view) quietSince(n plan.Node) (time.Time, bool) {
	if st, ok := v.Statuses[n.Name]; ok && !v.d.Timer {
		return st.Cleared, cleared(st)
	}
	return n.CalicoNode.Since, n.CalicoNode.Failing()
}

// unanswered reports whether a reflector has been quiet for as long as limit.
func (v *view) unanswered(n plan.Node, limit time.Duration) bool {
	since, quiet := v.quietSince(n)
	return quiet && v.passed(since, limit)
}

// stopped: calico-node is gone, as far as its pods and its reporter show.
func (v *view) stopped(n plan.Node) bool {
	limit := answerTime
	if n.CalicoNode.State == plan.CalicoNodeUnknown {
		limit = unseenAnswerTime
	}
	return n.CalicoNode.State != plan.CalicoNodeReady && v.unanswered(n, limit)
}

// suspect: calico-node may be gone; its reporter has not answered yet.
func (v *view) suspect(n plan.Node) bool {
	if n.CalicoNode.State == plan.CalicoNodeUnknown {
		return v.unanswered(n, poll)
	}
	_, quiet := v.quietSince(n)
	return n.CalicoNode.Failing() && (quiet || v.stale(n))
}

// noneWithout reports whether no reflector is left to keep all nodes in touch, were it not for those of which this
// holds. One that has just come back is about to, as where an upgrade goes on to the last of them at once.
func (v *view) noneWithout(this func(plan.Node) bool) bool {
	if !slices.ContainsFunc(v.current, this) {
		return false
	}
	left := filter(v.current, func(n plan.Node) bool { return !this(n) && (v.serves(n) || v.returning(n)) })
	return v.servingFor(left, 1) == 0
}

// returning: calico-node is Ready again.
func (v *view) returning(n plan.Node) bool {
	return usable(n) && hasRole(n) && n.CalicoNode.State == plan.CalicoNodeReady && !v.passed(n.CalicoNode.Since, returnTime)
}

// carrying are the reflectors that the safety net counts on: those that serve. The calico-node of one may restart,
// as the others serve and its routes are kept meanwhile; where no others are left, it does not count.
func (v *view) carrying() []plan.Node {
	if v.noneWithout(v.stopped) {
		return slices.DeleteFunc(v.serving(), v.stopped)
	}
	return v.serving()
}

// restarting: calico-node has just stopped or just come back.
func (v *view) restarting(n plan.Node) bool {
	return usable(n) && hasRole(n) && n.CalicoNode.State != plan.CalicoNodeUnknown && v.now.Sub(n.CalicoNode.Since) < restartTime
}

// restartsExplain: as many reflectors as should serve do, or have a calico-node that restarts.
func (v *view) restartsExplain(least int) bool {
	either := filter(v.current, func(n plan.Node) bool { return v.serves(n) || v.restarting(n) })
	return v.servingFor(either, least) >= least
}

// notRunning names the Ready reflectors whose calico-node has stopped, and not for an ordinary restart, heard before or not.
func (v *view) notRunning() []string {
	var names []string
	limit := silence
	if v.noneWithout(v.stopped) {
		limit = answerTime
	}
	for _, n := range v.current {
		if n.Ready && n.CalicoNode.Failing() && v.unanswered(n, limit) && v.passed(n.CalicoNode.Since, limit) {
			names = append(names, n.Name)
		}
	}
	return names
}

// NotRunning says on which of so many reflectors calico-node is not running.
func NotRunning(names []string, of int) string {
	return fmt.Sprintf("calico-node is not running on %d of %d route reflectors: %s", len(names), of, plan.Few(names))
}

// stale reports whether the report of a reflector has to be asked for again: it is cleared, or too old. A reporter
// writes by itself where something has changed, and every period where one address family has no sessions. Else its
// silence is normal, and the pods show whether it runs, but not whether its reporter hangs; where they cannot be seen,
// any old report is stale.
func (v *view) stale(n plan.Node) bool {
	st, ok := v.Statuses[n.Name]
	switch {
	case !ok || !n.Ready || v.d.Timer:
		return false
	case cleared(st):
		return true
	}
	period := v.period(Steady)
	switch {
	case n.CalicoNode.Failing():
		return st.Updated.Before(n.CalicoNode.Since) || v.passed(st.Updated, askAfter(n.CalicoNode, st.Updated))
	case n.CalicoNode.State == plan.CalicoNodeReady && v.reportedAt(st).Before(n.CalicoNode.Since):
		return true // pods came or went since, and the one that is Ready may be anyone's
	case n.CalicoNode.State == plan.CalicoNodeReady && st.Regular && !st.Updated.IsZero():
		return v.passed(st.Updated, 3*period)
	case n.CalicoNode.State == plan.CalicoNodeReady:
		return v.passed(v.reportedAt(st), hungTime) && !v.vouched(n)
	}
	return v.passed(v.reportedAt(st), max(period, freshFor)+poll)
}

// vouched: another reflector speaks for the old report of one whose reporter writes changes only. To ask all of them is one write each; as
// long as the youngest report misses no client, it is enough that the oldest is asked, and that it answers.
func (v *view) vouched(n plan.Node) bool {
	oldest, mine := true, v.reportedAt(v.Statuses[n.Name])
	for _, o := range others(v.current, n) {
		st, ok := v.Statuses[o.Name]
		switch at := v.reportedAt(st); {
		case !ok || !usable(o):
		case cleared(st) && v.unanswered(o, silence):
			return false
		case cleared(st), !v.passed(at, hungTime):
			return !slices.ContainsFunc(v.report(o.Name).down, func(s *plan.Session) bool { return v.clientAddrs.Has(s.Peer) })
		default:
			oldest = oldest && (mine.Before(at) || mine.Equal(at) && n.Name < o.Name)
		}
	}
	return !oldest
}

// askAfter is when to ask one again that has answered although its pod fails: ever more
// seldom where there is a pod, as that changes should it stop.
func askAfter(c plan.CalicoNode, answered time.Time) time.Duration {
	if c.State == plan.CalicoNodeNotReady {
		return max(freshFor, answered.Sub(c.Since)/2)
	}
	return freshFor
}

// reportedAt is when a report arrived, or was written if it was there before us.
func (v *view) reportedAt(st plan.Status) time.Time {
	if st.Updated.IsZero() && !st.Written.After(v.now) {
		return st.Written
	}
	return st.Updated
}

// refreshStale adds to a step that stale reports are asked for again. No rule can hide that: without it the safety
// net does not see that calico-node is gone from a node that Kubernetes calls Ready. What is urgent comes first.
func (v *view) refreshStale(s *Step) {
	var asks []plan.Action
	for _, n := range v.current {
		ask := plan.Action(plan.RefreshStatus{Node: n.Name})
		if v.stale(n) && !slices.Contains(s.Actions, ask) {
			asks = append(asks, ask)
			v.lookIn(poll)
		}
	}
	if s.Urgent {
		s.Actions = append(s.Actions, asks...)
		return
	}
	s.Actions = append(asks, s.Actions...)
}

// awaitRoutes says what nothing else has seen: by the BGPPeers and roles as they are, two Ready nodes have no route to each other.
func awaitRoutes(v *view) *Step {
	if v.BGP.MeshOn() {
		return nil
	}
	up := make(map[string]bool, len(v.clients)+len(v.current)) // true: it is a client
	for _, n := range filter(v.current, usable) {
		up[n.Name] = false
	}
	for i := range v.clients {
		up[v.clients[i].Name] = true
	}
	configured := v.configuration
	if v.arranged() {
		configured = func([]plan.Node, []plan.Peer) *simulate.Configuration { return v.arrangement.is }
	}
	net := configured(v.Nodes, v.Peers).Network(func(name string) bool { _, is := up[name]; return is })
	g := &gate{}
	for _, p := range net.Unreached(func(name string) bool { return up[name] }) {
		g.wait("a route from %s to %s", p.From, p.To)
	}
	if v.poolsGate(g); g.open() {
		return nil
	}
	return g.step("AwaitRoutes", "the mesh is off, and the BGPPeers and route reflectors do not connect all nodes and their blocks")
}

// awaitReports is the step of a cluster that is at rest but for reflectors that do not
// answer, or not in words that are known. One whose pod fails has longer: it may restart.
func awaitReports(v *view) *Step {
	s := &Step{Name: "AskReflectors", Again: poll, Awaits: AwaitsSessions, Reason: "route reflectors have stopped reporting"}
	for _, n := range v.current {
		limit := poll
		if n.CalicoNode.Failing() {
			limit = answerTime
		}
		if _, reports := v.Statuses[n.Name]; reports && n.Ready && !v.d.Timer && v.unanswered(n, limit) {
			s.WaitingFor = append(s.WaitingFor, "a status report from calico-node on "+n.Name)
		} else if st := v.Statuses[n.Name]; len(st.Unread) > 0 {
			s.Reason, s.WaitingFor = "what route reflectors report cannot be read", append(s.WaitingFor, legible(n.Name, st.Unread))
		}
	}
	if len(s.WaitingFor) == 0 {
		return nil
	}
	return s
}
