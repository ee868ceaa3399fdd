package evidence

import (
	"slices"
	"time"

	"github.com/rrpool/rrpool/controllers/plan"
)

const (
	// Silence is how long a cleared report may stay empty before its node no longer counts as a reflector, whatever its pods show.
	Silence = time.Minute
	// answerTime replaces Silence for a node whose calico-node pod is missing or not Ready, if no
	// other reflector is left. It is shorter, as pods and reporter agree. BIRD keeps the routes of a
	// killed neighbour for 120 s, and the mesh, which takes up to 18 s to come up, must be up before.
	answerTime = 20 * time.Second
	// unseenAnswerTime replaces answerTime if pods cannot be seen. It is longer, as only
	// the reporter's silence shows the failure; by then it has been asked three times.
	unseenAnswerTime = 35 * time.Second
	// returnTime is how long after a change of a node's calico-node pod its report may show
	// no sessions yet: sessions take up to 18 s, and the report comes every 10 s or 30 s.
	returnTime = 45 * time.Second
	// RestartTime is how long too few reflectors may serve because calico-node restarts,
	// before the mesh is switched on. An upgrade restarts it on node after node.
	RestartTime = 90 * time.Second
)

// quietSince returns since when a reflector does not answer: since its report was cleared, or
// without reports, since its calico-node pod failed. It returns false if the reflector answers.
func (e *Evidence) quietSince(n plan.Node) (time.Time, bool) {
	if st, ok := e.cluster.Statuses[n.Name]; ok && !e.opts.Timer {
		return st.Cleared, cleared(st)
	}
	return n.CalicoNode.Since, n.CalicoNode.Failing()
}

// isUnanswered reports whether a reflector has not answered for as long as limit.
func (e *Evidence) isUnanswered(n plan.Node, limit time.Duration) bool {
	since, quiet := e.quietSince(n)
	return quiet && e.clock.Passed(since, limit)
}

// IsStopped reports whether calico-node is gone from a node, as far as its pods and its reporter show.
func (e *Evidence) IsStopped(n plan.Node) bool {
	limit := answerTime
	if n.CalicoNode.State == plan.CalicoNodeUnknown {
		limit = unseenAnswerTime
	}
	return n.CalicoNode.State != plan.CalicoNodeReady && e.isUnanswered(n, limit)
}

// isSuspect reports whether calico-node may be gone from a node: its reporter has not answered yet.
func (e *Evidence) isSuspect(n plan.Node) bool {
	if n.CalicoNode.State == plan.CalicoNodeUnknown {
		return e.isUnanswered(n, Poll)
	}
	_, quiet := e.quietSince(n)
	return n.CalicoNode.Failing() && (quiet || e.isStale(n))
}

// noneWithout reports whether some reflectors match, and the others cannot keep all nodes connected. A reflector that has just come
// back counts among the others, because it is about to serve. During an upgrade, the last other reflector may stop right then.
func (e *Evidence) noneWithout(matches func(plan.Node) bool) bool {
	if !slices.ContainsFunc(e.Current, matches) {
		return false
	}
	left := plan.Filter(e.Current, func(n plan.Node) bool { return !matches(n) && (e.Serves(n) || e.isReturning(n)) })
	return e.Depth(left, 1) == 0
}

// isReturning reports whether calico-node of a reflector has just become Ready again.
func (e *Evidence) isReturning(n plan.Node) bool {
	return plan.Usable(n) && n.HasLabelAndID() && n.CalicoNode.State == plan.CalicoNodeReady && !e.clock.Passed(n.CalicoNode.Since, returnTime)
}

// isRestarting reports whether calico-node of a reflector has just stopped or just come back.
func (e *Evidence) isRestarting(n plan.Node) bool {
	return plan.Usable(n) && n.HasLabelAndID() && n.CalicoNode.State != plan.CalicoNodeUnknown && e.clock.Since(n.CalicoNode.Since) < RestartTime
}

// Service is how far reflectors keep nodes connected.
type Service struct {
	// Serving counts the reflectors that serve, as Depth counts them.
	Serving int
	// IsEnough: Serving is at least the number asked for, or as many as the current reflectors allow.
	IsEnough bool
	// IsInDoubt: calico-node may be gone from all reflectors that serve, as their reporters have not answered yet.
	IsInDoubt bool
	// IsReturning: no reflector serves, but the missing sessions come back as soon without the mesh.
	// Either a calico-node has just become Ready again; or the reflectors serve all nodes to which any
	// BGPPeer gives sessions, and the others have lost theirs to an edit, which is being repaired.
	IsReturning bool
	// IsRestarting: the reflectors that serve, and those whose calico-node restarts, are together as many as asked for.
	IsRestarting bool
	// Since is when the most recent of the reflectors that do not serve stopped serving, zero if that is not known.
	Since time.Time
}

// Service returns how far reflectors keep nodes connected. The number that should serve is
// `least`. If that many do, the fields after IsInDoubt are not filled in.
func (e *Evidence) Service(least int) Service {
	carrying := e.carrying()
	s := Service{Serving: e.Depth(carrying, least), IsInDoubt: e.noneWithout(e.isSuspect)}
	if s.IsEnough = s.Serving >= least || e.arranged() && s.Serving >= max(e.Depth(e.Current, least), 1); s.IsEnough {
		return s
	}
	if s.Serving == 0 {
		hasSessions := func(n plan.Node) bool { return e.network.Present.Sessions(n.Name) > 0 }
		s.IsReturning = e.arranged() && e.depthAmong(carrying, least, hasSessions) >= least || slices.ContainsFunc(e.Current, e.isReturning)
	}
	either := plan.Filter(e.Current, func(n plan.Node) bool { return e.Serves(n) || e.isRestarting(n) })
	s.IsRestarting = e.Depth(either, least) >= least
	for _, n := range e.Current {
		if !e.Serves(n) {
			s.Since = plan.Latest(s.Since, e.silentSince(n))
		}
	}
	return s
}

// carrying returns the reflectors that the safety net counts on: those that serve. A reflector whose calico-node restarts
// counts while others serve, as its routes are kept meanwhile. If no other reflector is left, a restarting one does not count.
func (e *Evidence) carrying() []plan.Node {
	if e.noneWithout(e.IsStopped) {
		return slices.DeleteFunc(e.Serving(), e.IsStopped)
	}
	return e.Serving()
}

// NotRunning names the Ready reflectors whose calico-node has stopped for longer than
// an ordinary restart takes. It does not matter whether calico-node has ever answered.
func (e *Evidence) NotRunning() []string {
	var names []string
	limit := Silence
	if e.noneWithout(e.IsStopped) {
		limit = answerTime
	}
	for _, n := range e.Current {
		if n.Ready && n.CalicoNode.Failing() && e.isUnanswered(n, limit) && e.clock.Passed(n.CalicoNode.Since, limit) {
			names = append(names, n.Name)
		}
	}
	return names
}

// silentSince returns when a reflector stopped serving, as far as is known.
func (e *Evidence) silentSince(n plan.Node) time.Time {
	if !n.Ready {
		return n.ReadyChanged
	}
	if st, ok := e.cluster.Statuses[n.Name]; cleared(st) {
		return st.Cleared
	} else if (!ok || e.opts.Timer) && n.CalicoNode.Failing() {
		return n.CalicoNode.Since
	}
	var since time.Time
	for _, s := range e.status(n).Sessions {
		if !s.Established && isPeer(s.Kind) && e.clientAddresses().Has(s.Peer) {
			since = plan.Latest(since, s.Since)
		}
	}
	return since
}
