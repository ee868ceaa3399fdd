package calico

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"reflect"

	apiv3 "github.com/projectcalico/api/pkg/apis/projectcalico/v3"
	"github.com/projectcalico/calico/libcalico-go/lib/options"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/rrpool/rrpool/controllers/plan"
)

// meshObject is how errors call the object that holds the mesh.
var meshObject = fmt.Sprintf("BGPConfiguration %q", defaultConfig)

// liveConfig reads the default BGPConfiguration past any cache, nil when there is none.
func (a *Adapter) liveConfig(ctx context.Context) (*apiv3.BGPConfiguration, *savedMesh, error) {
	o, err := a.calico.BGPConfigurations().Get(ctx, defaultConfig, options.GetOptions{})
	if isMissing(err) {
		a.store.forget(apiv3.KindBGPConfiguration, defaultConfig)
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, fmt.Errorf("reading %s: %w", meshObject, err)
	}
	a.store.put(o.DeepCopy())
	before, err := saved(o)
	return o, before, err
}

// updateConfig writes the object as a whole, and only where that loses nothing.
func (a *Adapter) updateConfig(ctx context.Context, o *apiv3.BGPConfiguration) (bool, error) {
	if err := a.knowsAll(ctx, o.ResourceVersion); err != nil {
		return false, fmt.Errorf("updating %s: %w", meshObject, err)
	}
	out, err := a.calico.BGPConfigurations().Update(ctx, o, options.SetOptions{})
	if err != nil {
		return false, fmt.Errorf("updating %s: %w", meshObject, err)
	}
	a.store.put(out)
	return true, nil
}

// customConfig is the custom resource behind the default BGPConfiguration.
func customConfig() *unstructured.Unstructured {
	o := &unstructured.Unstructured{}
	o.SetGroupVersionKind(schema.GroupVersionKind{Group: "crd.projectcalico.org", Version: "v1", Kind: apiv3.KindBGPConfiguration})
	o.SetName(defaultConfig)
	return o
}

// knowsAll refuses to write an object that holds a setting of a Calico newer than
// the libcalico-go in here: the setting would be lost.
func (a *Adapter) knowsAll(ctx context.Context, revision string) error {
	raw := customConfig()
	if err := a.writer.Get(ctx, client.ObjectKeyFromObject(raw), raw); err != nil {
		return fmt.Errorf("reading the custom resource: %w", err)
	}
	if raw.GetResourceVersion() != revision {
		return changed(meshObject, "somebody has changed it")
	}
	text, err := json.Marshal(raw.Object["spec"])
	if err != nil {
		return fmt.Errorf("reading the custom resource: %w", err)
	}
	strict := json.NewDecoder(bytes.NewReader(text))
	strict.DisallowUnknownFields()
	if err := strict.Decode(&apiv3.BGPConfigurationSpec{}); err != nil {
		return fmt.Errorf("its spec holds what this version of rrpool does not know and would lose (%w): upgrade rrpool", err)
	}
	return nil
}

// disableMesh switches the mesh off and keeps what was there, in one write,
// provided that it still is what the caller has decided on.
func (a *Adapter) disableMesh(ctx context.Context, act plan.DisableMesh) (bool, error) {
	o, before, err := a.liveConfig(ctx)
	if err != nil {
		return false, err
	}
	if o == nil {
		return a.createDisabled(ctx, act)
	}
	have := meshIn(o.Spec)
	if !have.on() && before != nil {
		return false, nil
	}
	if err := decidedOn(act, have, before); err != nil {
		return false, err
	}
	text, err := keep(act, have, before)
	if err != nil {
		return false, err
	}
	savedMesh{Enabled: ptr.To(false)}.writeTo(&o.Spec)
	if o.Annotations == nil {
		o.Annotations = map[string]string{}
	}
	o.Annotations[beforeAnnotation] = text
	delete(o.Annotations, restoredAnnotation)
	return a.updateConfig(ctx, o)
}

// decidedOn compares the live mesh with the one that the caller saw.
func decidedOn(act plan.DisableMesh, have savedMesh, before *savedMesh) error {
	now := have.plan()
	switch {
	case !have.on():
		return changed(meshObject, "somebody else has switched the mesh off")
	case before == nil && act.SavedAbsent:
		return changed(meshObject, "somebody has created it")
	case before == nil && !sameMesh(act.Saved, now),
		before != nil && now.Password != nil && !sameRef(act.Saved.Password, now.Password):
		return changed(meshObject, "somebody has changed the mesh")
	}
	return nil
}

// createDisabled writes nothing but what switches the mesh off.
func (a *Adapter) createDisabled(ctx context.Context, act plan.DisableMesh) (bool, error) {
	if !act.SavedAbsent {
		return false, changed(meshObject, "somebody has deleted it")
	}
	text, err := keep(act, savedMesh{}, nil)
	if err != nil {
		return false, err
	}
	o := apiv3.NewBGPConfiguration()
	o.Name = defaultConfig
	o.Labels = map[string]string{managedByLabel: managedByValue}
	o.Annotations = map[string]string{beforeAnnotation: text}
	o.Spec.NodeToNodeMeshEnabled = ptr.To(false)
	out, err := a.calico.BGPConfigurations().Create(ctx, o, options.SetOptions{})
	if err != nil {
		return false, fmt.Errorf("creating %s: %w", meshObject, err)
	}
	a.store.put(out)
	return true, nil
}

// restoreMesh puts the mesh back as it was kept, or on where nothing was, and
// notes the time. What was kept stays until forgetMesh.
func (a *Adapter) restoreMesh(ctx context.Context) (bool, error) {
	o, before, err := a.liveConfig(ctx)
	if err != nil || o == nil {
		// Without the object the mesh is on.
		return false, err
	}
	have, want := meshIn(o.Spec), savedMesh{Enabled: ptr.To(true)}
	_, noted := o.Annotations[restoredAnnotation]
	switch {
	case before == nil && have.on():
		return false, nil
	case before != nil:
		want = *before
		if !want.on() {
			// Never saved by us: a mesh that was off needed no switching off.
			want.Enabled = nil
		}
	}
	if noted && reflect.DeepEqual(have, savedMesh{Enabled: want.Enabled, Password: want.Password, MaxRestartTime: want.MaxRestartTime}) {
		return false, nil
	}
	want.writeTo(&o.Spec)
	a.stamp(o, restoredAnnotation)
	return a.updateConfig(ctx, o)
}

// forgetMesh takes our notes from the BGPConfiguration, and the object itself
// where we made it and nobody has added to it.
func (a *Adapter) forgetMesh(ctx context.Context) (bool, error) {
	o, before, err := a.liveConfig(ctx)
	if err != nil || o == nil {
		return false, err
	}
	_, noted := o.Annotations[restoredAnnotation]
	if before == nil && !noted {
		return false, nil
	}
	if !meshIn(o.Spec).on() {
		return false, changed(meshObject, "the mesh is off")
	}
	delete(o.Annotations, beforeAnnotation)
	delete(o.Annotations, restoredAnnotation)
	ours := o.Labels[managedByLabel] == managedByValue
	if ours && before != nil && before.Absent && untouched(o) {
		return a.deleteConfig(ctx, o)
	}
	if ours {
		delete(o.Labels, managedByLabel)
	}
	return a.updateConfig(ctx, o)
}

// untouched reports whether an object that we created says nothing that Calico
// would not do without it.
func untouched(o *apiv3.BGPConfiguration) bool {
	spec := o.Spec
	spec.NodeToNodeMeshEnabled = nil
	if d := spec.ServiceLoadBalancerAggregation; d != nil && *d == apiv3.ServiceLoadBalancerAggregationEnabled {
		spec.ServiceLoadBalancerAggregation = nil
	}
	return len(o.Labels) == 1 && len(o.Annotations) == 0 && len(o.OwnerReferences) == 0 && len(o.Finalizers) == 0 &&
		reflect.DeepEqual(spec, apiv3.BGPConfigurationSpec{})
}

// deleteConfig deletes exactly the version that was looked at. libcalico-go
// cannot: with the Kubernetes datastore it ignores the version.
func (a *Adapter) deleteConfig(ctx context.Context, o *apiv3.BGPConfiguration) (bool, error) {
	err := a.writer.Delete(ctx, customConfig(), client.Preconditions{ResourceVersion: &o.ResourceVersion})
	if err != nil && !isMissing(err) {
		return false, fmt.Errorf("deleting %s: %w", meshObject, err)
	}
	a.store.forget(apiv3.KindBGPConfiguration, defaultConfig)
	return err == nil, nil
}
