package pool_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rrpool/rrpool/cloud"
	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/controllers/plan"
	"github.com/rrpool/rrpool/controllers/plan/rollout"
	"github.com/rrpool/rrpool/controllers/pool"
)

var errKilled = errors.New("killed")

// killer ends the process right after its n-th write: the write happened, its answer was never seen, and nothing came
// after it. With n zero, or none, it lives.
type killer struct {
	left int
	dead bool
}

func (k *killer) write(do func() error) error {
	if k == nil {
		return do()
	}
	if k.dead {
		return errKilled
	}
	err := do()
	if k.left--; k.left == 0 {
		k.dead = true
		return errKilled
	}
	return err
}

// obedientCloud has a pool as soon as that is asked for, and none when it is not wanted.
type obedientCloud struct{ *environment }

func (obedientCloud) Name() string { return "iks" }

func (m obedientCloud) Observe(context.Context, cloud.PoolSpec) (cloud.Pool, error) {
	return m.cloud.pool, nil
}

func (m obedientCloud) Ensure(context.Context, cloud.PoolSpec) (cloud.Progress, error) {
	return cloud.Progress{Did: "created"}, m.kill.write(func() error {
		m.cloud.pool.Exists, m.cloud.pool.Owned, m.cloud.pool.Name = true, true, "route-reflectors"
		return nil
	})
}

func (m obedientCloud) Delete(context.Context) (cloud.Progress, error) {
	if !m.cloud.pool.Exists {
		return cloud.Progress{Done: true}, nil
	}
	return cloud.Progress{Did: "deleted"}, m.kill.write(func() error {
		m.cloud.pool = cloud.Pool{}
		return nil
	})
}

// orderAndRestore orders a pool, switches the mesh off and, when the object is deleted,
// back on: a plan in miniature that depends on nothing but what is observed.
func orderAndRestore(o rollout.Observed, d rollout.Desired) rollout.Step {
	switch {
	case d.Mode == v1alpha1.ModeFullMesh && !o.BGP.MeshOn():
		return rollout.Step{Name: "RestoreMesh", Actions: []plan.Action{plan.RestoreMesh{}}}
	case d.Mode == v1alpha1.ModeFullMesh:
		return rollout.Step{Name: rollout.Steady}
	case o.Pool == nil:
		return rollout.Step{Name: "AwaitProvider"}
	case !o.Pool.Exists:
		return rollout.Step{Name: "EnsurePool", Actions: []plan.Action{plan.EnsurePool{Want: d.Pool}}}
	case o.BGP.MeshOn():
		return rollout.Step{Name: "DisableMesh", Actions: []plan.Action{plan.DisableMesh{}}}
	}
	return rollout.Step{Name: rollout.Steady}
}

// The manager dies after any one of its writes, and its successor finishes, forth and back.
func TestKilledAfterAnyWriteItsSuccessorFinishes(t *testing.T) {
	for name, tc := range map[string]struct {
		environment func(*testing.T) *environment
		pool        func(*environment) bool
	}{
		"in a cloud": {func(t *testing.T) *environment {
			t.Helper()
			e := newEnvironment(t, func(o *v1alpha1.RouteReflectorPool) {
				o.Finalizers, o.Spec.Provider.IKS.DeletionPolicy = nil, v1alpha1.DeletionDelete
			})
			e.provider = func(pool.ProviderConfig) (cloud.Provider, error) { return obedientCloud{e}, nil }
			e.script = orderAndRestore
			return e
		}, func(e *environment) bool { return e.cloud.pool.Exists }},
		"on existing nodes": {func(t *testing.T) *environment {
			t.Helper()
			e := newInPlaceEnvironment(t)
			e.pods.moving["10.0.0.1"] = []string{"default/web"}
			e.script = aBusyLife
			return e
		}, func(e *environment) bool { return len(e.members()) == 3 }},
	} {
		survived := false
		for n := 1; !survived; n++ {
			require.Less(t, n, 100, "there is no end of writes")
			t.Run(fmt.Sprintf("%s, killed after write %d", name, n), func(t *testing.T) {
				e := tc.environment(t)
				e.kill.left = n
				e.restart()
				e.succeedUntil(func() bool { return e.object().Status.Step.Name == rollout.Steady })
				require.False(t, e.calico.cluster.BGP.MeshOn())
				require.True(t, tc.pool(e))
				e.delete()
				e.succeedUntil(e.gone)
				require.True(t, e.calico.cluster.BGP.MeshOn())
				require.False(t, tc.pool(e), "the pool was forgotten")
				require.Empty(t, e.members())
				require.False(t, e.calico.cluster.Nodes[0].Cordoned)
				survived = e.kill.left > 0
			})
		}
	}
}

// succeedUntil lets a manager, or its successor, reconcile until over.
func (e *environment) succeedUntil(over func() bool) {
	e.Helper()
	for range 60 {
		err := e.reconcile()
		if e.kill.dead {
			e.kill.dead = false
			e.restart()
		} else {
			require.NoError(e, err)
		}
		if over() {
			return
		}
		e.clock = e.clock.Add(max(e.result.RequeueAfter, time.Minute))
	}
	require.Fail(e, "it does not get there", "%+v", e.object().Status)
}
