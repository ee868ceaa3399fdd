package rollout

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/controllers/plan"
	"github.com/rrpool/rrpool/controllers/plan/evidence"
	"github.com/rrpool/rrpool/controllers/plan/selection"
	"github.com/rrpool/rrpool/controllers/plan/topology"
)

// findNextToPromote returns the wanted node that gets the role next: a node that is being prepared
// already, else the cheapest if no reflector can carry its routes, else the oldest. For the first
// reflector it also returns the nodes that were tried, up to the first that does not lack sessions.
func (v *view) findNextToPromote() (next *plan.Node, tried []plan.Node) {
	in := plan.Filter(v.wanted, func(n plan.Node) bool {
		return plan.Usable(n) && !n.HasRoleLabel && n.ClusterID == "" && !n.CalicoNode.Failing()
	})
	if len(in) == 0 {
		return nil, nil
	}
	group := v.group()
	isPrepared := func(n plan.Node) bool {
		return n.CordonedByUs || slices.ContainsFunc(group, func(r plan.Node) bool { return v.isReflectorOf(r, n) })
	}
	cheapest, _ := selection.Cheapest(in, v.rules())
	isFirst := v.isAlone(in[0]) // the same for all of in: none of them has the role
	slices.SortFunc(in, func(a, b plan.Node) int {
		return cmp.Or(
			plan.TrueFirst(isPrepared(a), isPrepared(b)),
			plan.TrueFirst(isFirst && a.Name == cheapest.Name, isFirst && b.Name == cheapest.Name),
			a.Created.Compare(b.Created), cmp.Compare(a.Name, b.Name),
		)
	})
	if !isFirst {
		return &in[0], nil
	}
	// A node that is cordoned for the role is not passed over: it lacks a session
	// for seconds while another node joins, and the drain would begin anew.
	i := slices.IndexFunc(in, func(n plan.Node) bool { return isPrepared(n) || !v.ev.IsDisconnected(n) })
	if i < 0 {
		return &in[0], in
	}
	return &in[i], in[:i+1]
}

// findNextToDemote returns the current reflector that gives the role back next: dead ones first, those without pods last, and a
// client before its reflectors, else the newest. RoleSince does not tell a client from its reflectors, because a repair renews it.
func (v *view) findNextToDemote() *plan.Node {
	out := plan.Filter(v.Current, func(n plan.Node) bool {
		return v.d.Mode != v1alpha1.ModeRouteReflector || !v.isWanted(n) && !plan.Includes(v.absent, n)
	})
	if len(out) == 0 {
		return nil
	}
	last := slices.MinFunc(out, func(a, b plan.Node) int {
		return cmp.Or(
			plan.TrueFirst(!a.Ready, !b.Ready), plan.TrueFirst(!runsNothing(a), !runsNothing(b)), plan.TrueFirst(v.isReflectorOf(b, a), v.isReflectorOf(a, b)),
			b.RoleSince.Compare(a.RoleSince), cmp.Compare(b.Name, a.Name),
		)
	})
	return &last
}

// leaders returns the other reflectors that are Ready and have the role label and a cluster ID.
func (v *view) leaders(x plan.Node) []plan.Node {
	return plan.Filter(plan.Others(v.group(), x), func(r plan.Node) bool { return plan.Usable(r) && r.HasLabelAndID() })
}

// isAlone reports whether no reflector can carry x's routes while the sessions of x restart.
func (v *view) isAlone(x plan.Node) bool { return len(v.carriers(x)) == 0 }

// isStaged reports whether other reflectors are to carry a node's routes while its sessions restart.
func (v *view) isStaged() bool { return v.d.Promotion != v1alpha1.PromotionImmediate }

// promoteInPlace gives the role to one in-place node, once the present reflectors carry its
// routes. For the first reflector there is none that could; cost says what its pods lose.
func promoteInPlace(v *view) *Step {
	switch {
	case v.isStarting() && !v.mayStart():
		return nil
	case v.nextToPromote == nil:
		return nil
	case !v.isAlone(*v.nextToPromote):
		return v.promoteStaged(*v.nextToPromote)
	case !v.BGP.MeshOn():
		return nil
	}
	return v.watchTried(v.promoteFirst(*v.nextToPromote))
}

// promoteStaged gives the role to a node whose routes others can carry.
func (v *view) promoteStaged(x plan.Node) *Step {
	promote := do("PromoteReflectors", fmt.Sprintf("node %s becomes a route reflector", x.Name), v.setReflector(x))
	if s := v.makeRoom(x, promote.Reason); s != nil {
		return s
	}
	stage := v.makeClient(x)
	if !v.isStaged() {
		v.addCost(promote, " at once (promotion: Immediate): ", x)
		promote.Actions = append(stage, promote.Actions...) // if rrpool is killed in between, these peers do no harm
		return promote
	}
	if len(stage) > 0 {
		return do("StagePeers", promote.Reason+": the others prepare to carry its routes", stage...)
	}
	g := v.ev.ProveCarried(x, v.carriers(x))
	if !g.IsComplete() {
		return await(g, promote.Name, promote.Reason+", once the others carry its routes")
	}
	promote.Watch = g.Watch
	return promote
}

// awaitFirst returns what the promotion of x as the first reflector waits for, nil for nothing. If a reflector has the
// role, runs and does not serve, the next one would not serve either, and the pods of node after node would lose their
// routes: that reflector has to serve first. If x lacks mesh sessions, it would not get sessions as a reflector either.
// A BGPPeer's session counts like a mesh session: a node that a person gave the label has such sessions instead.
func (v *view) awaitFirst(x plan.Node) *Step {
	runs := func(n plan.Node) bool { return v.isWanted(n) && !v.ev.IsStopped(n) }
	if former := plan.Filter(v.leaders(x), runs); len(former) > 0 {
		g := v.ev.Prove(evidence.Claim{Reflectors: former})
		for _, r := range former {
			g.Lack("route reflector %s to serve", r.Name)
		}
		return await(g, "AwaitSessions", fmt.Sprintf("no further node becomes a route reflector before %s serves: cordon it to have another chosen", former[0].Name))
	}
	g := v.ev.ProveConnected(x)
	if g.IsComplete() {
		return nil
	}
	return await(g, "AwaitMesh", fmt.Sprintf("node %s becomes the first route reflector, once the mesh carries it%s", x.Name, v.whyNotOthers(x)))
}

// watchTried adds requests for the reports of the nodes that were considered as the first reflector.
func (v *view) watchTried(s *Step) *Step {
	for _, n := range v.tried {
		s.Watch = append(s.Watch, plan.StatusRequest{Node: n.Name, Period: v.ev.Period(false)})
	}
	return s
}

// whyNotOthers says which nodes were passed over before x, the first reflector, and why; "" if there are none.
func (v *view) whyNotOthers(x plan.Node) string {
	var names []string
	for _, n := range v.tried {
		if n.Name == x.Name {
			break
		}
		names = append(names, n.Name)
	}
	if len(names) == 0 {
		return ""
	}
	return fmt.Sprintf("; not %s, as not all sessions of the mesh are Established there", plan.Few(names))
}

// headStart is how long before the first reflector its clients begin to connect. Measured with BIRD's connect delay of 2 s: with a head
// start of 1 to 1.5 s the sessions are up 2 s after the role is given, with a shorter, longer or no head start only after 4 to 8 s.
const headStart = 1200 * time.Millisecond

// promoteFirst gives the role to the first reflector, and after headStart writes the BGPPeer that gives it its side of the sessions.
func (v *view) promoteFirst(x plan.Node) *Step {
	if s := v.awaitFirst(x); s != nil {
		return s
	}
	promote := do("PromoteReflectors", fmt.Sprintf("node %s becomes the first route reflector: ", x.Name), v.setReflector(x))
	v.addCost(promote, "", x)
	promote.Reason += v.whyNotOthers(x)
	if s := v.makeRoom(x, promote.Reason); s != nil {
		return s
	}
	if len(v.group()) > 0 {
		return promote // dead reflectors keep their side of the sessions
	}
	if left := v.ev.TakenOver(); left > 0 {
		return awaitTakeOver(v.ev.Quiet, left, promote.Name, promote.Reason)
	}
	promote.Actions = append(promote.Actions, plan.Pause{For: headStart},
		plan.PutPeer{Peer: topology.InPlace(v.d.RoleLabel, v.session(), nil, false)[0]})
	return promote
}

// carriers returns the leaders that can carry x's routes. It leaves out those
// that do not serve although they have had the time to get their sessions.
func (v *view) carriers(x plan.Node) []plan.Node {
	return plan.Filter(v.leaders(x), func(r plan.Node) bool { return v.ev.Serves(r) || v.clock.Since(r.RoleSince) <= evidence.TimerWait })
}

// release takes the role from one in-place node, the last of several steps: first x becomes a client, then makeRoom
// cordons or drains it, then it loses the role. The caller has made sure that no node needs x as a reflector.
func (v *view) release(x plan.Node, name, reason string) *Step {
	s := do(name, reason, plan.ClearReflector{Node: x.Name})
	switch last := v.isAlone(x); {
	case !last && v.isStaged():
		if down := v.stepDown(x, reason); down != nil {
			return down
		}
	case !plan.Usable(x) && !v.mayBeAlive(x):
	case last:
		v.addCost(s, ", as the last one: ", x)
	default:
		v.addCost(s, " at once (promotion: Immediate): ", x)
	}
	if room := v.makeRoom(x, s.Reason); plan.Usable(x) && room != nil {
		return room
	}
	return s
}

// mayBeAlive reports whether pods of x may depend on its sessions: x has some, or they may be about to come back
// after a write of rrpool. A node whose kubelet is down may still route. But the sessions of a host that is cut
// off look Established too, until BIRD's hold time ends or a session that was reversed does not come back.
func (v *view) mayBeAlive(x plan.Node) bool {
	recent := v.clock.Since(v.ev.LastWrite()) < evidence.TimerWait
	return v.ev.Serves(x) || v.d.Timer || (v.ev.HasSession(x) || recent) && !v.ev.IsDenied(x)
}

// stepDown prepares reflector x for being a client, once the others carry
// its routes. Each step reverses one of the sessions that reverseNext names.
func (v *view) stepDown(x plan.Node, reason string) *Step {
	if !v.mayBeAlive(x) {
		return nil
	}
	if g := v.ev.ProveWith(x, v.carriers(x)); !g.IsComplete() {
		return await(g, "StageDemotion", reason+", once the others carry its routes")
	}
	j, cuts, ok := v.reverseNext(x)
	if !ok {
		return nil
	}
	s := do("StageDemotion", fmt.Sprintf("%s: its session with %s is reversed first", reason, j.Name))
	if cuts && !runsNothing(x) && !runsNothing(j) {
		s.Reason += "; no third reflector serves both, so the pods of these two nodes cannot reach each other for some seconds"
		s.Disrupts = []Disruption{{Node: x.Name, From: j.Name}}
	}
	for _, p := range v.peerings(j, x) {
		s.Actions = append(s.Actions, plan.PutPeer{Peer: p})
	}
	return s
}

// runsNothing reports whether a node is known to run no pods.
func runsNothing(n plan.Node) bool { return n.Pods != nil && *n.Pods == 0 }

// addCost adds to a step what it costs the pods of a node, in words and as data.
func (v *view) addCost(s *Step, words string, x plan.Node) {
	s.Reason += words + v.cost(x)
	s.disrupt(x)
}

// disrupt notes that a step cuts off the pods of a node.
func (s *Step) disrupt(x plan.Node) {
	if !runsNothing(x) {
		s.Disrupts = append(s.Disrupts, Disruption{Node: x.Name})
	}
}

// cost returns what happens to the pods of a node whose sessions restart while no other reflector carries its routes.
func (v *view) cost(x plan.Node) string {
	what := "cannot be reached from other nodes for " + v.howLong(x)
	switch {
	case runsNothing(x):
		return "it runs no pods, so nothing is lost"
	case v.d.Promotion == v1alpha1.PromotionDrain:
		return "its pods are moved away first; what stays " + what
	case x.Pods == nil:
		return "the pods on it, if any, " + what
	}
	return fmt.Sprintf("its %d pods %s", *x.Pods, what)
}

// howLong returns how long restarting all of a node's sessions takes, as measured: 2 s for mesh
// sessions, and for those with a reflector only if the reflector's side was held back (see headStart).
func (v *view) howLong(x plan.Node) string {
	held, ok := v.peer(topology.PeerClients)
	switch {
	case !v.isAlone(x):
		return "some seconds"
	case x.HasRoleLabel, len(v.group()) == 0 && (!ok || held.Manual):
		return "about 2 seconds"
	}
	return "up to 8 seconds"
}

// makeRoom cordons a node, or also evicts its pods, if the spec's promotion is Cordon or Drain. It returns nil if nothing is left to do.
func (v *view) makeRoom(x plan.Node, reason string) *Step {
	drain := v.d.Promotion == v1alpha1.PromotionDrain
	if !drain && v.d.Promotion != v1alpha1.PromotionCordon {
		return nil
	}
	if !x.Cordoned {
		return do("CordonNode", fmt.Sprintf("%s; promotion is %s", reason, v.d.Promotion), plan.CordonNode{Node: x.Name})
	}
	pods, known := v.Evictable[x.Name]
	if !drain || known && len(pods) == 0 {
		return nil
	}
	s := &Step{Name: "DrainNode", Reason: reason + "; promotion is Drain", Drains: x.Name, Again: evidence.Poll, Awaits: AwaitsPods}
	if !known {
		s.WaitingFor = []string{"a look at the pods of " + x.Name}
		return s
	}
	for _, p := range pods {
		s.WaitingFor = append(s.WaitingFor, fmt.Sprintf("pod %s to leave %s", p, x.Name))
	}
	s.Actions = append(s.Actions, plan.DrainNode{Node: x.Name})
	return s
}

// undoCordon undoes rrpool's cordon of a node that is no longer being prepared for a change of role, or that serves in its new role.
func undoCordon(v *view) *Step {
	for _, n := range v.Nodes {
		if n.CordonMark && !n.Cordoned {
			reason := fmt.Sprintf("node %s was uncordoned by others, and our mark must not outlive that", n.Name)
			return do("UncordonNode", reason, plan.UncordonNode{Node: n.Name})
		}
		if !n.CordonedByUs || v.isPreparing(n) {
			continue
		}
		if v.isWanted(n) && n.HasRoleLabel && plan.Usable(n) && !v.ev.IsSeenServing(n) {
			v.clock.In(evidence.Poll)
			continue
		}
		reason := fmt.Sprintf("node %s was cordoned for its change of role, which is over", n.Name)
		return do("UncordonNode", reason, plan.UncordonNode{Node: n.Name})
	}
	return nil
}

// isPreparing reports whether a node is the next to change its role, and the spec's promotion asks for a cordon before.
func (v *view) isPreparing(n plan.Node) bool {
	if v.d.Promotion != v1alpha1.PromotionDrain && v.d.Promotion != v1alpha1.PromotionCordon {
		return false
	}
	in, out := v.nextToPromote, v.nextToDemote
	return in != nil && in.Name == n.Name || out != nil && out.Name == n.Name && (v.d.Mode == v1alpha1.ModeFullMesh || v.isComplete())
}

// awaitNodes says why nodes cannot be reflectors, if fewer can be than are wanted.
func awaitNodes(v *view) *Step {
	if len(v.wanted) >= v.total && (!v.isStarting() || len(v.Clients) > v.total) {
		return nil
	}
	s := &Step{
		Name:   "AwaitNodes",
		Reason: fmt.Sprintf("%d route reflectors are wanted, and %d nodes can be", v.total, len(v.wanted)),
		Again:  poolPoll,
	}
	rules := v.rules()
	for _, n := range v.Nodes {
		why := v.unfit(rules, n)
		if why != "" && n.SpeaksBGP() {
			s.WaitingFor = append(s.WaitingFor, fmt.Sprintf("node %s: %s", n.Name, why))
		}
	}
	if len(s.WaitingFor) == 0 {
		s.WaitingFor = []string{fmt.Sprintf("%d more nodes, so that there is one that is no route reflector", v.total+1-len(v.wanted))}
	}
	return s
}

// unfit returns why an in-place node cannot be or stay a reflector, "" when it can.
func (v *view) unfit(rules selection.Rules, n plan.Node) string {
	why := rules.Unfit(n)
	if why == "" && v.isLost(n) {
		why = "it is not Ready"
	}
	return why
}

// joinPool brings chosen nodes into the pool.
func joinPool(v *view) *Step {
	if len(v.absent) == 0 {
		return nil
	}
	next, _ := selection.Next(v.Nodes, v.rules())
	reason := fmt.Sprintf("node %s is to be a route reflector: %d of %d are chosen", next.Name, len(v.wanted), v.total)
	if len(v.wanted) == 0 && len(v.group()) == 0 {
		reason += "; as the first one: " + v.cost(next)
	}
	s := do("EnsurePool", reason, plan.EnsurePool{Want: v.d.Pool})
	s.Awaits = AwaitsWorkers
	return s
}

// leavePool takes those nodes out of the pool that have no role and are not chosen.
func leavePool(v *view) *Step {
	want := v.d.Pool
	want.Retire = nil
	for _, n := range v.Nodes {
		if n.Pooled && !n.IsOurs() && !v.isWanted(n) {
			want.Retire = append(want.Retire, n.Name)
		}
	}
	if len(want.Retire) == 0 {
		return nil
	}
	return do("ReleasePool", fmt.Sprintf("node %s is no longer chosen", want.Retire[0]), plan.EnsurePool{Want: want})
}

// makeClient returns the writes that make x a client of all other reflectors. While x has no role, they do not change what nodes render.
func (v *view) makeClient(x plan.Node) []plan.Action {
	var out []plan.Action
	for _, want := range v.peeringsAsClient(x) {
		if have, ok := v.peer(want.Name); !ok || !plan.SamePeer(have, want) {
			out = append(out, plan.PutPeer{Peer: want})
		}
	}
	return out
}

// peeringsAsClient returns the BGPPeers by which x is a client of all other nodes in the role.
func (v *view) peeringsAsClient(x plan.Node) []plan.Peer {
	var out []plan.Peer
	for _, r := range plan.Others(v.group(), x) {
		out = append(out, v.peerings(r, x)...)
	}
	return out
}

// reverseNext returns the longest-serving reflector whose session with x has to be reversed before x becomes a
// client; cuts reports whether the two then cannot reach each other for a moment. A session has to be reversed in
// two cases. First, no third reflector has both nodes as clients, to pass on their routes when x's change of role
// reverses the session. Second, x is not yet a client of two reflectors, and would depend on a single session.
func (v *view) reverseNext(x plan.Node) (client plan.Node, cuts, ok bool) {
	rest := v.leaders(x)
	reflectors := 0
	for _, j := range rest {
		switch {
		case v.isFullReflectorOf(j, x):
			reflectors++
		case !v.isReflectorOf(x, j):
		case !v.isBridged(x, j):
			return j, true, true
		case !ok:
			client, ok = j, true
		}
	}
	return client, false, ok && reflectors < min(2, len(rest))
}

// hasReflector reports whether n is a client of a reflector that serves and carries its routes.
func (v *view) hasReflector(n plan.Node) bool {
	return slices.ContainsFunc(v.leaders(n), func(r plan.Node) bool { return v.ev.Serves(r) && v.isReflectorOf(r, n) })
}

// isBridged reports whether another reflector that serves has both x and j as clients.
func (v *view) isBridged(x, j plan.Node) bool {
	return slices.ContainsFunc(v.group(), func(b plan.Node) bool {
		return v.ev.Serves(b) && v.isFullReflectorOf(b, x) && v.isFullReflectorOf(b, j) // so b is neither x nor j: no node is its own client
	})
}

// trim takes the role from surplus in-place reflectors before the mesh goes off. After a series
// of failures every node may have the role, and without clients the mesh would never go off.
func trim(v *view) *Step {
	if v.nextToDemote == nil || !v.isComplete() {
		return nil
	}
	return v.removeReflector(*v.nextToDemote)
}

// removeInPlace takes the role from surplus in-place reflectors. A node that should
// lose the role keeps it until a substitute has the role, as it does no harm meanwhile.
func removeInPlace(v *view) *Step {
	if v.nextToDemote == nil || !v.isComplete() {
		return nil
	}
	return v.removeReflector(*v.nextToDemote)
}

// roleRests is how many times spec.rollout.removalDelay a role that has just moved stays where it is, so that a flapping cordon,
// label or Node does not move roles all the time. The time is counted from RoleSince, which every manager finds on the node.
const roleRests = 10

// awaitRoleRest waits while roles have moved only recently. If the node that is to go can no longer be a
// reflector, the age of its own role counts. If it still can, the age of the newest role of any reflector
// counts. A node that is dead or about to go does not wait, nor does the promotion of its substitute.
func awaitRoleRest(v *view) *Step {
	if v.nextToDemote == nil || !v.isComplete() {
		return nil
	}
	x := *v.nextToDemote
	since := x
	if v.unfit(v.rules(), x) == "" {
		since = slices.MaxFunc(v.Current, func(a, b plan.Node) int { return a.RoleSince.Compare(b.RoleSince) })
	}
	long := roleRests * v.d.RemovalDelay
	if !plan.Usable(x) || x.Leaving || v.clock.Passed(since.RoleSince, long) {
		return nil
	}
	s := do("RemoveReflector", fmt.Sprintf("route reflector %s is to go, and roles have moved just now: what made them may be over again", x.Name))
	s.WaitingFor = []string{fmt.Sprintf("%s to have passed since node %s became a route reflector (ten times spec.rollout.removalDelay)", long, since.Name)}
	return s
}

// releasePool takes all in-place nodes out of the pool.
func releasePool(v *view) *Step {
	if !slices.ContainsFunc(v.Nodes, func(n plan.Node) bool { return n.Pooled }) {
		return nil
	}
	return do("ReleasePool", "no node needs to be a route reflector", plan.ReleasePool{})
}
