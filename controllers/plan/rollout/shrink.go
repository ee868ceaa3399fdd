package rollout

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/rrpool/rrpool/controllers/plan"
)

// shrink takes surplus reflectors out, one at a time and all the way: role first,
// while every other one serves everyone; then the worker; only then the next.
func shrink(v *view) *Step {
	if !v.d.Dedicated {
		return v.shrinkInPlace()
	}
	if v.Pool == nil {
		return nil
	}
	if s := v.retire(); s != nil {
		return s
	}
	if surplus := v.surplus(); len(surplus) > 0 {
		return v.removeReflector(surplus[0])
	}
	return v.shrinkPool()
}

// surplus are the reflectors that are not wanted, in the order in which they go.
func (v *view) surplus() []plan.Node {
	out := filter(v.current, func(n plan.Node) bool { return !v.isWanted(n) })
	slices.SortStableFunc(out, func(a, b plan.Node) int { return plan.TrueFirst(!a.Ready, !b.Ready) })
	return out
}

// trim takes surplus in-place reflectors out before the mesh goes. After a series of
// failures every node may have got the role, and the mesh needs clients to go.
func trim(v *view) *Step {
	if v.d.Dedicated || !v.BGP.MeshOn() || v.nextToDemote == nil || !v.complete() {
		return nil
	}
	return v.removeReflector(*v.nextToDemote)
}

// shrinkInPlace does the same with nodes that run workloads. As long as there is no
// substitute, a node that should go stays: in its role it does no harm.
func (v *view) shrinkInPlace() *Step {
	if v.nextToDemote == nil || !v.complete() {
		return v.leavePool()
	}
	if s := v.rest(*v.nextToDemote); s != nil {
		return s
	}
	return v.removeReflector(*v.nextToDemote)
}

// roleRests is for how many removal delays a role that has just moved stays where it is, so that a cordon, a label or a Node that
// flaps does not move roles all the time. Each role says by itself since when it is there, whichever manager gave it.
const roleRests = 10

// rest waits as long as the role of x, which serves, has come just now; or, as nothing speaks against x any more, that of another. One
// that is dead or about to go does not wait, nor does what takes its place.
func (v *view) rest(x plan.Node) *Step {
	since := x
	if v.unfit(v.rules(), x) == "" {
		since = slices.MaxFunc(v.current, func(a, b plan.Node) int { return a.RoleSince.Compare(b.RoleSince) })
	}
	long := roleRests * v.d.RemovalDelay
	if !usable(x) || x.Leaving || v.passed(since.RoleSince, long) {
		return nil
	}
	s := do("RemoveReflector", fmt.Sprintf("route reflector %s is to go, and roles have moved just now: what made them may be over again", x.Name))
	s.WaitingFor = []string{fmt.Sprintf("%s to have passed since node %s became a route reflector (ten times spec.rollout.removalDelay)", long, since.Name)}
	return s
}

// retire removes a worker that is over and has no role any more.
func (v *view) retire() *Step {
	for _, n := range v.Nodes {
		w, ok := v.surplusWorker(n)
		if !ok {
			continue
		}
		if p, has := v.peeringOn(n); has && !w.Deleting {
			s := do("RetireWorker", fmt.Sprintf("worker %s is no longer needed in zone %s", w.ID, w.Zone))
			s.WaitingFor = []string{fmt.Sprintf("ClusterPeering %s to have no BGPPeer on %s any more", p.Peering, n.Name)}
			s.Again, s.Awaits = poll, AwaitsPeering
			return s
		}
		return v.retireWorker(w)
	}
	for _, w := range v.Pool.Workers {
		if !w.Former || w.Deleting {
			continue
		}
		if _, joined := v.nodeOf(w); !joined && v.complete() {
			return v.retireWorker(w) // no Node tells that it is not needed
		}
	}
	return nil
}

func (v *view) retireWorker(w ObservedWorker) *Step {
	want := v.pool
	want.Retire = []string{w.ID}
	s := ensure("RetireWorker", fmt.Sprintf("worker %s is no longer needed in zone %s", w.ID, w.Zone), want)
	s.WaitingFor = []string{fmt.Sprintf("worker %s to be gone", w.ID)}
	if w.Deleting {
		s.Actions = nil
	}
	return s
}

// surplusWorker gives the worker behind a dedicated node that has no role, is
// not wanted and is more than its zone should have, or is leaving already.
func (v *view) surplusWorker(n plan.Node) (ObservedWorker, bool) {
	if !n.Pooled || n.IsOurs() || v.isWanted(n) || n.Deleting || n.WorkerID == "" {
		return ObservedWorker{}, false
	}
	w, ok := v.worker(n)
	return w, ok && (v.goes(w) || !w.Deleting && (v.overfull(w.Zone) || v.replaceable(n, w)))
}

// overfull: the cloud runs more workers in the zone than wanted.
func (v *view) overfull(zone string) bool {
	allowed := v.pool.SizePerZone
	if len(v.d.Pool.Zones) > 0 && !slices.Contains(v.d.Pool.Zones, zone) {
		allowed = 0
	}
	return v.live(zone) > allowed
}

// removeReflector takes the role from one node, once the wanted ones have served everyone for the removal delay.
func (v *view) removeReflector(n plan.Node) *Step {
	reason := fmt.Sprintf("route reflector %s is more than the %d wanted", n.Name, v.total)
	if v.leaving(n) {
		reason = fmt.Sprintf("route reflector %s is cordoned, outdated or about to go, and another reflects in its place", n.Name)
	}
	if !v.d.Dedicated {
		if why := v.unfit(v.rules(), n); why != "" {
			reason = fmt.Sprintf("route reflector %s goes: %s", n.Name, why)
		}
	}
	g := v.reflectorGate(v.wanted, v.d.RemovalDelay)
	if g.sessions() {
		v.sampleGate(g, v.listed())
	}
	v.peeringGate(g, n)
	if !g.open() {
		return g.step("RemoveReflector", reason+", the others must have served everyone for the removal delay")
	}
	s := do("RemoveReflector", reason, plan.ClearReflector{Node: n.Name})
	if !v.d.Dedicated {
		s = v.release(n, s.Name, reason)
	}
	s.Watch = g.watch
	return s
}

// peeringGate demands that no ClusterPeering has its only Established session on n.
func (v *view) peeringGate(g *gate, n plan.Node) {
	for _, p := range v.Peers {
		if p.Peering != "" && p.Node == n.Name && v.isEstablished(p) && !v.othersPeer(p) {
			g.wait("ClusterPeering %s to have an Established session of another route reflector than %s", p.Peering, n.Name)
		}
	}
}

// isEstablished: the node of a ClusterPeering's BGPPeer reports its session.
func (v *view) isEstablished(p plan.Peer) bool {
	n, ok := first(v.Nodes, func(n plan.Node) bool { return n.Name == p.Node })
	there, err := netip.ParseAddr(p.PeerIP)
	return ok && err == nil && usable(n) && established(v.Statuses[n.Name], isPeer).Has(there)
}

// peeringOn is a BGPPeer that a ClusterPeering still has on a node that can use it. It goes as soon as a session of another
// node is Established; without one nothing is lost with the worker.
func (v *view) peeringOn(n plan.Node) (plan.Peer, bool) {
	return first(v.Peers, func(p plan.Peer) bool { return p.Peering != "" && p.Node == n.Name && usable(n) && v.othersPeer(p) })
}

// othersPeer: another node has an Established session of the same ClusterPeering.
func (v *view) othersPeer(p plan.Peer) bool {
	return slices.ContainsFunc(v.Peers, func(q plan.Peer) bool { return q.Peering == p.Peering && q.Node != p.Node && v.isEstablished(q) })
}

// deleteEmptied has a pool deleted that has given way to another. Nothing waits for it.
func deleteEmptied(v *view) *Step {
	if v.Pool == nil || v.Pool.Emptied == "" {
		return nil
	}
	return ensure("EnsurePool", fmt.Sprintf("worker pool %s has given way to another, and is still there", v.Pool.Emptied), v.pool)
}

// shrinkPool asks the cloud for the smaller size when all surplus workers are gone.
func (v *view) shrinkPool() *Step {
	reason := fmt.Sprintf("the worker pool is set to %d workers per zone, wanted are %d",
		v.Pool.SizePerZone, v.pool.SizePerZone)
	if v.Pool.SizePerZone <= v.pool.SizePerZone {
		i := slices.IndexFunc(v.Pool.Zones, func(z string) bool {
			return len(v.pool.Zones) > 0 && !slices.Contains(v.pool.Zones, z)
		})
		if i < 0 {
			return nil
		}
		reason = fmt.Sprintf("the worker pool still covers zone %s, which is not wanted", v.Pool.Zones[i])
	}
	return ensure("ShrinkPool", reason, v.pool)
}
