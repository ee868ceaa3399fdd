package calico

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	apiv3 "github.com/projectcalico/api/pkg/apis/projectcalico/v3"
	"github.com/projectcalico/calico/libcalico-go/lib/apiconfig"
	libapiv3 "github.com/projectcalico/calico/libcalico-go/lib/apis/v3"
	"github.com/projectcalico/calico/libcalico-go/lib/clientv3"
	cerrors "github.com/projectcalico/calico/libcalico-go/lib/errors"
	"github.com/projectcalico/calico/libcalico-go/lib/options"
	"github.com/stretchr/testify/require"
	etcdclient "go.etcd.io/etcd/client/v3"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	clocktesting "k8s.io/utils/clock/testing"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/rrpool/rrpool/controllers/calico/etcd"
	"github.com/rrpool/rrpool/controllers/plan"
	"github.com/rrpool/rrpool/test/controlplane"
)

// group is the API group in which the cluster of a bench has its objects, and inEtcd is true when it has them in Calico's own etcd, in the shape of the
// second group. The tests with a bench run once for each.
var (
	group  = GroupV1
	inEtcd bool
	// inThreeDatastores are the names of those tests.
	inThreeDatastores = sets.New[string]()
)

// dependsOnDatastore has a test run with the other datastores too.
func dependsOnDatastore(t *testing.T) {
	t.Helper()
	name, _, _ := strings.Cut(t.Name(), "/")
	inThreeDatastores.Insert(name)
}

func TestMain(m *testing.M) {
	ctrl.SetLogger(logr.Discard())
	RedirectLogs(logr.Discard())
	code := m.Run()
	if again := sets.List(inThreeDatastores); len(again) > 0 {
		code = max(code, runInOthers(m, again))
	}
	if err := controlplane.StopShared(); err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	os.Exit(code)
}

// runInOthers runs these tests in the second group and in Calico's own etcd.
func runInOthers(m *testing.M, tests []string) int {
	if err := flag.Set("test.run", "^("+strings.Join(tests, "|")+")$"); err != nil {
		panic(err)
	}
	group = GroupV3
	fmt.Println("and in API group", group)
	code := m.Run()
	inEtcd = true
	fmt.Println("and in Calico's own etcd")
	return max(code, m.Run())
}

// installNative installs the second group's CRDs into the shared control plane, once.
var installNative = sync.OnceValue(func() error {
	dir, err := os.MkdirTemp("", "rrpool-crds-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	if err := controlplane.NativeCRDs(context.Background(), dir); err != nil {
		return err
	}
	return controlplane.InstallCRDs(plane.AdminConfig(), dir)
})

// plane is the shared control plane.
var plane *controlplane.ControlPlane

// notInEtcd skips a test of what is not so with Calico's own etcd.
func notInEtcd(t *testing.T, why string) {
	t.Helper()
	dependsOnDatastore(t)
	if inEtcd {
		t.Skip(why)
	}
}

// onlyV1 skips a test of what the first group alone has.
func onlyV1(t *testing.T) {
	t.Helper()
	if group != GroupV1 {
		t.Skip("the other group has no such thing")
	}
}

var scope = plan.DatastoreOptions{RoleLabel: "rrpool.io/route-reflector", ZoneLabel: "topology.kubernetes.io/zone"}

// clock is a clock that stands still until it is moved.
type clock struct{ *clocktesting.FakeClock }

func newClock() *clock {
	return &clock{clocktesting.NewFakeClock(time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC))}
}

func (c *clock) Move(d time.Duration) time.Time {
	c.Step(d)
	return c.Now()
}

// bench is an adapter on a real apiserver, and another client beside it.
type bench struct {
	*Adapter
	t     *testing.T
	plane *controlplane.ControlPlane
	clock *clock
	// user is who the adapter is, for the audit log.
	user   string
	groups []string
	// other is another client of Calico, kube one of Kubernetes.
	other others
	kube  client.Client
	stop  func()
}

func newBench(t *testing.T) *bench {
	t.Helper()
	dependsOnDatastore(t)
	plane = controlplane.ForTest(t)
	if group == GroupV3 && !inEtcd {
		require.NoError(t, installNative())
	}
	if inEtcd {
		t.Setenv(etcd.DatastoreVariable, EtcdAPI)
		t.Setenv(endpointsVariable, plane.EtcdURL())
	}
	b := &bench{t: t, plane: plane, clock: newClock(), user: strings.ReplaceAll(t.Name(), "/", "-"), groups: []string{"system:masters"}}
	kube, err := client.New(plane.AdminConfig(), client.Options{})
	require.NoError(t, err)
	b.other, b.kube = othersOf(t, plane), kube
	if inEtcd {
		b.calicoNodes(kube)
	}
	t.Cleanup(b.clean)
	b.Adapter = b.adapter()
	return b
}

// others are Calico's objects as another client has them: in the first group Calico's own, which knows no other.
type others struct {
	peers   otherObjects[*apiv3.BGPPeer]
	configs otherObjects[*apiv3.BGPConfiguration]
	reports otherObjects[*apiv3.CalicoNodeStatus]
}

func configsOf(d *datastore, in schema.GroupVersion) objects[*apiv3.BGPConfiguration] {
	return objects[*apiv3.BGPConfiguration]{d.client, in, apiv3.NewBGPConfiguration}
}

type otherObjects[T any] interface {
	get(ctx context.Context, name string) (T, error)
	write(ctx context.Context, o T) (T, error)
}

func othersOf(t *testing.T, plane *controlplane.ControlPlane) others {
	t.Helper()
	if group == GroupV3 {
		ours, err := connect(plane.AdminConfig(), group)
		if inEtcd {
			ours = objectsOf(etcdOf(t), group)
		}
		require.NoError(t, err)
		return others{ours.peers, configsOf(ours, group), ours.reports}
	}
	c := calicoctl(t, plane)
	return others{
		libcalico[*apiv3.BGPPeer]{c.BGPPeers()},
		libcalico[*apiv3.BGPConfiguration]{c.BGPConfigurations()},
		libcalico[*apiv3.CalicoNodeStatus]{c.CalicoNodeStatus()},
	}
}

func calicoctl(t *testing.T, plane *controlplane.ControlPlane) clientv3.Interface {
	t.Helper()
	spec := apiconfig.NewCalicoAPIConfig()
	spec.Spec.DatastoreType, spec.Spec.Kubeconfig = apiconfig.Kubernetes, t.TempDir()+"/kubeconfig"
	require.NoError(t, controlplane.WriteKubeconfig(spec.Spec.Kubeconfig, plane.AdminConfig()))
	if inEtcd {
		spec.Spec.DatastoreType, spec.Spec.EtcdEndpoints = apiconfig.EtcdV3, plane.EtcdURL()
	}
	c, err := clientv3.New(*spec)
	require.NoError(t, err)
	return c
}

// libcalico are the objects of one kind.
type libcalico[T client.Object] struct {
	of interface {
		Get(ctx context.Context, name string, opts options.GetOptions) (T, error)
		Create(ctx context.Context, o T, opts options.SetOptions) (T, error)
		Update(ctx context.Context, o T, opts options.SetOptions) (T, error)
	}
}

func (l libcalico[T]) get(ctx context.Context, name string) (T, error) {
	o, err := l.of.Get(ctx, name, options.GetOptions{})
	var missing cerrors.ErrorResourceDoesNotExist
	if errors.As(err, &missing) {
		err = missing.Err
	}
	return o, err
}

func (l libcalico[T]) write(ctx context.Context, o T) (T, error) {
	if o.GetResourceVersion() == "" {
		return l.of.Create(ctx, o, options.SetOptions{})
	}
	return l.of.Update(ctx, o, options.SetOptions{})
}

// adapter makes another adapter for the same cluster, as after a restart. It does not choose its group: both are there.
func (b *bench) adapter() *Adapter {
	b.t.Helper()
	a := b.choosing()
	if !inEtcd {
		a.findGroup = func(context.Context) (GroupChoice, error) { return GroupChoice{Group: group}, nil }
	}
	require.NoError(b.t, a.useGroup(group))
	return a
}

// choosing makes an adapter that chooses its group at its start.
func (b *bench) choosing() *Adapter {
	b.t.Helper()
	cfg := b.plane.UserConfig(b.user, b.groups...)
	kube, err := client.New(cfg, client.Options{})
	require.NoError(b.t, err)
	a, err := New(Config{RestConfig: cfg, Nodes: kube, Writer: kube, Log: logr.Discard(), Now: b.clock.Now})
	require.NoError(b.t, err)
	return a
}

// run starts the adapter and waits until it is in sync.
func (b *bench) run() *bench {
	b.t.Helper()
	b.stop = start(b.t, b.Adapter)
	ctx, cancel := context.WithTimeout(b.t.Context(), 2*time.Minute)
	defer cancel()
	require.NoError(b.t, b.WaitSynced(ctx))
	return b
}

func start(t *testing.T, a *Adapter) func() {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- a.Start(ctx) }()
	stop := sync.OnceFunc(func() {
		cancel()
		require.NoError(t, <-done)
	})
	t.Cleanup(stop)
	return stop
}

func (b *bench) observe() plan.Cluster {
	b.t.Helper()
	out, err := b.Observe(b.t.Context(), scope)
	require.NoError(b.t, err)
	return out
}

// await observes until what is seen satisfies ok.
func (b *bench) await(what string, ok func(plan.Cluster) bool) plan.Cluster {
	b.t.Helper()
	var last plan.Cluster
	require.Eventually(b.t, func() bool {
		seen, err := b.Observe(b.t.Context(), scope)
		if err != nil {
			return false
		}
		last = seen
		return ok(seen)
	}, 2*time.Minute, 20*time.Millisecond, "%s never came", what)
	return last
}

// apply demands that an action changes something, or does not.
func (b *bench) apply(action plan.Action, wantChange bool) {
	b.t.Helper()
	did, err := b.Apply(b.t.Context(), scope, action)
	require.NoError(b.t, err)
	require.Equal(b.t, wantChange, did, "%s", action)
}

// writes counts what the adapter has written while f ran.
func (b *bench) writes(f func()) []string {
	b.t.Helper()
	since, revision := time.Now(), b.revision()
	f()
	events, err := b.plane.Writes(b.user, since)
	require.NoError(b.t, err)
	var out []string
	for _, e := range events {
		out = append(out, e.Verb+" "+e.Resource+"/"+e.Name)
	}
	if inEtcd {
		out = append(out, b.writesSince(revision)...)
	}
	return out
}

func (b *bench) node(name string, change func(*corev1.Node)) *corev1.Node {
	b.t.Helper()
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{ipv4Annotation: name + "/24"}}}
	if change != nil {
		change(n)
	}
	require.NoError(b.t, b.kube.Create(b.t.Context(), n))
	if inEtcd {
		b.calicoNode(n, name)
	}
	return n
}

func (b *bench) liveNode(name string) *corev1.Node {
	b.t.Helper()
	n := &corev1.Node{}
	require.NoError(b.t, b.kube.Get(b.t.Context(), client.ObjectKey{Name: name}, n))
	if inEtcd {
		calico := &libapiv3.Node{}
		require.NoError(b.t, b.kube.Get(b.t.Context(), client.ObjectKey{Name: name}, calico))
		n = joinNodes([]corev1.Node{*n}, map[string]*libapiv3.Node{name: calico}).joined(n, scope)
	}
	return n
}

// config is the live default BGPConfiguration, nil when there is none.
func (b *bench) config() *apiv3.BGPConfiguration {
	b.t.Helper()
	o, err := b.other.configs.get(b.t.Context(), defaultConfig)
	if apierrors.IsNotFound(err) {
		return nil
	}
	require.NoError(b.t, err)
	return o
}

func (b *bench) giveConfig(change func(*apiv3.BGPConfiguration)) *apiv3.BGPConfiguration {
	b.t.Helper()
	o := apiv3.NewBGPConfiguration()
	o.Name = defaultConfig
	change(o)
	out, err := b.other.configs.write(b.t.Context(), o)
	require.NoError(b.t, err)
	return out
}

func (b *bench) editConfig(change func(*apiv3.BGPConfiguration)) {
	b.t.Helper()
	o := b.config()
	change(o)
	_, err := b.other.configs.write(b.t.Context(), o)
	require.NoError(b.t, err)
}

// watch asks for exactly these reports, and says whether that changed anything.
func (b *bench) watch(want ...plan.StatusRequest) bool {
	b.t.Helper()
	did, err := b.Watch(b.t.Context(), want)
	require.NoError(b.t, err)
	return did
}

// tryAll makes a write of each kind, and gives an error for each.
func (b *bench) tryAll() []error {
	_, peer := b.Apply(b.t.Context(), scope, plan.PutPeer{Peer: clients})
	_, mesh := b.Apply(b.t.Context(), scope, plan.RestoreMesh{})
	_, node := b.Apply(b.t.Context(), scope, plan.CordonNode{Node: five})
	_, report := b.Watch(b.t.Context(), []plan.StatusRequest{{Node: five, Period: time.Second}})
	return []error{peer, mesh, node, report}
}

// peer is the BGPPeer of clients.
func (b *bench) peer() *apiv3.BGPPeer {
	b.t.Helper()
	o, err := b.other.peers.get(b.t.Context(), clients.Name)
	require.NoError(b.t, err)
	return o
}

func (b *bench) editPeer(change func(*apiv3.BGPPeer)) {
	b.t.Helper()
	o := b.peer()
	change(o)
	_, err := b.other.peers.write(b.t.Context(), o)
	require.NoError(b.t, err)
}

// raw is a custom resource past libcalico-go.
func (b *bench) raw(kind, name string) *unstructured.Unstructured {
	b.t.Helper()
	raw := b.custom(kind, name)
	require.NoError(b.t, b.kube.Get(b.t.Context(), client.ObjectKeyFromObject(raw), raw))
	return raw
}

// patch merges into an object as a person does with kubectl.
func (b *bench) patch(o client.Object, body string) {
	b.t.Helper()
	require.NoError(b.t, b.kube.Patch(b.t.Context(), o, client.RawPatch(types.MergePatchType, []byte(body))))
}

func (b *bench) report(node string) *apiv3.CalicoNodeStatus {
	b.t.Helper()
	o, err := b.other.reports.get(b.t.Context(), statusName(node))
	require.NoError(b.t, err)
	return o
}

// fill writes a report as calico-node does.
func (b *bench) fill(node string, change func(*apiv3.CalicoNodeStatusStatus)) {
	b.t.Helper()
	o := b.report(node)
	o.Status.LastUpdated = metav1.Time{Time: o.Status.LastUpdated.Add(time.Second)}
	if o.Status.LastUpdated.Year() < 2000 {
		o.Status.LastUpdated = metav1.Now()
	}
	change(&o.Status)
	if group == GroupV3 && !inEtcd {
		status, err := json.Marshal(o.Status)
		require.NoError(b.t, err)
		body := fmt.Sprintf(`{"metadata":{"resourceVersion":%q},"status":%s}`, o.ResourceVersion, status)
		raw := b.custom(apiv3.KindCalicoNodeStatus, o.Name)
		require.NoError(b.t, b.kube.Status().Patch(b.t.Context(), raw, client.RawPatch(types.MergePatchType, []byte(body))))
		return
	}
	_, err := b.other.reports.write(b.t.Context(), o)
	require.NoError(b.t, err)
}

func (b *bench) clean() {
	all := []client.Object{&corev1.Node{}}
	if c, ok := b.kube.(both); ok {
		_, err := c.keys.Delete(context.Background(), "/calico/", etcdclient.WithPrefix())
		require.NoError(b.t, err)
	} else {
		for _, kind := range append([]string{apiv3.KindBGPFilter, apiv3.KindIPPool}, watched...) {
			all = append(all, b.custom(kind, ""))
		}
	}
	for _, of := range all {
		require.NoError(b.t, b.kube.DeleteAllOf(context.Background(), of))
	}
}

func (b *bench) affinity(name string, spec libapiv3.BlockAffinitySpec) {
	b.t.Helper()
	o := b.custom(libapiv3.KindBlockAffinity, name)
	o.Object["spec"] = map[string]any{"node": spec.Node, "cidr": spec.CIDR, "state": spec.State, "type": spec.Type, "deleted": spec.Deleted}
	if group == GroupV3 && !inEtcd {
		o.Object["spec"].(map[string]any)["deleted"] = spec.Deleted == "true"
	}
	require.NoError(b.t, b.kube.Create(b.t.Context(), o))
}
