package calico

import (
	"context"
	"fmt"
	"strconv"

	apiv3 "github.com/projectcalico/api/pkg/apis/projectcalico/v3"
	libapiv3 "github.com/projectcalico/calico/libcalico-go/lib/apis/v3"
	"github.com/projectcalico/calico/libcalico-go/lib/backend/api"
	"github.com/projectcalico/calico/libcalico-go/lib/backend/model"
	"github.com/projectcalico/calico/libcalico-go/lib/options"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// connectNative is connect for CRDs of projectcalico.org/v3, which the libcalico-go that can be built against does not know.
func connectNative(cfg *rest.Config) (*datastore, error) {
	cfg = rest.CopyConfig(cfg)
	cfg.QPS, cfg.Burst = qps, 2*qps
	scheme, mapper := runtime.NewScheme(), meta.NewDefaultRESTMapper(nil)
	err := apiv3.AddToScheme(scheme)
	for _, kind := range watched {
		mapper.Add(GroupV3.WithKind(kind), meta.RESTScopeRoot)
	}
	var c client.WithWatch
	if err == nil {
		c, err = client.NewWithWatch(cfg, client.Options{Scheme: scheme, Mapper: mapper})
	}
	if err != nil {
		return nil, fmt.Errorf("creating the client for %s: %w", GroupV3, err)
	}
	return &datastore{
		peers: native[*apiv3.BGPPeer]{c, apiv3.NewBGPPeer}, configs: native[*apiv3.BGPConfiguration]{c, apiv3.NewBGPConfiguration},
		reports: native[*apiv3.CalicoNodeStatus]{c, apiv3.NewCalicoNodeStatus}, backend: nativeBackend{client: c},
	}, nil
}

// native are the objects of one kind.
type native[T client.Object] struct {
	client client.Client
	// blank makes an object that knows its kind; the client does not keep it.
	blank func() T
}

func (n native[T]) Get(ctx context.Context, name string, _ options.GetOptions) (T, error) {
	o := n.blank()
	return n.typed(o, n.client.Get(ctx, client.ObjectKey{Name: name}, o))
}

func (n native[T]) Create(ctx context.Context, o T, _ options.SetOptions) (T, error) {
	return n.typed(o, n.client.Create(ctx, o))
}

func (n native[T]) Update(ctx context.Context, o T, _ options.SetOptions) (T, error) {
	return n.typed(o, n.client.Update(ctx, o))
}

func (n native[T]) Delete(ctx context.Context, name string, opts options.DeleteOptions) (T, error) {
	o := n.blank()
	o.SetName(name)
	return o, n.client.Delete(ctx, o, client.Preconditions{UID: opts.UID}) //nolint:wrapcheck // callers wrap
}

func (n native[T]) typed(o T, err error) (T, error) {
	o.GetObjectKind().SetGroupVersionKind(n.blank().GetObjectKind().GroupVersionKind())
	return o, err
}

// nativeBackend lists and watches for the syncer, which calls nothing else.
type nativeBackend struct {
	api.Client
	client client.WithWatch
}

// listOf makes a list. Those of affinities have a field that our version of the types does not know.
func (n nativeBackend) listOf(kind string) (client.ObjectList, error) {
	of := GroupV3.WithKind(kind + "List")
	if kind == libapiv3.KindBlockAffinity {
		out := &unstructured.UnstructuredList{}
		out.SetGroupVersionKind(of)
		return out, nil
	}
	out, err := n.client.Scheme().New(of)
	if err != nil {
		return nil, fmt.Errorf("making a list: %w", err)
	}
	return out.(client.ObjectList), nil //nolint:forcetypeassert // every list is one
}

// List implements api.Client. A kind that is not there has no objects and no revision, as with libcalico-go.
func (n nativeBackend) List(ctx context.Context, of model.ListInterface, _ string) (*model.KVPairList, error) {
	list, err := n.listOf(kindOf(of))
	if err != nil {
		return nil, err
	}
	if err := n.client.List(ctx, list); apierrors.IsNotFound(err) {
		return &model.KVPairList{}, nil
	} else if err != nil {
		return nil, err //nolint:wrapcheck // the syncer looks at the error's type
	}
	out := &model.KVPairList{Revision: list.GetResourceVersion()}
	return out, meta.EachListItem(list, func(o runtime.Object) error { //nolint:wrapcheck // it is a list
		out.KVPairs = append(out.KVPairs, pairOf(kindOf(of), o))
		return nil
	})
}

// Watch implements api.Client.
func (n nativeBackend) Watch(ctx context.Context, of model.ListInterface, opts api.WatchOptions) (api.WatchInterface, error) {
	list, err := n.listOf(kindOf(of))
	if err != nil {
		return nil, err
	}
	from := &client.ListOptions{Raw: &metav1.ListOptions{ResourceVersion: opts.Revision, AllowWatchBookmarks: true}}
	w, err := n.client.Watch(ctx, list, from)
	if err != nil {
		return nil, err //nolint:wrapcheck // the syncer looks at the error's type
	}
	ctx, cancel := context.WithCancel(ctx)
	out := &nativeWatch{stop: cancel, events: make(chan api.WatchEvent)}
	go out.run(ctx, kindOf(of), w)
	return out, nil
}

// nativeWatch passes on what a watch brings in the syncer's words.
type nativeWatch struct {
	stop   context.CancelFunc
	events chan api.WatchEvent
}

func (w *nativeWatch) run(ctx context.Context, kind string, from watch.Interface) {
	defer close(w.events)
	defer from.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case event, open := <-from.ResultChan():
			if !open {
				return
			}
			select {
			case <-ctx.Done():
				return
			case w.events <- eventOf(kind, event):
			}
		}
	}
}

func eventOf(kind string, event watch.Event) api.WatchEvent {
	out := api.WatchEvent{Type: api.WatchEventType(event.Type)}
	switch event.Type {
	case watch.Error:
		out.Error = apierrors.FromObject(event.Object)
	case watch.Deleted:
		out.Old = pairOf(kind, event.Object)
	case watch.Added, watch.Modified, watch.Bookmark:
		out.New = pairOf(kind, event.Object)
	}
	return out
}

// Stop implements api.WatchInterface.
func (w *nativeWatch) Stop() { w.stop() }

// ResultChan implements api.WatchInterface.
func (w *nativeWatch) ResultChan() <-chan api.WatchEvent { return w.events }

// HasTerminated implements api.WatchInterface; only libcalico-go's own tests ask.
func (w *nativeWatch) HasTerminated() bool { return false }

// pairOf is an object as the syncer passes it on.
func pairOf(kind string, object runtime.Object) *model.KVPair {
	o := object.(client.Object) //nolint:forcetypeassert // what is listed and watched is one
	if raw, ok := o.(*unstructured.Unstructured); ok {
		o = affinityOf(raw)
	}
	o.GetObjectKind().SetGroupVersionKind(GroupV3.WithKind(kind))
	return &model.KVPair{Key: model.ResourceKey{Kind: kind, Name: o.GetName()}, Value: o, Revision: o.GetResourceVersion()}
}

func affinityOf(raw *unstructured.Unstructured) *libapiv3.BlockAffinity {
	text := func(field string) string {
		value, _, _ := unstructured.NestedString(raw.Object, "spec", field)
		return value
	}
	deleted, _, _ := unstructured.NestedBool(raw.Object, "spec", "deleted")
	out := libapiv3.NewBlockAffinity()
	out.Name, out.ResourceVersion = raw.GetName(), raw.GetResourceVersion()
	out.Spec = libapiv3.BlockAffinitySpec{
		State: text("state"), Node: text("node"), Type: text("type"), CIDR: text("cidr"), Deleted: strconv.FormatBool(deleted),
	}
	return out
}
