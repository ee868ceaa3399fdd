package rollout

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/utils/ptr"

	"github.com/rrpool/rrpool/controllers/plan"
	"github.com/rrpool/rrpool/controllers/plan/simulate"
)

// ours reports whether anything of ours is left in the cluster's BGP.
func (v *view) ours() bool {
	return len(v.current) > 0 || v.BGP.Saved != nil || v.hasPeers()
}

// restoreMesh switches the mesh on as it was before. Where it was switched on, or changed, by others meanwhile, what
// differs is put back before the reflectors go: a changed password restarts mesh sessions, and they carry the routes then.
func restoreMesh(v *view) *Step {
	if !v.ours() {
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
	alive := v.serving()
	if len(alive) == 0 || v.servingFor(alive, 1) == 0 {
		return nil // no reflector can carry the routes: see forgetMesh
	}
	s.Reason = "the mesh was switched on or changed by others, and gets back what it had before: " + v.differs()
	g := v.nowGate(alive)
	if left := v.BGP.Restored.Add(steadyTime).Sub(v.now); left > 0 {
		g.wait("%s to have passed since rrpool switched it on: others have changed it since", steadyTime)
		g.in(left)
	}
	if !g.open() {
		return g.step(s.Name, s.Reason+"; the route reflectors must carry every node while its sessions restart")
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

// ForgetMesh is the name of the last step of the way back.
const ForgetMesh = "ForgetMesh"

// forgetMesh leaves the BGPConfiguration exactly as it was found. Where others have changed the mesh, and no reflector was
// there to carry the routes while that is put back, it says so and keeps the note; nothing else waits for that.
func forgetMesh(v *view) *Step {
	if v.BGP.Saved == nil && v.BGP.Restored.IsZero() {
		return nil
	}
	if differs := v.differs(); differs != "" && v.BGP.MeshOn() {
		if s := releasePool(v); s != nil {
			return s
		}
		g := &gate{}
		g.wait("the default BGPConfiguration to have %s, as before rrpool", differs)
		return g.step(ForgetMesh, "others have changed the mesh, and to change it back restarts its sessions, which no route reflector would bridge: "+
			"do that, or remove the annotation rrpool.io/mesh-before if the mesh is to stay as it is")
	}
	return do(ForgetMesh, "the mesh is as it was before", plan.ForgetMesh{})
}
