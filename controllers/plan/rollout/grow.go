package rollout

import (
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/rrpool/rrpool/controllers/plan"
)

// Starting reports whether no node reflects yet, and none has relied on it.
func Starting(c plan.Cluster) bool {
	return c.BGP.Saved == nil && (c.BGP.MeshOn() || !Relied(c)) && !slices.ContainsFunc(c.Nodes, plan.Node.IsOurs)
}

func (v *view) starting() bool { return Starting(v.Cluster) }

// ready: every wanted node is there and Ready, in its role or not.
func (v *view) ready() bool {
	return len(v.wanted) > 0 && len(v.wanted) >= v.total && len(filter(v.wanted, usable)) == len(v.wanted)
}

// mayStart: all wanted nodes are there, of a pool that is known to be as wanted.
func (v *view) mayStart() bool {
	if !v.d.Dedicated {
		return v.ready() && len(v.clients) > v.total // without a client the mesh could never go
	}
	return v.ready() && v.Pool != nil && v.Pool.Drifted == ""
}

// promote gives the role to wanted nodes that are Ready. Dedicated ones run no workloads, so their own sessions may
// restart. At the start it waits for all of them: a pool that never becomes complete leaves the cluster as it was.
func promote(v *view) *Step {
	if v.starting() && !v.mayStart() {
		return nil
	}
	if !v.d.Dedicated {
		return v.promoteNext()
	}
	s := &Step{Name: "PromoteReflectors"}
	for _, n := range v.wanted {
		if usable(n) && !n.IsOurs() && !v.untainted(n) {
			s.Actions = append(s.Actions, v.setReflector(n))
		}
	}
	if len(s.Actions) == 0 {
		return nil
	}
	if left := v.scopedFor(); left > 0 {
		return awaitTakeOver(v.quiet, left, s.Name, "the reflectors of the topology that is left must not connect to the new ones")
	}
	s.Reason = fmt.Sprintf("%d dedicated nodes are Ready and run no workloads", len(s.Actions))
	return s
}

// untainted: workloads may run on a dedicated node, and would lose their sessions with the change of role.
func (v *view) untainted(n plan.Node) bool {
	return v.d.Taint != "" && n.LacksTaint(v.d.Taint)
}

// growPool brings the pool to its size, replaces what has failed, and waits for
// nodes. Without a report of the pool it decides nothing.
func growPool(v *view) *Step {
	if !v.d.Dedicated {
		return v.joinPool()
	}
	if v.Pool == nil {
		if v.ready() {
			return nil
		}
		return &Step{
			Name: "AwaitProvider", Reason: "the state of the worker pool is unknown, so nothing is ordered or removed",
			WaitingFor: []string{"the provider to answer"}, Again: poolPoll,
		}
	}
	want := v.pool
	want.Retire, want.Replace = nil, v.failed()
	if s := v.giveUpFirst(&want); s != nil {
		return s
	}
	s := ensure("EnsurePool", v.poolLacks(want.Replace), want)
	if s.Reason == "" { // there is nothing to ask the cloud for
		if v.ready() {
			return nil
		}
		if another := substitute(v); another != nil && len(another.Actions) > 0 {
			return another // a reflector that is away is no reason to let another one go without
		}
		s.Reason, s.Actions = fmt.Sprintf("%d of %d dedicated nodes are Ready", len(filter(v.wanted, usable)), v.total), nil
	}
	s.WaitingFor = v.missingNodes()
	return s
}

// giveUpFirst empties zones that are being given up, where the cloud cannot be asked for the workers that others lack
// without these getting some as well. Where they are needed until others serve, that is how it has to be.
func (v *view) giveUpFirst(want *plan.PoolTarget) *Step {
	p, zones := v.Pool, v.d.Pool.Zones
	short := p.SizePerZone < v.d.Pool.SizePerZone || v.short() != ""
	if !short || len(zones) == 0 || !sets.New(p.Zones...).HasAll(zones...) {
		return nil
	}
	refilled := filter(p.Zones, func(z string) bool { return !slices.Contains(zones, z) && v.live(z) < v.d.Pool.SizePerZone })
	switch {
	case len(refilled) == 0:
		return nil
	case len(want.Replace) > 0 || p.Drifted != "" || !v.canEmpty(refilled):
		want.Refill = true
		return nil
	}
	return shrink(v)
}

// canEmpty: of these zones something goes, or may come to go, that does not reflect, or enough reflectors serve without the next one.
func (v *view) canEmpty(zones []string) bool {
	workers, reflecting := filter(v.Pool.Workers, func(w ObservedWorker) bool { return slices.Contains(zones, w.Zone) }), 0
	for _, w := range workers {
		n, joined := v.nodeOf(w)
		switch {
		case n.IsOurs():
			reflecting++
		case !joined && !w.Pending && !w.Failed && !v.goes(w):
			return false // it is no node, so nothing shows that it could go
		}
	}
	if reflecting < max(len(workers), len(zones)) {
		return true
	}
	surplus, least := v.surplus(), max(2, v.d.MinServing)
	return len(v.wanted) > 0 && len(surplus) > 0 && v.servingFor(filter(others(v.current, surplus[0]), v.serves), least) >= least
}

// poolLacks says why the pool is not as wanted, "" when it is. Substitutes are not missed here: nothing depends on them.
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
	case v.short() != "":
		return fmt.Sprintf("the worker pool has too few workers in zone %s", v.short())
	case !sets.New(p.Zones...).HasAll(want.Zones...):
		return "the worker pool does not cover every zone yet"
	}
	return ""
}

// short names a zone of the pool with fewer workers than wanted: the cloud does
// not refill a zone that a worker was removed from by name until it is asked to.
func (v *view) short() string {
	for _, z := range v.d.Pool.Zones {
		workers := filter(v.Pool.Workers, func(w ObservedWorker) bool { return w.Zone == z && !w.Deleting })
		if len(workers) < v.d.Pool.SizePerZone && slices.Contains(v.Pool.Zones, z) {
			return z
		}
	}
	return ""
}

// missingNodes names what keeps the wanted nodes from being Ready.
func (v *view) missingNodes() []string {
	var out []string
	named := map[string]bool{}
	for _, n := range v.wanted {
		named[n.WorkerID] = true
		switch {
		case usable(n):
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

// deadTime is how long a node may be NotReady, with no session left, before its worker is replaced although the
// cloud does not call it failed. Much longer than any reboot: replacing is final.
const deadTime = 15 * time.Minute

// goes: the worker is on its way out, and its end is waited for.
func (v *view) goes(w ObservedWorker) bool {
	return w.Deleting && (w.LeavingSince.IsZero() || !v.passed(w.LeavingSince, LeavingLimit))
}

// failed gives the workers to replace, while none is on its way out: they have failed, or their nodes are dead. The provider takes one
// after the other, and passes over one that it cannot replace. While the mesh is off, others must serve. For one that is there for a
// while only see substitute.
func (v *view) failed() (out []string) {
	if slices.ContainsFunc(v.Pool.Workers, v.goes) {
		return nil
	}
	if !v.BGP.MeshOn() && len(v.serving()) < min(2, v.total-1) {
		return nil
	}
	for _, w := range v.Pool.Workers {
		if v.isDead(w) && !v.extra(w) {
			out = append(out, w.ID)
		}
	}
	return out
}

// isDead: the cloud says it failed and no node that may come back stands behind
// it; or its node is away for long, no reflector has a session with it, and the cloud does not set it up anew.
func (v *view) isDead(w ObservedWorker) bool {
	n, there := v.nodeOf(w)
	if !there {
		return w.Failed
	}
	if w.Failed {
		return v.lost(n)
	}
	return !w.Pending && !n.Ready && v.notReadyFor(n) > max(deadTime, v.d.NotReadyGrace) && !v.hasSession(n)
}

// hasSession: some other reflector reports an Established session with n.
func (v *view) hasSession(n plan.Node) bool {
	return slices.ContainsFunc(others(v.witnesses(), n), func(h plan.Node) bool {
		return slices.ContainsFunc(v.Statuses[h.Name].Sessions, func(s plan.Session) bool {
			return s.Established && slices.Contains(n.Addresses, s.Peer)
		})
	})
}
