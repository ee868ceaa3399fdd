package pool

import (
	"context"
	"fmt"
	"time"

	"github.com/rrpool/rrpool/cloud"
	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/controllers/plan"
	"github.com/rrpool/rrpool/controllers/plan/rollout"
)

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
