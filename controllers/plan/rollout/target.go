package rollout

import (
	"cmp"
	"slices"
	"time"

	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/controllers/plan"
	"github.com/rrpool/rrpool/controllers/plan/evidence"
	"github.com/rrpool/rrpool/controllers/plan/selection"
	"github.com/rrpool/rrpool/controllers/plan/topology"
)

// target is where the cluster is to go: which nodes are to be reflectors, in which slots, by which BGPPeers, and of which pool. Nothing of it
// depends on sessions or routes.
type target struct {
	Observed
	evidence.Roles
	d     Desired
	clock *evidence.Clock

	// wanted are the nodes of the pool that should reflect; absent should too and are
	// not in the pool yet; total is how many there should be.
	wanted, absent []plan.Node
	total          int
	// clusterID is that of reflectors that are all alike.
	clusterID string
	// poolForNow is the pool that is wanted for now, see poolNow; nodesLeave: it has nodes that are leaving.
	poolForNow plan.PoolTarget
	nodesLeave bool
	// peers are the BGPPeers that are to be there.
	peers []plan.Peer
	// arrangement is nil where all reflectors are alike.
	arrangement *arrangement
}

// aim returns where an observed cluster is to go.
func aim(o Observed, d Desired, clock *evidence.Clock) *target {
	t := &target{Observed: o, Roles: evidence.Sort(o.Nodes, d.dedicated), d: d, clock: clock, clusterID: d.ClusterID}
	t.total = d.Pool.SizePerZone * t.zones()
	t.nodesLeave = slices.ContainsFunc(o.Nodes, t.isRelieved)
	t.poolForNow = t.poolNow()
	if d.Dedicated {
		t.wanted = topology.Choose(d.Topology.Kind, o.Nodes, d.Pool.SizePerZone, d.Pool.Zones, func(n plan.Node) bool { return t.isLost(n) || t.isLeaving(n) })
	} else {
		t.clusterID = t.groupID()
		t.wanted, t.absent = t.choose()
	}
	t.peers = topology.Single(d.RoleLabel, t.session())
	switch {
	case t.needsSlots():
		t.arrange()
	case !d.Dedicated:
		t.peers = topology.InPlace(d.RoleLabel, t.session(), t.groupPeerings(), len(t.group()) == 0)
	}
	return t
}

// network returns what evidence needs to know of the target.
func (t *target) network() evidence.Network {
	n := evidence.Network{Wanted: t.wanted, InAssignedSlot: t.inAssignedSlot, Goal: t.goal}
	if a := t.arrangement; a != nil {
		n.Configuration, n.Present, n.IsGoalMissed = a.is, a.now, a.edited && t.isComplete()
	}
	return n
}

// inAssignedSlot reports whether a node is a reflector as wanted.
func (t *target) inAssignedSlot(n plan.Node) bool {
	slot, id := t.slot(n)
	return n.Marked && n.HasRoleLabel && n.ClusterID == id && (!t.arranged() || n.Slot == slot)
}

func (t *target) isLost(n plan.Node) bool { return plan.IsLost(n, t.notReadyFor(n), t.d.NotReadyGrace) }

func (t *target) notReadyFor(n plan.Node) time.Duration {
	return t.clock.Since(plan.Latest(n.ReadyChanged, t.ClockSet))
}

// zones counts the zones that get reflectors.
func (t *target) zones() int {
	if len(t.d.Pool.Zones) > 0 {
		return len(t.d.Pool.Zones)
	}
	return max(len(plan.Zones(t.Nodes, func(n plan.Node) bool { return n.Pooled })), 1)
}

// session returns what our BGPPeers share: the password and restart time that the mesh has, or had. Authentication is
// never dropped because the object that it was written on has been deleted: our own peers remember it.
func (t *target) session() topology.Session {
	mesh, saved := t.BGP.Mesh, plan.Mesh{}
	if t.BGP.Saved != nil {
		saved = *t.BGP.Saved
	}
	s := topology.Session{
		Password:       cmp.Or(t.d.Password, mesh.Password, saved.Password),
		MaxRestartTime: cmp.Or(mesh.MaxRestartTime, saved.MaxRestartTime),
	}
	for _, p := range t.Peers {
		if p.Owned {
			s.Password = cmp.Or(s.Password, p.Password)
		}
	}
	return s
}

// isReady reports whether every wanted node is there and Ready, in its role or not.
func (t *target) isReady() bool {
	return len(t.wanted) > 0 && len(t.wanted) >= t.total && len(plan.Filter(t.wanted, plan.Usable)) == len(t.wanted)
}

// isComplete reports whether every wanted reflector is there, Ready and in its slot.
func (t *target) isComplete() bool {
	return t.isReady() && len(plan.Filter(t.wanted, t.inAssignedSlot)) == len(t.wanted)
}

// isWanted reports whether a node is in the wanted set.
func (t *target) isWanted(n plan.Node) bool { return plan.Includes(t.wanted, n) }

func (t *target) isStarting() bool { return Starting(t.Cluster) }

// isLeaving reports whether a dedicated node is about to be taken away (cordoned, tainted for removal, its worker being deleted),
// or its worker is to give way to a newer one.
func (t *target) isLeaving(n plan.Node) bool {
	if !t.d.Dedicated || !n.Pooled {
		return false
	}
	w, _ := t.worker(n)
	return n.Leaving || n.CordonedByOthers() || w.Deleting || w.Outdated
}

// worker returns the pool's worker behind a node.
func (t *target) worker(n plan.Node) (ObservedWorker, bool) {
	if t.Pool == nil || n.WorkerID == "" {
		return ObservedWorker{}, false
	}
	return plan.First(t.Pool.Workers, func(w ObservedWorker) bool { return w.ID == n.WorkerID })
}

// nodeOf returns the node that a worker has become.
func (t *target) nodeOf(w ObservedWorker) (plan.Node, bool) {
	for i := range t.Nodes { // nodes are large
		if t.Nodes[i].WorkerID == w.ID {
			return t.Nodes[i], true
		}
	}
	return plan.Node{}, false
}

// poolNow returns the pool that is wanted for now: one more worker in each zone while a node is leaving, for leavingTime
// already. A worker that the cloud deletes is not one of them: it refills the zone by itself, or is asked to. Neither is
// one that the cloud reloads: it comes back, mostly before a new one would. The mesh carries everything while it is on,
// so nothing is ordered then, and what was ordered is kept.
func (t *target) poolNow() plan.PoolTarget {
	want := t.d.Pool
	switch {
	case t.Pool == nil || !t.nodesLeave:
	case t.Pool.SizePerZone > want.SizePerZone:
		want.SizePerZone++
	case t.BGP.MeshOn():
	case t.LeavingSince.IsZero():
		t.clock.In(leavingTime)
	case t.clock.Passed(t.LeavingSince, leavingTime):
		want.SizePerZone++
	}
	return want
}

// isRelieved reports whether a node is leaving and has, or gets, a substitute.
func (t *target) isRelieved(n plan.Node) bool {
	if !t.isLeaving(n) {
		return false
	}
	w, ok := t.worker(n)
	return ok && !w.Deleting && !w.Pending
}

// rules returns those of the choice among in-place nodes.
func (t *target) rules() selection.Rules {
	return selection.Rules{
		PerZone: t.d.Pool.SizePerZone, Zones: t.d.Pool.Zones,
		Preferred: t.d.Preferred, Excluded: t.d.Excluded, Lost: func(n plan.Node) bool { return t.isLost(n) || t.isStuck(n) },
	}.Of(t.Nodes)
}

// isStuck reports whether a node was chosen and its calico-node fails for longer than the grace before it has got the role.
func (t *target) isStuck(n plan.Node) bool {
	return !n.IsOurs() && n.CalicoNode.Failing() && t.clock.Passed(plan.Latest(n.CalicoNode.Since, t.ClockSet), t.d.NotReadyGrace)
}

// choose returns the in-place nodes that are to be reflectors: those that are in the pool, and those that are to join it.
func (t *target) choose() (wanted, absent []plan.Node) {
	if t.d.Mode != v1alpha1.ModeRouteReflector {
		return nil, nil
	}
	for _, n := range selection.Choose(t.Nodes, t.rules()) {
		if n.Pooled {
			wanted = append(wanted, n)
		} else {
			absent = append(absent, n)
		}
	}
	return wanted, absent
}

// group returns the nodes in the role, or in half of it, the longest in the role first.
func (t *target) group() []plan.Node {
	out := plan.Filter(t.Current, func(n plan.Node) bool { return n.HasRoleLabel || n.ClusterID != "" })
	slices.SortFunc(out, func(a, b plan.Node) int {
		return cmp.Or(a.RoleSince.Compare(b.RoleSince), cmp.Compare(a.Name, b.Name))
	})
	return out
}

// groupID returns the cluster ID that in-place reflectors share. One that differs from the spec's stays until the
// cluster has been back on the mesh: changing it would restart the reflectors' own sessions, and they have pods.
func (t *target) groupID() string {
	count := map[string]int{}
	for _, n := range t.group() {
		if n.ClusterID != "" {
			count[n.ClusterID]++
		}
	}
	best := t.d.ClusterID
	for id, c := range count {
		if c > count[best] || c == count[best] && best != t.d.ClusterID && id < best {
			best = id
		}
	}
	return best
}

// Starting reports whether no node reflects yet, and the cluster has never relied on reflectors.
func Starting(c plan.Cluster) bool {
	return c.BGP.Saved == nil && (c.BGP.MeshOn() || !c.Relied()) && !slices.ContainsFunc(c.Nodes, plan.Node.IsOurs)
}

// leavingTime is how long nodes have to be leaving until workers are ordered for them: a cordon may be over soon.
const leavingTime = 90 * time.Second
