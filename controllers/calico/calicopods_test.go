package calico

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	apiv3 "github.com/projectcalico/api/pkg/apis/projectcalico/v3"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	typedv1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/rrpool/rrpool/controllers/plan"
	"github.com/rrpool/rrpool/controllers/plan/reason"
)

// calicoNodePod is a pod of calico-node's, Ready since then, or not.
func calicoNodePod(namespace, name, node string, ready corev1.ConditionStatus, since time.Time) *corev1.Pod {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: name, Labels: map[string]string{"k8s-app": "calico-node"},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "DaemonSet", Name: "calico-node", UID: "calico-node", Controller: ptr.To(true)}},
		},
		Spec: corev1.PodSpec{NodeName: node, HostNetwork: true, Containers: []corev1.Container{{Name: "calico-node", Image: "calico/node"}}},
	}
	if ready != "" {
		pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: ready, LastTransitionTime: metav1.NewTime(since)}}
	}
	return pod
}

func TestWhatThePodsOfCalicoNodeShow(t *testing.T) {
	clock := newClock()
	now := clock.Now()
	ago, ahead := now.Add(-time.Minute), now.Add(time.Minute)
	with := func(pod *corev1.Pod, edit func(*corev1.Pod)) *corev1.Pod {
		edit(pod)
		return pod
	}
	const sys = "kube-system"
	ready := func(name string) *corev1.Pod { return calicoNodePod(sys, name, "n", corev1.ConditionTrue, ago) }
	failing := func(name string, since time.Time) *corev1.Pod {
		return calicoNodePod(sys, name, "n", corev1.ConditionFalse, since)
	}
	other := calicoNodePod(sys, "other", "other", corev1.ConditionTrue, ago)
	for name, tc := range map[string]struct {
		pods []*corev1.Pod
		want plan.CalicoNode
	}{
		"one that is Ready":                           {[]*corev1.Pod{ready("a")}, plan.CalicoNode{State: plan.CalicoNodeReady, Since: ago}},
		"one that is not Ready":                       {[]*corev1.Pod{failing("a", ago)}, plan.CalicoNode{State: plan.CalicoNodeNotReady, Since: ago}},
		"no state begins in the future":               {[]*corev1.Pod{failing("a", ahead)}, plan.CalicoNode{State: plan.CalicoNodeNotReady, Since: now}},
		"none, though others have one":                {[]*corev1.Pod{other}, plan.CalicoNode{State: plan.CalicoNodeAbsent, Since: now}},
		"none at all: calico-node may be no pod":      {nil, plan.CalicoNode{}},
		"one evicted, which stays as an object":       {[]*corev1.Pod{other, with(ready("a"), func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed })}, plan.CalicoNode{State: plan.CalicoNodeAbsent, Since: now}},
		"one that has ended":                          {[]*corev1.Pod{other, with(ready("a"), func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded })}, plan.CalicoNode{State: plan.CalicoNodeAbsent, Since: now}},
		"one that waits for its node":                 {[]*corev1.Pod{other, with(ready("a"), func(p *corev1.Pod) { p.Spec.NodeName = "" })}, plan.CalicoNode{State: plan.CalicoNodeAbsent, Since: now}},
		"one just made, without conditions":           {[]*corev1.Pod{with(ready("a"), func(p *corev1.Pod) { p.Status.Conditions, p.CreationTimestamp = nil, metav1.NewTime(ago) })}, plan.CalicoNode{State: plan.CalicoNodeNotReady, Since: ago}},
		"one that is being deleted":                   {[]*corev1.Pod{with(ready("a"), func(p *corev1.Pod) { p.DeletionTimestamp = ptr.To(metav1.NewTime(ahead)) })}, plan.CalicoNode{State: plan.CalicoNodeNotReady, Since: now}},
		"one that goes and one that is Ready (surge)": {[]*corev1.Pod{with(ready("a"), func(p *corev1.Pod) { p.DeletionTimestamp = ptr.To(metav1.NewTime(ago)) }), ready("b")}, plan.CalicoNode{State: plan.CalicoNodeReady, Since: ago}},
		"one that is Ready and one that starts":       {[]*corev1.Pod{ready("a"), failing("b", now)}, plan.CalicoNode{State: plan.CalicoNodeReady, Since: now}},
		"two that are not Ready":                      {[]*corev1.Pod{failing("a", ago), failing("b", now)}, plan.CalicoNode{State: plan.CalicoNodeNotReady, Since: now}},
	} {
		t.Run(name, func(t *testing.T) {
			c := newTestPods(t, clock, func() {})
			objects := make([]any, 0, len(tc.pods))
			for _, p := range tc.pods {
				slim, err := c.spaces[0].Transformer()(p)
				require.NoError(t, err)
				objects = append(objects, slim)
			}
			system, operator := c.spaces[0], c.spaces[1]
			nodes := []plan.Node{{Name: "n", Marked: true}, {Name: "other"}}
			require.NoError(t, system.Replace(objects, ""))
			require.Nil(t, c.look(nodes).states, "one namespace is not listed yet")
			require.NoError(t, operator.Replace(nil, ""))
			require.Equal(t, tc.want, c.look(nodes).states["n"])
			require.NotContains(t, c.look(nodes).states, "", "what runs nowhere shows nothing")
			clock.Move(time.Second)
			require.Equal(t, tc.want, c.look(nodes).states["n"], "a state keeps its time")
			system.fail(t.Context(), errors.New("unavailable"))
			kept := tc.want
			if !kept.Failing() {
				kept = plan.CalicoNode{}
			}
			require.Equal(t, kept, c.look(append(nodes, plan.Node{Name: "new"})).states["n"], "while they cannot be watched, what failed is kept")
			require.NotContains(t, c.look(append(nodes, plan.Node{Name: "new"})).states, "new")
			_, err := system.listWatch().WatchWithContext(t.Context(), metav1.ListOptions{ResourceVersion: "1"})
			require.True(t, apierrors.IsResourceExpired(err), "a watch that goes on does not say what has happened meanwhile: %v", err)
			require.Equal(t, kept, c.look(nodes).states["n"])
			clock.Move(keepFailing)
			require.Nil(t, c.look(nodes).states, "and not for ever")
			clock.Move(-keepFailing)
			require.NoError(t, system.Replace(objects, ""))
			require.Equal(t, tc.want.State, c.look(nodes).states["n"].State)
			clock.Move(-time.Second)
		})
	}
}

// The clock of a kubelet may be minutes off, and a container restarts in a pod that was not Ready before.
func TestWhatIsSeenToChangeChangesNow(t *testing.T) {
	clock := newClock()
	c := newTestPods(t, clock, func() {})
	system := c.spaces[0]
	require.NoError(t, c.spaces[1].Replace(nil, ""))
	since := func(ready corev1.ConditionStatus, off time.Duration, running corev1.ContainerState) time.Time {
		clock.Move(time.Minute)
		pod := calicoNodePod("kube-system", "a", "n", ready, clock.Now().Add(off))
		pod.Status.ContainerStatuses = []corev1.ContainerStatus{{State: running}}
		slim, err := system.Transformer()(pod)
		require.NoError(t, err)
		require.NoError(t, system.Replace([]any{slim}, ""))
		return c.look([]plan.Node{{Name: "n", Marked: true}}).states["n"].Since
	}
	at := func(off time.Duration) metav1.Time { return metav1.NewTime(clock.Now().Add(off)) }
	none := corev1.ContainerState{}
	require.Equal(t, clock.Now().Add(-4*time.Minute), since(corev1.ConditionTrue, -5*time.Minute, none), "it was there before us")
	for _, off := range []time.Duration{-5 * time.Minute, 5 * time.Minute} {
		require.Equal(t, clock.Now().Add(time.Minute), since(corev1.ConditionFalse, off, none))
		failed := clock.Now()
		require.Equal(t, failed, since(corev1.ConditionFalse, off-time.Minute, none), "it is as before")
		ended := corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{FinishedAt: at(6 * time.Minute)}}
		require.Equal(t, clock.Now().Add(time.Minute), since(corev1.ConditionFalse, off-2*time.Minute, ended))
		began := corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: at(450 * time.Second)}}
		require.Equal(t, clock.Now().Add(time.Minute), since(corev1.ConditionFalse, off-3*time.Minute, began))
	}
}

func newTestPods(t *testing.T, clock *clock, changed func()) *calicoPods {
	t.Helper()
	c, err := newCalicoPods(&rest.Config{}, clock.Now, changed)
	require.NoError(t, err)
	return c
}

// In a cluster of 5,000 nodes an upgrade of Calico changes a pod every few moments. The manager looks when it is a reflector's.
func TestOnlyThePodsOfReflectorsAreSignaled(t *testing.T) {
	signals := 0
	c := newTestPods(t, newClock(), func() { signals++ })
	system := c.spaces[0]
	require.NoError(t, system.Replace(nil, ""))
	require.NoError(t, c.spaces[1].Replace(nil, ""))
	c.look([]plan.Node{{Name: "reflector", Marked: true}, {Name: "client"}})
	signals = 0
	for i := range 100 {
		pod := calicoNodePod("kube-system", fmt.Sprint(i), "client", corev1.ConditionFalse, time.Time{})
		require.NoError(t, system.Add(pod))
		require.NoError(t, system.Delete(pod))
	}
	require.Zero(t, signals)
	require.NoError(t, system.Add(calicoNodePod("kube-system", "r", "reflector", corev1.ConditionFalse, time.Time{})))
	require.Equal(t, 1, signals)
}

// What the apiserver has: pods in Calico's own namespaces count, those of others that carry the label do not.
func TestThePodsOfCalicoNodeAreWatched(t *testing.T) {
	b := newBench(t)
	b.node(five, func(n *corev1.Node) { n.Annotations[sinceAnnotation] = rfc3339(b.clock.Now()) })
	b.node("10.240.0.6", nil)
	create := func(namespace, name, node string) *corev1.Pod {
		pod := calicoNodePod(namespace, name, node, "", time.Time{})
		require.NoError(t, b.kube.Create(t.Context(), pod))
		t.Cleanup(func() { _ = b.kube.Delete(context.Background(), pod, client.GracePeriodSeconds(0)) })
		return pod
	}
	create("kube-system", "calico-node-b", "10.240.0.6")
	create("default", "other-client", five)
	b.run()
	state := func(of plan.CalicoNodeState) {
		t.Helper()
		b.await(string(of), func(c plan.Cluster) bool { return c.Nodes[0].CalicoNode.State == of })
	}
	state(plan.CalicoNodeAbsent)
	pod := create("kube-system", "calico-node-a", five)
	state(plan.CalicoNodeNotReady)
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.Now()}}
	require.NoError(t, b.kube.Status().Update(t.Context(), pod))
	state(plan.CalicoNodeReady)
	b.cfg.Live, b.cfg.Nodes = mute{}, b.kube
	b.observe()
	b.clock.Move(nodesUnknownLimit)
	state(plan.CalicoNodeUnknown) // where the watch of Nodes stands still, that of pods may as well
	b.cfg.Live = nil
	b.nodeCheck.problem = nil
	state(plan.CalicoNodeReady)
	require.NoError(t, b.kube.Delete(t.Context(), pod, client.GracePeriodSeconds(0)))
	state(plan.CalicoNodeAbsent)
}

// Without BIRD there is no BGP, although each node has its address: see /etc/rc.local of calico-node. The operator writes
// the backend into the pods, the manifests take it from a ConfigMap. While any pod may run BIRD, nothing is refused.
func TestABackendWithoutBIRDIsSeenBeforeAnythingIsOrdered(t *testing.T) {
	b := newBench(t)
	b.node(five, nil)
	b.node("10.240.0.6", nil)
	create := func(o client.Object) {
		require.NoError(t, b.kube.Create(t.Context(), o))
		t.Cleanup(func() { _ = b.kube.Delete(context.Background(), o, client.GracePeriodSeconds(0)) })
	}
	pod := func(name, node string, backend corev1.EnvVar) *corev1.Pod {
		pod := calicoNodePod("kube-system", name, node, "", time.Time{})
		backend.Name = "CALICO_NETWORKING_BACKEND"
		pod.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "DATASTORE_TYPE", Value: "kubernetes"}, backend}
		create(pod)
		return pod
	}
	by := func(name string) corev1.EnvVar {
		return corev1.EnvVar{ValueFrom: &corev1.EnvVarSource{ConfigMapKeyRef: &corev1.ConfigMapKeySelector{
			LocalObjectReference: corev1.LocalObjectReference{Name: name}, Key: "calico_backend",
		}}}
	}
	pod("operator", five, corev1.EnvVar{Value: "vxlan"})
	b.run()
	refused := func(what, says string) {
		t.Helper()
		b.clock.Move(time.Minute)
		b.await(what, func(c plan.Cluster) bool {
			return len(c.Problems) == 1 && c.Problems[0].Reason == reason.BGPDisabled && strings.Contains(c.Problems[0].Message, says)
		})
	}
	fine := func(what string, unknown bool) {
		t.Helper()
		b.clock.Move(time.Minute)
		b.await(what, func(c plan.Cluster) bool { return len(c.Problems) == 0 && (c.BGPUnknown != "") == unknown })
	}
	refused("the operator's, without BGP", `"vxlan"`)
	for name, backend := range map[string]corev1.EnvVar{"that has BIRD": {Value: "bird"}, "without the variable": {}, "of another ConfigMap": by("other")} {
		p := pod("second", "10.240.0.6", backend)
		fine("one "+name, name == "of another ConfigMap")
		require.NoError(t, b.kube.Delete(t.Context(), p, client.GracePeriodSeconds(0)))
		refused("gone is one "+name, `"vxlan"`)
	}
	pod("manifest", "10.240.0.6", by("calico-config"))
	fine("a ConfigMap that cannot be read", true)
	config := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "calico-config"}, Data: map[string]string{"calico_backend": "none"}}
	create(config)
	refused("the manifest's, without BGP", `"none, vxlan"`)
	config.Data["calico_backend"] = "bird"
	require.NoError(t, b.kube.Update(t.Context(), config))
	fine("the manifest's, with BGP", false)
	since := time.Now()
	for range 10 {
		b.clock.Move(time.Minute)
		b.observe()
	}
	requests, err := b.plane.Requests(b.user, since)
	require.NoError(t, err)
	for _, r := range requests {
		require.NotEqual(t, "configmaps", r.Resource, "BIRD runs: it is not asked again")
	}
}

// rc.local of calico-node reads an old variable first.
func TestTheOldVariableComesBeforeTheBackend(t *testing.T) {
	elsewhere := &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{}}
	for name, c := range map[string]struct {
		old     corev1.EnvVar
		backend string
		want    string
	}{
		"without it":        {corev1.EnvVar{Name: "OTHER"}, "vxlan", "vxlan"},
		"empty":             {corev1.EnvVar{Name: oldVariable}, "vxlan", "vxlan"},
		"false":             {corev1.EnvVar{Name: oldVariable, Value: "false"}, "bird", oldNone},
		"true":              {corev1.EnvVar{Name: oldVariable, Value: "true"}, "vxlan", "bird"},
		"in other letters":  {corev1.EnvVar{Name: oldVariable, Value: "False"}, "none", "bird"},
		"what is not read":  {corev1.EnvVar{Name: oldVariable, ValueFrom: elsewhere}, "bird", fromElsewhere},
		"false, by default": {corev1.EnvVar{Name: oldVariable, Value: "false"}, "", oldNone},
	} {
		t.Run(name, func(t *testing.T) {
			env := []corev1.EnvVar{c.old, {Name: BackendVariable, Value: c.backend}}
			require.Equal(t, c.want, backendOf(&corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Env: env}}}}))
		})
	}
	require.True(t, NoBIRD.Has(oldNone))
}

// Canal's calico-node has another label, and its nodes have BGP addresses as well.
func TestCanalIsRefusedAndWhatIsNotSeenIsNotKnown(t *testing.T) {
	b := newBench(t)
	b.node(five, nil)
	create := func(o client.Object) {
		require.NoError(t, b.kube.Create(t.Context(), o))
		t.Cleanup(func() { _ = b.kube.Delete(context.Background(), o, client.GracePeriodSeconds(0)) })
	}
	b.run()
	b.await("no pods", func(c plan.Cluster) bool {
		return len(c.Problems) == 0 && strings.Contains(c.BGPUnknown, "no pod of calico-node is seen (k8s-app in (calico-node,canal,canal-node)")
	})
	for _, label := range []string{"canal", "canal-node"} {
		pod := calicoNodePod("kube-system", label, five, "", time.Time{})
		pod.Labels["k8s-app"] = label
		pod.Spec.Containers[0].Env = []corev1.EnvVar{{Name: BackendVariable, Value: "none"}}
		create(pod)
		b.await(label, func(c plan.Cluster) bool {
			return len(c.Problems) == 1 && c.Problems[0].Reason == reason.BGPDisabled && strings.Contains(c.Problems[0].Message, "as flannel does in Canal")
		})
		require.NoError(t, b.kube.Delete(t.Context(), pod, client.GracePeriodSeconds(0)))
		b.await("no "+label, func(c plan.Cluster) bool { return len(c.Problems) == 0 && c.BGPUnknown != "" })
	}
}

func TestWhatClusterInformationSaysOfBGP(t *testing.T) {
	const unseen = "no pod"
	up := map[string]plan.Status{"n": {Sessions: []plan.Session{{Established: true}}}}
	for name, c := range map[string]struct {
		kind, without, unseen string
		reports               map[string]plan.Status
		refused, unknown      string
	}{
		"BIRD, as it says":                {kind: "typha,kdd,k8s,bgp"},
		"BIRD, and it says nothing":       {},
		"BIRD, and it does not say so":    {kind: "k8s,operator", unknown: `clusterType of ClusterInformation default is "k8s,operator", which does not name bgp`},
		"BIRD by default, of Canal":       {kind: "k8s,canal", unknown: "does not name bgp"},
		"a session, whatever it says":     {kind: "k8s,canal", unseen: unseen, reports: up},
		"a report without one":            {kind: "k8s,bgp", unseen: unseen, reports: map[string]plan.Status{"n": {Sessions: make([]plan.Session, 1)}}, unknown: unseen},
		"nothing seen":                    {kind: "k8s,bgp", unseen: unseen, unknown: unseen},
		"nothing seen, and nothing said":  {unseen: unseen, unknown: unseen},
		"nothing seen, and another word":  {kind: "k8s,bgpx", unseen: unseen, unknown: unseen + "; clusterType"},
		"nothing seen of Canal":           {kind: "canal,k8s", unseen: unseen, refused: `clusterType of ClusterInformation default is "canal,k8s"`},
		"nothing seen, Canal of the past": {kind: "bgp,canal,k8s", unseen: unseen, unknown: unseen},
		"none, with sessions of the past": {kind: "k8s,bgp", without: "vxlan", reports: up, refused: `CALICO_NETWORKING_BACKEND is "vxlan"`},
	} {
		t.Run(name, func(t *testing.T) {
			s := &store{clusterType: c.kind}
			refused, unknown := s.birdStatus(c.without, c.unseen, c.reports)
			require.Equal(t, c.refused, refused)
			require.Contains(t, unknown, c.unknown)
			require.Equal(t, c.unknown == "", unknown == "")
			_, unknown = s.birdStatus(c.without, c.unseen, nil)
			require.Equal(t, c.unknown == "", unknown == "", "a session that was seen is not forgotten when the report goes")
		})
	}
}

// A pod that names Calico's own DaemonSet as its owner passes for calico-node's. That it is Ready says nothing of the time before another pod on
// its node changed or went.
func TestAPodThatPassesForCalicoNodesDoesNotHideThatThatIsGone(t *testing.T) {
	for name, end := range map[string]func(*namespacedPods, *corev1.Pod) error{
		"it is deleted": func(of *namespacedPods, own *corev1.Pod) error { return of.Delete(own) },
		"it is evicted": func(of *namespacedPods, own *corev1.Pod) error {
			own.Status.Phase = corev1.PodFailed
			return of.Update(own)
		},
		"it is not in the next list": func(of *namespacedPods, own *corev1.Pod) error {
			return of.Replace([]any{calicoNodePod("kube-system", "hostile", own.Spec.NodeName, corev1.ConditionTrue, own.Status.Conditions[0].LastTransitionTime.Time)}, "")
		},
		"it is not Ready any more": func(of *namespacedPods, own *corev1.Pod) error {
			own.Status.Conditions[0].Status = corev1.ConditionFalse
			own.Status.Conditions[0].LastTransitionTime = metav1.NewTime(of.now())
			return of.Update(own)
		},
	} {
		t.Run(name, func(t *testing.T) {
			clock := newClock()
			ago := clock.Now().Add(-time.Hour)
			p := newTestPods(t, clock, func() {})
			own := calicoNodePod("kube-system", "own", "a", corev1.ConditionTrue, ago)
			require.NoError(t, p.spaces[1].Replace(nil, ""))
			require.NoError(t, p.spaces[0].Replace([]any{own.DeepCopy(), calicoNodePod("kube-system", "hostile", "a", corev1.ConditionTrue, ago)}, ""))
			at := func() plan.CalicoNode { return p.look([]plan.Node{{Name: "a"}}).states["a"] }
			require.Equal(t, plan.CalicoNodeReady, at().State)
			require.True(t, at().Since.Equal(ago))
			clock.Move(time.Minute)
			require.NoError(t, end(p.spaces[0], own))
			require.True(t, at().Since.Equal(clock.Now()), "a report from before proves nothing: %s", at().Since)
		})
	}
}

// Anyone may give a pod the label, and a namespace that Calico does not use the name of one that it does. What is believed is the DaemonSet with
// pods on most nodes, by far.
func TestAPodThatPretendsToBeCalicoNodeIsNotBelieved(t *testing.T) {
	clock := newClock()
	ago := clock.Now().Add(-time.Minute)
	var nodes []plan.Node
	var own []any
	for _, name := range []string{"a", "b", "c", "d", "e", "f"} {
		nodes = append(nodes, plan.Node{Name: name, Marked: true})
		ready := corev1.ConditionTrue
		if name == "a" {
			ready = corev1.ConditionFalse
		}
		if name != "b" {
			own = append(own, calicoNodePod("kube-system", name, name, ready, ago))
		}
	}
	foreign := func(edit func(*corev1.Pod), on ...string) (pods []any) {
		for _, node := range on {
			pod := calicoNodePod("calico-system", "web-"+node, node, corev1.ConditionTrue, ago)
			edit(pod)
			pods = append(pods, pod)
		}
		return pods
	}
	asItIs := func(*corev1.Pod) {}
	withoutBIRD := func(p *corev1.Pod) {
		p.Spec.Containers[0].Env = []corev1.EnvVar{{Name: BackendVariable, Value: "none"}}
	}
	const failing, absent, ready, unknown = plan.CalicoNodeNotReady, plan.CalicoNodeAbsent, plan.CalicoNodeReady, plan.CalicoNodeUnknown
	for name, c := range map[string]struct {
		pods    []any
		a, b, c plan.CalicoNodeState
	}{
		"none":                             {nil, failing, absent, ready},
		"not in the host's network":        {foreign(func(p *corev1.Pod) { p.Spec.HostNetwork = false }, "a", "b"), failing, absent, ready},
		"of nobody":                        {foreign(func(p *corev1.Pod) { p.OwnerReferences = nil }, "a", "b"), failing, absent, ready},
		"of a ReplicaSet":                  {foreign(func(p *corev1.Pod) { p.OwnerReferences[0].Kind = "ReplicaSet" }, "a", "b"), failing, absent, ready},
		"of a DaemonSet of another group":  {foreign(func(p *corev1.Pod) { p.OwnerReferences[0].APIVersion = "apps.kruise.io/v1" }, "a", "b"), failing, absent, ready},
		"of a DaemonSet, not controlled":   {foreign(func(p *corev1.Pod) { p.OwnerReferences[0].Controller = nil }, "a", "b"), failing, absent, ready},
		"of a DaemonSet on two nodes":      {foreign(asItIs, "a", "b"), failing, unknown, ready},
		"of a DaemonSet on half the nodes": {foreign(asItIs, "a", "b", "c"), unknown, unknown, unknown},
		"on nodes that do not exist":       {foreign(withoutBIRD, "1", "2", "3"), failing, absent, ready},
		"on many of these":                 {foreign(withoutBIRD, strings.Fields("1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16")...), failing, absent, ready},
		"of a DaemonSet on all nodes":      {foreign(asItIs, "a", "b", "c", "d", "e", "f"), unknown, unknown, unknown},
	} {
		t.Run(name, func(t *testing.T) {
			for _, backend := range []string{"bird", "vxlan"} {
				p := newTestPods(t, clock, func() {})
				for i, pods := range [][]any{own, c.pods} {
					var slim []any
					for _, pod := range pods {
						pod := pod.(*corev1.Pod).DeepCopy()
						if i == 0 {
							pod.Spec.Containers[0].Env = []corev1.EnvVar{{Name: BackendVariable, Value: backend}}
						}
						of, err := p.spaces[i].Transformer()(pod)
						require.NoError(t, err)
						slim = append(slim, of)
					}
					require.NoError(t, p.spaces[i].Replace(slim, ""))
				}
				view := p.look(nodes)
				got := view.states
				require.Equal(t, []plan.CalicoNodeState{c.a, c.b, c.c}, []plan.CalicoNodeState{got["a"].State, got["b"].State, got["c"].State})
				without, _ := p.withoutBIRD(t.Context(), logr.Discard(), view.backends)
				require.Equal(t, backend == "vxlan" && c.a != unknown, without == "vxlan", "whether calico-node runs BIRD, whatever others say")
			}
		})
	}
}

// What pods set counts where all do; a tenant's do not.
func TestVariablesOfFelix(t *testing.T) {
	const name = "FELIX_WIREGUARDENABLED"
	pod := func(node, value string) *corev1.Pod {
		p := calicoNodePod("kube-system", node, node, corev1.ConditionTrue, time.Time{})
		if value != "" {
			p.Spec.Containers[0].Env = []corev1.EnvVar{{Name: name, Value: value}, {Name: "FELIX_LOGSEVERITYSCREEN", Value: node}}
		}
		return p
	}
	from := func(config string) *corev1.Pod {
		p := pod("a", "")
		p.Spec.Containers[0].EnvFrom = []corev1.EnvFromSource{{ConfigMapRef: &corev1.ConfigMapEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: config}}}}
		return p
	}
	mounts := func(path, value string) *corev1.Pod {
		p := pod("a", value)
		p.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "some", MountPath: path}}
		return p
	}
	tenants := pod("a", "true")
	tenants.Name, tenants.OwnerReferences[0].UID = "tenants", "tenants"
	for what, c := range map[string]struct {
		pods []*corev1.Pod
		want string
	}{
		"of none":              {[]*corev1.Pod{pod("a", ""), pod("b", "")}, ""},
		"of all":               {[]*corev1.Pod{pod("a", "true"), pod("b", "true")}, "true"},
		"of some":              {[]*corev1.Pod{pod("a", "true"), pod("b", "")}, "it is not the same in all pods"},
		"of others":            {[]*corev1.Pod{pod("a", ""), pod("b", "true")}, "it is not the same in all pods"},
		"different ones":       {[]*corev1.Pod{pod("a", "true"), pod("b", "false"), pod("c", "false")}, "it is not the same in all pods"},
		"of a tenant":          {[]*corev1.Pod{pod("a", ""), pod("b", ""), pod("c", ""), tenants}, ""},
		"of Calico's endpoint": {[]*corev1.Pod{from("kubernetes-services-endpoint")}, ""},
		"of Felix's file":      {[]*corev1.Pod{mounts("/etc/calico/felix.cfg", "")}, "what sets it is not read by rrpool"},
		"of its folder":        {[]*corev1.Pod{mounts("/etc/calico/", "")}, "what sets it is not read by rrpool"},
		"before its file":      {[]*corev1.Pod{mounts("/etc/calico", "false")}, "false"},
		"of another file":      {[]*corev1.Pod{mounts("/etc/calico/certs", "")}, ""},
		"of any ConfigMap":     {[]*corev1.Pod{from("felix")}, "what sets it is not read by rrpool"},
	} {
		t.Run(what, func(t *testing.T) {
			p := newTestPods(t, newClock(), func() {})
			var slim []any
			for _, pod := range c.pods {
				of, err := p.spaces[0].Transformer()(pod)
				require.NoError(t, err)
				slim = append(slim, of)
			}
			require.NoError(t, p.spaces[0].Replace(slim, ""))
			got := p.look([]plan.Node{{Name: "a"}, {Name: "b"}, {Name: "c"}}).variables
			require.Equal(t, c.want, got[name])
			require.Equal(t, c.want != "", len(got) > 0)
		})
	}
}

// hangingConfig is an apiserver that does not answer when it is asked for the ConfigMap, until the request ends.
type hangingConfig struct {
	typedv1.ConfigMapInterface
	asked chan struct{}
}

func (h hangingConfig) Get(ctx context.Context, _ string, _ metav1.GetOptions) (*corev1.ConfigMap, error) {
	close(h.asked)
	<-ctx.Done()
	return nil, ctx.Err()
}

func TestARequestThatHangsHoldsUpNothingElse(t *testing.T) {
	c := newTestPods(t, newClock(), func() {})
	h := hangingConfig{asked: make(chan struct{})}
	c.config = h
	c.spaces[0].pods["a"] = calicoPod{node: "n", backend: inConfig}
	seen := c.look([]plan.Node{{Name: "n"}}).backends
	ctx, cancel := context.WithCancel(t.Context())
	answer := make(chan string)
	backends := func(ctx context.Context) string {
		without, unknown := c.withoutBIRD(ctx, logr.Discard(), seen.Clone())
		require.NotEmpty(t, unknown)
		return without
	}
	go func() { answer <- backends(ctx) }()
	<-h.asked
	free := c.mu.TryLock()
	cancel()
	require.Empty(t, <-answer, "BIRD may run")
	require.True(t, free, "a pod that fails must be seen, and others may observe")
	c.mu.Unlock()
	require.Empty(t, backends(t.Context()), "it is not asked again at once")
}

// A report that was cleared before we started has been empty since then: what a restart loses, the object keeps.
func TestWhenAReportWasClearedOutlastsARestart(t *testing.T) {
	clock := newClock()
	now := clock.Now()
	for name, tc := range map[string]struct {
		generation int64
		unproven   bool
		want       time.Time
	}{
		"cleared 40 s ago, by one that was restarted": {now.Add(-40 * time.Second).Unix(), true, now.Add(-40 * time.Second)},
		"cleared by a clock that was ahead":           {now.Add(time.Hour).Unix(), true, now},
		"a number that is no time":                    {3, true, now},
		"cleared while we watch":                      {now.Add(-40 * time.Second).Unix(), false, now},
	} {
		t.Run(name, func(t *testing.T) {
			o := apiv3.NewCalicoNodeStatus()
			o.Generation, o.CreationTimestamp = tc.generation, metav1.NewTime(now.Add(-time.Hour))
			var none *report
			require.True(t, none.next(o, now, tc.unproven).cleared.Equal(tc.want))
		})
	}
}
