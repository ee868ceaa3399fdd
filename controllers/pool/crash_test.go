package pool_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/rrpool/rrpool/cloud"
	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/controllers/plan"
	"github.com/rrpool/rrpool/controllers/plan/rollout"
	"github.com/rrpool/rrpool/controllers/pool"
	"github.com/rrpool/rrpool/controllers/workload"
)

var errKilled = errors.New("killed")

// killer ends the process right after its n-th write: the write happened, its
// answer was never seen, and nothing came after it.
type killer struct {
	left int
	dead bool
}

func (k *killer) write(do func() error) error {
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

type killedCalico struct {
	*fakeDatastore
	*killer
}

func (m killedCalico) Apply(ctx context.Context, s plan.Scope, a plan.Action) (changed bool, err error) {
	err = m.write(func() error {
		changed, err = m.fakeDatastore.Apply(ctx, s, a)
		return err
	})
	return changed, err
}

func (m killedCalico) SetPool(ctx context.Context, n plan.Node, name string) error {
	return m.write(func() error { return m.fakeDatastore.SetPool(ctx, n, name) })
}

type killedPods struct {
	*fakePods
	*killer
}

func (m killedPods) Evict(ctx context.Context, node string) (did workload.Eviction, err error) {
	err = m.write(func() error {
		did, err = m.fakePods.Evict(ctx, node)
		return err
	})
	return did, err
}

type killedCloud struct {
	*fakeProvider
	*killer
}

func (m killedCloud) Ensure(context.Context, cloud.PoolSpec) (cloud.Progress, error) {
	if m.ensureErr != nil {
		return cloud.Progress{}, m.ensureErr
	}
	return cloud.Progress{Did: "created"}, m.write(func() error {
		m.pool.Exists, m.pool.Owned, m.pool.Name = true, true, "route-reflectors"
		return nil
	})
}

func (m killedCloud) Delete(context.Context) (cloud.Progress, error) {
	if !m.pool.Exists {
		return cloud.Progress{Done: true}, nil
	}
	return cloud.Progress{Did: "deleted"}, m.write(func() error {
		m.pool = cloud.Pool{}
		return nil
	})
}

type killedClient struct {
	client.Client
	*killer
}

func (m killedClient) Patch(ctx context.Context, o client.Object, p client.Patch, opts ...client.PatchOption) error {
	return m.write(func() error { return m.Client.Patch(ctx, o, p, opts...) })
}

func (m killedClient) Status() client.SubResourceWriter {
	return killedStatus{m.Client.Status(), m.killer}
}

type killedStatus struct {
	client.SubResourceWriter
	*killer
}

func (m killedStatus) Patch(ctx context.Context, o client.Object, p client.Patch, opts ...client.SubResourcePatchOption) error {
	return m.write(func() error { return m.SubResourceWriter.Patch(ctx, o, p, opts...) })
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

// The manager dies after any one of its writes, and its successor finishes.
func TestKilledAfterAnyWriteItsSuccessorFinishes(t *testing.T) {
	survived := false
	for kill := 1; !survived; kill++ {
		require.Less(t, kill, 100, "there is no end of writes")
		t.Run(fmt.Sprintf("killed after write %d", kill), func(t *testing.T) {
			e := newEnvironment(t, func(o *v1alpha1.RouteReflectorPool) {
				o.Finalizers, o.Spec.Provider.IKS.DeletionPolicy = nil, v1alpha1.DeletionDelete
			})
			e.script = orderAndRestore
			by := &killer{left: kill}
			e.restart()
			e.killedBy(by)
			live := func(until func() bool) {
				for range 40 {
					err := e.reconcile()
					if by.dead {
						by.dead = false
						e.restart()
						e.killedBy(by)
					} else {
						require.NoError(t, err)
					}
					if until() {
						return
					}
					e.clock = e.clock.Add(max(e.result.RequeueAfter, time.Minute))
				}
				require.Fail(t, "it does not get there", "%+v", e.object().Status)
			}
			live(func() bool { return e.object().Status.Step.Name == rollout.Steady })
			require.False(t, e.calico.cluster.BGP.MeshOn())
			require.True(t, e.cloud.pool.Exists)
			e.delete()
			live(e.gone)
			require.True(t, e.calico.cluster.BGP.MeshOn())
			require.False(t, e.cloud.pool.Exists, "the pool was forgotten")
			survived = by.left > 0
		})
	}
}

func (e *environment) killedBy(by *killer) {
	e.reconciler.Client = killedClient{e.client, by}
	e.reconciler.Datastore = killedCalico{e.calico, by}
	e.reconciler.Providers = func(pool.ProviderConfig) (cloud.Provider, error) { return killedCloud{e.cloud, by}, nil }
}
