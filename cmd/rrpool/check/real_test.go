package check

import (
	"flag"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/rrpool/rrpool/cloud/iks"
	"github.com/rrpool/rrpool/cmd/rrpool/iostreams"
	plancmd "github.com/rrpool/rrpool/cmd/rrpool/plan"
	"github.com/rrpool/rrpool/cmd/rrpool/snapshot"
	"github.com/rrpool/rrpool/cmd/rrpool/status"
	"github.com/rrpool/rrpool/config/rbac"
	"github.com/rrpool/rrpool/controllers/calico"
	"github.com/rrpool/rrpool/test/cli"
	"github.com/rrpool/rrpool/test/controlplane"
	"github.com/rrpool/rrpool/test/iksserver"
)

// The object of the cluster, and one of a file that is to take its place.
func TestTheObject(t *testing.T) {
	w := newWorld(t)
	w.install()
	w.nodes(2, "", "zone-a", "zone-b", "zone-c")
	w.calico("kube-system", 6)
	pool := objects(t, "../../../config/samples/existing-nodes.yaml")[0]
	w.Create(pool)
	checks, v, got := w.check("")
	require.Zero(t, got.Code, got.Out)
	require.Equal(t, "there is a RouteReflectorPool, with mode RouteReflector", checks["object"].Message)
	require.Equal(t, "rrpool status", v.Next)

	file := cli.PoolFile(t, "{mode: Paused, topology: {zoneLabel: example.com/room}}")
	checks, v, got = w.check("", "--filename", file)
	require.Zero(t, got.Code, got.Out)
	require.Equal(t, file+" is valid, with mode Paused; what follows is for it", checks["object"].Message)
	require.Contains(t, checks["zones"].Message, "without the zone label example.com/room")
	require.Equal(t, "rrpool plan --filename "+file, v.Next)
}

// Much that is wrong in a real cluster, and each found.
func TestABrokenCluster(t *testing.T) {
	w := newWorld(t)
	w.nodes(1, "", "zone-a", "zone-b", "zone-c")
	w.calico("calico-system", 3)
	w.password("calico-system", "unreadable", false)
	w.Calico(meshPassword, "unreadable")
	w.Calico("kind: BGPPeer\nmetadata: {name: by-hand}\nspec: {nodeSelector: all(), peerSelector: role == 'rr'}")
	w.Calico("kind: IPPool\nmetadata: {name: overlay}\nspec: {cidr: 172.28.0.0/16, vxlanMode: Always}")
	node := &corev1.Node{}
	require.NoError(t, w.Admin.Get(t.Context(), client.ObjectKey{Name: "zone-a-node-1"}, node))
	node.Annotations["projectcalico.org/ASNumber"] = "65001"
	node.Annotations["projectcalico.org/RouteReflectorClusterID"] = "1.0.0.1"
	require.NoError(t, w.Admin.Update(t.Context(), node))
	checks, v, got := w.check("")
	require.Equal(t, 1, got.Code)
	require.Empty(t, got.Err, "the answer says it")
	for id, says := range map[string]string{
		"manager-rights": "the manager lacks", "manager": "the manager does not run: there is neither a lease nor a Deployment rrpool-manager in namespace rrpool-system", "password": "calico-node may not read", "as-numbers": "2 different AS numbers",
		"reflectors": "zone-a-node-1", "peers": "by-hand", "eligible": "3 route reflectors are wanted of 3 nodes that speak BGP",
	} {
		require.Equal(t, Error, checks[id].Status, id)
		require.Contains(t, checks[id].Message, says, id)
	}
	require.Contains(t, checks["routes"].Message, "Felix programs the routes to the pods of 1 IPPool")
	require.Equal(t, "rrpool check", v.Next)
}

// An AS number that nodes may have and BGPPeers may not is found before the first write, by check and by plan. Of a user
// who may not try it, it is not known.
func TestAValueThatCalicosCRDRefuses(t *testing.T) {
	w := newWorld(t)
	w.install()
	w.nodes(2, "", "zone-a", "zone-b", "zone-c")
	w.calico("calico-system", 6)
	checks, _, got := w.check("")
	require.Zero(t, got.Code, got.Out)
	require.Equal(t, OK, checks["writes"].Status, checks["writes"].Message)

	list := &corev1.NodeList{}
	require.NoError(t, w.Admin.List(t.Context(), list))
	for i := range list.Items {
		list.Items[i].Annotations["projectcalico.org/ASNumber"] = "4200000000"
		require.NoError(t, w.Admin.Update(t.Context(), &list.Items[i]))
	}
	checks, _, got = w.check("")
	require.Equal(t, 1, got.Code, got.Out)
	require.Equal(t, OK, checks["as-numbers"].Status)
	require.Equal(t, Error, checks["writes"].Status)
	require.Contains(t, checks["writes"].Message, "WriteRefused: the datastore would not let rrpool write BGPPeer ")
	require.Contains(t, checks["writes"].Message, "asNumber")
	require.Contains(t, checks["writes"].Message, "with AS number 4200000000")
	planned := cli.AskIn(t, iostreams.Streams{Now: time.Now}, plancmd.New, "plan", "--kubeconfig", w.kubeconfig(""))
	require.Equal(t, 1, planned.Code, planned.Out)
	require.Contains(t, planned.Out, "× It does nothing: WriteRefused: ")
	require.NotContains(t, planned.Out, "√")

	w.allow("reader", "", cli.Roles(t, "check")[0].Rules...)
	checks = w.eventually("reader", "writes", func(r Result) bool { return r.Status != "" })
	require.Equal(t, Note, checks["writes"].Status)
	require.Contains(t, checks["writes"].Message, "is not known: your user cannot try it")
	peers := &unstructured.UnstructuredList{}
	peers.SetGroupVersionKind(calico.GroupV1.WithKind("BGPPeerList"))
	require.NoError(t, w.Admin.List(t.Context(), peers))
	require.Empty(t, peers.Items, "nothing was written")
}

// Without our CRD nothing else is in the way of looking.
func TestNoCRD(t *testing.T) {
	w := newWorld(t)
	w.nodes(2, "", "zone-a", "zone-b", "zone-c")
	w.calico("kube-system", 6)
	t.Cleanup(func() {
		require.NoError(t, controlplane.InstallCRDs(w.AdminConfig(), controlplane.OwnCRDs()))
	})
	require.NoError(t, w.Admin.Delete(t.Context(), &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: definitionName}}))
	checks := w.eventually("", "crd", func(c Result) bool { return c.Status == Error })
	require.Equal(t, "rrpool's CRD routereflectorpools.rrpool.io is not installed", checks["crd"].Message)
	require.Equal(t, OK, checks["decision"].Status, "the cluster can be looked at all the same: %s", checks["decision"].Message)
	checks, _, got := w.check("", "--pre")
	require.Zero(t, got.Code, got.Out)
	require.Equal(t, Note, checks["crd"].Status)
}

const apiKey = "not-to-be-shown-anywhere"

// onCloud makes the cluster one of IBM's, with a cloud that answers as IBM's does.
func (w *world) onCloud() *iksserver.Server {
	w.Helper()
	ibm := iksserver.New(iksserver.Config{APIKeys: []string{apiKey}})
	var zones []iksserver.Zone
	for _, id := range frankfurt {
		zones = append(zones, iksserver.Zone{ID: id, Subnets: []iksserver.Subnet{{ID: "sub-" + id, CIDR: "10.1.0.0/24", Available: 200}}})
	}
	ibm.AddCluster(iksserver.Cluster{
		ID: "c1", Name: "demo", Provider: iksserver.VPC, VPCID: "vpc-1", Zones: zones,
		Pools: []iksserver.Pool{{Name: "default", Flavor: "bx2.4x16", SizePerZone: 2, Zones: frankfurt}},
	})
	server := httptest.NewServer(ibm)
	w.Cleanup(func() { ibm.Close(); server.Close() })
	w.Setenv(iks.CSEndpointVariable, server.URL)
	w.Setenv(iks.IAMEndpointVariable, server.URL)
	w.install()
	w.nodes(2, "ibm://account///c1", frankfurt...)
	w.calico("calico-system", 6)
	w.Create(&corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: "cluster-info", Namespace: "kube-system"}, Data: map[string]string{"cluster-config.json": `{"cluster_id":"c1"}`},
	})
	return ibm
}

func (w *world) key(value string) {
	w.Helper()
	w.Create(&corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "rrpool-ibmcloud", Namespace: snapshot.DefaultNamespace}, StringData: map[string]string{"apikey": value},
	})
}

func TestOnIBMCloud(t *testing.T) {
	t.Run("a cluster that is fit", func(t *testing.T) {
		w := newWorld(t)
		ibm := w.onCloud()
		w.key(apiKey)
		checks, v, got := w.check("")
		require.Zero(t, got.Code, got.Out)
		require.True(t, v.Fit)
		require.Equal(t, OK, checks["provider"].Status)
		require.Contains(t, checks["provider"].Message, "IBM Cloud Kubernetes Service, which answers: no worker pool has the name route-reflectors yet")
		require.NotContains(t, got.Out+got.Err, apiKey)
		require.Equal(t, []string{"default"}, ibm.Pools("c1"), "nothing was ordered")
	})
	t.Run("a cluster that is not", func(t *testing.T) {
		w := newWorld(t)
		w.onCloud()
		checks, _, got := w.check("")
		require.Equal(t, 1, got.Code)
		require.Contains(t, checks["provider"].Message, `Secret "rrpool-ibmcloud" in namespace "rrpool-system" does not exist`)

		w.key("wrong-and-secret")
		checks, _, got = w.check("")
		require.Equal(t, 1, got.Code)
		require.Equal(t, Error, checks["provider"].Status)
		require.Contains(t, checks["provider"].Message, "CloudUnauthorized")
		require.NotContains(t, got.Out+got.Err, "wrong-and-secret")
	})
	t.Run("a cluster whose manager has a trusted profile", func(t *testing.T) {
		w := newWorld(t)
		ibm := w.onCloud()
		w.key("no longer valid, and not read")
		file := cli.PoolFile(t, "{provider: {iks: {credentials: {trustedProfile: {name: a b}}}}}")
		checks, _, got := w.check("", "--filename", file)
		require.Zero(t, got.Code)
		require.Equal(t, Note, checks["provider"].Status)
		require.NotEqual(t, Error, checks["decision"].Status, checks["decision"].Message)
		require.Empty(t, ibm.Requests())
	})
	t.Run("classic workers, which may all be updated at once", func(t *testing.T) {
		w := newWorld(t)
		w.onCloud()
		w.key(apiKey)
		node := &corev1.Node{}
		require.NoError(t, w.Admin.Get(t.Context(), client.ObjectKey{Name: frankfurt[0] + "-node-1"}, node))
		node.Labels["ibm-cloud.kubernetes.io/iaas-provider"] = "softlayer"
		require.NoError(t, w.Admin.Update(t.Context(), node))
		checks, _, _ := w.check("")
		require.Equal(t, Warning, checks["updates"].Status)
	})
}

// Calico's objects are in projectcalico.org/v3 alone, as in a new installation of Calico 3.33.
func TestCalicoInTheOtherGroupIsSeen(t *testing.T) {
	native := t.TempDir()
	require.NoError(t, controlplane.NativeCRDs(t.Context(), native))
	plane, err := controlplane.Start(t.Context(), controlplane.Options{CRDs: []string{native, controlplane.OwnCRDs()}})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, plane.Stop()) })
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	require.NoError(t, controlplane.WriteKubeconfig(kubeconfig, plane.AdminConfig()))
	admin, err := client.New(plane.AdminConfig(), client.Options{})
	require.NoError(t, err)
	for kind, spec := range map[string]map[string]any{
		"ClusterInformation": {"calicoVersion": "v3.33.1", "datastoreReady": true},
		"IPPool":             {"cidr": "172.30.0.0/16", "ipipMode": "Never", "vxlanMode": "Never"},
		"BGPConfiguration":   {"nodeToNodeMeshEnabled": false},
	} {
		o := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "projectcalico.org/v3", "kind": kind, "spec": spec}}
		o.SetName("default")
		require.NoError(t, admin.Create(t.Context(), o))
	}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", Annotations: map[string]string{"projectcalico.org/IPv4Address": "10.0.0.1/24"}}}
	require.NoError(t, admin.Create(t.Context(), node))

	got := cli.Ask(t, New, "check", "--pre", "--kubeconfig", kubeconfig)
	require.Contains(t, got.Out, "Calico v3.33.1 uses the Kubernetes datastore, with its objects in projectcalico.org/v3")
	require.Contains(t, got.Out, "kubectl patch bgpconfigurations.projectcalico.org default")
	require.Contains(t, got.Out, "172.30.0.0/16: not encapsulated")
	got = cli.Ask(t, status.New, "status", "--kubeconfig", kubeconfig, "-o", "json")
	require.Contains(t, got.Out, `"mesh": "off"`)
}

// The manager's own role is enough to see everything that decides, and what it does not
// let one look at is never right.
func TestTheManagersOwnRole(t *testing.T) {
	w := newWorld(t)
	w.install()
	w.nodes(3, "", "zone-a", "zone-b")
	w.calico("kube-system", 6)
	for _, o := range objects(t, "../../../config/rbac/role.yaml") {
		var role rbacv1.Role
		require.NoError(t, runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, &role))
		w.allow("as-manager", role.Namespace, role.Rules...)
	}
	all := fmt.Sprintf("all %d things", len(rbac.Rights("")))
	checks := w.eventually("as-manager", "manager-rights", func(c Result) bool { return strings.Contains(c.Message, all) })
	require.Equal(t, OK, checks["manager-rights"].Status, "who guards the metrics may ask what others may do")
	require.Contains(t, checks["bgp"].Message, "BGP is enabled", "its pods are seen, if not the DaemonSet")
	for _, id := range []string{"sight", "decision", "calico", "mesh", "as-numbers", "eligible", "zones"} {
		require.Contains(t, []Status{OK, Note}, checks[id].Status, "%s: %s", id, checks[id].Message)
	}
	for id, resource := range map[string]string{
		"crd": "customresourcedefinitions.apiextensions.k8s.io", "manager": "deployments.apps", "datastore": "clusterinformations",
		"calico-node": "daemonsets.apps", "node-status": "daemonsets.apps",
	} {
		require.Equal(t, Warning, checks[id].Status, id)
		require.True(t, checks[id].Unchecked, id)
		require.Contains(t, checks[id].Message, "may not", id)
		require.Contains(t, checks[id].Message, resource, id)
	}
	got := cli.Ask(t, New, "check", "--kubeconfig", w.kubeconfig("as-manager"))
	require.Zero(t, got.Code, "there is no ×")
	require.Contains(t, got.Out, "\nFit, as far as could be seen: 0 ×, ")
}

// Canal has another label, and here a namespace of its own; its nodes have BGP addresses as well.
func TestCanalIsNotFit(t *testing.T) {
	w := newWorld(t)
	w.fit()
	checks, _, _ := w.check("")
	require.Equal(t, OK, checks["bgp"].Status, checks["bgp"].Message)
	ds := &appsv1.DaemonSet{}
	require.NoError(t, w.Admin.Get(t.Context(), client.ObjectKey{Namespace: "calico-system", Name: "calico-node"}, ds))
	require.NoError(t, w.Admin.Delete(t.Context(), ds))
	require.NoError(t, w.Admin.DeleteAllOf(t.Context(), &corev1.Pod{}, client.InNamespace("calico-system"), client.GracePeriodSeconds(0)))
	checks, _, _ = w.check("")
	require.Equal(t, Warning, checks["bgp"].Status, "nothing of calico-node is seen")
	require.True(t, checks["bgp"].Unchecked)
	require.True(t, checks["calico-node"].Unchecked)

	w.namespace("canal")
	labels := map[string]string{"k8s-app": "canal"}
	canal := &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Name: "rke2-canal", Namespace: "canal"}}
	canal.Spec.Selector, canal.Spec.Template = &metav1.LabelSelector{MatchLabels: labels}, *ds.Spec.Template.DeepCopy()
	canal.Spec.Template.Labels = labels
	canal.Spec.Template.Spec.Containers[0].Env = append(canal.Spec.Template.Spec.Containers[0].Env, corev1.EnvVar{Name: calico.BackendVariable, ValueFrom: &corev1.EnvVarSource{
		ConfigMapKeyRef: &corev1.ConfigMapKeySelector{LocalObjectReference: corev1.LocalObjectReference{Name: "canal-config"}, Key: "backend"},
	}})
	w.Create(canal)
	checks, _, _ = w.check("")
	require.True(t, checks["bgp"].Unchecked, "its ConfigMap is not there: %s", checks["bgp"].Message)
	w.Create(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "canal-config", Namespace: "canal"}, Data: map[string]string{"backend": "none"}})
	checks, v, _ := w.check("")
	require.Equal(t, Error, checks["bgp"].Status)
	require.Contains(t, checks["bgp"].Message, `calico-node runs no BIRD (CALICO_NETWORKING_BACKEND of DaemonSet canal/rke2-canal is "none")`)
	require.False(t, v.Fit)
}

// The negative control: one right is taken from the manager, and it is named.
func TestOneRightIsMissing(t *testing.T) {
	w := newWorld(t)
	w.install()
	w.nodes(3, "", "zone-a", "zone-b")
	role := &rbacv1.ClusterRole{}
	require.NoError(t, w.Admin.Get(t.Context(), client.ObjectKey{Name: "rrpool-manager"}, role))
	role.Rules = slices.DeleteFunc(role.Rules, func(r rbacv1.PolicyRule) bool { return slices.Contains(r.Resources, "pods/eviction") })
	require.NoError(t, w.Admin.Update(t.Context(), role))
	checks := w.eventually("", "manager-rights", func(c Result) bool { return c.Status == Error })
	require.Equal(t, fmt.Sprintf("the manager lacks 1 of the %d rights that it needs: create pods/eviction", len(rbac.Rights(""))), checks["manager-rights"].Message)
	require.Contains(t, checks["manager-rights"].Remedy, "kubectl apply --server-side -k config/rbac")
}

var (
	// What differs from one run to the next.
	address  = regexp.MustCompile(`https://127\.0\.0\.1:\d+`)
	versions = regexp.MustCompile(`Kubernetes v\d\S+`)
)

// The example is what a real apiserver gives, but for its address and version; -update writes it.
func TestTheExampleOfTheDocs(t *testing.T) {
	w := newWorld(t)
	w.fit()
	command, output, _ := strings.Cut(cli.Blocks(t, "check", "console")[0], "\n")
	got := cli.AskIn(t, iostreams.Streams{}, New, append(strings.Fields(strings.TrimPrefix(command, "$ rrpool ")), "--kubeconfig", w.kubeconfig(""))...)
	require.Zero(t, got.Code, got.Out)
	out := versions.ReplaceAllString(address.ReplaceAllString(got.Out, "https://203.0.113.7:6443"), "Kubernetes v1.36.3")
	if flag.Lookup("update").Value.String() == "true" {
		require.NoError(t, os.WriteFile("../../../docs/check.md", []byte(strings.Replace(cli.Page(t, "check"), output, out, 1)), 0o600))
		return
	}
	require.Equal(t, output, out)
}

// The rights of the docs are enough to look at everything.
func TestTheRightsOfTheDocs(t *testing.T) {
	w := newWorld(t)
	w.onCloud()
	w.key(apiKey)
	w.meshPassword()
	w.allow("checker", "", cli.Roles(t, "check")[0].Rules...)
	var unchecked []string
	require.Eventually(t, func() bool {
		checks, _, _ := w.check("checker")
		unchecked = nil
		for id, c := range checks {
			if c.Unchecked || c.Status == Error {
				unchecked = append(unchecked, id+": "+c.Message)
			}
		}
		return len(unchecked) == 0
	}, authorizerLag, authorizerLag/1000, "%v", unchecked)

	checks, _, _ := w.check("checker", "-f", cli.PoolFile(t, "{provider: {type: ExistingNodes}}"))
	for id, c := range checks {
		require.False(t, c.Unchecked, "%s: %s", id, c.Message)
	}
}

// Bad input gets one sentence that names the field, the value and the remedy.
func TestBadInput(t *testing.T) {
	cli.RequireBad(t, New, "check", map[string]cli.Bad{
		"an unknown format":            {[]string{"-o", "xml"}, []string{"--output", `"xml"`, "use table, json, yaml"}},
		"a file that is a folder":      {[]string{"-f", "/"}, []string{"--filename", `"/"`, "is a directory"}},
		"two mistakes in one file":     {[]string{"-f", cli.PoolFile(t, "{mode: Fast, sizing: {min: 0}}")}, []string{"spec.mode", "spec.sizing.min"}},
		"standard input that is empty": {[]string{"-f", "-"}, []string{"--filename", "-: give a file with one RouteReflectorPool", "this has nothing"}},
	})
}

func TestClustersThatDoNotAnswer(t *testing.T) {
	for name, tc := range map[string]struct {
		kubeconfig string
		says       []string
	}{
		"a page for people": {cli.Serve(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("<html>\nlog in</html>")) })), []string{"get /version", "unable to parse the server version"}},
		"silence after the first word": {
			cli.Serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/version" {
					_, _ = w.Write([]byte(`{"gitVersion":"v1.31.4"}`))
					return
				}
				<-r.Context().Done()
			})),
			[]string{"did not answer within 2s"},
		},
		"a version that may not be known": {cli.Serve(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusForbidden) })), []string{"may not get /version"}},
	} {
		t.Run(name, func(t *testing.T) {
			got := cli.Ask(t, New, "check", "--kubeconfig", tc.kubeconfig, "--request-timeout", "2s")
			cli.RequireRefused(t, got, tc.says...)
		})
	}
}
