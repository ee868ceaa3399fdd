package rollout

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"k8s.io/utils/ptr"

	"github.com/rrpool/rrpool/controllers/plan"
	"github.com/rrpool/rrpool/controllers/plan/evidence"
	"github.com/rrpool/rrpool/controllers/plan/simulate"
	"github.com/rrpool/rrpool/controllers/plan/topology"
)

// Every two in-place reflectors have a peering: BGPPeers that make the one with the older role the reflector of the other. Before a node gets
// the role, it is made a client of all reflectors, which does not change what nodes render. Before a reflector gives the role back, it becomes
// a client of the others. While such a session is reversed, a third reflector that has both nodes as clients passes on their routes.

// peerings returns the BGPPeers by which client is a client of reflector.
func (t *target) peerings(reflector, client plan.Node) []plan.Peer {
	return topology.Peerings(reflector, client, cmp.Or(client.ASN, t.BGP.ASN), t.session())
}

// peer returns the BGPPeer of ours with this name.
func (t *target) peer(name string) (plan.Peer, bool) {
	return plan.First(t.Peers, func(p plan.Peer) bool { return p.Name == name && p.Owned })
}

// isReflectorOf reports whether client is a client of reflector in at least one address family. The nodes need not have the role.
func (t *target) isReflectorOf(reflector, client plan.Node) bool {
	return slices.ContainsFunc(t.peerings(reflector, client), t.isThere)
}

// isFullReflectorOf reports whether client is a client of reflector in every address family that both have.
func (t *target) isFullReflectorOf(reflector, client plan.Node) bool {
	peerings := t.peerings(reflector, client)
	return len(peerings) > 0 && len(plan.Filter(peerings, t.isThere)) == len(peerings)
}

// isThere reports whether rrpool has a BGPPeer with the name and the reflector of p.
func (t *target) isThere(p plan.Peer) bool {
	have, ok := t.peer(p.Name)
	return ok && have.Node == p.Node
}

// groupPeerings returns the BGPPeers between all pairs of nodes in the role. A pair that has BGPPeers keeps the direction that they have.
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

// connect gives in-place reflectors the BGPPeers without which they have no sessions at all, as reflectors are not in the mesh.
// It only adds sessions, so it waits for nothing, not even for a problem to be solved, and it does so on the way back as well.
func connect(v *view) *Step {
	s := &Step{Name: "WritePeers", Reason: "route reflectors have no sessions without them", Urgent: true}
	for _, want := range v.peers {
		have, owned := v.peer(want.Name)
		taken := slices.ContainsFunc(v.Peers, func(p plan.Peer) bool { return p.Name == want.Name })
		if !taken || owned && have.Manual && !want.Manual {
			s.Actions = append(s.Actions, plan.PutPeer{Peer: want})
		}
	}
	outside := slices.ContainsFunc(v.group(), func(n plan.Node) bool { return n.ClusterID != "" }) // a node with the label alone is still in the mesh
	if !outside || len(s.Actions) == 0 {
		return nil
	}
	return s
}

// writePeers creates and updates rrpool's BGPPeers. A new BGPPeer only adds sessions. A changed one restarts
// the sessions that it renders differently, so if nodes depend on reflectors the mesh takes over first.
func writePeers(v *view) *Step {
	if len(v.wanted) == 0 {
		return nil
	}
	add, change := v.peerWrites()
	switch {
	case v.arranged() && len(change.Actions) > 0: // changes first: a new BGPPeer may select the same nodes, and has to render the same
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

// peerWrite returns the form of a BGPPeer that may be written now. useful is
// false if writing it has no effect, restarts is true if it restarts sessions.
func (v *view) peerWrite(want plan.Peer) (now plan.Peer, useful, restarts bool) {
	have, ok := v.peer(want.Name)
	switch {
	case !ok:
		return want, true, false
	case fits(have, want):
		return want, false, false
	case v.arranged(): // rule Narrow writes what only ends sessions, unless the mesh must not go off while they last
		now, useful, restarts = v.widen(have, want)
		return now, useful, restarts || !useful && v.BGP.MeshOn() && (isOfSingle(want) || v.multiplied() > 0)
	}
	return want, true, !onlyAdds(have, want) && (!sameOptions(have, want) || v.effect(want) != simulate.Change{})
}

// isOfSingle reports whether a BGPPeer is one of topology Single.
func isOfSingle(p plan.Peer) bool {
	return p.Name == topology.PeerClients || p.Name == topology.PeerReflectors
}

// announcement says which node will be the first in-place reflector and what that will cost its pods, before it happens.
func (v *view) announcement() string {
	if v.nextToPromote == nil || len(v.Current) > 0 {
		return ""
	}
	return fmt.Sprintf("; node %s will be the first route reflector: %s", v.nextToPromote.Name, v.cost(*v.nextToPromote))
}

// renewStrays gives the BGPPeers of a topology that is being left the password and times of the others: if
// both select the same nodes, they have to render the same. If the slots of that topology are empty already,
// its BGPPeers are about to be deleted, so renewStrays then changes them only while the mesh is on.
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

// fits reports whether have needs no change to become want. A missing reversePeering is no difference:
// an older Calico drops that field, and then the first reflector only costs some seconds more.
func fits(have, want plan.Peer) bool {
	have.Manual = have.Manual || want.Manual
	return plan.SamePeer(have, want)
}

// onlyAdds reports whether a change need not wait for the mesh: the BGPPeer is between two reflectors,
// which the mesh could not help, or its side of the sessions was held back and has yet to begin.
func onlyAdds(have, want plan.Peer) bool {
	return topology.IsPairPeer(want) && ptr.Equal(have.Password, want.Password) && ptr.Equal(have.MaxRestartTime, want.MaxRestartTime) || have.Manual
}

// addPrice adds what a restart of all sessions costs the pods of in-place reflectors. The mesh does not carry these nodes.
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
	return p.Owned && !slices.ContainsFunc(v.planned, func(w plan.Peer) bool { return w.Name == p.Name })
}

// deleteStrayPeers deletes rrpool's BGPPeers that are not planned, once the reflectors serve every node without them.
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

// clearPaths deletes rrpool's BGPPeers that are not planned while they multiply the paths: the mesh must not go off before.
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

// deleteStrayPeerings deletes BGPPeers between two nodes of which one has given its role back, once every node knows that: these BGPPeers
// then render only sessions that exist without them. Until they are gone no other node gives its role back, as two ordinary nodes with
// such a BGPPeer would have their mesh session twice. While the mesh is on, this rule comes before the rules that change roles.
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

// strayPeerings returns the names of rrpool's BGPPeers between two nodes that are not planned: one of the nodes has given its role back.
func (v *view) strayPeerings() []string {
	var out []string
	for _, p := range v.Peers {
		if topology.IsPairPeer(p) && v.isStray(p) {
			out = append(out, p.Name)
		}
	}
	return out
}

// reselect makes BGPPeers of in-place reflectors select by the label that spec.bgp.nodeLabel names now. The former label
// stays on its nodes: a BGPPeer that selects by it would make a node that has given the role back a neighbour of reflectors.
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
