package peering_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	webhookerrors "k8s.io/apiserver/pkg/admission/plugin/webhook/errors"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/controllers/calico"
	"github.com/rrpool/rrpool/controllers/peering"
	"github.com/rrpool/rrpool/controllers/plan"
	planpeering "github.com/rrpool/rrpool/controllers/plan/peering"
	"github.com/rrpool/rrpool/test/controlplane"
	"github.com/rrpool/rrpool/test/controlplane/intercept"
)

func TestMain(m *testing.M) {
	ctrl.SetLogger(logr.Discard())
	calico.RedirectLogs(logr.Discard())
	controlplane.Main(m)
}

const (
	namespace = "default"
	// mostParts is how many values a kubeconfig may have.
	mostParts = 10_000
)

// sessions is Calico where every BGPPeer of a ClusterPeering has an Established session while up.
type sessions struct {
	*calico.Adapter
	up *bool
}

func (s sessions) ObservePeering(ctx context.Context, scope plan.DatastoreOptions) (planpeering.Observed, error) {
	out, err := s.Adapter.ObservePeering(ctx, scope)
	statuses := map[string]plan.Status{}
	for _, p := range out.Cluster.Peers {
		st := statuses[p.Node]
		st.Updated = p.Written.Add(time.Hour)
		st.Sessions = append(st.Sessions, plan.Session{Peer: netip.MustParseAddr(p.PeerIP), Established: *s.up})
		statuses[p.Node] = st
	}
	out.Cluster.Statuses = statuses
	return out, err
}

// untriable is a Datastore with a webhook that takes no dry runs.
type untriable struct{ peering.Datastore }

func (untriable) Try(context.Context, plan.DatastoreOptions, plan.Action) error {
	return fmt.Errorf("creating it: %w", webhookerrors.NewDryRunUnsupportedErr("w"))
}

// blind is a Datastore that does not answer.
type blind struct{ peering.Datastore }

func (blind) ObservePeering(context.Context, plan.DatastoreOptions) (planpeering.Observed, error) {
	return planpeering.Observed{}, errors.New("no answer")
}

// unsure is a Datastore that does not say what it would take.
type unsure struct{ peering.Datastore }

func (unsure) Try(context.Context, plan.DatastoreOptions, plan.Action) error {
	return errors.New("no answer")
}

// refusing is a Datastore whose apiserver would not take a BGPPeer.
type refusing struct{ peering.Datastore }

func (r refusing) Try(ctx context.Context, scope plan.DatastoreOptions, action plan.Action) error {
	if put, ok := action.(plan.PutPeer); ok {
		put.Peer.ASN = 4_200_000_000
		action = put
	}
	return r.Datastore.Try(ctx, scope, action)
}

// bench is a manager's controller on a real apiserver, with the real adapter.
type bench struct {
	*testing.T
	*peering.Reconciler
	kube client.Client
	user string
	cfg  *rest.Config
	up   bool
	// side is the remote cluster, or the reason why it is not known.
	side    planpeering.Side
	sideErr error
	stop    func()
}

var remoteSide = planpeering.Side{
	ASN: 64513, Reflectors: []netip.Addr{netip.MustParseAddr("10.9.0.1"), netip.MustParseAddr("10.9.0.2")},
	Pods: []netip.Prefix{netip.MustParsePrefix("10.210.0.0/16")}, Services: []netip.Prefix{netip.MustParsePrefix("10.211.0.0/16")},
}

func newBench(t *testing.T) *bench {
	t.Helper()
	plane := controlplane.ForTest(t)
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, discoveryv1.AddToScheme, networkingv1.AddToScheme, v1alpha1.AddToScheme} {
		require.NoError(t, add(scheme))
	}
	kube, err := client.New(plane.AdminConfig(), client.Options{Scheme: scheme})
	require.NoError(t, err)
	b := &bench{T: t, kube: kube, user: strings.ReplaceAll(t.Name(), "/", "-"), side: remoteSide, stop: func() {}}
	t.Cleanup(b.clean)
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{
		Name: "rr-1", Labels: map[string]string{"rrpool.io/route-reflector": ""},
		Annotations: map[string]string{"projectcalico.org/IPv4Address": "10.0.0.1/24", "projectcalico.org/RouteReflectorClusterID": "244.0.0.1"},
	}}
	client1 := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "client", Annotations: map[string]string{"projectcalico.org/IPv4Address": "10.0.0.2/24"}}}
	own := b.custom("IPPool", "own")
	own.Object["spec"] = map[string]any{"cidr": "10.245.0.0/16"}
	for _, o := range []client.Object{node, client1, own, &v1alpha1.RouteReflectorPool{ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.SingletonName}}} {
		require.NoError(t, kube.Create(t.Context(), o))
	}
	b.secret("kubeconfig", kubeconfig(t, plane))
	b.start(plane.UserConfig(b.user, "system:masters"))
	return b
}

// start is what a new process does.
func (b *bench) start(cfg *rest.Config) {
	b.Helper()
	b.cfg = cfg
	kube, err := client.New(cfg, client.Options{Scheme: b.kube.Scheme()})
	require.NoError(b, err)
	adapter, err := calico.New(calico.Config{RestConfig: cfg, Nodes: kube, Writer: kube, Log: logr.Discard()})
	require.NoError(b, err)
	ctx, cancel := context.WithCancel(b.Context())
	done := make(chan error, 1)
	go func() { done <- adapter.Start(ctx) }()
	b.stop = func() {
		cancel()
		require.NoError(b, <-done)
	}
	require.NoError(b, adapter.WaitSynced(b.Context()))
	b.Reconciler = &peering.Reconciler{
		Client: kube, Live: kube, Datastore: sessions{adapter, &b.up}, Namespace: namespace,
		ReadSide: func(context.Context, *rest.Config) (planpeering.Side, error) { return b.side, b.sideErr },
		Wait: func(d time.Duration) time.Duration {
			if d == planpeering.ApplyTime {
				return time.Nanosecond
			}
			return d
		},
	}
}

func kubeconfig(t *testing.T, plane *controlplane.ControlPlane) string {
	t.Helper()
	file := t.TempDir() + "/kubeconfig"
	require.NoError(t, controlplane.WriteKubeconfig(file, plane.AdminConfig()))
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	return string(text)
}

func (b *bench) secret(key, content string) {
	b.Helper()
	o := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "cluster-b", Namespace: namespace}}
	require.NoError(b, client.IgnoreNotFound(b.kube.Delete(b.Context(), o)))
	o.ResourceVersion, o.StringData = "", map[string]string{key: content}
	require.NoError(b, b.kube.Create(b.Context(), o))
}

func (b *bench) custom(kind, name string) *unstructured.Unstructured {
	o := &unstructured.Unstructured{}
	o.SetGroupVersionKind(calico.GroupV1.WithKind(kind))
	o.SetName(name)
	return o
}

// followed is a ClusterPeering that follows the remote cluster.
func followed(name string) *v1alpha1.ClusterPeering {
	o := &v1alpha1.ClusterPeering{ObjectMeta: metav1.ObjectMeta{Name: name}}
	o.Spec.Remote.KubeconfigSecretRef = v1alpha1.SecretKeyRef{Name: "cluster-b", Key: "kubeconfig"}
	o.Spec.Advertise.ServiceCIDRs = []string{"10.96.0.0/16"}
	return o
}

func (b *bench) create(o *v1alpha1.ClusterPeering) {
	b.Helper()
	require.NoError(b, b.kube.Create(b.Context(), o))
}

func (b *bench) reconcile(name string) (reconcile.Result, error) {
	return b.Reconcile(b.Context(), reconcile.Request{NamespacedName: client.ObjectKey{Name: name}})
}

// settle reconciles until nothing is left to do.
func (b *bench) settle(name string) {
	b.Helper()
	for range 20 {
		result, err := b.reconcile(name)
		require.NoError(b, err)
		if result.RequeueAfter == 0 {
			return
		}
	}
	require.Fail(b, "it does not come to rest", "%+v", b.status(name))
}

func (b *bench) status(name string) v1alpha1.ClusterPeeringStatus {
	b.Helper()
	o := &v1alpha1.ClusterPeering{}
	require.NoError(b, b.kube.Get(b.Context(), client.ObjectKey{Name: name}, o))
	return o.Status
}

// conditions are those of a ClusterPeering as "status reason", in their order.
func (b *bench) conditions(name string) (out []string) {
	b.Helper()
	for _, c := range b.status(name).Conditions {
		out = append(out, fmt.Sprintf("%s %s %s", c.Type, c.Status, c.Reason))
	}
	return out
}

func (b *bench) message(name, kind string) string {
	b.Helper()
	return meta.FindStatusCondition(b.status(name).Conditions, kind).Message
}

// there are Calico's objects but the cluster's own, with their specs.
func (b *bench) there() map[string]any {
	b.Helper()
	out := map[string]any{}
	for _, kind := range []string{"BGPPeer", "BGPFilter", "IPPool", "BGPConfiguration"} {
		found := &unstructured.UnstructuredList{}
		found.SetGroupVersionKind(calico.GroupV1.WithKind(kind + "List"))
		require.NoError(b, b.kube.List(b.Context(), found))
		for _, o := range found.Items {
			if o.GetName() != "own" {
				out[kind+" "+o.GetName()] = o.Object["spec"]
			}
		}
	}
	return out
}

// writes are what the manager has written while f ran.
func (b *bench) writes(f func()) (out []string) {
	b.Helper()
	since := time.Now()
	f()
	events, err := controlplane.ForTest(b.T).Writes(b.user, since)
	require.NoError(b, err)
	for _, e := range events {
		out = append(out, e.Verb+" "+e.Resource)
	}
	return out
}

func (b *bench) delete(name string) {
	b.Helper()
	require.NoError(b, b.kube.Delete(b.Context(), &v1alpha1.ClusterPeering{ObjectMeta: metav1.ObjectMeta{Name: name}}))
}

func (b *bench) gone(name string) bool {
	return apierrors.IsNotFound(b.kube.Get(context.Background(), client.ObjectKey{Name: name}, &v1alpha1.ClusterPeering{}))
}

func (b *bench) clean() {
	b.stop()
	ctx := context.Background()
	var all v1alpha1.ClusterPeeringList
	require.NoError(b, b.kube.List(ctx, &all))
	for i := range all.Items {
		all.Items[i].Finalizers = nil
		require.NoError(b, b.kube.Update(ctx, &all.Items[i]))
		require.NoError(b, client.IgnoreNotFound(b.kube.Delete(ctx, &all.Items[i])))
	}
	for _, of := range []client.Object{
		&corev1.Node{}, &v1alpha1.RouteReflectorPool{}, b.custom("BGPPeer", ""), b.custom("BGPFilter", ""), b.custom("IPPool", ""), b.custom("BGPConfiguration", ""),
	} {
		require.NoError(b, b.kube.DeleteAllOf(ctx, of))
	}
}

func TestAClusterPeeringComesAndGoes(t *testing.T) {
	b := newBench(t)
	b.create(followed("b"))
	require.Equal(t, []string{
		"patch clusterpeerings", "create bgpfilters", "create ippools", "create ippools", "create bgpconfigurations", "create bgppeers",
		"create bgppeers", "patch clusterpeerings/status",
	}, b.writes(func() {
		result, err := b.reconcile("b")
		require.NoError(t, err)
		require.Equal(t, time.Second, result.RequeueAfter)
	}))
	require.Equal(t, []string{"Ready False Writing", "RemoteKnown True Followed", "SessionsEstablished False SessionsMissing"}, b.conditions("b"))
	b.settle("b")
	require.Equal(t, []string{"Ready False SessionsMissing", "RemoteKnown True Followed", "SessionsEstablished False SessionsMissing"}, b.conditions("b"))
	require.Equal(t, "not Established: rr-1 ↔ 10.9.0.1, rr-1 ↔ 10.9.0.2; the remote cluster needs a ClusterPeering for this one", b.message("b", v1alpha1.ConditionReady))
	b.up = true
	b.settle("b")
	peered := []string{"Ready True Peered", "RemoteKnown True Followed", "SessionsEstablished True AllEstablished"}
	require.Equal(t, peered, b.conditions("b"))
	seen := b.status("b")
	require.Equal(t, []string{"10.245.0.0/16", "10.96.0.0/16"}, seen.Advertised)
	require.Equal(t, &v1alpha1.RemoteStatus{
		ASNumber: 64513, Reflectors: []string{"10.9.0.1", "10.9.0.2"}, PodCIDRs: []string{"10.210.0.0/16"}, ServiceCIDRs: []string{"10.211.0.0/16"},
	}, seen.Remote)
	require.Equal(t, []v1alpha1.PeeringSession{{Node: "rr-1", Peer: "10.9.0.1", Established: true}, {Node: "rr-1", Peer: "10.9.0.2", Established: true}}, seen.Sessions)
	require.Empty(t, b.writes(func() { b.settle("b") }), "at rest nothing is written")

	// While the remote cluster is not known, everything stays, and the status says so once.
	before := b.there()
	cut := func(port int) {
		from, to := &net.TCPAddr{IP: net.IPv4(10, 0, 0, 9), Port: port}, &net.TCPAddr{IP: net.IPv4(10, 9, 0, 1), Port: 6443}
		b.sideErr = fmt.Errorf("reading it: %w", &net.OpError{Op: "read", Net: "tcp", Source: from, Addr: to, Err: errors.New("connection reset by peer")})
	}
	cut(40001)
	require.Equal(t, []string{"patch clusterpeerings/status"}, b.writes(func() { b.settle("b") }))
	require.Equal(t, []string{"Ready Unknown RemoteUnknown", "RemoteKnown False RemoteUnknown", "SessionsEstablished Unknown RemoteUnknown"}, b.conditions("b"))
	require.Equal(t, "the remote cluster is not known now, so nothing new is written: reading it: read tcp 10.9.0.1:6443: connection reset by peer", b.message("b", v1alpha1.ConditionReady))
	cut(40002)
	require.Empty(t, b.writes(func() { b.settle("b") }), "the next attempt fails from another port")
	require.Equal(t, before, b.there())
	require.Equal(t, seen.Remote, b.status("b").Remote)

	b.sideErr = nil
	for says, edit := range map[string]func(*v1alpha1.RouteReflectorPoolSpec){
		"spec.mode Paused":        func(s *v1alpha1.RouteReflectorPoolSpec) { s.Mode = v1alpha1.ModePaused },
		"spec.mode FullMesh":      func(s *v1alpha1.RouteReflectorPoolSpec) { s.Mode = v1alpha1.ModeFullMesh },
		"spec.rollout.gate Timer": func(s *v1alpha1.RouteReflectorPoolSpec) { s.Rollout.Gate = v1alpha1.GateTimer },
	} {
		pool := &v1alpha1.RouteReflectorPool{}
		require.NoError(t, b.kube.Get(t.Context(), client.ObjectKey{Name: v1alpha1.SingletonName}, pool))
		was := pool.DeepCopy()
		edit(&pool.Spec)
		require.NoError(t, b.kube.Update(t.Context(), pool))
		b.settle("b")
		require.Equal(t, "Ready False NotReflecting", b.conditions("b")[0])
		require.Contains(t, b.message("b", v1alpha1.ConditionReady), says)
		require.Equal(t, before, b.there())
		pool.Spec = was.Spec
		require.NoError(t, b.kube.Update(t.Context(), pool))
	}

	// A deletion needs neither the remote cluster nor a RouteReflectorPool.
	require.NoError(t, b.kube.DeleteAllOf(t.Context(), &v1alpha1.RouteReflectorPool{}))
	b.settle("b")
	require.Equal(t, "Ready False NotReflecting", b.conditions("b")[0])
	require.Equal(t, before, b.there())
	cut(40003)
	b.delete("b")
	seeing := b.Datastore
	b.Datastore = blind{seeing}
	_, err := b.reconcile("b")
	require.ErrorContains(t, err, "observing the cluster: no answer")
	require.Equal(t, before, b.there())
	require.False(t, b.gone("b"), "what was not seen is not gone")
	b.Datastore = seeing
	now := time.Now()
	b.Now, b.Wait = func() time.Time { return now }, nil
	for _, step := range []struct {
		after time.Duration
		want  []string
	}{
		{0, []string{"delete bgppeers", "delete bgppeers", "patch clusterpeerings/status"}},
		{9 * time.Second, nil}, // nodes may have the sessions still, and without their filter everything would pass
		{time.Second, []string{"delete bgpconfigurations", "delete ippools", "delete ippools", "delete bgpfilters"}},
	} {
		now = now.Add(step.after)
		require.Equal(t, step.want, b.writes(func() {
			result, err := b.reconcile("b")
			require.NoError(t, err)
			require.NotZero(t, result.RequeueAfter)
		}))
	}
	require.Equal(t, "Ready False Deleting", b.conditions("b")[0])
	require.Equal(t, []string{"patch clusterpeerings"}, b.writes(func() { b.settle("b") }))
	require.True(t, b.gone("b"))
	require.Empty(t, b.there())
}

func TestAKubeconfigThatCannotBeUsedIsNamedWithTheRemedy(t *testing.T) {
	b := newBench(t)
	const user = "users: [{name: u, user: {token: t}}]\ncontexts: [{name: c, context: {cluster: k, user: u}}]\ncurrent-context: c\n"
	const cluster = "clusters: [{name: k, cluster: {server: 'https://10.9.0.1:6443'}}]\n"
	as := func(fields string) string { return cluster + strings.Replace(user, "{token: t}", fields, 1) }
	in := func(fields string) string {
		return strings.Replace(cluster, "'https://10.9.0.1:6443'", fields, 1) + user
	}
	b.create(followed("b"))
	for name, tc := range map[string]struct{ key, content, says string }{
		"another key":       {"config", cluster + user, `Secret default/cluster-b has no key "kubeconfig"`},
		"no kubeconfig":     {"kubeconfig", "secret-token: [", `key "kubeconfig" of Secret default/cluster-b is no kubeconfig`},
		"empty":             {"kubeconfig", "", "names no cluster and user with https as its current context"},
		"no context":        {"kubeconfig", cluster, "names no cluster and user with https as its current context"},
		"without TLS":       {"kubeconfig", in("'http://10.9.0.1:8080'"), "names no cluster and user with https as its current context"},
		"any certificate":   {"kubeconfig", in("'https://x', insecure-skip-tls-verify: true"), "says insecure-skip-tls-verify, so any machine could be that apiserver"},
		"a file of a CA":    {"kubeconfig", in("'https://x', certificate-authority: /etc/ca"), "refers to files (certificate-authority)"},
		"a file of a token": {"kubeconfig", as("{tokenFile: /var/run/secrets/kubernetes.io/serviceaccount/token}"), "refers to files (client-certificate, client-key or tokenFile)"},
		"a file of a key":   {"kubeconfig", as("{client-key: /etc/key}"), "refers to files"},
		"a program": {
			"kubeconfig", as("{exec: {apiVersion: client.authentication.k8s.io/v1, command: /bin/sh, interactiveMode: Never}}"), "would run a program to log in (exec",
		},
		"a plugin":        {"kubeconfig", as("{auth-provider: {name: oidc}}"), "would run a program to log in"},
		"another account": {"kubeconfig", as("{token: t, as: system:admin}"), "asks for the rights of another account (as, as-uid, as-groups or as-user-extra)"},
		"its groups":      {"kubeconfig", as("{token: t, as-groups: [system:masters]}"), "asks for the rights of another account"},
		"far too large":   {"kubeconfig", cluster + user + "x: [" + strings.Repeat("{},", mostParts/2) + "]", `key "kubeconfig" of Secret default/cluster-b is larger than a kubeconfig of one cluster`},
		"repetitions":     {"kubeconfig", "x: &x {a: b}\ny: [" + strings.Repeat("*x,", mostParts/2) + "*x]\n" + cluster + user, "is larger than a kubeconfig of one cluster"},
	} {
		t.Run(name, func(t *testing.T) {
			b.secret(tc.key, tc.content)
			b.settle("b")
			require.Equal(t, "RemoteKnown False RemoteUnknown", b.conditions("b")[1])
			message := b.message("b", v1alpha1.ConditionRemoteKnown)
			require.Contains(t, message, tc.says)
			require.True(t, strings.HasSuffix(message, `: "rrpool peering kubeconfig", run in the remote cluster, prints one`), message)
			require.NotContains(t, message, "secret-token")
		})
	}
	require.NoError(t, b.kube.Delete(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "cluster-b", Namespace: namespace}}))
	b.settle("b")
	require.Contains(t, b.message("b", v1alpha1.ConditionRemoteKnown), `there is no Secret default/cluster-b: "rrpool peering kubeconfig"`)
	require.Empty(t, b.there())
	b.secret("kubeconfig", cluster+user)
	b.settle("b")
	require.Equal(t, "RemoteKnown True Followed", b.conditions("b")[1], "the negative control")
}

func TestAValueThatCannotBeUsedIsNamedWithItsField(t *testing.T) {
	b := newBench(t)
	transit := static("10.9.0.1", "10.210.0.0/16", "10.211.0.0/16")
	transit.Remote.Static.ASNumber = 23456
	require.ErrorContains(t, b.kube.Create(t.Context(), &v1alpha1.ClusterPeering{ObjectMeta: metav1.ObjectMeta{Name: "b"}, Spec: transit}), "AS numbers 23456, 65535 and 4294967295 are reserved")
	transit.Remote.Static.ASNumber = 64513
	for says, spec := range map[string]v1alpha1.ClusterPeeringSpec{
		`spec.remote.static.reflectors: "10.9.0.1/24" is no IP address such as 10.0.0.7: correct it`: static("10.9.0.1/24", "10.210.0.0/16", "10.211.0.0/16"),
		`spec.remote.static.reflectors: "fe80::1%eth0" is no IP address`:                             static("fe80::1%eth0", "10.210.0.0/16", "10.211.0.0/16"),
		`spec.remote.static.reflectors: 0.0.0.0 cannot be the address of a node`:                     static("0.0.0.0", "10.210.0.0/16", "10.211.0.0/16"),
		`spec.remote.static.podCIDRs: "::ffff:10.0.0.0/104" is no CIDR`:                              static("10.9.0.1", "::ffff:10.0.0.0/104", "10.211.0.0/16"),
		`spec.remote.static.podCIDRs: 169.254.0.0/16 cannot be a range of pods or services`:          static("10.9.0.1", "169.254.0.0/16", "10.211.0.0/16"),
		`spec.remote.static.serviceCIDRs: 0.0.0.0/1 is too large a range`:                            static("10.9.0.1", "10.210.0.0/16", "0.0.0.0/1"),
		`spec.remote.static.podCIDRs: "10.210.0.0" is no CIDR such as 10.210.0.0/16: correct it`:     static("10.9.0.1", "10.210.0.0", "10.211.0.0/16"),
		`spec.remote.static.serviceCIDRs: "10.211.0.1/16" is no CIDR such as 10.210.0.0/16: did you mean 10.211.0.0/16?`: static(
			"10.9.0.1", "10.210.0.0/16", "10.211.0.1/16",
		),
		`spec.remote.allowedCIDRs: "10.0.0.1/8" is no CIDR such as 10.210.0.0/16: did you mean 10.0.0.0/8?`: {
			Remote: v1alpha1.RemoteCluster{Static: transit.Remote.Static, AllowedCIDRs: []string{"10.0.0.1/8"}},
		},
		`spec.advertise.serviceCIDRs: "all" is no CIDR`: {
			Remote: static("10.9.0.1", "10.210.0.0/16", "10.211.0.0/16").Remote, Advertise: v1alpha1.Advertise{ServiceCIDRs: []string{"all"}},
		},
	} {
		b.create(&v1alpha1.ClusterPeering{ObjectMeta: metav1.ObjectMeta{Name: "b"}, Spec: spec})
		_, _ = b.reconcile("b") // what the user sees counts
		require.Equal(t, "Ready False InvalidSpec", b.conditions("b")[0], says)
		require.Contains(t, b.message("b", v1alpha1.ConditionReady), says)
		require.Empty(t, b.there())
		b.delete("b")
		b.settle("b")
		require.True(t, b.gone("b"), "it can be deleted")
	}
}

// A value that Calico's CRD refuses is found before anything is written.
func TestAValueThatWouldBeRefusedIsFoundBeforeTheFirstWrite(t *testing.T) {
	b := newBench(t)
	datastore := b.Datastore
	b.Datastore = refusing{datastore}
	b.create(followed("b"))
	b.settle("b")
	require.Equal(t, "Ready False WriteRefused", b.conditions("b")[0])
	require.Contains(t, b.message("b", v1alpha1.ConditionReady), "asNumber")
	require.Empty(t, b.there())
	b.Datastore = unsure{datastore}
	_, err := b.reconcile("b")
	require.ErrorContains(t, err, "no answer")
	require.Empty(t, b.there())
	b.Datastore = datastore
	b.settle("b")
	require.NotEmpty(t, b.there(), "the negative control")
}

// Where a webhook takes no dry runs, only the write shows whether it is taken.
func TestWhatNobodyCanTryIsNotWaitedFor(t *testing.T) {
	b := newBench(t)
	b.Datastore = untriable{b.Datastore}
	b.create(followed("b"))
	b.settle("b")
	require.NotEmpty(t, b.there())
}

func static(reflector, pods, services string) v1alpha1.ClusterPeeringSpec {
	return v1alpha1.ClusterPeeringSpec{Remote: v1alpha1.RemoteCluster{Static: &v1alpha1.StaticRemote{
		ASNumber: 64513, Reflectors: []string{reflector}, PodCIDRs: []string{pods}, ServiceCIDRs: []string{services},
	}}}
}

func TestClusterPeeringsShareWhatIsAnnounced(t *testing.T) {
	b := newBench(t)
	services := func() []any {
		spec, _ := b.there()["BGPConfiguration default"].(map[string]any)
		out, _ := spec["serviceClusterIPs"].([]any)
		return out
	}
	c := &v1alpha1.ClusterPeering{ObjectMeta: metav1.ObjectMeta{Name: "c"}, Spec: static("10.8.0.1", "10.220.0.0/16", "10.221.0.0/16")}
	c.Spec.Advertise.ServiceCIDRs = []string{"10.96.0.0/16", "10.97.0.0/16"}
	b.create(followed("b"))
	b.create(c)
	both := []any{map[string]any{"cidr": "10.96.0.0/16"}, map[string]any{"cidr": "10.97.0.0/16"}}
	for range 2 {
		b.settle("b")
		b.settle("c")
		require.Equal(t, both, services())
	}
	c.Spec.Advertise.ServiceCIDRs = []string{"10.97.0.0"}
	require.NoError(t, b.kube.Get(t.Context(), client.ObjectKeyFromObject(c), c))
	c.Spec.Advertise.ServiceCIDRs = []string{"10.97.0.0"}
	require.NoError(t, b.kube.Update(t.Context(), c))
	b.settle("b")
	require.Equal(t, both, services(), "what another one means is not known: it stays")
	b.delete("c")
	b.settle("c")
	require.True(t, b.gone("c"))
	require.Equal(t, both[:1], services())
	b.settle("b")
	b.delete("b")
	b.settle("b")
	require.Empty(t, b.there())
}

// A range of services that Kubernetes has is in use here whether or not it is advertised.
func TestARemoteRangeThatIsOneOfOurServicesIsRefused(t *testing.T) {
	b := newBench(t)
	c := &v1alpha1.ClusterPeering{ObjectMeta: metav1.ObjectMeta{Name: "c"}, Spec: static("10.8.0.1", "10.220.0.0/16", "10.255.0.0/16")}
	c.Spec.Advertise.Services = ptr.To(false)
	b.create(c)
	b.settle("c")
	require.Empty(t, b.there())
	require.Contains(t, b.message("c", v1alpha1.ConditionReady), "10.255.0.0/16 of the remote cluster overlaps with the services of this cluster (10.255.0.0/24)")
}

// No remote cluster may have the addresses by which this one's apiserver is reached, nor its services where Calico announces a part of them.
func TestARemoteRangeWithTheApiserverOrOtherServicesIsRefused(t *testing.T) {
	b := newBench(t)
	with := func(pods, services string) string {
		t.Helper()
		o := &v1alpha1.ClusterPeering{ObjectMeta: metav1.ObjectMeta{Name: "c"}, Spec: static("10.8.0.1", pods, services)}
		b.create(o)
		b.settle("c")
		defer b.delete("c")
		return b.message("c", v1alpha1.ConditionReady)
	}
	b.Host = "https://[fd00:7::1]:6443"
	require.Contains(t, with("10.220.0.0/16", "fd00:7::/64"), "fd00:7::/64 of the remote cluster overlaps with the apiserver of this cluster (fd00:7::1)")
	b.settle("c")
	slice := &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{Name: "kubernetes", Namespace: "default"}, AddressType: discoveryv1.AddressTypeIPv4,
		Endpoints: []discoveryv1.Endpoint{{Addresses: []string{"198.51.100.5"}}, {Addresses: []string{"203.0.113.9"}}},
	}
	require.NoError(t, b.kube.Create(t.Context(), slice))
	t.Cleanup(func() { require.NoError(t, b.kube.Delete(context.Background(), slice)) })
	b.Host = "https://api.example.com:6443"
	require.Contains(t, with("203.0.113.0/24", "10.221.0.0/16"), "203.0.113.0/24 of the remote cluster overlaps with the apiserver of this cluster (203.0.113.9)")
	b.settle("c")

	config := b.custom("BGPConfiguration", "default")
	config.Object["spec"] = map[string]any{"serviceClusterIPs": []any{map[string]any{"cidr": "10.255.0.0/28"}}}
	require.NoError(t, b.kube.Create(t.Context(), config))
	require.Eventually(t, func() bool {
		o, err := b.Datastore.ObservePeering(t.Context(), plan.DatastoreOptions{})
		return err == nil && len(o.OtherClusterIPs) == 1
	}, 10*time.Second, 10*time.Millisecond)
	require.Contains(t, with("10.220.0.0/16", "10.255.0.128/25"), "10.255.0.128/25 of the remote cluster overlaps with the services of this cluster (10.255.0.0/24)")
	b.settle("c")
}

// Leadership is asked for before every write: what is lost after n of them allows not one more.
func TestLostLeadershipStopsWrites(t *testing.T) {
	b := newBench(t)
	b.create(followed("b"))
	const all = 8 // as TestAClusterPeeringComesAndGoes has them
	total := 0
	for n := range all + 1 {
		left := n - total // the writes before were made and are not made again
		b.Leading = func(context.Context) error {
			if left--; left < 0 {
				return errors.New("another manager leads")
			}
			return nil
		}
		written := len(b.writes(func() { _, _ = b.reconcile("b") }))
		require.LessOrEqual(t, written, max(n-total, 0))
		total += written
	}
	require.Equal(t, all, total, "each was made once")
}

// The manager dies before or after any one of its writes, and its successor gets to the same, there and back.
func TestKilledAtAnyWriteItsSuccessorFinishes(t *testing.T) {
	for _, executed := range []bool{false, true} {
		t.Run(fmt.Sprintf("executed: %t", executed), func(t *testing.T) {
			b := newBench(t)
			b.up = true
			between := intercept.New()
			var want map[string]any
			survived := false
			for n := 1; !survived; n++ {
				require.Less(t, n, 60, "there is no end of writes")
				between.Forget()
				between.Rules(func(r intercept.Request) intercept.Verdict {
					if r.Number == n {
						return intercept.Verdict{Cut: true, Executed: executed}
					}
					return intercept.Verdict{}
				})
				deaths := 0
				run := func(over func() bool) {
					for range 20 {
						result, err := b.reconcile("b")
						if err == nil && result.RequeueAfter == 0 && over() {
							return
						}
						if err != nil {
							deaths++
							require.Equal(t, 1, deaths, err)
							b.restart(between)
						}
					}
					require.Fail(t, "it does not get there")
				}
				b.restart(between)
				b.create(followed("b"))
				run(func() bool { return slices.Contains(b.conditions("b"), "Ready True Peered") })
				if want == nil {
					want = b.there()
					require.Len(t, want, 6)
				}
				require.Equal(t, want, b.there(), "killed at write %d", n)
				b.delete("b")
				run(func() bool { return b.gone("b") })
				require.Empty(t, b.there(), "killed at write %d", n)
				survived = deaths == 0
			}
		})
	}
}

// restart ends the process and begins another one, on a new line to the apiserver.
func (b *bench) restart(between *intercept.Interceptor) {
	b.Helper()
	b.stop()
	line, err := between.Open("manager", controlplane.ForTest(b.T).AdminConfig(), nil, nil)
	require.NoError(b, err)
	b.Cleanup(line.Close)
	b.start(line.Config())
}

// A remote cluster that changes at every look has few objects written, and it is said why.
func TestARemoteClusterThatChangesItsMindIsHeldBack(t *testing.T) {
	b := newBench(t)
	b.up = true
	now := time.Unix(1e9, 0)
	b.Now = func() time.Time { return now }
	b.create(followed("b"))
	b.settle("b")
	declare := func(i int) {
		now = now.Add(10 * time.Second)
		b.side.Pods = []netip.Prefix{netip.MustParsePrefix(fmt.Sprintf("10.%d.0.0/16", 210+i%2))}
		b.side.Services = nil
		b.settle("b")
	}
	flap := func(n int) int {
		return len(slices.DeleteFunc(b.writes(func() {
			for i := range n {
				declare(i)
			}
		}), func(w string) bool { return strings.Contains(w, "clusterpeerings") }))
	}
	first := flap(12)
	require.Greater(t, first, 5, "the first changes are taken")
	require.Zero(t, flap(12), "no more of them")
	require.Equal(t, []string{"Ready False RemoteUnsteady", "RemoteKnown False RemoteUnsteady", "SessionsEstablished True AllEstablished"}, b.conditions("b"))
	require.Contains(t, b.message("b", v1alpha1.ConditionReady), "has changed its ranges or AS number 5 times within 1h0m0s")
	o := &v1alpha1.ClusterPeering{}
	require.NoError(t, b.kube.Get(t.Context(), client.ObjectKey{Name: "b"}, o))
	o.Spec.Remote.AllowedCIDRs = []string{"10.210.0.0/16", "10.211.0.0/16"}
	require.NoError(t, b.kube.Update(t.Context(), o))
	declare(0)
	require.Equal(t, "Ready True Peered", b.conditions("b")[0], "who has changed the spec has looked: it begins anew")
	o.Spec.Remote.AllowedCIDRs = []string{"10.250.0.0/16"}
	require.NoError(t, b.kube.Get(t.Context(), client.ObjectKey{Name: "b"}, o))
	o.Spec.Remote.AllowedCIDRs = []string{"10.250.0.0/16"}
	require.NoError(t, b.kube.Update(t.Context(), o))
	declare(0)
	require.Equal(t, "Ready False CIDRNotAllowed", b.conditions("b")[0])
}

// A remote cluster that hangs holds up no other one, with the controller as the manager has it.
func TestARemoteClusterThatHangsHoldsUpNoOther(t *testing.T) {
	b := newBench(t)
	var looks [3]atomic.Int32
	over, hung := make(chan struct{}), make(chan struct{}, 1)
	b.ReadSide = func(_ context.Context, config *rest.Config) (planpeering.Side, error) {
		n := config.Host[len("https://10.9.9.")] - '0'
		looks[n].Add(1)
		if n == 0 {
			hung <- struct{}{}
			<-over // longer than it may
		}
		return planpeering.Side{}, errors.New("no answer")
	}
	o := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "cluster-b", Namespace: namespace}, StringData: map[string]string{}}
	for i := range looks {
		o.StringData[fmt.Sprint(i)] = fmt.Sprintf(`{"clusters": [{"name": "k", "cluster": {"server": "https://10.9.9.%d"}}], "users": [{"name": "u", "user": {"token": "t"}}],
			"contexts": [{"name": "c", "context": {"cluster": "k", "user": "u"}}], "current-context": "c"}`, i)
	}
	require.NoError(t, b.kube.Update(t.Context(), o))
	mgr, err := ctrl.NewManager(b.cfg, ctrl.Options{Scheme: b.kube.Scheme(), Metrics: server.Options{BindAddress: "0"}})
	require.NoError(t, err)
	b.Wait = func(d time.Duration) time.Duration { return d / 100 }
	require.NoError(t, peering.SetupWithManager(mgr, b.Reconciler))
	peer := func(i int) {
		p := followed(fmt.Sprintf("b%d", i))
		p.Spec.Remote.KubeconfigSecretRef.Key = fmt.Sprint(i)
		b.create(p)
	}
	peer(0)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- mgr.Start(ctx) }()
	<-hung
	peer(1)
	peer(2)
	require.Eventually(t, func() bool { return looks[1].Load() > 2 && looks[2].Load() > 2 }, 30*time.Second, 10*time.Millisecond)
	require.Equal(t, int32(1), looks[0].Load(), "it still hangs")
	close(over)
	cancel()
	require.NoError(t, <-ended)
}

// One that fails slowly is left alone for a while, and says why meanwhile; one that fails at once is not.
func TestARemoteClusterThatFailsSlowlyIsAskedLessOften(t *testing.T) {
	b := newBench(t)
	now, looks, took := time.Unix(1e9, 0), 0, 5*time.Second
	b.Now = func() time.Time { return now }
	b.ReadSide = func(context.Context, *rest.Config) (planpeering.Side, error) {
		looks++
		now = now.Add(took)
		return b.side, b.sideErr
	}
	b.sideErr = errors.New("timed out")
	rounds := func() int {
		looks = 0
		for range 12 { // two minutes
			b.settle("b")
			if b.sideErr != nil {
				require.Equal(t, "timed out", b.message("b", v1alpha1.ConditionRemoteKnown))
			}
			now = now.Add(10 * time.Second)
		}
		return looks
	}
	b.create(followed("b"))
	require.Less(t, rounds(), 6)
	o := &v1alpha1.ClusterPeering{}
	require.NoError(t, b.kube.Get(t.Context(), client.ObjectKey{Name: "b"}, o))
	o.Spec.NextHop = v1alpha1.NextHopNodes
	require.NoError(t, b.kube.Update(t.Context(), o))
	looks = 0
	b.settle("b")
	require.Equal(t, 1, looks, "who edits the spec does not wait")
	now, took = now.Add(time.Minute), 0
	require.Equal(t, 12, rounds(), "the negative control")
	b.sideErr, took = nil, 4*time.Second
	require.GreaterOrEqual(t, rounds(), 12, "an answer that comes late is one")
}
