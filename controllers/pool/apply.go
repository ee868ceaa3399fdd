package pool

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/rrpool/rrpool/cloud"
	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/controllers/plan"
	"github.com/rrpool/rrpool/controllers/plan/rollout"
)

// apply takes the step's actions in order and stops at the first error, but for that of
// a refresh: a report that cannot be asked for does not hold up the step. Where reports
// cannot be created, only refreshes are applied. An error
// of the cloud is remembered and reported, not returned: the data plane is in
// order, and the cloud has its own back-off.
func (r *Reconciler) apply(ctx context.Context, s *scope) error {
	actions, watchErr := s.step.Actions, r.watch(ctx, s)
	if watchErr != nil && !s.step.Urgent && !urgent(s) {
		// The safety net needs the reports that can be asked for, whichever cannot.
		actions = slices.DeleteFunc(slices.Clone(actions), func(a plan.Action) bool { return !isRefresh(a) })
	}
	if slices.ContainsFunc(actions, isPause) {
		ctx = context.WithoutCancel(ctx) // a shutdown waits: half of these actions would cut a node off
	}
	for _, action := range actions {
		changed, err := r.applyOne(ctx, s, action)
		r.Metrics.action(action, changed, err)
		if cloud.KindOf(err) != "" {
			break
		}
		if watchErr = errors.Join(watchErr, err); err != nil && !isRefresh(action) {
			return watchErr
		}
		if changed {
			s.changes++
			s.advanced = s.advanced || advances(action)
		}
	}
	return watchErr
}

func isPause(action plan.Action) bool {
	_, is := action.(plan.Pause)
	return is
}

// watch asks for the reports that the step needs. A refusal asks for none and
// leaves those that exist: they are what shows that it is over.
func (r *Reconciler) watch(ctx context.Context, s *scope) error {
	if s.step.Problem != nil && len(s.step.Watch) == 0 {
		return nil
	}
	if err := r.leading(ctx); err != nil {
		return err
	}
	changed, err := r.Datastore.Watch(ctx, s.step.Watch)
	if err != nil {
		return fmt.Errorf("asking for node status reports: %w", err)
	}
	if changed {
		s.changes++
	}
	return nil
}

func (r *Reconciler) applyOne(ctx context.Context, s *scope, action plan.Action) (bool, error) {
	if err := r.leading(ctx); err != nil {
		return false, err
	}
	switch a := action.(type) {
	case plan.EnsurePool:
		if s.step.Short && !s.inPlace() {
			return false, nil // see decide: the mesh is back in a moment, and then there is time for the cloud
		}
		did, err := r.poolClient.ensure(ctx, s.now, poolSpec(s, a.Want))
		return r.supplied(ctx, s, did, err)
	case plan.ReleasePool:
		did, _, err := r.poolClient.remove(ctx, s.now)
		return r.supplied(ctx, s, did, err)
	case plan.DrainNode:
		return r.drain(ctx, s, a.Node)
	case plan.Pause:
		r.pause(a.For)
		return false, nil
	}
	changed, err := r.Datastore.Apply(ctx, scopeOf(s.object), action)
	if err != nil {
		return false, fmt.Errorf("trying to %s: %w", action, err)
	}
	if changed {
		r.emit(ctx, s, actionEvent(action, s.step))
	}
	return changed, nil
}

// supplied emits an event for what the provider did.
func (r *Reconciler) supplied(ctx context.Context, s *scope, did string, err error) (bool, error) {
	if err != nil || did == "" {
		return false, err
	}
	r.emit(ctx, s, poolChanged(did))
	return true, nil
}

// pause lets a moment pass between two actions. Nothing cuts it short: see apply.
func (r *Reconciler) pause(moment time.Duration) {
	if r.Pause != nil {
		r.Pause(moment)
		return
	}
	if r.Wait != nil {
		moment = r.Wait(moment)
	}
	timer := time.NewTimer(moment)
	defer timer.Stop()
	<-timer.C
}

// StepDeletePool is the step after the mesh is back, when deletionPolicy is Delete.
const StepDeletePool = "DeletePool"

// addFinalizer puts the finalizer on before anything else happens, so that a deletion
// can never leave a cluster between two worlds.
func (r *Reconciler) addFinalizer(ctx context.Context, object *v1alpha1.RouteReflectorPool, needed bool) (bool, error) {
	if !needed || object.DeletionTimestamp != nil || controllerutil.ContainsFinalizer(object, v1alpha1.Finalizer) {
		return false, nil
	}
	before := object.DeepCopy()
	controllerutil.AddFinalizer(object, v1alpha1.Finalizer)
	if err := r.patchMeta(ctx, object, before); err != nil {
		return true, fmt.Errorf("adding the finalizer: %w", err)
	}
	return true, nil
}

// reportPaused reconciles a paused object. It needs no finalizer where nothing was ever
// done; one that is made anew for a cluster on route reflectors does.
func (r *Reconciler) reportPaused(ctx context.Context, s *scope) (reconcile.Result, error) {
	if changed, err := r.addFinalizer(ctx, s.object, !untouched(s)); err != nil || changed {
		return r.retry(err)
	}
	return r.finish(ctx, s, nil)
}

// steady: there is nothing left to do.
func (s *scope) steady() bool { return s.step.Name == rollout.Steady && s.step.Problem == nil }

// untouched: nothing in the cluster's BGP, and nothing on its nodes, is of our
// making, so there is nothing to restore, whatever is in the way of doing it.
func untouched(s *scope) bool {
	cluster := s.cluster
	ours := cluster.BGP.Saved != nil || s.inPlace() && anyPooled(cluster.Nodes) ||
		slices.ContainsFunc(cluster.Nodes, func(n plan.Node) bool { return n.Marked || n.CordonMark || n.Rack != "" }) ||
		slices.ContainsFunc(cluster.Peers, func(p plan.Peer) bool { return p.Owned })
	return len(cluster.Nodes) > 0 && !ours
}

// releasable: the object is to go, and nothing of ours needs it any more.
func (s *scope) releasable() bool {
	return s.deleting() && (s.steady() || s.step.Problem != nil && untouched(s))
}

// release lets the object go once the mesh carries the cluster: first the pool,
// when it is to be deleted, then the finalizer.
func (r *Reconciler) release(ctx context.Context, s *scope) error {
	if err := r.leading(ctx); err != nil {
		return err
	}
	policy := s.object.Spec.Provider.IKS.DeletionPolicy
	if policy == v1alpha1.DeletionDelete && s.provider.kind == v1alpha1.ProviderIKS && !r.deletePool(ctx, s) {
		return nil
	}
	if err := r.leading(ctx); err != nil {
		return err
	}
	before := s.object.DeepCopy()
	controllerutil.RemoveFinalizer(s.object, v1alpha1.Finalizer)
	if err := r.patchMeta(ctx, s.object, before); err != nil {
		return fmt.Errorf("removing the finalizer: %w", err)
	}
	s.released = true
	r.emit(ctx, s, released(s))
	r.poolClient.reset()
	return nil
}

// deletePool reports whether there is no pool of ours any more. What hinders it
// shows in ProviderReady; the way out is always deletionPolicy Retain.
func (r *Reconciler) deletePool(ctx context.Context, s *scope) bool {
	s.step = rollout.Step{
		Name:   StepDeletePool,
		Reason: "the node-to-node mesh carries the cluster, and spec.provider.iks.deletionPolicy is Delete",
	}
	if s.provider.problem != nil {
		s.step.WaitingFor = []string{"access to the cloud, or spec.provider.iks.deletionPolicy Retain to leave the worker pool there"}
		return false
	}
	if r.poolClient.foreign() {
		return true
	}
	did, done, err := r.poolClient.remove(ctx, s.now)
	if did != "" {
		s.changes++
		r.emit(ctx, s, poolChanged(did))
	}
	switch {
	case err != nil:
		s.step.WaitingFor = []string{"the cloud, or spec.provider.iks.deletionPolicy Retain to leave the worker pool there"}
	case r.poolClient.waiting != "":
		s.step.WaitingFor = []string{r.poolClient.waiting}
	}
	return done
}

func (r *Reconciler) patchMeta(ctx context.Context, object, before *v1alpha1.RouteReflectorPool) error {
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	if err := client.IgnoreNotFound(r.Client.Patch(ctx, object, patch)); err != nil {
		return fmt.Errorf("patching RouteReflectorPool %q: %w", object.Name, err)
	}
	return nil
}
