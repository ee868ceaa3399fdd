package rollout

import (
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/rrpool/rrpool/controllers/plan"
	"github.com/rrpool/rrpool/controllers/plan/evidence"
)

// poolPoll is after how long to look again at what the cloud does, which takes minutes.
const poolPoll = 15 * time.Second

// awaitProvider keeps rrpool from changing the pool while its state is unknown.
func awaitProvider(v *view) *Step {
	if v.Pool != nil || v.isReady() {
		return nil
	}
	return &Step{
		Name: "AwaitProvider", Reason: "the state of the worker pool is unknown, so nothing is ordered or removed",
		WaitingFor: []string{"the provider to answer"}, Again: poolPoll,
	}
}

// emptyZones empties zones that are being given up before workers are ordered for other
// zones, if the cloud would otherwise refill the zones given up with the same order.
func emptyZones(v *view) *Step {
	if v.Pool == nil || len(v.refilledZones()) == 0 || v.toOrder().Refill {
		return nil
	}
	for _, propose := range []func(*view) *Step{retireWorkers, removeSurplus, shrinkPool} {
		if s := propose(v); s != nil {
			return s
		}
	}
	return nil
}

// growPool brings the pool to its size, and replaces what has failed.
func growPool(v *view) *Step {
	if v.Pool == nil {
		return nil
	}
	want := v.toOrder()
	lacks := v.poolLacks(want.Replace)
	if lacks == "" {
		return nil
	}
	s := ensure("EnsurePool", lacks, want)
	s.WaitingFor = v.missingNodes()
	return s
}

// orderSubstitutes orders workers for reflectors that are leaving while other reflectors are away as well.
func orderSubstitutes(v *view) *Step {
	if v.isReady() || v.Pool == nil {
		return nil
	}
	if s := substitute(v); s != nil && len(s.Actions) > 0 {
		return s
	}
	return nil
}

// awaitWorkers waits for the dedicated nodes.
func awaitWorkers(v *view) *Step {
	if v.Pool == nil || v.isReady() {
		return nil
	}
	return &Step{
		Name: "EnsurePool", Reason: fmt.Sprintf("%d of %d dedicated nodes are Ready", len(plan.Filter(v.wanted, plan.Usable)), v.total),
		WaitingFor: v.missingNodes(), Again: poolPoll, Awaits: AwaitsWorkers,
	}
}

// toOrder returns the pool that the cloud is asked for, with the workers to replace. Refill is set if zones that are
// being given up get workers as well: that cannot be avoided, or their reflectors are needed until others serve.
func (v *view) toOrder() plan.PoolTarget {
	want := v.poolForNow
	want.Retire, want.Replace = nil, v.failed()
	if zones := v.refilledZones(); len(zones) > 0 {
		want.Refill = len(want.Replace) > 0 || v.Pool.Drifted != "" || !v.canEmpty(zones)
	}
	return want
}

// refilledZones returns the zones that are being given up and that the cloud would refill while others lack workers.
func (v *view) refilledZones() []string {
	p, zones := v.Pool, v.d.Pool.Zones
	lacks := p.SizePerZone < v.d.Pool.SizePerZone || v.zoneLackingWorkers() != ""
	if !lacks || len(zones) == 0 || !sets.New(p.Zones...).HasAll(zones...) {
		return nil
	}
	return plan.Filter(p.Zones, func(z string) bool { return !slices.Contains(zones, z) && v.countLive(z) < v.d.Pool.SizePerZone })
}

// canEmpty reports whether these zones can be emptied further: a worker there that does
// not reflect is going or can go, or enough reflectors serve without the next surplus one.
func (v *view) canEmpty(zones []string) bool {
	workers, reflecting := plan.Filter(v.Pool.Workers, func(w ObservedWorker) bool { return slices.Contains(zones, w.Zone) }), 0
	for _, w := range workers {
		n, joined := v.nodeOf(w)
		switch {
		case n.IsOurs():
			reflecting++
		case !joined && !w.Pending && !w.Failed && !v.isGoing(w):
			return false // it has no Node, so nothing shows that it could go
		}
	}
	if reflecting < max(len(workers), len(zones)) {
		return true
	}
	surplus, least := v.surplus(), max(2, v.d.MinServing)
	return len(v.wanted) > 0 && len(surplus) > 0 && v.ev.Depth(plan.Filter(plan.Others(v.Current, surplus[0]), v.ev.Serves), least) >= least
}

// poolLacks returns why the pool is not as wanted, "" if it is. Missing substitutes are no reason: nothing depends on them.
func (v *view) poolLacks(replace []string) string {
	p, want := v.Pool, v.d.Pool
	switch {
	case !p.Exists:
		return "there is no worker pool for route reflectors yet"
	case p.Drifted != "":
		return "the worker pool is not as wanted: " + p.Drifted
	case p.SizePerZone < want.SizePerZone:
		return fmt.Sprintf("the worker pool has %d workers per zone, wanted are %d", p.SizePerZone, want.SizePerZone)
	case len(replace) > 0:
		return fmt.Sprintf("worker %s has failed, or its node is dead, and is replaced", replace[0])
	case v.zoneLackingWorkers() != "":
		return fmt.Sprintf("the worker pool has too few workers in zone %s", v.zoneLackingWorkers())
	case !sets.New(p.Zones...).HasAll(want.Zones...):
		return "the worker pool does not cover every zone yet"
	}
	return ""
}

// zoneLackingWorkers returns a zone of the pool with fewer workers than wanted, "" for none.
// After a worker was removed by name, the cloud does not refill its zone until it is asked to.
func (v *view) zoneLackingWorkers() string {
	for _, z := range v.d.Pool.Zones {
		workers := plan.Filter(v.Pool.Workers, func(w ObservedWorker) bool { return w.Zone == z && !w.Deleting })
		if len(workers) < v.d.Pool.SizePerZone && slices.Contains(v.Pool.Zones, z) {
			return z
		}
	}
	return ""
}

// missingNodes returns what keeps the wanted nodes from being Ready.
func (v *view) missingNodes() []string {
	var out []string
	named := map[string]bool{}
	for _, n := range v.wanted {
		named[n.WorkerID] = true
		switch {
		case plan.Usable(n):
		case !n.Ready:
			out = append(out, fmt.Sprintf("node %s to be Ready", n.Name))
		default:
			out = append(out, fmt.Sprintf("calico-node on %s to announce a BGP address", n.Name))
		}
	}
	if v.Pool != nil {
		for _, w := range v.Pool.Workers {
			if !named[w.ID] && !w.Deleting {
				out = append(out, fmt.Sprintf("worker %s in zone %s: %s", w.ID, w.Zone, w.Message))
			}
		}
	}
	slices.Sort(out)
	return out
}

// isGoing reports whether a worker is being deleted and rrpool still waits for its end.
func (v *view) isGoing(w ObservedWorker) bool {
	return w.Deleting && (w.LeavingSince.IsZero() || !v.clock.Passed(w.LeavingSince, LeavingLimit))
}

// failed returns the workers to replace: they have failed, or their nodes are dead. It returns none while a
// worker is being deleted, or while the mesh is off and too few others serve. The provider replaces one after
// the other, and passes over one that it cannot replace. Failed substitutes are left to rule Substitute.
func (v *view) failed() (out []string) {
	if slices.ContainsFunc(v.Pool.Workers, v.isGoing) {
		return nil
	}
	if !v.BGP.MeshOn() && len(v.ev.Serving()) < min(2, v.total-1) {
		return nil
	}
	for _, w := range v.Pool.Workers {
		if v.isDead(w) && !v.isExtra(w) {
			out = append(out, w.ID)
		}
	}
	return out
}

// isDead reports whether a worker is to be replaced. Either it has failed according to the cloud, and has no node that may come back.
// Or its node has been away for long, no reflector has a session with the node, and the cloud is not setting the worker up anew.
func (v *view) isDead(w ObservedWorker) bool {
	n, there := v.nodeOf(w)
	if !there {
		return w.Failed
	}
	if w.Failed {
		return v.isLost(n)
	}
	return !w.Pending && !n.Ready && v.notReadyFor(n) > max(evidence.DeadTime, v.d.NotReadyGrace) && !v.ev.HasSession(n)
}

// oldSubstitute is the age at which an outdated worker without the role gives way to a newer one: a substitute
// may have become outdated while it waited. If new workers are outdated too, this replaces one a day.
const oldSubstitute = 24 * time.Hour

// whyLarger returns why the pool is larger than it should be while there is nothing to do, "" if it is not larger.
func (v *view) whyLarger() string {
	if v.poolForNow.SizePerZone == v.d.Pool.SizePerZone {
		return ""
	}
	n, _ := plan.First(v.Nodes, v.isRelieved)
	if w, _ := v.worker(n); w.Outdated {
		return fmt.Sprintf("; worker %s of node %s is outdated and so are the new ones, so it stays, and each zone has one more worker meanwhile", w.ID, n.Name)
	}
	return fmt.Sprintf("; node %s is cordoned or about to go: each zone has one more worker until it has gone or is uncordoned", n.Name)
}

// substitute orders one more worker in each zone before a reflector goes. As with any change of the pool, the new node then gets the
// role once it is Ready, and the leaving node gives its role back once the others serve. A failed substitute is replaced only in a
// zone whose reflector is leaving. In other zones it stays until it is surplus: for each one removed, the cloud would order another.
func substitute(v *view) *Step {
	if v.Pool == nil || v.poolForNow.SizePerZone == v.d.Pool.SizePerZone {
		return nil
	}
	leaving := plan.Filter(v.wanted, func(n plan.Node) bool { return n.IsOurs() && v.isLeaving(n) })
	want := v.poolForNow
	want.Replace = nil
	for _, w := range v.Pool.Workers {
		needed := slices.ContainsFunc(leaving, func(n plan.Node) bool { return n.Zone == w.Zone })
		if needed && !w.Deleting && v.isDead(w) && v.isExtra(w) {
			want.Replace = append(want.Replace, w.ID)
		}
	}
	for _, n := range leaving {
		if s := v.substituteFor(n, want); len(s.WaitingFor) > 0 {
			return s
		}
	}
	return nil
}

func (v *view) substituteFor(n plan.Node, want plan.PoolTarget) *Step {
	s := &Step{Name: "EnsurePool", Again: poolPoll, Awaits: AwaitsWorkers, WaitingFor: v.spares(n.Zone)}
	s.Reason = fmt.Sprintf("node %s is cordoned or about to go, and a new worker is to reflect before it does", n.Name)
	if w, _ := v.worker(n); w.Outdated {
		s.Reason = fmt.Sprintf("worker %s of node %s is outdated, and a new one takes its place", w.ID, n.Name)
	}
	if len(want.Replace) > 0 || v.Pool.SizePerZone < want.SizePerZone || v.countLive(n.Zone) < want.SizePerZone {
		s.WaitingFor = append(s.WaitingFor, fmt.Sprintf("a new worker in zone %s", n.Zone))
		s.Actions = []plan.Action{plan.EnsurePool{Want: want}}
	}
	return s
}

// isExtra reports whether a worker is a substitute: each zone has one more worker for now, and the worker's zone has its size without it.
func (v *view) isExtra(w ObservedWorker) bool {
	rest := plan.Filter(v.Pool.Workers, func(o ObservedWorker) bool { return o.ID != w.ID && o.Zone == w.Zone && !o.Deleting && !v.isDead(o) })
	return v.poolForNow.SizePerZone > v.d.Pool.SizePerZone && len(rest) >= v.d.Pool.SizePerZone
}

// spares returns the workers of a zone that may yet become reflectors in the place of others.
func (v *view) spares(zone string) []string {
	var out []string
	for _, w := range v.Pool.Workers {
		n, there := v.nodeOf(w)
		switch {
		case w.Zone != zone || w.Deleting || w.Failed || w.Outdated:
		case !there:
			out = append(out, fmt.Sprintf("worker %s in zone %s: %s", w.ID, w.Zone, w.Message))
		case !n.IsOurs() && !v.isLeaving(n):
			out = append(out, fmt.Sprintf("node %s to be Ready", n.Name))
		}
	}
	return out
}

// countLive returns how many workers of a zone are neither being deleted nor failed.
func (v *view) countLive(zone string) int {
	return len(plan.Filter(v.Pool.Workers, func(w ObservedWorker) bool { return w.Zone == zone && !w.Deleting && !w.Failed }))
}

// isReplaceable reports whether an outdated worker without the role can go. A node that a person has cordoned stays.
func (v *view) isReplaceable(n plan.Node, w ObservedWorker) bool {
	return w.Outdated && !n.CordonedByOthers() && (w.Former || v.isRenewed(w.Zone) || v.clock.Since(n.Created) > oldSubstitute)
}

// isRenewed reports whether a reflector of a zone runs on a worker that is not outdated, so that an outdated one can go.
func (v *view) isRenewed(zone string) bool {
	return slices.ContainsFunc(v.wanted, func(n plan.Node) bool {
		w, ok := v.worker(n)
		return ok && w.Zone == zone && !w.Outdated && v.inAssignedSlot(n)
	})
}

// retireWorkers removes a surplus worker that has no role any more.
func retireWorkers(v *view) *Step {
	if v.Pool == nil {
		return nil
	}
	for _, n := range v.Nodes {
		w, ok := v.surplusWorker(n)
		if !ok {
			continue
		}
		if p, has := v.peeringOn(n); has && !w.Deleting {
			s := do("RetireWorker", fmt.Sprintf("worker %s is no longer needed in zone %s", w.ID, w.Zone))
			s.WaitingFor = []string{fmt.Sprintf("ClusterPeering %s to have no BGPPeer on %s any more", p.Peering, n.Name)}
			s.Again, s.Awaits = evidence.Poll, AwaitsPeering
			return s
		}
		return v.retireWorker(w)
	}
	for _, w := range v.Pool.Workers {
		if !w.Former || w.Deleting {
			continue
		}
		if _, joined := v.nodeOf(w); !joined && v.isComplete() {
			return v.retireWorker(w) // it has no Node, so the loop above does not find it
		}
	}
	return nil
}

func (v *view) retireWorker(w ObservedWorker) *Step {
	want := v.poolForNow
	want.Retire = []string{w.ID}
	s := ensure("RetireWorker", fmt.Sprintf("worker %s is no longer needed in zone %s", w.ID, w.Zone), want)
	s.WaitingFor = []string{fmt.Sprintf("worker %s to be gone", w.ID)}
	if w.Deleting {
		s.Actions = nil
	}
	return s
}

// surplusWorker returns the worker of a dedicated node that has no role and is not wanted, if
// the worker is leaving already, its zone has too many, or it is outdated and replaceable.
func (v *view) surplusWorker(n plan.Node) (ObservedWorker, bool) {
	if !n.Pooled || n.IsOurs() || v.isWanted(n) || n.Deleting || n.WorkerID == "" {
		return ObservedWorker{}, false
	}
	w, ok := v.worker(n)
	return w, ok && (v.isGoing(w) || !w.Deleting && (v.isOverfull(w.Zone) || v.isReplaceable(n, w)))
}

// isOverfull reports whether the cloud runs more workers in a zone than wanted.
func (v *view) isOverfull(zone string) bool {
	allowed := v.poolForNow.SizePerZone
	if len(v.d.Pool.Zones) > 0 && !slices.Contains(v.d.Pool.Zones, zone) {
		allowed = 0
	}
	return v.countLive(zone) > allowed
}

// deleteEmptied makes the provider delete a pool that has given way to another. No step waits for that.
func deleteEmptied(v *view) *Step {
	if v.Pool == nil || v.Pool.Emptied == "" {
		return nil
	}
	return ensure("EnsurePool", fmt.Sprintf("worker pool %s has given way to another, and is still there", v.Pool.Emptied), v.poolForNow)
}

// shrinkPool asks the cloud for the smaller size or for fewer zones, once all surplus reflectors are gone.
func shrinkPool(v *view) *Step {
	if v.Pool == nil || len(v.surplus()) > 0 {
		return nil
	}
	reason := fmt.Sprintf("the worker pool is set to %d workers per zone, wanted are %d",
		v.Pool.SizePerZone, v.poolForNow.SizePerZone)
	if v.Pool.SizePerZone <= v.poolForNow.SizePerZone {
		i := slices.IndexFunc(v.Pool.Zones, func(z string) bool {
			return len(v.poolForNow.Zones) > 0 && !slices.Contains(v.poolForNow.Zones, z)
		})
		if i < 0 {
			return nil
		}
		reason = fmt.Sprintf("the worker pool still covers zone %s, which is not wanted", v.Pool.Zones[i])
	}
	return ensure("ShrinkPool", reason, v.poolForNow)
}
