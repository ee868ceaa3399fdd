package rollout

import (
	"fmt"
	"slices"
	"time"

	"github.com/rrpool/rrpool/controllers/plan"
)

// leaving: somebody is about to take a dedicated node away (cordoned, tainted for removal, its worker being deleted),
// or its worker is to give way to a newer one.
func (v *view) leaving(n plan.Node) bool {
	if !v.d.Dedicated || !n.Pooled {
		return false
	}
	w, _ := v.worker(n)
	return n.Leaving || n.CordonedByOthers() || w.Deleting || w.Outdated
}

// oldSubstitute is the age at which an outdated worker without the role gives way to a newer one: a substitute may have
// become outdated while it waited. Where those that come are outdated too, that is one a day.
const oldSubstitute = 24 * time.Hour

// leavingTime is how long nodes have to be leaving before workers are ordered for them: a cordon may be over soon.
const leavingTime = 90 * time.Second

// worker is the pool's worker behind a node.
func (v *view) worker(n plan.Node) (ObservedWorker, bool) {
	if v.Pool == nil || n.WorkerID == "" {
		return ObservedWorker{}, false
	}
	return first(v.Pool.Workers, func(w ObservedWorker) bool { return w.ID == n.WorkerID })
}

// nodeOf is the node that a worker has become.
func (v *view) nodeOf(w ObservedWorker) (plan.Node, bool) {
	for i := range v.Nodes { // nodes are large
		if v.Nodes[i].WorkerID == w.ID {
			return v.Nodes[i], true
		}
	}
	return plan.Node{}, false
}

// poolNow is the pool that is wanted for now: one more worker in each zone while a node is leaving, for leavingTime
// already. A worker that the cloud deletes is not one of them: it refills the zone by itself, or is asked to. Neither is
// one that the cloud reloads: it comes back, mostly before a new one would. The mesh carries everything while it is on,
// so nothing is ordered then, and what was ordered is kept.
func (v *view) poolNow() plan.PoolTarget {
	want := v.d.Pool
	v.nodesLeave = slices.ContainsFunc(v.Nodes, v.relieved)
	switch {
	case v.Pool == nil || !v.nodesLeave:
	case v.Pool.SizePerZone > want.SizePerZone:
		want.SizePerZone++
	case v.BGP.MeshOn():
	case v.LeavingSince.IsZero():
		v.lookIn(leavingTime)
	case v.passed(v.LeavingSince, leavingTime):
		want.SizePerZone++
	}
	return want
}

// relieved: a leaving node that has, or gets, a substitute.
func (v *view) relieved(n plan.Node) bool {
	if !v.leaving(n) {
		return false
	}
	w, ok := v.worker(n)
	return ok && !w.Deleting && !w.Pending
}

// whyLarger says why the pool is larger than it should be while there is nothing to do, "" where it is not.
func (v *view) whyLarger() string {
	if v.pool.SizePerZone == v.d.Pool.SizePerZone {
		return ""
	}
	n, _ := first(v.Nodes, v.relieved)
	if w, _ := v.worker(n); w.Outdated {
		return fmt.Sprintf("; worker %s of node %s is outdated and so are the new ones, so it stays, and each zone has one more worker meanwhile", w.ID, n.Name)
	}
	return fmt.Sprintf("; node %s is cordoned or about to go: each zone has one more worker until it has gone or is uncordoned", n.Name)
}

// substitute has one more worker in each zone before a reflector goes. Promotion and removal follow as for any other
// change of the pool: the new node gets the role once it is Ready, and the leaving one gives it back behind the gate.
// A substitute that has failed is replaced where one is needed. In other zones it stays until it is surplus: the cloud
// would order another one for each that goes.
func substitute(v *view) *Step {
	if v.pool.SizePerZone == v.d.Pool.SizePerZone {
		return nil
	}
	leaving := filter(v.wanted, func(n plan.Node) bool { return n.IsOurs() && v.leaving(n) })
	want := v.pool
	want.Replace = nil
	for _, w := range v.Pool.Workers {
		needed := slices.ContainsFunc(leaving, func(n plan.Node) bool { return n.Zone == w.Zone })
		if needed && !w.Deleting && v.isDead(w) && v.extra(w) {
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
	if len(want.Replace) > 0 || v.Pool.SizePerZone < want.SizePerZone || v.live(n.Zone) < want.SizePerZone {
		s.WaitingFor = append(s.WaitingFor, fmt.Sprintf("a new worker in zone %s", n.Zone))
		s.Actions = []plan.Action{plan.EnsurePool{Want: want}}
	}
	return s
}

// extra: a worker of a zone that has its size without it, while each has one more.
func (v *view) extra(w ObservedWorker) bool {
	rest := filter(v.Pool.Workers, func(o ObservedWorker) bool { return o.ID != w.ID && o.Zone == w.Zone && !o.Deleting && !v.isDead(o) })
	return v.pool.SizePerZone > v.d.Pool.SizePerZone && len(rest) >= v.d.Pool.SizePerZone
}

// spares names the workers of a zone that may yet become reflectors in the place of others.
func (v *view) spares(zone string) []string {
	var out []string
	for _, w := range v.Pool.Workers {
		n, there := v.nodeOf(w)
		switch {
		case w.Zone != zone || w.Deleting || w.Failed || w.Outdated:
		case !there:
			out = append(out, fmt.Sprintf("worker %s in zone %s: %s", w.ID, w.Zone, w.Message))
		case !n.IsOurs() && !v.leaving(n):
			out = append(out, fmt.Sprintf("node %s to be Ready", n.Name))
		}
	}
	return out
}

// live counts the workers of a zone that are not going or dead.
func (v *view) live(zone string) int {
	return len(filter(v.Pool.Workers, func(w ObservedWorker) bool { return w.Zone == zone && !w.Deleting && !w.Failed }))
}

// replaceable: an outdated worker without the role that can go. What a person has cordoned stays.
func (v *view) replaceable(n plan.Node, w ObservedWorker) bool {
	return w.Outdated && !n.CordonedByOthers() && (w.Former || v.renewed(w.Zone) || v.now.Sub(n.Created) > oldSubstitute)
}

// renewed: a reflector of the zone runs on a worker that is not outdated, so that an outdated one can go.
func (v *view) renewed(zone string) bool {
	return slices.ContainsFunc(v.wanted, func(n plan.Node) bool {
		w, ok := v.worker(n)
		return ok && w.Zone == zone && !w.Outdated && v.inRole(n)
	})
}
