package rollout

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/controllers/plan"
	"github.com/rrpool/rrpool/controllers/plan/evidence"
	"github.com/rrpool/rrpool/controllers/plan/simulate"
	"github.com/rrpool/rrpool/controllers/plan/topology"
)

// reassign moves reflectors from the slot they have to the one they should have. If the new slot ends and
// restarts no session, the reflector gets it without waiting. Otherwise all sessions of the reflector
// start anew, so reflectors move one at a time, while the others keep every two clients connected.
func reassign(v *view) *Step {
	misplaced := v.misplaced()
	if len(misplaced) == 0 {
		return nil
	}
	if s := v.rename(misplaced); s != nil {
		return s
	}
	if v.BGP.MeshOn() || len(v.ev.Serving()) == 0 {
		return v.moveAll(misplaced)
	}
	return v.moveOne(misplaced)
}

// moveAll moves all misplaced reflectors in one step, while the mesh carries the routes.
func (v *view) moveAll(misplaced []plan.Node) *Step {
	s := do("MoveReflectors", "the route reflectors change their slots, and too few of them could go on serving meanwhile")
	for _, n := range misplaced {
		s.Actions = append(s.Actions, v.setReflector(n))
	}
	return v.underMesh(s)
}

// meshAnyway is the number of clients up to which the mesh takes over if there
// are too few reflectors to move one at a time. A mesh of that size does no harm.
const meshAnyway = 100

// misplaced returns the reflectors that have another slot than they should, in the order in which
// their slots are to be filled.
func (v *view) misplaced() []plan.Node {
	var out []plan.Node
	for _, s := range v.arrangement.Slots {
		n, ok := plan.First(v.wanted, func(n plan.Node) bool { return n.Name == s.Node })
		if ok && n.IsOurs() && !v.isRoleIncomplete(n) && !v.inAssignedSlot(n) {
			out = append(out, n)
		}
	}
	return out
}

// rename gives their slots to those misplaced reflectors that neither lose nor restart a session by that.
func (v *view) rename(misplaced []plan.Node) *Step {
	s := do("MoveReflectors", "the slots of the topology are others; no session ends by that")
	nodes := slices.Clone(v.Nodes)
	for _, n := range misplaced {
		slot, id := v.slot(n)
		if id != n.ClusterID {
			continue
		}
		next := slices.Clone(nodes)
		i := slices.IndexFunc(next, func(x plan.Node) bool { return x.Name == n.Name })
		next[i] = withSlot(next[i], slot, id)
		if change := simulate.Compare(v.arrangement.is, v.configuration(next, v.Peers)); change.Removed == 0 && change.Restarted == 0 {
			nodes = next
			s.Actions = append(s.Actions, v.setReflector(n))
		}
	}
	return s.ifAny()
}

// moveOne moves the first misplaced reflector that the others can do without.
func (v *view) moveOne(misplaced []plan.Node) *Step {
	serving := v.ev.Serving()
	spared := func(rs []plan.Node) func(plan.Node) bool {
		return func(n plan.Node) bool {
			need := v.needs(n)
			without := v.ev.Depth(plan.Others(rs, n), need)
			return without >= need || without > 0 && without == v.ev.Depth(rs, need) // in its present slot it adds nothing
		}
	}
	n, ok := plan.First(misplaced, spared(serving))
	if !ok {
		if !slices.ContainsFunc(misplaced, spared(plan.Filter(v.Current, plan.Usable))) && len(v.Clients)+len(v.Unready) <= meshAnyway {
			return v.moveAll(misplaced)
		}
		return &Step{
			Name: "MoveReflectors", Reason: "the reflectors change their slots one at a time",
			WaitingFor: []string{fmt.Sprintf("more route reflectors to serve: without any one of those that are to move, some nodes would depend on fewer than %d; "+
				"raise spec.sizing.min until they have moved, or go by way of the mesh (spec.mode: FullMesh)", v.needs(misplaced[0]))},
			Again: evidence.Poll, Awaits: AwaitsSessions,
		}
	}
	slot, id := v.slot(n)
	reason := fmt.Sprintf("route reflector %s moves from slot %s to %s, cluster ID %s", n.Name, n.Slot, slot, id)
	if g := v.ev.Prove(evidence.Claim{Reflectors: plan.Others(serving, n), AsConfigured: true}); !g.IsComplete() {
		return await(g, "MoveReflectors", reason+", while the others serve")
	}
	return do("MoveReflectors", reason, v.setReflector(n))
}

// needs returns how many reflectors have to keep any two clients connected while n moves: two, if the topology has more than
// that, else one. If others have changed the slot or ID of n, its rack may have fewer, and n has to be put right all the same.
func (v *view) needs(n plan.Node) int {
	depth := v.arrangement.Depth
	if topology.KindOf(n.Slot) == v.arrangement.Kind {
		depth--
	}
	return min(2, max(1, depth))
}

// narrow writes rrpool's BGPPeers that are to select fewer nodes, one at a
// time, once the reflectors serve every node without the sessions that end.
func narrow(v *view) *Step {
	if !v.isComplete() {
		return nil
	}
	var wide []plan.Peer
	for _, want := range v.peers {
		if have, ok := v.peer(want.Name); ok && !fits(have, want) {
			wide = append(wide, want)
		}
	}
	if len(wide) == 0 {
		return nil
	}
	lacking, without := v.lacks(), make([]int, len(wide))
	for i, want := range wide {
		if without[i] = v.lacks(want); without[i] > lacking {
			continue // wanted sessions would end: another BGPPeer has to select their nodes first
		}
		reason := fmt.Sprintf("BGPPeer %s is to select fewer nodes", want.Name)
		if g := v.ev.Prove(evidence.Claim{Reflectors: v.wanted}); !g.IsComplete() {
			return await(g, "NarrowPeers", reason+", once the reflectors serve without the sessions that end")
		}
		return do("NarrowPeers", reason, plan.PutPeer{Peer: want})
	}
	return v.overlap(wide, without)
}

// overlap lets a BGPPeer select, in addition to its present nodes, the nodes that another BGPPeer
// is to leave to it. without[i] is how many wanted sessions are missing if only wide[i] is written.
func (v *view) overlap(wide []plan.Peer, without []int) *Step {
	for i, leaves := range wide {
		for _, takes := range wide {
			have, _ := v.peer(takes.Name)
			both := union(have, takes)
			if takes.Name != leaves.Name && v.lacks(leaves, both) < without[i] {
				return do("WritePeers", fmt.Sprintf("BGPPeer %s is to select nodes that BGPPeer %s selects so far", takes.Name, leaves.Name), plan.PutPeer{Peer: both})
			}
		}
	}
	return nil
}

// lacks counts the wanted sessions that are not configured once these BGPPeers are written.
func (v *view) lacks(written ...plan.Peer) int {
	return simulate.Compare(v.configuration(v.assigned(), v.peers), v.configuration(v.Nodes, v.with(written...))).Removed
}

// widen returns the form of a BGPPeer that may be written now without ending a session: want itself, or the union of
// have and want. ok is false if there is nothing to add or no such form, restarts is true if sessions would start anew.
func (v *view) widen(have, want plan.Peer) (peer plan.Peer, ok, restarts bool) {
	change := v.effect(want)
	switch {
	case change.Restarted > 0 || !sameOptions(have, want):
		return want, false, true
	case change.Removed == 0:
		return want, true, false
	case change.Added == 0:
		return want, false, false
	}
	both := union(have, want)
	change = v.effect(both)
	return both, change.Removed == 0 && change.Restarted == 0 && change.Added > 0, change.Restarted > 0
}

// effect returns what writing a BGPPeer does to the sessions.
func (v *view) effect(p plan.Peer) simulate.Change {
	return simulate.Compare(v.configuration(v.Nodes, v.Peers), v.configuration(v.Nodes, v.with(p)))
}

// with returns all BGPPeers as they are once these are written.
func (v *view) with(written ...plan.Peer) []plan.Peer {
	peers := slices.DeleteFunc(slices.Clone(v.Peers), func(x plan.Peer) bool {
		return slices.ContainsFunc(written, func(w plan.Peer) bool { return w.Name == x.Name })
	})
	peers = append(peers, written...)
	slices.SortFunc(peers, func(a, b plan.Peer) int { return strings.Compare(a.Name, b.Name) })
	return peers
}

// sameOptions reports whether two BGPPeers differ at most in their selectors.
func sameOptions(a, b plan.Peer) bool {
	a.NodeSelector, a.PeerSelector = b.NodeSelector, b.PeerSelector
	return plan.SamePeer(a, b)
}

// union returns a BGPPeer that selects the nodes of both, with the options of want.
func union(have, want plan.Peer) plan.Peer {
	want.NodeSelector = either(have.NodeSelector, want.NodeSelector)
	want.PeerSelector = either(have.PeerSelector, want.PeerSelector)
	return want
}

func either(a, b string) string {
	if a == b {
		return a
	}
	return "(" + a + ") || (" + b + ")"
}

// putInRacks writes the labels by which clients belong to racks of ours. Each client
// counts for its rack already, so no session changes.
func putInRacks(v *view) *Step {
	s := do("LabelRacks", "clients are divided into racks by size")
	for _, n := range v.Nodes {
		if rack, ok := v.arrangement.Racks[n.Name]; ok && len(s.Actions) < rackBatch {
			s.Actions = append(s.Actions, plan.SetRack{Node: n.Name, Rack: rack})
		}
	}
	return s.ifAny()
}

// rackBatch is how many clients one step labels.
const rackBatch = 100

// clearRacks takes our rack labels away once no BGPPeer asks for them.
func clearRacks(v *view) *Step {
	if v.d.Mode == v1alpha1.ModeRouteReflector && (!v.arranged() || v.usesRacks()) {
		return nil
	}
	s := do("ClearRacks", "no BGPPeer asks for racks any more")
	for _, n := range v.Nodes {
		if n.Rack != "" && len(s.Actions) < rackBatch {
			s.Actions = append(s.Actions, plan.SetRack{Node: n.Name})
		}
	}
	return s.ifAny()
}

// usesRacks reports whether a BGPPeer of ours, planned or there, selects by our rack label.
func (v *view) usesRacks() bool {
	return slices.ContainsFunc(slices.Concat(v.peers, v.Peers), func(p plan.Peer) bool {
		return p.Owned && topology.SelectsByRack(p)
	})
}

// untilScopedPeersRendered returns how long nodes may still need to render the scoped BGPPeers of Single,
// as they have to be beside another topology. Until then no reflector of that other topology may come.
func (v *view) untilScopedPeersRendered() time.Duration {
	if !v.arranged() || v.arrangement.Kind == v1alpha1.TopologySingle {
		return 0
	}
	var written time.Time
	for _, name := range []string{topology.PeerClients, topology.PeerReflectors} {
		if have, ok := v.peer(name); ok {
			written = plan.Latest(written, have.Written, v.ClockSet)
		}
	}
	return written.Add(v.ev.Quiet).Sub(v.clock.Now())
}
