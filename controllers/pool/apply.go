package pool

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/rrpool/rrpool/cloud"
	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/controllers/plan"
	"github.com/rrpool/rrpool/controllers/plan/rollout"
)

// apply takes the step's actions in order and stops at the first error, with two exceptions: a RefreshStatus that fails stops nothing, and in a
// step that only labels Nodes, a Node that cannot be written does not stop the others. If reports cannot be created, only RefreshStatus actions
// are taken, unless the step is urgent. An error of the cloud is not returned: poolClient keeps and reports it, and has its own back-off.
func (r *Reconciler) apply(ctx context.Context, s *Scope) error {
	actions, watchErr := s.Step.Actions, r.watch(ctx, s)
	if watchErr != nil && !s.Step.Urgent && !skipsCloud(s) {
		// The safety net needs the existing reports, even if others cannot be created.
		actions = onlyRefreshes(actions)
	}
	if slices.ContainsFunc(actions, is[plan.Pause]) {
		ctx = context.WithoutCancel(ctx) // a shutdown waits for these actions: half of them would cut a node off
	}
	return r.applyAll(ctx, s, actions, watchErr)
}

// applyAll takes actions in order, and returns watchErr joined with their errors.
func (r *Reconciler) applyAll(ctx context.Context, s *Scope, actions []plan.Action, watchErr error) error {
	together := slices.ContainsFunc(actions, func(a plan.Action) bool {
		return !is[plan.SetReflector](a) && !is[plan.SetRack](a) && !is[plan.RefreshStatus](a)
	})
	for _, action := range actions {
		changed, err := r.applyOne(ctx, s, action)
		r.Metrics.action(action, changed, err)
		if cloud.KindOf(err) != "" {
			break
		}
		if watchErr = errors.Join(watchErr, err); err != nil && !is[plan.RefreshStatus](action) && (together || r.Leading(ctx) != nil) {
			return watchErr
		}
		if changed {
			s.Changes++
			s.advanced = s.advanced || advances(action)
		}
	}
	return watchErr
}

// watch asks for the reports that the step needs. If the step is a refusal that needs none, existing reports stay: they show when it is over.
func (r *Reconciler) watch(ctx context.Context, s *Scope) error {
	if s.Step.Problem != nil && len(s.Step.Watch) == 0 {
		return nil
	}
	if err := r.Leading(ctx); err != nil {
		return err
	}
	began := time.Now()
	changed, err := r.Datastore.Watch(ctx, s.Step.Watch)
	r.Metrics.datastoreCall("Watch", began, err)
	if err != nil {
		return fmt.Errorf("asking for node status reports: %w", err)
	}
	if changed {
		s.Changes++
	}
	return nil
}

func (r *Reconciler) applyOne(ctx context.Context, s *Scope, action plan.Action) (bool, error) {
	if err := r.Leading(ctx); err != nil {
		return false, err
	}
	switch a := action.(type) {
	case plan.EnsurePool:
		if s.Step.Short && !s.inPlace() {
			return false, nil // the mesh is back in seconds, and must not wait for the cloud: see decide
		}
		progress, err := r.poolClient.ensure(ctx, s.now, poolSpec(s, a.Want, r.poolClient.last))
		return r.poolDid(ctx, s, progress, err)
	case plan.ReleasePool:
		progress, err := r.poolClient.remove(ctx, s.now)
		return r.poolDid(ctx, s, progress, err)
	case plan.DrainNode:
		return r.drain(ctx, s, a.Node)
	case plan.Pause:
		r.Pause(a.For) // a shutdown does not shorten the pause: see apply
		return false, nil
	}
	began := time.Now()
	changed, err := r.Datastore.Apply(ctx, scopeOf(s.object), action)
	r.Metrics.datastoreCall("Apply", began, err)
	if err != nil {
		return false, fmt.Errorf("trying to %s: %w", action, err)
	}
	if changed {
		r.emit(ctx, s, actionEvent(action, s.Step))
	}
	return changed, nil
}

// poolDid emits an event if the provider changed the pool, and reports whether it did.
func (r *Reconciler) poolDid(ctx context.Context, s *Scope, progress cloud.Progress, err error) (bool, error) {
	if err != nil || progress.Did == "" {
		return false, err
	}
	r.emit(ctx, s, poolChanged(progress.Did))
	return true, nil
}

// StepDeletePool is the last step of a deletion with deletionPolicy Delete: the mesh is back, and the pool is deleted.
const StepDeletePool = "DeletePool"

// addFinalizer adds the finalizer before anything else is written: a deletion must not leave the cluster half migrated.
func (r *Reconciler) addFinalizer(ctx context.Context, object *v1alpha1.RouteReflectorPool, needed bool) (bool, error) {
	if !needed || object.DeletionTimestamp != nil || controllerutil.ContainsFinalizer(object, v1alpha1.Finalizer) {
		return false, nil
	}
	return true, r.editFinalizers(ctx, object, controllerutil.AddFinalizer)
}

// reportPaused reports on a paused object. If anything in the cluster is rrpool's, it first adds the finalizer.
func (r *Reconciler) reportPaused(ctx context.Context, s *Scope) (reconcile.Result, error) {
	if changed, err := r.addFinalizer(ctx, s.object, !untouched(s)); err != nil || changed {
		return retry(err)
	}
	return r.finish(ctx, s, r.rememberPools(ctx, s))
}

// untouched reports whether nothing in the cluster's BGP and on its nodes is rrpool's, so that there
// is nothing to restore. While the datastore is locked, that is unknown, and untouched returns false.
func untouched(s *Scope) bool {
	cluster := s.Cluster
	ours := cluster.BGP.Saved != nil || s.inPlace() && anyPooled(cluster.Nodes) ||
		slices.ContainsFunc(cluster.Nodes, func(n plan.Node) bool { return n.Marked || n.CordonMark || n.Rack != "" }) ||
		slices.ContainsFunc(cluster.Peers, func(p plan.Peer) bool { return p.Owned })
	return len(cluster.Nodes) > 0 && !ours && cluster.Locked == nil
}

// releasable reports whether the object is being deleted and rrpool has nothing left to restore. If only a person
// can restore the mesh as it was, rrpool is done too, and leaves its note of the earlier mesh in the cluster.
func (s *Scope) releasable() bool {
	noted := s.Step.Name == rollout.ForgetMesh && len(s.Step.Actions) == 0
	return s.deleting() && (s.steady() || noted || s.Step.Problem != nil && untouched(s))
}

// release deletes the pool if deletionPolicy is Delete. Once the pool is gone, it removes the finalizer.
func (r *Reconciler) release(ctx context.Context, s *Scope) error {
	if err := r.Leading(ctx); err != nil {
		return err
	}
	policy := s.object.Spec.Provider.IKS.DeletionPolicy
	if policy == v1alpha1.DeletionDelete && !s.inPlace() && !r.deletePool(ctx, s) {
		return nil
	}
	if err := r.Leading(ctx); err != nil {
		return err
	}
	if err := r.editFinalizers(ctx, s.object, controllerutil.RemoveFinalizer); err != nil {
		return err
	}
	s.released = true
	r.emit(ctx, s, released(s, r.poolClient.last))
	r.poolClient.forget()
	return nil
}

// knownPools returns the pool IDs noted on the object: a pool that has lost its label is still rrpool's.
func knownPools(object *v1alpha1.RouteReflectorPool) []string {
	if ids := object.Annotations[v1alpha1.PoolsAnnotation]; ids != "" {
		return strings.Split(ids, ",")
	}
	return nil
}

// mostPools is how many of the latest pool IDs the annotation keeps. At most two pools exist at a time, so 4 leaves a margin.
const mostPools = 4

// rememberPools notes the IDs of rrpool's pools on the object, and removes the IDs of pools that no longer exist.
func (r *Reconciler) rememberPools(ctx context.Context, s *Scope) error {
	before, last := knownPools(s.object), r.poolClient.last
	if s.inPlace() || last == nil {
		return nil
	}
	known := slices.DeleteFunc(slices.Clone(before), func(id string) bool { return slices.Contains(last.Gone, id) })
	if last.Owned {
		fresh := slices.DeleteFunc(slices.Concat(last.IDs, []string{last.ID}), func(id string) bool { return id == "" || slices.Contains(known, id) })
		slices.Sort(fresh)
		known = slices.Concat(known, slices.Compact(fresh))
		known = known[max(0, len(known)-mostPools):]
	}
	if slices.Equal(known, before) {
		return nil
	}
	return r.editObject(ctx, s.object, func(o client.Object) {
		annotations := maps.Clone(o.GetAnnotations())
		if annotations == nil {
			annotations = map[string]string{}
		}
		if annotations[v1alpha1.PoolsAnnotation] = strings.Join(known, ","); len(known) == 0 {
			delete(annotations, v1alpha1.PoolsAnnotation)
		}
		o.SetAnnotations(annotations)
	})
}

// deletePool deletes rrpool's pool, and reports whether it is gone. If the deletion fails,
// condition ProviderReady says why; with deletionPolicy Retain rrpool no longer tries.
func (r *Reconciler) deletePool(ctx context.Context, s *Scope) bool {
	s.Step = rollout.Step{
		Name: StepDeletePool, Awaits: rollout.AwaitsWorkers, Timeout: rollout.WorkersTimeout,
		Reason: "the node-to-node mesh carries the cluster, and spec.provider.iks.deletionPolicy is Delete",
	}
	if s.disconnected != nil {
		s.Step.WaitingFor = []string{"access to the cloud, or spec.provider.iks.deletionPolicy Retain to leave the worker pool there"}
		return false
	}
	switch {
	case r.poolClient.last == nil: // a pool that was never observed may exist
		s.Step.WaitingFor = []string{"the cloud to answer, or spec.provider.iks.deletionPolicy Retain to leave the worker pool there"}
		return false
	case r.poolClient.lost(s) != "":
		s.Step.WaitingFor = []string{"the label to be put back on the worker pool, or spec.provider.iks.deletionPolicy Retain to leave it, with its workers: " + r.poolClient.lost(s)}
		return false
	case r.poolClient.foreign():
		return true
	}
	progress, err := r.poolClient.remove(ctx, s.now)
	if changed, _ := r.poolDid(ctx, s, progress, err); changed {
		s.Changes++
	}
	switch {
	case err != nil:
		s.Step.WaitingFor = []string{"the cloud, or spec.provider.iks.deletionPolicy Retain to leave the worker pool there"}
	case r.poolClient.awaits() != "":
		s.Step.WaitingFor = []string{r.poolClient.awaits()}
	}
	return err == nil && progress.Done
}

func (r *Reconciler) editFinalizers(
	ctx context.Context, object *v1alpha1.RouteReflectorPool, edit func(client.Object, string) bool,
) error {
	return r.editObject(ctx, object, func(o client.Object) { edit(o, v1alpha1.Finalizer) })
}

// editObject makes edit's change to the object's metadata. If the object has changed since it was read, that is a conflict.
func (r *Reconciler) editObject(ctx context.Context, object *v1alpha1.RouteReflectorPool, edit func(client.Object)) error {
	if err := r.Leading(ctx); err != nil {
		return err
	}
	before := object.DeepCopy()
	edit(object)
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	if err := client.IgnoreNotFound(r.Client.Patch(ctx, object, patch)); err != nil {
		return fmt.Errorf("writing the metadata of RouteReflectorPool %q: %w", object.Name, err)
	}
	return nil
}

// drain evicts the pods of a node, at most once every evictPause. s.blockedPods are the pods that may not be evicted now.
func (r *Reconciler) drain(ctx context.Context, s *Scope, node string) (bool, error) {
	attempt := r.attempt(node)
	if s.now.Sub(attempt.at) < evictPause {
		s.blockedPods = slices.Clone(attempt.blocked)
		return false, nil
	}
	ctx, cancel := context.WithTimeout(ctx, podTimeout(s))
	defer cancel()
	did, err := r.Workload.Evict(ctx, node)
	attempt.at, attempt.blocked, s.blockedPods = s.now, did.Blocked, did.Blocked
	if did.Evicted > 0 {
		r.emit(ctx, s, podsEvicted(node, did.Evicted, s.Step))
	}
	if err != nil {
		return false, fmt.Errorf("trying to empty node %s: %w", node, err)
	}
	return did.Evicted > 0, nil
}
