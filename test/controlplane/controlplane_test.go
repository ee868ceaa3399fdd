package controlplane

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

func TestMain(m *testing.M) { Main(m) }

func TestWritesFindsWhoWroteWhatAndWhen(t *testing.T) {
	plane := ForTest(t)
	client := kubernetes.NewForConfigOrDie(plane.UserConfig("writer", "system:masters"))
	start, next := time.Now(), plane.Follow("writer")
	_, err := client.CoreV1().ConfigMaps("default").Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "written"}}, metav1.CreateOptions{})
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, client.CoreV1().ConfigMaps("default").Delete(context.Background(), "written", metav1.DeleteOptions{}))
	})
	_, err = client.CoreV1().ConfigMaps("default").List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)

	writes, err := plane.Writes("writer", start)
	require.NoError(t, err)
	require.Len(t, writes, 1)
	got := writes[0]
	require.Equal(t, []any{"create", "configmaps", "default", "written", 201, false}, []any{got.Verb, got.Resource, got.Namespace, got.Name, got.Code, got.Lease()}, got.String())

	requests, err := plane.Requests("writer", start)
	require.NoError(t, err)
	require.Len(t, requests, 2)
	for _, want := range [][]AuditEvent{requests, nil} {
		event, err := next()
		require.NoError(t, err)
		require.Equal(t, want, event)
	}

	writes, err = plane.Writes("writer", time.Now())
	require.NoError(t, err)
	require.Empty(t, writes, "an earlier write was counted")
	writes, err = plane.Writes("another", start)
	require.NoError(t, err)
	require.Empty(t, writes, "another user's write was counted")
}
