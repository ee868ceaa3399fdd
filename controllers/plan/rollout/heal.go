package rollout

import (
	"fmt"
	"slices"
	"time"

	"github.com/rrpool/rrpool/controllers/plan"
)

// safetyNet switches the mesh on when too few reflectors serve. It only ever
// adds sessions. Once nobody serves it does not wait.
func safetyNet(v *view) *Step {
	if v.BGP.MeshOn() || v.BGP.Saved == nil || len(v.clients) < 2 {
		return nil
	}
	serving, since := 0, time.Time{}
	for _, n := range v.holders {
		if v.serves(n) {
			serving++
			continue
		}
		since = latest(since, v.silentSince(n))
	}
	least := v.d.MinServing
	if v.total > 0 {
		least = min(least, v.total)
	}
	if serving >= least {
		return nil
	}
	if left := since.Add(v.d.NetAfter).Sub(v.now); serving > 0 && left > 0 {
		// The wait is no step of its own: a repair may go on meanwhile.
		v.lookIn(left)
		return nil
	}
	return &Step{
		Name:    "RestoreMesh",
		Reason:  fmt.Sprintf("only %d route reflectors serve, at least %d should: the mesh takes over until they are back", serving, least),
		Actions: []plan.Action{plan.RestoreMesh{}},
	}
}

// silentSince is when a reflector stopped serving, as far as is known.
func (v *view) silentSince(n plan.Node) time.Time {
	if !n.Ready {
		return n.ReadyChanged
	}
	var since time.Time
	for _, s := range v.Statuses[n.Name].Sessions {
		if !s.Established && isPeer(s.Kind) && v.clientAddrs[s.Peer] {
			since = latest(since, s.Since)
		}
	}
	return since
}

// healRoles puts back what somebody took from a reflector. It has lost its
// sessions with that already, so putting it back only adds.
func healRoles(v *view) *Step {
	s := &Step{Name: "HealReflectors"}
	for _, n := range v.wanted {
		if holds(n) && (n.ClusterID == "" || !n.RoleLabel || !n.Marked) {
			s.Reason = fmt.Sprintf("route reflector %s has lost its label or cluster ID", n.Name)
			s.Actions = append(s.Actions, plan.SetReflector{Node: n.Name, ClusterID: v.d.ClusterID})
		}
	}
	if len(s.Actions) == 0 {
		return nil
	}
	return s
}

// changeID gives a reflector the wanted cluster ID. With its old one it still
// works, so they change one at a time, while the others serve.
func changeID(v *view) *Step {
	i := slices.IndexFunc(v.wanted, func(n plan.Node) bool { return holds(n) && n.ClusterID != v.d.ClusterID })
	if i < 0 {
		return nil
	}
	n := v.wanted[i]
	reason := fmt.Sprintf("route reflector %s has cluster ID %s instead of %s", n.Name, n.ClusterID, v.d.ClusterID)
	if v.anyServed() {
		if g := v.anyIDGate(others(v.wanted, n)); !g.open() {
			return g.step("ChangeClusterID", reason+", and the others must serve while it changes")
		}
	}
	return &Step{
		Name: "ChangeClusterID", Reason: reason,
		Actions: []plan.Action{plan.SetReflector{Node: n.Name, ClusterID: v.d.ClusterID}},
	}
}

// anyIDGate is the reflector gate for reflectors of which some still have an old ID.
func (v *view) anyIDGate(rs []plan.Node) *gate {
	g := &gate{}
	if len(rs) == 0 {
		g.wait("another route reflector")
	}
	if v.d.Timer {
		v.timerGate(g, v.lastReady(rs), 0)
		return g
	}
	for _, r := range rs {
		asIs := *v
		asIs.d.ClusterID = r.ClusterID
		asIs.reflectorSessions(g, r, rs, v.settle)
	}
	return g
}
