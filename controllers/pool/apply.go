package pool

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/rrpool/rrpool/cloud"
	"github.com/rrpool/rrpool/controllers/plan"
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
