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

// target is where the cluster is to go: which nodes are to be reflectors, in which
// slots, by which BGPPeers, and of which pool. It does not depend on sessions or routes.
type target struct {
	Observed
	evidence.Roles
	d     Desired
	clock *evidence.Clock

	// wanted are the nodes of the pool that should be reflectors. absent are nodes that should
	// be too, but are not in the pool yet. total is how many reflectors there should be.
	wanted, absent []plan.Node
	total          int
	// clusterID is the one that all reflectors have if they are all alike.
	clusterID string
	// poolForNow is the pool that is wanted for now, see poolNow. nodesLeave: nodes of the pool are leaving and need substitutes.
	poolForNow plan.PoolTarget
	nodesLeave bool
	// peers are the BGPPeers that are to be there.
	peers []plan.Peer
	// arrangement is nil if all reflectors are alike.
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

// inAssignedSlot reports whether a node has the role with the slot and the cluster ID that are planned for it.
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

// session returns the password and restart time that rrpool's BGPPeers share: those that the mesh has, or had, or the password of the spec.
// If the object with the password has been deleted, the password of rrpool's own BGPPeers is kept, so that authentication is never dropped.
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

// poolNow returns the pool that is wanted for now. Once a node has been leaving for leavingTime, each zone gets
// one more worker. Workers that the cloud deletes do not count as leaving: the cloud refills their zone by
// itself, or is asked to. Neither do workers that the cloud reloads: they come back, mostly before new ones
// would. While the mesh is on, it carries everything: nothing is ordered, but workers that were ordered are kept.
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

// isRelieved reports whether a node is leaving and gets a substitute.
func (t *target) isRelieved(n plan.Node) bool {
	if !t.isLeaving(n) {
		return false
	}
	w, ok := t.worker(n)
	return ok && !w.Deleting && !w.Pending
}

// rules returns the rules by which in-place nodes are chosen.
func (t *target) rules() selection.Rules {
	return selection.Rules{
		PerZone: t.d.Pool.SizePerZone, Zones: t.d.Pool.Zones,
		Preferred: t.d.Preferred, Excluded: t.d.Excluded, Lost: func(n plan.Node) bool { return t.isLost(n) || t.isStuck(n) },
	}.Of(t.Nodes)
}

// isStuck reports whether a node has no role yet and its calico-node has been failing for longer than the grace.
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

// group returns the nodes with the role label or a cluster ID, the longest in the role first.
func (t *target) group() []plan.Node {
	out := plan.Filter(t.Current, func(n plan.Node) bool { return n.HasRoleLabel || n.ClusterID != "" })
	slices.SortFunc(out, func(a, b plan.Node) int {
		return cmp.Or(a.RoleSince.Compare(b.RoleSince), cmp.Compare(a.Name, b.Name))
	})
	return out
}

// groupID returns the cluster ID that most in-place reflectors have. If it differs from the spec's, it stays until
// the cluster has been back on the mesh: changing it would restart the reflectors' own sessions, and they have pods.
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

// leavingTime is how long nodes must have been leaving before workers are ordered for them, as a cordon may be over soon.
const leavingTime = 90 * time.Second
