package corpus_test

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	apiv3 "github.com/projectcalico/api/pkg/apis/projectcalico/v3"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/rrpool/rrpool/cmd/rrpool/snapshot"
	"github.com/rrpool/rrpool/controllers/calico"
	"github.com/rrpool/rrpool/test/controlplane"
	"github.com/rrpool/rrpool/test/fakenetwork"
)

// row is one configuration: the first document of a file of testdata. The others are objects of the cluster, each with no more than what
// matters, kinds of Calico's without apiVersion.
type row struct {
	// Source is where it was found: repository#issue, or repository and file. About says in a sentence what is special.
	Source string `json:"source"`
	About  string `json:"about"`
	// Nodes in groups. Calico is its installation, where it is not the usual one: see the defaults of group and installation.
	Nodes  []group      `json:"nodes"`
	Calico installation `json:"calico"`
	// Pool is the spec of the RouteReflectorPool.
	Pool map[string]any `json:"pool"`
	// Turns is how often the manager reconciles, 4 times by default. Unreachable nodes have no session with another.
	Turns       int      `json:"turns"`
	Unreachable []string `json:"unreachable"`

	Expect expectation `json:"expect"`
	// Todo says what the product does wrongly yet, and which assertions fail by that. They have to.
	Todo struct {
		What  string   `json:"what"`
		Fails []string `json:"fails"`
	} `json:"todo"`

	objects []*unstructured.Unstructured
}

type expectation struct {
	// Check is the mark of a check by its id, and words that its answer has, apart by …; "-" where it is not asked; under exit the code.
	Check map[string]string `json:"check"`
	// Plan is the exit code, and words of what is printed.
	Plan struct {
		Exit int      `json:"exit"`
		Says []string `json:"says"`
		Not  []string `json:"not"`
	} `json:"plan"`
	// Manager: the reason for which it refuses and writes nothing, or its first step, a later one, or the reason that it says in the end while
	// it has not gone beyond the first; and whether no node gets the role in its turns.
	Manager struct {
		Refuses      string `json:"refuses"`
		Step         string `json:"step"`
		Then         string `json:"then"`
		Waits        string `json:"waits"`
		NoReflectors bool   `json:"noReflectors"`
	} `json:"manager"`
}

type group struct {
	// Name, to which a number is added, node by default, and how many, 1 by default.
	Name  string `json:"name"`
	Count int    `json:"count"`
	// Zones in turn, zone-a to zone-c by default; "" is a node without.
	Zones []string `json:"zones"`
	// IPv4 is the BGP address of the first, 10.0.0.11/24 by default, of which the next have the next, or those of all, by commas; "none".
	// IPv6 likewise, none by default.
	IPv4 string `json:"ipv4"`
	IPv6 string `json:"ipv6"`
	// Addresses are in the Node's status, of each the same, besides its BGP address.
	Addresses   []string          `json:"addresses"`
	Labels      map[string]string `json:"labels"`
	Annotations map[string]string `json:"annotations"`
	Taints      []corev1.Taint    `json:"taints"`
	ProviderID  string            `json:"providerID"`
	// PodCIDR of the first, a /24, of which the next have the next; none by default.
	PodCIDR  string `json:"podCIDR"`
	NotReady bool   `json:"notReady"`
	// WithoutPod: calico-node is not there.
	WithoutPod bool `json:"withoutPod"`
}

type installation struct {
	// Version is v3.31.0 by default; ClusterInformation false is one without that object.
	Version            *string `json:"version"`
	ClusterInformation *bool   `json:"clusterInformation"`
	ClusterType        string  `json:"clusterType"`
	Locked             bool    `json:"locked"`
	// Namespace of calico-node, calico-system by default; Name of its DaemonSet and App, the value of its label k8s-app, calico-node by default.
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	App       string `json:"app"`
	// Backend is CALICO_NETWORKING_BACKEND of the pods, in a ConfigMap where the namespace is kube-system; bird by default.
	Backend string `json:"backend"`
	// Variables are others of the pods.
	Variables map[string]string `json:"variables"`
	// Unready is on how many nodes calico-node is not Ready by the DaemonSet's count.
	Unready int32 `json:"unready"`
}

func load(t *testing.T, path string) row {
	t.Helper()
	content, err := os.ReadFile(path)
	require.NoError(t, err)
	head, rest, _ := bytes.Cut(content, []byte("\n---\n"))
	r := row{}
	require.NoError(t, yaml.UnmarshalStrict(head, &r))
	r.objects, err = controlplane.Objects(rest)
	require.NoError(t, err)
	require.NotEmpty(t, r.Source, "each row says where it was found")
	require.NotEmpty(t, r.About)
	require.NotEqual(t, r.Expect.Manager.Refuses == "", r.Expect.Manager.Step == "", "the manager refuses or does something")
	return r
}

func files(t *testing.T) []string {
	t.Helper()
	found, err := filepath.Glob("testdata/*.yaml")
	require.NoError(t, err)
	return found
}

func (w *world) build(r row) {
	w.Helper()
	c := r.Calico
	c.Namespace, c.Name, c.App, c.Backend = cmp.Or(c.Namespace, "calico-system"), cmp.Or(c.Name, "calico-node"), cmp.Or(c.App, "calico-node"), cmp.Or(c.Backend, "bird")
	var nodes []*corev1.Node
	var with []string
	for i, g := range r.Nodes {
		for _, n := range g.nodes(w.T, i) {
			nodes = append(nodes, n)
			if !g.WithoutPod {
				with = append(with, n.Name)
			}
		}
	}
	for _, n := range nodes {
		w.create(n)
	}
	w.calico(c, r.kinds())
	w.calicoNode(c, with)
	for _, o := range r.objects {
		w.create(completed(o))
	}
}

func (r row) kinds() (out []string) {
	for _, o := range r.objects {
		out = append(out, o.GetKind())
	}
	return out
}

// completed is an object with the apiVersion of its kind, which is one of Calico's where that is left out.
func completed(o *unstructured.Unstructured) *unstructured.Unstructured {
	if o.GetAPIVersion() == "" {
		o.SetAPIVersion(calico.GroupV1.String())
	}
	if o.GetName() == "" {
		o.SetName("default")
	}
	return o
}

// nodes of a group, the i-th of a row.
func (g group) nodes(t *testing.T, i int) (out []*corev1.Node) {
	t.Helper()
	zones := g.Zones
	if zones == nil {
		zones = []string{"zone-a", "zone-b", "zone-c"}
	}
	four := addresses(t, cmp.Or(g.IPv4, fmt.Sprintf("10.0.%d.11/24", i)), max(g.Count, 1))
	six := addresses(t, cmp.Or(g.IPv6, "none"), max(g.Count, 1))
	for j := range max(g.Count, 1) {
		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{
			Name: fmt.Sprintf("%s-%d", cmp.Or(g.Name, "node"), j+1), Labels: maps.Clone(g.Labels), Annotations: maps.Clone(g.Annotations),
		}}
		if g.Count == 0 && g.Name != "" {
			n.Name = g.Name
		}
		label := func(key, value string) {
			if _, own := g.Labels[key]; !own && value != "" {
				metav1.SetMetaDataLabel(&n.ObjectMeta, key, value)
			}
		}
		label(corev1.LabelTopologyZone, zones[j%len(zones)])
		label(corev1.LabelOSStable, "linux")
		label(corev1.LabelHostname, n.Name)
		for key, of := range map[string][]string{fakenetwork.IPv4Annotation: four, "projectcalico.org/IPv6Address": six} {
			if of[j] != "" {
				metav1.SetMetaDataAnnotation(&n.ObjectMeta, key, of[j])
				address, _, _ := strings.Cut(of[j], "/")
				n.Status.Addresses = append(n.Status.Addresses, corev1.NodeAddress{Type: corev1.NodeInternalIP, Address: address})
			}
		}
		for _, a := range g.Addresses {
			n.Status.Addresses = append(n.Status.Addresses, corev1.NodeAddress{Type: corev1.NodeInternalIP, Address: a})
		}
		n.Spec.Taints, n.Spec.ProviderID = g.Taints, g.ProviderID
		if g.PodCIDR != "" {
			first := netip.MustParsePrefix(g.PodCIDR)
			of := first.Addr().As4()
			of[2] += byte(j)
			n.Spec.PodCIDR = netip.PrefixFrom(netip.AddrFrom4(of), first.Bits()).String()
			n.Spec.PodCIDRs = []string{n.Spec.PodCIDR}
		}
		ready := corev1.ConditionTrue
		if g.NotReady {
			ready = corev1.ConditionFalse
		}
		n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: ready, LastTransitionTime: metav1.Now()}}
		out = append(out, n)
	}
	return out
}

// addresses are as many, with their lengths, from a first one or a list.
func addresses(t *testing.T, from string, count int) []string {
	t.Helper()
	if from == "none" {
		return make([]string, count)
	}
	if list := strings.Split(from, ","); len(list) > 1 {
		require.Len(t, list, count)
		return list
	}
	first, err := netip.ParsePrefix(from)
	require.NoError(t, err)
	var out []string
	for a := first.Addr(); len(out) < count; a = a.Next() {
		out = append(out, netip.PrefixFrom(a, first.Bits()).String())
	}
	return out
}

// calico makes what an installation has besides calico-node, as far as the row has nothing of the kind itself.
func (w *world) calico(c installation, kinds []string) {
	w.Helper()
	info := map[string]any{"datastoreReady": !c.Locked, "clusterType": cmp.Or(c.ClusterType, "k8s,bgp,kubeadm,kdd"), "calicoVersion": ptr.Deref(c.Version, "v3.31.0")}
	defaults := map[string]map[string]any{
		"FelixConfiguration": {"bpfLogLevel": ""},
		"IPPool":             {"cidr": "192.168.0.0/16", "ipipMode": "Never", "vxlanMode": "Never", "natOutgoing": true},
	}
	if ptr.Deref(c.ClusterInformation, true) {
		defaults["ClusterInformation"] = info
	}
	for kind, spec := range defaults {
		if !slices.Contains(kinds, kind) {
			w.create(completed(&unstructured.Unstructured{Object: map[string]any{"kind": kind, "spec": spec}}))
		}
	}
}

// calicoNode makes its DaemonSet and its pods, as Calico's manifests or its operator do.
func (w *world) calicoNode(c installation, nodes []string) {
	w.Helper()
	w.namespace(c.Namespace)
	labels := map[string]string{"k8s-app": c.App}
	backend := corev1.EnvVar{Name: "CALICO_NETWORKING_BACKEND", Value: c.Backend}
	if c.Namespace == "kube-system" {
		backend = corev1.EnvVar{Name: backend.Name, ValueFrom: &corev1.EnvVarSource{
			ConfigMapKeyRef: &corev1.ConfigMapKeySelector{LocalObjectReference: corev1.LocalObjectReference{Name: "calico-config"}, Key: "calico_backend"},
		}}
		w.create(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: c.Namespace, Name: "calico-config"}, Data: map[string]string{"calico_backend": c.Backend}})
	}
	if len(nodes) == 0 {
		return
	}
	pod := corev1.PodSpec{
		HostNetwork: true, ServiceAccountName: "calico-node", AutomountServiceAccountToken: ptr.To(false),
		Containers: []corev1.Container{{Name: "calico-node", Image: "calico/node", Env: []corev1.EnvVar{{Name: "DATASTORE_TYPE", Value: "kubernetes"}, backend}}},
	}
	for _, name := range slices.Sorted(maps.Keys(c.Variables)) {
		pod.Containers[0].Env = append(pod.Containers[0].Env, corev1.EnvVar{Name: name, Value: c.Variables[name]})
	}
	ds := &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: c.Namespace, Name: c.Name, Labels: labels}, Spec: appsv1.DaemonSetSpec{
		Selector: &metav1.LabelSelector{MatchLabels: labels}, Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: pod},
	}}
	ds.Status.DesiredNumberScheduled = int32(len(nodes))
	ds.Status.CurrentNumberScheduled, ds.Status.NumberReady = ds.Status.DesiredNumberScheduled, ds.Status.DesiredNumberScheduled-c.Unready
	w.create(ds)
	for i, node := range nodes {
		ready := corev1.ConditionTrue
		if i < int(c.Unready) {
			ready = corev1.ConditionFalse
		}
		of := pod
		of.NodeName = node
		w.create(&corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: c.Namespace, Name: c.Name + "-" + node, Labels: labels, OwnerReferences: []metav1.OwnerReference{
				{APIVersion: "apps/v1", Kind: "DaemonSet", Name: ds.Name, UID: cmp.Or(ds.UID, types.UID("none")), Controller: ptr.To(true)},
			}},
			Spec: of,
			Status: corev1.PodStatus{
				Phase: corev1.PodRunning, Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: ready, LastTransitionTime: metav1.Now()}},
			},
		})
	}
}

// report answers for the reporters of all nodes that are asked and have not answered: each has a mesh session with each other. It says whether
// it has written something.
func (w *world) report(r row) (did bool) {
	w.Helper()
	if r.Unreachable == nil {
		return false
	}
	asked, err := fakenetwork.Written(w.Context(), w.admin, "CalicoNodeStatus")
	require.NoError(w, err)
	var nodes corev1.NodeList
	require.NoError(w, w.admin.List(w.Context(), &nodes))
	for i := range asked {
		node, _, _ := unstructured.NestedString(asked[i].Object, "spec", "node")
		if _, answered, _ := unstructured.NestedString(asked[i].Object, "status", "lastUpdated"); answered {
			continue
		}
		status := apiv3.CalicoNodeStatusStatus{LastUpdated: metav1.Now()}
		status.Agent.BIRDV4.State = apiv3.BGPDaemonStateReady
		for _, n := range nodes.Items {
			address, _, _ := strings.Cut(n.Annotations[fakenetwork.IPv4Annotation], "/")
			peer := apiv3.CalicoNodePeer{PeerIP: address, Type: apiv3.BGPPeerTypeNodeMesh, State: apiv3.BGPSessionStateEstablished, Since: "2026-01-01"}
			switch {
			case n.Name == node:
				continue
			case slices.Contains(r.Unreachable, n.Name) || slices.Contains(r.Unreachable, node):
				peer.State = apiv3.BGPSessionStateConnect
				status.BGP.NumberNotEstablishedV4++
			default:
				status.BGP.NumberEstablishedV4++
			}
			status.BGP.PeersV4 = append(status.BGP.PeersV4, peer)
		}
		content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&status)
		require.NoError(w, err)
		asked[i].Object["status"] = content
		require.NoError(w, w.admin.Update(w.Context(), &asked[i]))
		did = true
	}
	return did
}

func (w *world) create(o client.Object) {
	w.Helper()
	want := o.DeepCopyObject().(client.Object) //nolint:forcetypeassert // it is one
	require.NoError(w, w.admin.Create(w.Context(), o), "%s %s", o.GetObjectKind().GroupVersionKind().Kind, o.GetName())
	switch o.(type) {
	case *corev1.Node, *corev1.Pod, *appsv1.DaemonSet:
		want.SetResourceVersion(o.GetResourceVersion())
		want.SetUID(o.GetUID())
		require.NoError(w, w.admin.Status().Update(w.Context(), want), "%s", o.GetName())
	}
}

func (w *world) namespace(name string) {
	w.Helper()
	require.NoError(w, client.IgnoreAlreadyExists(w.admin.Create(w.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}})))
}

func (w *world) clear() {
	w.Helper()
	ctx := w.Context()
	now := client.GracePeriodSeconds(0)
	for _, kind := range []string{"BGPPeer", "BGPConfiguration", "BGPFilter", "BlockAffinity", "CalicoNodeStatus", "ClusterInformation", "FelixConfiguration", "IPPool"} {
		o := &unstructured.Unstructured{}
		o.SetGroupVersionKind(calico.GroupV1.WithKind(kind))
		require.NoError(w, w.admin.DeleteAllOf(ctx, o), kind)
	}
	require.NoError(w, w.admin.DeleteAllOf(ctx, &corev1.Node{}, now))
	var spaces corev1.NamespaceList
	require.NoError(w, w.admin.List(ctx, &spaces))
	for _, o := range []client.Object{&rbacv1.RoleBinding{}, &rbacv1.Role{}} { // those of the other namespaces are the manager's
		require.NoError(w, w.admin.DeleteAllOf(ctx, o, client.InNamespace("calico-system"), now))
	}
	for _, space := range spaces.Items {
		for _, o := range []client.Object{&corev1.Pod{}, &appsv1.DaemonSet{}, &corev1.ConfigMap{}, &corev1.Secret{}} {
			if space.Name != snapshot.DefaultNamespace {
				require.NoError(w, w.admin.DeleteAllOf(ctx, o, client.InNamespace(space.Name), now))
			}
		}
	}
}
