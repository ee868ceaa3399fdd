// Package pool reconciles the RouteReflectorPool: it gathers what is true,
// lets the plan decide, applies the step, and reports once at the end.
package pool

import (
	"context"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/rrpool/rrpool/cloud"
	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/controllers/plan"
	"github.com/rrpool/rrpool/controllers/plan/rollout"
)

// Datastore is Calico: its nodes, BGP configuration and session reports.
type Datastore interface {
	// Observe gives everything known at this moment, or an error when any of it
	// is unknown.
	Observe(ctx context.Context, scope plan.Scope) (plan.Cluster, error)
	// Apply makes one change and says whether there was anything to change. What
	// concerns the pool or pods never reaches it.
	Apply(ctx context.Context, scope plan.Scope, action plan.Action) (bool, error)
	// Watch makes exactly these node reports exist and says whether it had to
	// change anything.
	Watch(ctx context.Context, want []plan.StatusRequest) (bool, error)
}

// ProviderFactory connects to the provider that cfg describes. It talks to
// nobody yet.
type ProviderFactory func(cfg ProviderConfig) (cloud.Provider, error)

// NextFunc decides the next safe step; see rollout.Next.
type NextFunc func(rollout.Observed, rollout.Desired, time.Time) rollout.Step

// Reconciler takes the cluster one safe step at a time to where the
// RouteReflectorPool wants it. It must not run concurrently with itself.
type Reconciler struct {
	// Client writes, and reads Secrets of Namespace.
	Client client.Client
	// Live reads past any cache.
	Live client.Reader
	// Datastore is Calico.
	Datastore Datastore
	// IsConflict tells a write that lost a race from one that failed.
	IsConflict func(error) bool
	// Providers makes the provider of nodes.
	Providers ProviderFactory
	// Workload is the pods that run on nodes; dedicated nodes need none.
	Workload Workload
	// Namespace holds the credentials.
	Namespace string
	// Recorder receives the events.
	Recorder events.EventRecorder
	// Leading gives the reason why another manager may be writing, nil for none. Asked
	// before every write. Nil: there is no other.
	Leading func(context.Context) error
	// Metrics are optional.
	Metrics *Metrics
	// Next, Now and Pause are rollout.Next, time.Now and a wait unless a test sets them.
	Next  NextFunc
	Now   func() time.Time
	Pause func(time.Duration)
	// Wait is how long a time by Now really takes, for tests in a hurry; nil: as long.
	Wait func(time.Duration) time.Duration

	// What follows is memory that may be lost at any time: it saves cloud
	// requests and repeated words, and decides nothing about the data plane.
	supply    supply
	clusterID string
	trouble   streak
	failing   streak
	races     int // lost in a row
	stepName  string
	// problem hinders now, told is the one that the last event spoke of.
	problem, told string
	budget        budget
	proven        map[string]time.Time
	// meshSince, shortSince and straySince: see rollout.Observed.
	meshSince, shortSince, straySince time.Time
	// drained is the last attempt to empty a node, uncounted when pods may be counted
	// again after that has failed.
	drained   drainage
	uncounted time.Time
}

// again is how soon to look after a change of our own, or after losing a race.
const again = time.Second

// Reconcile takes at most one step.
func (r *Reconciler) Reconcile(ctx context.Context, _ reconcile.Request) (reconcile.Result, error) {
	result, err := r.take(ctx)
	if r.Wait != nil {
		result.RequeueAfter = r.Wait(result.RequeueAfter)
	}
	return result, err
}

func (r *Reconciler) take(ctx context.Context) (reconcile.Result, error) {
	object, err := r.fetch(ctx)
	if err != nil {
		return reconcile.Result{}, err
	}
	if object == nil {
		r.Metrics.absent()
		return reconcile.Result{}, nil
	}
	if err := r.leading(ctx); err != nil {
		return reconcile.Result{}, err
	}
	if changed, err := r.protect(ctx, object, object.Spec.Mode != v1alpha1.ModePaused); err != nil || changed {
		return r.soon(err)
	}
	t, err := r.observe(ctx, object)
	if err != nil {
		return r.blind(ctx, t, err)
	}
	r.trouble.clear()
	if t.paused() {
		return r.onlyReport(ctx, t)
	}
	if err = r.apply(ctx, t); err == nil {
		err = t.unseen
	}
	if err == nil && t.releasable() {
		err = r.release(ctx, t)
	}
	return r.finish(ctx, t, err)
}

// turn is one reconciliation: what was gathered, what was decided and what came of it.
type turn struct {
	object  *v1alpha1.RouteReflectorPool
	now     time.Time
	cluster plan.Cluster
	// origin is the provider that was chosen, or why there is none.
	origin origin
	// pool is the provider's pool as decisions may use it, nil when unknown.
	pool    *cloud.Pool
	desired rollout.Desired
	step    rollout.Step
	// worry is what is not as the spec wants it, and no reason to stop.
	worry *plan.Problem
	// evictable holds the pods still to move from the node that the step drains,
	// unseen why nobody could look, and blocked which of them may not go now.
	evictable map[string][]string
	unseen    error
	blocked   []string
	// changes counts what was really changed.
	changes int
	// advanced: something was changed that brings the step closer to its end.
	advanced bool
	// since is when the step, or what it waits for now, began.
	since metav1.Time
	// released: the finalizer is gone, and the object with it.
	released bool
}

func (t *turn) deleting() bool { return t.object.DeletionTimestamp != nil }

// paused: a deletion is not held up by a pause, the mesh has to come back.
func (t *turn) paused() bool {
	return t.object.Spec.Mode == v1alpha1.ModePaused && !t.deleting()
}

// reflecting: the cluster is wanted on route reflectors.
func (t *turn) reflecting() bool {
	return t.object.Spec.Mode != v1alpha1.ModeFullMesh && !t.deleting()
}

// needsProvider: without it the cluster does not get where it is wanted. The
// mesh needs none.
func (t *turn) needsProvider() bool {
	return t.reflecting() || t.step.Name == StepDeletePool || slices.ContainsFunc(t.step.Actions, func(a plan.Action) bool {
		_, releases := a.(plan.ReleasePool)
		return releases
	})
}

// fetch reads past the cache: a stale mode or a stale status must not be acted on.
func (r *Reconciler) fetch(ctx context.Context) (*v1alpha1.RouteReflectorPool, error) {
	object := &v1alpha1.RouteReflectorPool{}
	err := r.Live.Get(ctx, client.ObjectKey{Name: v1alpha1.SingletonName}, object)
	if apierrors.IsNotFound(err) {
		r.supply.reset()
		r.problem, r.told = "", "" // another object is told anew
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading RouteReflectorPool %q: %w", v1alpha1.SingletonName, err)
	}
	return object, nil
}

// finish reports the turn, once, and says when to look again.
func (r *Reconciler) finish(ctx context.Context, t *turn, err error) (reconcile.Result, error) {
	if t.released {
		r.Metrics.absent()
		return reconcile.Result{}, nil
	}
	t.since = since(t)
	r.remember(t)
	r.narrate(ctx, t)
	var shown error
	switch {
	case err == nil:
		r.failing.clear()
		r.races = 0
	case r.loses(err):
		shown = r.failing.add(t.step.Name, err)
	}
	if patchErr := r.report(ctx, t, shown); err == nil {
		err = patchErr
	}
	if err != nil && t.step.Short && !r.lostRace(err) {
		// The safety net must not sleep through a back-off: it is due in seconds.
		log.FromContext(ctx).Error(err, "the step failed while too few route reflectors serve: trying again soon", "step", t.step.Name)
		return reconcile.Result{RequeueAfter: again}, nil
	}
	if err != nil {
		return r.soon(err)
	}
	return reconcile.Result{RequeueAfter: r.wake(t)}, nil
}

// blind reports that the cluster could not be observed; nothing was decided.
func (r *Reconciler) blind(ctx context.Context, t *turn, err error) (reconcile.Result, error) {
	shown := r.trouble.add("observe", err)
	if patchErr := r.reportUnknown(ctx, t, shown); patchErr != nil {
		log.FromContext(ctx).V(1).Info("status not written", "reason", patchErr.Error())
	}
	return r.soon(err)
}

// soon turns a lost race into a quiet second try; other errors back off.
func (r *Reconciler) soon(err error) (reconcile.Result, error) {
	if err == nil || r.lostRace(err) {
		return reconcile.Result{RequeueAfter: again}, nil
	}
	return reconcile.Result{}, err
}

// manyRaces is how many races in a row may be lost before that is worth reporting:
// somebody writes all the time, or refuses our writes as if somebody did.
const manyRaces = 10

// loses reports whether err is worth telling: a race that was lost is not, but for the
// last of many.
func (r *Reconciler) loses(err error) bool {
	if !r.lostRace(err) {
		return true
	}
	r.races++
	return r.races >= manyRaces
}

func (r *Reconciler) lostRace(err error) bool {
	return apierrors.IsConflict(err) || (r.IsConflict != nil && r.IsConflict(err))
}

// wake is when to look again even if nothing is pushed.
func (r *Reconciler) wake(t *turn) time.Duration {
	wait := r.interval(t)
	for _, due := range []time.Duration{t.step.Again, r.supply.due(t.now, wait), r.supply.mutable(t.now)} {
		if due > 0 {
			wait = min(wait, due)
		}
	}
	if t.changes > 0 {
		wait = again
	}
	return max(wait, again)
}

// leading is Leading where there is one.
func (r *Reconciler) leading(ctx context.Context) error {
	if r.Leading == nil {
		return nil
	}
	return r.Leading(ctx)
}

func (r *Reconciler) now() time.Time {
	if r.Now != nil {
		return r.Now()
	}
	return time.Now()
}

func (r *Reconciler) next(o rollout.Observed, d rollout.Desired, now time.Time) rollout.Step {
	if r.Next != nil {
		return r.Next(o, d, now)
	}
	return rollout.Next(o, d, now)
}

func scopeOf(object *v1alpha1.RouteReflectorPool) plan.Scope {
	return plan.Scope{
		RoleLabel: object.Spec.BGP.NodeLabel,
		ZoneLabel: object.Spec.Topology.ZoneLabel,
	}
}

// Turn is what one turn of the manager saw, decided and did, for whoever asks what
// it would do.
type Turn struct {
	// Cluster as the decision saw it.
	Cluster plan.Cluster
	// Provider is the type after Auto was resolved, Obstacle why it is of no use at
	// the moment, nil for nothing.
	Provider v1alpha1.ProviderType
	Obstacle *plan.Problem
	// Pool is the provider's pool as last seen, nil when it was not.
	Pool    *cloud.Pool
	Desired rollout.Desired
	Step    rollout.Step
	// WaitingFor is what the step waits for, in the cluster and in the cloud.
	WaitingFor []string
	// Changes counts what was changed, Again is when the next turn is due.
	Changes int
	Again   time.Duration
	// Status is what the manager would report.
	Status v1alpha1.RouteReflectorPoolStatus
}

// Look observes and decides as a turn does, and changes nothing, whatever the mode.
// Events may be told of what was seen.
func (r *Reconciler) Look(ctx context.Context, object *v1alpha1.RouteReflectorPool) (Turn, error) {
	t, err := r.observe(ctx, object)
	if err != nil {
		return Turn{}, err
	}
	return r.shown(t), nil
}

// Rehearse takes a whole turn, but neither reads nor writes the object: with a
// Datastore and Providers that are models it shows what the manager would do with the
// real ones.
func (r *Reconciler) Rehearse(ctx context.Context, object *v1alpha1.RouteReflectorPool) (Turn, error) {
	t, err := r.observe(ctx, object)
	if err != nil {
		return Turn{}, err
	}
	if !t.paused() {
		err = r.apply(ctx, t)
	}
	t.since = since(t)
	r.remember(t)
	r.narrate(ctx, t)
	return r.shown(t), err
}

// observe gathers and decides.
func (r *Reconciler) observe(ctx context.Context, object *v1alpha1.RouteReflectorPool) (*turn, error) {
	t := &turn{object: object, now: r.now()}
	var err error
	if t.cluster, err = r.Datastore.Observe(ctx, scopeOf(object)); err != nil {
		return t, fmt.Errorf("observing the cluster: %w", err)
	}
	r.decide(ctx, t)
	return t, nil
}

func (r *Reconciler) shown(t *turn) Turn {
	return Turn{
		Cluster: t.cluster, Provider: t.origin.kind, Obstacle: providerProblem(t, &r.supply), Pool: r.supply.last,
		Desired: t.desired, Step: t.step, WaitingFor: r.waiting(t), Changes: t.changes, Again: r.wake(t),
		Status: r.status(t, nil),
	}
}
