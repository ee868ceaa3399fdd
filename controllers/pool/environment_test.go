package pool_test

import (
	"context"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/rrpool/rrpool/cloud"
	"github.com/rrpool/rrpool/cloud/existing"
	"github.com/rrpool/rrpool/cloud/iks"
	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/config/crd"
	"github.com/rrpool/rrpool/controllers/plan"
	"github.com/rrpool/rrpool/controllers/plan/rollout"
	"github.com/rrpool/rrpool/controllers/plan/simulate"
	"github.com/rrpool/rrpool/controllers/pool"
	"github.com/rrpool/rrpool/controllers/workload"
	"github.com/rrpool/rrpool/test/iksserver"
)

const (
	managerNamespace = "rrpool-system"
	clusterID        = "c1"
	apiKey           = "very secret/key+1"
)

// fakeDatastore is a datastore in memory that does as the test sets.
type fakeDatastore struct {
	cluster plan.Cluster
	watched []plan.StatusRequest
	tried   []plan.Action
	err     error // what Observe answers
	applied []string
	fail    map[string]error // by action in words
}

func (c *fakeDatastore) Observe(context.Context, plan.DatastoreOptions) (plan.Cluster, error) {
	if c.err != nil {
		return plan.Cluster{}, c.err
	}
	out := c.cluster
	out.Nodes = slices.Clone(c.cluster.Nodes)
	return out, nil
}

func (c *fakeDatastore) Apply(_ context.Context, _ plan.DatastoreOptions, action plan.Action) (bool, error) {
	if err := c.fail[action.String()]; err != nil {
		return false, err
	}
	c.applied = append(c.applied, action.String())
	switch action.(type) {
	case plan.DisableMesh:
		off := false
		c.cluster.BGP.Mesh.Enabled = &off
	case plan.RestoreMesh:
		c.cluster.BGP.Mesh.Enabled = nil
	}
	for i := range c.cluster.Nodes {
		n := &c.cluster.Nodes[i]
		switch action {
		case plan.CordonNode{Node: n.Name}:
			n.Cordoned, n.CordonedByUs, n.CordonMark = true, true, true
		case plan.UncordonNode{Node: n.Name}:
			n.Cordoned, n.CordonedByUs, n.CordonMark = false, false, false
		}
	}
	return true, nil
}

// List and SetPool make it what the provider of existing nodes needs.
func (c *fakeDatastore) List(context.Context) ([]plan.Node, error) {
	return slices.Clone(c.cluster.Nodes), nil
}

func (c *fakeDatastore) SetPool(_ context.Context, node plan.Node, name string) error {
	for i := range c.cluster.Nodes {
		if n := &c.cluster.Nodes[i]; n.Name == node.Name {
			n.Labels = labels.Merge(n.Labels, map[string]string{v1alpha1.PoolLabel: name})
			maps.DeleteFunc(n.Labels, func(_, value string) bool { return value == "" })
		}
	}
	return nil
}

type fakePods struct {
	counted            [][]string
	counts             map[string]int
	moving, staying    map[string][]string
	blocked            []string
	evictions          []string
	evictable          int
	countErr, evictErr error
	lookErr            error
}

func (p *fakePods) Count(_ context.Context, nodes []string) (map[string]int, error) {
	p.counted = append(p.counted, nodes)
	return p.counts, p.countErr
}

func (p *fakePods) Evictable(_ context.Context, node string) (moving, staying []string, err error) {
	p.evictable++
	return p.moving[node], p.staying[node], p.lookErr
}

// Evict moves all pods but those that are blocked.
func (p *fakePods) Evict(_ context.Context, node string) (workload.Eviction, error) {
	p.evictions = append(p.evictions, node)
	gone := len(p.moving[node]) - len(p.blocked)
	if p.moving[node] = nil; len(p.blocked) > 0 {
		p.moving[node] = []string{"default/web"}
	}
	return workload.Eviction{Evicted: max(gone, 0), Blocked: p.blocked}, p.evictErr
}

func (c *fakeDatastore) Try(_ context.Context, _ plan.DatastoreOptions, action plan.Action) error {
	c.tried = append(c.tried, action)
	return c.fail["try"]
}

func (c *fakeDatastore) Watch(_ context.Context, want []plan.StatusRequest) (bool, error) {
	if err := c.fail["watch"]; err != nil {
		return false, err
	}
	changed := !slices.Equal(c.watched, want)
	c.watched = want
	return changed, nil
}

type fakeProvider struct {
	pool                       cloud.Pool
	observed, ensured, deleted int
	observeErr, ensureErr      error
	progress                   cloud.Progress
	deletion                   []cloud.Progress
	deleteErr                  error
	wants                      []cloud.PoolSpec
	keys                       []string
	meanwhile                  func()                // while it is observed
	changing                   func(context.Context) // while it is changed
}

func (*fakeProvider) Name() string { return "iks" }

func (s *fakeProvider) Observe(context.Context, cloud.PoolSpec) (cloud.Pool, error) {
	s.observed++
	if s.meanwhile != nil {
		s.meanwhile()
	}
	return s.pool, s.observeErr
}

func (s *fakeProvider) Ensure(ctx context.Context, want cloud.PoolSpec) (cloud.Progress, error) {
	s.ensured++
	s.wants = append(s.wants, want)
	if s.changing != nil {
		s.changing(ctx)
	}
	return s.progress, s.ensureErr
}

func (s *fakeProvider) Delete(context.Context) (cloud.Progress, error) {
	s.deleted++
	if s.deleteErr != nil {
		return cloud.Progress{}, s.deleteErr
	}
	if len(s.deletion) == 0 {
		return cloud.Progress{Done: true}, nil
	}
	progress := s.deletion[0]
	s.deletion = s.deletion[1:]
	return progress, nil
}

type environment struct {
	testing.TB
	calico     *fakeDatastore
	cloud      *fakeProvider
	pods       *fakePods
	client     client.Client
	reconciler *pool.Reconciler
	recorder   *events.FakeRecorder
	metrics    *prometheus.Registry
	writes     int
	clock      time.Time
	result     reconcile.Result
	// script answers instead of rollout.Next when set.
	script func(rollout.Observed, rollout.Desired) rollout.Step
	seen   []rollout.Observed
	wanted rollout.Desired
	// seenStep is the last answer of rollout.Next.
	seenStep rollout.Step
	emitted  []string
	configs  []pool.ProviderConfig
	// provider makes the provider, nil for the one in memory and that of existing nodes.
	provider pool.ProviderFactory
}

// newEnvironment is an IKS cluster in full mesh, with credentials and an object.
func newEnvironment(tb testing.TB, change ...func(*v1alpha1.RouteReflectorPool)) *environment {
	tb.Helper()
	e := &environment{
		TB:       tb,
		calico:   &fakeDatastore{cluster: plan.Cluster{Nodes: workloadNodes(6)}, fail: map[string]error{}},
		cloud:    &fakeProvider{pool: cloud.Pool{ClusterZones: []string{"z1", "z2", "z3"}}},
		pods:     &fakePods{moving: map[string][]string{}, staying: map[string][]string{}},
		recorder: events.NewFakeRecorder(1000),
		clock:    time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC),
	}
	object := crd.Default()
	object.Generation, object.Finalizers = 1, []string{v1alpha1.Finalizer}
	for _, f := range change {
		f(object)
	}
	scheme := runtime.NewScheme()
	require.NoError(tb, corev1.AddToScheme(scheme))
	require.NoError(tb, v1alpha1.AddToScheme(scheme))
	e.client = fake.NewClientBuilder().WithScheme(scheme).
		WithStatusSubresource(&v1alpha1.RouteReflectorPool{}).
		WithObjects(object, secret(apiKey), clusterInfo(clusterID)).
		WithInterceptorFuncs(interceptor.Funcs{
			Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, opts ...client.PatchOption) error {
				e.writes++
				return c.Patch(ctx, o, p, opts...)
			},
			SubResourcePatch: func(
				ctx context.Context, c client.Client, sub string, o client.Object, p client.Patch, opts ...client.SubResourcePatchOption,
			) error {
				e.writes++
				return c.SubResource(sub).Patch(ctx, o, p, opts...)
			},
		}).Build()
	e.restart()
	return e
}

// restart is a new manager process: all memory is lost.
func (e *environment) restart() {
	e.metrics = prometheus.NewRegistry()
	e.reconciler = &pool.Reconciler{
		Client: e.client, Live: e.client, Datastore: e.calico, Namespace: managerNamespace,
		Providers: e.connect,
		Platforms: []cloud.Platform{iks.Platform{}},
		Workload:  e.pods,
		Recorder:  e.recorder,
		Metrics:   pool.NewMetrics(e.metrics),
		Now:       func() time.Time { return e.clock },
		Next:      e.next,
		Pause: func(moment time.Duration) {
			e.calico.applied = append(e.calico.applied, "wait for "+moment.String())
			e.clock = e.clock.Add(moment)
		},
	}
}

func (e *environment) connect(cfg pool.ProviderConfig) (cloud.Provider, error) {
	e.configs = append(e.configs, cfg)
	if e.provider != nil {
		return e.provider(cfg)
	}
	if cfg.Type == v1alpha1.ProviderExistingNodes {
		return existing.New(existing.Config{PoolName: cfg.PoolName, Nodes: e.calico, Now: func() time.Time { return e.clock }}), nil
	}
	e.cloud.keys = append(e.cloud.keys, string(cfg.APIKey))
	return e.cloud, nil
}

func (e *environment) next(o rollout.Observed, d rollout.Desired, now time.Time) rollout.Step {
	e.seen, e.wanted = append(e.seen, o), d
	if e.script != nil {
		s := e.script(o, d)
		if d.Invalid != nil { // as rule RefuseSpec does
			s.Name, s.Problem, s.Reflectors = rollout.InvalidSpec, d.Invalid, nil
		}
		return s
	}
	e.seenStep = rollout.Next(o, d, now)
	return e.seenStep
}

func always(step rollout.Step) func(rollout.Observed, rollout.Desired) rollout.Step {
	return func(rollout.Observed, rollout.Desired) rollout.Step { return step }
}

func (e *environment) reconcile() error {
	e.Helper()
	var err error
	e.result, err = e.reconciler.Reconcile(e.Context(), reconcile.Request{})
	e.drainEvents()
	return err
}

func (e *environment) drainEvents() {
	for len(e.recorder.Events) > 0 {
		e.emitted = append(e.emitted, <-e.recorder.Events)
	}
}

// settle reconciles n times, as fast as the reconciler asks for it.
func (e *environment) settle(n int) {
	e.Helper()
	for range n {
		require.NoError(e, e.reconcile())
		e.clock = e.clock.Add(max(e.result.RequeueAfter, time.Second))
	}
}

// after reconciles once, that much later.
func (e *environment) after(d time.Duration) {
	e.Helper()
	e.clock = e.clock.Add(d)
	require.NoError(e, e.reconcile())
}

func (e *environment) object() *v1alpha1.RouteReflectorPool {
	e.Helper()
	object := &v1alpha1.RouteReflectorPool{}
	require.NoError(e, e.client.Get(e.Context(), client.ObjectKey{Name: v1alpha1.SingletonName}, object))
	return object
}

// edit changes the object, as a person does.
func (e *environment) edit(change func(*v1alpha1.RouteReflectorPool)) {
	e.Helper()
	object := e.object()
	change(object)
	require.NoError(e, e.client.Update(e.Context(), object))
}

func (e *environment) condition(kind string) metav1.Condition {
	e.Helper()
	found := meta.FindStatusCondition(e.object().Status.Conditions, kind)
	require.NotNil(e, found, kind)
	return *found
}

// expect holds a condition to "Type Status Reason".
func (e *environment) expect(want ...string) {
	e.Helper()
	var have []string
	for _, c := range e.object().Status.Conditions {
		have = append(have, fmt.Sprintf("%s %s %s", c.Type, c.Status, c.Reason))
	}
	for _, one := range want {
		require.Contains(e, have, one)
	}
}

func (e *environment) delete() {
	e.Helper()
	require.NoError(e, e.client.Delete(e.Context(), e.object()))
}

func (e *environment) gone() bool {
	err := e.client.Get(e.Context(), client.ObjectKey{Name: v1alpha1.SingletonName}, &v1alpha1.RouteReflectorPool{})
	return client.IgnoreNotFound(err) == nil && err != nil
}

func inMode(of v1alpha1.Mode) func(*v1alpha1.RouteReflectorPool) {
	return func(o *v1alpha1.RouteReflectorPool) { o.Spec.Mode = of }
}

// refusedSpec asks for more reflectors than it allows.
func refusedSpec(o *v1alpha1.RouteReflectorPool) { o.Spec.Sizing.Min, o.Spec.Sizing.Max = 9, 3 }

// inCloud is a test in a synctest bubble, of a cluster at IBM that has been migrated.
func inCloud(t *testing.T, test func(*cloudEnvironment), change ...func(*v1alpha1.RouteReflectorPool)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		o := newCloudEnvironment(t, change...)
		o.migrate()
		test(o)
	})
}

func workloadNodes(n int) []plan.Node {
	var out []plan.Node
	for i := range n {
		out = append(out, node(fmt.Sprintf("10.0.0.%d", i+1), fmt.Sprintf("w%d", i+1), fmt.Sprintf("z%d", i%3+1)))
	}
	return out
}

func node(name, worker, zone string) plan.Node {
	return plan.Node{
		Name: name, Zone: zone, Ready: true, Addresses: []netip.Addr{netip.MustParseAddr(name)},
		ProviderID: "ibm://account///" + clusterID + "/" + worker,
	}
}

func secret(key string) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: managerNamespace, Name: "rrpool-ibmcloud"},
		Data:       map[string][]byte{"apikey": []byte(key)},
	}
}

func clusterInfo(id string) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "cluster-info"},
		Data:       map[string]string{"cluster-config.json": fmt.Sprintf(`{"cluster_id": %q}`, id)},
	}
}

// cloudEnvironment is a cluster at IBM, in a synctest bubble: BGP is the model of package simulate, the cloud is
// iksserver behind the real provider and its SDK. Its machines become nodes of the model.
type cloudEnvironment struct {
	*environment
	server *iksserver.Server
	// ordered counts the workers of each zone.
	ordered map[string]int
	model   *simulate.Model

	// events are what has happened to nodes since the last look, pushed says so.
	mu     sync.Mutex
	events []func()
	pushed chan struct{}

	// applied are the changes to the data plane.
	applied []string
	// barren: the nodes of workers that come are never Ready.
	barren bool
	// lost are the pairs of nodes that could not reach each other, turn by turn.
	lost []string
	// wrap changes the provider, decide decides; nil for the real ones.
	wrap   func(cloud.Provider) cloud.Provider
	decide func(rollout.Observed, rollout.Desired, time.Time) rollout.Step
}

func newCloudEnvironment(t *testing.T, change ...func(*v1alpha1.RouteReflectorPool)) *cloudEnvironment {
	t.Helper()
	e := newEnvironment(t, change...)
	o := &cloudEnvironment{environment: e, pushed: make(chan struct{}, 1), ordered: map[string]int{}}
	began := time.Now().Add(-24 * time.Hour)
	for i := range e.calico.cluster.Nodes {
		e.calico.cluster.Nodes[i].Created, e.calico.cluster.Nodes[i].ReadyChanged = began, began
	}
	spec := e.object().Spec
	o.model = simulate.New(plan.Cluster{Nodes: e.calico.cluster.Nodes, BGP: plan.BGPConfig{ASN: 64512}},
		plan.DatastoreOptions{RoleLabel: spec.BGP.NodeLabel, ZoneLabel: spec.Topology.ZoneLabel}, time.Now())
	o.server = iksserver.New(iksserver.Config{
		APIKeys: []string{apiKey}, Profile: iksserver.Chosen(), OnDeployed: o.deployed, OnDeleted: o.deleted,
		AllocateIP: o.address,
		Delays:     iksserver.Delays{Pending: time.Minute, Provisioning: 4 * time.Minute, Deploying: 5 * time.Minute, Deleting: 3 * time.Minute},
	})
	t.Cleanup(o.server.Close)
	c := iksserver.Cluster{ID: clusterID, Name: "prod", Provider: iksserver.VPC, VPCID: "vpc-1"}
	base := iksserver.Pool{Name: "default", Flavor: "bx2.4x16", SizePerZone: 2}
	for _, id := range []string{"z1", "z2", "z3"} {
		c.Zones = append(c.Zones, iksserver.Zone{ID: id, Subnets: []iksserver.Subnet{{ID: "sub-" + id, CIDR: "10.0.0.0/24", Available: 99}}})
		base.Zones = append(base.Zones, id)
	}
	c.Pools = []iksserver.Pool{base}
	o.server.AddCluster(c)
	o.restart()
	return o
}

func (o *cloudEnvironment) restart() {
	o.environment.restart()
	r := o.reconciler
	r.Datastore, r.Now, r.Pause = o, time.Now, time.Sleep
	r.Next = func(seen rollout.Observed, want rollout.Desired, now time.Time) rollout.Step {
		o.seenStep = rollout.Next(seen, want, now)
		if o.decide != nil {
			o.seenStep = o.decide(seen, want, now)
		}
		return o.seenStep
	}
	r.Providers = func(cfg pool.ProviderConfig) (cloud.Provider, error) {
		p, err := iks.New(iks.Config{
			ClusterID: cfg.ClusterID, PoolName: cfg.PoolName, APIKey: string(cfg.APIKey), Profile: cfg.Profile, TokenFile: cfg.TokenFile,
			CSEndpoint: "https://cs.invalid/global", IAMEndpoint: "https://iam.invalid", Transport: o.server.Transport(),
		})
		if err != nil || o.wrap == nil {
			return p, err
		}
		return o.wrap(p), nil
	}
}

func (o *cloudEnvironment) later(event func()) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.events = append(o.events, event)
	select {
	case o.pushed <- struct{}{}:
	default:
	}
}

func (o *cloudEnvironment) sync() {
	o.server.Advance(0)
	o.mu.Lock()
	events := o.events
	o.events = nil
	o.mu.Unlock()
	o.model.Advance(time.Since(o.model.Now()))
	for _, event := range events {
		event()
	}
}

// address depends on nothing but the workers that were ordered before in the zone.
func (o *cloudEnvironment) address(zone, _ string) string {
	o.ordered[zone]++
	return fmt.Sprintf("10.9.%s.%d", zone[1:], o.ordered[zone])
}

func (o *cloudEnvironment) deployed(w iksserver.Worker) {
	at, taints := time.Now(), []string{}
	for key, value := range w.BornTaints {
		taints = append(taints, key+"="+value)
	}
	o.later(func() {
		o.model.Join(plan.Node{
			Name: w.IP, Zone: w.Zone, Ready: !o.barren, ReadyChanged: at, Created: at, Addresses: []netip.Addr{netip.MustParseAddr(w.IP)},
			ProviderID: "ibm://account///" + clusterID + "/" + w.ID, Taints: taints,
			Labels: map[string]string{v1alpha1.PoolLabel: strings.TrimSuffix(w.PoolName, "-b"), "ibm-cloud.kubernetes.io/worker-id": w.ID},
		})
	})
}

func (o *cloudEnvironment) deleted(w iksserver.Worker) {
	o.later(func() { o.model.Leave(w.IP) })
}

func (o *cloudEnvironment) fail(names ...string) {
	at := time.Now()
	o.later(func() {
		for _, n := range o.model.Nodes() {
			for _, name := range names {
				if n.Name == name {
					o.model.Leave(name)
					n.Ready, n.ReadyChanged = false, at
					o.model.Join(n)
				}
			}
		}
	})
}

// Observe, Apply and Watch implement pool.Datastore.
func (o *cloudEnvironment) Observe(context.Context, plan.DatastoreOptions) (plan.Cluster, error) {
	o.sync()
	return o.model.Observe(), nil
}

func (o *cloudEnvironment) Apply(_ context.Context, _ plan.DatastoreOptions, action plan.Action) (bool, error) {
	o.sync()
	if _, asks := action.(plan.RefreshStatus); !asks {
		o.applied = append(o.applied, action.String())
	}
	return o.model.Apply(action)
}

func (*cloudEnvironment) Try(context.Context, plan.DatastoreOptions, plan.Action) error { return nil }

func (o *cloudEnvironment) Watch(_ context.Context, want []plan.StatusRequest) (bool, error) {
	o.sync()
	_, changed := o.model.Watch(want)
	return changed, nil
}

// turn reconciles once, and gives how long the manager wants to sleep then.
func (o *cloudEnvironment) turn() time.Duration {
	o.Helper()
	require.NoError(o, o.reconcile())
	o.sync()
	for _, pair := range o.model.Unreached(func(n plan.Node) bool { return n.Ready && n.Labels[v1alpha1.PoolLabel] == "" }) {
		o.lost = append(o.lost, fmt.Sprintf("%+v in step %s", pair, o.seenStep.Name))
	}
	return o.result.RequeueAfter
}

// pass lets time pass, with turns whenever the manager wants one or something happens to
// a node, and at least every minute, as something is always pushed.
func (o *cloudEnvironment) pass(d time.Duration) {
	o.Helper()
	o.until(d, func() bool { return false })
}

// until lets time pass until over, at most d, and says whether it was.
func (o *cloudEnvironment) until(d time.Duration, over func() bool) bool {
	o.Helper()
	for end := time.Now().Add(d); time.Now().Before(end); {
		wait := o.turn()
		if over() {
			return true
		}
		select {
		case <-o.pushed:
		case <-time.After(min(max(wait, time.Second), time.Minute, max(time.Until(end), time.Second))):
		}
	}
	return false
}

func (o *cloudEnvironment) at(step string) func() bool {
	return func() bool { return o.seenStep.Name == step && o.seenStep.Problem == nil }
}

func (o *cloudEnvironment) migrate() {
	o.Helper()
	require.True(o, o.until(3*time.Hour, o.migrated), "%+v", o.seenStep)
}

// migrated: the manager is at rest, on reflectors, and has seen the pool.
func (o *cloudEnvironment) migrated() bool {
	return o.at(rollout.Steady)() && !o.model.Observe().BGP.MeshOn()
}

func (o *cloudEnvironment) reflectors() []string {
	var out []string
	for _, n := range o.model.Nodes() {
		if n.HasRoleLabel {
			out = append(out, n.Name)
		}
	}
	return out
}

// is says whether the conditions are so: "Type Status Reason".
func (o *cloudEnvironment) is(want ...string) bool {
	o.Helper()
	for _, c := range o.object().Status.Conditions {
		want = slices.DeleteFunc(want, func(one string) bool { return one == fmt.Sprintf("%s %s %s", c.Type, c.Status, c.Reason) })
	}
	return len(want) == 0
}

// die lets reflectors die, as a machine does.
func (o *cloudEnvironment) die(names ...string) {
	for _, w := range o.server.Workers(clusterID, "route-reflectors") {
		if slices.Contains(names, w.IP) {
			o.server.Break(clusterID, w.ID, "", "critical", "the node does not answer")
		}
	}
	o.fail(names...)
}
