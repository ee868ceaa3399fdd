package rollout

import (
	"fmt"
	"slices"

	"k8s.io/utils/ptr"

	"github.com/rrpool/rrpool/controllers/plan"
	"github.com/rrpool/rrpool/controllers/plan/simulate"
)

// ours reports whether anything of ours is left in the cluster's BGP.
func (v *view) ours() bool {
	return len(v.current) > 0 || v.BGP.Saved != nil || v.hasPeers()
}

// restoreMesh switches the mesh on as it was before. Where it was switched on by others meanwhile, what differs is
// put back as long as the reflectors still serve, because a changed password restarts mesh sessions.
func restoreMesh(v *view) *Step {
	if !v.ours() {
		return nil
	}
	s := do("RestoreMesh", "the mesh must be up before the route reflectors go", plan.RestoreMesh{})
	if !v.BGP.MeshOn() {
		return s
	}
	saved := v.BGP.Saved
	if saved == nil || !v.BGP.Restored.IsZero() {
		return nil
	}
	if ptr.Equal(saved.Password, v.BGP.Mesh.Password) || v.nowGate(v.current).open() {
		return s
	}
	return nil
}

// reselect lets BGPPeers of in-place reflectors select by the label that spec.bgp.nodeLabel names now. The former one
// stays on its nodes, and would make a node a neighbour of reflectors that has given the role back.
func reselect(v *view) *Step {
	if v.d.Dedicated || !v.formerLabel() {
		return nil
	}
	if s := relabel(v); s != nil {
		return s
	}
	s := do("RepairPeers", "spec.bgp.nodeLabel has changed: the BGPPeers select by it before a node gives the role back")
	for _, want := range v.peers {
		if have, ok := v.peer(want.Name); ok && !fits(have, want) && v.effect(want) == (simulate.Change{}) {
			s.Actions = append(s.Actions, plan.PutPeer{Peer: want})
		}
	}
	return s.ifAny()
}

// demote takes the role from the reflectors, one a step, once the mesh carries every pair of nodes.
func demote(v *view) *Step {
	if len(v.current) == 0 {
		return nil
	}
	g, silent := v.meshGate(), ""
	if n := len(v.clients) - len(v.reporting()); n > 0 {
		silent = fmt.Sprintf(" (%d with Windows report no sessions: the other nodes' reports show theirs)", n)
	}
	if !g.open() {
		return g.step("AwaitMesh", "the route reflectors serve until the mesh carries every pair of nodes"+silent)
	}
	reason := fmt.Sprintf("the mesh carries all %d nodes%s", len(v.clients), silent)
	s := do("DemoteReflectors", reason, plan.ClearReflector{Node: v.current[0].Name})
	if !v.d.Dedicated {
		s = v.release(*v.nextToDemote, s.Name, fmt.Sprintf("%s: node %s gives the role back", reason, v.nextToDemote.Name))
	}
	s.Watch, s.Proven = g.watch, g.proven
	return s
}

// releasePool gives up the choice of in-place nodes.
func releasePool(v *view) *Step {
	if v.d.Dedicated || !slices.ContainsFunc(v.Nodes, func(n plan.Node) bool { return n.Pooled }) {
		return nil
	}
	return do("ReleasePool", "no node needs to be a route reflector", plan.ReleasePool{})
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

// forgetMesh leaves the BGPConfiguration exactly as it was found.
func forgetMesh(v *view) *Step {
	if v.BGP.Saved == nil && v.BGP.Restored.IsZero() {
		return nil
	}
	return do("ForgetMesh", "the mesh is as it was before", plan.ForgetMesh{})
}
