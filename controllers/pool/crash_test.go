package pool_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/utils/ptr"

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

func TestFinalizerComesFirst(t *testing.T) {
	e := newEnvironment(t, func(o *v1alpha1.RouteReflectorPool) { o.Finalizers = []string{"keep/this"} })
	require.NoError(t, e.reconcile())
	require.Contains(t, e.object().Finalizers, v1alpha1.Finalizer)
	require.Zero(t, e.cloud.observed)
	require.Empty(t, e.seen)
	e.settle(1)
	require.NotZero(t, e.cloud.observed)
}

// An object that is to go gets no finalizer any more, whatever there is to restore: the apiserver refuses to add one.
func TestAnObjectThatIsToGoGetsNoFinalizer(t *testing.T) {
	for _, mode := range []v1alpha1.Mode{v1alpha1.ModePaused, v1alpha1.ModeRouteReflector} {
		e := newEnvironment(t, func(o *v1alpha1.RouteReflectorPool) { o.Spec.Mode, o.Finalizers = mode, []string{"keep/this"} })
		e.calico.cluster.Nodes[0].Marked = true
		e.delete()
		require.NoError(t, e.reconcile())
		require.Equal(t, []string{"keep/this"}, e.object().Finalizers, mode)
	}
}

// A paused object that is deleted at once leaves nothing behind only where nothing is of our making.
func TestAPausedObjectIsProtectedWhereThereIsSomethingToRestore(t *testing.T) {
	for _, ours := range []bool{false, true} {
		e := newEnvironment(t, func(o *v1alpha1.RouteReflectorPool) { o.Spec.Mode, o.Finalizers = v1alpha1.ModePaused, nil })
		e.calico.cluster.Nodes[0].Marked = ours
		e.settle(2)
		require.Equal(t, ours, slices.Contains(e.object().Finalizers, v1alpha1.Finalizer))
		require.Empty(t, e.calico.applied, "a pause does nothing")
		e.expect("Ready False Paused")
	}
}

// A manager that looks for Calico's objects in another datastore than before finds nothing of ours: that releases nothing.
func TestDeletionInAnotherDatastoreWaits(t *testing.T) {
	e := newEnvironment(t, func(o *v1alpha1.RouteReflectorPool) { o.Spec.Provider.IKS.DeletionPolicy = v1alpha1.DeletionDelete })
	e.cloud.pool = cloud.Pool{Exists: true, Owned: true}
	e.calico.cluster.CalicoAPI = "etcdv3"
	e.settle(2)
	e.calico.cluster.CalicoAPI = "crd.projectcalico.org/v1"
	e.calico.cluster.Problems = []plan.Problem{{Reason: "CalicoNotInstalled", Message: "there is no Calico"}}
	e.calico.cluster.Locked = plan.Problemf("DatastoreChanged", "it is another one")
	e.script = func(o rollout.Observed, d rollout.Desired) rollout.Step { return rollout.Next(o, d, e.clock) }
	e.delete()
	e.settle(4)
	require.False(t, e.gone())
	require.Zero(t, e.cloud.deleted)
	require.Equal(t, "etcdv3", e.object().Status.CalicoAPI)
	e.calico.cluster.Locked = nil
	e.settle(4)
	require.True(t, e.gone(), "without our marks")
}

func TestDeletionRestoresTheMeshFirst(t *testing.T) {
	restoring := func(o rollout.Observed, _ rollout.Desired) rollout.Step {
		if !o.BGP.MeshOn() {
			return rollout.Step{Name: "RestoreMesh", Actions: []plan.Action{plan.RestoreMesh{}}}
		}
		return steady
	}
	setup := func(t *testing.T, policy v1alpha1.DeletionPolicy) *environment {
		t.Helper()
		e := newEnvironment(t, func(o *v1alpha1.RouteReflectorPool) { o.Spec.Provider.IKS.DeletionPolicy = policy })
		e.cloud.pool = cloud.Pool{Exists: true, Owned: true}
		e.calico.cluster.BGP.Mesh.Enabled = ptr.To(false)
		e.script = restoring
		e.delete()
		require.NoError(t, e.reconcile())
		require.Equal(t, v1alpha1.ModeFullMesh, e.wanted.Mode)
		require.Equal(t, []string{"switch the node-to-node mesh on"}, e.calico.applied)
		require.Zero(t, e.cloud.deleted, "the mesh comes first")
		require.Zero(t, e.cloud.observed, "the mesh does not wait for the cloud")
		require.False(t, e.gone())
		e.clock = e.clock.Add(time.Minute)
		return e
	}
	t.Run("Retain leaves the pool", func(t *testing.T) {
		e := setup(t, v1alpha1.DeletionRetain)
		require.NoError(t, e.reconcile())
		require.True(t, e.gone())
		require.Zero(t, e.cloud.deleted)
	})
	t.Run("Delete waits until the pool is gone", func(t *testing.T) {
		e := setup(t, v1alpha1.DeletionDelete)
		e.cloud.deletion = []cloud.Progress{{Did: "deleted pool rr", WaitingFor: "workers to go"}, {WaitingFor: "workers to go"}}
		e.settle(1)
		require.False(t, e.gone())
		require.Equal(t, "DeletePool", e.object().Status.Step.Name)
		require.Equal(t, []string{"workers to go"}, e.object().Status.Step.WaitingFor)
		e.after(time.Minute)
		require.False(t, e.gone())
		e.after(time.Minute)
		require.True(t, e.gone())
		require.Equal(t, 3, e.cloud.deleted)
	})
	t.Run("Delete with the cloud down keeps trying and says the way out", func(t *testing.T) {
		e := setup(t, v1alpha1.DeletionDelete)
		e.cloud.deleteErr = &cloud.Error{Kind: cloud.Unavailable, Op: "deleting", Message: "no answer"}
		for range 5 {
			require.NoError(t, e.reconcile())
			e.clock = e.clock.Add(time.Minute)
		}
		require.False(t, e.gone())
		e.expect("ProviderReady False CloudUnavailable", "Ready False CloudUnavailable")
		require.Contains(t, e.object().Status.Step.WaitingFor[0], "Retain")
		e.cloud.deleteErr = nil
		e.after(10 * time.Minute)
		require.True(t, e.gone())
	})
	t.Run("Delete leaves alone what is not ours", func(t *testing.T) {
		e := setup(t, v1alpha1.DeletionDelete)
		e.cloud.pool.Owned = false
		e.edit(func(o *v1alpha1.RouteReflectorPool) {
			o.Annotations = map[string]string{v1alpha1.PoolsAnnotation: "another"}
		})
		require.NoError(t, e.reconcile())
		require.True(t, e.gone())
		require.Zero(t, e.cloud.deleted)
	})
	t.Run("missing credentials do not hold up the mesh", func(t *testing.T) {
		e := newEnvironment(t, func(o *v1alpha1.RouteReflectorPool) { o.Spec.Provider.IKS.DeletionPolicy = v1alpha1.DeletionDelete })
		require.NoError(t, e.client.Delete(t.Context(), secret("")))
		e.calico.cluster.BGP.Mesh.Enabled = ptr.To(false)
		e.script = restoring
		e.delete()
		e.settle(3)
		require.Equal(t, []string{"switch the node-to-node mesh on"}, e.calico.applied)
		require.False(t, e.gone())
		e.expect("ProviderReady False CredentialsMissing", "Ready False CredentialsMissing")
	})
}

func TestDeletionIsNotHeldUpByWhatWasNeverTouched(t *testing.T) {
	refused := rollout.Step{Name: rollout.UnsupportedCluster, Problem: &plan.Problem{Reason: "BGPDisabled", Message: "m"}}
	label := func(pool string) func(*plan.Cluster) {
		return func(c *plan.Cluster) { c.Nodes[0].Labels = map[string]string{v1alpha1.PoolLabel: pool} }
	}
	for name, tc := range map[string]struct {
		inPlace bool
		arrange func(*plan.Cluster)
		gone    bool
	}{
		"nothing is ours":                {false, func(*plan.Cluster) {}, true},
		"a node is a reflector":          {false, func(c *plan.Cluster) { c.Nodes[0].Marked = true }, false},
		"a BGPPeer is ours":              {false, func(c *plan.Cluster) { c.Peers = []plan.Peer{{Owned: true}} }, false},
		"a BGPPeer is not":               {false, func(c *plan.Cluster) { c.Peers = []plan.Peer{{}} }, true},
		"the mesh was switched off":      {false, func(c *plan.Cluster) { c.BGP.Saved = &plan.Mesh{} }, false},
		"no node is to be seen":          {false, func(c *plan.Cluster) { c.Nodes = nil }, false},
		"an existing node is not ours":   {true, func(*plan.Cluster) {}, true},
		"a node is in the pool":          {true, label(pool.ExistingPool), false},
		"a node is in a pool of others":  {true, label("x"), true},
		"a node is cordoned by us":       {true, func(c *plan.Cluster) { c.Nodes[0].Cordoned, c.Nodes[0].CordonMark = true, true }, false},
		"a node is cordoned by a person": {true, func(c *plan.Cluster) { c.Nodes[0].Cordoned = true }, true},
		"a worker of the dedicated pool": {false, func(c *plan.Cluster) { c.Nodes[0].Pooled = true }, true},
	} {
		t.Run(name, func(t *testing.T) {
			e := newEnvironment(t, func(o *v1alpha1.RouteReflectorPool) {
				if tc.inPlace {
					onExisting(o)
				}
			})
			tc.arrange(&e.calico.cluster)
			e.script = always(refused)
			e.delete()
			require.NoError(t, e.reconcile())
			require.Equal(t, tc.gone, e.gone())
		})
	}
}
