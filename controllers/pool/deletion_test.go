package pool_test

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rrpool/rrpool/cloud"
	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/controllers/plan"
	"github.com/rrpool/rrpool/controllers/plan/rollout"
)

func TestFinalizerComesFirst(t *testing.T) {
	w := newWorld(t, func(o *v1alpha1.RouteReflectorPool) { o.Finalizers = []string{"keep/this"} })
	require.NoError(t, w.reconcile())
	require.Contains(t, w.object().Finalizers, v1alpha1.Finalizer)
	require.Zero(t, w.cloud.observed)
	require.Empty(t, w.seen)
	w.settle(1)
	require.NotZero(t, w.cloud.observed)
}

// A paused object that is deleted at once leaves nothing behind only where nothing is of our making.
func TestAPausedObjectIsProtectedWhereThereIsSomethingToRestore(t *testing.T) {
	for name, tc := range map[string]struct {
		found func(*world)
		want  bool
	}{
		"nothing of ours":         {func(*world) {}, false},
		"a worker pool":           {func(w *world) { w.calico.cluster.Nodes[0].Pooled = true }, false},
		"a route reflector":       {func(w *world) { w.calico.cluster.Nodes[0].Marked = true }, true},
		"a BGPPeer":               {func(w *world) { w.calico.cluster.Peers = []plan.Peer{{Name: "rrpool-clients", Owned: true}} }, true},
		"somebody else's BGPPeer": {func(w *world) { w.calico.cluster.Peers = []plan.Peer{{Name: "uplink"}} }, false},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, func(o *v1alpha1.RouteReflectorPool) { o.Spec.Mode, o.Finalizers = v1alpha1.ModePaused, nil })
			w.calico.cluster.BGP.Saved = nil
			tc.found(w)
			w.settle(2)
			require.Equal(t, tc.want, slices.Contains(w.object().Finalizers, v1alpha1.Finalizer))
			require.Empty(t, w.calico.applied, "a pause does nothing")
			w.expect("Ready False Paused")
		})
	}
}

func TestDeletionRestoresTheMeshFirst(t *testing.T) {
	restore := rollout.Step{Name: "RestoreMesh", Actions: []plan.Action{plan.RestoreMesh{}}}
	setup := func(t *testing.T, policy v1alpha1.DeletionPolicy) *world {
		t.Helper()
		w := newWorld(t, func(o *v1alpha1.RouteReflectorPool) { o.Spec.Provider.IKS.DeletionPolicy = policy })
		w.cloud.pool = cloud.Pool{Exists: true, Owned: true}
		off := false
		w.calico.cluster.BGP.Mesh.Enabled = &off
		w.script = func(o rollout.Observed, d rollout.Desired) rollout.Step {
			require.Equal(t, rollout.Mesh, d.Mode)
			if !o.BGP.MeshOn() {
				return restore
			}
			return steady
		}
		w.delete()
		require.NoError(t, w.reconcile())
		require.Equal(t, []string{"switch the node-to-node mesh on"}, w.calico.applied)
		require.Zero(t, w.cloud.deleted, "the mesh comes first")
		require.Zero(t, w.cloud.observed, "the mesh does not wait for the cloud")
		require.False(t, w.gone())
		w.clock = w.clock.Add(time.Minute)
		return w
	}
	t.Run("Retain leaves the pool", func(t *testing.T) {
		w := setup(t, v1alpha1.DeletionRetain)
		require.NoError(t, w.reconcile())
		require.True(t, w.gone())
		require.Zero(t, w.cloud.deleted)
	})
	t.Run("Delete waits until the pool is gone", func(t *testing.T) {
		w := setup(t, v1alpha1.DeletionDelete)
		w.cloud.deletion = []cloud.Progress{{Did: "deleted pool rr", WaitingFor: "workers to go"}, {WaitingFor: "workers to go"}}
		w.settle(1)
		require.False(t, w.gone())
		require.Equal(t, "DeletePool", w.object().Status.Step.Name)
		require.Equal(t, []string{"workers to go"}, w.object().Status.Step.WaitingFor)
		w.clock = w.clock.Add(time.Minute)
		w.settle(1)
		require.False(t, w.gone())
		w.clock = w.clock.Add(time.Minute)
		require.NoError(t, w.reconcile())
		require.True(t, w.gone())
		require.Equal(t, 3, w.cloud.deleted)
	})
	t.Run("Delete with the cloud down keeps trying and says the way out", func(t *testing.T) {
		w := setup(t, v1alpha1.DeletionDelete)
		w.cloud.deleteErr = &cloud.Error{Kind: cloud.Unavailable, Op: "deleting", Message: "no answer"}
		for range 5 {
			require.NoError(t, w.reconcile())
			w.clock = w.clock.Add(time.Minute)
		}
		require.False(t, w.gone())
		w.expect("ProviderReady False CloudUnavailable", "Ready False CloudUnavailable")
		require.Contains(t, w.object().Status.Step.WaitingFor[0], "Retain")
		w.cloud.deleteErr = nil
		w.clock = w.clock.Add(10 * time.Minute)
		require.NoError(t, w.reconcile())
		require.True(t, w.gone())
	})
	t.Run("Delete leaves alone what is not ours", func(t *testing.T) {
		w := setup(t, v1alpha1.DeletionDelete)
		w.cloud.pool.Owned = false
		require.NoError(t, w.reconcile())
		require.True(t, w.gone())
		require.Zero(t, w.cloud.deleted)
	})
	t.Run("missing credentials do not hold up the mesh", func(t *testing.T) {
		w := newWorld(t, func(o *v1alpha1.RouteReflectorPool) { o.Spec.Provider.IKS.DeletionPolicy = v1alpha1.DeletionDelete })
		require.NoError(t, w.client.Delete(t.Context(), secret("")))
		off := false
		w.calico.cluster.BGP.Mesh.Enabled = &off
		w.script = func(o rollout.Observed, _ rollout.Desired) rollout.Step {
			if !o.BGP.MeshOn() {
				return restore
			}
			return steady
		}
		w.delete()
		w.settle(3)
		require.Equal(t, []string{"switch the node-to-node mesh on"}, w.calico.applied)
		require.False(t, w.gone())
		w.expect("ProviderReady False CredentialsMissing", "Ready False CredentialsMissing")
	})
}

func TestDeletionIsNotHeldUpByWhatWasNeverTouched(t *testing.T) {
	refused := rollout.Step{Name: rollout.UnsupportedCluster, Problem: &plan.Problem{Reason: "BGPDisabled", Message: "m"}}
	for name, tc := range map[string]struct {
		arrange func(*plan.Cluster)
		gone    bool
	}{
		"nothing is ours":           {func(*plan.Cluster) {}, true},
		"a node is a reflector":     {func(c *plan.Cluster) { c.Nodes[0].Marked = true }, false},
		"a BGPPeer is ours":         {func(c *plan.Cluster) { c.Peers = []plan.Peer{{Owned: true}} }, false},
		"a BGPPeer is not":          {func(c *plan.Cluster) { c.Peers = []plan.Peer{{}} }, true},
		"the mesh was switched off": {func(c *plan.Cluster) { c.BGP.Saved = &plan.Mesh{} }, false},
		"no node is to be seen":     {func(c *plan.Cluster) { c.Nodes = nil }, false},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			tc.arrange(&w.calico.cluster)
			w.script = always(refused)
			w.delete()
			require.NoError(t, w.reconcile())
			require.Equal(t, tc.gone, w.gone())
		})
	}
}
