// Package pool reconciles the RouteReflectorPool: it gathers what is true,
// lets the plan decide, applies the step, and reports once at the end.
package pool

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/rrpool/rrpool/cloud"
	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/controllers/calico"
	"github.com/rrpool/rrpool/controllers/plan"
	"github.com/rrpool/rrpool/controllers/plan/rollout"
)

// Datastore is Calico: its nodes, BGP configuration and session reports.
type Datastore interface {
	// Observe gives everything known at this moment, or an error when any of it is unknown.
	Observe(ctx context.Context, scope plan.DatastoreOptions) (plan.Cluster, error)
	// Apply makes one change and says whether there was anything to change. What
	// concerns the pool or pods never reaches it.
	Apply(ctx context.Context, scope plan.DatastoreOptions, action plan.Action) (bool, error)
	// Watch makes exactly these node reports exist and says whether it had to change anything.
	Watch(ctx context.Context, want []plan.StatusRequest) (bool, error)
	// Try asks whether Apply would be refused, and changes nothing. See calico.Refuses.
	Try(ctx context.Context, scope plan.DatastoreOptions, action plan.Action) error
}

// ProviderFactory makes the provider that cfg describes. It sends no request yet.
type ProviderFactory func(cfg ProviderConfig) (cloud.Provider, error)

// Reconciler takes the cluster one safe step at a time to where the
// RouteReflectorPool wants it. It must not run concurrently with itself.
type Reconciler struct {
	// Client writes, and reads the credentials, which are in Namespace.
	Client client.Client
	// Live reads past any cache.
	Live      client.Reader
	Datastore Datastore
	Providers ProviderFactory
	// Platforms are the clouds that nodes may be of.
	Platforms []cloud.Platform
	// Workload is the pods that run on nodes; dedicated nodes need none.
	Workload  Workload
	Namespace string

	// All that follows may be left out.

	// TokenFile has the token of the manager's service account for audience iam. Without one a
	// trusted profile cannot log in, and its cloud is not asked.
	TokenFile string
	Recorder  events.EventRecorder
	// Leading gives the reason why another manager may be writing, nil for none. It is asked before every write.
	Leading func(context.Context) error
	Metrics *Metrics
	// Next, Now and Pause are rollout.Next, time.Now and a wait unless a test sets them.
	Next  func(rollout.Observed, rollout.Desired, time.Time) rollout.Step
	Now   func() time.Time
	Pause func(time.Duration)
	// Elapsed is the time that has passed by a clock that is never set. With a Now of its own and without it,
	// nothing notices that the clock of Now was set.
	Elapsed func() time.Duration
	// Wait is how long a time by Now really takes, for tests with a fast clock.
	Wait func(time.Duration) time.Duration

	// What follows is memory that may be lost at any time: it saves cloud
	// requests and repeated events, and decides nothing about the data plane.
	poolClient    poolClient
	tried         []plan.Action // what the datastore would take
	sized         int           // workers per zone that were wanted last, 0: unknown
	clusterID     string
	observeErrors errorSeries
	stepErrors    errorSeries
	conflicts     int // lost in a row
	stepName      string
	rule          string // that of the last step
	// problem is the present one, reportedProblem the one of the last event.
	problem, reportedProblem string
	budget                   eventBudget
	// memory is what an observation of the cluster does not show.
	memory rollout.Memory
	// origin is where Elapsed began, by our clock at the last look.
	origin time.Time
	// drained is the last attempt to empty a node, countAgain when pods may be counted again after that has failed.
	drained    drainAttempt
	countAgain time.Time
}

// again is how soon to look after a change of our own, or after a conflict.
const again = time.Second

// setDefaults sets what was left out.
func (r *Reconciler) setDefaults() {
	if r.Leading == nil {
		r.Leading = func(context.Context) error { return nil }
	}
	if r.Metrics == nil {
		r.Metrics = NewMetrics(prometheus.NewRegistry())
	}
	if r.Next == nil {
		r.Next = rollout.Next
	}
	if r.poolClient.record == nil {
		r.poolClient.record = &record{}
	}
	if r.budget == nil {
		r.budget = eventBudget{}
	}
	if r.Now == nil {
		began := time.Now()
		r.Now, r.Elapsed = time.Now, func() time.Duration { return time.Since(began) }
	}
	if r.Wait == nil {
		r.Wait = func(d time.Duration) time.Duration { return d }
	}
	if r.Pause == nil {
		r.Pause = func(d time.Duration) { time.Sleep(r.Wait(d)) }
	}
}

// Reconcile takes at most one step.
func (r *Reconciler) Reconcile(ctx context.Context, _ reconcile.Request) (reconcile.Result, error) {
	r.setDefaults()
	result, err := r.reconcile(ctx)
	result.RequeueAfter = r.Wait(result.RequeueAfter)
	return result, err
}

func (r *Reconciler) reconcile(ctx context.Context) (reconcile.Result, error) {
	object, err := r.fetch(ctx)
	if err != nil || object == nil {
		return reconcile.Result{}, err
	}
	if err := r.Leading(ctx); err != nil {
		return reconcile.Result{}, err
	}
	if changed, err := r.addFinalizer(ctx, object, object.Spec.Mode != v1alpha1.ModePaused); err != nil || changed {
		return retry(err)
	}
	r.readRecord(object)
	s, err := r.observe(ctx, &Scope{object: object})
	if err != nil {
		return r.observeFailed(ctx, s, err)
	}
	if s.Untried != nil && !s.paused() && !calico.Untriable(s.Untried) {
		return r.observeFailed(ctx, s, s.Untried)
	}
	r.observeErrors = errorSeries{}
	if s.paused() {
		return r.reportPaused(ctx, s)
	}
	return r.finish(ctx, s, r.act(ctx, s))
}

// act applies the step, and lets the object go once nothing needs it.
func (r *Reconciler) act(ctx context.Context, s *Scope) error {
	if err := r.apply(ctx, s); err != nil {
		return err
	}
	err := r.rememberPools(ctx, s)
	if apierrors.IsForbidden(err) || apierrors.IsInvalid(err) { // a policy refuses it, and again each time: nothing waits for that
		s.noteErr, err = err, nil
	}
	if err = errors.Join(s.podsErr, err); err != nil || !s.releasable() {
		return err
	}
	return r.release(ctx, s)
}

// Scope is one reconciliation: what was gathered, what was decided and what came of it.
type Scope struct {
	// Cluster as the decision saw it.
	Cluster plan.Cluster
	// Provider is the type after Auto was resolved.
	Provider v1alpha1.ProviderType
	platform cloud.Platform // nil for existing nodes
	Desired  rollout.Desired
	Step     rollout.Step
	// Changes counts what was really changed.
	Changes int

	// What follows is for callers that ask what a reconciliation would do.

	// Untried is why it is not known whether the datastore takes what is written first, nil where it is.
	Untried error
	// ProviderProblem is why the provider is of no use at the moment, nil for nothing.
	ProviderProblem *plan.Problem
	// Pool is the provider's pool as last seen, nil when it was not.
	Pool *cloud.Pool
	// WaitingFor is what the step waits for, in the cluster and in the cloud.
	WaitingFor []string
	// Again is when the next reconciliation is due.
	Again time.Duration
	// Status is what the manager would report.
	Status v1alpha1.RouteReflectorPoolStatus

	object *v1alpha1.RouteReflectorPool
	now    time.Time
	// once: there is no other look after this one, and nothing is done.
	once bool
	// disconnected is why no provider is connected, nil when one is.
	disconnected *plan.Problem
	// warning is what is not as the spec wants it, and no reason to stop.
	warning *plan.Problem
	// evictable holds the pods still to move from the node that the step drains,
	// podsErr why they could not be listed, and blockedPods which of them may not go now.
	evictable map[string][]string
	podsErr   error
	// noteErr is why the IDs of the pools may not be written on the object.
	noteErr     error
	blockedPods []string
	// advanced: something was changed that brings the step closer to its end.
	advanced bool
	// since is when the step, or what it waits for now, began.
	since metav1.Time
	// released: the finalizer is gone, and the object with it.
	released bool
}

func (s *Scope) deleting() bool { return s.object.DeletionTimestamp != nil }

// paused: a deletion is not held up by a pause, the mesh has to come back.
func (s *Scope) paused() bool {
	return s.object.Spec.Mode == v1alpha1.ModePaused && !s.deleting()
}

// reflecting: the cluster is wanted on route reflectors.
func (s *Scope) reflecting() bool {
	return s.object.Spec.Mode != v1alpha1.ModeFullMesh && !s.deleting()
}

// inPlace: the route reflectors are nodes that run workloads too.
func (s *Scope) inPlace() bool { return s.Provider == v1alpha1.ProviderExistingNodes }

// steady: there is nothing left to do.
func (s *Scope) steady() bool { return s.Step.Name == rollout.Steady && s.Step.Problem == nil }

// needsProvider: without it the cluster does not get where it is wanted. The mesh needs none.
func (s *Scope) needsProvider() bool {
	return s.reflecting() || s.Step.Name == StepDeletePool || has[plan.ReleasePool](s.Step)
}

// has reports whether the step has an action of a type.
func has[action plan.Action](step rollout.Step) bool {
	return slices.ContainsFunc(step.Actions, is[action])
}

func is[kind plan.Action](action plan.Action) bool {
	_, ok := action.(kind)
	return ok
}

// fetch reads past the cache: a stale mode or a stale status must not be acted on.
func (r *Reconciler) fetch(ctx context.Context) (*v1alpha1.RouteReflectorPool, error) {
	object := &v1alpha1.RouteReflectorPool{}
	err := r.Live.Get(ctx, client.ObjectKey{Name: v1alpha1.SingletonName}, object)
	if apierrors.IsNotFound(err) {
		r.poolClient.forget()
		r.problem, r.reportedProblem = "", "" // another object gets its own events
		r.Metrics.noteObjectAbsent()
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading RouteReflectorPool %q: %w", v1alpha1.SingletonName, err)
	}
	return object, nil
}

// finish reports the reconciliation once, and says when to look again.
func (r *Reconciler) finish(ctx context.Context, s *Scope, err error) (reconcile.Result, error) {
	if s.released {
		r.Metrics.noteObjectAbsent()
		return reconcile.Result{}, nil
	}
	r.remember(ctx, s)
	var shown error
	switch {
	case err == nil:
		shown, r.stepErrors, r.conflicts = s.noteErr, errorSeries{}, 0
	case r.worthReporting(err):
		shown = r.stepErrors.add(s.Step.Name, err)
	}
	if patchErr := r.report(ctx, s, shown); err == nil {
		err = patchErr
	}
	if err != nil && s.Step.Short && !calico.IsConflict(err) {
		// The safety net must not sleep through a back-off: it is due in seconds.
		log.FromContext(ctx).Error(err, "the step failed while too few route reflectors serve: trying again soon", "step", s.Step.Name)
		return reconcile.Result{RequeueAfter: again}, nil
	}
	if err != nil {
		return retry(err)
	}
	return reconcile.Result{RequeueAfter: r.nextLook(s)}, nil
}

// observeFailed reports that the cluster could not be observed; nothing was decided.
func (r *Reconciler) observeFailed(ctx context.Context, s *Scope, err error) (reconcile.Result, error) {
	if patchErr := r.reportUnknown(ctx, s, r.observeErrors.add("observe", err)); patchErr != nil {
		log.FromContext(ctx).V(1).Info("status not written", "reason", patchErr.Error())
	}
	return retry(err)
}

// retry requeues quietly after a conflict; other errors back off.
func retry(err error) (reconcile.Result, error) {
	if err == nil || calico.IsConflict(err) {
		return reconcile.Result{RequeueAfter: again}, nil
	}
	return reconcile.Result{}, err
}

// manyConflicts in a row are reported: another client writes all the time, or our writes are refused with 409.
const manyConflicts = 10

// worthReporting reports whether err belongs in the status: a conflict does not, until many follow each other.
func (r *Reconciler) worthReporting(err error) bool {
	if !calico.IsConflict(err) {
		return true
	}
	r.conflicts++
	return r.conflicts >= manyConflicts
}

// nextLook is when to look again even if nothing is pushed.
func (r *Reconciler) nextLook(s *Scope) time.Duration {
	wait := r.interval(s)
	for _, due := range []time.Duration{s.Step.Again, r.poolClient.due(s.now, wait), r.poolClient.ensuring.notBefore.Sub(s.now)} {
		if due > 0 {
			wait = min(wait, due)
		}
	}
	if s.Changes > 0 {
		wait = again
	}
	return max(wait, again)
}

func scopeOf(object *v1alpha1.RouteReflectorPool) plan.DatastoreOptions {
	return plan.DatastoreOptions{RoleLabel: object.Spec.BGP.NodeLabel, ZoneLabel: object.Spec.Topology.ZoneLabel, CalicoAPI: object.Status.CalicoAPI}
}

// Look observes and decides as a reconciliation does, and changes nothing, whatever the mode. It may emit events.
func (r *Reconciler) Look(ctx context.Context, object *v1alpha1.RouteReflectorPool) (Scope, error) {
	r.setDefaults()
	s, err := r.observe(ctx, &Scope{object: object, once: true})
	if err != nil {
		return Scope{}, err
	}
	return r.complete(s), nil
}

// Rehearse makes a whole reconciliation, but neither reads nor writes the object: with a Datastore and Providers
// that are models it shows what the manager would do with the real ones.
func (r *Reconciler) Rehearse(ctx context.Context, object *v1alpha1.RouteReflectorPool) (Scope, error) {
	r.setDefaults()
	s, err := r.observe(ctx, &Scope{object: object})
	if err != nil {
		return Scope{}, err
	}
	if !s.paused() {
		err = r.apply(ctx, s)
	}
	r.remember(ctx, s)
	return r.complete(s), err
}

// observe gathers and decides.
func (r *Reconciler) observe(ctx context.Context, s *Scope) (*Scope, error) {
	if err := r.lookAtCluster(ctx, s); err != nil {
		return s, err
	}
	err := r.decide(ctx, s)
	if err == nil {
		r.try(ctx, s)
	}
	return s, err
}

// lookAtCluster observes it as it is now.
func (r *Reconciler) lookAtCluster(ctx context.Context, s *Scope) (err error) {
	s.now = r.Now()
	r.noticeClock(s.now)
	began := time.Now()
	s.Cluster, err = r.Datastore.Observe(ctx, scopeOf(s.object))
	r.Metrics.datastoreCall("Observe", began, err)
	if err != nil {
		return fmt.Errorf("observing the cluster: %w", err)
	}
	r.memory.Observe(&s.Cluster, s.now)
	return nil
}

// clockStep is how far our clock may go from the time that has really passed between two looks.
const clockStep = 2 * time.Second

// noticeClock sees whether our clock was set since the last look.
func (r *Reconciler) noticeClock(now time.Time) {
	if r.Elapsed == nil {
		return
	}
	origin := now.Round(0).Add(-r.Elapsed())
	if !r.origin.IsZero() && origin.Sub(r.origin).Abs() > clockStep {
		r.memory.ClockSet = now
	}
	r.origin = origin
}

// complete fills in what is for callers.
func (r *Reconciler) complete(s *Scope) Scope {
	s.ProviderProblem, s.Pool = providerProblem(s, &r.poolClient), r.poolClient.last
	s.WaitingFor, s.Again, s.Status = r.waiting(s), r.nextLook(s), r.status(s, nil)
	return *s
}

// remember keeps what later reconciliations need. Events say what is new.
func (r *Reconciler) remember(ctx context.Context, s *Scope) {
	s.since = since(s)
	r.memory.After(s.Step, s.now)
	r.reportStep(ctx, s)
}
