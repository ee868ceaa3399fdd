package calico

import (
	"context"
	"encoding/json"
	"fmt"

	apiv3 "github.com/projectcalico/api/pkg/apis/projectcalico/v3"
	"github.com/projectcalico/calico/libcalico-go/lib/backend/k8s/resources"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// metadataAnnotation is where libcalico-go keeps the metadata of what it has
// written, as JSON. On reading it goes before the custom resource's own.
const metadataAnnotation = "projectcalico.org/metadata"

// liveMesh is the default BGPConfiguration as it is now. It is written as the
// custom resource that was read, with only our fields changed: libcalico-go would
// move labels and annotations that kubectl or a cloud has written, and drop
// finalizers, owners and the settings of a newer Calico.
type liveMesh struct {
	raw *unstructured.Unstructured
	// typed is raw in Calico's words, before our changes.
	typed *apiv3.BGPConfiguration
	// before is what we kept on it, nil for nothing.
	before *savedMesh
}

// customConfig is the custom resource behind the default BGPConfiguration.
func customConfig() *unstructured.Unstructured {
	return custom(apiv3.KindBGPConfiguration, defaultConfig)
}

// configIn reads a custom resource as libcalico-go does.
func configIn(raw *unstructured.Unstructured) (*apiv3.BGPConfiguration, error) {
	text, err := json.Marshal(raw)
	if err != nil {
		return nil, fmt.Errorf("rendering %s: %w", meshObject, err)
	}
	out := apiv3.NewBGPConfiguration()
	if err := json.Unmarshal(text, out); err != nil {
		return nil, fmt.Errorf("parsing %s: %w", meshObject, err)
	}
	out.TypeMeta = apiv3.NewBGPConfiguration().TypeMeta
	if err := resources.ConvertK8sResourceToCalicoResource(out); err != nil {
		return nil, fmt.Errorf("parsing annotation %s of %s: %w", metadataAnnotation, meshObject, err)
	}
	return out, nil
}

// liveConfig reads the default BGPConfiguration past any cache, nil when there is none.
func (a *Adapter) liveConfig(ctx context.Context) (*liveMesh, error) {
	raw := customConfig()
	err := a.writer.Get(ctx, client.ObjectKeyFromObject(raw), raw)
	if isMissing(err) {
		a.store.forget(apiv3.KindBGPConfiguration, defaultConfig)
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", meshObject, err)
	}
	out := &liveMesh{raw: raw}
	if out.typed, err = configIn(raw); err != nil {
		return nil, err
	}
	a.store.put(out.typed)
	out.before, err = saved(out.typed)
	return out, err
}

// updateConfig writes the version that was read, with our changes.
func (a *Adapter) updateConfig(ctx context.Context, o *liveMesh) (bool, error) {
	if err := a.writer.Update(ctx, o.raw); err != nil {
		return false, fmt.Errorf("updating %s: %w", meshObject, err)
	}
	out, err := configIn(o.raw)
	if err != nil {
		return true, err
	}
	a.store.put(out)
	return true, nil
}

// set writes the mesh. All three fields change together: Calico refuses a
// password or restart time of a mesh that is off.
func (o *liveMesh) set(m savedMesh) error {
	text, err := json.Marshal(apiv3.BGPConfigurationSpec{
		NodeToNodeMeshEnabled: m.Enabled, NodeMeshPassword: m.Password, NodeMeshMaxRestartTime: m.MaxRestartTime,
	})
	if err != nil {
		return fmt.Errorf("rendering the mesh: %w", err)
	}
	var fields map[string]any
	if err := json.Unmarshal(text, &fields); err != nil {
		return fmt.Errorf("rendering the mesh: %w", err)
	}
	spec, ok := o.raw.Object["spec"].(map[string]any)
	if !ok {
		spec = map[string]any{}
		o.raw.Object["spec"] = spec
	}
	for _, key := range []string{"nodeToNodeMeshEnabled", "nodeMeshPassword", "nodeMeshMaxRestartTime"} {
		delete(spec, key)
		if value, ok := fields[key]; ok {
			spec[key] = value
		}
	}
	return nil
}

// note writes an annotation.
func (o *liveMesh) note(key, value string) error {
	if err := o.drop("annotations", key); err != nil {
		return err
	}
	notes := o.raw.GetAnnotations()
	if notes == nil {
		notes = map[string]string{}
	}
	notes[key] = value
	o.raw.SetAnnotations(notes)
	return nil
}

// drop removes a label or annotation wherever it is kept. What else the object
// says stays as it is written.
func (o *liveMesh) drop(of, key string) error {
	own, _, _ := unstructured.NestedStringMap(o.raw.Object, "metadata", of)
	if _, ok := own[key]; ok {
		unstructured.RemoveNestedField(o.raw.Object, "metadata", of, key)
		if len(own) == 1 {
			unstructured.RemoveNestedField(o.raw.Object, "metadata", of)
		}
	}
	notes := o.raw.GetAnnotations()
	text, ok := notes[metadataAnnotation]
	if !ok {
		return nil
	}
	meta := &metav1.ObjectMeta{}
	if err := json.Unmarshal([]byte(text), meta); err != nil {
		return fmt.Errorf("parsing annotation %s of %s: %w", metadataAnnotation, meshObject, err)
	}
	kept := map[string]map[string]string{"annotations": meta.Annotations, "labels": meta.Labels}[of]
	if _, ok := kept[key]; !ok {
		return nil
	}
	delete(kept, key)
	out, err := json.Marshal(meta)
	if err != nil {
		return fmt.Errorf("rendering annotation %s of %s: %w", metadataAnnotation, meshObject, err)
	}
	notes[metadataAnnotation] = string(out)
	o.raw.SetAnnotations(notes)
	return nil
}
