package pool_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/rrpool/rrpool/controllers/plan"
	"github.com/rrpool/rrpool/controllers/plan/rollout"
)

var (
	role  = plan.SetReflector{Node: "a", ClusterID: "1"}
	sides = plan.PutPeer{Peer: plan.Peer{Name: "b"}}
)

func TestAPauseIsMadeBetweenTheActionsAroundIt(t *testing.T) {
	w := newWorld(t)
	w.script = always(rollout.Step{Name: "X", Actions: []plan.Action{role, plan.Pause{For: 1200 * time.Millisecond}, sides}})
	require.NoError(t, w.reconcile())
	require.Equal(t, []string{role.String(), "wait for 1.2s", sides.String()}, w.calico.applied)
}

// obedient changes nothing for a manager that has been told to go.
type obedient struct {
	*calico
	told func() // after each change
}

func (o obedient) Apply(ctx context.Context, s plan.Scope, a plan.Action) (bool, error) {
	if err := ctx.Err(); err != nil {
		return false, fmt.Errorf("writing: %w", err)
	}
	defer o.told()
	return o.calico.Apply(ctx, s, a)
}

// Half of a step with a pause in it cuts a node off until the next manager leads.
func TestAShutdownDoesNotStopAStepHalfwayThroughItsPause(t *testing.T) {
	pause := plan.Pause{For: time.Hour}
	for name, tc := range map[string]struct {
		actions   []plan.Action
		toldAfter time.Duration // after the first change
		applied   []string
		lasts     time.Duration
	}{
		"told in the pause":                    {[]plan.Action{role, pause, sides}, time.Minute, []string{role.String(), sides.String()}, time.Hour},
		"told just before":                     {[]plan.Action{role, pause, sides}, 0, []string{role.String(), sides.String()}, time.Hour},
		"without a pause it stops where it is": {[]plan.Action{role, sides}, 0, []string{role.String()}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				w := newWorld(t)
				w.script = always(rollout.Step{Name: "X", Actions: tc.actions})
				w.reconciler.Pause = nil // the manager's own clock
				w.reconciler.Datastore = obedient{w.calico, func() {
					if tc.toldAfter == 0 {
						cancel()
					}
					time.AfterFunc(tc.toldAfter, cancel)
				}}
				began := time.Now()
				_, err := w.reconciler.Reconcile(ctx, reconcile.Request{})
				require.Equal(t, len(tc.applied) < 2, err != nil, err)
				require.Equal(t, tc.applied, w.calico.applied)
				require.Equal(t, tc.lasts, time.Since(began))
			})
		})
	}
}
