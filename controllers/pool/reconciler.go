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

// ProviderFactory connects to the provider that cfg describes. It connects to
// nothing yet.
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
	// IsConflict tells a conflict from other failures.
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
	// Wait is how long a time by Now really takes, for tests with a fast clock; nil: as long.
	Wait func(time.Duration) time.Duration

	// What follows is memory that may be lost at any time: it saves cloud
	// requests and repeated events, and decides nothing about the data plane.
	poolClient    poolClient
	clusterID     string
	observeErrors errorSeries
	stepErrors    errorSeries
	conflicts     int // lost in a row
	stepName      string
	// problem is the present one, reportedProblem the one of the last event.
	problem, reportedProblem string
	budget                   eventBudget
	proven                   map[string]time.Time
	// meshSince, shortSince and straySince: see rollout.Observed.
	meshSince, shortSince, straySince time.Time
	// drained is the last attempt to empty a node, countAgain when pods may be counted
	// again after that has failed.
	drained    drainAttempt
	countAgain time.Time
}

// again is how soon to look after a change of our own, or after a conflict.
const again = time.Second

// Reconcile takes at most one step.
func (r *Reconciler) Reconcile(ctx context.Context, _ reconcile.Request) (reconcile.Result, error) {
	result, err := r.reconcile(ctx)
	if r.Wait != nil {
		result.RequeueAfter = r.Wait(result.RequeueAfter)
	}
	return result, err
}

func (r *Reconciler) reconcile(ctx context.Context) (reconcile.Result, error) {
	object, err := r.fetch(ctx)
	if err != nil {
		return reconcile.Result{}, err
	}
	if object == nil {
		r.Metrics.objectAbsent()
		return reconcile.Result{}, nil
	}
	if err := r.leading(ctx); err != nil {
		return reconcile.Result{}, err
	}
	if changed, err := r.addFinalizer(ctx, object, object.Spec.Mode != v1alpha1.ModePaused); err != nil || changed {
		return r.retry(err)
	}
	s, err := r.observe(ctx, object)
	if err != nil {
		return r.observeFailed(ctx, s, err)
	}
	r.observeErrors.clear()
	if s.paused() {
		return r.reportPaused(ctx, s)
	}
	if err = r.apply(ctx, s); err == nil {
		err = s.podsErr
	}
	if err == nil && s.releasable() {
		err = r.release(ctx, s)
	}
	return r.finish(ctx, s, err)
}

// scope is one reconciliation: what was gathered, what was decided and what came of it.
type scope struct {
	object  *v1alpha1.RouteReflectorPool
	now     time.Time
	cluster plan.Cluster
	// provider is the one that was chosen, or why there is none.
	provider resolvedProvider
	// pool is the provider's pool as decisions may use it, nil when unknown.
	pool    *cloud.Pool
	desired rollout.Desired
	step    rollout.Step
	// warning is what is not as the spec wants it, and no reason to stop.
	warning *plan.Problem
	// evictable holds the pods still to move from the node that the step drains,
	// podsErr why they could not be listed, and blockedPods which of them may not go now.
	evictable   map[string][]string
	podsErr     error
	blockedPods []string
	// changes counts what was really changed.
	changes int
	// advanced: something was changed that brings the step closer to its end.
	advanced bool
	// since is when the step, or what it waits for now, began.
	since metav1.Time
	// released: the finalizer is gone, and the object with it.
	released bool
}

func (s *scope) deleting() bool { return s.object.DeletionTimestamp != nil }

// paused: a deletion is not held up by a pause, the mesh has to come back.
func (s *scope) paused() bool {
	return s.object.Spec.Mode == v1alpha1.ModePaused && !s.deleting()
}

// reflecting: the cluster is wanted on route reflectors.
func (s *scope) reflecting() bool {
	return s.object.Spec.Mode != v1alpha1.ModeFullMesh && !s.deleting()
}

// needsProvider: without it the cluster does not get where it is wanted. The
// mesh needs none.
func (s *scope) needsProvider() bool {
	return s.reflecting() || s.step.Name == StepDeletePool || slices.ContainsFunc(s.step.Actions, func(a plan.Action) bool {
		_, releases := a.(plan.ReleasePool)
		return releases
	})
}

// fetch reads past the cache: a stale mode or a stale status must not be acted on.
func (r *Reconciler) fetch(ctx context.Context) (*v1alpha1.RouteReflectorPool, error) {
	object := &v1alpha1.RouteReflectorPool{}
	err := r.Live.Get(ctx, client.ObjectKey{Name: v1alpha1.SingletonName}, object)
	if apierrors.IsNotFound(err) {
		r.poolClient.reset()
		r.problem, r.reportedProblem = "", "" // another object gets its own events
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading RouteReflectorPool %q: %w", v1alpha1.SingletonName, err)
	}
	return object, nil
}

// finish reports the reconciliation once, and says when to look again.
func (r *Reconciler) finish(ctx context.Context, s *scope, err error) (reconcile.Result, error) {
	if s.released {
		r.Metrics.objectAbsent()
		return reconcile.Result{}, nil
	}
	s.since = since(s)
	r.remember(s)
	r.reportStep(ctx, s)
	var shown error
	switch {
	case err == nil:
		r.stepErrors.clear()
		r.conflicts = 0
	case r.worthReporting(err):
		shown = r.stepErrors.add(s.step.Name, err)
	}
	if patchErr := r.report(ctx, s, shown); err == nil {
		err = patchErr
	}
	if err != nil && s.step.Short && !r.isConflict(err) {
		// The safety net must not sleep through a back-off: it is due in seconds.
		log.FromContext(ctx).Error(err, "the step failed while too few route reflectors serve: trying again soon", "step", s.step.Name)
		return reconcile.Result{RequeueAfter: again}, nil
	}
	if err != nil {
		return r.retry(err)
	}
	return reconcile.Result{RequeueAfter: r.nextLook(s)}, nil
}

// observeFailed reports that the cluster could not be observed; nothing was decided.
func (r *Reconciler) observeFailed(ctx context.Context, s *scope, err error) (reconcile.Result, error) {
	shown := r.observeErrors.add("observe", err)
	if patchErr := r.reportUnknown(ctx, s, shown); patchErr != nil {
		log.FromContext(ctx).V(1).Info("status not written", "reason", patchErr.Error())
	}
	return r.retry(err)
}

// retry requeues quietly after a conflict; other errors back off.
func (r *Reconciler) retry(err error) (reconcile.Result, error) {
	if err == nil || r.isConflict(err) {
		return reconcile.Result{RequeueAfter: again}, nil
	}
	return reconcile.Result{}, err
}

// manyRaces is how many conflicts in a row are not reported:
// another client writes all the time, or our writes are refused with 409.
const manyConflicts = 10

// worthReporting reports whether err belongs in the status: a conflict does
// not, until many follow each other.
func (r *Reconciler) worthReporting(err error) bool {
	if !r.isConflict(err) {
		return true
	}
	r.conflicts++
	return r.conflicts >= manyConflicts
}

func (r *Reconciler) isConflict(err error) bool {
	return apierrors.IsConflict(err) || (r.IsConflict != nil && r.IsConflict(err))
}

// nextLook is when to look again even if nothing is pushed.
func (r *Reconciler) nextLook(s *scope) time.Duration {
	wait := r.interval(s)
	for _, due := range []time.Duration{s.step.Again, r.poolClient.due(s.now, wait), r.poolClient.untilChange(s.now)} {
		if due > 0 {
			wait = min(wait, due)
		}
	}
	if s.changes > 0 {
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

// Scope is what one reconciliation saw, decided and did, for callers that ask what
// it would do.
type Scope struct {
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
	// Changes counts what was changed, Again is when the next one is due.
	Changes int
	Again   time.Duration
	// Status is what the manager would report.
	Status v1alpha1.RouteReflectorPoolStatus
}

// Look observes and decides as a reconciliation does, and changes nothing, whatever the mode.
// It may emit events.
func (r *Reconciler) Look(ctx context.Context, object *v1alpha1.RouteReflectorPool) (Scope, error) {
	s, err := r.observe(ctx, object)
	if err != nil {
		return Scope{}, err
	}
	return r.export(s), nil
}

// Rehearse makes a whole reconciliation, but neither reads nor writes the object: with a
// Datastore and Providers that are models it shows what the manager would do with the
// real ones.
func (r *Reconciler) Rehearse(ctx context.Context, object *v1alpha1.RouteReflectorPool) (Scope, error) {
	s, err := r.observe(ctx, object)
	if err != nil {
		return Scope{}, err
	}
	if !s.paused() {
		err = r.apply(ctx, s)
	}
	s.since = since(s)
	r.remember(s)
	r.reportStep(ctx, s)
	return r.export(s), err
}

// observe gathers and decides.
func (r *Reconciler) observe(ctx context.Context, object *v1alpha1.RouteReflectorPool) (*scope, error) {
	s := &scope{object: object, now: r.now()}
	var err error
	if s.cluster, err = r.Datastore.Observe(ctx, scopeOf(object)); err != nil {
		return s, fmt.Errorf("observing the cluster: %w", err)
	}
	r.decide(ctx, s)
	return s, nil
}

func (r *Reconciler) export(s *scope) Scope {
	return Scope{
		Cluster: s.cluster, Provider: s.provider.kind, Obstacle: providerProblem(s, &r.poolClient), Pool: r.poolClient.last,
		Desired: s.desired, Step: s.step, WaitingFor: r.waiting(s), Changes: s.changes, Again: r.nextLook(s),
		Status: r.status(s, nil),
	}
}
