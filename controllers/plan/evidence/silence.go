package evidence

import (
	"slices"
	"time"

	"github.com/rrpool/rrpool/controllers/plan"
)

const (
	// Silence is how long a cleared report may stay empty before its node counts as no
	// reflector, whatever its pods show.
	Silence = time.Minute
	// answerTime is the same for a node whose calico-node pod is missing or not Ready,
	// where no other reflector is left: pods and reporter agree. BIRD keeps the routes of
	// a killed neighbour for 120 s, and the mesh takes up to 18 s to come up.
	answerTime = 20 * time.Second
	// unseenAnswerTime is that where pods cannot be seen: the reporter alone says it, and
	// has been asked three times.
	unseenAnswerTime = 35 * time.Second
	// returnTime is how long after its pod has changed a node's report may show no
	// sessions yet: they take up to 18 s, and the report comes every 10 s or 30 s.
	returnTime = 45 * time.Second
	// RestartTime is how long calico-node may take to restart, as an upgrade does node
	// after node, before too few reflectors serve because of it.
	RestartTime = 90 * time.Second
)

// quietSince returns since when a reflector does not answer: its report was cleared then, or, where there are no reports,
// its calico-node pod failed. False: it answers.
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

// noneWithout reports whether no reflector would be left to keep all nodes connected without those that match. One that has just come
// back is about to serve, as where an upgrade goes on to the last of them at once.
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
	// Serving counts the reflectors that serve; where each serves some nodes only, how many keep any two nodes connected.
	Serving int
	// IsEnough: these are as many as asked for, or all that there can be so far.
	IsEnough bool
	// IsInDoubt: calico-node may be gone from all that serve; their reporters have not answered yet.
	IsInDoubt bool
	// IsReturning, where none serves: what is missing comes back as soon without the mesh. A calico-node is Ready again; or the reflectors serve all nodes that
	// any BGPPeer gives sessions, and the others have lost theirs to an edit, which is repaired.
	IsReturning bool
	// IsRestarting: as many as asked for serve, or have a calico-node that restarts.
	IsRestarting bool
	// Since is when the last reflector stopped that does not serve, zero where that is not known.
	Since time.Time
}

// Service returns how far reflectors keep nodes connected, where at least this many should. Where there are enough, the rest is not computed.
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

// carrying returns the reflectors that the safety net counts on: those that serve. The calico-node of one may restart,
// as the others serve and its routes are kept meanwhile; where no others are left, it does not count.
func (e *Evidence) carrying() []plan.Node {
	if e.noneWithout(e.IsStopped) {
		return slices.DeleteFunc(e.Serving(), e.IsStopped)
	}
	return e.Serving()
}

// NotRunning names the Ready reflectors whose calico-node has stopped, and not for an ordinary restart, whether it has answered before or not.
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
