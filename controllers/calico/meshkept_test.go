package calico

import (
	"context"
	"testing"

	apiv3 "github.com/projectcalico/api/pkg/apis/projectcalico/v3"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/rrpool/rrpool/controllers/plan"
)

// rawConfig is the custom resource without what the API counts by itself.
func (b *bench) rawConfig() map[string]any {
	b.t.Helper()
	raw := customConfig()
	require.NoError(b.t, b.kube.Get(b.t.Context(), client.ObjectKeyFromObject(raw), raw))
	for _, field := range []string{"resourceVersion", "generation", "managedFields"} {
		unstructured.RemoveNestedField(raw.Object, "metadata", field)
	}
	return raw.Object
}

// kubectl writes the default BGPConfiguration as kubectl and cloud controllers
// do: past libcalico-go, so nothing is kept in its annotation of metadata.
func (b *bench) kubectl() {
	b.t.Helper()
	raw := customConfig()
	raw.SetLabels(map[string]string{"team": "network"})
	raw.SetAnnotations(map[string]string{"created-by": "IBMCloudKubernetesService"})
	raw.SetFinalizers([]string{"example.com/hold"})
	raw.Object["metadata"].(map[string]any)["ownerReferences"] = []any{map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": "6a3f0f0e-0000-4000-8000-000000000001",
	}}
	raw.Object["spec"] = map[string]any{
		"nodeToNodeMeshEnabled": true, "asNumber": int64(64999), "logSeverityScreen": "Info",
		"nodeMeshPassword": map[string]any{"secretKeyRef": map[string]any{"name": "bgp", "key": "password"}},
	}
	require.NoError(b.t, b.kube.Create(b.t.Context(), raw))
	b.t.Cleanup(func() {
		raw := customConfig()
		patch := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`))
		require.NoError(b.t, client.IgnoreNotFound(b.kube.Patch(context.Background(), raw, patch)))
	})
}

func TestWhatOthersWroteOnTheBGPConfigurationIsKeptToTheLastField(t *testing.T) {
	for name, c := range map[string]struct{ given, between func(*bench) }{
		"written by kubectl or a cloud": {given: (*bench).kubectl},
		"written by calicoctl":          {given: func(b *bench) { b.giveConfig(withPassword) }},
		"written by calicoctl, labeled with kubectl": {given: func(b *bench) {
			b.giveConfig(withPassword)
			patch := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":{"by":"hand"},"annotations":{"by":"hand"}}}`))
			require.NoError(b.t, b.kube.Patch(b.t.Context(), customConfig(), patch))
		}},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			c.given(b)
			before := b.rawConfig()
			b.run()
			b.apply(plan.DisableMesh{Saved: b.observe().BGP.Mesh}, true)
			off := b.rawConfig()
			meta, was := off["metadata"].(map[string]any), before["metadata"].(map[string]any)
			for _, field := range []string{"labels", "finalizers", "ownerReferences"} {
				require.Equal(t, was[field], meta[field], "%s while the mesh is off", field)
			}
			for key, value := range was["annotations"].(map[string]any) {
				require.Equal(t, value, meta["annotations"].(map[string]any)[key], "%s while the mesh is off", key)
			}
			require.False(t, b.observe().BGP.MeshOn())
			require.NotNil(t, b.observe().BGP.Saved)
			b.apply(plan.RestoreMesh{}, true)
			b.apply(plan.ForgetMesh{}, true)
			require.Equal(t, before, b.rawConfig())
		})
	}
}

func TestNotesThatCalicoctlHasMovedAreFoundAndRemoved(t *testing.T) {
	b := newBench(t)
	b.kubectl()
	b.run()
	mesh := b.observe().BGP.Mesh
	b.apply(plan.DisableMesh{Saved: mesh}, true)
	b.editConfig(func(o *apiv3.BGPConfiguration) { o.Spec.LogSeverityScreen = "Debug" })
	edited := b.config().ResourceVersion
	b.await("the edit", func(plan.Cluster) bool {
		b.store.mu.Lock()
		defer b.store.mu.Unlock()
		return b.store.config.ResourceVersion == edited
	})
	require.Equal(t, mesh, *b.observe().BGP.Saved)
	b.apply(plan.RestoreMesh{}, true)
	b.editConfig(func(o *apiv3.BGPConfiguration) { o.Spec.LogSeverityScreen = "Error" })
	b.apply(plan.DisableMesh{Saved: mesh}, true)
	require.Zero(t, b.observe().BGP.Restored)
	b.apply(plan.RestoreMesh{}, true)
	b.apply(plan.ForgetMesh{}, true)
	live := b.config()
	require.NotContains(t, live.Annotations, beforeAnnotation)
	require.NotContains(t, live.Annotations, restoredAnnotation)
	require.Equal(t, "IBMCloudKubernetesService", live.Annotations["created-by"])
	require.Equal(t, "network", live.Labels["team"])
}

func TestAnOldNoteOfARestoredMeshDoesNotStay(t *testing.T) {
	b := newBench(t)
	b.giveConfig(func(o *apiv3.BGPConfiguration) {
		o.Spec.NodeToNodeMeshEnabled = ptr.To(false)
		o.Annotations = map[string]string{restoredAnnotation: "2026-05-01T00:00:00Z"}
	})
	b.apply(plan.ForgetMesh{}, true)
	live := b.config()
	require.NotContains(t, live.Annotations, restoredAnnotation)
	require.False(t, *live.Spec.NodeToNodeMeshEnabled, "nothing was saved, so it stays as somebody wrote it")

	b.editConfig(func(o *apiv3.BGPConfiguration) {
		o.Annotations = map[string]string{beforeAnnotation: `{"enabled":true}`, restoredAnnotation: "2026-05-01T00:00:00Z"}
	})
	b.apply(plan.DisableMesh{Saved: plan.Mesh{Enabled: ptr.To(true)}}, true)
	live = b.config()
	require.Contains(t, live.Annotations, beforeAnnotation)
	require.NotContains(t, live.Annotations, restoredAnnotation, "switched off by somebody after we had restored it: it is off")
}

func TestAConfigurationWithoutASpecIsGivenOneAndKeepsItsMetadata(t *testing.T) {
	b := newBench(t)
	raw := customConfig()
	raw.SetAnnotations(map[string]string{"note": "bare"})
	require.NoError(t, b.kube.Create(t.Context(), raw))
	b.run()
	b.apply(plan.DisableMesh{Saved: b.observe().BGP.Mesh}, true)
	require.False(t, b.observe().BGP.MeshOn())
	b.apply(plan.RestoreMesh{}, true)
	b.apply(plan.ForgetMesh{}, true)
	require.Equal(t, map[string]string{"note": "bare"}, b.config().Annotations)
	require.Nil(t, b.config().Spec.NodeToNodeMeshEnabled)
}
