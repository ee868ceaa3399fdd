package main

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/test/controlplane"
)

// The manager as it is deployed, in a cluster of no cloud whose nodes all run pods: it chooses nodes, empties them,
// gives them the role, and takes all of it back, with the rights of config/rbac and no others.
func TestMigrationThereAndBackOnExistingNodes(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a kube-apiserver and waits for settle times")
	}
	t.Parallel()
	plane, admin := busyCluster(t)
	began := time.Now()
	config := plane.ServiceAccountConfig(testNamespace, "rrpool-manager")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go quickNetwork(admin).run(ctx, 200*time.Millisecond)
	go fakeKubelet(ctx, admin)
	manager := start(t, config, nil)
	defer manager.stop()

	object := &v1alpha1.RouteReflectorPool{ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.SingletonName}}
	object.Spec.Provider.Type = v1alpha1.ProviderExistingNodes
	object.Spec.Provider.ExistingNodes.Promotion = v1alpha1.PromotionDrain
	require.NoError(t, admin.Create(ctx, object))
	follow(t, admin, object, func(c *assert.CollectT) { require.Equal(c, "Steady", object.Status.Step.Name) })
	require.Equal(t, metav1.ConditionTrue, object.Status.Conditions[0].Status, "%+v", object.Status.Conditions)
	require.Len(t, object.Status.Reflectors, 3)
	require.Equal(t, "existing-nodes", object.Status.Pool)
	chosen := requireChosen(t, admin)

	// While nodes are in the pool, no edit can make rrpool forget them.
	change := rawMerge(`{"spec":{"provider":{"type":"IKS"}}}`)
	require.ErrorContains(t, admin.Patch(ctx, object.DeepCopy(), change, client.DryRunAll), "spec.provider.type cannot be changed")

	requireEvictions(t, plane, admin, chosen, began)
	user := controlplane.ServiceAccountUser(testNamespace, "rrpool-manager")
	quiet := time.Now()
	time.Sleep(3 * time.Second) // a silence can only be waited for
	requireSilence(t, plane, user, quiet)

	require.NoError(t, admin.Delete(ctx, object))
	follow(t, admin, object, func(c *assert.CollectT) {
		require.True(c, apierrors.IsNotFound(admin.Get(ctx, client.ObjectKeyFromObject(object), object)))
	})
	requireNothingLeft(t, admin)
	requireAllowed(t, plane, user, began)
	var events eventsv1.EventList
	require.NoError(t, admin.List(ctx, &events))
	reported := fmt.Sprint(events)
	for _, words := range []string{"NodeCordoned", "PodsEvicted", "NodeUncordoned", "first route reflector", "default/bare-"} {
		require.Contains(t, reported, words)
	}
	for _, e := range events.Items {
		t.Logf("event %s %s: %s", e.Reason, e.Action, e.Note)
	}
}

// busyCluster has six nodes in three zones, each with a pod that can move, one that cannot, and one of a DaemonSet.
func busyCluster(t *testing.T) (*controlplane.ControlPlane, client.Client) {
	t.Helper()
	ctx := t.Context()
	plane := auditedPlane(t)
	admin := adminOf(t, plane)
	objects := []client.Object{&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: testNamespace}}}
	for _, file := range []string{"role.yaml", "bindings.yaml"} {
		objects = append(objects, decode(t, filepath.Join("..", "..", "config", "rbac", file))...)
	}
	for _, object := range objects {
		require.NoError(t, admin.Create(ctx, object))
	}
	awaitRights(t, admin)
	for i := range 6 {
		node := machine(t, fmt.Sprintf("10.1.0.%d", i+1), "", fmt.Sprintf("zone-%d", i%3+1))
		node.Spec.ProviderID = fmt.Sprintf("kind://docker/test/%d", i+1)
		join(t, admin, node)
		for name, owner := range map[string]string{"web": "ReplicaSet", "log": "DaemonSet", "bare": ""} {
			runPod(t, admin, node.Name, fmt.Sprintf("%s-%d", name, i+1), owner)
		}
	}
	return plane, admin
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
		ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "calico-node", Labels: map[string]string{"k8s-app": "calico-node"}},
		Spec:       corev1.PodSpec{NodeName: node, Containers: []corev1.Container{{Name: "c", Image: "i", Env: []corev1.EnvVar{backend}}}},
	}
	require.NoError(t, admin.Create(t.Context(), pod))
	return pod
}

// fakeKubelet ends pods that are asked to go.
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

// follow waits for a state of the object and logs the steps on the way.
func follow(t *testing.T, admin client.Client, object *v1alpha1.RouteReflectorPool, check func(*assert.CollectT)) {
	t.Helper()
	last := ""
	await(t, 4*time.Minute, func(c *assert.CollectT) {
		_ = admin.Get(t.Context(), client.ObjectKeyFromObject(object), object)
		step := object.Status.Step
		if now := fmt.Sprint(step.Name, step.Reason); now != last {
			t.Logf("%s: %s %v", step.Name, step.Reason, step.WaitingFor)
			last = now
		}
		check(c)
	})
}

// requireChosen: one node in each zone is in the pool and in the role, and none is still cordoned.
func requireChosen(t *testing.T, admin client.Client) []string {
	t.Helper()
	var nodes corev1.NodeList
	require.NoError(t, admin.List(t.Context(), &nodes))
	var chosen []string
	zones := map[string]bool{}
	for _, n := range nodes.Items {
		require.False(t, n.Spec.Unschedulable, n.Name)
		_, reflects := n.Labels[roleLabel]
		require.Equal(t, reflects, n.Labels[v1alpha1.PoolLabel] == "existing-nodes", n.Name)
		if reflects {
			chosen, zones[n.Labels[corev1.LabelTopologyZone]] = append(chosen, n.Name), true
		}
	}
	require.Len(t, chosen, 3)
	require.Len(t, zones, 3)
	return chosen
}

// requireEvictions: of the chosen nodes, and only of them, those pods were moved that can be.
func requireEvictions(t *testing.T, plane *controlplane.ControlPlane, admin client.Client, chosen []string, since time.Time) {
	t.Helper()
	var pods corev1.PodList
	require.NoError(t, admin.List(t.Context(), &pods))
	left := map[string]int{}
	for _, pod := range pods.Items {
		left[pod.Spec.NodeName]++
	}
	for node, count := range left {
		want := 3
		if slices.Contains(chosen, node) {
			want = 2
		}
		require.Equal(t, want, count, node)
	}
	writes, err := plane.Writes(controlplane.ServiceAccountUser(testNamespace, "rrpool-manager"), since)
	require.NoError(t, err)
	for _, write := range writes {
		require.NotEqual(t, "pods", write.Resource, "pods are evicted, never deleted: %s", write)
	}
}

// requireNothingLeft: the nodes are as they were, and of ours there is nothing.
func requireNothingLeft(t *testing.T, admin client.Client) {
	t.Helper()
	var nodes corev1.NodeList
	require.NoError(t, admin.List(t.Context(), &nodes))
	for _, n := range nodes.Items {
		require.Equal(t, map[string]string{corev1.LabelTopologyZone: n.Labels[corev1.LabelTopologyZone]}, n.Labels, n.Name)
		require.Equal(t, map[string]string{ipv4Annotation: n.Name + "/24"}, n.Annotations, n.Name)
		require.False(t, n.Spec.Unschedulable, n.Name)
	}
	for _, kind := range []string{"BGPPeer", "CalicoNodeStatus", "BGPConfiguration"} {
		left, err := written(t.Context(), admin, kind)
		require.NoError(t, err)
		require.Empty(t, left, "%s: nothing is left behind", kind)
	}
}
