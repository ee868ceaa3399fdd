package pool_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/rrpool/rrpool/cloud"
	"github.com/rrpool/rrpool/cloud/iks"
	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/controllers/plan"
	"github.com/rrpool/rrpool/controllers/plan/rollout"
	"github.com/rrpool/rrpool/controllers/pool"
	"github.com/rrpool/rrpool/test/controlplane"
)

func TestMain(m *testing.M) { controlplane.Main(m) }

// observedDatastore counts how often the cluster is looked at, and the keys that providers are made with.
type observedDatastore struct {
	*fakeDatastore
	looks, keys atomic.Int32
	changes     chan struct{}
}

func (s *observedDatastore) Changes() <-chan struct{}         { return s.changes }
func (s *observedDatastore) WaitSynced(context.Context) error { return nil }

func (s *observedDatastore) Observe(ctx context.Context, scope plan.DatastoreOptions) (plan.Cluster, error) {
	s.looks.Add(1)
	return s.fakeDatastore.Observe(ctx, scope)
}

func (s *observedDatastore) connect(pool.ProviderConfig) (cloud.Provider, error) {
	s.keys.Add(1)
	return &fakeProvider{}, nil
}

// What a decision depends on is looked at when it changes. The whole manager is tested in cmd/manager.
func TestWhatChangesIsLookedAt(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a kube-apiserver")
	}
	scheme := runtime.NewScheme()
	require.NoError(t, corev1.AddToScheme(scheme))
	require.NoError(t, v1alpha1.AddToScheme(scheme))
	cluster := controlplane.ForTest(t).AdminConfig()
	admin, err := client.New(cluster, client.Options{Scheme: scheme})
	require.NoError(t, err)
	ctx := t.Context()
	require.NoError(t, client.IgnoreAlreadyExists(admin.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: managerNamespace}})))
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}}
	for _, object := range []client.Object{secret(apiKey), clusterInfo(clusterID), node} {
		require.NoError(t, admin.Create(ctx, object))
	}
	world := &observedDatastore{fakeDatastore: &fakeDatastore{cluster: plan.Cluster{Nodes: workloadNodes(6)}}, changes: make(chan struct{}, 1)}
	skip := true
	mgr, err := ctrl.NewManager(cluster, ctrl.Options{
		Scheme: scheme, Metrics: server.Options{BindAddress: "0"}, Controller: config.Controller{SkipNameValidation: &skip},
		Cache: cache.Options{ByObject: map[client.Object]cache.ByObject{
			&corev1.Node{}:   {Transform: pool.SlimNode},
			&corev1.Secret{}: {Namespaces: map[string]cache.Config{managerNamespace: {}}},
		}},
	})
	require.NoError(t, err)
	require.NoError(t, pool.SetupWithManager(mgr, &pool.Reconciler{
		Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Datastore: world, Providers: world.connect, Platforms: []cloud.Platform{iks.Platform{}}, Namespace: managerNamespace,
		Next: func(rollout.Observed, rollout.Desired, time.Time) rollout.Step { return steady },
	}, world))
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- mgr.Start(ctx) }()
	stop := func() {
		cancel()
		require.NoError(t, <-done)
	}
	defer stop()

	// A minimal object: the apiserver fills in the defaults.
	object := &v1alpha1.RouteReflectorPool{ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.SingletonName}}
	require.NoError(t, admin.Create(ctx, object))
	eventually(t, func(c *assert.CollectT) {
		require.NoError(c, admin.Get(ctx, client.ObjectKeyFromObject(object), object))
		require.Equal(c, rollout.Steady, object.Status.Step.Name)
	})
	require.Contains(t, object.Finalizers, v1alpha1.Finalizer)
	poke := func(how func()) {
		t.Helper()
		time.Sleep(300 * time.Millisecond) // what was pushed before has been looked at
		before := world.looks.Load()
		how()
		eventually(t, func(c *assert.CollectT) { require.Greater(c, world.looks.Load(), before) })
	}
	poke(func() { world.changes <- struct{}{} })
	poke(func() {
		node.Labels = map[string]string{"x": "y"}
		require.NoError(t, admin.Update(ctx, node))
	})
	poke(func() { require.NoError(t, admin.Update(ctx, secret("another"))) })
	eventually(t, func(c *assert.CollectT) { require.EqualValues(c, 2, world.keys.Load(), "the new key is taken up") })
	require.NoError(t, admin.Delete(ctx, object))
	eventually(t, func(c *assert.CollectT) {
		require.True(c, apierrors.IsNotFound(admin.Get(ctx, client.ObjectKeyFromObject(object), object)))
	})
}

func eventually(t *testing.T, check func(*assert.CollectT)) {
	t.Helper()
	require.EventuallyWithT(t, check, 2*time.Minute, 20*time.Millisecond)
}
