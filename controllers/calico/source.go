package calico

import (
	"context"

	apiv3 "github.com/projectcalico/api/pkg/apis/projectcalico/v3"
	"github.com/projectcalico/calico/libcalico-go/lib/backend/api"
	"github.com/projectcalico/calico/libcalico-go/lib/backend/model"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// source is the datastore as the syncer sees it. The syncer retries for ever and
// takes a kind that is not installed for one without objects; source notes on
// the way how each kind fares.
type source struct {
	api.Client
	store *store
}

func newSource(backend api.Client, s *store) *source { return &source{Client: backend, store: s} }

// List implements api.Client. Whatever the revision that would do, it asks for
// the latest: what a list says holds, and an apiserver's cache may lag behind.
func (s *source) List(ctx context.Context, list model.ListInterface, _ string) (*model.KVPairList, error) {
	found, err := s.Client.List(ctx, list, "")
	kind := kindOf(list)
	switch {
	case ctx.Err() != nil:
	case isMissing(err), err == nil && uninstalled(found):
		s.store.fare(kind, fare{missing: true})
	case err != nil:
		s.store.fare(kind, fare{err: err})
	default:
		s.store.listed(kind, found.KVPairs)
		s.store.fare(kind, fare{})
	}
	return found, err //nolint:wrapcheck // the syncer looks at the error's type
}

// Watch implements api.Client. After a failure it demands a new list, because
// what a watch brings then may have happened long ago. With reports it does so
// after any end of a watch: they prove something by the time of their arrival.
func (s *source) Watch(ctx context.Context, list model.ListInterface, options api.WatchOptions) (api.WatchInterface, error) {
	kind := kindOf(list)
	if s.store.failing(kind) || kind == apiv3.KindCalicoNodeStatus && !s.store.fresh(kind) {
		return nil, apierrors.NewResourceExpired("the watch was interrupted") //nolint:wrapcheck // the syncer looks at the error's type
	}
	w, err := s.Client.Watch(ctx, list, options)
	// A revision that the API has forgotten says nothing against the kind: the syncer
	// lists it anew at once, and List notes how that fares.
	if err != nil && ctx.Err() == nil && !apierrors.IsResourceExpired(err) && !apierrors.IsGone(err) {
		s.store.fare(kind, fare{err: err})
	}
	return w, err //nolint:wrapcheck // the syncer looks at the error's type
}

func kindOf(list model.ListInterface) string {
	options, _ := list.(model.ResourceListOptions)
	return options.Kind
}

// uninstalled tells a kind that the API does not know from one without objects:
// libcalico-go hides the error, and the list has no revision.
func uninstalled(found *model.KVPairList) bool {
	return len(found.KVPairs) == 0 && (found.Revision == "" || found.Revision == "0")
}
