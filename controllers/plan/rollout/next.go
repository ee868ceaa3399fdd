package rollout

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/controllers/plan"
)

// rule proposes a step, or nil when it has nothing to say.
type rule func(*view) *Step

// The rules in order of urgency: the first that has something to say decides.
var (
	reflectRules = []rule{
		safetyNet, connect, undoCordon, unsupportedCluster, awaitMesh, awaitBGP, noteMesh, strayLabels, relabel, healRoles, putInRacks, writePeers, clearPaths, clearForMesh, promote, growPool, changeID, reassign, deleteStrayPeerings, trim, disableMesh, shrink,
		narrow, deleteStrayPeers, clearRacks, substitute, awaitReports, awaitNodes, deleteEmptied, awaitRoutes,
	}
	meshRules = []rule{
		safetyNet, connect, restoreMesh, hold, undoCordon, strayLabels, healRoles, reselect, deleteStrayPeerings, demote, deletePeers, clearRacks, forgetMesh, releasePool,
	}
)

// Next decides the next safe step from what is observed. It never looks at what
// was decided before: killed at any instant and asked again, it goes on.
func Next(o Observed, d Desired, now time.Time) Step {
	v := newView(o, d, now)
	if v.Locked != nil {
		s := v.finish(*unsupported(*v.Locked))
		s.Actions, s.Watch = nil, nil
		return s
	}
	rules, rest := reflectRules, v.reflecting
	if d.Mode == v1alpha1.ModeFullMesh {
		rules, rest = meshRules, v.meshed
	}
	for _, r := range rules {
		if s := r(v); s != nil {
			return v.finish(*s)
		}
	}
	s := Step{Name: Steady, Reason: rest()}
	if gaveUp := func(w ObservedWorker) bool { return w.DeleteFailed }; v.Pool != nil && d.Mode != v1alpha1.ModeFullMesh && slices.ContainsFunc(v.Pool.Workers, gaveUp) {
		s.Actions = []plan.Action{plan.EnsurePool{Want: v.pool}} // it is asked for again, and nothing waits for it
	}
	return v.finish(s)
}

func (v *view) reflecting() string {
	in := ""
	if v.arranged() {
		in = fmt.Sprintf(" in topology %s", v.arrangement.Kind)
	}
	return fmt.Sprintf("%d route reflectors%s serve %d nodes; the node-to-node mesh is off%s", len(v.wanted), in, len(v.clients), v.whyLarger())
}

func (v *view) meshed() string {
	if !v.BGP.MeshOn() {
		return "nothing of rrpool is left; the node-to-node mesh is off, and rrpool did not switch it off"
	}
	return fmt.Sprintf("the node-to-node mesh carries %d nodes", len(v.clients))
}

// finish adds what every step has: the reports to ask for, those to ask for again, and the reflectors as seen.
func (v *view) finish(s Step) Step {
	v.refreshStale(&s)
	if s.Problem == nil || v.relied() && !v.BGP.MeshOn() { // a refusal does not blind the safety net
		for _, n := range v.current {
			s.Watch = append(s.Watch, plan.StatusRequest{Node: n.Name, Period: v.period(s.Name)})
		}
	}
	v.askUnserved(&s)
	if v.d.Timer {
		s.Watch = nil
	}
	v.limit(&s)
	s.Ahead = v.ahead(s)
	s.Short, s.Stray, s.Leaving, s.Unserved = v.tooFew, v.stray, v.nodesLeave, v.unserved
	s.Labelled = v.labelled()
	s.Again = sooner(s.Again, v.again)
	serving, notRunning := v.serving(), v.notRunning()
	for _, n := range v.current {
		r := v.reflector(n, serving)
		r.NotRunning = slices.Contains(notRunning, n.Name)
		s.Reflectors = append(s.Reflectors, r)
	}
	slices.SortFunc(s.Watch, func(a, b plan.StatusRequest) int { return cmp.Compare(a.Node, b.Node) })
	return s
}

// ahead is all that can be known of the first writes: BGPPeers, the role of one node, and the mesh that goes off. Machines to come have no
// node yet: another one shows what would be refused of theirs.
func (v *view) ahead(s Step) (out []plan.Action) {
	if v.d.Mode != v1alpha1.ModeRouteReflector || !v.starting() || s.Problem != nil || s.Urgent || len(s.Actions) == 0 && s.Awaits != AwaitsBGP {
		return nil
	}
	peers, chosen := slices.Clone(v.planned()), slices.Concat(v.wanted, v.absent)
	if !v.d.Dedicated && len(chosen) > 1 {
		peers = append(peers, v.peerings(chosen[0], chosen[1])...)
	}
	for _, p := range peers {
		out = append(out, plan.PutPeer{Peer: p})
	}
	if len(chosen) > 0 {
		out = append(out, v.setReflector(chosen[0]))
	} else if i := slices.IndexFunc(v.clients, func(n plan.Node) bool { return n.Ready }); i >= 0 {
		out = append(out, plan.SetReflector{Node: v.clients[i].Name, ClusterID: v.d.ClusterID, StandIn: true})
	}
	if v.BGP.MeshOn() {
		saved, absent := v.meshBefore()
		out = append(out, plan.DisableMesh{Saved: saved, SavedAbsent: absent})
	}
	return out
}

// limit says how long the step may wait. Under the Timer gate no session is observed, so none can be missing.
func (v *view) limit(s *Step) {
	if s.Awaits == AwaitsSessions {
		s.Settle = v.settle
	}
	switch {
	case s.Awaits == AwaitsWorkers, s.Awaits == AwaitsPeering:
		s.Timeout = WorkersTimeout
	case s.Awaits == AwaitsBGP:
		s.Timeout = silence
	case s.Awaits == "", v.d.SessionTimeout <= 0, v.d.Timer && s.Awaits == AwaitsSessions:
		s.Timeout = 0
	default:
		s.Timeout += v.d.SessionTimeout + max(s.Settle-settleTime(0), 0) // what large clusters need more
	}
}

// period between a reflector's reports: short while a step waits for them.
func (v *view) period(step string) time.Duration {
	big, rest := len(v.clients) >= bigCluster, step == Steady || step == UnsupportedCluster || step == AwaitMeshOwner
	switch {
	case big && rest:
		return bigRestPeriod
	case big:
		return bigGatePeriod
	case rest && len(v.clients) <= smallCluster:
		return smallPeriod
	case rest:
		return restPeriod
	}
	return gatePeriod
}

// reflector sums up one reflector's sessions with nodes that are Ready, or known to be alive.
func (v *view) reflector(n plan.Node, serving []plan.Node) Reflector {
	r, seen := Reflector{Node: n.Name, Zone: n.Zone, ClusterID: n.ClusterID}, &report{}
	if !v.outlived(n) {
		seen, r.Serving = v.report(n.Name), named(serving, n)
	}
	peers := v.dependantsOf(n.Name)
	switch {
	case !v.arranged():
		peers = slices.Concat(peers, v.members(filter(others(v.current, n), usable)))
	case v.complete() && v.arrangement.edited: // what was there before is missed, not given up
		class := v.goal().ClassOf(n.Name)
		peers = filter(v.dependantsOf(""), func(m *member) bool {
			return m.Name != n.Name && (slices.Contains(peers, m) || v.goal().Linked(class, v.goal().ClassOf(m.Name)))
		})
	}
	for _, p := range peers {
		missing := r.Expected - r.Established
		for i, a := range p.Addresses {
			if !n.HasFamily(a) && (p.IsOurs() || !v.common(a)) {
				continue // a client needs reflectors in each of its address families, also one that they have lost
			}
			r.Expected++
			switch {
			case seen.has(p.numbers[i]):
				r.Established++
			case !named(v.current, *p.Node) || named(serving, *p.Node):
				r.Lacking++
			}
		}
		if r.Expected-r.Established > missing {
			r.Missing = append(r.Missing, p.Name)
		}
	}
	return r
}

// outlived: the last report of a reflector is older than the failure of its node or
// calico-node, or was asked for again in vain. What it says of sessions counts for nothing.
func (v *view) outlived(n plan.Node) bool {
	st, ok := v.Statuses[n.Name]
	if !ok || v.d.Timer {
		return false
	}
	return !n.Ready && st.Updated.Before(n.ReadyChanged) || n.CalicoNode.Failing() && st.Updated.Before(n.CalicoNode.Since) || v.unanswered(n, silence)
}

// serves reports whether a reflector passes routes on, as far as is known: it is
// Ready and in its role, and its last report shows sessions with most clients.
// Without any report the readiness of the node and of calico-node's pod has to do.
func (v *view) serves(n plan.Node) bool {
	if !usable(n) || !hasRole(n) || v.deniedBy(n) || v.severed(n) {
		return false
	}
	_, ok := v.Statuses[n.Name]
	switch {
	case v.unanswered(n, silence):
		return false
	case !ok || v.d.Timer:
		return true
	}
	return v.hasMost(n.Name)
}

// severed: the reflector has lost all those with other cluster IDs that it is joined with, for longer than sessions
// take to start: what lies beyond them cannot be reached through it.
func (v *view) severed(n plan.Node) bool {
	st, ok := v.Statuses[n.Name]
	if !v.arranged() || !ok || cleared(st) {
		return false
	}
	joined := v.peersOf(v.arrangement.now, n, filter(v.current, func(o plan.Node) bool { return o.ClusterID != n.ClusterID }))
	if len(joined) == 0 || slices.ContainsFunc(v.members(joined), v.report(n.Name).isUp) {
		return false
	}
	last := v.lastReady(append(joined, n))
	for _, s := range st.Sessions {
		if slices.ContainsFunc(joined, func(o plan.Node) bool { return slices.Contains(o.Addresses, s.Peer) }) {
			last = latest(last, s.Since)
		}
	}
	return v.passed(last, timerWait)
}

// hasMost: the report shows sessions with most clients, and of a spine with most of the reflectors below it. One
// that has just joined the cluster, or come back, cannot be missed yet.
func (v *view) hasMost(name string) bool {
	if most, known := v.most[name]; known {
		return most
	}
	r, served, clients := v.report(name), len(v.Statuses[name].Unread), 0 // what cannot be read may be up
	for _, c := range v.dependantsOf(name) {
		switch {
		case c.HasRoleLabel && v.mislabelled(*c.Node):
		case r.isUp(c):
			served++
			clients++
		case v.now.Sub(latest(c.RoleSince, c.Created, c.ReadyChanged)) >= timerWait:
			clients++
		}
	}
	v.most[name] = clients == 0 || 2*served > clients
	return v.most[name]
}

// mislabelled: an in-place node has got our label from others, chosen already or not.
// In-place reflectors have no session with it until that is gone, through no fault of theirs.
func (v *view) mislabelled(n plan.Node) bool {
	return !v.d.Dedicated && n.HasRoleLabel && n.ClusterID == "" && !n.Marked
}

// dependantsOf are the nodes that a reflector is there for: its clients, and where each serves some nodes only the
// reflectors that it joins. A rack may have a single client, whose calico-node restarts.
func (v *view) dependantsOf(name string) []*member {
	if !v.arranged() {
		name = ""
	}
	out, known := v.dependants[name]
	switch {
	case known:
	case name != "":
		class := v.arrangement.now.ClassOf(name)
		out = filter(v.dependantsOf(""), func(m *member) bool { return m.Name != name && v.arrangement.now.Linked(class, m.class) })
	case v.arranged():
		out = v.members(slices.Concat(v.relying(1), filter(v.current, usable)))
		for i := range out {
			out[i].class = v.arrangement.now.ClassOf(out[i].Name)
		}
	default:
		out = v.members(v.relying(1))
	}
	v.dependants[name] = out
	return out
}

// deniedBy: another reflector reports its session with n as down for longer than sessions take to start. One that
// has lost most of its own, or whose calico-node has just restarted, cannot tell.
func (v *view) deniedBy(n plan.Node) bool {
	for _, h := range v.current {
		if h.Name == n.Name || !usable(h) || v.now.Sub(latest(h.CalicoNode.Since, v.lastReady([]plan.Node{n, h}))) < timerWait {
			continue
		}
		down := slices.ContainsFunc(v.report(h.Name).down, func(s *plan.Session) bool {
			return slices.Contains(n.Addresses, s.Peer) && !s.Since.IsZero() && s.Since.After(v.Statuses[n.Name].Updated)
		})
		if down && v.hasMost(h.Name) {
			return true
		}
	}
	return false
}
