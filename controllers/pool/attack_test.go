package pool

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/controllers/plan"
	"github.com/rrpool/rrpool/controllers/plan/rollout"
)

// A7: a refusal must not make the manager forget since when too few reflectors serve.
func TestA7ARefusalRemembersThatTooFewServe(t *testing.T) {
	r := &Reconciler{Next: func(rollout.Observed, rollout.Desired, time.Time) rollout.Step {
		return rollout.Step{Name: rollout.Steady, Short: true}
	}}
	step := r.refuse(&turn{object: &v1alpha1.RouteReflectorPool{}}, rollout.Observed{}, plan.Problem{Reason: "X", Message: "x"})
	require.True(t, step.Short)
}

// obedient carries out what it is told as long as its context lives.
type obedient struct{ done []string }

func (o *obedient) Observe(context.Context, plan.Scope) (plan.Cluster, error) { return plan.Cluster{}, nil }
func (o *obedient) Watch(context.Context, []plan.Watch) (bool, error)         { return false, nil }
func (o *obedient) Apply(ctx context.Context, _ plan.Scope, a plan.Action) (bool, error) {
	if ctx.Err() == nil {
		o.done = append(o.done, a.String())
	}
	return false, ctx.Err()
}

// A22: a manager that is told to go in the pause of the first promotion finishes it.
func TestA22AShutdownInThePauseDoesNotCutTheFirstReflectorOff(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	store := &obedient{}
	r := &Reconciler{Datastore: store, Pause: func(time.Duration) { cancel() }}
	turn := &turn{object: &v1alpha1.RouteReflectorPool{}, step: rollout.Step{Actions: []plan.Action{
		plan.SetReflector{Node: "a", ClusterID: "1.1.1.1"}, plan.Pause{For: time.Second}, plan.PutPeer{Peer: plan.Peer{Name: "rrpool-clients"}},
	}}}
	_ = r.apply(ctx, turn)
	require.Len(t, store.done, 2)
}
