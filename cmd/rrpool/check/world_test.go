package check

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/rrpool/rrpool/cmd/rrpool/iostreams"
	"github.com/rrpool/rrpool/cmd/rrpool/snapshot"
	"github.com/rrpool/rrpool/test/cli"
	"github.com/rrpool/rrpool/test/controlplane"
)

func TestMain(m *testing.M) { cli.Main(m) }

// world is a cluster that is a real apiserver, and nothing but objects behind it.
type world struct{ *cli.Apiserver }

func newWorld(t *testing.T) *world {
	t.Helper()
	return &world{cli.RealApiserver(t, "")}
}

// as is the apiserver with another user, who may do what is granted.
func (w *world) as(user string) *cli.Apiserver {
	w.Helper()
	return cli.RealApiserver(w.T, user)
}

// install makes rrpool's objects, as the manifests have them.
func (w *world) install() {
	w.Helper()
	w.namespace(snapshot.DefaultNamespace)
	for _, name := range []string{"rbac/service_account.yaml", "rbac/role.yaml", "rbac/bindings.yaml", "manager/deployment.yaml"} {
		for _, o := range objects(w.T, filepath.Join("..", "..", "..", "config", name)) {
			w.Create(o)
			if o.GetKind() == "Deployment" {
				o.Object["status"] = map[string]any{"replicas": int64(2), "readyReplicas": int64(2), "availableReplicas": int64(2)}
				require.NoError(w.T, w.Admin.Status().Update(w.Context(), o))
			}
		}
	}
}

func (w *world) namespace(name string) {
	w.Helper()
	w.Create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}})
}

func objects(t *testing.T, path string) []*unstructured.Unstructured {
	t.Helper()
	content, err := os.ReadFile(path)
	require.NoError(t, err)
	out, err := controlplane.Objects(content)
	require.NoError(t, err)
	return out
}

// nodes makes Ready nodes with BGP addresses in some zones, named by zone and number.
func (w *world) nodes(perZone int, providerID string, zones ...string) {
	w.Helper()
	for z, zone := range zones {
		for i := range perZone {
			w.Node(fmt.Sprintf("%s-node-%d", zone, i+1), zone, fmt.Sprintf("10.%d.0.%d", 240+z, i+1), func(n *corev1.Node) {
				if providerID != "" {
					n.Spec.ProviderID = providerID + fmt.Sprintf("/%s-%d", zone, i+1)
				}
			})
		}
	}
}

// calico makes what Calico has in a cluster of so many nodes.
func (w *world) calico(namespace string, nodes int32) {
	w.Helper()
	w.namespace(namespace)
	w.Calico("kind: ClusterInformation\nmetadata: {name: default}\nspec: {calicoVersion: v3.31.0, datastoreReady: true}")
	w.Calico("kind: IPPool\nmetadata: {name: default-ipv4-ippool}\nspec: {cidr: 172.30.0.0/16, ipipMode: CrossSubnet, vxlanMode: Never}")
	w.Calico("kind: IPPool\nmetadata: {name: old}\nspec: {cidr: 172.29.0.0/16, vxlanMode: Always, disabled: true}")
	w.Calico("kind: FelixConfiguration\nmetadata: {name: default}\nspec: {bpfLogLevel: ''}")
	w.Create(controlplane.Reporters()...)
	labels := map[string]string{"k8s-app": "calico-node"}
	ds := &appsv1.DaemonSet{
		ObjectMeta: metav1.ObjectMeta{Name: "calico-node", Namespace: namespace, Labels: labels},
		Spec: appsv1.DaemonSetSpec{
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{
				ServiceAccountName: "calico-node",
				Containers:         []corev1.Container{{Name: "calico-node", Image: "calico/node", Env: []corev1.EnvVar{{Name: datastoreVariable, Value: "kubernetes"}}}},
			}},
		},
	}
	w.Create(ds)
	ds.Status.DesiredNumberScheduled, ds.Status.NumberReady = nodes, nodes
	require.NoError(w.T, w.Admin.Status().Update(w.Context(), ds))
	list := &corev1.NodeList{}
	require.NoError(w.T, w.Admin.List(w.Context(), list))
	for _, n := range list.Items {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "calico-node-" + n.Name, Namespace: namespace, Labels: labels}, Spec: ds.Spec.Template.Spec}
		pod.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(ds, appsv1.SchemeGroupVersion.WithKind("DaemonSet"))}
		pod.Spec.NodeName, pod.Spec.HostNetwork, pod.Spec.AutomountServiceAccountToken = n.Name, true, ptr.To(false)
		w.Create(pod)
		w.Cleanup(func() { // as there is no kubelet
			require.NoError(w.T, client.IgnoreNotFound(w.Admin.Delete(context.Background(), pod, client.GracePeriodSeconds(0))))
		})
		pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.Now()}}
		require.NoError(w.T, w.Admin.Status().Update(w.Context(), pod))
	}
}

// password makes a Secret that calico-node may read, or may not.
func (w *world) password(namespace, name string, readable bool) {
	w.Helper()
	w.Create(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace}, StringData: map[string]string{"password": "swordfish"}})
	if !readable {
		return
	}
	w.Create(&rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace}, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{""}, Resources: []string{"secrets"}, ResourceNames: []string{name}, Verbs: []string{"get", "list", "watch"}},
	}}, &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: name},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: namespace, Name: "calico-node"}},
	})
}

// meshPassword is a BGPConfiguration that names a Secret.
const meshPassword = "kind: BGPConfiguration\nmetadata: {name: default}\nspec: {nodeMeshPassword: {secretKeyRef: {name: %s, key: password}}}"

// meshPassword gives the mesh a password, as IBM Cloud does.
func (w *world) meshPassword() {
	w.Helper()
	w.password("calico-system", "calico-bgp-password", true)
	w.Calico(meshPassword, "calico-bgp-password")
}

// fit makes a cluster of existing nodes with everything in place.
func (w *world) fit() {
	w.Helper()
	w.install()
	w.nodes(2, "", "zone-a", "zone-b", "zone-c")
	w.calico("calico-system", 6)
	w.meshPassword()
	w.Calico("kind: BGPPeer\nmetadata: {name: rack-switch}\nspec: {peerIP: 192.0.2.1, asNumber: 65100}")
}

// authorizerLag is how long the apiserver may take to learn of a right.
const authorizerLag = 2 * time.Minute

// allow lets a user do something: everywhere, or in a namespace.
func (w *world) allow(user, namespace string, rules ...rbacv1.PolicyRule) {
	w.Helper()
	w.as(user).Grant(metav1.ObjectMeta{Name: "check-test-" + user, Namespace: namespace}, rules...)
}

// kubeconfig of a user, or, without a name, of one who may do everything.
func (w *world) kubeconfig(user string) string {
	w.Helper()
	if user == "" {
		return cli.Kubeconfig(w.T, w.AdminConfig())
	}
	return w.as(user).Kubeconfig()
}

// check asks as a user, and gives the answer by the ids of its checks.
func (w *world) check(user string, args ...string) (map[string]Result, view, cli.Answer) {
	w.Helper()
	got := cli.AskIn(w.T, iostreams.Streams{Now: time.Now}, New, append([]string{"check", "-o", "json", "--kubeconfig", w.kubeconfig(user)}, args...)...)
	var v view
	require.NoError(w.T, json.Unmarshal([]byte(got.Out), &v), "%s%s", got.Out, got.Err)
	out := map[string]Result{}
	for _, g := range v.Groups {
		for _, c := range g.Checks {
			out[c.ID] = c
		}
	}
	return out, v, got
}

// eventually asks until it is so: an apiserver takes a moment to learn of a right.
func (w *world) eventually(user, id string, so func(Result) bool, args ...string) map[string]Result {
	w.Helper()
	var last map[string]Result
	require.Eventually(w.T, func() bool {
		last, _, _ = w.check(user, args...)
		return so(last[id])
	}, authorizerLag, authorizerLag/1000, "%s: %v", id, last[id])
	return last
}
