package rollout

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"sync"

	"k8s.io/utils/ptr"

	"github.com/rrpool/rrpool/controllers/plan"
	"github.com/rrpool/rrpool/controllers/plan/evidence"
	"github.com/rrpool/rrpool/controllers/plan/simulate"
	"github.com/rrpool/rrpool/controllers/plan/topology"
)

// Every two in-place reflectors have a peering: a BGPPeer by which the one that has had the role for longer is the
// other's reflector. A node that gets the role is made a client of all reflectors first, which renders what was
// there already. A reflector that gives the role back becomes a client of the others first. A third reflector, of
// which both are clients, passes their routes on while such a session is reversed.

// peerings returns the BGPPeers by which client is a client of reflector.
func (t *target) peerings(reflector, client plan.Node) []plan.Peer {
	return topology.Peerings(reflector, client, cmp.Or(client.ASN, t.BGP.ASN), t.session())
}

// peer returns the BGPPeer of ours with this name.
func (t *target) peer(name string) (plan.Peer, bool) {
	return plan.First(t.Peers, func(p plan.Peer) bool { return p.Name == name && p.Owned })
}

// isReflectorOf reports whether client is a client of reflector in some address family, in the role or not.
func (t *target) isReflectorOf(reflector, client plan.Node) bool {
	return slices.ContainsFunc(t.peerings(reflector, client), t.isThere)
}

// isFullReflectorOf reports whether client is a client of reflector in every address family that both have.
func (t *target) isFullReflectorOf(reflector, client plan.Node) bool {
	peerings := t.peerings(reflector, client)
	return len(peerings) > 0 && len(plan.Filter(peerings, t.isThere)) == len(peerings)
}

// isThere reports whether a peering exists, with the same reflector.
func (t *target) isThere(p plan.Peer) bool {
	have, ok := t.peer(p.Name)
	return ok && have.Node == p.Node
}

// groupPeerings returns the BGPPeers between the nodes in the role. What exists stays as it is.
func (t *target) groupPeerings() []plan.Peer {
	var out []plan.Peer
	group := t.group()
	for i, a := range group {
		for _, b := range group[i+1:] {
			if t.isReflectorOf(b, a) {
				out = append(out, t.peerings(b, a)...)
			} else {
				out = append(out, t.peerings(a, b)...)
			}
		}
	}
	return out
}

// connect gives in-place reflectors the peers without which they have no sessions at all: they are not in the mesh.
// It only adds, and waits for nothing, neither for a problem to be solved nor for the way back.
func connect(v *view) *Step {
	s := &Step{Name: "WritePeers", Reason: "route reflectors have no sessions without them", Urgent: true}
	for _, want := range v.peers {
		have, owned := v.peer(want.Name)
		taken := slices.ContainsFunc(v.Peers, func(p plan.Peer) bool { return p.Name == want.Name })
		if !taken || owned && have.Manual && !want.Manual {
			s.Actions = append(s.Actions, plan.PutPeer{Peer: want})
		}
	}
	outside := slices.ContainsFunc(v.group(), func(n plan.Node) bool { return n.ClusterID != "" }) // one with the label alone is in the mesh
	if !outside || len(s.Actions) == 0 {
		return nil
	}
	return s
}

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
	case len(add.Actions) > 0 && (!v.isStarting() || v.mayStart()):
		return add
	case len(change.Actions) > 0:
		return v.underMesh(change)
	}
	return nil
}

// peerWrites returns the writes that only add sessions, and those that restart some.
func (v *view) peerWrites() (add, change *Step) {
	add, change = do("WritePeers", "clients and route reflectors need BGPPeers to find each other"+v.announcement()), do("RepairPeers", "")
	for _, want := range v.peers {
		now, useful, restarts := v.peerWrite(want)
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

// peerWrite returns what may be written of a BGPPeer now; useful is false where that does nothing, restarts is true where sessions start anew.
func (v *view) peerWrite(want plan.Peer) (now plan.Peer, useful, restarts bool) {
	have, ok := v.peer(want.Name)
	switch {
	case !ok:
		return want, true, false
	case fits(have, want):
		return want, false, false
	case v.arranged(): // what only ends sessions is left to narrow, unless the mesh must not go while they last
		now, useful, restarts = v.widen(have, want)
		return now, useful, restarts || !useful && v.BGP.MeshOn() && (isOfSingle(want) || v.multiplied() > 0)
	}
	return want, true, !onlyAdds(have, want) && (!sameOptions(have, want) || v.effect(want) != simulate.Change{})
}

// isOfSingle reports whether a BGPPeer is one of topology Single.
func isOfSingle(p plan.Peer) bool {
	return p.Name == topology.PeerClients || p.Name == topology.PeerReflectors
}

// announcement returns what the first in-place reflector will cost, before it does.
func (v *view) announcement() string {
	if v.nextToPromote == nil || len(v.Current) > 0 {
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

// fits reports whether there is nothing to change. An older Calico does not know reversePeering
// and drops it: the first reflector then costs some seconds more, and that is all.
func fits(have, want plan.Peer) bool {
	have.Manual = have.Manual || want.Manual
	return plan.SamePeer(have, want)
}

// onlyAdds reports whether a change need not wait for the mesh. Between two reflectors the
// mesh could not help, and those sides that were held back have yet to begin.
func onlyAdds(have, want plan.Peer) bool {
	return topology.IsPairPeer(want) && ptr.Equal(have.Password, want.Password) && ptr.Equal(have.MaxRestartTime, want.MaxRestartTime) || have.Manual
}

// addPrice adds what a change of all sessions costs the pods of in-place reflectors, which the mesh does not carry.
func (v *view) addPrice(change *Step) {
	var names []string
	for _, n := range plan.Filter(v.group(), func(n plan.Node) bool { return !runsNothing(n) && !v.d.Dedicated }) {
		names = append(names, n.Name)
		change.disrupt(n)
	}
	if len(names) > 0 {
		change.Reason += fmt.Sprintf("; the pods on %s cannot be reached for some seconds", strings.Join(names, ", "))
	}
}

// hasOwnPeers reports whether a BGPPeer of ours exists.
func (v *view) hasOwnPeers() bool {
	return slices.ContainsFunc(v.Peers, func(p plan.Peer) bool { return p.Owned })
}

// isStray reports whether a BGPPeer is ours, is not wanted, and prepares no promotion.
func (v *view) isStray(p plan.Peer) bool {
	return p.Owned && !slices.ContainsFunc(v.planned(), func(w plan.Peer) bool { return w.Name == p.Name })
}

// planned returns the BGPPeers that are wanted, and those that prepare the next promotion.
func (v *view) planned() []plan.Peer {
	if v.nextToPromote == nil {
		return v.peers
	}
	return append(slices.Clone(v.peers), v.peeringsAsClient(*v.nextToPromote)...)
}

// deleteStrayPeers removes BGPPeers of ours that the plan does not have, once the
// reflectors serve everyone without them.
func deleteStrayPeers(v *view) *Step {
	if v.arranged() && !v.isComplete() {
		return nil
	}
	for _, p := range v.Peers {
		if !v.isStray(p) || topology.IsPairPeer(p) {
			continue
		}
		reason := fmt.Sprintf("BGPPeer %s is ours and no longer needed", p.Name)
		if g := v.ev.Prove(evidence.Claim{Reflectors: v.wanted}); !g.IsComplete() {
			return await(g, "AwaitSessions", reason)
		}
		return do("DeletePeers", reason, plan.DeletePeer{Name: p.Name})
	}
	return nil
}

// clearPaths removes BGPPeers of ours that the plan does not have while the paths multiply, and the mesh must not go.
func clearPaths(v *view) *Step {
	if v.multiplied() == 0 {
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

// deleteStrayPeerings removes peers between two nodes of which one has given its role back, as soon as that is
// known everywhere: then they render what is there anyway. Until they are gone no other node gives it back, because
// two ordinary nodes with such a peer would have their mesh session twice. While the mesh is on, nothing comes before that.
func deleteStrayPeerings(v *view) *Step {
	strays := v.strayPeerings()
	if len(strays) == 0 {
		return nil
	}
	s := &Step{Name: "DeletePeers", Reason: fmt.Sprintf("BGPPeer %s was for a change of role that is over", strays[len(strays)-1])}
	for _, name := range strays {
		s.Actions = append(s.Actions, plan.DeletePeer{Name: name})
	}
	wait := v.ev.Quiet
	if v.d.Timer {
		wait = evidence.TimerWait
	}
	if left := wait - v.clock.Since(cmp.Or(v.StraySince, v.clock.Now())); left > 0 {
		return awaitTakeOver(wait, left, s.Name, s.Reason)
	}
	return s
}

// strayPeerings returns the names of BGPPeers between two nodes of which one has given its role back.
func (v *view) strayPeerings() []string {
	var out []string
	planned := sync.OnceValue(v.planned) // mostly there is no such peer
	for _, p := range v.Peers {
		if topology.IsPairPeer(p) && p.Owned && !slices.ContainsFunc(planned(), func(w plan.Peer) bool { return w.Name == p.Name }) {
			out = append(out, p.Name)
		}
	}
	return out
}

// reselect lets BGPPeers of in-place reflectors select by the label that spec.bgp.nodeLabel names now. The former one
// stays on its nodes, and would make a node a neighbour of reflectors that has given the role back.
func reselect(v *view) *Step {
	if !v.hasFormerLabel() {
		return nil
	}
	s := do("RepairPeers", "spec.bgp.nodeLabel has changed: the BGPPeers select by it before a node gives the role back")
	for _, want := range v.peers {
		if have, ok := v.peer(want.Name); ok && !fits(have, want) && v.effect(want) == (simulate.Change{}) {
			s.Actions = append(s.Actions, plan.PutPeer{Peer: want})
		}
	}
	return s.ifAny()
}

// deletePeers removes our BGPPeers: without reflectors they select nothing.
func deletePeers(v *view) *Step {
	s := do("DeletePeers", "no route reflector is left for the BGPPeers to select")
	for _, p := range v.Peers {
		if p.Owned {
			s.Actions = append(s.Actions, plan.DeletePeer{Name: p.Name})
		}
	}
	return s.ifAny()
}
