package main

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	authorizationv1 "k8s.io/api/authorization/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/rrpool/rrpool/cloud/cost"
	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/config/rbac"
	"github.com/rrpool/rrpool/controllers/calico"
	"github.com/rrpool/rrpool/test/controlplane"
	"github.com/rrpool/rrpool/test/controlplane/intercept"
	"github.com/rrpool/rrpool/test/fakenetwork"
	"github.com/rrpool/rrpool/test/iksserver"
)

func TestMain(m *testing.M) {
	if value := os.Getenv(childVariable); value != "" {
		os.Exit(runManager(value))
	}
	controlplane.Main(m)
}

const (
	testClusterID = "c1"
	testKey       = "not-to-be-seen"
	testNamespace = "rrpool-system"
	testRegion    = "us-south"
)

// The manager as it is deployed, with the rights of config/rbac and no others:
// a cluster's migration there and back, but for the packets.
func TestMigrationThereAndBack(t *testing.T) {
	besideOthers(t)
	plane := controlplane.ForTest(t)
	admin := adminOf(t, plane)
	began := time.Now()
	cluster(t, admin)
	cloud := cloudFor(t, admin)
	env := endpoints(t, cloud)
	theirs := writeConfig(t, admin, "Info")
	theirs["logSeverityScreen"] = "Debug"
	config := plane.ServiceAccountConfig(testNamespace, "rrpool-manager")
	var once sync.Once
	between := intercept.New() // another writer is faster: once, just before a change of the BGPConfiguration arrives
	between.Rules(func(r intercept.Request) intercept.Verdict {
		if r.Write() && r.Resource == "bgpconfigurations" {
			once.Do(func() { writeConfig(t, admin, "Debug") })
		}
		return intercept.Verdict{}
	})
	line, err := between.Open("manager", config, nil, func() {})
	require.NoError(t, err)
	t.Cleanup(line.Close)
	config = line.Config()

	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go quickNetwork(admin).Run(ctx, 200*time.Millisecond)
	manager := start(t, config, env)
	defer func() { manager.stop() }()

	object := &v1alpha1.RouteReflectorPool{ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.SingletonName}}
	object.Spec.Provider.IKS.DeletionPolicy = v1alpha1.DeletionDelete
	require.NoError(t, admin.Create(ctx, object))
	last := ""
	await(t, 5*time.Minute, func(c *assert.CollectT) {
		require.NoError(c, admin.Get(ctx, client.ObjectKeyFromObject(object), object))
		if step := object.Status.Step; step.Name != last {
			t.Logf("%s: %s %v", step.Name, step.Reason, step.WaitingFor)
			last = step.Name
		}
		require.Equal(c, "Steady", object.Status.Step.Name)
	})
	require.Equal(t, metav1.ConditionTrue, object.Status.Conditions[0].Status, "%+v", object.Status.Conditions)
	require.Len(t, object.Status.Reflectors, 3)
	// What the cloud has in the pool is what is reported to cost, and has a price.
	var pool []cost.Machine
	for _, w := range cloud.Workers(testClusterID, object.Spec.Provider.IKS.PoolName) {
		pool = append(pool, cost.Machine{Flavor: w.Flavor, Region: testRegion})
	}
	require.Len(t, pool, 3)
	require.Equal(t, cost.Builtin().Status(pool), object.Status.Cost)
	require.NotEmpty(t, object.Status.Cost.Monthly)
	require.Empty(t, cloud.Untainted("route-reflectors"))

	// At rest, and across a restart, nothing is written.
	user := controlplane.ServiceAccountUser(testNamespace, "rrpool-manager")
	quiet := time.Now()
	manager.stop()
	manager = start(t, config, env)
	time.Sleep(5 * time.Second) // a silence can only be waited for
	writes, err := plane.Writes(user, quiet)
	require.NoError(t, err)
	for _, write := range writes {
		require.True(t, write.Lease() || write.Resource == "events", "%s", write)
	}
	requests, err := plane.Requests(user, quiet)
	require.NoError(t, err)
	require.True(t, slices.ContainsFunc(requests, func(r controlplane.AuditEvent) bool { return r.Verb == "list" && r.Resource == "nodes" }),
		"whether the watch of Nodes goes on is not looked at")

	require.NoError(t, admin.Delete(ctx, object))
	await(t, 5*time.Minute, func(c *assert.CollectT) {
		require.True(c, apierrors.IsNotFound(admin.Get(ctx, client.ObjectKeyFromObject(object), object)),
			"%+v", object.Status.Step)
	})
	require.Empty(t, cloud.Workers(testClusterID, "route-reflectors"))
	for _, kind := range []string{"BGPPeer", "CalicoNodeStatus"} {
		left, err := fakenetwork.Written(ctx, admin, kind)
		require.NoError(t, err)
		require.Empty(t, left, "%s: nothing is left behind", kind)
	}
	// The BGPConfiguration is as others wrote it, and no more.
	configs, err := fakenetwork.Written(t.Context(), admin, "BGPConfiguration")
	require.NoError(t, err)
	require.Len(t, configs, 1)
	require.Equal(t, theirs, configs[0].Object["spec"])
	require.NotContains(t, fmt.Sprint(configs[0].GetAnnotations()), "rrpool")
	require.Empty(t, configs[0].GetLabels())
	requireAllowed(t, plane, user, began)
	// An update really came too late, and was not forced.
	writes, err = plane.Writes(user, began)
	require.NoError(t, err)
	require.True(t, slices.ContainsFunc(writes, func(w controlplane.AuditEvent) bool {
		return w.Resource == "bgpconfigurations" && w.Code == http.StatusConflict
	}), "no write was faster")
	var events eventsv1.EventList
	require.NoError(t, admin.List(ctx, &events))
	require.NotContains(t, fmt.Sprint(events), testKey)
}

// requireAllowed: the rights suffice.
func requireAllowed(t *testing.T, plane *controlplane.ControlPlane, user string, since time.Time) {
	t.Helper()
	requests, err := plane.Requests(user, since)
	require.NoError(t, err)
	require.NotEmpty(t, requests)
	for _, request := range requests {
		require.NotEqual(t, 403, request.Code, "%s", request)
	}
}

func adminOf(t *testing.T, plane *controlplane.ControlPlane) client.Client {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		authorizationv1.AddToScheme, corev1.AddToScheme, coordinationv1.AddToScheme, eventsv1.AddToScheme, rbacv1.AddToScheme, v1alpha1.AddToScheme,
	} {
		require.NoError(t, add(scheme))
	}
	admin, err := client.New(plane.AdminConfig(), client.Options{Scheme: scheme})
	require.NoError(t, err)
	return admin
}

// running is a manager at work, and where its metrics are.
type running struct {
	*process
	metrics string
}

// start runs the manager until it is stopped. Another program may have got one of its addresses
// before it listens: then it is started again with others.
func start(t *testing.T, config *rest.Config, env []string, more ...string) running {
	t.Helper()
	path := filepath.Join(t.TempDir(), "kubeconfig")
	require.NoError(t, controlplane.WriteKubeconfig(path, config))
	for {
		probes, metrics := freeAddress(t), freeAddress(t)
		process := launch(t, env, append([]string{
			"--kubeconfig=" + path, "--namespace=" + testNamespace,
			"--metrics-bind-address=" + metrics, "--health-probe-bind-address=" + probes,
		}, more...)...)
		if process.ready(probes) {
			return running{process, "https://" + metrics + "/metrics"}
		}
		said, err := process.ended()
		require.Contains(t, said, syscall.EADDRINUSE.Error(), "it ended before it was ready: %v", err)
	}
}

// ready waits until the probes say so; false when the manager has ended before.
func (p *process) ready(probes string) bool {
	p.t.Helper()
	var ended bool
	await(p.t, 3*time.Minute, func(c *assert.CollectT) {
		select {
		case <-p.Done():
			ended = true
			return
		default:
		}
		for _, path := range []string{"/healthz", "/readyz"} {
			code, body := get(c, "http://"+probes+path, "")
			require.Equal(c, http.StatusOK, code)
			require.Contains(c, body, "ok")
		}
	})
	return !ended
}

// freeAddress is one on which no program listens at the moment.
func freeAddress(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { require.NoError(t, listener.Close()) }()
	return listener.Addr().String()
}

// cluster has six nodes on IBM Cloud, and a manager with its rights and its key.
func cluster(t *testing.T, admin client.Client) {
	t.Helper()
	withRights(t, admin)
	require.NoError(t, admin.Create(t.Context(), &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: testNamespace, Name: "rrpool-ibmcloud"},
		Data:       map[string][]byte{"apikey": []byte(testKey)},
	}))
	require.NoError(t, admin.Create(t.Context(), &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "cluster-info"},
		Data:       map[string]string{"cluster-config.json": fmt.Sprintf(`{"cluster_id":%q}`, testClusterID)},
	}))
	for i := range 6 {
		join(t, admin, machine(t, fmt.Sprintf("10.1.0.%d", i+1), fmt.Sprintf("w%d", i+1), fmt.Sprintf("us-south-%d", i%3+1)))
	}
}

// withRights gives the manager its namespace and the rights of config/rbac, and waits until the apiserver knows of them.
func withRights(t *testing.T, admin client.Client) {
	t.Helper()
	require.NoError(t, client.IgnoreAlreadyExists(admin.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: testNamespace}})))
	for _, file := range []string{"role.yaml", "bindings.yaml"} {
		for _, object := range decode(t, filepath.Join("..", "..", "config", "rbac", file)) {
			require.NoError(t, admin.Create(t.Context(), object))
		}
	}
	for _, r := range allRights(t) {
		awaitRight(t, admin, r)
	}
}

// awaitRight waits until the apiserver knows that the manager has a right: it learns of them by a
// watch, a moment after they were written, and what it refuses until then would count.
func awaitRight(t *testing.T, admin client.Client, r right) {
	t.Helper()
	resource, sub, _ := strings.Cut(r.Resource, "/")
	await(t, 2*time.Minute, func(c *assert.CollectT) {
		review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
			User: controlplane.ServiceAccountUser(testNamespace, rbac.ServiceAccount),
			ResourceAttributes: &authorizationv1.ResourceAttributes{
				Namespace: r.Namespace, Group: r.Group, Resource: resource, Subresource: sub, Name: r.Name, Verb: r.Verb,
			},
		}}
		require.NoError(c, admin.Create(t.Context(), review))
		require.True(c, review.Status.Allowed, "%s", r)
	})
}

func decode(t *testing.T, path string) []client.Object {
	t.Helper()
	content, err := os.ReadFile(path)
	require.NoError(t, err)
	objects, err := controlplane.Objects(content)
	require.NoError(t, err)
	var out []client.Object
	for _, o := range objects {
		out = append(out, o)
	}
	return out
}

func quickNetwork(admin client.Client) *fakenetwork.Network {
	return &fakenetwork.Network{Client: admin, Now: fastClock{epoch: time.Now(), speed: 200}.now, Polls: true}
}

func join(t *testing.T, admin client.Client, node *corev1.Node) {
	t.Helper()
	ctx := context.Background()
	require.NoError(t, admin.Create(ctx, node))
	node.Status.Conditions = []corev1.NodeCondition{{
		Type: corev1.NodeReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.Now(), Reason: "Test",
	}}
	require.NoError(t, admin.Status().Update(ctx, node))
}

func cloudFor(t *testing.T, admin client.Client) *iksserver.Server {
	t.Helper()
	given := map[string]int{}
	server := iksserver.New(iksserver.Config{
		APIKeys: []string{testKey}, Profile: iksserver.Chosen(),
		AllocateIP: func(zone, _ string) string {
			given[zone]++
			return fmt.Sprintf("10.24%s.0.%d", zone[len(zone)-1:], given[zone])
		},
		OnDeployed: func(w iksserver.Worker) {
			node := machine(t, w.IP, w.ID, w.Zone)
			for key, value := range w.Labels {
				node.Labels[key] = value
			}
			node.Labels["ibm-cloud.kubernetes.io/worker-id"] = w.ID
			node.Labels["ibm-cloud.kubernetes.io/machine-type"] = w.Flavor
			node.Labels["ibm-cloud.kubernetes.io/region"] = testRegion
			for key, value := range w.BornTaints {
				value, effect, _ := strings.Cut(value, ":")
				node.Spec.Taints = append(node.Spec.Taints, corev1.Taint{Key: key, Value: value, Effect: corev1.TaintEffect(effect)})
			}
			join(t, admin, node)
		},
		OnDeleted: func(w iksserver.Worker) {
			_ = admin.Delete(context.Background(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: w.IP}})
		},
	})
	seed := iksserver.Cluster{ID: testClusterID, Name: "test", Provider: iksserver.VPC, VPCID: "r006-test"}
	base := iksserver.Pool{Name: "default", Flavor: "bx2.4x16", SizePerZone: 2}
	for i := range 3 {
		zone := fmt.Sprintf("us-south-%d", i+1)
		seed.Zones = append(seed.Zones, iksserver.Zone{ID: zone, Subnets: []iksserver.Subnet{
			{ID: fmt.Sprintf("0717-subnet-%d", i+1), CIDR: "10.240.0.0/16", Available: 200},
		}})
		base.Zones = append(base.Zones, zone)
	}
	seed.Pools = []iksserver.Pool{base}
	server.AddCluster(seed)
	t.Cleanup(server.Close)
	return server
}

// endpoints serves a cloud and gives the variables that lead a manager there.
func endpoints(t *testing.T, cloud http.Handler) []string {
	t.Helper()
	web := httptest.NewServer(cloud)
	t.Cleanup(web.Close)
	return []string{"IBMCLOUD_CS_API_ENDPOINT=" + web.URL, "IBMCLOUD_IAM_API_ENDPOINT=" + web.URL}
}

func await(t *testing.T, limit time.Duration, check func(*assert.CollectT)) {
	t.Helper()
	require.EventuallyWithT(t, check, limit, 100*time.Millisecond)
}

// writeConfig changes a setting of the BGPConfiguration, as another writer does. It
// gives all the settings that there are then.
func writeConfig(t *testing.T, admin client.Client, level string) map[string]any {
	t.Helper()
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(calico.GroupV1.WithKind("BGPConfiguration"))
	object.SetName("default")
	_, err := controllerutil.CreateOrUpdate(t.Context(), admin, object, func() error {
		return unstructured.SetNestedField(object.Object, level, "spec", "logSeverityScreen")
	})
	require.NoError(t, err)
	spec, _, _ := unstructured.NestedMap(object.Object, "spec")
	return spec
}

func machine(t *testing.T, name, worker, zone string) *corev1.Node {
	t.Helper()
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Labels: map[string]string{corev1.LabelTopologyZone: zone},
			Annotations: map[string]string{fakenetwork.IPv4Annotation: name + "/24"},
		},
		Spec: corev1.NodeSpec{ProviderID: "ibm://account///" + testClusterID + "/" + worker},
	}
}

func runPod(t *testing.T, admin client.Client, node, name, owner string) {
	t.Helper()
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
		Spec:       corev1.PodSpec{NodeName: node, Containers: []corev1.Container{{Name: "c", Image: "i"}}},
	}
	if owner != "" {
		pod.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: owner, Name: "o", UID: "1", Controller: ptr.To(true)}}
	}
	require.NoError(t, admin.Create(t.Context(), pod))
	pod.Status.Phase = corev1.PodRunning
	require.NoError(t, admin.Status().Update(t.Context(), pod))
}

// calicoNode makes calico-node's pod of a node, with this networking backend.
func calicoNode(t *testing.T, admin client.Client, node string, backend corev1.EnvVar) *corev1.Pod {
	t.Helper()
	backend.Name = "CALICO_NETWORKING_BACKEND"
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "kube-system", Name: "calico-node", Labels: map[string]string{"k8s-app": "calico-node"},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "DaemonSet", Name: "calico-node", UID: "calico-node", Controller: ptr.To(true)}},
		},
		Spec: corev1.PodSpec{NodeName: node, HostNetwork: true, Containers: []corev1.Container{{Name: "c", Image: "i", Env: []corev1.EnvVar{backend}}}},
	}
	require.NoError(t, admin.Create(t.Context(), pod))
	return pod
}

func fakeKubelet(ctx context.Context, admin client.Client) {
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			var pods corev1.PodList
			_ = admin.List(ctx, &pods)
			for i := range pods.Items {
				if pods.Items[i].DeletionTimestamp != nil {
					_ = admin.Delete(ctx, &pods.Items[i], client.GracePeriodSeconds(0))
				}
			}
		}
	}
}
