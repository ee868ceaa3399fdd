package rollout

import (
	"fmt"
	"slices"
	"time"

	"github.com/rrpool/rrpool/controllers/plan"
)

// writePeers makes our BGPPeers what they should be. A new one only adds
// sessions. A changed one restarts those it renders differently, so where nodes
// depend on reflectors the mesh takes over first.
func writePeers(v *view) *Step {
	if len(v.wanted) == 0 {
		return nil
	}
	add := &Step{Name: "WritePeers", Reason: "clients and route reflectors need BGPPeers to find each other"}
	change := &Step{Name: "RepairPeers"}
	for _, want := range v.peers {
		i := slices.IndexFunc(v.Peers, func(p plan.Peer) bool { return p.Name == want.Name })
		switch {
		case i < 0:
			add.Actions = append(add.Actions, plan.PutPeer{Peer: want})
		case !SamePeer(v.Peers[i], want):
			change.Reason = fmt.Sprintf("BGPPeer %s is not as it should be", want.Name)
			change.Actions = append(change.Actions, plan.PutPeer{Peer: want})
		}
	}
	switch {
	case len(add.Actions) > 0 && (!v.starting() || v.mayStart()):
		return add
	case len(change.Actions) > 0:
		return v.underMesh(change)
	}
	return nil
}

// underMesh takes care that nobody depends on the sessions that a change restarts.
func (v *view) underMesh(change *Step) *Step {
	if !v.anyServed() {
		return change
	}
	if !v.BGP.MeshOn() {
		return &Step{
			Name:    "RestoreMesh",
			Reason:  change.Reason + ": the mesh takes over while sessions restart",
			Actions: []plan.Action{plan.RestoreMesh{}},
		}
	}
	g, watch, proven := v.meshGate()
	if g.open() {
		return change
	}
	s := g.step("AwaitMesh", change.Reason+": the mesh must carry everything before sessions restart")
	s.Watch, s.Proven = watch, proven
	return s
}

// hasPeers reports whether a BGPPeer of ours exists.
func (v *view) hasPeers() bool {
	return slices.ContainsFunc(v.Peers, func(p plan.Peer) bool { return p.Owned })
}

// anyServed reports whether some reflector may be carrying routes.
func (v *view) anyServed() bool {
	return slices.ContainsFunc(v.holders, v.serves)
}

// SamePeer reports whether two BGPPeers render the same sessions.
func SamePeer(a, b plan.Peer) bool {
	return a.Node == b.Node && a.NodeSelector == b.NodeSelector && a.PeerIP == b.PeerIP &&
		a.PeerSelector == b.PeerSelector && a.ASN == b.ASN && a.Extra == b.Extra &&
		sameRef(a.Password, b.Password) && sameDuration(a.MaxRestartTime, b.MaxRestartTime)
}

func sameRef(a, b *plan.SecretRef) bool {
	return a == b || a != nil && b != nil && *a == *b
}

func sameDuration(a, b *time.Duration) bool {
	return a == b || a != nil && b != nil && *a == *b
}

// deleteStrayPeers removes BGPPeers of ours that the plan does not have, once the
// reflectors serve everyone without them.
func deleteStrayPeers(v *view) *Step {
	for _, p := range v.Peers {
		if !p.Owned || slices.ContainsFunc(v.peers, func(w plan.Peer) bool { return w.Name == p.Name }) {
			continue
		}
		reason := fmt.Sprintf("BGPPeer %s is ours and no longer needed", p.Name)
		if g := v.reflectorGate(v.wanted, v.settle); !g.open() {
			return g.step("AwaitSessions", reason)
		}
		return &Step{Name: "DeletePeers", Reason: reason, Actions: []plan.Action{plan.DeletePeer{Name: p.Name}}}
	}
	return nil
}
