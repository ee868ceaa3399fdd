package pool_test

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/rrpool/rrpool/cloud"
	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/controllers/plan"
	"github.com/rrpool/rrpool/controllers/plan/rollout"
	"github.com/rrpool/rrpool/controllers/plan/topology"
	"github.com/rrpool/rrpool/controllers/pool"
	"github.com/rrpool/rrpool/test/controlplane"
)

func TestMain(m *testing.M) { controlplane.Main(m) }

const (
	patience = 2 * time.Minute
	tick     = 20 * time.Millisecond
)

// shared is a datastore and a provider that test and manager use together.
type shared struct {
	sync.Mutex
	calico *fakeDatastore
	cloud  *fakeProvider
	looks  int
	keys   []string

	changes chan struct{}
}

func (s *shared) Changes() <-chan struct{}         { return s.changes }
func (s *shared) WaitSynced(context.Context) error { return nil }

func (s *shared) Observe(ctx context.Context, scope plan.Scope) (plan.Cluster, error) {
	s.Lock()
	defer s.Unlock()
	s.looks++
	return s.calico.Observe(ctx, scope)
}

func (s *shared) Apply(ctx context.Context, scope plan.Scope, a plan.Action) (bool, error) {
	s.Lock()
	defer s.Unlock()
	return s.calico.Apply(ctx, scope, a)
}

func (s *shared) Watch(ctx context.Context, want []plan.StatusRequest) (bool, error) {
	s.Lock()
	defer s.Unlock()
	return s.calico.Watch(ctx, want)
}

func (s *shared) connect(cfg pool.ProviderConfig) (cloud.Provider, error) {
	s.Lock()
	defer s.Unlock()
	s.keys = append(s.keys, string(cfg.APIKey))
	return sharedCloud{s, killedCloud{s.cloud, &killer{}}}, nil
}

// sharedCloud lets the test change the cloud while the manager asks it.
type sharedCloud struct {
	*shared
	cloud.Provider
}

func (s sharedCloud) Observe(ctx context.Context) (cloud.Pool, error) {
	s.Lock()
	defer s.Unlock()
	return s.Provider.Observe(ctx)
}

func (s sharedCloud) Ensure(ctx context.Context, want cloud.PoolSpec) (cloud.Progress, error) {
	s.Lock()
	defer s.Unlock()
	return s.Provider.Ensure(ctx, want)
}

// losePool is a person who deletes the pool at the cloud's console, and a cloud that does not give another.
func (s *shared) losePool() {
	s.Lock()
	defer s.Unlock()
	s.cloud.pool = cloud.Pool{ClusterZones: []string{"z1"}}
	s.cloud.ensureErr = &cloud.Error{Kind: cloud.QuotaExceeded, Op: "ordering"}
}

func (s *shared) lookedAt() int {
	s.Lock()
	defer s.Unlock()
	return s.looks
}

// The real thing but for Calico and the cloud: a manager, its watches, and a
// kube-apiserver with the generated CRD, which counts the writes.
func TestOnARealAPIServer(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a kube-apiserver")
	}
	plane := controlplane.ForTest(t)
	const user = "rrpool-manager-under-test"
	cluster, err := plane.UserConfig(user, "system:masters")
	require.NoError(t, err)
	scheme := runtime.NewScheme()
	require.NoError(t, corev1.AddToScheme(scheme))
	require.NoError(t, eventsv1.AddToScheme(scheme))
	require.NoError(t, v1alpha1.AddToScheme(scheme))
	admin, err := client.New(plane.AdminConfig(), client.Options{Scheme: scheme})
	require.NoError(t, err)

	ctx := t.Context()
	require.NoError(t, client.IgnoreAlreadyExists(admin.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: managerNamespace}})))
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}}
	for _, object := range []client.Object{secret(apiKey), clusterInfo(clusterID), node} {
		require.NoError(t, admin.Create(ctx, object))
	}
	world := &shared{calico: &fakeDatastore{cluster: plan.Cluster{Nodes: workloadNodes(6)}}, cloud: &fakeProvider{}, changes: make(chan struct{}, 1)}
	world.cloud.pool.ClusterZones = []string{"z1"}
	changes := world.changes
	stop := startManager(t, cluster, scheme, world)
	defer stop()

	// A minimal object: the apiserver fills in the defaults.
	object := &v1alpha1.RouteReflectorPool{ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.SingletonName}}
	require.NoError(t, admin.Create(ctx, object))
	eventually(t, func(c *assert.CollectT) {
		poked(changes)
		require.NoError(c, admin.Get(ctx, client.ObjectKeyFromObject(object), object))
		require.Equal(c, "Steady", object.Status.Step.Name)
	})
	require.Contains(t, object.Finalizers, v1alpha1.Finalizer)
	require.Len(t, object.Status.Conditions, 6)
	require.Equal(t, "iks", object.Status.Provider)
	requireIdentityFixed(t, admin, object)

	// At rest, whatever is pushed: nothing is written. Events are written late.
	var events eventsv1.EventList
	eventually(t, func(c *assert.CollectT) {
		require.NoError(c, admin.List(ctx, &events))
		reasons := map[string]bool{}
		for _, e := range events.Items {
			reasons[e.Reason] = true
			require.NotContains(c, e.Note, apiKey)
		}
		require.True(c, reasons["PoolChanged"] && reasons["MeshDisabled"], "%v", reasons)
	})
	began := time.Now()
	poke := func(how func()) {
		before := world.lookedAt()
		how()
		eventually(t, func(c *assert.CollectT) { require.Greater(c, world.lookedAt(), before) })
	}
	for range 5 {
		poke(func() { changes <- struct{}{} })
	}
	poke(func() {
		node.Labels = map[string]string{"x": "y"}
		require.NoError(t, admin.Update(ctx, node))
	})
	poke(func() { require.NoError(t, admin.Update(ctx, secret("another"))) })
	eventually(t, func(c *assert.CollectT) {
		world.Lock()
		defer world.Unlock()
		require.Equal(c, []string{apiKey, "another"}, world.keys)
	})
	writes, err := plane.Writes(user, began)
	require.NoError(t, err)
	require.NoError(t, admin.List(ctx, &events))
	for _, write := range writes {
		late := slices.ContainsFunc(events.Items, func(e eventsv1.Event) bool { return e.Name == write.Name && e.EventTime.Time.Before(began) })
		require.True(t, late && write.Resource == "events", "%s", write)
	}

	// A pool that is gone frees its name.
	world.losePool()
	eventually(t, func(c *assert.CollectT) {
		poked(changes)
		require.NoError(c, admin.Get(ctx, client.ObjectKeyFromObject(object), object))
		require.Empty(c, object.Status.Pool)
		object.Spec.Provider.IKS.PoolName = "other"
		require.NoError(c, admin.Update(ctx, object, client.DryRunAll))
	})

	// Deleted: first the mesh, then the object.
	require.NoError(t, admin.Delete(ctx, object))
	eventually(t, func(c *assert.CollectT) {
		require.True(c, apierrors.IsNotFound(admin.Get(ctx, client.ObjectKeyFromObject(object), object)))
	})
	require.True(t, world.calico.cluster.BGP.MeshOn())
	writes, err = plane.Writes(user, began)
	require.NoError(t, err)
	require.NotEmpty(t, writes, "the count above counts")
}

// poked asks for another look, unless that is asked for already.
func poked(changes chan<- struct{}) {
	select {
	case changes <- struct{}{}:
	default:
	}
}

// requireIdentityFixed: with a pool of ours, the apiserver refuses what would make rrpool forget it.
func requireIdentityFixed(t *testing.T, admin client.Client, object *v1alpha1.RouteReflectorPool) {
	t.Helper()
	require.Equal(t, "route-reflectors", object.Status.Pool)
	for want, change := range map[string]string{
		"spec.provider.type cannot be changed while a pool exists":                `{"spec":{"provider":{"type":"ExistingNodes"}}}`,
		"spec.provider.iks.poolName cannot be changed while a worker pool exists": `{"spec":{"provider":{"iks":{"poolName":"other"}}}}`,
	} {
		patch := client.RawPatch(types.MergePatchType, []byte(change)) // whatever the manager has written meanwhile
		require.ErrorContains(t, admin.Patch(t.Context(), object.DeepCopy(), patch, client.DryRunAll), want)
	}
}

func startManager(t *testing.T, cluster *rest.Config, scheme *runtime.Scheme, world *shared) (stop func()) {
	t.Helper()
	skip := true
	mgr, err := ctrl.NewManager(cluster, ctrl.Options{
		Scheme: scheme, Metrics: server.Options{BindAddress: "0"}, Controller: config.Controller{SkipNameValidation: &skip},
		Cache: cache.Options{ByObject: map[client.Object]cache.ByObject{
			&corev1.Node{}:   {Transform: pool.SlimNode},
			&corev1.Secret{}: {Namespaces: map[string]cache.Config{managerNamespace: {}}},
		}},
	})
	require.NoError(t, err)
	began := time.Now()
	require.NoError(t, pool.SetupWithManager(mgr, &pool.Reconciler{
		Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Datastore: world, Providers: world.connect,
		Namespace: managerNamespace, Recorder: mgr.GetEventRecorder("rrpool.io/manager"),
		Metrics: pool.NewMetrics(prometheus.NewRegistry()),
		// Time flies, or the test would wait as long as the cloud takes.
		Now:  func() time.Time { return began.Add(100 * time.Since(began)) },
		Next: func(o rollout.Observed, d rollout.Desired, _ time.Time) rollout.Step { return orderAndRestore(o, d) },
	}, world))
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- mgr.Start(ctx) }()
	return func() {
		cancel()
		require.NoError(t, <-done)
	}
}

func eventually(t *testing.T, check func(*assert.CollectT)) {
	t.Helper()
	require.EventuallyWithT(t, check, patience, tick)
}

// BenchmarkReconcileAtRest is one turn of a migrated cluster that needs nothing.
func BenchmarkReconcileAtRest(b *testing.B) {
	for _, size := range []int{100, 1000, 5000} {
		b.Run(fmt.Sprintf("%d nodes", size), func(b *testing.B) {
			e := migrated(b, size)
			_, err := e.reconciler.Reconcile(b.Context(), reconcile.Request{})
			require.NoError(b, err)
			require.Equal(b, rollout.Steady, e.seenStep.Name, "%+v", e.seenStep)
			b.ReportAllocs()
			for b.Loop() {
				_, err := e.reconciler.Reconcile(b.Context(), reconcile.Request{})
				require.NoError(b, err)
			}
			require.LessOrEqual(b, e.writes, 2)
		})
	}
}

// migrated is a cluster of size workload nodes with all its reflectors serving.
func migrated(tb testing.TB, size int) *environment {
	tb.Helper()
	e := newEnvironment(tb)
	reflectors := min(25, 3+size/100)
	perZone := (reflectors + 2) / 3
	if perZone*3 > 25 {
		perZone = 8
	}
	var nodes []plan.Node
	var sessions []plan.Session
	since := e.clock.Add(-time.Hour)
	address := func(i int) netip.Addr { return netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)}) }
	for i := range size + perZone*3 {
		ip := address(i + 1)
		n := node(ip.String(), fmt.Sprintf("w%d", i), fmt.Sprintf("z%d", i%3+1))
		n.ReadyChanged, n.Created = since, since
		if i >= size {
			n.Labels = map[string]string{"rrpool.io/pool": "route-reflectors"}
			n.RoleLabel, n.ClusterID, n.Marked, n.RoleSince = true, "244.0.0.1", true, since
			e.cloud.pool.Workers = append(e.cloud.pool.Workers, cloud.Worker{
				ID: n.ProviderID[len("ibm://account///c1/"):], NodeName: n.Name, Zone: n.Zone, State: cloud.WorkerDeployed,
			})
		}
		nodes = append(nodes, n)
		sessions = append(sessions, plan.Session{Peer: ip, Kind: plan.SessionNode, Established: true, Since: since})
	}
	off := false
	e.calico.cluster = plan.Cluster{
		Nodes: nodes, BGP: plan.BGPConfig{Exists: true, ASN: 64512, Mesh: plan.Mesh{Enabled: &off}, Saved: &plan.Mesh{}},
		Statuses: map[string]plan.Status{},
		Peers:    topology.Single("rrpool.io/route-reflector", topology.Session{}),
	}
	for i := range e.calico.cluster.Peers {
		e.calico.cluster.Peers[i].Written = since
	}
	for _, n := range nodes[size:] {
		e.calico.cluster.Statuses[n.Name] = plan.Status{Node: n.Name, Updated: since, Sessions: sessions}
	}
	e.cloud.pool.Exists, e.cloud.pool.Owned, e.cloud.pool.SizePerZone = true, true, perZone
	e.cloud.pool.Zones = e.cloud.pool.ClusterZones
	e.cloud.pool.Taints = []cloud.Taint{{Key: "rrpool.io/dedicated", Value: "route-reflector", Effect: "NoExecute"}}
	return e
}
