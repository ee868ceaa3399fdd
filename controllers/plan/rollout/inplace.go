package rollout

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/controllers/plan"
	"github.com/rrpool/rrpool/controllers/plan/selection"
	"github.com/rrpool/rrpool/controllers/plan/topology"
)

// rules of the choice among in-place nodes.
func (v *view) rules() selection.Rules {
	return selection.Rules{
		PerZone: v.d.Pool.SizePerZone, Zones: v.d.Pool.Zones,
		Preferred: v.d.Preferred, Excluded: v.d.Excluded, Lost: func(n plan.Node) bool { return v.lost(n) || v.stopsShort(n) },
	}.Of(v.Nodes)
}

// stopsShort: a node was chosen, and its calico-node fails for longer than the grace before it has got the role.
func (v *view) stopsShort(n plan.Node) bool {
	return !n.IsOurs() && n.CalicoNode.Failing() && v.passed(latest(n.CalicoNode.Since, v.ClockSet), v.d.NotReadyGrace)
}

// chooseInPlace fills in who should reflect, who comes next, and who goes next.
func (v *view) chooseInPlace() {
	if v.d.Mode == v1alpha1.ModeRouteReflector {
		for _, n := range selection.Choose(v.Nodes, v.rules()) {
			if n.Pooled {
				v.wanted = append(v.wanted, n)
			} else {
				v.absent = append(v.absent, n)
			}
		}
	}
	v.nextToPromote = v.findNextToPromote()
	v.nextToDemote = v.findNextToDemote()
}

// findNextToPromote is the wanted node that gets the role next: one that is being prepared
// already, else the cheapest when no reflector can carry its routes, else the oldest.
func (v *view) findNextToPromote() *plan.Node {
	in := filter(v.wanted, func(n plan.Node) bool {
		return usable(n) && !n.HasRoleLabel && n.ClusterID == "" && !n.CalicoNode.Failing()
	})
	if len(in) == 0 {
		return nil
	}
	group := v.group()
	prepared := func(n plan.Node) bool {
		return n.CordonedByUs || slices.ContainsFunc(group, func(r plan.Node) bool { return v.isReflectorOf(r, n) })
	}
	cheapest, _ := selection.Cheapest(in, v.rules())
	alone := v.alone(in[0]) // so are all: none of them has the role
	slices.SortFunc(in, func(a, b plan.Node) int {
		return cmp.Or(
			plan.TrueFirst(prepared(a), prepared(b)),
			plan.TrueFirst(alone && a.Name == cheapest.Name, alone && b.Name == cheapest.Name),
			a.Created.Compare(b.Created), cmp.Compare(a.Name, b.Name),
		)
	})
	if !alone {
		return &in[0]
	}
	// A node that is cordoned for it is not passed over: a node that joins lacks a session for seconds, and the drain would begin anew.
	next := slices.IndexFunc(in, func(n plan.Node) bool { return prepared(n) || !v.lacksMesh(n) })
	if v.tried = in[:next+1]; next < 0 {
		v.tried, next = in, 0
	}
	return &in[next]
}

// lacksMesh: a node's report shows that not all of its mesh sessions are Established, or it does not come. Nothing shows then that
// the node could have sessions as a reflector.
func (v *view) lacksMesh(n plan.Node) bool {
	st, asked := v.Statuses[n.Name]
	if !asked || v.d.Timer {
		return false
	}
	g := &gate{}
	v.sessionsUp(g, st, n, others(v.served(), n), isAny)
	return cleared(st) && v.passed(st.Cleared, silence) || !cleared(st) && !g.open()
}

// findNextToDemote is the current reflector that gives the role back next: those that are dead first,
// those without pods last, and a client before its reflectors, whichever was healed since.
func (v *view) findNextToDemote() *plan.Node {
	out := filter(v.current, func(n plan.Node) bool {
		return v.d.Mode != v1alpha1.ModeRouteReflector || !v.isWanted(n) && !named(v.absent, n)
	})
	if len(out) == 0 {
		return nil
	}
	last := slices.MinFunc(out, func(a, b plan.Node) int {
		return cmp.Or(
			plan.TrueFirst(!a.Ready, !b.Ready), plan.TrueFirst(!idle(a), !idle(b)), plan.TrueFirst(v.isReflectorOf(b, a), v.isReflectorOf(a, b)),
			b.RoleSince.Compare(a.RoleSince), cmp.Compare(b.Name, a.Name),
		)
	})
	return &last
}

// leaders are the other reflectors that can carry x's routes.
func (v *view) leaders(x plan.Node) []plan.Node {
	return filter(others(v.group(), x), func(r plan.Node) bool { return usable(r) && hasRole(r) })
}

// alone: no reflector can carry x's routes while its own sessions restart.
func (v *view) alone(x plan.Node) bool { return len(v.carriers(x)) == 0 }

// staged: other reflectors are to carry a node's routes while its sessions restart.
func (v *view) staged() bool { return v.d.Promotion != v1alpha1.PromotionImmediate }

// promoteNext gives the role to one in-place node, once the reflectors that are there
// carry its routes. The very first has none that do: it costs what cost says.
func (v *view) promoteNext() *Step {
	switch {
	case v.nextToPromote == nil:
		return nil
	case !v.alone(*v.nextToPromote):
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
	if !v.staged() {
		v.addCost(promote, " at once (promotion: Immediate): ", x)
		promote.Actions = append(stage, promote.Actions...) // killed in between, the peers do no harm
		return promote
	}
	if len(stage) > 0 {
		return do("StagePeers", promote.Reason+": the others prepare to carry its routes", stage...)
	}
	g := v.othersCarry(x)
	if !g.open() {
		return g.step(promote.Name, promote.Reason+", once the others carry its routes")
	}
	promote.Watch = g.watch
	return promote
}

// awaitFirst is what the promotion of x as the first reflector waits for, nil for nothing. One that has the role already, runs and
// serves nobody shows that the next would do no better: the pods of one node after the other would lose their routes for good.
// And a node that lacks sessions of the mesh would not get those of a reflector either. A BGPPeer's in place of one, as with a node that
// a person gave the label, shows the same.
func (v *view) awaitFirst(x plan.Node) *Step {
	g := &gate{}
	runs := func(n plan.Node) bool { return v.isWanted(n) && !v.stopped(n) }
	if former := filter(v.leaders(x), runs); len(former) > 0 {
		g = v.reflectorGate(former, 0)
		for _, r := range former {
			g.wait("route reflector %s to serve", r.Name)
		}
		return g.step("AwaitSessions", fmt.Sprintf("no further node becomes a route reflector before %s serves: cordon it to have another chosen", former[0].Name))
	}
	if v.d.Timer {
		return nil
	}
	if v.meshSessions(g, x, isAny); g.open() {
		return nil
	}
	return g.step("AwaitMesh", fmt.Sprintf("node %s becomes the first route reflector, once the mesh carries it%s", x.Name, v.whyNotOthers(x)))
}

// watchTried asks for the reports of the nodes that may be the first, as long as one of them is about to be.
func (v *view) watchTried(s *Step) *Step {
	for _, n := range v.tried {
		s.Watch = append(s.Watch, plan.StatusRequest{Node: n.Name, Period: v.period("")})
	}
	return s
}

// whyNotOthers names the nodes that would have come before the first reflector.
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

// headStart is how long before the first reflector its clients begin to connect.
// Measured with BIRD's connect delay of 2 s: from 1 to 1.5 s the sessions are up at
// once, 2 s after the role; with less or more, or none, only after 4 to 8 s.
const headStart = 1200 * time.Millisecond

// promoteFirst gives the role to the first reflector, and a moment later lets it have its side of the sessions.
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
		return promote // those that are dead keep their sides
	}
	if left := v.lastWrite().Add(v.quiet).Sub(v.now); left > 0 {
		return awaitTakeOver(v.quiet, left, promote.Name, promote.Reason)
	}
	promote.Actions = append(promote.Actions, plan.Pause{For: headStart},
		plan.PutPeer{Peer: topology.InPlace(v.d.RoleLabel, v.session(), nil, false)[0]})
	return promote
}

// othersCarry opens when the other reflectors carry x's routes, whatever becomes of x's own sessions with clients.
// While the mesh is on, x relies on it, so they have to serve all nodes; without it x relies on them already.
func (v *view) othersCarry(x plan.Node) *gate {
	if v.d.Timer || v.BGP.MeshOn() {
		g := v.carriersGate(x)
		v.silentGate(g, x)
		return g
	}
	g := &gate{}
	rs := v.carriers(x)
	for _, r := range rs {
		v.inReport(g, r.Name, v.lastWrite().Add(v.quiet), func(st plan.Status) time.Time {
			return v.settled(v.sessionsUp(g, st, r, []plan.Node{x}, isPeer), len(v.clients), 0)
		})
	}
	if len(rs) == 0 {
		g.wait("a route reflector that serves")
	}
	return g
}

// silentGate demands that the carriers have a session with each node that is not
// Ready and that x still reaches through the mesh: its own report shows them.
func (v *view) silentGate(g *gate, x plan.Node) {
	if v.d.Timer || len(v.unready) == 0 {
		return
	}
	g.watch = append(g.watch, plan.StatusRequest{Node: x.Name, Period: v.period("")})
	v.inReport(g, x.Name, v.lastWrite().Add(v.quiet), func(st plan.Status) time.Time {
		v.unreadyGate(g, st, v.carriers(x))
		return v.now
	})
}

// carriers are the leaders that x's routes can be left to: not those that have had
// the time to get their sessions, and do not serve.
func (v *view) carriers(x plan.Node) []plan.Node {
	return filter(v.leaders(x), func(r plan.Node) bool { return v.serves(r) || v.now.Sub(r.RoleSince) <= timerWait })
}

// carriersGate is the reflector gate for x's carriers, x being one of those that they serve.
func (v *view) carriersGate(x plan.Node) *gate {
	clients := v.clients
	if !named(clients, x) {
		clients = append(slices.Clone(clients), x)
	}
	return v.serve(clients).reflectorGate(v.carriers(x), 0)
}

// release takes the role from one in-place node, as the last of several steps: it becomes a client first, then
// room, then the role. The caller has seen to it that no node needs it any more.
func (v *view) release(x plan.Node, name, reason string) *Step {
	s := do(name, reason, plan.ClearReflector{Node: x.Name})
	switch last := v.alone(x); {
	case !last && v.staged():
		if down := v.stepDown(x, reason); down != nil {
			return down
		}
	case !usable(x) && !v.mayBeAlive(x):
	case last:
		v.addCost(s, ", as the last one: ", x)
	default:
		v.addCost(s, " at once (promotion: Immediate): ", x)
	}
	if room := v.makeRoom(x, s.Reason); usable(x) && room != nil {
		return room
	}
	return s
}

// mayBeAlive: x has sessions that its pods may depend on, or they may be about to come back after a change of ours.
// A kubelet that is down stops no packet; but of a host that is cut off, sessions look Established until BIRD's
// hold time ends, or until one that had to be reversed does not come back.
func (v *view) mayBeAlive(x plan.Node) bool {
	recent := v.now.Sub(v.lastWrite()) < timerWait
	return v.serves(x) || v.d.Timer || (v.hasSession(x) || recent) && !v.deniedBy(x)
}

// stepDown prepares a node in the role for being a client: it turns sessions round
// that others cannot bridge, one at a time, once the others carry x's routes.
func (v *view) stepDown(x plan.Node, reason string) *Step {
	if !v.mayBeAlive(x) {
		return nil
	}
	if g := v.carriersGate(x); !g.open() {
		return g.step("StageDemotion", reason+", once the others carry its routes")
	}
	j, cuts, ok := v.reverseNext(x)
	if !ok {
		return nil
	}
	s := do("StageDemotion", fmt.Sprintf("%s: its session with %s is reversed first", reason, j.Name))
	if cuts && !idle(x) && !idle(j) {
		s.Reason += "; no third reflector serves both, so the pods of these two nodes cannot reach each other for some seconds"
		s.Disrupts = []Disruption{{Node: x.Name, From: j.Name}}
	}
	for _, p := range v.peerings(j, x) {
		s.Actions = append(s.Actions, plan.PutPeer{Peer: p})
	}
	return s
}

// idle nodes are known to run no pods that could miss anything.
func idle(n plan.Node) bool { return n.Pods != nil && *n.Pods == 0 }

// addCost adds to a step what it costs the pods of a node, in words and as data.
func (v *view) addCost(s *Step, words string, x plan.Node) {
	s.Reason += words + v.cost(x)
	s.disrupt(x)
}

// disrupt notes that a step cuts off the pods of a node.
func (s *Step) disrupt(x plan.Node) {
	if !idle(x) {
		s.Disrupts = append(s.Disrupts, Disruption{Node: x.Name})
	}
}

// cost says what happens to the pods of a node whose sessions restart while no other reflector carries its routes.
func (v *view) cost(x plan.Node) string {
	what := "cannot be reached from other nodes for " + v.howLong(x)
	switch {
	case idle(x):
		return "it runs no pods, so nothing is lost"
	case v.d.Promotion == v1alpha1.PromotionDrain:
		return "its pods are moved away first; what stays " + what
	case x.Pods == nil:
		return "the pods on it, if any, " + what
	}
	return fmt.Sprintf("its %d pods %s", *x.Pods, what)
}

// howLong restarting all of a node's sessions takes, as measured: mesh sessions
// are up in 2 s, those with a reflector only where its side was held back.
func (v *view) howLong(x plan.Node) string {
	held, ok := v.peer(topology.PeerClients)
	switch {
	case !v.alone(x):
		return "some seconds"
	case x.HasRoleLabel, len(v.group()) == 0 && (!ok || held.Manual):
		return "about 2 seconds"
	}
	return "up to 8 seconds"
}

// makeRoom keeps new pods off a node, or moves its pods away, where the spec asks
// for that; nil when there is nothing to do any more.
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
	s := &Step{Name: "DrainNode", Reason: reason + "; promotion is Drain", Drains: x.Name, Again: poll, Awaits: AwaitsPods}
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

// undoCordon takes back a cordon of ours from a node that is not being prepared
// any more, or that serves in its new role.
func undoCordon(v *view) *Step {
	for _, n := range v.Nodes {
		if n.CordonMark && !n.Cordoned {
			reason := fmt.Sprintf("node %s was uncordoned by others, and our mark must not outlive that", n.Name)
			return do("UncordonNode", reason, plan.UncordonNode{Node: n.Name})
		}
		if !n.CordonedByUs || v.preparing(n) {
			continue
		}
		if v.isWanted(n) && n.HasRoleLabel && usable(n) && !v.seenServing(n) {
			v.lookIn(poll)
			continue
		}
		reason := fmt.Sprintf("node %s was cordoned for its change of role, which is over", n.Name)
		return do("UncordonNode", reason, plan.UncordonNode{Node: n.Name})
	}
	return nil
}

// preparing: the node is the next to change its role, and cordoned for that.
func (v *view) preparing(n plan.Node) bool {
	if v.d.Promotion != v1alpha1.PromotionDrain && v.d.Promotion != v1alpha1.PromotionCordon {
		return false
	}
	in, out := v.nextToPromote, v.nextToDemote
	return in != nil && in.Name == n.Name || out != nil && out.Name == n.Name && (v.d.Mode == v1alpha1.ModeFullMesh || v.complete())
}

// seenServing: its report shows it serving; without reports, time has passed.
func (v *view) seenServing(n plan.Node) bool {
	if v.d.Timer {
		return v.now.Sub(n.RoleSince) > timerWait
	}
	st, ok := v.Statuses[n.Name]
	return ok && !cleared(st) && len(st.Sessions) > 0 && v.serves(n)
}

// awaitNodes says what is missing when there are too few nodes to choose from.
func awaitNodes(v *view) *Step {
	if v.d.Dedicated || len(v.wanted) >= v.total && (!v.starting() || len(v.clients) > v.total) {
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

// awaitMesh leaves a mesh off that was off before: the way onto reflectors begins and ends with the mesh. Where routes
// come from elsewhere, unsupportedCluster has refused before.
func awaitMesh(v *view) *Step {
	if !v.meshless() {
		return nil
	}
	g := &gate{}
	g.wait("nodeToNodeMeshEnabled of the default BGPConfiguration to be true")
	return g.step("AwaitMesh", "a migration begins with the node-to-node mesh, which is off, and not by rrpool: switch it on, or delete this object")
}

// unfit says why an in-place node cannot be or stay a reflector, "" when it can.
func (v *view) unfit(rules selection.Rules, n plan.Node) string {
	why := rules.Unfit(n)
	if why == "" && v.lost(n) {
		why = "it is not Ready"
	}
	return why
}

// joinPool brings chosen nodes into the pool.
func (v *view) joinPool() *Step {
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

// leavePool lets nodes leave the pool that have no role and are not chosen.
func (v *view) leavePool() *Step {
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
