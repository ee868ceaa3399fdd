package rollout

import (
	"fmt"
	"slices"
	"strings"

	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/controllers/plan"
	"github.com/rrpool/rrpool/controllers/plan/evidence"
	"github.com/rrpool/rrpool/controllers/plan/topology"
)

// healRoles gives a reflector back the label or cluster ID that others have removed. The removal has ended
// the reflector's sessions already, so this only adds sessions. It is done on the way back too: otherwise
// an in-place node with half a role would give the role back with sessions that nothing expects.
func healRoles(v *view) *Step {
	if v.d.Dedicated && v.d.Mode == v1alpha1.ModeFullMesh {
		return nil
	}
	s := do("HealReflectors", "")
	nodes := v.wanted
	if !v.d.Dedicated {
		nodes = v.Current // half a role is worse than all of it or none, even on a node that is to go
	}
	for _, n := range nodes {
		if v.isRoleIncomplete(n) {
			s.Reason = fmt.Sprintf("route reflector %s has lost its label or cluster ID", n.Name)
			if !v.d.Dedicated && !v.hasReflector(n) {
				v.addCost(s, "; with it all its sessions start anew: ", n)
			}
			s.Actions = append(s.Actions, v.setReflector(n))
		}
	}
	return s.ifAny()
}

// relabel gives reflectors the label that spec.bgp.nodeLabel names now, and leaves the former one. Once all nodes know of
// the new label, BGPPeers that select by it render the same sessions. On the way back only in-place reflectors need it.
func relabel(v *view) *Step {
	if v.d.Mode == v1alpha1.ModeFullMesh && (v.d.Dedicated || !v.hasFormerLabel()) {
		return nil
	}
	s := do("HealReflectors", "spec.bgp.nodeLabel has changed: the route reflectors get the new label before BGPPeers select by it")
	for _, n := range v.Current {
		if n.Relabel && n.HasLabelAndID() {
			s.Actions = append(s.Actions, plan.SetReflector{Node: n.Name, ClusterID: n.ClusterID, Slot: n.Slot})
		}
	}
	if left := v.ev.TakenOver(); len(s.Actions) == 0 && v.hasFormerLabel() && left > 0 {
		return awaitTakeOver(v.ev.Quiet, left, s.Name, s.Reason)
	}
	return s.ifAny()
}

// hasFormerLabel reports whether a BGPPeer of ours selects by another role label than spec.bgp.nodeLabel names now.
func (v *view) hasFormerLabel() bool {
	return slices.ContainsFunc(v.Peers, func(p plan.Peer) bool { return p.Owned && topology.RoleLabel(p, v.d.RoleLabel) != v.d.RoleLabel })
}

// isRoleIncomplete reports whether a reflector lacks the role label, the cluster ID or rrpool's annotation. An
// in-place node that has lost both label and cluster ID is an ordinary client again, and is promoted like one.
func (v *view) isRoleIncomplete(n plan.Node) bool {
	if !n.IsOurs() || !v.d.Dedicated && !n.HasRoleLabel && n.ClusterID == "" {
		return false
	}
	return !n.HasLabelAndID() || !n.Marked
}

// changeID gives a reflector the wanted cluster ID. Reflectors still work
// with their old one, so they change one at a time, while the others serve.
func changeID(v *view) *Step {
	n, ok := plan.First(v.wanted, func(n plan.Node) bool { return n.IsOurs() && n.ClusterID != v.clusterID })
	if !ok {
		return nil
	}
	change := do("ChangeClusterID", fmt.Sprintf("route reflector %s has cluster ID %s instead of %s", n.Name, n.ClusterID, v.clusterID), v.setReflector(n))
	if !v.d.Dedicated {
		v.addCost(change, "; with the right one all its sessions start anew: ", n)
	}
	rest := plan.Others(v.wanted, n)
	if len(rest) == 0 {
		return v.underMesh(change)
	}
	if !v.ev.IsIdle() {
		if g := v.ev.Prove(evidence.Claim{Reflectors: rest, AsConfigured: true}); !g.IsComplete() {
			return await(g, change.Name, change.Reason+", and the others must serve while it changes")
		}
	}
	return change
}

// promote gives the role to dedicated nodes that are Ready. They run no workloads, so their own sessions may restart. At
// the start of a migration it waits for all of them: if the pool never becomes complete, the cluster stays as it was.
func promote(v *view) *Step {
	if v.isStarting() && !v.mayStart() {
		return nil
	}
	s := &Step{Name: "PromoteReflectors"}
	for _, n := range v.wanted {
		if plan.Usable(n) && !n.IsOurs() && !v.isUntainted(n) {
			s.Actions = append(s.Actions, v.setReflector(n))
		}
	}
	if len(s.Actions) == 0 {
		return nil
	}
	if left := v.untilScopedPeersRendered(); left > 0 {
		return awaitTakeOver(v.ev.Quiet, left, s.Name, "the reflectors of the topology that is left must not connect to the new ones")
	}
	s.Reason = fmt.Sprintf("%d dedicated nodes are Ready and run no workloads", len(s.Actions))
	return s
}

// mayStart reports whether all wanted nodes are Ready and, if they are dedicated, the pool is known to be as wanted.
func (v *view) mayStart() bool {
	if !v.d.Dedicated {
		return v.isReady() && len(v.Clients) > v.total // without a client the mesh could never go off
	}
	return v.isReady() && v.Pool != nil && v.Pool.Drifted == ""
}

// isUntainted reports whether a dedicated node lacks the taint: workloads may
// then run on it, and would lose their routes when the node gets the role.
func (v *view) isUntainted(n plan.Node) bool {
	return v.d.Taint != "" && n.LacksTaint(v.d.Taint)
}

// demote takes the role from the reflectors, one per step, once the mesh carries every pair of nodes.
func demote(v *view) *Step {
	if len(v.Current) == 0 {
		return nil
	}
	g, silent := v.ev.ProveMesh(), ""
	if n := v.ev.CountSilent(); n > 0 {
		silent = fmt.Sprintf(" (%d with Windows report no sessions: the other nodes' reports show theirs)", n)
	}
	if !g.IsComplete() {
		return await(g, "AwaitMesh", "the route reflectors serve until the mesh carries every pair of nodes"+silent)
	}
	reason := fmt.Sprintf("the mesh carries all %d nodes%s", len(v.Clients), silent)
	s := do("DemoteReflectors", reason, plan.ClearReflector{Node: v.Current[0].Name})
	if !v.d.Dedicated {
		s = v.release(*v.nextToDemote, s.Name, fmt.Sprintf("%s: node %s gives the role back", reason, v.nextToDemote.Name))
	}
	s.Watch, s.Proven = g.Watch, g.Proven
	return s
}

// removeSurplus takes the role from dedicated reflectors that are not wanted, one at a
// time. The worker of such a reflector goes before the next reflector gives up its role.
func removeSurplus(v *view) *Step {
	surplus := v.surplus()
	if v.Pool == nil || len(surplus) == 0 {
		return nil
	}
	return v.removeReflector(surplus[0])
}

// removeReflector takes the role from one node, once the wanted ones have served everyone for the removal delay.
func (v *view) removeReflector(n plan.Node) *Step {
	reason := fmt.Sprintf("route reflector %s is more than the %d wanted", n.Name, v.total)
	if v.isLeaving(n) {
		reason = fmt.Sprintf("route reflector %s is cordoned, outdated or about to go, and another reflects in its place", n.Name)
	}
	if !v.d.Dedicated {
		if why := v.unfit(v.rules(), n); why != "" {
			reason = fmt.Sprintf("route reflector %s goes: %s", n.Name, why)
		}
	}
	g := v.ev.Prove(evidence.Claim{Reflectors: v.wanted, Least: v.d.RemovalDelay})
	if g.AreSessionsUp() {
		g.With(v.ev.ProveRoutes())
	}
	v.lackPeering(g, n)
	if !g.IsComplete() {
		return await(g, "RemoveReflector", reason+", the others must have served everyone for the removal delay")
	}
	s := do("RemoveReflector", reason, plan.ClearReflector{Node: n.Name})
	if !v.d.Dedicated {
		s = v.release(n, s.Name, reason)
	}
	s.Watch = g.Watch
	return s
}

// surplus returns the reflectors that are not wanted, in the order in which they go.
func (v *view) surplus() []plan.Node {
	out := plan.Filter(v.Current, func(n plan.Node) bool { return !v.isWanted(n) })
	slices.SortStableFunc(out, func(a, b plan.Node) int { return plan.TrueFirst(!a.Ready, !b.Ready) })
	return out
}

// lackPeering adds to g the ClusterPeerings whose only Established session is on n.
func (v *view) lackPeering(g *evidence.Proof, n plan.Node) {
	for _, p := range v.Peers {
		if p.Peering != "" && p.Node == n.Name && v.ev.IsEstablished(p) && !v.isPeeredElsewhere(p) {
			g.Lack("ClusterPeering %s to have an Established session of another route reflector than %s", p.Peering, n.Name)
		}
	}
}

// peeringOn returns a BGPPeer of a ClusterPeering on n, if n can use it and another node has an Established session of the
// same ClusterPeering. Such a BGPPeer is about to be deleted. If no other node has a session, nothing is lost with the worker.
func (v *view) peeringOn(n plan.Node) (plan.Peer, bool) {
	return plan.First(v.Peers, func(p plan.Peer) bool {
		return p.Peering != "" && p.Node == n.Name && plan.Usable(n) && v.isPeeredElsewhere(p)
	})
}

// isPeeredElsewhere reports whether another node has an Established session of the same ClusterPeering.
func (v *view) isPeeredElsewhere(p plan.Peer) bool {
	return slices.ContainsFunc(v.Peers, func(q plan.Peer) bool { return q.Peering == p.Peering && q.Node != p.Node && v.ev.IsEstablished(q) })
}

// RemoveStrayLabel is the name of the step that removes rrpool's label from a node that is no reflector.
const RemoveStrayLabel = "RemoveStrayLabel"

// isStrayLabel reports whether a node carries our label and is no reflector.
func (v *view) isStrayLabel(n plan.Node) bool {
	return n.HasRoleLabel && n.ClusterID == "" && (!n.IsOurs() || v.ev.IsMislabelled(n))
}

// strayLabels removes rrpool's label from nodes that others put it on. Such a node has no cluster ID
// and reflects nothing. If the mesh is on and rrpool has BGPPeers, the label has replaced the node's
// mesh sessions by others, and its removal restarts them once more. That needs reflectors that serve.
func strayLabels(v *view) *Step {
	n, ok := plan.First(v.Nodes, func(n plan.Node) bool { return v.isStrayLabel(n) && !v.keepsLabel(n) })
	if !ok || !strings.HasPrefix(v.d.RoleLabel, ownPrefix) {
		return nil // a label of the user's choice may be in use for something else as well
	}
	s := do(RemoveStrayLabel, fmt.Sprintf("node %s carries the reflector label but is no reflector", n.Name), plan.ClearReflector{Node: n.Name})
	if v.ev.IsMislabelled(n) && v.hasOwnPeers() {
		v.addCost(s, "; without it all its sessions start anew: ", n)
	}
	if !v.BGP.MeshOn() || !v.hasOwnPeers() {
		return s
	}
	return v.onceServed(s)
}

// onceServed holds back the removal of a label until the reflectors serve all other nodes. While sessions are missing it returns nil, so that the
// rules that bring them up come first. On the way back no rule does: it then waits, or if no reflector serves, does not hold the removal back.
func (v *view) onceServed(s *Step) *Step {
	g := v.ev.Prove(evidence.Claim{
		Reflectors: v.ev.Serving(), Clients: slices.DeleteFunc(slices.Clone(v.Clients), v.ev.IsMislabelled), AsConfigured: true,
	})
	switch {
	case g.IsComplete():
		return s
	case g.AreSessionsUp(), v.d.Mode == v1alpha1.ModeFullMesh && len(v.ev.Serving()) > 0:
		return await(g, s.Name, s.Reason+", which waits for the reflectors to serve")
	case v.d.Mode == v1alpha1.ModeFullMesh:
		return s
	}
	return nil
}

// keepsLabel reports whether a stray label is left for now, as others put it on again and again.
func (v *view) keepsLabel(n plan.Node) bool {
	times := v.Removed[n.Name]
	if len(times) < mostReversals {
		return false
	}
	return !v.clock.Passed(times[len(times)-1], doubled(len(times), labelPause, longestLabelPause))
}

// labelled names the nodes whose stray label is left for now.
func (v *view) labelled() (names []string) {
	for name := range v.Removed { // mostly none
		if n, ok := plan.First(v.Nodes, func(n plan.Node) bool { return n.Name == name }); ok && v.isStrayLabel(n) && v.keepsLabel(n) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// awaitReports waits for reflectors that do not report, or whose reports cannot be read.
func awaitReports(v *view) *Step {
	why, missing := v.ev.Unreported()
	if len(missing) == 0 {
		return nil
	}
	return &Step{Name: "AskReflectors", Again: evidence.Poll, Awaits: AwaitsSessions, Reason: why, WaitingFor: missing}
}
