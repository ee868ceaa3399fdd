package rollout

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/utils/ptr"

	"github.com/rrpool/rrpool/controllers/plan"
	"github.com/rrpool/rrpool/controllers/plan/evidence"
	"github.com/rrpool/rrpool/controllers/plan/simulate"
)

// lastOneAfter is how long a single reflector may be alone in serving. Switching
// the mesh on costs nothing while it does, and everything once it is gone.
const lastOneAfter = 5 * time.Second

// reliesOnReflectors reports whether nodes have their routes from our reflectors, as the mesh is off by our doing.
func (v *view) reliesOnReflectors() bool {
	return !v.BGP.MeshOn() && v.Relied() && (!v.d.Dedicated || len(v.Clients)+len(v.Unready) > 1)
}

// safetyNet switches the mesh on when too few reflectors serve. It only adds sessions. Once none serves it does not wait, but for one that
// has just come back. While it waits, other rules may repair.
func safetyNet(v *view) *Step {
	if v.service == nil || v.service.IsEnough {
		return nil
	}
	if waits := v.service.Serving > 0 || v.service.IsReturning; waits {
		if left := v.netDue(*v.service); left > 0 {
			v.clock.In(left)
			return nil
		}
	}
	s := do("RestoreMesh", fmt.Sprintf("%s, at least %d should: the mesh takes over until they are back", v.shortage(), v.leastServing()), plan.RestoreMesh{})
	s.Urgent = true
	return s
}

// shortage says how many reflectors serve.
func (v *view) shortage() string {
	stopped := v.ev.NotRunning()
	switch {
	case len(stopped) > 0:
		return NotRunning(stopped, len(v.Current))
	case v.arranged() && v.service.Serving == 0:
		return "no route reflector that serves keeps some of the nodes in touch"
	case v.arranged():
		return fmt.Sprintf("only %d route reflectors that serve keep some of the nodes in touch", v.service.Serving)
	}
	return fmt.Sprintf("only %d route reflectors serve", v.service.Serving)
}

// netDue returns how long too few reflectors may still go on serving.
func (v *view) netDue(service evidence.Service) time.Duration {
	since := service.Since
	if since.IsZero() || !v.ShortSince.IsZero() && v.ShortSince.Before(since) {
		since = v.ShortSince // those that are gone left no date, and one that flaps a new one each time
	}
	left := v.d.NetAfter
	if service.Serving == 1 {
		left = min(left, lastOneAfter)
	}
	if service.IsRestarting {
		left = max(left, evidence.RestartTime)
	}
	if since.IsZero() {
		return left
	}
	return left - v.clock.Since(since)
}

// leastServing returns the smallest number of reflectors that may serve. While the
// pool grows, those still to come are not missed.
func (v *view) leastServing() int {
	least := v.d.MinServing
	if v.arranged() {
		return min(least, max(v.arrangement.Depth, 1))
	}
	if v.total > 0 {
		least = min(least, v.total)
	}
	if !v.d.Dedicated || v.Pool != nil && (v.Pool.SizePerZone < v.d.Pool.SizePerZone || len(v.Pool.Workers) < v.total) {
		least = min(least, max(2, len(v.Current)))
	}
	return least
}

// reconnect switches the mesh on for clients that are cut off from every reflector. The gate before the mesh goes off
// again waits for the sessions that they lack. In a big cluster a mesh costs the other nodes more than it helps these.
func reconnect(v *view) *Step {
	if v.service == nil || len(v.ev.CutOff) == 0 || len(v.Clients) >= evidence.BigCluster {
		return nil
	}
	whose := Unserved(v.ev.CutOff)
	if slices.ContainsFunc(v.ev.CutOff, func(name string) bool { return !slices.Contains(v.ev.Unserved, name) }) {
		whose = strings.TrimPrefix(whose, "Ready ") // the kubelets of some are down
	}
	s := do("RestoreMesh", whose+", and BIRD runs there: the mesh takes over until they have", plan.RestoreMesh{})
	s.Urgent = true
	return s
}

// Unserved returns which nodes have no session.
func Unserved(names []string) string {
	return fmt.Sprintf("Ready nodes without an Established session with any route reflector: %d: %s", len(names), plan.Few(names))
}

// NotRunning returns on which of so many reflectors calico-node is not running.
func NotRunning(names []string, of int) string {
	return fmt.Sprintf("calico-node is not running on %d of %d route reflectors: %s", len(names), of, plan.Few(names))
}

// noteMesh writes the note again by which the mesh comes back as it was. What it said is lost; our BGPPeers have taken
// over the password and times.
func noteMesh(v *view) *Step {
	why := "is gone"
	if v.BGP.SavedUnread != "" {
		why = "cannot be read (" + v.BGP.SavedUnread + ")"
	}
	if v.BGP.Saved != nil && v.BGP.SavedUnread == "" || !v.Relied() {
		return nil
	}
	saved := plan.Mesh{Enabled: ptr.To(true)}
	for _, p := range v.Peers {
		if p.Owned {
			saved.Password, saved.MaxRestartTime = cmp.Or(saved.Password, p.Password), cmp.Or(saved.MaxRestartTime, p.MaxRestartTime)
		}
	}
	return do("NoteMesh", "the note on the BGPConfiguration of how the mesh was "+why+": it says now what the BGPPeers of rrpool have", plan.NoteMesh{Saved: saved})
}

// awaitMesh leaves a mesh off that was off before: the way onto reflectors begins and ends with the mesh. Where routes
// come from elsewhere, refuse has refused before.
func awaitMesh(v *view) *Step {
	if !v.isMeshless() {
		return nil
	}
	g := &evidence.Proof{}
	g.Lack("nodeToNodeMeshEnabled of the default BGPConfiguration to be true")
	return await(g, "AwaitMesh", "a migration begins with the node-to-node mesh, which is off, and not by rrpool: switch it on, or delete this object")
}

// isMeshless reports whether the mesh was off before rrpool has done anything, so that routes come from elsewhere, or not by BGP.
func (v *view) isMeshless() bool { return !v.BGP.MeshOn() && v.isStarting() }

// disableMesh switches the mesh off once every node has what it needs from the
// reflectors: sessions, settled, and on sampled clients every route as well.
func disableMesh(v *view) *Step {
	stays := "the mesh stays on until every node has its routes from every route reflector"
	g := v.ev.Prove(evidence.Claim{Reflectors: v.wanted, Steady: true})
	if len(v.Clients) == 0 {
		g.Lack("a Ready node to serve")
	}
	if !v.isComplete() {
		g.Lack("%d route reflectors, there are %d", v.total, len(plan.Filter(v.wanted, func(n plan.Node) bool { return plan.Usable(n) && v.inAssignedSlot(n) })))
	}
	if paths := v.multiplied(); paths > 0 {
		g.Lack("at most %d paths to each prefix: with the BGPPeers and roles as they are, a node has %d", v.mostPaths(), paths)
	}
	if !g.AreSessionsUp() {
		return await(g, "AwaitSessions", stays)
	}
	v.lackPools(g)
	if g.With(v.ev.ProveRoutes()); !g.IsComplete() {
		return await(g, "AwaitRoutes", stays+g.Unlisted)
	}
	saved, absent := v.meshBefore()
	whose := fmt.Sprintf("all %d route reflectors", len(v.wanted))
	if v.arranged() {
		whose = fmt.Sprintf("their route reflectors, of %d in topology %s", len(v.wanted), v.arrangement.Kind)
	}
	reason := fmt.Sprintf("all %d nodes have Established sessions with %s%s", len(v.Clients), whose, g.Unlisted)
	s := do("DisableMesh", reason, plan.DisableMesh{Saved: saved, SavedAbsent: absent})
	s.Watch = g.Watch
	return s
}

// mostPaths returns how many paths to a prefix a node may have: those of two topologies side by side.
func (v *view) mostPaths() int { return 2 * cmp.Or(v.d.Topology.MaxPaths, 64) }

// multiplied counts the paths that a node has to a prefix with the BGPPeers and roles as they are, where they are more than that, else 0.
func (v *view) multiplied() (paths int) {
	if !v.arranged() {
		return 0
	}
	if paths = v.ev.MostPaths(); paths <= v.mostPaths() {
		return 0
	}
	return paths
}

// meshBefore returns what a return to the mesh has to restore. What was saved the first time stays: a mesh that was
// switched on meanwhile is not what was there before, save for a password that it brings along.
func (v *view) meshBefore() (plan.Mesh, bool) {
	if v.BGP.Saved == nil {
		return v.BGP.Mesh, !v.BGP.Exists
	}
	saved, absent := *v.BGP.Saved, v.BGP.SavedAbsent
	if p := v.BGP.Mesh.Password; p != nil {
		saved.Password, absent = p, false
	}
	return saved, absent
}

// awaitMeshOwner leaves a mesh on that others switch on again and again.
func awaitMeshOwner(v *view) *Step {
	n := len(v.Reversed)
	if n < mostReversals {
		return nil
	}
	pause := doubled(n, reversalPause, longestPause)
	if v.clock.Passed(v.Reversed[n-1], pause) {
		return nil
	}
	by := cmp.Or(v.BGP.ManagedBy, v.BGP.MeshWriter, "others; the API does not say who")
	return &Step{
		Name: AwaitMeshOwner, Awaits: AwaitsOwner, WaitingFor: []string{"nodeToNodeMeshEnabled of BGPConfiguration default to be left to rrpool"},
		Reason: fmt.Sprintf("the node-to-node mesh was switched on again %d times after rrpool had switched it off (%s): it stays on, and rrpool tries again after %s", n, by, pause),
	}
}

// AwaitMeshOwner is the step that leaves on a mesh that others keep on.
const AwaitMeshOwner = "AwaitMeshOwner"

// hasOurs reports whether anything of ours is left in the cluster's BGP.
func (v *view) hasOurs() bool {
	return len(v.Current) > 0 || v.BGP.Saved != nil || v.hasOwnPeers()
}

// restoreMesh switches the mesh on as it was before. Where it was switched on, or changed, by others meanwhile, what
// differs is put back before the reflectors go: a changed password restarts mesh sessions, and they carry the routes then.
func restoreMesh(v *view) *Step {
	if !v.hasOurs() {
		return nil
	}
	s := do("RestoreMesh", "the mesh must be up before the route reflectors go", plan.RestoreMesh{})
	switch {
	case !v.BGP.MeshOn():
		return s
	case v.BGP.Saved == nil:
		return nil
	case v.differs() == "" && !v.BGP.Restored.IsZero():
		return nil
	case v.differs() == "":
		return s
	}
	alive := v.ev.Serving()
	if len(alive) == 0 || v.ev.Depth(alive, 1) == 0 {
		return nil // no reflector can carry the routes: see keepNote
	}
	s.Reason = "the mesh was switched on or changed by others, and gets back what it had before: " + v.differs()
	g := v.ev.Prove(evidence.Claim{Reflectors: alive, AsConfigured: true})
	if left := evidence.SteadyTime - v.clock.Since(v.BGP.Restored); left > 0 {
		g.Lack("%s to have passed since rrpool switched it on: others have changed it since", evidence.SteadyTime)
		g.In(left)
	}
	if !g.IsComplete() {
		return await(g, s.Name, s.Reason+"; the route reflectors must carry every node while its sessions restart")
	}
	return s
}

// differs names what the sessions of the mesh lack of how it was before, "" for nothing.
func (v *view) differs() string {
	saved, mesh := v.BGP.Saved, v.BGP.Mesh
	if saved == nil {
		return ""
	}
	var out []string
	switch was := saved.Password; {
	case ptr.Equal(was, mesh.Password):
	case was == nil:
		out = append(out, "no nodeMeshPassword")
	default:
		out = append(out, fmt.Sprintf("nodeMeshPassword of Secret %s, key %s", was.Name, was.Key))
	}
	switch was := saved.MaxRestartTime; {
	case ptr.Equal(was, mesh.MaxRestartTime):
	case was == nil:
		out = append(out, "no nodeMeshMaxRestartTime")
	default:
		out = append(out, fmt.Sprintf("nodeMeshMaxRestartTime %s", *was))
	}
	return strings.Join(out, ", ")
}

// ForgetMesh is the name of the last step of the way back.
const ForgetMesh = "ForgetMesh"

// forgetMesh leaves the BGPConfiguration exactly as it was found.
func forgetMesh(v *view) *Step {
	if v.BGP.Saved == nil && v.BGP.Restored.IsZero() || v.differs() != "" && v.BGP.MeshOn() {
		return nil
	}
	return do(ForgetMesh, "the mesh is as it was before", plan.ForgetMesh{})
}

// keepNote keeps the note of how the mesh was where others have changed the mesh, and no reflector was there to carry the routes while that
// is put back.
func keepNote(v *view) *Step {
	differs := v.differs()
	if differs == "" {
		return nil
	}
	g := &evidence.Proof{}
	g.Lack("the default BGPConfiguration to have %s, as before rrpool", differs)
	return await(g, ForgetMesh, "others have changed the mesh, and to change it back restarts its sessions, which no route reflector would bridge: "+
		"do that, or remove the annotation rrpool.io/mesh-before if the mesh is to stay as it is")
}

// underMesh makes a change once the mesh carries what the sessions that it restarts carry.
func (v *view) underMesh(change *Step) *Step {
	if v.ev.IsIdle() {
		return change
	}
	if !v.BGP.MeshOn() {
		return do("RestoreMesh", change.Reason+": the mesh takes over while sessions restart", plan.RestoreMesh{})
	}
	if g := v.ev.ProveMesh(); !g.IsComplete() {
		return v.orderMeanwhile(await(g, "AwaitMesh", change.Reason+": the mesh must carry everything before sessions restart"))
	}
	return change
}

// orderMeanwhile adds to a wait what the pool lacks: machines take longer than sessions, and a dead reflector is not to wait for these.
func (v *view) orderMeanwhile(s *Step) *Step {
	if !v.d.Dedicated || v.Pool == nil {
		return s
	}
	want := v.toOrder()
	want.Refill = false // in zones that are given up it orders nothing before its turn
	if lacks := v.poolLacks(want.Replace); lacks != "" {
		s.Reason += "; meanwhile: " + lacks
		s.Actions = append(s.Actions, plan.EnsurePool{Want: want})
	}
	return s
}

// awaitRoutes says what no other rule has seen: by the BGPPeers and roles as they are, two Ready nodes have no route to each other.
func awaitRoutes(v *view) *Step {
	up := make(map[string]bool, len(v.Clients)+len(v.Current)) // true: it is a client
	for _, n := range plan.Filter(v.Current, plan.Usable) {
		up[n.Name] = false
	}
	for i := range v.Clients {
		up[v.Clients[i].Name] = true
	}
	configured := v.configuration
	if v.arranged() {
		configured = func([]plan.Node, []plan.Peer) *simulate.Configuration { return v.arrangement.is }
	}
	net := configured(v.Nodes, v.Peers).Network(func(name string) bool { _, is := up[name]; return is })
	g := &evidence.Proof{}
	for _, p := range net.Unreached(func(name string) bool { return up[name] }) {
		g.Lack("a route from %s to %s", p.From, p.To)
	}
	if v.lackPools(g); g.IsComplete() {
		return nil
	}
	return await(g, "AwaitRoutes", "the mesh is off, and the BGPPeers and route reflectors do not connect all nodes and their blocks")
}

// lackPools adds the blocks that reflectors would not pass on.
func (v *view) lackPools(g *evidence.Proof) {
	outside, marked := v.NotPassed()
	for _, block := range outside {
		g.Lack("an IPPool that contains %s", block)
	}
	for _, block := range marked {
		g.Lack("no community NO_ADVERTISE on %s", block)
	}
}
