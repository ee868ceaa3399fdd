package v1alpha1_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/test/controlplane"
)

func TestMain(m *testing.M) { controlplane.Main(m) }

func admin(t *testing.T) client.Client {
	t.Helper()
	scheme := runtime.NewScheme()
	require.NoError(t, v1alpha1.AddToScheme(scheme))
	c, err := client.New(controlplane.ForTest(t).AdminConfig(), client.Options{Scheme: scheme})
	require.NoError(t, err)
	return c
}

// named gives an object as a user would write it, so that nothing is filled in or left out by Go types on the way.
func named(t *testing.T, name, spec string) *unstructured.Unstructured {
	t.Helper()
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("RouteReflectorPool"))
	object.SetName(name)
	content := map[string]any{}
	require.NoError(t, yaml.Unmarshal([]byte(spec), &content))
	object.Object["spec"] = content
	return object
}

func object(t *testing.T, spec string) *unstructured.Unstructured {
	t.Helper()
	return named(t, v1alpha1.SingletonName, spec)
}

// created makes the typed object of a test, with all defaults, and removes it afterwards.
func created(t *testing.T, c client.Client, o client.Object) *v1alpha1.RouteReflectorPool {
	t.Helper()
	require.NoError(t, c.Create(t.Context(), o))
	pool := &v1alpha1.RouteReflectorPool{ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.SingletonName}}
	t.Cleanup(func() {
		gone := &v1alpha1.RouteReflectorPool{ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.SingletonName}}
		require.NoError(t, c.Delete(context.Background(), gone))
	})
	require.NoError(t, c.Get(t.Context(), client.ObjectKeyFromObject(pool), pool))
	return pool
}
