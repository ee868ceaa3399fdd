package calico

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"

	apiv3 "github.com/projectcalico/api/pkg/apis/projectcalico/v3"
	"github.com/projectcalico/calico/libcalico-go/lib/options"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"

	"github.com/rrpool/rrpool/controllers/plan"
)

// meshObject is how errors call the object that holds the mesh.
var meshObject = fmt.Sprintf("BGPConfiguration %q", defaultConfig)

// disableMesh switches the mesh off and keeps what was there, in one write,
// provided that it still is what the caller has decided on.
func (a *Adapter) disableMesh(ctx context.Context, act plan.DisableMesh) (bool, error) {
	o, err := a.liveConfig(ctx)
	if err != nil {
		return false, err
	}
	if o == nil {
		return a.createDisabled(ctx, act)
	}
	have := meshIn(o.typed.Spec)
	if !have.on() && o.before != nil {
		return a.dropRestored(ctx, o)
	}
	if err := decidedOn(act, have, o.before); err != nil {
		return false, err
	}
	text, err := keep(act, have, o.before)
	if err != nil {
		return false, err
	}
	err = errors.Join(o.set(savedMesh{Enabled: ptr.To(false)}), o.note(beforeAnnotation, text), o.drop("annotations", restoredAnnotation))
	if err != nil {
		return false, err
	}
	return a.updateConfig(ctx, o)
}

// dropRestored removes the note of a restoration that holds no longer: somebody
// has switched the mesh off since.
func (a *Adapter) dropRestored(ctx context.Context, o *liveMesh) (bool, error) {
	if _, noted := o.typed.Annotations[restoredAnnotation]; !noted {
		return false, nil
	}
	if err := o.drop("annotations", restoredAnnotation); err != nil {
		return false, err
	}
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
		before != nil && now.Password != nil && !plan.SameRef(act.Saved.Password, now.Password):
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
	o, err := a.liveConfig(ctx)
	if err != nil || o == nil {
		// Without the object the mesh is on.
		return false, err
	}
	have, want := meshIn(o.typed.Spec), savedMesh{Enabled: ptr.To(true)}
	_, noted := o.typed.Annotations[restoredAnnotation]
	switch {
	case o.before == nil && have.on():
		return false, nil
	case o.before == nil:
		want.Password = a.peerPassword() // the note is lost
	default:
		want = *o.before
		if !want.on() {
			// Never saved by us: a mesh that was off needed no switching off.
			want.Enabled = nil
		}
	}
	if noted && reflect.DeepEqual(have, savedMesh{Enabled: want.Enabled, Password: want.Password, MaxRestartTime: want.MaxRestartTime}) {
		return false, nil
	}
	if err := errors.Join(o.set(want), o.note(restoredAnnotation, rfc3339(a.now()))); err != nil {
		return false, err
	}
	return a.updateConfig(ctx, o)
}

// peerPassword is the one of our BGPPeers, in Calico's own words, nil where they
// have none. They took it over from the mesh: without it the sessions of a mesh
// whose note somebody has removed would come back unprotected.
func (a *Adapter) peerPassword() *apiv3.BGPPassword {
	a.store.mu.Lock()
	defer a.store.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(a.store.peers)) {
		p := a.store.peers[name]
		if p.Labels[managedByLabel] == managedByValue && p.Spec.Password != nil {
			return p.Spec.Password
		}
	}
	return nil
}

// forgetMesh takes our notes from the BGPConfiguration, and the object itself
// where we made it and nobody has added to it.
func (a *Adapter) forgetMesh(ctx context.Context) (bool, error) {
	o, err := a.liveConfig(ctx)
	if err != nil || o == nil {
		return false, err
	}
	_, noted := o.typed.Annotations[restoredAnnotation]
	if o.before == nil && !noted {
		return false, nil
	}
	// What was kept is still needed. A mere note of the time is not.
	if o.before != nil && !meshIn(o.typed.Spec).on() {
		return false, changed(meshObject, "the mesh is off")
	}
	ours := o.typed.Labels[managedByLabel] == managedByValue
	if err := o.dropNotes(ours); err != nil {
		return false, err
	}
	if ours && o.wasAbsent() && o.untouched() {
		return a.deleteVersion(ctx, o.raw)
	}
	return a.updateConfig(ctx, o)
}

// wasAbsent: there was no object before we switched the mesh off.
func (o *liveMesh) wasAbsent() bool { return o.before != nil && o.before.Absent }

// dropNotes removes what we have written beside the mesh itself.
func (o *liveMesh) dropNotes(ours bool) error {
	err := errors.Join(o.drop("annotations", beforeAnnotation), o.drop("annotations", restoredAnnotation))
	if !ours {
		return err
	}
	return errors.Join(err, o.drop("labels", managedByLabel))
}

// untouched reports whether an object, without what is ours, says nothing that
// Calico would not do without it. A setting that we do not know says something.
func (o *liveMesh) untouched() bool {
	left, err := configIn(o.raw)
	if err != nil {
		return false
	}
	spec, _, _ := unstructured.NestedMap(o.raw.Object, "spec")
	delete(spec, "nodeToNodeMeshEnabled")
	if spec["serviceLoadBalancerAggregation"] == string(apiv3.ServiceLoadBalancerAggregationEnabled) {
		delete(spec, "serviceLoadBalancerAggregation")
	}
	metadata := len(left.Labels) + len(left.Annotations) + len(left.OwnerReferences) + len(left.Finalizers) +
		len(o.raw.GetOwnerReferences()) + len(o.raw.GetFinalizers())
	return len(spec)+metadata == 0
}
