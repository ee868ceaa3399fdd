package main

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

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
