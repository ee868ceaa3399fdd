package rollout

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/rrpool/rrpool/controllers/plan"
)

// rule proposes a step, or nil when it has nothing to say.
type rule func(*view) *Step

// The rules in order of urgency: the first that has something to say decides.
var (
	reflectRules = []rule{
		safetyNet, connect, undoCordon, unsupportedCluster, strayLabels, healRoles, putInRacks, writePeers, clearForMesh, promote, growPool, changeID, reassign, deleteStrayPeerings, trim, disableMesh, shrink,
		narrow, deleteStrayPeers, clearRacks, awaitReports, awaitNodes,
	}
	meshRules = []rule{
		safetyNet, connect, hold, restoreMesh, undoCordon, strayLabels, healHalf, deleteStrayPeerings, demote, deletePeers, clearRacks, forgetMesh, releasePool,
	}
)

// Next decides the next safe step from what is observed. It never looks at what
// was decided before: killed at any instant and asked again, it goes on.
func Next(o Observed, d Desired, now time.Time) Step {
	v := newView(o, d, now)
	rules, rest := reflectRules, v.reflecting
	if d.Mode == Mesh {
		rules, rest = meshRules, v.meshed
	}
	for _, r := range rules {
		if s := r(v); s != nil {
			return v.finish(*s)
		}
	}
	return v.finish(Step{Name: Steady, Reason: rest()})
}

func (v *view) reflecting() string {
	if v.arranged() {
		return fmt.Sprintf("%d route reflectors in topology %s serve %d nodes; the node-to-node mesh is off", len(v.wanted), v.arrangement.Kind, len(v.clients))
	}
	return fmt.Sprintf("%d route reflectors serve %d nodes; the node-to-node mesh is off", len(v.wanted), len(v.clients))
}

func (v *view) meshed() string {
	if !v.BGP.MeshOn() {
		return "nothing of rrpool is left; the node-to-node mesh is off, as somebody else wrote it"
	}
	return fmt.Sprintf("the node-to-node mesh carries %d nodes", len(v.clients))
}

// finish adds what every step has: the reports to ask for, those to ask for again, and
// the reflectors as seen.
func (v *view) finish(s Step) Step {
	v.refreshStale(&s)
	if s.Problem == nil {
		for _, n := range v.current {
			s.Watch = append(s.Watch, plan.StatusRequest{Node: n.Name, Period: v.period(s.Name)})
		}
	}
	if v.d.Timer {
		s.Watch = nil
	}
	s.Short, s.Stray = v.tooFew, v.stray
	if v.again > 0 && (s.Again == 0 || v.again < s.Again) {
		s.Again = v.again
	}
	idle := map[string]bool{}
	for _, n := range v.current {
		idle[n.Name] = !v.serves(n)
	}
	for _, n := range v.current {
		s.Reflectors = append(s.Reflectors, v.reflector(n, idle))
	}
	slices.SortFunc(s.Watch, func(a, b plan.StatusRequest) int { return cmp.Compare(a.Node, b.Node) })
	return s
}

// period between a reflector's reports: short while a step waits for them.
func (v *view) period(step string) time.Duration {
	big := len(v.clients) >= bigCluster
	switch {
	case big && step == Steady:
		return bigRestPeriod
	case big:
		return bigGatePeriod
	case step == Steady && len(v.clients) <= smallCluster:
		return smallPeriod
	case step == Steady:
		return restPeriod
	}
	return gatePeriod
}

// reflector sums up one reflector's sessions with Ready nodes; idle are the reflectors
// that do not serve.
func (v *view) reflector(n plan.Node, idle map[string]bool) Reflector {
	r := Reflector{Node: n.Name, Zone: n.Zone, ClusterID: n.ClusterID, Serving: !idle[n.Name], NotRunning: v.notRunning(n)}
	up := established(v.Statuses[n.Name], isPeer)
	for _, p := range v.neighbours(n) {
		if !usable(p) {
			continue
		}
		for _, a := range common(n, p) {
			r.Expected++
			switch {
			case up[a]:
				r.Established++
			case !idle[p.Name]:
				r.Lacking++
			}
		}
	}
	return r
}

// neighbours are the nodes that a reflector has sessions with, or should have.
func (v *view) neighbours(n plan.Node) []plan.Node {
	if v.arranged() {
		return v.peersOf(v.arrangement.now, n, append(slices.Clone(v.clients), v.current...))
	}
	return append(slices.Clone(v.clients), others(v.current, n)...)
}

// serves reports whether a reflector passes routes on, as far as is known: it is
// Ready and in its role, and its last report shows sessions with most clients.
// Without any report the readiness of the node and of calico-node's pod has to do.
func (v *view) serves(n plan.Node) bool {
	if !usable(n) || !n.RoleLabel || n.ClusterID == "" {
		return false
	}
	if v.deniedBy(n) || v.severed(n) {
		return false
	}
	st, ok := v.Statuses[n.Name]
	switch {
	case v.unanswered(n, silence):
		return false
	case !ok || v.d.Timer:
		return true
	}
	return v.hasMost(st)
}

// severed: the reflector has lost all those with other cluster IDs that it is joined
// with, for longer than sessions take to start: what lies beyond them cannot be reached
// through it.
func (v *view) severed(n plan.Node) bool {
	st, ok := v.Statuses[n.Name]
	if !v.arranged() || !ok || cleared(st) {
		return false
	}
	joined := v.peersOf(v.arrangement.now, n, slices.DeleteFunc(others(v.current, n), func(o plan.Node) bool { return o.ClusterID == n.ClusterID }))
	up := established(st, isPeer)
	if len(joined) == 0 || slices.ContainsFunc(joined, func(o plan.Node) bool { return fromAny(up, o.Addresses) }) {
		return false
	}
	last := latest(v.lastWrite(), n.ReadyChanged)
	for _, o := range joined {
		last = latest(last, latest(o.ReadyChanged, sessionSince(st, o)))
	}
	left := last.Add(timerWait).Sub(v.now)
	if left > 0 {
		v.lookIn(left)
	}
	return left <= 0
}

// sessionSince is when the session with a node last changed, as far as is known.
func sessionSince(st plan.Status, o plan.Node) time.Time {
	var since time.Time
	for _, s := range st.Sessions {
		if slices.Contains(o.Addresses, s.Peer) {
			since = latest(since, s.Since)
		}
	}
	return since
}

// hasMost: the report shows sessions with most clients, and of a spine with most of the
// reflectors below it.
func (v *view) hasMost(st plan.Status) bool {
	served, clients := v.clientsOf(st)
	return clients == 0 || 2*served > clients
}

// clientsOf counts the clients that a reflector has a session with, and all of
// them; one that has just joined the cluster, or come back, cannot be missed yet.
func (v *view) clientsOf(st plan.Status) (served, clients int) {
	up := established(st, isPeer)
	for _, c := range v.dependants(st.Node) {
		if v.mislabelled(c) {
			continue
		}
		if fromAny(up, c.Addresses) {
			served++
		} else if v.now.Sub(latest(c.RoleSince, latest(c.Created, c.ReadyChanged))) < timerWait {
			continue
		}
		clients++
	}
	return served, clients
}

// mislabelled: somebody has put our label on a in-place node, chosen already or not. Busy
// reflectors have no session with it until that is gone, through no fault of theirs.
func (v *view) mislabelled(n plan.Node) bool {
	return !v.d.Dedicated && n.RoleLabel && n.ClusterID == "" && !n.Marked
}

// dependants are the nodes that a reflector is there for: its clients, and where each
// serves some nodes only the reflectors that it joins. A rack may have a single client,
// whose calico-node restarts.
func (v *view) dependants(name string) []plan.Node {
	if !v.arranged() {
		return v.clients
	}
	out, known := v.arrangement.dependants[name]
	if !known {
		fellows := slices.DeleteFunc(slices.Clone(v.current), func(n plan.Node) bool { return !usable(n) })
		out = v.peersOf(v.arrangement.now, plan.Node{Name: name}, append(slices.Clone(v.clients), fellows...))
		v.arrangement.dependants[name] = out
	}
	return out
}

// deniedBy: another reflector reports its session with n as down for longer than
// sessions take to start. One that has lost most of its own, or whose calico-node has
// just restarted, cannot tell.
func (v *view) deniedBy(n plan.Node) bool {
	for _, h := range others(v.current, n) {
		if !usable(h) || v.now.Sub(latest(h.CalicoNode.Since, v.lastReady([]plan.Node{n, h}))) < timerWait {
			continue
		}
		st := v.Statuses[h.Name]
		down := slices.ContainsFunc(st.Sessions, func(s plan.Session) bool {
			return !s.Established && isPeer(s.Kind) && slices.Contains(n.Addresses, s.Peer) &&
				!s.Since.IsZero() && s.Since.After(v.Statuses[n.Name].Updated)
		})
		if down && v.hasMost(st) {
			return true
		}
	}
	return false
}
