package main

import (
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/test/controlplane/intercept"
)

// phaseTimeout is how long a phase may really take.
const phaseTimeout = 4 * time.Minute

// scenario is what has come of one.
type scenario struct {
	// phases in order.
	phases []phase
	work   []intercept.Request
	took   time.Duration
}

// phase is a part of a scenario.
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

	a.edit(func(o *v1alpha1.RouteReflectorPool) { o.Spec.Mode = v1alpha1.ModeFullMesh })
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

// newObject wants route reflectors.
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

// until waits for the end of a phase.
func (a *environment) until(name string, tend func(), over func(*v1alpha1.RouteReflectorPool) bool) {
	a.Helper()
	deadline := time.Now().Add(phaseTimeout)
	for {
		tend()
		for _, broken := range a.net.broken() {
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

// edit changes the spec.
func (a *environment) edit(change func(*v1alpha1.RouteReflectorPool)) {
	a.Helper()
	o := a.object()
	before := o.DeepCopy()
	change(o)
	require.NoError(a, a.admin.Patch(a.Context(), o, client.MergeFrom(before)))
}

// lose lets a reflector's machine fail.
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
		found, err := written(a.Context(), a.admin, kind)
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
		say("object", o.Name, []any{o.Finalizers, o.Annotations, o.Labels, s})
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
