package pool

import (
	"context"
	"slices"
	"time"

	"github.com/rrpool/rrpool/cloud"
	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/controllers/plan"
	"github.com/rrpool/rrpool/controllers/plan/rollout"
)

// decide chooses the provider, asks it when that is due, and computes the step.
// The step is computed before the cloud is asked as well, because what has to
// happen at once must not wait for an answer that may not come; neither must what is
// due in seconds, as while too few reflectors serve. Existing nodes are
// no cloud: looking at them is no request.
func (r *Reconciler) decide(ctx context.Context, t *turn) {
	r.identify(ctx, t)
	r.supply.meshOff = !t.cluster.BGP.MeshOn()
	if t.busy() {
		r.supply.observe(ctx, t.now, 0)
	}
	r.compute(t)
	if t.busy() {
		r.look(ctx, t)
		return
	}
	if !t.usesProvider() || urgent(t) || t.step.Short {
		return
	}
	if r.supply.observe(ctx, t.now, r.interval(t)) {
		r.compute(t)
	}
}

// compute is pure but for the pool, which it takes from memory.
func (r *Reconciler) compute(t *turn) {
	t.pool = r.supply.usable()
	taint := taintOf(t.object.Spec.Provider.IKS.Taint)
	if t.busy() {
		taint = cloud.Taint{}
		enlisted(t.cluster.Nodes)
	} else {
		fillIn(t.cluster.Nodes, t.object.Spec.Provider.IKS.PoolName, r.supply.members())
	}
	t.cluster.Problems = relevant(t.cluster.Problems, t.object.Spec.Rollout.Gate)
	desired, problem := desire(t, r.supply.last)
	t.desired = desired
	r.meshSince = sinceWhen(r.meshSince, t.cluster.BGP.MeshOn(), t.now)
	observed := rollout.Observed{
		Cluster:    t.cluster,
		Pool:       poolOf(t.pool, t.cluster.Nodes, taint),
		Proven:     r.proven,
		MeshSince:  r.meshSince,
		ShortSince: r.shortSince,
		StraySince: r.straySince,
		Evictable:  t.evictable,
	}
	if problem != nil {
		t.step = r.refuse(t, observed, *problem)
		return
	}
	t.step = r.next(observed, desired, t.now)
}

// refuse does nothing because of the spec, with one exception: a cluster that
// has lost its reflectors gets its mesh, which only adds sessions. To know that, stale
// reports are asked for again. How many
// reflectors there should be is then taken from the pool as it is.
func (r *Reconciler) refuse(t *turn, observed rollout.Observed, problem plan.Problem) rollout.Step {
	desired := t.desired
	if known := r.supply.last; known != nil && known.Owned {
		desired.Pool = plan.PoolWant{SizePerZone: known.SizePerZone, Zones: known.Zones}
	}
	step := r.next(observed, desired, t.now)
	if step.Urgent {
		step.Problem = &problem
		return step
	}
	refused := rollout.Step{Name: "InvalidSpec", Reason: problem.Message, Problem: &problem, Short: step.Short, Again: step.Again}
	refused.Actions = slices.DeleteFunc(step.Actions, func(a plan.Action) bool { return !isRefresh(a) })
	return refused
}

func isRefresh(action plan.Action) bool {
	_, is := action.(plan.RefreshStatus)
	return is
}

// relevant leaves out what the chosen gate does not suffer from: fixed waits need
// no reports.
func relevant(problems []plan.Problem, gate v1alpha1.Gate) []plan.Problem {
	if gate != v1alpha1.GateTimer {
		return problems
	}
	return slices.DeleteFunc(slices.Clone(problems), func(p plan.Problem) bool {
		return p.Reason == ReasonNodeStatusCRDMissing
	})
}

// interval is how often this turn's step wants to look at the provider, and at
// the cluster without being pushed.
func (r *Reconciler) interval(t *turn) time.Duration {
	switch {
	case t.paused() || t.step.Name == rollout.Steady && t.step.Problem == nil:
		return intervalRest
	case t.step.Problem != nil || t.origin.problem != nil || r.supply.hindered():
		return intervalBlocked
	default:
		return intervalActive
	}
}

// remember keeps what a step has proven until the cluster is at rest, and since
// when too few reflectors serve or BGPPeers are stray; losing it costs another
// look, or wait.
func (r *Reconciler) remember(t *turn) {
	if t.step.Name == rollout.Steady {
		r.proven = nil
	}
	if r.proven == nil && len(t.step.Proven) > 0 {
		r.proven = make(map[string]time.Time, len(t.step.Proven))
	}
	for _, node := range t.step.Proven {
		r.proven[node] = t.now
	}
	r.shortSince = sinceWhen(r.shortSince, t.step.Short, t.now)
	r.straySince = sinceWhen(r.straySince, t.step.Stray, t.now)
}

// sinceWhen keeps the time since which something is so, zero while it is not.
func sinceWhen(since time.Time, so bool, now time.Time) time.Time {
	switch {
	case !so:
		return time.Time{}
	case since.IsZero():
		return now
	}
	return since
}

// usesProvider: there is a provider that this turn may ask.
func (t *turn) usesProvider() bool { return t.origin.problem == nil }

// urgent: the mesh has to come back, and never waits for the cloud.
func urgent(t *turn) bool {
	if !t.reflecting() {
		return t.step.Name != rollout.Steady
	}
	return restores(t.step)
}

// restores: the step switches the mesh on.
func restores(step rollout.Step) bool {
	return slices.ContainsFunc(step.Actions, func(action plan.Action) bool {
		_, ok := action.(plan.RestoreMesh)
		return ok
	})
}
