package check

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/rrpool/rrpool/cmd/rrpool/iostreams"
	"github.com/rrpool/rrpool/cmd/rrpool/snapshot"
	"github.com/rrpool/rrpool/controllers/calico"
	"github.com/rrpool/rrpool/test/cli"
	"github.com/rrpool/rrpool/test/controlplane"
)

func TestMain(m *testing.M) {
	ctrl.SetLogger(logr.Discard())
	calico.RedirectLogs(logr.Discard())
	controlplane.Main(m)
}

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

// have makes an object for as long as the test lasts, with its status.
func (w *world) have(o client.Object, status func()) {
	w.Helper()
	w.Create(o)
	if status != nil {
		status()
		require.NoError(w.T, w.Admin.Status().Update(w.Context(), o))
	}
}

// install makes rrpool's objects, as the manifests have them.
func (w *world) install() {
	w.Helper()
	w.namespace(snapshot.DefaultNamespace)
	for _, name := range []string{"rbac/service_account.yaml", "rbac/role.yaml", "rbac/bindings.yaml", "manager/deployment.yaml"} {
		for _, o := range objects(w.T, filepath.Join("..", "..", "..", "config", name)) {
			if o.GetKind() != "Deployment" {
				w.have(o, nil)
				continue
			}
			w.have(o, func() {
				require.NoError(w.T, unstructured.SetNestedField(o.Object, int64(2), "status", "availableReplicas"))
				for _, field := range []string{"replicas", "readyReplicas"} {
					require.NoError(w.T, unstructured.SetNestedField(o.Object, int64(2), "status", field))
				}
			})
		}
	}
}

func (w *world) namespace(name string) {
	w.Helper()
	w.have(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, nil)
}

func objects(t *testing.T, path string) []*unstructured.Unstructured {
	t.Helper()
	file, err := os.Open(path)
	require.NoError(t, err)
	defer func() { require.NoError(t, file.Close()) }()
	var out []*unstructured.Unstructured
	for decoder := yaml.NewYAMLOrJSONDecoder(file, 4096); ; {
		o := &unstructured.Unstructured{}
		err := decoder.Decode(&o.Object)
		if errors.Is(err, io.EOF) {
			return out
		}
		require.NoError(t, err)
		if len(o.Object) > 0 {
			out = append(out, o)
		}
	}
}

// nodes makes Ready nodes with BGP addresses in some zones, named by zone and number.
func (w *world) nodes(perZone int, providerID string, zones ...string) {
	w.Helper()
	for z, zone := range zones {
		for i := range perZone {
			n := &corev1.Node{
				ObjectMeta: metav1.ObjectMeta{
					Name: fmt.Sprintf("%s-node-%d", zone, i+1), Labels: map[string]string{corev1.LabelTopologyZone: zone},
					Annotations: map[string]string{"projectcalico.org/IPv4Address": fmt.Sprintf("10.%d.0.%d/24", 240+z, i+1)},
				},
			}
			if providerID != "" {
				n.Spec.ProviderID = providerID + fmt.Sprintf("/%s-%d", zone, i+1)
			}
			w.have(n, func() {
				n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.Now()}}
			})
		}
	}
}

// custom makes one of Calico's objects.
func (w *world) custom(kind, name string, spec map[string]any) *unstructured.Unstructured {
	w.Helper()
	o := &unstructured.Unstructured{}
	o.SetAPIVersion("crd.projectcalico.org/v1")
	o.SetKind(kind)
	o.SetName(name)
	o.Object["spec"] = spec
	w.have(o, nil)
	return o
}

// calico makes what Calico has in a cluster of so many nodes.
func (w *world) calico(namespace string, nodes int32) {
	w.Helper()
	w.namespace(namespace)
	w.custom("ClusterInformation", "default", map[string]any{"calicoVersion": "v3.31.0", "datastoreReady": true})
	w.custom("IPPool", "default-ipv4-ippool", map[string]any{"cidr": "172.30.0.0/16", "ipipMode": "CrossSubnet", "vxlanMode": "Never"})
	w.custom("IPPool", "old", map[string]any{"cidr": "172.29.0.0/16", "vxlanMode": "Always", "disabled": true})
	w.custom("FelixConfiguration", "default", map[string]any{"bpfLogLevel": ""})
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
	w.have(ds, func() { ds.Status.DesiredNumberScheduled, ds.Status.NumberReady = nodes, nodes })
}

// password makes a Secret that calico-node may read, or may not.
func (w *world) password(namespace, name string, readable bool) {
	w.Helper()
	w.have(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace}, StringData: map[string]string{"password": "swordfish"}}, nil)
	if !readable {
		return
	}
	w.have(&rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace}, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{""}, Resources: []string{"secrets"}, ResourceNames: []string{name}, Verbs: []string{"get", "list", "watch"}},
	}}, nil)
	w.have(&rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: name},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: namespace, Name: "calico-node"}},
	}, nil)
}

// meshPassword gives the mesh a password, as IBM Cloud does.
func (w *world) meshPassword() {
	w.Helper()
	w.password("calico-system", "calico-bgp-password", true)
	w.custom("BGPConfiguration", "default", map[string]any{
		"nodeMeshPassword": map[string]any{"secretKeyRef": map[string]any{"name": "calico-bgp-password", "key": "password"}},
	})
}

// fit makes a cluster of existing nodes with everything in place.
func (w *world) fit() {
	w.Helper()
	w.install()
	w.nodes(2, "", "zone-a", "zone-b", "zone-c")
	w.calico("calico-system", 6)
	w.meshPassword()
	w.custom("BGPPeer", "rack-switch", map[string]any{"peerIP": "192.0.2.1", "asNumber": int64(65100)})
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

// rightsOfManager is how many things those are.
func rightsOfManager(t *testing.T) int {
	t.Helper()
	count := 0
	for _, rules := range managerRules(t) {
		for _, r := range rules {
			count += len(r.APIGroups) * len(r.Resources) * len(r.Verbs) * max(1, len(r.ResourceNames))
		}
	}
	return count
}

// managerRules are the rules of config/rbac: everywhere (""), or in one namespace.
func managerRules(t *testing.T) map[string][]rbacv1.PolicyRule {
	t.Helper()
	out := map[string][]rbacv1.PolicyRule{}
	for _, o := range objects(t, "../../../config/rbac/role.yaml") {
		content, err := json.Marshal(o)
		require.NoError(t, err)
		var role rbacv1.Role
		require.NoError(t, json.Unmarshal(content, &role))
		out[role.Namespace] = role.Rules
	}
	return out
}
