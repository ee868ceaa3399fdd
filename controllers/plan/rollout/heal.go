package rollout

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"k8s.io/utils/ptr"

	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/controllers/plan"
	"github.com/rrpool/rrpool/controllers/plan/topology"
)

// lastOneAfter is how long a single reflector may be alone in serving. Switching
// the mesh on costs nothing while it does, and everything once it is gone.
const lastOneAfter = 5 * time.Second

// safetyNet switches the mesh on when too few reflectors serve, or none serves a node. It only ever
// adds sessions. Once none serves it does not wait, but for one that has just come back.
func safetyNet(v *view) *Step {
	if v.BGP.MeshOn() || !v.relied() || len(v.clients)+len(v.unready) < 2 && v.d.Dedicated {
		return nil
	}
	least, reflectors := v.leastServing(), v.carrying()
	serving := v.servingFor(reflectors, least)
	v.tooFew = v.noneWithout(v.suspect) // nothing slow is to come between this and the answer
	// Where each serves some nodes only, no more can than there are so far. That takes long to count.
	if serving >= least || v.arranged() && serving >= max(v.servingFor(v.current, least), 1) {
		return v.reconnect()
	}
	v.tooFew = true
	waits := serving > 0 || v.comesBack(reflectors, least)
	if left := v.patience(serving, least); waits && left > 0 {
		// The wait is no step of its own: a repair may go on meanwhile.
		v.lookIn(left)
		return v.reconnect()
	}
	s := do("RestoreMesh", fmt.Sprintf("%s, at least %d should: the mesh takes over until they are back", v.shortage(serving), least), plan.RestoreMesh{})
	s.Urgent = true
	return s
}

// servingFor is how many of these reflectors serve, as far as it matters up to least:
// where each serves some nodes only, how many keep any two nodes in touch.
func (v *view) servingFor(reflectors []plan.Node, least int) int {
	if !v.arranged() {
		return len(reflectors)
	}
	return v.depthAmong(reflectors, least, func(plan.Node) bool { return true })
}

// comesBack: what is missing comes back as soon without the mesh. A calico-node is Ready again; or the reflectors serve
// as they should all those that any BGPPeer gives sessions, and the others have lost theirs to an edit, which is repaired.
func (v *view) comesBack(reflectors []plan.Node, least int) bool {
	peered := func(n plan.Node) bool { return v.arrangement.now.Sessions(n.Name) > 0 }
	return v.arranged() && v.depthAmong(reflectors, least, peered) >= least || slices.ContainsFunc(v.current, v.returning)
}

func (v *view) shortage(serving int) string {
	stopped := v.notRunning()
	switch {
	case len(stopped) > 0:
		return NotRunning(stopped, len(v.current))
	case v.arranged() && serving == 0:
		return "no route reflector that serves keeps some of the nodes in touch"
	case v.arranged():
		return fmt.Sprintf("only %d route reflectors that serve keep some of the nodes in touch", serving)
	}
	return fmt.Sprintf("only %d route reflectors serve", serving)
}

// patience is how long too few reflectors may go on serving.
func (v *view) patience(serving, least int) time.Duration {
	var since time.Time
	for _, n := range v.current {
		if !v.serves(n) {
			since = latest(since, v.silentSince(n))
		}
	}
	if since.IsZero() || !v.ShortSince.IsZero() && v.ShortSince.Before(since) {
		since = v.ShortSince // those that are gone left no date, and one that flaps a new one each time
	}
	left := v.d.NetAfter
	if serving == 1 {
		left = min(left, lastOneAfter)
	}
	if v.restartsExplain(least) {
		left = max(left, restartTime)
	}
	if since.IsZero() {
		return left
	}
	return since.Add(left).Sub(v.now)
}

// Relied reports whether the mesh is off by our doing: the note on the BGPConfiguration says so, or should it be lost, a
// BGPPeer of ours. These are written under the mesh only, and are left when the reflectors are gone as well.
func Relied(c plan.Cluster) bool {
	return c.BGP.Saved != nil || slices.ContainsFunc(c.Peers, func(p plan.Peer) bool { return p.Owned })
}

func (v *view) relied() bool { return Relied(v.Cluster) }

// noteMesh writes the note again by which the mesh comes back as it was. What it said is lost; our BGPPeers have taken
// over the password and times.
func noteMesh(v *view) *Step {
	why := "is gone"
	if v.BGP.SavedUnread != "" {
		why = "cannot be read (" + v.BGP.SavedUnread + ")"
	}
	if v.BGP.MeshOn() || v.BGP.Saved != nil && v.BGP.SavedUnread == "" || !v.relied() {
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

// leastServing is the smallest number of reflectors that may serve. While the
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
		least = min(least, max(2, len(v.current)))
	}
	return least
}

// silentSince is when a reflector stopped serving, as far as is known.
func (v *view) silentSince(n plan.Node) time.Time {
	if !n.Ready {
		return n.ReadyChanged
	}
	if st, ok := v.Statuses[n.Name]; cleared(st) {
		return st.Cleared
	} else if (!ok || v.d.Timer) && n.CalicoNode.Failing() {
		return n.CalicoNode.Since
	}
	var since time.Time
	for _, s := range v.Statuses[n.Name].Sessions {
		if !s.Established && isPeer(s.Kind) && v.clientAddrs.Has(s.Peer) {
			since = latest(since, s.Since)
		}
	}
	return since
}

// healRoles puts back what was taken from a reflector by others. It has lost its
// sessions with that already, so putting it back only adds. On the way back an in-place
// node with half a role would otherwise give it back with sessions that nothing expects.
func healRoles(v *view) *Step {
	if v.d.Dedicated && v.d.Mode == v1alpha1.ModeFullMesh {
		return nil
	}
	s := do("HealReflectors", "")
	nodes := v.wanted
	if !v.d.Dedicated {
		nodes = v.current // half a role is worse than either, even on a node that is to go
	}
	for _, n := range nodes {
		if v.losesRole(n) {
			s.Reason = fmt.Sprintf("route reflector %s has lost its label or cluster ID", n.Name)
			if !v.d.Dedicated && !v.hasReflector(n) {
				v.addCost(s, "; with it all its sessions start anew: ", n)
			}
			s.Actions = append(s.Actions, v.setReflector(n))
		}
	}
	return s.ifAny()
}

// relabel gives reflectors the label that spec.bgp.nodeLabel names now, beside the former.
// Once all nodes know of it, BGPPeers that select by it render the same sessions.
func relabel(v *view) *Step {
	s := do("HealReflectors", "spec.bgp.nodeLabel has changed: the route reflectors get the new label before BGPPeers select by it")
	for _, n := range v.current {
		if n.Relabel && hasRole(n) {
			s.Actions = append(s.Actions, plan.SetReflector{Node: n.Name, ClusterID: n.ClusterID, Slot: n.Slot})
		}
	}
	if left := v.lastWrite().Add(v.quiet).Sub(v.now); len(s.Actions) == 0 && v.formerLabel() && left > 0 {
		return awaitTakeOver(v.quiet, left, s.Name, s.Reason)
	}
	return s.ifAny()
}

// formerLabel: a BGPPeer of ours selects by another role label than spec.bgp.nodeLabel names now.
func (v *view) formerLabel() bool {
	return slices.ContainsFunc(v.Peers, func(p plan.Peer) bool { return p.Owned && topology.RoleLabel(p, v.d.RoleLabel) != v.d.RoleLabel })
}

// losesRole: part of what makes the node a reflector is gone. An in-place node that has
// lost all but our mark is an ordinary client again, and promoted as such.
func (v *view) losesRole(n plan.Node) bool {
	if !n.IsOurs() || !v.d.Dedicated && !n.HasRoleLabel && n.ClusterID == "" {
		return false
	}
	return !hasRole(n) || !n.Marked
}

// changeID gives a reflector the wanted cluster ID. With its old one it still
// works, so they change one at a time, while the others serve.
func changeID(v *view) *Step {
	if v.arranged() {
		return nil // see reassign
	}
	n, ok := first(v.wanted, func(n plan.Node) bool { return n.IsOurs() && n.ClusterID != v.d.ClusterID })
	if !ok {
		return nil
	}
	change := do("ChangeClusterID", fmt.Sprintf("route reflector %s has cluster ID %s instead of %s", n.Name, n.ClusterID, v.d.ClusterID), v.setReflector(n))
	if !v.d.Dedicated {
		v.addCost(change, "; with the right one all its sessions start anew: ", n)
	}
	rest := others(v.wanted, n)
	if len(rest) == 0 {
		return v.underMesh(change)
	}
	if !v.idling() {
		if g := v.nowGate(rest); !g.open() {
			return g.step(change.Name, change.Reason+", and the others must serve while it changes")
		}
	}
	return change
}
