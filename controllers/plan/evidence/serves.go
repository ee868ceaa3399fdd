package evidence

import (
	"slices"

	"github.com/rrpool/rrpool/controllers/plan"
)

// Reflector is a route reflector with its sessions as seen.
type Reflector struct {
	Node, Zone, ClusterID string
	// Established and Expected count the reflector's sessions with Ready nodes.
	Established, Expected int
	// Missing names the Ready nodes with which the reflector lacks a session.
	Missing []string
	// Lacking counts the sessions that are not Established, except those with
	// reflectors that do not serve: these have lost their sessions themselves.
	Lacking int
	// Serving: the reflector is Ready, has the role, and has sessions.
	Serving bool
	// NotRunning: the node is Ready, but its pods and its reporter show that calico-node does not run there.
	NotRunning bool
}

// Serving returns the reflectors that serve.
func (e *Evidence) Serving() []plan.Node {
	return plan.Filter(e.Current, e.Serves)
}

// Serves reports whether a reflector passes routes on, as far as is known: it is Ready and has the role, and its last report shows
// sessions with most clients. Without any report, it serves while the node and its calico-node pod are Ready.
func (e *Evidence) Serves(n plan.Node) bool {
	if !plan.Usable(n) || !n.HasLabelAndID() || e.IsDenied(n) || e.isSevered(n) {
		return false
	}
	_, ok := e.cluster.Statuses[n.Name]
	switch {
	case e.isUnanswered(n, Silence):
		return false
	case !ok || e.opts.Timer:
		return true
	}
	return e.hasMost(n.Name)
}

// isSevered reports whether a reflector has lost its sessions with all reflectors of other cluster IDs,
// for longer than sessions take to start. The clients of those reflectors cannot be reached through it.
func (e *Evidence) isSevered(n plan.Node) bool {
	st, ok := e.cluster.Statuses[n.Name]
	if !e.arranged() || !ok || cleared(st) {
		return false
	}
	joined := peersOf(e.network.Present, n, plan.Filter(e.Current, func(o plan.Node) bool { return o.ClusterID != n.ClusterID }))
	if len(joined) == 0 || slices.ContainsFunc(e.members(joined), e.report(n.Name).isUp) {
		return false
	}
	last := e.lastReady(append(joined, n))
	for _, s := range st.Sessions {
		if slices.ContainsFunc(joined, func(o plan.Node) bool { return slices.Contains(o.Addresses, s.Peer) }) {
			last = plan.Latest(last, s.Since)
		}
	}
	return e.clock.Passed(last, TimerWait)
}

// hasMost reports whether a reflector's report shows sessions with most of its dependants.
// A node that has just joined the cluster or come back does not count as missing yet.
func (e *Evidence) hasMost(name string) bool {
	if most, known := e.most[name]; known {
		return most
	}
	r, served, clients := e.report(name), len(e.cluster.Statuses[name].Unread), 0 // an unreadable session may be Established
	for _, c := range e.dependantsOf(name) {
		switch {
		case c.HasRoleLabel && e.IsMislabelled(*c.Node):
		case r.isUp(c):
			served++
			clients++
		case e.clock.Since(plan.Latest(c.RoleSince, c.Created, c.ReadyChanged)) >= TimerWait:
			clients++
		}
	}
	e.most[name] = clients == 0 || 2*served > clients
	return e.most[name]
}

// IsMislabelled reports whether others have given an in-place node the role label. Reflectors have no session with it until
// the label is gone.
func (e *Evidence) IsMislabelled(n plan.Node) bool {
	return !e.opts.Dedicated && n.HasRoleLabel && n.ClusterID == "" && !n.Marked
}

// dependantsOf returns the nodes that a reflector serves: its clients, and if each reflector serves some nodes only, also the reflectors
// that it connects. Its clients alone may be too few to judge by: a rack may have a single client, whose calico-node restarts.
func (e *Evidence) dependantsOf(name string) []*member {
	if !e.arranged() {
		name = ""
	}
	out, known := e.dependants[name]
	switch {
	case known:
	case name != "":
		class := e.network.Present.ClassOf(name)
		out = plan.Filter(e.dependantsOf(""), func(m *member) bool { return m.Name != name && e.network.Present.Linked(class, m.class) })
	case e.arranged():
		out = e.members(slices.Concat(e.relying(1), plan.Filter(e.Current, plan.Usable)))
		for i := range out {
			out[i].class = e.network.Present.ClassOf(out[i].Name)
		}
	default:
		out = e.members(e.relying(1))
	}
	e.dependants[name] = out
	return out
}

// IsDenied reports whether another reflector has reported its session with n as down for longer than sessions take to
// start. A reflector that has lost most of its own sessions, or whose calico-node has just restarted, does not count.
func (e *Evidence) IsDenied(n plan.Node) bool {
	for _, h := range e.Current {
		if h.Name == n.Name || !plan.Usable(h) || e.clock.Since(plan.Latest(h.CalicoNode.Since, e.lastReady([]plan.Node{n, h}))) < TimerWait {
			continue
		}
		down := slices.ContainsFunc(e.report(h.Name).down, func(s *plan.Session) bool {
			return slices.Contains(n.Addresses, s.Peer) && !s.Since.IsZero() && s.Since.After(e.status(n).Updated)
		})
		if down && e.hasMost(h.Name) {
			return true
		}
	}
	return false
}

// depthAmong returns the smallest number of the serving reflectors, up to most,
// without which two of the clients that among accepts have no route to each other.
func (e *Evidence) depthAmong(serving []plan.Node, most int, among func(plan.Node) bool) int {
	clients, reflectors := map[string]bool{}, map[string]bool{}
	for _, n := range serving {
		reflectors[n.Name] = true
	}
	for _, n := range e.relying(2) {
		clients[n.Name] = among(n)
	}
	net := e.network.Configuration.Network(func(name string) bool { return clients[name] || reflectors[name] })
	return net.Depth(most, func(name string) bool { return clients[name] })
}

// Depth returns the number of these reflectors. If each serves some nodes only, it is the
// smallest number of them, up to least, without which two nodes have no route to each other.
func (e *Evidence) Depth(reflectors []plan.Node, least int) int {
	if !e.arranged() {
		return len(reflectors)
	}
	return e.depthAmong(reflectors, least, func(plan.Node) bool { return true })
}

// IsIdle reports whether no reflector carries routes, so that no change can interrupt traffic. A reflector may carry routes
// although it does not count as serving: a BGPPeer that is not rrpool's may give it clients that it has no sessions with.
func (e *Evidence) IsIdle() bool {
	carries := func(n plan.Node) bool {
		return plan.Usable(n) && n.HasLabelAndID() && !e.isUnanswered(n, Silence) && slices.ContainsFunc(e.dependantsOf(n.Name), e.report(n.Name).isUp)
	}
	return len(e.Serving()) == 0 && !slices.ContainsFunc(e.Current, carries)
}

// reportPredatesFailure reports whether the last report of a reflector is older than the failure of its node
// or calico-node, or was requested again without an answer. The sessions in such a report do not count.
func (e *Evidence) reportPredatesFailure(n plan.Node) bool {
	st, ok := e.cluster.Statuses[n.Name]
	if !ok || e.opts.Timer {
		return false
	}
	return !n.Ready && st.Updated.Before(n.ReadyChanged) || n.CalicoNode.Failing() && st.Updated.Before(n.CalicoNode.Since) || e.isUnanswered(n, Silence)
}

// Reflectors returns the current reflectors. Their sessions are those with nodes that are Ready or known to be alive.
func (e *Evidence) Reflectors() (out []Reflector) {
	serving, notRunning := e.Serving(), e.NotRunning()
	for _, n := range e.Current {
		r := e.reflector(n, serving)
		r.NotRunning = slices.Contains(notRunning, n.Name)
		out = append(out, r)
	}
	return out
}

func (e *Evidence) reflector(n plan.Node, serving []plan.Node) Reflector {
	r, seen := Reflector{Node: n.Name, Zone: n.Zone, ClusterID: n.ClusterID}, &report{}
	if !e.reportPredatesFailure(n) {
		seen, r.Serving = e.report(n.Name), plan.Includes(serving, n)
	}
	for _, p := range e.expectedPeers(n) {
		missing := r.Expected - r.Established
		for i, a := range p.Addresses {
			if !n.HasFamily(a) && (p.IsOurs() || !e.isCommon(a)) {
				continue // a client needs a session in each of its address families, even in one that the reflectors have lost
			}
			r.Expected++
			switch {
			case seen.has(p.numbers[i]):
				r.Established++
			case !plan.Includes(e.Current, *p.Node) || plan.Includes(serving, *p.Node):
				r.Lacking++
			}
		}
		if r.Expected-r.Established > missing {
			r.Missing = append(r.Missing, p.Name)
		}
	}
	return r
}

// expectedPeers returns the nodes with which a reflector should have a session.
func (e *Evidence) expectedPeers(n plan.Node) []*member {
	peers := e.dependantsOf(n.Name)
	switch {
	case !e.arranged():
		return slices.Concat(peers, e.members(plan.Filter(plan.Others(e.Current, n), plan.Usable)))
	case e.network.IsGoalMissed:
		goal := e.network.Goal()
		class := goal.ClassOf(n.Name)
		return plan.Filter(e.dependantsOf(""), func(m *member) bool {
			return m.Name != n.Name && (slices.Contains(peers, m) || goal.Linked(class, goal.ClassOf(m.Name)))
		})
	}
	return peers
}

// IsSeenServing reports whether a reflector's report shows it serving. Without reports, it reports whether the role is older than TimerWait.
func (e *Evidence) IsSeenServing(n plan.Node) bool {
	if e.opts.Timer {
		return e.clock.Since(n.RoleSince) > TimerWait
	}
	st, ok := e.cluster.Statuses[n.Name]
	return ok && !cleared(st) && len(st.Sessions) > 0 && e.Serves(n)
}
