package rollout

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"k8s.io/utils/ptr"

	"github.com/rrpool/rrpool/controllers/plan"
	"github.com/rrpool/rrpool/controllers/plan/simulate"
	"github.com/rrpool/rrpool/controllers/plan/topology"
)

// writePeers makes our BGPPeers what they should be. A new one only adds sessions. A changed one restarts those it
// renders differently, so where nodes depend on reflectors the mesh takes over first.
func writePeers(v *view) *Step {
	if len(v.wanted) == 0 {
		return nil
	}
	add, change := v.peerWrites()
	switch {
	case v.arranged() && len(change.Actions) > 0: // what is added may select the same nodes, and has to render the same
		return v.underMesh(change)
	case len(add.Actions) > 0 && (!v.starting() || v.mayStart()):
		return add
	case len(change.Actions) > 0:
		return v.underMesh(change)
	}
	return nil
}

// peerWrites are those that only add sessions, and those that restart some.
func (v *view) peerWrites() (add, change *Step) {
	add, change = do("WritePeers", "clients and route reflectors need BGPPeers to find each other"+v.announcement()), do("RepairPeers", "")
	for _, want := range v.peers {
		have, ok := v.peer(want.Name)
		now, useful, restarts := want, true, false
		switch {
		case !ok:
		case fits(have, want):
			continue
		case v.arranged(): // what only ends sessions is left to narrow, unless the mesh must not go while they last
			now, useful, restarts = v.widen(have, want)
			restarts = restarts || !useful && v.BGP.MeshOn() && (isSingles(want) || v.multiplied() > 0)
		default:
			restarts = !onlyAdds(have, want) && (!sameOptions(have, want) || v.effect(want) != simulate.Change{})
		}
		switch {
		case restarts:
			change.Reason = fmt.Sprintf("BGPPeer %s is not as it should be", want.Name)
			v.addPrice(change)
			change.Actions = append(change.Actions, plan.PutPeer{Peer: want})
		case useful:
			add.Actions = append(add.Actions, plan.PutPeer{Peer: now})
		}
	}
	v.renewStrays(change)
	return add, change
}

// isSingles: the BGPPeer is one of Single's.
func isSingles(p plan.Peer) bool {
	return p.Name == topology.PeerClients || p.Name == topology.PeerReflectors
}

// announcement says what the first in-place reflector will cost, before it does.
func (v *view) announcement() string {
	if v.nextToPromote == nil || len(v.current) > 0 {
		return ""
	}
	return fmt.Sprintf("; node %s will be the first route reflector: %s", v.nextToPromote.Name, v.cost(*v.nextToPromote))
}

// renewStrays gives the BGPPeers of a topology that is on its way out the password and times of the others: where
// both select the same nodes, they have to render the same. On the way to Single the last slots may have been left
// already; then it waits for a mesh that something else needs, as the strays are about to go.
func (v *view) renewStrays(change *Step) {
	if !v.arranged() && !v.BGP.MeshOn() {
		return
	}
	s := v.session()
	for _, have := range v.Peers {
		if !v.isStray(have) || topology.IsPairPeer(have) {
			continue
		}
		want := have
		want.Password, want.MaxRestartTime = s.Password, s.MaxRestartTime
		if !plan.SamePeer(have, want) {
			change.Reason = cmp.Or(change.Reason, fmt.Sprintf("BGPPeer %s is not as it should be", have.Name))
			change.Actions = append(change.Actions, plan.PutPeer{Peer: want})
		}
	}
}

// fits: there is nothing to change. An older Calico does not know reversePeering
// and drops it: the first reflector then costs some seconds more, and that is all.
func fits(have, want plan.Peer) bool {
	have.Manual = have.Manual || want.Manual
	return plan.SamePeer(have, want)
}

// onlyAdds: a change that need not wait for the mesh. Between two reflectors the
// mesh could not help, and those sides that were held back have yet to begin.
func onlyAdds(have, want plan.Peer) bool {
	return topology.IsPairPeer(want) && ptr.Equal(have.Password, want.Password) && ptr.Equal(have.MaxRestartTime, want.MaxRestartTime) || have.Manual
}

// addPrice adds what a change of all sessions costs the pods of in-place reflectors, which the mesh does not carry.
func (v *view) addPrice(change *Step) {
	var names []string
	for _, n := range filter(v.group(), func(n plan.Node) bool { return !idle(n) && !v.d.Dedicated }) {
		names = append(names, n.Name)
		change.disrupt(n)
	}
	if len(names) > 0 {
		change.Reason += fmt.Sprintf("; the pods on %s cannot be reached for some seconds", strings.Join(names, ", "))
	}
}

// underMesh makes a change once the mesh carries what the sessions that it restarts carry.
func (v *view) underMesh(change *Step) *Step {
	if v.idling() {
		return change
	}
	if !v.BGP.MeshOn() {
		return do("RestoreMesh", change.Reason+": the mesh takes over while sessions restart", plan.RestoreMesh{})
	}
	if g := v.meshGate(); !g.open() {
		return v.orderMeanwhile(g.step("AwaitMesh", change.Reason+": the mesh must carry everything before sessions restart"))
	}
	return change
}

// orderMeanwhile adds to a wait what the pool lacks: machines take longer than sessions, and a dead reflector is not to wait for these.
func (v *view) orderMeanwhile(s *Step) *Step {
	if !v.d.Dedicated || v.Pool == nil {
		return s
	}
	want := v.pool
	want.Retire, want.Replace = nil, v.failed()
	if lacks := v.poolLacks(want.Replace); lacks != "" {
		s.Reason += "; meanwhile: " + lacks
		s.Actions = append(s.Actions, plan.EnsurePool{Want: want})
	}
	return s
}

// hasPeers reports whether a BGPPeer of ours exists.
func (v *view) hasPeers() bool {
	return slices.ContainsFunc(v.Peers, func(p plan.Peer) bool { return p.Owned })
}

// deleteStrayPeers removes BGPPeers of ours that the plan does not have, once the
// reflectors serve everyone without them.
func deleteStrayPeers(v *view) *Step {
	if v.arranged() && !v.complete() {
		return nil
	}
	for _, p := range v.Peers {
		if !v.isStray(p) || topology.IsPairPeer(p) {
			continue
		}
		reason := fmt.Sprintf("BGPPeer %s is ours and no longer needed", p.Name)
		if g := v.reflectorGate(v.wanted, 0); !g.open() {
			return g.step("AwaitSessions", reason)
		}
		return do("DeletePeers", reason, plan.DeletePeer{Name: p.Name})
	}
	return nil
}

// clearPaths removes BGPPeers of ours that the plan does not have while the paths multiply, and the mesh must not go.
func clearPaths(v *view) *Step {
	if !v.arranged() || !v.BGP.MeshOn() || v.multiplied() == 0 {
		return nil
	}
	s := do("DeletePeers", fmt.Sprintf("with BGPPeers that are ours and no longer needed a node has more than %d paths to each prefix", v.mostPaths()))
	for _, p := range v.Peers {
		if v.isStray(p) {
			s.Actions = append(s.Actions, plan.DeletePeer{Name: p.Name})
		}
	}
	if len(s.Actions) == 0 {
		return nil
	}
	return v.underMesh(s)
}

// clearForMesh lets nothing hold up deleteStrayPeerings while the mesh is on: two
// ordinary nodes with such a peer have their mesh session twice.
func clearForMesh(v *view) *Step {
	if !v.BGP.MeshOn() {
		return nil
	}
	return deleteStrayPeerings(v)
}

// deleteStrayPeerings removes peers between two nodes of which one has given its role back, as soon as that is
// known everywhere: then they render what is there anyway. Until they are gone no other node gives it back, because
// two ordinary nodes with such a peer would have their mesh session twice.
func deleteStrayPeerings(v *view) *Step {
	s := &Step{Name: "DeletePeers"}
	for _, p := range v.Peers {
		if topology.IsPairPeer(p) && v.isStray(p) {
			s.Reason = fmt.Sprintf("BGPPeer %s was for a change of role that is over", p.Name)
			s.Actions = append(s.Actions, plan.DeletePeer{Name: p.Name})
		}
	}
	if len(s.Actions) == 0 {
		return nil
	}
	v.stray = true
	wait := v.quiet
	if v.d.Timer {
		wait = timerWait
	}
	if left := cmp.Or(v.StraySince, v.now).Add(wait).Sub(v.now); left > 0 {
		return awaitTakeOver(wait, left, s.Name, s.Reason)
	}
	return s
}
