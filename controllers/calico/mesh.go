package calico

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"time"

	apiv3 "github.com/projectcalico/api/pkg/apis/projectcalico/v3"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/controllers/plan"
)

// Annotations of the default BGPConfiguration.
const (
	// beforeAnnotation has the mesh settings saved before disabling.
	beforeAnnotation = "rrpool.io/mesh-before"
	// restoredAnnotation has the time when we have restored the mesh, in RFC 3339.
	restoredAnnotation = "rrpool.io/mesh-restored"
)

// defaultASN is Calico's default AS number.
const defaultASN = 64512

// savedMesh is the content of beforeAnnotation. It has Calico's own types, so that no field is lost.
type savedMesh struct {
	// Absent is true where there was no BGPConfiguration.
	Absent         bool               `json:"absent,omitempty"`
	Enabled        *bool              `json:"enabled,omitempty"`
	Password       *apiv3.BGPPassword `json:"password,omitempty"`
	MaxRestartTime *metav1.Duration   `json:"maxRestartTime,omitempty"`
}

func (m savedMesh) plan() plan.Mesh {
	return plan.Mesh{Enabled: m.Enabled, Password: refOf(m.Password), MaxRestartTime: durationOf(m.MaxRestartTime)}
}

// meshIn returns the mesh settings of a BGPConfiguration.
func meshIn(spec apiv3.BGPConfigurationSpec) savedMesh {
	return savedMesh{
		Enabled: spec.NodeToNodeMeshEnabled, Password: spec.NodeMeshPassword, MaxRestartTime: spec.NodeMeshMaxRestartTime,
	}
}

// on reports whether the mesh is enabled, which is the default.
func (m savedMesh) on() bool { return m.Enabled == nil || *m.Enabled }

// saved returns the mesh settings saved on a BGPConfiguration, nil if none are saved. If they cannot be parsed, unread says why, and other
// settings replace them: while the mesh is on, its current settings; while the mesh is off, an enabled mesh with the password of our BGPPeers,
// which took it over from the mesh. The caller holds the lock.
func (s *store) saved(o *apiv3.BGPConfiguration) (before *savedMesh, unread string) {
	text, ok := o.Annotations[beforeAnnotation]
	if !ok {
		return nil, ""
	}
	out := &savedMesh{}
	err := json.Unmarshal([]byte(text), out)
	if err == nil {
		return out, ""
	}
	if *out = meshIn(o.Spec); !out.on() {
		*out = savedMesh{Absent: isOurs(o), Enabled: ptr.To(true), Password: s.peerPassword()}
	}
	return out, plan.Plain(fmt.Sprintf("%.256q is not what rrpool writes: %v", text, err), 512) // the error quotes the text
}

// configOf converts the default BGPConfiguration. The caller holds the lock.
func (s *store) configOf(o *apiv3.BGPConfiguration) plan.BGPConfig {
	services, _ := servicesOf(o.Spec) // an error is reported by ObservePeering
	out := plan.BGPConfig{
		Exists: true, Mesh: meshIn(o.Spec).plan(), ASN: uint32(ptr.Deref(o.Spec.ASNumber, defaultASN)), Services: services,
		Restored: timeOf(o.Annotations[restoredAnnotation]), ManagedBy: keeperOf(o), MeshWriter: writerOf(o),
	}
	before, unread := s.saved(o)
	if before != nil {
		mesh := before.plan()
		out.Saved, out.SavedAbsent, out.SavedUnread = &mesh, before.Absent, unread
	}
	return out
}

// keepers are tools that revert changes to objects which they manage. Each entry has a part of the names of the tool's labels, annotations or
// field managers, and the tool's name.
var keepers = [][2]string{
	{"argocd", "Argo CD"},
	{"fluxcd.io", "Flux"},
	{"kustomize-controller", "Flux"},
	{"helm", "Helm"},
	{"cattle.io", "Rancher"},
	{"addonmanager", "the addon manager"},
	{"configsync", "Config Sync"},
	{"configmanagement", "Config Sync"},
	{"kapp.k14s.io", "kapp"},
	{"crossplane", "Crossplane"},
	{"terraform", "Terraform"},
	{"pulumi", "Pulumi"},
	{"app.kubernetes.io/instance", "Argo CD or Helm"},
}

// keeperOf returns the first of the keepers that has left a label, annotation or field manager on the object, with that trace, "" for none.
func keeperOf(o *apiv3.BGPConfiguration) string {
	var marks []string
	for key := range o.Annotations {
		marks = append(marks, "annotation "+key)
	}
	for key, value := range o.Labels {
		marks = append(marks, "label "+key+"="+value)
	}
	for _, f := range o.ManagedFields {
		marks = append(marks, "field manager "+f.Manager)
	}
	slices.Sort(marks)
	for _, k := range keepers {
		for _, mark := range marks {
			if strings.Contains(strings.ToLower(mark), k[0]) {
				return fmt.Sprintf("%s: %s", k[1], plan.Plain(mark, longestID))
			}
		}
	}
	return ""
}

// writerOf returns the field manager that has written nodeToNodeMeshEnabled last, "" where that is not recorded.
func writerOf(o *apiv3.BGPConfiguration) string {
	last, name := time.Time{}, ""
	for _, f := range o.ManagedFields {
		if f.FieldsV1 != nil && f.Time != nil && !f.Time.Time.Before(last) && strings.Contains(f.FieldsV1.GetRawString(), `"f:nodeToNodeMeshEnabled"`) {
			last, name = f.Time.Time, "field manager "+plan.Plain(f.Manager, longestID)
		}
	}
	return name
}

// ownRange parses a range of this cluster. As in Calico, an IPv4-mapped IPv6 range counts as an IPv4 range.
func ownRange(text string) (netip.Prefix, error) {
	p, err := netip.ParsePrefix(text)
	switch {
	case err != nil:
		return netip.Prefix{}, fmt.Errorf("%q is no CIDR such as 10.96.0.0/12", plan.Plain(text, longestID))
	case p.Addr().Is4In6() && p.Bits() < 96:
		return netip.Prefix{}, fmt.Errorf("%q is neither a range of IPv4 nor of IPv6", text)
	case p.Addr().Is4In6():
		p = netip.PrefixFrom(p.Addr().Unmap(), p.Bits()-96)
	}
	return p.Masked(), nil
}

// servicesOf returns the ranges of services, and an error for ranges that cannot be parsed.
func servicesOf(spec apiv3.BGPConfigurationSpec) (out []netip.Prefix, unread error) {
	add := func(cidr string) {
		p, err := ownRange(cidr)
		if unread = errors.Join(unread, err); err == nil {
			out = append(out, p)
		}
	}
	for _, r := range spec.ServiceClusterIPs {
		add(r.CIDR)
	}
	for _, r := range spec.ServiceExternalIPs {
		add(r.CIDR)
	}
	for _, r := range spec.ServiceLoadBalancerIPs {
		add(r.CIDR)
	}
	return out, unread
}

// encodeSaved renders the settings that a DisableMesh saves. If the live mesh or the
// settings saved before have the same password, all its fields are copied from there.
func encodeSaved(act plan.DisableMesh, live savedMesh, before *savedMesh) (string, error) {
	out := savedMesh{Absent: act.SavedAbsent, Enabled: act.Saved.Enabled, Password: passwordOf(act.Saved.Password)}
	if act.Saved.MaxRestartTime != nil {
		out.MaxRestartTime = &metav1.Duration{Duration: *act.Saved.MaxRestartTime}
	}
	for _, s := range []*savedMesh{before, &live} {
		if s != nil && s.Password != nil && ptr.Equal(refOf(s.Password), act.Saved.Password) {
			out.Password = s.Password // the live one wins
		}
	}
	text, err := json.Marshal(out)
	if err != nil {
		return "", fmt.Errorf("noting how the mesh was: %w", err)
	}
	return string(text), nil
}

// rfc3339 renders a time for an annotation.
func rfc3339(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// liveMesh is the default BGPConfiguration as the API has it. It is written as the custom resource
// that was read, with only our fields changed: libcalico-go would move labels and annotations that
// kubectl or a cloud has written, and drop finalizers, owners and the settings of a newer Calico.
type liveMesh struct {
	raw *unstructured.Unstructured
	// typed is raw in Calico's own type, before our changes.
	typed *apiv3.BGPConfiguration
	// saved are the mesh settings saved before disabling, nil for none, and unread is why they cannot be read.
	saved  *savedMesh
	unread string
	// peerPassword is the password of our BGPPeers, nil where they have none.
	peerPassword *apiv3.BGPPassword
}

// exists reports whether the API has the object. Without the object, the mesh is on and nothing is saved.
func (o *liveMesh) exists() bool { return o.raw.GetResourceVersion() != "" }

// liveConfig reads the default BGPConfiguration past any cache. If there is none, it returns a new one with our label, and does not create it.
func (a *Adapter) liveConfig(ctx context.Context) (*liveMesh, error) {
	a.store.mu.Lock()
	out := &liveMesh{raw: a.custom(apiv3.KindBGPConfiguration, defaultConfig), typed: apiv3.NewBGPConfiguration(), peerPassword: a.store.peerPassword()}
	a.store.mu.Unlock()
	err := a.calico.client.Get(ctx, client.ObjectKeyFromObject(out.raw), out.raw)
	if apierrors.IsNotFound(err) {
		a.store.forget(apiv3.KindBGPConfiguration, defaultConfig)
		out.raw.SetLabels(labelsFor(""))
		return out, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", meshObject, err)
	}
	if err := a.take(out.raw, out.typed); err != nil {
		return nil, err
	}
	a.store.mu.Lock()
	defer a.store.mu.Unlock()
	out.saved, out.unread = a.store.saved(out.typed)
	return out, nil
}

// updateConfig writes our changes to the version that was read, or creates the object, unless one of the changes failed.
func (a *Adapter) updateConfig(ctx context.Context, o *liveMesh, changes ...error) (bool, error) {
	if err := errors.Join(changes...); err != nil {
		return false, err
	}
	if do, err := save(ctx, a.calico.client, o.raw, ""); err != nil {
		return false, fmt.Errorf("%s %s: %w", do, meshObject, err)
	}
	return true, a.take(o.raw, apiv3.NewBGPConfiguration())
}

// set sets the mesh settings. The three fields change together: Calico refuses a password or restart time of a mesh that is off.
func (o *liveMesh) set(m savedMesh) error {
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&apiv3.BGPConfigurationSpec{
		NodeToNodeMeshEnabled: m.Enabled, NodeMeshPassword: m.Password, NodeMeshMaxRestartTime: m.MaxRestartTime,
	})
	for _, key := range []string{"nodeToNodeMeshEnabled", "nodeMeshPassword", "nodeMeshMaxRestartTime"} {
		unstructured.RemoveNestedField(o.raw.Object, "spec", key)
		if value, ok := fields[key]; ok {
			err = errors.Join(err, unstructured.SetNestedField(o.raw.Object, value, "spec", key))
		}
	}
	if err != nil {
		return fmt.Errorf("rendering the mesh: %w", err)
	}
	return nil
}

// annotate sets an annotation, and drops the value in metadataAnnotation.
func (o *liveMesh) annotate(key, value string) error {
	return errors.Join(o.drop("annotations", key), unstructured.SetNestedField(o.raw.Object, value, "metadata", "annotations", key))
}

// drop removes a label or annotation, from the metadata and from metadataAnnotation.
func (o *liveMesh) drop(of, key string) error {
	unstructured.RemoveNestedField(o.raw.Object, "metadata", of, key)
	text, ok := o.raw.GetAnnotations()[metadataAnnotation]
	if !ok || o.raw.GroupVersionKind().GroupVersion() == GroupV3 {
		return nil
	}
	var meta map[string]any
	if err := json.Unmarshal([]byte(text), &meta); err != nil {
		return fmt.Errorf("parsing annotation %s of %s: %w", metadataAnnotation, meshObject, err)
	}
	if _, kept, _ := unstructured.NestedString(meta, of, key); !kept {
		return nil
	}
	unstructured.RemoveNestedField(meta, of, key)
	out, err := json.Marshal(meta)
	if err != nil {
		return fmt.Errorf("rendering annotation %s of %s: %w", metadataAnnotation, meshObject, err)
	}
	return unstructured.SetNestedField(o.raw.Object, string(out), "metadata", "annotations", metadataAnnotation) //nolint:wrapcheck // they are strings
}

// meshObject is the name of the BGPConfiguration in errors.
var meshObject = fmt.Sprintf("BGPConfiguration %q", defaultConfig)

// applyToMesh makes one change to the default BGPConfiguration, in one write.
func (a *Adapter) applyToMesh(ctx context.Context, action plan.Action) (bool, error) {
	o, err := a.liveConfig(ctx)
	if err != nil {
		return false, err
	}
	switch act := action.(type) {
	case plan.DisableMesh:
		return a.disableMesh(ctx, o, act)
	case plan.RestoreMesh:
		return a.restoreMesh(ctx, o)
	case plan.NoteMesh:
		return a.noteMesh(ctx, o, act)
	default:
		return a.forgetMesh(ctx, o)
	}
}

// disableMesh disables the mesh and saves its settings. If the mesh is not as the caller decided on, the error is a conflict.
func (a *Adapter) disableMesh(ctx context.Context, o *liveMesh, act plan.DisableMesh) (bool, error) {
	have := meshIn(o.typed.Spec)
	if !have.on() && o.saved != nil {
		if !metav1.HasAnnotation(o.typed.ObjectMeta, restoredAnnotation) {
			return false, nil
		}
		// The mesh was restored, and others have disabled it since.
		return a.updateConfig(ctx, o, o.drop("annotations", restoredAnnotation))
	}
	if err := o.decidedOn(act, have); err != nil {
		return false, err
	}
	text, err := encodeSaved(act, have, o.saved)
	return a.updateConfig(ctx, o, err,
		o.set(savedMesh{Enabled: ptr.To(false)}), o.annotate(beforeAnnotation, text), o.drop("annotations", restoredAnnotation))
}

// decidedOn returns a conflict unless the live mesh is the mesh that the caller decided on.
func (o *liveMesh) decidedOn(act plan.DisableMesh, have savedMesh) error {
	conflict := func(why string) error { return changed(apiv3.KindBGPConfiguration, defaultConfig, why) }
	now := have.plan()
	switch {
	case !o.exists():
		if !act.SavedAbsent {
			return conflict("it has been deleted")
		}
	case !have.on():
		return conflict("the mesh is off already")
	case o.saved != nil:
		if now.Password != nil && !ptr.Equal(act.Saved.Password, now.Password) {
			return conflict("the mesh has changed")
		}
	case act.SavedAbsent:
		return conflict("it has been created")
	case !reflect.DeepEqual(act.Saved, now):
		return conflict("the mesh has changed")
	}
	return nil
}

// restoreMesh restores the saved mesh, or enables the mesh if nothing was saved, and notes the time. The saved settings stay until forgetMesh.
func (a *Adapter) restoreMesh(ctx context.Context, o *liveMesh) (bool, error) {
	have, want := meshIn(o.typed.Spec), savedMesh{Enabled: ptr.To(true)}
	switch {
	case o.saved == nil && have.on():
		return false, nil
	case o.saved == nil:
		want.Password = o.peerPassword // the saved settings are lost
	default:
		want = *o.saved
		want.Absent = false
		if !want.on() {
			want.Enabled = nil // rrpool saves no mesh that is off
		}
	}
	if metav1.HasAnnotation(o.typed.ObjectMeta, restoredAnnotation) && reflect.DeepEqual(have, want) {
		return false, nil
	}
	return a.updateConfig(ctx, o, o.set(want), o.annotate(restoredAnnotation, rfc3339(a.cfg.Now())))
}

// noteMesh saves again how the mesh is to be restored, if the mesh is off and the saved settings were removed or cannot be parsed.
func (a *Adapter) noteMesh(ctx context.Context, o *liveMesh, act plan.NoteMesh) (bool, error) {
	if o.saved != nil && o.unread == "" || meshIn(o.typed.Spec).on() {
		return false, nil
	}
	disable := plan.DisableMesh{Saved: act.Saved, SavedAbsent: isOurs(o.typed)} // an object that we made did not exist before
	text, err := encodeSaved(disable, savedMesh{Password: o.peerPassword}, nil)
	return a.updateConfig(ctx, o, err, o.annotate(beforeAnnotation, text))
}

// peerPassword returns the password of our BGPPeers, nil if they have none. They took it over from the mesh. If the mesh's saved settings are
// lost, this password keeps the mesh from being restored without one. The caller holds the lock.
func (s *store) peerPassword() *apiv3.BGPPassword {
	for _, name := range slices.Sorted(maps.Keys(s.peers)) {
		p := s.peers[name]
		if isOurs(p) && peeringOf(p) == "" && p.Spec.Password != nil {
			return p.Spec.Password
		}
	}
	return nil
}

// forgetMesh removes our annotations from the BGPConfiguration. If we made the object and nothing was added to it, forgetMesh deletes it.
func (a *Adapter) forgetMesh(ctx context.Context, o *liveMesh) (bool, error) {
	if o.saved == nil && !metav1.HasAnnotation(o.typed.ObjectMeta, restoredAnnotation) {
		return false, nil
	}
	if o.saved != nil && !meshIn(o.typed.Spec).on() { // the saved settings are still needed
		return false, changed(apiv3.KindBGPConfiguration, defaultConfig, "the mesh is off")
	}
	return a.giveBack(ctx, o, errors.Join(o.drop("annotations", beforeAnnotation), o.drop("annotations", restoredAnnotation)))
}

// giveBack writes a BGPConfiguration from which an annotation of ours was removed. If it was the last such annotation, we made the object, and
// nothing was added to it, giveBack deletes the object instead.
func (a *Adapter) giveBack(ctx context.Context, o *liveMesh, err error) (bool, error) {
	left := apiv3.NewBGPConfiguration()
	err = errors.Join(err, decode(a.group, o.raw, left))
	noted := slices.ContainsFunc([]string{beforeAnnotation, restoredAnnotation, servicesAnnotation}, func(key string) bool {
		return metav1.HasAnnotation(left.ObjectMeta, key)
	})
	if err != nil || noted || !isOurs(o.typed) {
		return a.updateConfig(ctx, o, err)
	}
	if err = o.drop("labels", v1alpha1.ManagedByLabel); err == nil && a.untouched(o.raw) {
		return a.deleteVersion(ctx, o.raw)
	}
	return a.updateConfig(ctx, o, err)
}

// untouched reports whether an object that we made has, without our annotations,
// nothing but Calico's defaults. A setting that rrpool does not know is not a default.
func (a *Adapter) untouched(raw *unstructured.Unstructured) bool {
	left := apiv3.NewBGPConfiguration()
	if err := decode(a.group, raw, left); err != nil || !meshIn(left.Spec).on() {
		return false
	}
	spec, _, _ := unstructured.NestedMap(raw.Object, "spec")
	delete(spec, "nodeToNodeMeshEnabled")
	for key, value := range configDefaults {
		if spec[key] == value {
			delete(spec, key)
		}
	}
	metadata := len(left.Labels) + len(left.Annotations) + len(left.OwnerReferences) + len(left.Finalizers) +
		len(raw.GetOwnerReferences()) + len(raw.GetFinalizers())
	return len(spec)+metadata == 0
}

// configDefaults are the defaults that the CRDs of some Calico versions write into every BGPConfiguration.
var configDefaults = map[string]any{
	"serviceLoadBalancerAggregation": string(apiv3.ServiceLoadBalancerAggregationEnabled), "logSeverityScreen": "Info",
}

// custom makes an empty custom resource.
func (a *Adapter) custom(kind, name string) *unstructured.Unstructured {
	o := &unstructured.Unstructured{}
	o.SetGroupVersionKind(a.group.WithKind(kind))
	o.SetName(name)
	return o
}

// deleteVersion deletes an object if it still has the version that was read.
func (a *Adapter) deleteVersion(ctx context.Context, o client.Object) (bool, error) {
	return a.delete(ctx, o, client.Preconditions{ResourceVersion: ptr.To(o.GetResourceVersion())})
}

func (a *Adapter) delete(ctx context.Context, o client.Object, only client.Preconditions) (bool, error) {
	kind, name := o.GetObjectKind().GroupVersionKind().Kind, o.GetName()
	err := a.calico.client.Delete(ctx, a.custom(kind, name), only)
	if err != nil && !apierrors.IsNotFound(err) {
		return false, fmt.Errorf("deleting %s %q: %w", kind, name, err)
	}
	a.store.forget(kind, name)
	return err == nil, nil
}
