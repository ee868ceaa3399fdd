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
// a refresh: a report that cannot be asked for does not hold up the step. An error
// of the cloud is remembered and reported, not returned: the data plane is in
// order, and the cloud has its own back-off.
func (r *Reconciler) apply(ctx context.Context, t *turn) error {
	watchErr := r.watch(ctx, t)
	if watchErr != nil && !t.step.Urgent && !urgent(t) {
		return watchErr
	}
	if slices.ContainsFunc(t.step.Actions, isPause) {
		ctx = context.WithoutCancel(ctx) // told to go meanwhile, it finishes: half of this cuts a node off
	}
	for _, action := range t.step.Actions {
		changed, err := r.applyOne(ctx, t, action)
		r.Metrics.action(action, changed, err)
		if cloud.KindOf(err) != "" {
			break
		}
		if watchErr = errors.Join(watchErr, err); err != nil && !isRefresh(action) {
			return watchErr
		}
		if changed {
			t.changes++
			t.advanced = t.advanced || advances(action)
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
func (r *Reconciler) watch(ctx context.Context, t *turn) error {
	if t.step.Problem != nil && len(t.step.Watch) == 0 {
		return nil
	}
	if err := r.leading(ctx); err != nil {
		return err
	}
	changed, err := r.Datastore.Watch(ctx, t.step.Watch)
	if err != nil {
		return fmt.Errorf("asking for node status reports: %w", err)
	}
	if changed {
		t.changes++
	}
	return nil
}

func (r *Reconciler) applyOne(ctx context.Context, t *turn, action plan.Action) (bool, error) {
	if err := r.leading(ctx); err != nil {
		return false, err
	}
	switch a := action.(type) {
	case plan.EnsurePool:
		if t.step.Short && !t.busy() {
			return false, nil // see decide: the mesh is back in a moment, and then there is time for the cloud
		}
		did, err := r.supply.ensure(ctx, t.now, poolSpec(t, a.Want))
		return r.supplied(ctx, t, did, err)
	case plan.ReleasePool:
		did, _, err := r.supply.remove(ctx, t.now)
		return r.supplied(ctx, t, did, err)
	case plan.DrainNode:
		return r.drain(ctx, t, a.Node)
	case plan.Pause:
		r.pause(a.For)
		return false, nil
	}
	changed, err := r.Datastore.Apply(ctx, scopeOf(t.object), action)
	if err != nil {
		return false, fmt.Errorf("trying to %s: %w", action, err)
	}
	if changed {
		r.emit(ctx, t, actionTaken(action, t.step))
	}
	return changed, nil
}

// supplied tells what the provider did.
func (r *Reconciler) supplied(ctx context.Context, t *turn, did string, err error) (bool, error) {
	if err != nil || did == "" {
		return false, err
	}
	r.emit(ctx, t, poolChanged(did))
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

// protect puts the finalizer on before anything else happens, so that a deletion
// can never leave a cluster between two worlds.
func (r *Reconciler) protect(ctx context.Context, object *v1alpha1.RouteReflectorPool, needed bool) (bool, error) {
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

// onlyReport is the turn of a paused object. It needs no finalizer where nothing was ever
// done; one that is made anew for a cluster on route reflectors does.
func (r *Reconciler) onlyReport(ctx context.Context, t *turn) (reconcile.Result, error) {
	if changed, err := r.protect(ctx, t.object, !untouched(t)); err != nil || changed {
		return r.soon(err)
	}
	return r.finish(ctx, t, nil)
}

// settled: there is nothing left to do.
func (t *turn) settled() bool { return t.step.Name == rollout.Steady && t.step.Problem == nil }

// untouched: nothing in the cluster's BGP, and nothing on its nodes, is of our
// making, so there is nothing to restore, whatever is in the way of doing it.
func untouched(t *turn) bool {
	cluster := t.cluster
	ours := cluster.BGP.Saved != nil || t.busy() && anyPooled(cluster.Nodes) ||
		slices.ContainsFunc(cluster.Nodes, func(n plan.Node) bool { return n.Marked || n.CordonMark || n.Rack != "" }) ||
		slices.ContainsFunc(cluster.Peers, func(p plan.Peer) bool { return p.Owned })
	return len(cluster.Nodes) > 0 && !ours
}

// releasable: the object is to go, and nothing of ours needs it any more.
func (t *turn) releasable() bool {
	return t.deleting() && (t.settled() || t.step.Problem != nil && untouched(t))
}

// release lets the object go once the mesh carries the cluster: first the pool,
// when it is to be deleted, then the finalizer.
func (r *Reconciler) release(ctx context.Context, t *turn) error {
	if err := r.leading(ctx); err != nil {
		return err
	}
	policy := t.object.Spec.Provider.IKS.DeletionPolicy
	if policy == v1alpha1.DeletionDelete && t.origin.kind == v1alpha1.ProviderIKS && !r.deletePool(ctx, t) {
		return nil
	}
	if err := r.leading(ctx); err != nil {
		return err
	}
	before := t.object.DeepCopy()
	controllerutil.RemoveFinalizer(t.object, v1alpha1.Finalizer)
	if err := r.patchMeta(ctx, t.object, before); err != nil {
		return fmt.Errorf("removing the finalizer: %w", err)
	}
	t.released = true
	r.emit(ctx, t, released(t))
	r.supply.reset()
	return nil
}

// deletePool reports whether there is no pool of ours any more. What hinders it
// shows in ProviderReady; the way out is always deletionPolicy Retain.
func (r *Reconciler) deletePool(ctx context.Context, t *turn) bool {
	t.step = rollout.Step{
		Name:   StepDeletePool,
		Reason: "the node-to-node mesh carries the cluster, and spec.provider.iks.deletionPolicy is Delete",
	}
	if t.origin.problem != nil {
		t.step.WaitingFor = []string{"access to the cloud, or spec.provider.iks.deletionPolicy Retain to leave the worker pool there"}
		return false
	}
	if r.supply.foreign() {
		return true
	}
	did, done, err := r.supply.remove(ctx, t.now)
	if did != "" {
		t.changes++
		r.emit(ctx, t, poolChanged(did))
	}
	switch {
	case err != nil:
		t.step.WaitingFor = []string{"the cloud, or spec.provider.iks.deletionPolicy Retain to leave the worker pool there"}
	case r.supply.waiting != "":
		t.step.WaitingFor = []string{r.supply.waiting}
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
