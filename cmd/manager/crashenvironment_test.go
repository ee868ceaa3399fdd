package main

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/test/controlplane"
	"github.com/rrpool/rrpool/test/controlplane/intercept"
	"github.com/rrpool/rrpool/test/fakenetwork"
	"github.com/rrpool/rrpool/test/iksserver"
)

// speed is how much faster than real time the managers of these tests run. Above it a
// busy machine's answers come too late by their clocks.
const speed = 10

// environment is a cluster whose managers are killed, held up and replaced. Its scenarios
// follow each other: each leaves the cluster as it was.
type environment struct {
	*testing.T
	kind     v1alpha1.ProviderType
	plane    *controlplane.ControlPlane
	admin    client.Client
	cloud    *iksserver.Server
	clock    fastClock
	net      *fakenetwork.Network
	between  *intercept.Interceptor
	identity *rest.Config
	// managers that run or ran in this scenario, the latest last.
	mu       sync.Mutex
	managers []*managerProcess
	args     []string
	// onWrite sees every write that was answered, if set.
	onWrite func(intercept.Request)
}

// managerProcess is a manager that is killed when its line is cut.
type managerProcess struct {
	*process
	name string
	line *intercept.Line
}

// newEnvironment has a cluster of six nodes, on IBM Cloud or elsewhere.
func newEnvironment(t *testing.T, kind v1alpha1.ProviderType) *environment {
	t.Helper()
	t.TempDir() // so that it goes after the managers, which log there
	a := &environment{T: t, kind: kind, clock: fastClock{epoch: time.Now(), speed: speed}, between: intercept.New()}
	if kind == v1alpha1.ProviderIKS {
		a.plane = auditedPlane(t)
		a.admin = adminOf(t, a.plane)
		cluster(t, a.admin)
	} else {
		// Six nodes in three zones, each with a pod that can move, one that cannot, and one of a DaemonSet.
		a.plane = auditedPlane(t)
		a.admin = adminOf(t, a.plane)
		withRights(t, a.admin)
		for i := range 6 {
			node := machine(t, fmt.Sprintf("10.1.0.%d", i+1), "", fmt.Sprintf("zone-%d", i%3+1))
			node.Spec.ProviderID = fmt.Sprintf("kind://docker/test/%d", i+1)
			join(t, a.admin, node)
			for name, owner := range map[string]string{"web": "ReplicaSet", "log": "DaemonSet", "bare": ""} {
				runPod(t, a.admin, node.Name, fmt.Sprintf("%s-%d", name, i+1), owner)
			}
		}
	}
	a.identity = a.plane.ServiceAccountConfig(testNamespace, "rrpool-manager")
	a.net = &fakenetwork.Network{Client: a.admin, Now: a.clock.now}
	require.NoError(t, a.net.Take(t.Context(), "the beginning"))
	a.between.Observe(func(r intercept.Request) {
		if r.Executed() && (r.Resource == "nodes" || r.Resource == "bgppeers" || r.Resource == "bgpconfigurations") {
			a.look(r.String())
		}
		if a.onWrite != nil {
			a.onWrite(r)
		}
	})
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	t.Cleanup(cancel)
	go a.net.Run(ctx, 30*time.Millisecond)
	if kind != v1alpha1.ProviderIKS {
		go fakeKubelet(ctx, a.admin)
	}
	t.Cleanup(a.stopAll)
	return a
}

func (a *environment) look(why string) {
	if err := a.net.Take(context.WithoutCancel(a.Context()), why); err != nil {
		a.Errorf("the network cannot see: %v", err)
	}
}

func (a *environment) begin() {
	a.Helper()
	a.between.Rules()
	a.between.Forget()
	a.args, a.clock.lease, a.onWrite = []string{"--leader-elect=false"}, 0, nil
	if a.kind == v1alpha1.ProviderIKS {
		a.cloud = cloudFor(a.T, watched{a.admin, a})
		return
	}
	ctx := a.Context()
	require.NoError(a, a.admin.DeleteAllOf(ctx, &corev1.Pod{}, client.InNamespace("default"), client.GracePeriodSeconds(0)))
	for i := range 6 {
		for name, owner := range map[string]string{"web": "ReplicaSet", "log": "DaemonSet", "bare": ""} {
			runPod(a.T, a.admin, fmt.Sprintf("10.1.0.%d", i+1), fmt.Sprintf("%s-%d", name, i+1), owner)
		}
	}
}

type watched struct {
	client.Client
	*environment
}

func (w watched) Status() client.SubResourceWriter {
	return watchedStatus{w.Client.Status(), w.environment}
}

func (w watched) Delete(ctx context.Context, o client.Object, opts ...client.DeleteOption) error {
	defer w.look("node " + o.GetName() + " is gone")
	return w.Client.Delete(ctx, o, opts...)
}

type watchedStatus struct {
	client.SubResourceWriter
	*environment
}

func (w watchedStatus) Update(ctx context.Context, o client.Object, opts ...client.SubResourceUpdateOption) error {
	defer w.look("node " + o.GetName() + " changes its mind")
	return w.SubResourceWriter.Update(ctx, o, opts...)
}

func (a *environment) start() *managerProcess {
	a.Helper()
	m := &managerProcess{name: fmt.Sprintf("manager-%d", len(a.managers)+1)}
	var cloud *iksserver.Server
	if a.kind == v1alpha1.ProviderIKS {
		cloud = a.cloud
	}
	var err error
	m.line, err = a.between.Open(m.name, a.identity, cloud, func() { a.manager(m.name).Kill() })
	require.NoError(a, err)
	file := filepath.Join(a.TempDir(), m.name)
	require.NoError(a, controlplane.WriteKubeconfig(file, m.line.Config()))
	a.mu.Lock()
	defer a.mu.Unlock()
	m.process = launchInto(a.T, file+".log", []string{
		a.clock.variable(), "KUBECONFIG=" + file, "IBMCLOUD_CS_API_ENDPOINT=" + m.line.CloudURL(), "IBMCLOUD_IAM_API_ENDPOINT=" + m.line.CloudURL(),
	}, append([]string{
		"--namespace=" + testNamespace, "--metrics-bind-address=0", "--health-probe-bind-address=0", "--zap-time-encoding=rfc3339nano",
	}, a.args...)...)
	a.managers = append(a.managers, m)
	return m
}

func (a *environment) manager(name string) *managerProcess {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, m := range a.managers {
		if m.name == name {
			return m
		}
	}
	return nil
}

func (a *environment) alive() (out []*managerProcess) {
	for _, m := range a.managers {
		if m.Running() {
			out = append(out, m)
		}
	}
	return out
}

func (a *environment) restart() {
	a.Helper()
	if len(a.alive()) == 0 {
		a.start()
	}
}

// stopAll ends all managers, and looks into what they said.
func (a *environment) stopAll() {
	for _, m := range a.managers {
		m.Kill()
		m.line.Close()
		m.stop()
	}
	a.managers = nil
}

// object is the RouteReflectorPool as it is, or nil.
func (a *environment) object() *v1alpha1.RouteReflectorPool {
	a.Helper()
	o := &v1alpha1.RouteReflectorPool{}
	err := a.admin.Get(a.Context(), client.ObjectKey{Name: v1alpha1.SingletonName}, o)
	if client.IgnoreNotFound(err) != nil {
		require.NoError(a, err)
	}
	if err != nil {
		return nil
	}
	return o
}

func (a *environment) stepNow() string {
	o := &v1alpha1.RouteReflectorPool{}
	if a.admin.Get(context.WithoutCancel(a.Context()), client.ObjectKey{Name: v1alpha1.SingletonName}, o) != nil {
		return ""
	}
	return o.Status.Step.Name
}

// waitFor waits for what managers do without an object.
func (a *environment) waitFor(what string, so func() bool) {
	a.Helper()
	require.Eventually(a, so, phaseTimeout, 20*time.Millisecond, what)
}

func rawMerge(patch string) client.Patch { return client.RawPatch(types.MergePatchType, []byte(patch)) }

// setReady makes a node Ready or not.
func (a *environment) setReady(name string, ready bool) {
	a.Helper()
	node := &corev1.Node{}
	require.NoError(a, a.admin.Get(a.Context(), client.ObjectKey{Name: name}, node))
	status := corev1.ConditionFalse
	if ready {
		status = corev1.ConditionTrue
	}
	node.Status.Conditions = []corev1.NodeCondition{{
		Type: corev1.NodeReady, Status: status, LastTransitionTime: metav1.NewTime(a.clock.now()), Reason: "Test",
	}}
	require.NoError(a, a.admin.Status().Update(a.Context(), node))
	a.look(fmt.Sprintf("node %s is ready: %t", name, ready))
}

// phaseTimeout is how long a phase may really take.
const phaseTimeout = 4 * time.Minute

type scenario struct {
	// phases in order.
	phases []phase
	work   []intercept.Request
	took   time.Duration
}

type phase struct {
	name string
	// end is how the cluster was in the end, without times and versions.
	end string
	// last is the number of the phase's last write.
	last int
}

// runScenario takes the cluster to route reflectors, loses one of them, goes back to the mesh
// and deletes the object. A manager that ends is replaced at once; tend may do more between.
func (a *environment) runScenario(tend func()) scenario {
	a.Helper()
	began := time.Now()
	ctx := a.Context()
	require.NoError(a, a.admin.Create(ctx, a.newObject()))
	var out scenario
	step := func(name string, over func(*v1alpha1.RouteReflectorPool) bool) {
		a.Helper()
		a.until(name, tend, over)
		out.phases = append(out.phases, phase{name, a.settle(len(out.phases) + 1), len(a.between.Work())})
	}
	step("to route reflectors", func(o *v1alpha1.RouteReflectorPool) bool { return rested(o) && len(o.Status.Reflectors) == 3 })

	lost := a.object().Status.Reflectors[0].Node
	a.lose(lost)
	step("a lost reflector", func(o *v1alpha1.RouteReflectorPool) bool {
		return rested(o) && len(o.Status.Reflectors) == 3 && !reflects(o, lost)
	})
	if a.kind != v1alpha1.ProviderIKS {
		a.setReady(lost, true)
	}

	o := a.object()
	before := o.DeepCopy()
	o.Spec.Mode = v1alpha1.ModeFullMesh
	require.NoError(a, a.admin.Patch(a.Context(), o, client.MergeFrom(before)))
	step("to the mesh", func(o *v1alpha1.RouteReflectorPool) bool { return rested(o) && len(o.Status.Reflectors) == 0 })

	require.NoError(a, a.admin.Delete(ctx, a.object()))
	step("deleted", func(o *v1alpha1.RouteReflectorPool) bool { return o == nil })
	out.work, out.took = a.between.Work(), time.Since(began)
	return out
}

// settle gives how a phase ends. A write that has lost a race as the last of all is made
// again a moment after the object says Ready.
func (a *environment) settle(phase int) string {
	a.Helper()
	want, _ := os.ReadFile(a.golden(phase)) // there is none yet where it is to be written
	deadline := time.Now().Add(time.Minute)
	for {
		end := a.snapshot()
		if end == string(want) || time.Now().After(deadline) {
			return end
		}
		a.restart()
		time.Sleep(50 * time.Millisecond) // between two looks at a real apiserver
	}
}

func (a *environment) newObject() *v1alpha1.RouteReflectorPool {
	object := &v1alpha1.RouteReflectorPool{ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.SingletonName}}
	object.Spec.Provider.Type = a.kind
	object.Spec.Provider.IKS.DeletionPolicy = v1alpha1.DeletionDelete
	object.Spec.Provider.ExistingNodes.Promotion = v1alpha1.PromotionDrain
	object.Spec.Rollout.NotReadyGrace = metav1.Duration{Duration: 10 * time.Second}
	// A busy machine is slow by a hurried clock: no reason for the mesh to come back.
	object.Spec.Rollout.SafetyNet.After = metav1.Duration{Duration: 5 * time.Minute}
	object.Spec.Rollout.RemovalDelay = metav1.Duration{Duration: 5 * time.Second}
	return object
}

// rested: the object says that it is as wanted, and every session is there.
func rested(o *v1alpha1.RouteReflectorPool) bool {
	return o != nil && o.Status.ObservedGeneration == o.Generation && o.Status.Step.Name == "Steady" &&
		meta.IsStatusConditionTrue(o.Status.Conditions, v1alpha1.ConditionReady) &&
		meta.IsStatusConditionFalse(o.Status.Conditions, v1alpha1.ConditionDegraded) &&
		!slices.ContainsFunc(o.Status.Reflectors, func(r v1alpha1.ReflectorStatus) bool { return r.SessionsEstablished < r.SessionsExpected })
}

func reflects(o *v1alpha1.RouteReflectorPool, node string) bool {
	return slices.ContainsFunc(o.Status.Reflectors, func(r v1alpha1.ReflectorStatus) bool { return r.Node == node })
}

func (a *environment) until(name string, tend func(), over func(*v1alpha1.RouteReflectorPool) bool) {
	a.Helper()
	deadline := time.Now().Add(phaseTimeout)
	for {
		tend()
		for _, broken := range a.net.Broken() {
			a.Errorf("phase %q: %s", name, broken)
		}
		o := a.object()
		if over(o) {
			return
		}
		if time.Now().After(deadline) {
			state := "gone"
			if o != nil {
				state = fmt.Sprintf("%+v\n%+v\n%+v", o.Status.Step, o.Status.Conditions, o.Status.Reflectors)
			}
			require.FailNow(a, "it does not get there", "phase %q: %s", name, state)
		}
		time.Sleep(20 * time.Millisecond) // between two looks at a real apiserver
	}
}

func (a *environment) lose(node string) {
	a.Helper()
	a.setReady(node, false)
	if a.kind != v1alpha1.ProviderIKS {
		return
	}
	for _, w := range a.cloud.Workers(testClusterID, "route-reflectors") {
		if w.IP == node {
			a.cloud.Break(testClusterID, w.ID, "deploy_failed", "critical", "the machine does not answer")
		}
	}
}

var varying = regexp.MustCompile(`\d{4}-\d\d-\d\dT[\d:.]+Z|[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}|"generation\\*":\d+,|kube-c1-[a-z-]*[0-9a-f]{8}`)

// unordered is the spec of an object. Which of two existing nodes became a reflector
// first, and so is the client of the other, may be as it comes. The classes of a report
// change their order with each question.
func unordered(o unstructured.Unstructured) any {
	node, _, _ := unstructured.NestedString(o.Object, "spec", "node")
	peer, _, _ := unstructured.NestedString(o.Object, "spec", "peerIP")
	if node != "" && peer != "" {
		_ = unstructured.SetNestedField(o.Object, min(node, peer), "spec", "node")
		_ = unstructured.SetNestedField(o.Object, max(node, peer), "spec", "peerIP")
	}
	if classes, ok, _ := unstructured.NestedStringSlice(o.Object, "spec", "classes"); ok {
		slices.Sort(classes)
		_ = unstructured.SetNestedStringSlice(o.Object, classes, "spec", "classes")
	}
	return o.Object["spec"]
}

// snapshot is the cluster as it is, but for times, versions and identities.
func (a *environment) snapshot() string {
	a.Helper()
	var out strings.Builder
	say := func(kind, name string, content any) {
		text, err := json.Marshal(content)
		require.NoError(a, err)
		fmt.Fprintf(&out, "%s %s %s\n", kind, name, varying.ReplaceAll(text, []byte("…")))
	}
	var nodes corev1.NodeList
	require.NoError(a, a.admin.List(a.Context(), &nodes))
	for _, n := range nodes.Items {
		say("node", n.Name, []any{n.Labels, n.Annotations, n.Spec.Unschedulable, n.Spec.Taints})
	}
	for _, kind := range []string{"BGPConfiguration", "BGPPeer", "CalicoNodeStatus"} {
		found, err := fakenetwork.Written(a.Context(), a.admin, kind)
		require.NoError(a, err)
		for _, o := range found {
			say(kind, o.GetName(), []any{o.GetLabels(), o.GetAnnotations(), unordered(o)})
		}
	}
	if o := a.object(); o != nil {
		s := o.Status
		s.Step.Since = metav1.Time{}
		for i := range s.Conditions {
			s.Conditions[i].LastTransitionTime = metav1.Time{}
		}
		annotations := maps.Clone(o.Annotations)
		maps.DeleteFunc(annotations, func(key, _ string) bool { return key == v1alpha1.PoolsAnnotation || key == v1alpha1.RequestsAnnotation })
		if len(annotations) == 0 {
			annotations = nil
		}
		say("object", o.Name, []any{o.Finalizers, annotations, o.Labels, s})
	}
	if a.cloud != nil {
		for _, w := range a.cloud.Workers(testClusterID, "route-reflectors") {
			say("worker", w.IP, []any{w.Zone, w.State, w.Health, w.Labels, w.Taints, w.BornTaints, w.Flavor})
		}
		say("pools", "", a.cloud.Pools(testClusterID))
		say("untainted", "", a.cloud.Untainted("route-reflectors"))
	}
	return out.String()
}
