package topology

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/rrpool/rrpool/cmd/rrpool/iostreams"
	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/controllers/calico"
	"github.com/rrpool/rrpool/test/cli"
	"github.com/rrpool/rrpool/test/controlplane"
)

func TestMain(m *testing.M) {
	ctrl.SetLogger(logr.Discard())
	calico.RedirectLogs(logr.Discard())
	controlplane.Main(m)
}

// apiserver is an apiserver with a user who may do nothing yet.
type apiserver struct {
	*testing.T
	client.Client
	kubeconfig string
	role       *rbacv1.ClusterRole
}

func newAPIServer(t *testing.T) *apiserver {
	t.Helper()
	plane := controlplane.ForTest(t)
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, rbacv1.AddToScheme, v1alpha1.AddToScheme} {
		require.NoError(t, add(scheme))
	}
	admin, err := client.New(plane.AdminConfig(), client.Options{Scheme: scheme})
	require.NoError(t, err)
	config, err := plane.UserConfig("reader")
	require.NoError(t, err)
	a := &apiserver{T: t, Client: admin, kubeconfig: cli.Kubeconfig(t, config)}
	a.role = &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "rrpool-topology"}}
	a.create(a.role, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "rrpool-topology"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "rrpool-topology"},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: "reader"}},
	})
	return a
}

func (a *apiserver) create(objects ...client.Object) {
	a.Helper()
	for _, object := range objects {
		require.NoError(a, a.Create(a.Context(), object))
		a.Cleanup(func() { _ = a.Delete(context.Background(), object) }) // the test's own context is over by then
	}
}

// calico creates an object of Calico's, as YAML.
func (a *apiserver) calico(content string, args ...any) {
	a.Helper()
	object := &unstructured.Unstructured{}
	require.NoError(a, yaml.Unmarshal(fmt.Appendf(nil, content, args...), &object.Object))
	object.SetAPIVersion("crd.projectcalico.org/v1")
	a.create(object)
}

func (a *apiserver) node(name, zone, address string, labels, annotations map[string]string) {
	a.Helper()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{
		Name: name, Labels: map[string]string{corev1.LabelTopologyZone: zone}, Annotations: map[string]string{"projectcalico.org/IPv4Address": address + "/24"},
	}}
	for key, value := range labels {
		node.Labels[key] = value
	}
	for key, value := range annotations {
		node.Annotations[key] = value
	}
	a.create(node)
	node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	require.NoError(a, a.Status().Update(a.Context(), node))
}

// await asks until the answer is as wanted: rights take a moment.
func (a *apiserver) await(good func(cli.Answer) bool, args ...string) cli.Answer {
	a.Helper()
	var got cli.Answer
	require.Eventually(a, func() bool {
		got = ask(a.T, append([]string{"topology", "--kubeconfig", a.kubeconfig}, args...)...)
		return good(got)
	}, 2*time.Minute, 50*time.Millisecond)
	return got
}

// Calico's objects on a real apiserver, seen by a user with the rights of the docs, who
// gains them one by one.
func TestARealApiserver(t *testing.T) {
	a := newAPIServer(t)
	got := ask(t, "topology", "--kubeconfig", a.kubeconfig)
	require.Equal(t, 1, got.Code)
	require.Empty(t, got.Out)
	cli.RequireSentence(t, got.Err, "may not get routereflectorpools.rrpool.io", "without a cluster: rrpool topology --nodes 500 --zones 3")

	rules := docsRole(t).Rules
	a.role.Rules = rules[:1]
	require.NoError(t, a.Update(t.Context(), a.role))
	got = a.await(func(got cli.Answer) bool { return !strings.Contains(got.Err, "routereflectorpools") })
	require.Equal(t, 1, got.Code)
	require.Empty(t, got.Out)
	cli.RequireSentence(t, got.Err, "crd.projectcalico.org", "kubectl auth can-i list bgppeers.crd.projectcalico.org")

	a.role.Rules = slices.Delete(slices.Clone(rules), 1, 2)
	require.NoError(t, a.Update(t.Context(), a.role))
	got = a.await(func(got cli.Answer) bool { return !strings.Contains(got.Err, "crd.projectcalico.org") })
	require.Equal(t, 1, got.Code)
	require.Empty(t, got.Out)
	cli.RequireSentence(t, got.Err, "nodes", "forbidden")

	a.role.Rules = rules
	require.NoError(t, a.Update(t.Context(), a.role))
	got = a.await(func(got cli.Answer) bool { return got.Code == 0 })
	require.Contains(t, got.Out, "No node has a BGP address: there is nothing to draw.")

	a.populate()
	got = a.await(func(got cli.Answer) bool { return got.Code == 0 && strings.Contains(got.Out, "3 clients") }, "-o", "json")
	require.Equal(t, "‼ BGPPeer broken: its selector \"has(\" cannot be read", got.Err[:len("‼ BGPPeer broken: its selector \"has(\" cannot be read")])
	var n Network
	require.NoError(t, json.Unmarshal([]byte(got.Out), &n))
	require.Equal(t, "a/1: 2 clients, 1 with all sessions up, 1 with some sessions up; 2 × 1 sessions, 1 up; 2 × 1 sessions, all up\n"+
		"rr-a: 3/4 up\nb/1: 1 client, 1 with all sessions up; 1 × 1 sessions, all up; 1 × 1 sessions, all up\nrr-b: 4/4 up\n"+
		"reflectors each with each: 1 session, all up\n"+n.headline(), told(n))
	require.Equal(t, "2 reflectors, 3 clients, cluster ID 244.0.0.1, node-to-node mesh: off", n.headline())
	require.Equal(t, []string{"1 BGPPeer that leads out of the cluster: not drawn (tor)"}, n.Notes)

	again := ask(t, "topology", "--kubeconfig", a.kubeconfig, "-o", "json")
	require.Equal(t, got, again, "the same cluster, the same bytes")

	narrow := askIn(t, iostreams.Streams{Terminal: true, Width: 60}, "topology", "--kubeconfig", a.kubeconfig)
	require.Zero(t, narrow.Code)
	cli.RequireWidth(t, narrow.Err, 60)

	a.create(&v1alpha1.RouteReflectorPool{ObjectMeta: metav1.ObjectMeta{Name: "default"}})
	got = a.await(func(got cli.Answer) bool { return strings.Contains(got.Out, ", step ") })
	require.Zero(t, got.Code)
	require.NotContains(t, got.Out, "in the pool")

	// A worker of the pool is about to reflect where that is wanted, and a node like any other elsewhere.
	a.node("pooled", "b", "10.0.0.3", map[string]string{v1alpha1.PoolLabel: "route-reflectors"}, nil)
	pool := &v1alpha1.RouteReflectorPool{}
	require.NoError(t, a.Get(t.Context(), client.ObjectKey{Name: "default"}, pool))
	pool.Spec.Provider.Type = v1alpha1.ProviderIKS
	require.NoError(t, a.Update(t.Context(), pool))
	got = a.await(func(got cli.Answer) bool { return strings.Contains(got.Out, "no role yet") }, "-o", "mermaid")
	require.Contains(t, got.Out, "2 reflectors, 3 clients, 1 node without the role")
	pool.Spec.Mode = v1alpha1.ModeFullMesh
	require.NoError(t, a.Update(t.Context(), pool))
	got = a.await(func(got cli.Answer) bool { return strings.Contains(got.Out, "in the pool, without the role") }, "-o", "mermaid")
	require.NotContains(t, got.Out, "yet")
	if keep := os.Getenv("RRPOOL_SCREENSHOT"); keep != "" {
		require.NoError(t, os.WriteFile(keep+"/real.svg", []byte(got.Out), 0o600))
	}
}

// populate makes a cluster of two zones, one session of which is down.
func (a *apiserver) populate() {
	reflector := map[string]string{role: ""}
	id := map[string]string{"projectcalico.org/RouteReflectorClusterID": "244.0.0.1"}
	a.node("rr-a", "a", "10.0.0.1", reflector, id)
	a.node("rr-b", "b", "10.0.0.2", reflector, id)
	a.node("w-1", "a", "10.0.0.11", nil, nil)
	a.node("w-2", "a", "10.0.0.12", nil, nil)
	a.node("w-3", "b", "10.0.0.13", nil, nil)
	a.calico("kind: BGPConfiguration\nmetadata: {name: default}\nspec: {nodeToNodeMeshEnabled: false}")
	a.calico("kind: BGPPeer\nmetadata: {name: rrpool-clients}\nspec: {nodeSelector: '!has(%[1]s)', peerSelector: 'has(%[1]s)'}", role)
	a.calico("kind: BGPPeer\nmetadata: {name: rrpool-reflectors}\nspec: {nodeSelector: 'has(%[1]s)', peerSelector: 'has(%[1]s)'}", role)
	a.calico("kind: BGPPeer\nmetadata: {name: tor}\nspec: {peerIP: 192.0.2.1, asNumber: 64513}")
	a.calico("kind: BGPPeer\nmetadata: {name: broken}\nspec: {nodeSelector: 'has(', peerSelector: 'all()'}")
	for name, others := range map[string][]string{"rr-a": {"10.0.0.2", "10.0.0.12", "10.0.0.13"}, "rr-b": {"10.0.0.1", "10.0.0.11", "10.0.0.12", "10.0.0.13"}} {
		var peers []string
		for _, other := range others {
			peers = append(peers, fmt.Sprintf("{peerIP: %s, type: NodePeer, state: Established, since: '09:00:00'}", other))
		}
		if name == "rr-a" {
			peers = append(peers, "{peerIP: 10.0.0.11, type: NodePeer, state: Connect, since: '09:00:00'}")
		}
		a.calico("kind: CalicoNodeStatus\nmetadata: {name: rrpool-%[1]s, labels: {%[2]s: %[3]s}}\nspec: {node: %[1]s, classes: [Agent, BGP], updatePeriodSeconds: 10}\n"+
			"status: {lastUpdated: '2026-11-21T09:00:00Z', agent: {birdV4: {state: Ready}}, bgp: {numberEstablishedV4: 4, numberNotEstablishedV4: 0, numberEstablishedV6: 0, numberNotEstablishedV6: 0, peersV4: [%[4]s]}}",
			name, v1alpha1.ManagedByLabel, v1alpha1.ManagedByValue, strings.Join(peers, ", "))
	}
}
