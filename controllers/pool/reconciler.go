// Package pool reconciles the RouteReflectorPool: it observes the cluster and the
// pool, lets the plan decide, applies the step, and writes the status once at the end.
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
	// Observe returns the state of the cluster, or an error if any part of it is unknown.
	Observe(ctx context.Context, scope plan.DatastoreOptions) (plan.Cluster, error)
	// Apply makes one change and reports whether there was anything to change. Actions on the pool or on pods are never passed to it.
	Apply(ctx context.Context, scope plan.DatastoreOptions, action plan.Action) (bool, error)
	// Watch makes exactly these node reports exist and reports whether it changed anything.
	Watch(ctx context.Context, want []plan.StatusRequest) (bool, error)
	// Try makes a dry run of Apply. calico.Refuses(err) means that Apply would be refused.
	Try(ctx context.Context, scope plan.DatastoreOptions, action plan.Action) error
}

// ProviderFactory makes the provider that cfg describes. It sends no request.
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
	// Platforms are the clouds whose nodes rrpool recognizes.
	Platforms []cloud.Platform
	// Workload gives access to the pods of existing nodes that reflect; with dedicated nodes it may be nil.
	Workload  Workload
	Namespace string

	// The fields below are optional.

	// TokenFile has the token of the manager's service account for audience iam.
	// Without a file, trusted profiles cannot log in, and their cloud is not asked.
	TokenFile string
	Recorder  events.EventRecorder
	// Leading returns why another manager may be writing, nil if none may. It is called before every write.
	Leading func(context.Context) error
	Metrics *Metrics
	// Next, Now and Pause are rollout.Next, time.Now and a sleep unless a test sets them.
	Next  func(rollout.Observed, rollout.Desired, time.Time) rollout.Step
	Now   func() time.Time
	Pause func(time.Duration)
	// Elapsed returns the time that has passed by a clock that is never set. It shows when
	// the clock of Now is set. If Now is given and Elapsed is not, nothing shows that.
	Elapsed func() time.Duration
	// Wait converts a duration on the clock of Now to real time. The two differ in tests with a fast clock only.
	Wait func(time.Duration) time.Duration

	// The fields below are memory that may be lost at any time: it saves cloud
	// requests and repeated events, and decides nothing about the data plane.
	poolClient    poolClient
	tried         []plan.Action // writes of the last successful dry run
	sized         int           // workers per zone that were wanted last, 0: unknown
	clusterID     string
	observeErrors errorSeries
	stepErrors    errorSeries
	conflicts     int // conflicts in a row
	stepName      string
	rule          string // rule of the last step that has one
	// problem is the reason of the present problem, reportedProblem the reason in the last event about one; "" for none.
	problem, reportedProblem string
	budget                   eventBudget
	// memory is what an observation of the cluster does not show.
	memory rollout.Memory
	// origin is when Elapsed was 0, by Now at the last observation. It moves only if the clock was set.
	origin time.Time
	// drained is the last attempt to empty a node. After a failed count, pods are not counted again before countAgain.
	drained    drainAttempt
	countAgain time.Time
}

// again is the time until the next reconciliation after a change by rrpool, or after a conflict.
const again = time.Second

// setDefaults sets the optional fields that must not be nil.
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

// act applies the step. Once nothing needs an object that is being deleted, it removes the finalizer.
func (r *Reconciler) act(ctx context.Context, s *Scope) error {
	if err := r.apply(ctx, s); err != nil {
		return err
	}
	err := r.rememberPools(ctx, s)
	if apierrors.IsForbidden(err) || apierrors.IsInvalid(err) { // a policy would refuse each retry as well: report the error and go on
		s.noteErr, err = err, nil
	}
	if err = errors.Join(s.podsErr, err); err != nil || !s.releasable() {
		return err
	}
	return r.release(ctx, s)
}

// Scope is the state of one reconciliation: what was observed, decided and done.
type Scope struct {
	// Cluster is what the decision was based on.
	Cluster plan.Cluster
	// Provider is the type after Auto was resolved.
	Provider v1alpha1.ProviderType
	platform cloud.Platform // nil for existing nodes
	Desired  rollout.Desired
	Step     rollout.Step
	// Changes counts the changes that were made.
	Changes int

	// The exported fields below are results for callers of Look and Rehearse.

	// Untried is why it is unknown whether the datastore allows the first writes, nil if that is known.
	Untried error
	// ProviderProblem is why the provider is of no use now, nil if it is of use.
	ProviderProblem *plan.Problem
	// Pool is the provider's pool as last observed, nil if it never was.
	Pool *cloud.Pool
	// WaitingFor is what the step waits for, in the cluster and in the cloud.
	WaitingFor []string
	// Again is the time until the next reconciliation.
	Again time.Duration
	// Status is what the manager would report.
	Status v1alpha1.RouteReflectorPoolStatus

	object *v1alpha1.RouteReflectorPool
	now    time.Time
	// once means that there is no later observation, and nothing is changed.
	once bool
	// disconnected is why no provider is connected, nil if one is.
	disconnected *plan.Problem
	// warning is a problem that does not stop the rollout.
	warning *plan.Problem
	// evictable holds the pods that still have to leave the node that the step drains. podsErr
	// is why they could not be listed, and blockedPods names those that may not be evicted now.
	evictable map[string][]string
	podsErr   error
	// noteErr is why the IDs of the pools may not be written on the object.
	noteErr     error
	blockedPods []string
	// advanced means that a change has brought the step closer to its end.
	advanced bool
	// since is when the step's present wait began.
	since metav1.Time
	// released means that the finalizer was removed, so the object is gone.
	released bool
}

func (s *Scope) deleting() bool { return s.object.DeletionTimestamp != nil }

// paused reports whether spec.mode is Paused. A deletion is not paused, as the mesh has to come back.
func (s *Scope) paused() bool {
	return s.object.Spec.Mode == v1alpha1.ModePaused && !s.deleting()
}

// reflecting reports whether the cluster is wanted on route reflectors, which includes mode Paused.
func (s *Scope) reflecting() bool {
	return s.object.Spec.Mode != v1alpha1.ModeFullMesh && !s.deleting()
}

// inPlace reports whether the route reflectors are existing nodes, which run workloads too.
func (s *Scope) inPlace() bool { return s.Provider == v1alpha1.ProviderExistingNodes }

// steady reports whether there is nothing left to do.
func (s *Scope) steady() bool { return s.Step.Name == rollout.Steady && s.Step.Problem == nil }

// needsProvider reports whether the cluster needs the provider to get where it is wanted. The way back to the mesh does not.
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

// fetch reads the object past the cache: rrpool must not act on a stale mode or a stale status. It returns nil if there is no object.
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

// finish reports the reconciliation once, and returns when the next one is due.
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

// retry returns the result for err. After nil or a conflict, nothing is logged,
// and the constant again is the delay. Other errors are returned, and back off.
func retry(err error) (reconcile.Result, error) {
	if err == nil || calico.IsConflict(err) {
		return reconcile.Result{RequeueAfter: again}, nil
	}
	return reconcile.Result{}, err
}

// manyConflicts is how many conflicts in a row are reported: then another client writes all the time, or rrpool's writes are refused with 409.
const manyConflicts = 10

// worthReporting counts conflicts and reports whether err belongs in the status. Of conflicts in a row, only the manyConflicts-th and later do.
func (r *Reconciler) worthReporting(err error) bool {
	if !calico.IsConflict(err) {
		return true
	}
	r.conflicts++
	return r.conflicts >= manyConflicts
}

// nextLook returns the time until the next reconciliation if no watch requests an earlier one.
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

// Rehearse makes a whole reconciliation of the given object, which it neither reads from the cluster nor
// writes. With models as Datastore and Providers, it shows what the manager would do with the real ones.
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

// observe observes the cluster and the pool, decides, and tries the first writes.
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

// lookAtCluster observes the cluster, and sets the time of this reconciliation.
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

// clockStep is how far Now and Elapsed may diverge between two observations before the clock counts as set.
const clockStep = 2 * time.Second

// noticeClock notes if the clock was set since the last observation.
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

// complete fills in the results for callers.
func (r *Reconciler) complete(s *Scope) Scope {
	s.ProviderProblem, s.Pool = providerProblem(s, &r.poolClient), r.poolClient.last
	s.WaitingFor, s.Again, s.Status = r.waiting(s), r.nextLook(s), r.status(s, nil)
	return *s
}

// remember keeps what later reconciliations need, and reports a new step or problem.
func (r *Reconciler) remember(ctx context.Context, s *Scope) {
	s.since = since(s)
	r.memory.After(s.Step, s.now)
	r.reportStep(ctx, s)
}
