package v1alpha1_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/test/controlplane"
)

func TestKubectlGetShowsWhereTheClusterIs(t *testing.T) {
	c := admin(t)
	pool := created(t, c, object(t, `{}`))
	pool.Status = v1alpha1.RouteReflectorPoolStatus{
		Step: v1alpha1.StepStatus{Name: "DisableMesh"},
		Conditions: []metav1.Condition{
			condition(v1alpha1.ConditionReady, metav1.ConditionFalse, "DisableMesh"),
			condition(v1alpha1.ConditionReflectorsEstablished, metav1.ConditionTrue, "AllEstablished"),
			condition(v1alpha1.ConditionMeshDisabled, metav1.ConditionFalse, "MeshOn"),
		},
	}
	require.NoError(t, c.Status().Update(t.Context(), pool))

	shown := map[string]any{}
	table := getTable(t)
	for i, column := range table.ColumnDefinitions {
		shown[column.Name] = table.Rows[0].Cells[i]
	}
	require.NotEmpty(t, shown["Age"])
	delete(shown, "Age")
	require.Equal(t, map[string]any{
		"Name": "default", "Mode": "RouteReflector", "Step": "DisableMesh",
		"Reflectors": "AllEstablished", "Mesh": "MeshOn", "Ready": "False",
	}, shown)
}

func condition(kind string, status metav1.ConditionStatus, reason string) metav1.Condition {
	return metav1.Condition{Type: kind, Status: status, Reason: reason, LastTransitionTime: metav1.Now()}
}

// getTable asks as kubectl does.
func getTable(t *testing.T) *metav1.Table {
	t.Helper()
	config := controlplane.ForTest(t).AdminConfig()
	config.GroupVersion, config.APIPath = &v1alpha1.GroupVersion, "/apis"
	config.NegotiatedSerializer = serializer.WithoutConversionCodecFactory{CodecFactory: scheme.Codecs}
	c, err := rest.RESTClientFor(config)
	require.NoError(t, err)
	table := &metav1.Table{}
	require.NoError(t, c.Get().Resource("routereflectorpools").SetHeader("Accept", "application/json;as=Table;v=v1;g=meta.k8s.io").
		Do(t.Context()).Into(table))
	return table
}
