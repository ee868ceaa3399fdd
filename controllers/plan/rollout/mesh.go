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

// lastOneAfter is how long only one reflector may serve. While that reflector serves, switching
// the mesh on interrupts nothing; after it has failed, routes are lost until the mesh is up.
const lastOneAfter = 5 * time.Second

// reliesOnReflectors reports whether nodes have their routes from rrpool's reflectors, because rrpool has switched the mesh off.
func (v *view) reliesOnReflectors() bool {
	return !v.BGP.MeshOn() && v.Relied() && (!v.d.Dedicated || len(v.Clients)+len(v.Unready) > 1)
}

// safetyNet switches the mesh on when too few reflectors serve. That only adds sessions. If none
// serves, it does not wait, unless one has just come back. While it waits, other rules may repair.
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

// netDue returns how much longer too few reflectors may serve before the mesh is switched on.
func (v *view) netDue(service evidence.Service) time.Duration {
	since := service.Since
	if since.IsZero() || !v.ShortSince.IsZero() && v.ShortSince.Before(since) {
		since = v.ShortSince // reflectors that are gone left no time, and a flapping one leaves a new time each time
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

// leastServing returns the smallest number of reflectors that may serve. While
// the pool grows, reflectors that are still to come do not count as missing.
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

// reconnect switches the mesh on for clients that are cut off from every reflector. The mesh goes off again only after these clients have
// the sessions that they lack. In a big cluster it does nothing: there a mesh costs the other nodes more than it helps these clients.
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

// Unserved returns a phrase that counts and lists nodes without a session with any reflector.
func Unserved(names []string) string {
	return fmt.Sprintf("Ready nodes without an Established session with any route reflector: %d: %s", len(names), plan.Few(names))
}

// NotRunning returns a phrase that says on which of so many reflectors calico-node is not running.
func NotRunning(names []string, of int) string {
	return fmt.Sprintf("calico-node is not running on %d of %d route reflectors: %s", len(names), of, plan.Few(names))
}

// noteMesh saves the mesh settings again if the annotation with them is lost or unreadable. rrpool's
// BGPPeers have taken over the password and times of the mesh, so it takes them from there.
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

// awaitMesh waits if the mesh was off already before rrpool did anything, as the way to reflectors
// begins and ends with the mesh. If routes come from elsewhere, rule Refuse has refused before.
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
// reflectors: settled sessions, and on sampled clients every route as well.
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

// mostPaths returns how many paths to a prefix a node may have: twice the most that one
// topology may have (64 if not set), because two topologies may exist side by side.
func (v *view) mostPaths() int { return 2 * cmp.Or(v.d.Topology.MaxPaths, 64) }

// multiplied returns how many paths to a prefix a node has with the present BGPPeers and roles, if they are more than mostPaths, else 0.
func (v *view) multiplied() (paths int) {
	if !v.arranged() {
		return 0
	}
	if paths = v.ev.MostPaths(); paths <= v.mostPaths() {
		return 0
	}
	return paths
}

// meshBefore returns the settings that a return to the mesh has to restore, and whether there was no BGPConfiguration. Settings that are saved
// already stay, because a mesh that was switched on meanwhile is not the former one. Only the password of such a mesh replaces the saved one.
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

// AwaitMeshOwner is the name of the step that leaves the mesh on because others have switched it on again and again.
const AwaitMeshOwner = "AwaitMeshOwner"

// hasOurs reports whether rrpool still has reflectors, saved mesh settings or BGPPeers in the cluster.
func (v *view) hasOurs() bool {
	return len(v.Current) > 0 || v.BGP.Saved != nil || v.hasOwnPeers()
}

// restoreMesh switches the mesh on with its former settings. If others have switched it on or changed it meanwhile, the former
// settings are put back before the reflectors go: a changed password restarts mesh sessions, and the reflectors carry the routes then.
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

// differs names the former settings of mesh sessions that the mesh does not have now, "" if there are none.
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

// forgetMesh removes the saved mesh settings, which leaves the BGPConfiguration exactly as rrpool found it.
func forgetMesh(v *view) *Step {
	if v.BGP.Saved == nil && v.BGP.Restored.IsZero() || v.differs() != "" && v.BGP.MeshOn() {
		return nil
	}
	return do(ForgetMesh, "the mesh is as it was before", plan.ForgetMesh{})
}

// keepNote keeps the saved mesh settings if others have changed the mesh and no reflector could carry the routes while they are put back.
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

// underMesh returns a change that restarts sessions once the mesh carries the routes of these sessions,
// and the step towards that before. If the reflectors carry nothing, the change does not wait.
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

// orderMeanwhile adds to a waiting step an order for what the pool lacks. Machines take
// longer than sessions, so the substitute of a dead reflector does not wait for these.
func (v *view) orderMeanwhile(s *Step) *Step {
	if !v.d.Dedicated || v.Pool == nil {
		return s
	}
	want := v.toOrder()
	want.Refill = false // zones that are being given up get nothing before their turn
	if lacks := v.poolLacks(want.Replace); lacks != "" {
		s.Reason += "; meanwhile: " + lacks
		s.Actions = append(s.Actions, plan.EnsurePool{Want: want})
	}
	return s
}

// awaitRoutes reports what no earlier rule has seen: with the present BGPPeers and roles, two Ready nodes have no route to each other.
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

// lackPools adds to g the blocks that reflectors would not pass on.
func (v *view) lackPools(g *evidence.Proof) {
	outside, marked := v.NotPassed()
	for _, block := range outside {
		g.Lack("an IPPool that contains %s", block)
	}
	for _, block := range marked {
		g.Lack("no community NO_ADVERTISE on %s", block)
	}
}
