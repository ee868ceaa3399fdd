package calico

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"

	apiv3 "github.com/projectcalico/api/pkg/apis/projectcalico/v3"
	libapiv3 "github.com/projectcalico/calico/libcalico-go/lib/apis/v3"
	"github.com/projectcalico/calico/libcalico-go/lib/backend/api"
	"github.com/projectcalico/calico/libcalico-go/lib/backend/k8s/resources"
	calicoscheme "github.com/projectcalico/calico/libcalico-go/lib/backend/k8s/scheme"
	"github.com/projectcalico/calico/libcalico-go/lib/backend/model"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/controllers/calico/etcd"
	"github.com/rrpool/rrpool/controllers/plan"
)

// qps limits the requests for Calico's objects to this many a second on average. A burst may have twice as many. With client-go's default of 5,
// the writes of a migration would take minutes.
const qps = 50

// datastore gives access to Calico's objects in one API group.
type datastore struct {
	peers   objects[*apiv3.BGPPeer]
	reports objects[*apiv3.CalicoNodeStatus]
	// client reads and writes custom resources as they are stored.
	client client.WithWatch
}

// connect makes a datastore of the objects in a group. It makes no request.
func connect(cfg *rest.Config, group schema.GroupVersion) (*datastore, error) {
	cfg = rest.CopyConfig(cfg)
	cfg.QPS, cfg.Burst = qps, 2*qps
	scheme, mapper, addTypes := runtime.NewScheme(), meta.NewDefaultRESTMapper(nil), apiv3.AddToScheme
	if group == GroupV1 {
		addTypes = calicoscheme.AddCalicoResourcesToScheme
	}
	for _, kind := range slices.Concat(watched, []string{apiv3.KindBGPFilter, apiv3.KindIPPool, apiv3.KindFelixConfiguration}) {
		mapper.Add(group.WithKind(kind), meta.RESTScopeRoot)
	}
	err := addTypes(scheme)
	var c client.WithWatch
	if err == nil {
		c, err = client.NewWithWatch(cfg, client.Options{Scheme: scheme, Mapper: mapper})
	}
	if err != nil {
		return nil, fmt.Errorf("creating the client for %s: %w", group, err)
	}
	return objectsOf(c, group), nil
}

func objectsOf(c client.WithWatch, group schema.GroupVersion) *datastore {
	return &datastore{
		peers:   objects[*apiv3.BGPPeer]{c, group, apiv3.NewBGPPeer},
		reports: objects[*apiv3.CalicoNodeStatus]{c, group, apiv3.NewCalicoNodeStatus},
		client:  c,
	}
}

// resource is an object of a type that libcalico-go can convert.
type resource interface {
	client.Object
	metav1.ObjectMetaAccessor
}

// metadataAnnotation has the metadata of Calico's objects in GroupV1, as JSON. This metadata overrides that of the custom resource.
const metadataAnnotation = "projectcalico.org/metadata"

// withCalicoMetadata replaces an object's metadata by the content of metadataAnnotation, if the object has that annotation.
func withCalicoMetadata(group schema.GroupVersion, o resource) error {
	if group == GroupV3 {
		return nil
	}
	uid := o.GetUID() // libcalico-go would change it
	if err := resources.ConvertK8sResourceToCalicoResource(o); err != nil {
		return fmt.Errorf("parsing annotation %s of %s %q: %w", metadataAnnotation, o.GetObjectKind().GroupVersionKind().Kind, o.GetName(), err)
	}
	o.SetUID(uid)
	return nil
}

// unreadAnnotation is only set on objects in memory, never in the API. It has the fields that cannot be parsed, as JSON.
const unreadAnnotation = "rrpool.io/unread"

// decode parses a custom resource into one of Calico's types. Calico's CRDs accept values that these types do not, such as any text for a
// duration or -1 for an AS number. decode leaves out a field of spec or status that cannot be parsed, and notes it in unreadAnnotation. Calico
// itself then reads no object of the kind.
func decode(group schema.GroupVersion, raw *unstructured.Unstructured, into resource) error {
	fill := func(o runtime.Object, from map[string]any) error {
		text, err := json.Marshal(from)
		if err == nil {
			err = utiljson.Unmarshal(text, o)
		}
		return err //nolint:wrapcheck // the caller wraps
	}
	kind, blank, unread := into.GetObjectKind().GroupVersionKind(), into.DeepCopyObject(), map[string]any{}
	err := fill(into, raw.Object)
	if err != nil && kind.Kind != libapiv3.KindNode {
		left := raw.DeepCopy().Object
		for _, part := range []string{"spec", "status"} {
			fields, _ := left[part].(map[string]any)
			maps.DeleteFunc(fields, func(key string, value any) bool {
				bad := fill(blank.DeepCopyObject(), map[string]any{part: map[string]any{key: value}}) != nil
				if bad {
					unread[key] = value
				}
				return bad
			})
		}
		reflect.ValueOf(into).Elem().SetZero()
		err = fill(into, left)
	}
	if err != nil {
		return fmt.Errorf("parsing %s %q: %w", kind.Kind, raw.GetName(), err)
	}
	return toCalico(group, kind, into, unread)
}

// toCalico sets an object's kind and metadata as Calico's clients see them, and notes the fields that could not be parsed.
func toCalico(group schema.GroupVersion, kind schema.GroupVersionKind, o resource, unread map[string]any) error {
	managed := o.GetManagedFields()
	o.GetObjectKind().SetGroupVersionKind(kind)
	if err := withCalicoMetadata(group, o); err != nil {
		return err
	}
	if kind.Kind == apiv3.KindBGPConfiguration && len(o.GetManagedFields()) == 0 {
		o.SetManagedFields(managed)
	}
	annotations := o.GetAnnotations()
	delete(annotations, unreadAnnotation)
	if len(unread) > 0 {
		text, _ := json.Marshal(unread) // it was JSON
		annotations = labels.Merge(annotations, map[string]string{unreadAnnotation: plan.Plain(string(text), longestID)})
	}
	o.SetAnnotations(annotations)
	return nil
}

// objects reads and writes the objects of one kind.
type objects[T resource] struct {
	client client.Client
	group  schema.GroupVersion
	// blank makes an empty object with its kind set.
	blank func() T
}

// get reads an object past any cache.
func (n objects[T]) get(ctx context.Context, name string) (T, error) {
	o, raw := n.blank(), &unstructured.Unstructured{}
	raw.SetGroupVersionKind(n.group.WithKind(o.GetObjectKind().GroupVersionKind().Kind))
	if err := n.client.Get(ctx, client.ObjectKey{Name: name}, raw); err != nil {
		return o, err //nolint:wrapcheck // callers wrap
	}
	return o, decode(n.group, raw, o)
}

// write creates an object if it has no resource version, updates it if it has one, and returns the stored object.
func (n objects[T]) write(ctx context.Context, o T) (T, error) {
	stored, err := n.toCRD(o)
	if err == nil {
		_, err = save(ctx, n.client, stored, "")
	}
	if err != nil {
		return o, fmt.Errorf("writing %s %q: %w", o.GetObjectKind().GroupVersionKind().Kind, o.GetName(), err)
	}
	return n.read(stored)
}

// save creates an object if it has no resource version and updates it if it
// has one. It returns "creating" or "updating" for the text of an error.
func save(ctx context.Context, c client.Client, o client.Object, validation client.FieldValidation) (do string, err error) {
	if o.GetResourceVersion() == "" {
		return "creating", c.Create(ctx, o, validation) //nolint:wrapcheck // callers wrap
	}
	return "updating", c.Update(ctx, o, validation) //nolint:wrapcheck // callers wrap
}

// read converts an object of the API to the form that Calico's clients see.
func (n objects[T]) read(o T) (T, error) {
	o.GetObjectKind().SetGroupVersionKind(n.blank().GetObjectKind().GroupVersionKind())
	return o, withCalicoMetadata(n.group, o)
}

// toCRD is the inverse of read: it converts an object to its form in the API.
func (n objects[T]) toCRD(o T) (T, error) {
	delete(o.GetAnnotations(), unreadAnnotation)
	if n.group == GroupV3 {
		return o, nil
	}
	if created := o.GetCreationTimestamp(); created.IsZero() {
		o.SetCreationTimestamp(metav1.Now()) // as libcalico-go does: its old versions update no object without it
	}
	uid := o.GetUID()
	out, err := resources.ConvertCalicoResourceToK8sResource(o)
	if err != nil {
		return o, err //nolint:wrapcheck // the caller wraps
	}
	o = out.(T) //nolint:forcetypeassert // it is a copy
	o.SetUID(uid)
	return o, nil
}

// backend implements the methods of api.Client that the syncer calls.
type backend struct {
	api.Client
	client client.WithWatch
	group  schema.GroupVersion
}

// listOf makes an untyped list.
func (b backend) listOf(kind string) client.ObjectList {
	out := &unstructured.UnstructuredList{}
	out.SetGroupVersionKind(b.group.WithKind(kind + "List"))
	return out
}

// typedListOf makes a typed list if the kind has one. A typed list is decoded fast and in a fraction of the memory, but decoding fails if one
// field of one object cannot be parsed. With etcd the list is untyped, because etcd's client would leave out that object instead of failing.
func (b backend) typedListOf(kind string) client.ObjectList {
	_, known := newByKind[kind]
	if _, inEtcd := b.client.(*etcd.Client); known && !inEtcd {
		if out, err := b.client.Scheme().New(b.group.WithKind(kind + "List")); err == nil {
			return out.(client.ObjectList) //nolint:forcetypeassert // it is one of Calico's
		}
	}
	return b.listOf(kind)
}

// pageOf returns how many objects are listed at a time. There may be tens of
// thousands of affinities, and objects of other kinds may have 1 MB each.
func pageOf(kind string) client.Limit {
	if kind == libapiv3.KindBlockAffinity {
		return 100
	}
	return 25
}

// List implements api.Client. If the typed objects cannot be parsed, it lists untyped ones.
func (b backend) List(ctx context.Context, of model.ListInterface, _ string) (*model.KVPairList, error) {
	out := &model.KVPairList{}
	for next := ""; ; {
		list := b.typedListOf(kindOf(of))
		err := b.client.List(ctx, list, pageOf(kindOf(of)), client.Continue(next))
		if answered := apierrors.APIStatus(nil); err != nil && !errors.As(err, &answered) {
			list = b.listOf(kindOf(of))
			err = b.client.List(ctx, list, pageOf(kindOf(of)), client.Continue(next))
		}
		if err == nil {
			err = meta.EachListItem(list, func(o runtime.Object) error {
				out.KVPairs = append(out.KVPairs, b.pairOf(kindOf(of), o))
				return nil
			})
		}
		out.Revision, next = list.GetResourceVersion(), list.GetContinue()
		if err != nil || next == "" {
			return out, err //nolint:wrapcheck // the syncer looks at the error's type
		}
	}
}

// Watch implements api.Client. The watch ends at an object with a field that cannot be parsed; then the syncer lists all objects again.
func (b backend) Watch(ctx context.Context, of model.ListInterface, opts api.WatchOptions) (api.WatchInterface, error) {
	from := &client.ListOptions{Raw: &metav1.ListOptions{ResourceVersion: opts.Revision, AllowWatchBookmarks: true}}
	w, err := b.client.Watch(ctx, b.typedListOf(kindOf(of)), from)
	if err != nil {
		return nil, err //nolint:wrapcheck // the syncer looks at the error's type
	}
	ctx, cancel := context.WithCancel(ctx)
	out := watcher{stop: cancel, events: make(chan api.WatchEvent)}
	context.AfterFunc(ctx, w.Stop)
	go func() {
		defer close(out.events)
		defer w.Stop()
		for event := range w.ResultChan() {
			select {
			case <-ctx.Done():
				return
			case out.events <- b.eventOf(kindOf(of), event):
			}
		}
	}()
	return out, nil
}

// watcher implements api.WatchInterface.
type watcher struct {
	stop   context.CancelFunc
	events chan api.WatchEvent
}

func (b backend) eventOf(kind string, event watch.Event) api.WatchEvent {
	if event.Type == watch.Error {
		return api.WatchEvent{Type: api.WatchError, Error: apierrors.FromObject(event.Object)}
	}
	pair := b.pairOf(kind, event.Object)
	if event.Type == watch.Deleted {
		return api.WatchEvent{Type: api.WatchDeleted, Old: pair}
	}
	return api.WatchEvent{Type: api.WatchEventType(event.Type), New: pair}
}

func (w watcher) Stop() { w.stop() }

func (w watcher) ResultChan() <-chan api.WatchEvent { return w.events }

// HasTerminated implements api.WatchInterface. Only libcalico-go's tests call it.
func (w watcher) HasTerminated() bool { return false }

// newByKind makes empty objects by kind. BlockAffinity is not among the kinds: the type of its field deleted depends on the group.
var newByKind = map[string]func() resource{
	apiv3.KindBGPPeer:            func() resource { return apiv3.NewBGPPeer() },
	apiv3.KindBGPConfiguration:   func() resource { return apiv3.NewBGPConfiguration() },
	apiv3.KindCalicoNodeStatus:   func() resource { return apiv3.NewCalicoNodeStatus() },
	apiv3.KindClusterInformation: func() resource { return apiv3.NewClusterInformation() },
	libapiv3.KindNode:            func() resource { return libapiv3.NewNode() },
}

// pairOf converts an object for the syncer. If the object cannot be parsed, only its
// name, its version and the error are passed on. Calico leaves out such an object.
func (b backend) pairOf(kind string, object runtime.Object) *model.KVPair {
	o := object.(client.Object) //nolint:forcetypeassert // lists and watches bring only these
	if kind != apiv3.KindBGPConfiguration {
		o.SetManagedFields(nil) // they are the largest part of a small object
	}
	name, revision := o.GetName(), o.GetResourceVersion()
	if blank, known := newByKind[kind]; known {
		var err error
		of := blank()
		if raw, is := o.(*unstructured.Unstructured); is {
			err = decode(b.group, raw, of)
		} else {
			of = o.(resource) //nolint:forcetypeassert // typedListOf chose this type
			err = toCalico(b.group, GroupV3.WithKind(kind), of, nil)
		}
		if err != nil {
			of = blank()
			of.SetName(name)
			of.SetResourceVersion(revision)
			of.SetAnnotations(map[string]string{unreadAnnotation: plan.Plain(err.Error(), longestID)})
		}
		o = of
	}
	slim(o)
	return &model.KVPair{Key: model.ResourceKey{Kind: kind, Name: name}, Value: o, Revision: revision}
}

// slim removes the fields that rrpool does not read, from kinds of which others may make many or large objects.
func slim(o client.Object) {
	unread := func(kept ...string) func(string, string) bool {
		return func(key, _ string) bool { return !slices.Contains(kept, key) }
	}
	switch o := o.(type) {
	case *unstructured.Unstructured:
		spec, _ := o.Object["spec"].(map[string]any)
		maps.DeleteFunc(spec, func(key string, _ any) bool { return !slices.Contains(affinityFields, key) })
		o.Object = map[string]any{
			"metadata": map[string]any{"name": o.GetName(), "resourceVersion": o.GetResourceVersion()},
			"spec":     spec,
		}
	case *apiv3.BGPPeer:
		maps.DeleteFunc(o.Labels, unread(v1alpha1.ManagedByLabel, v1alpha1.PeeringLabel))
		maps.DeleteFunc(o.Annotations, unread(writtenAnnotation, unreadAnnotation))
		o.OwnerReferences, o.Finalizers = nil, nil
	case *apiv3.BGPConfiguration:
		if o.Name != defaultConfig {
			maps.DeleteFunc(o.Annotations, unread(unreadAnnotation))
			o.ObjectMeta, o.Spec = metav1.ObjectMeta{Name: o.Name, ResourceVersion: o.ResourceVersion, Annotations: o.Annotations}, apiv3.BGPConfigurationSpec{}
		}
	case *apiv3.CalicoNodeStatus:
		maps.DeleteFunc(o.Labels, unread(v1alpha1.ManagedByLabel, reportLabel))
		maps.DeleteFunc(o.Annotations, unread(clearedAnnotation, unreadAnnotation))
		o.OwnerReferences, o.Finalizers = nil, nil
		if !isReport(o) {
			o.Spec, o.Status = apiv3.CalicoNodeStatusSpec{}, apiv3.CalicoNodeStatusStatus{}
		}
	}
}

// affinityFields are the fields that blockOf reads.
var affinityFields = []string{"cidr", "node", "state", "deleted", "type"}
