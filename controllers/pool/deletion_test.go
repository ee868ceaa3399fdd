package pool_test

import (
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
