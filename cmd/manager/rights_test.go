package main

import (
	"context"
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/config/rbac"
	"github.com/rrpool/rrpool/controllers/calico"
	"github.com/rrpool/rrpool/test/controlplane"
	"github.com/rrpool/rrpool/test/fakenetwork"
)

// right is one verb on one resource: the least that can be taken from the manager.
type right rbac.Right

// String is the right as kubectl auth can-i would be asked for it.
func (r right) String() string {
	return strings.TrimSpace(fmt.Sprintf("%s %s.%s %s %s", r.Verb, r.Resource, r.Group, r.Name, r.Namespace))
}

func (r right) covers(e controlplane.AuditEvent) bool {
	return r.Verb == e.Verb && r.Group == e.Group && r.Resource == e.Resource && (r.Name == "" || r.Name == e.Name) &&
		(r.Namespace == "" || r.Namespace == e.Namespace)
}

// rule is the right as RBAC has it.
func (r right) rule() rbacv1.PolicyRule {
	rule := rbacv1.PolicyRule{APIGroups: []string{r.Group}, Resources: []string{r.Resource}, Verbs: []string{r.Verb}}
	if r.Name != "" {
		rule.ResourceNames = []string{r.Name}
	}
	return rule
}

// allRights are those of config/rbac, one by one.
func allRights(t *testing.T) []right {
	t.Helper()
	var out []right
	for _, r := range rbac.Rights(testNamespace) {
		out = append(out, right(r))
	}
	return out
}

// minimalRights is an administrator who gives the manager nothing that it has not been seen to lack.
type minimalRights struct {
	*testing.T
	plane   *controlplane.ControlPlane
	admin   client.Client
	user    string
	all     []right
	given   map[right]bool
	lacked  map[right]lack
	next    func() ([]controlplane.AuditEvent, error)
	log     string
	args    []string
	env     []string
	running *process
	metrics string
	token   string
	object  *v1alpha1.RouteReflectorPool
	read    bool // the metrics have been read
	began   time.Time
}

// lack is since when a right has been missing, and whether the mesh was on then.
type lack struct {
	since time.Time
	mesh  bool
}

// Every right of config/rbac is needed, and its lack is reported. The manager starts with no right at all and is
// given one after the other: each only when the apiserver has refused a request for want of it, the manager has
// said so by verb and resource, and nothing was removed meanwhile. What it has at the end of two migrations there
// and back, with the policies of config/policy in force, is config/rbac: no right less, none more. With Calico's
// objects in the second group it begins with all rights but those to them, and one migration is enough.
func TestEveryRightIsNeededAndItsLackIsReported(t *testing.T) {
	besideOthers(t)
	for _, group := range []string{calico.GroupV1.Group, calico.GroupV3.Group} {
		t.Run(group, func(t *testing.T) {
			t.Parallel()
			m := newMinimalRights(t, group)
			m.start()

			m.Log("on nodes that are there")
			m.object.Spec.Provider.Type = v1alpha1.ProviderExistingNodes
			m.object.Spec.Provider.ExistingNodes.Promotion = v1alpha1.PromotionDrain
			pod := calicoNode(t, m.admin, "10.1.0.1", corev1.EnvVar{ValueFrom: &corev1.EnvVarSource{ConfigMapKeyRef: &corev1.ConfigMapKeySelector{
				LocalObjectReference: corev1.LocalObjectReference{Name: "calico-config"}, Key: "calico_backend",
			}}})
			require.NoError(t, m.admin.Create(t.Context(), m.object))
			m.until("calico-node's ConfigMap may be read", func() bool { return m.given[right{"kube-system", "", "configmaps", "calico-config", "get"}] })
			require.NoError(t, m.admin.Delete(t.Context(), pod)) // the other nodes have no such pod, and never will
			m.until("Steady", m.steady)
			require.Len(t, m.object.Status.Reflectors, 3)
			peers, err := fakenetwork.Written(m.Context(), m.admin, "BGPPeer") // ours, which another writer changes
			require.NoError(m, err)
			require.NotEmpty(m, peers)
			require.NoError(m, unstructured.SetNestedField(peers[0].Object, "has(elsewhere)", "spec", "nodeSelector"))
			require.NoError(m, m.admin.Update(m.Context(), &peers[0]))
			m.until("the BGPPeer is put right", func() bool {
				peers, err := fakenetwork.Written(m.Context(), m.admin, "BGPPeer")
				require.NoError(m, err)
				return !slices.ContainsFunc(peers, func(p unstructured.Unstructured) bool {
					selector, _, _ := unstructured.NestedString(p.Object, "spec", "nodeSelector")
					return selector == "has(elsewhere)"
				}) && m.steady()
			})
			m.peer()
			m.leave()
			// The nodes are as they were, and of ours there is nothing.
			var nodes corev1.NodeList
			require.NoError(t, m.admin.List(t.Context(), &nodes))
			for _, n := range nodes.Items {
				require.Equal(t, map[string]string{corev1.LabelTopologyZone: n.Labels[corev1.LabelTopologyZone]}, n.Labels, n.Name)
				require.Equal(t, map[string]string{fakenetwork.IPv4Annotation: n.Name + "/24"}, n.Annotations, n.Name)
				require.False(t, n.Spec.Unschedulable, n.Name)
			}
			for _, kind := range []string{"BGPPeer", "CalicoNodeStatus", "BGPConfiguration"} {
				left, err := fakenetwork.Written(t.Context(), m.admin, kind)
				require.NoError(t, err)
				require.Empty(t, left, "%s: nothing is left behind", kind)
			}

			if group == calico.GroupV3.Group {
				m.complete()
				return
			}
			m.Log("on IBM Cloud")
			m.object = &v1alpha1.RouteReflectorPool{ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.SingletonName}}
			m.object.Spec.Provider.Type = v1alpha1.ProviderIKS
			m.object.Spec.Provider.IKS.DeletionPolicy = v1alpha1.DeletionDelete
			require.NoError(t, m.admin.Create(t.Context(), m.object))
			m.until("Steady", m.steady)
			m.leave()
			m.until("the metrics are read", func() bool { return m.read })
			m.repeat()
			m.complete()
		})
	}
}

// complete: of what it was not given, nothing is in config/rbac.
func (m *minimalRights) complete() {
	m.Helper()
	var unneeded []string
	for _, r := range m.all {
		if !m.given[r] {
			unneeded = append(unneeded, r.String())
		}
	}
	require.Empty(m, unneeded, "rights that nothing needs: take them out of controllers/*/setup.go")
}

// newMinimalRights has a cluster on IBM Cloud whose nodes run pods, and a manager that may do nothing.
func newMinimalRights(t *testing.T, group string) *minimalRights {
	t.Helper()
	definitions, err := controlplane.CalicoCRDs(t.Context())
	require.NoError(t, err)
	if group == calico.GroupV3.Group {
		definitions = t.TempDir()
		require.NoError(t, controlplane.NativeCRDs(t.Context(), definitions))
	}
	plane, err := controlplane.Start(t.Context(), controlplane.Options{
		AuditReads: true, CRDs: []string{definitions, controlplane.OwnCRDs()},
		// As apiservers before 1.32 are: where a watch brings what there is, nothing is listed.
		APIServerFlags: []string{"--feature-gates=WatchList=false"},
	})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, plane.Stop()) })
	// The rights of a cluster that has Calico's objects in one group and, in the second, a kind to move them.
	first := group == calico.GroupV1.Group
	m := &minimalRights{
		T: t, plane: plane, admin: adminOf(t, plane), user: controlplane.ServiceAccountUser(testNamespace, "rrpool-manager"),
		all: slices.DeleteFunc(allRights(t), func(r right) bool {
			if r.Group == calico.GroupV1.Group || r.Group == calico.GroupV3.Group {
				return r.Group != group || first && r.Resource == "caliconodestatuses/status"
			}
			return first && (r.Group == "migration.projectcalico.org" || r.Group == "apiextensions.k8s.io")
		}), given: map[right]bool{}, lacked: map[right]lack{}, began: time.Now(),
		object: &v1alpha1.RouteReflectorPool{ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.SingletonName}},
		log:    filepath.Join(t.TempDir(), "log"),
	}
	for _, r := range m.all { // the test of the first group shows that the others are needed
		if !first && !strings.Contains(r.Group, "projectcalico.org") && r.Group != "apiextensions.k8s.io" {
			m.given[r] = true
		}
	}
	m.next = plane.Follow(m.user)
	cluster(t, m.admin)
	m.grant()
	for _, file := range []string{"nodes", "labels", "calico", "pool"} {
		for _, object := range decode(t, filepath.Join("..", "..", "config", "policy", file+".yaml")) {
			require.NoError(t, m.admin.Create(t.Context(), object))
		}
	}
	for i := range 6 {
		runPod(t, m.admin, fmt.Sprintf("10.1.0.%d", i+1), fmt.Sprintf("web-%d", i+1), "ReplicaSet")
	}
	letRead(t, m.admin, "scraper")
	m.token = tokenOf(t, m.admin, "scraper")
	go quickNetwork(m.admin).Run(t.Context(), 200*time.Millisecond)
	go fakeKubelet(t.Context(), m.admin)

	config := plane.ServiceAccountConfig(testNamespace, "rrpool-manager")
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	require.NoError(t, controlplane.WriteKubeconfig(kubeconfig, config))
	address := freeAddress(t)
	m.metrics = "https://" + address + "/metrics"
	m.args = []string{"--kubeconfig=" + kubeconfig, "--namespace=" + testNamespace, "--metrics-bind-address=" + address, "--health-probe-bind-address=0"}
	pace := fastClock{epoch: time.Now(), speed: 8, lease: 5 * time.Second}
	m.env = append(endpoints(t, cloudFor(t, m.admin)), pace.variable())
	t.Cleanup(func() { m.running.stop() })
	return m
}

// start starts the manager again, too; its log goes on.
func (m *minimalRights) start() { m.running = launchInto(m.T, m.log, m.env, m.args...) }

// until gives what is found lacking, until something is so. A manager that has ended for
// want of a right is started again, as Kubernetes does.
func (m *minimalRights) until(what string, so func() bool) {
	m.Helper()
	for end := time.Now().Add(8 * time.Minute); !so(); {
		require.True(m, time.Now().Before(end), "%s: never; the step is %+v, lacking are %v", what, m.object.Status.Step, m.lacked)
		select {
		case <-m.running.Done():
			m.start()
		case <-time.After(150 * time.Millisecond):
		}
		m.look()
		m.read = m.read || m.scraped()
	}
	m.Logf("%s, with %d rights, after %s", what, len(m.given), time.Since(m.began).Round(time.Second))
}

// look finds what has been refused, and gives what has been lacking for long enough.
func (m *minimalRights) look() {
	m.Helper()
	requests, err := m.next()
	require.NoError(m, err)
	for _, request := range requests {
		if request.Code != http.StatusForbidden {
			continue
		}
		i := slices.IndexFunc(m.all, func(r right) bool { return r.covers(request) })
		require.GreaterOrEqual(m, i, 0, "refused, and not in config/rbac: %s", request)
		r := m.all[i]
		if _, known := m.lacked[r]; !known && !m.given[r] {
			m.lacked[r] = lack{time.Now(), m.mesh()}
		}
	}
	require.NotContains(m, m.running.said(), "ValidatingAdmissionPolicy", "a policy is in the way of the manager's own writes")
	var found []right
	for r, l := range m.lacked {
		if time.Since(l.since) < 300*time.Millisecond || !m.reported(r) { // it lacks for several attempts
			continue
		}
		m.requireNothingRemoved(r, l)
		delete(m.lacked, r)
		m.given[r] = true
		found = append(found, r)
		m.Logf("lacked: %s", r)
	}
	if len(found) > 0 {
		m.grant()
		for _, r := range found {
			awaitRight(m.T, m.admin, r)
		}
		m.wake()
	}
}

// reported: the manager has said what it may not do, in the apiserver's own words: in a
// condition, or, where it has none to write to or is not up yet, in its log.
func (m *minimalRights) reported(r right) bool {
	words := fmt.Sprintf("cannot %s resource %q in API group %q", r.Verb, r.Resource, r.Group)
	for _, c := range m.object.Status.Conditions {
		if strings.Contains(c.Message, words) {
			m.Logf("%s: %s: %.300s", c.Type, c.Reason, c.Message)
			return true
		}
	}
	return strings.Contains(strings.ReplaceAll(m.running.said(), `\`, ""), words)
}

// requireNothingRemoved: while a right is lacking, the manager takes away nothing that
// carries routes: the mesh is not switched off, no BGPPeer goes.
func (m *minimalRights) requireNothingRemoved(r right, l lack) {
	m.Helper()
	require.False(m, l.mesh && !m.mesh(), "the mesh was switched off while the right to %s was lacking", r)
	writes, err := m.plane.Writes(m.user, l.since)
	require.NoError(m, err)
	for _, w := range writes {
		removed := w.Verb == "delete" && (w.Resource == "bgppeers" || w.Resource == "bgpconfigurations")
		require.False(m, removed && w.Code < 300, "while the right to %s was lacking: %s", r, w)
	}
}

func (m *minimalRights) mesh() bool {
	configs, err := fakenetwork.Written(m.Context(), m.admin, "BGPConfiguration")
	require.NoError(m, err)
	return fakenetwork.Config(configs).MeshOn()
}

func (m *minimalRights) grant() {
	m.Helper()
	rules := map[string][]rbacv1.PolicyRule{"": {}, "default": {}, "kube-system": {}, testNamespace: {}}
	for _, r := range m.all {
		if m.given[r] {
			rules[r.Namespace] = append(rules[r.Namespace], r.rule())
		}
	}
	for namespace, rules := range rules {
		meta := metav1.ObjectMeta{Namespace: namespace, Name: "rrpool-manager"}
		var role client.Object = &rbacv1.Role{ObjectMeta: meta, Rules: rules}
		if namespace == "" {
			role = &rbacv1.ClusterRole{ObjectMeta: meta, Rules: rules}
		}
		require.NoError(m, m.admin.Update(m.Context(), role))
	}
}

// wake has the manager look again: after failures it waits longer and longer, and after
// a refusal of the provider's for minutes, unless it is started again.
func (m *minimalRights) wake() {
	m.Helper()
	if ready := meta.FindStatusCondition(m.object.Status.Conditions, v1alpha1.ConditionReady); ready != nil && ready.Reason == "CloudUnauthorized" {
		m.Log("started again")
		_ = m.running.Signal(syscall.SIGTERM)
		return
	}
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: testNamespace, Name: "rrpool-ibmcloud"}}
	require.NoError(m, m.admin.Get(m.Context(), client.ObjectKeyFromObject(secret), secret))
	metav1.SetMetaDataAnnotation(&secret.ObjectMeta, "given", fmt.Sprint(len(m.given)))
	require.NoError(m, m.admin.Update(m.Context(), secret))
}

func (m *minimalRights) steady() bool {
	require.NoError(m, m.admin.Get(m.Context(), client.ObjectKeyFromObject(m.object), m.object))
	return m.object.Status.Step.Name == "Steady"
}

// peer makes a ClusterPeering, changes what is written for it as another writer does, and deletes it.
func (m *minimalRights) peer() {
	m.Helper()
	peering := &v1alpha1.ClusterPeering{ObjectMeta: metav1.ObjectMeta{Name: "other"}}
	peering.Spec.Remote.Static = &v1alpha1.StaticRemote{ASNumber: 64513, Reflectors: []string{"10.9.0.1"}, PodCIDRs: []string{"10.210.0.0/16"}}
	require.NoError(m, m.admin.Create(m.Context(), peering))
	m.until("another cluster is peered with", func() bool {
		require.NoError(m, m.admin.Get(m.Context(), client.ObjectKeyFromObject(peering), peering))
		ready := meta.FindStatusCondition(peering.Status.Conditions, v1alpha1.ConditionReady)
		return ready != nil && ready.Reason == "SessionsMissing"
	})
	for kind, field := range map[string]string{"BGPFilter": "exportV4", "IPPool": "disabled"} {
		objects, err := fakenetwork.Written(m.Context(), m.admin, kind)
		require.NoError(m, err)
		require.Len(m, objects, 1)
		unstructured.RemoveNestedField(objects[0].Object, "spec", field)
		require.NoError(m, m.admin.Update(m.Context(), &objects[0]))
		m.until("the "+kind+" is put right", func() bool {
			objects, err = fakenetwork.Written(m.Context(), m.admin, kind)
			require.NoError(m, err)
			_, there, _ := unstructured.NestedFieldNoCopy(objects[0].Object, "spec", field)
			return there
		})
	}
	require.NoError(m, m.admin.Delete(m.Context(), peering))
	m.until("the peering is gone", func() bool {
		return apierrors.IsNotFound(m.admin.Get(m.Context(), client.ObjectKeyFromObject(peering), peering))
	})
}

// repeat sends the same event twice about the same version of an object, as the manager.
// That is a matter of milliseconds, and happens in few migrations: client-go then writes the
// second one as a patch, and says in the log that the apiserver rejected it.
func (m *minimalRights) repeat() {
	m.Helper()
	repeats := right{"default", "events.k8s.io", "events", "", "patch"}
	if m.given[repeats] {
		return
	}
	config := m.plane.ServiceAccountConfig(testNamespace, "rrpool-manager")
	kube, err := kubernetes.NewForConfig(config)
	require.NoError(m, err)
	ctx, cancel := context.WithCancel(m.Context())
	defer cancel()
	broadcaster := events.NewBroadcaster(&events.EventSinkImpl{Interface: kube.EventsV1()})
	require.NoError(m, broadcaster.StartRecordingToSinkWithContext(ctx))
	recorder := broadcaster.NewRecorder(m.admin.Scheme(), eventSource)
	about := &v1alpha1.RouteReflectorPool{ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.SingletonName, ResourceVersion: "1", UID: "1"}}
	since := time.Now()
	for range 2 {
		recorder.Eventf(about, nil, corev1.EventTypeNormal, "Repeated", "Repeat", "the same")
	}
	await(m.T, 20*time.Second, func(c *assert.CollectT) {
		requests, err := m.plane.Requests(m.user, since)
		require.NoError(c, err)
		require.True(c, slices.ContainsFunc(requests, func(e controlplane.AuditEvent) bool {
			return repeats.covers(e) && e.Code == http.StatusForbidden
		}))
	})
	m.given[repeats] = true
}

func (m *minimalRights) leave() {
	m.Helper()
	require.NoError(m, m.admin.Delete(m.Context(), m.object))
	m.until("gone", func() bool {
		return apierrors.IsNotFound(m.admin.Get(m.Context(), client.ObjectKeyFromObject(m.object), m.object))
	})
	var nodes corev1.NodeList
	require.NoError(m, m.admin.List(m.Context(), &nodes))
	for _, n := range nodes.Items {
		require.NotContains(m, n.Labels, fakenetwork.RoleLabel)
	}
}

func (m *minimalRights) scraped() bool {
	ctx, cancel := context.WithTimeout(m.Context(), time.Second)
	defer cancel()
	code, _, err := fetch(ctx, m.metrics, m.token)
	return err == nil && code == http.StatusOK
}
