package calico

import (
	"context"
	"encoding/json"
	"errors"
	"net/netip"
	"strings"
	"testing"
	"time"

	apiv3 "github.com/projectcalico/api/pkg/apis/projectcalico/v3"
	libapiv3 "github.com/projectcalico/calico/libcalico-go/lib/apis/v3"
	"github.com/projectcalico/calico/libcalico-go/lib/backend/api"
	"github.com/projectcalico/calico/libcalico-go/lib/backend/model"
	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/rrpool/rrpool/config/api/v1alpha1"
)

// scripted is a backend that answers as the test says.
type scripted struct {
	api.Client
	list *model.KVPairList
	err  error
	// asked is the revision that a list was asked not to be older than.
	asked string
}

func (s *scripted) List(_ context.Context, _ model.ListInterface, revision string) (*model.KVPairList, error) {
	s.asked = revision
	return s.list, s.err
}

func (s *scripted) Watch(context.Context, model.ListInterface, api.WatchOptions) (api.WatchInterface, error) {
	return nil, s.err
}

func kvp(o *apiv3.CalicoNodeStatus, revision string) model.KVPair {
	o.Name, o.ResourceVersion, o.Labels = "rrpool-n", revision, map[string]string{v1alpha1.ManagedByLabel: v1alpha1.ManagedByValue}
	return model.KVPair{Key: model.ResourceKey{Kind: apiv3.KindCalicoNodeStatus, Name: o.Name}, Value: o, Revision: revision}
}

func TestOnlyAReportThatAWatchBringsIsProven(t *testing.T) {
	c := newClock()
	backend := &scripted{}
	s := newStore(c.Now)
	src := &source{Client: backend, store: s}
	options := model.ResourceListOptions{Kind: apiv3.KindCalicoNodeStatus}
	list := func(kv model.KVPair) {
		backend.list, backend.err = &model.KVPairList{KVPairs: []*model.KVPair{&kv}, Revision: kv.Revision}, nil
		_, err := src.List(t.Context(), options, "")
		require.NoError(t, err)
		s.OnUpdates([]api.Update{{KVPair: kv}})
	}
	const up = apiv3.BGPSessionStateEstablished
	list(kvp(reportOf(1, up, "12:00:00"), "10"))
	require.Zero(t, s.statuses["rrpool-n"].updated)
	s.OnUpdates([]api.Update{{KVPair: kvp(reportOf(2, up, "12:00:00"), "11")}})
	require.Equal(t, c.Now(), s.statuses["rrpool-n"].updated)

	// After an interruption the syncer is made to list, and what it finds proves nothing.
	backend.err = errors.New("connection refused")
	_, err := src.Watch(t.Context(), options, api.WatchOptions{Revision: "11"})
	require.ErrorContains(t, err, "refused")
	require.ErrorContains(t, s.ready(), "watching CalicoNodeStatus: connection refused")
	backend.err = nil
	_, err = src.Watch(t.Context(), options, api.WatchOptions{Revision: "11"})
	require.True(t, apierrors.IsResourceExpired(err), "got %v", err)
	list(kvp(reportOf(3, up, "12:00:00"), "12"))
	require.Zero(t, s.statuses["rrpool-n"].updated)
	_, err = src.Watch(t.Context(), options, api.WatchOptions{Revision: "12"})
	require.NoError(t, err)

	// An older version that comes late is ignored, unless it is what a list says.
	s.OnUpdates([]api.Update{{KVPair: kvp(reportOf(1, up, "12:00:00"), "9")}})
	require.Equal(t, "12", s.statuses["rrpool-n"].object.ResourceVersion)
	list(kvp(reportOf(1, up, "12:00:00"), "5"))
	require.Equal(t, "5", s.statuses["rrpool-n"].object.ResourceVersion)
	s.OnUpdates([]api.Update{{KVPair: model.KVPair{Key: model.ResourceKey{Kind: apiv3.KindCalicoNodeStatus, Name: "rrpool-n"}}}})
	require.Empty(t, s.statuses)
}

func TestAReportThatCameWhileNoWatchWasOpenProvesNothing(t *testing.T) {
	backend := &scripted{list: &model.KVPairList{Revision: "10"}}
	src := &source{Client: backend, store: newStore(time.Now)}
	reports, peers := model.ResourceListOptions{Kind: apiv3.KindCalicoNodeStatus}, model.ResourceListOptions{Kind: apiv3.KindBGPPeer}
	for _, kind := range []model.ListInterface{reports, peers} {
		_, err := src.List(t.Context(), kind, "0")
		require.NoError(t, err)
		require.Empty(t, backend.asked, "the cache of an apiserver may lag behind: ask for the latest")
		_, err = src.Watch(t.Context(), kind, api.WatchOptions{Revision: "10"})
		require.NoError(t, err)
	}
	// The apiserver has closed the watches.
	_, err := src.Watch(t.Context(), reports, api.WatchOptions{Revision: "11"})
	require.True(t, apierrors.IsResourceExpired(err), "got %v", err)
	_, err = src.Watch(t.Context(), peers, api.WatchOptions{Revision: "11"})
	require.NoError(t, err, "elsewhere it does not matter when something has changed")
	_, err = src.List(t.Context(), reports, "0")
	require.NoError(t, err)
	_, err = src.Watch(t.Context(), reports, api.WatchOptions{Revision: "12"})
	require.NoError(t, err)
}

func TestAListDoesNotUndoWhatWeWroteSince(t *testing.T) {
	s := newStore(time.Now)
	peer := func(revision string) *apiv3.BGPPeer {
		o := apiv3.NewBGPPeer()
		o.Name, o.ResourceVersion = "p", revision
		return o
	}
	found := model.KVPair{Key: model.ResourceKey{Kind: apiv3.KindBGPPeer, Name: "p"}, Value: peer("10"), Revision: "10"}
	s.listed(apiv3.KindBGPPeer, []*model.KVPair{&found})
	s.put(peer("12"))
	s.OnUpdates([]api.Update{{KVPair: found}})
	require.Equal(t, "12", s.peers["p"].ResourceVersion)
}

func TestWhatIsNoReportOfOursIsNeitherKeptNorSignaled(t *testing.T) {
	s := newStore(time.Now)
	foreign := kvp(reportOf(1, apiv3.BGPSessionStateIdle, ""), "1")
	foreign.Value.(*apiv3.CalicoNodeStatus).Labels, foreign.Value.(*apiv3.CalicoNodeStatus).Spec.Node = nil, "another"
	other := apiv3.NewBGPConfiguration()
	other.Name = "node.10.240.0.5"
	s.OnUpdates([]api.Update{
		{KVPair: foreign},
		{KVPair: model.KVPair{Key: model.ResourceKey{Kind: apiv3.KindBGPConfiguration, Name: other.Name}, Value: other}},
		{KVPair: model.KVPair{Key: model.ResourceKey{Kind: apiv3.KindBGPConfiguration, Name: other.Name}}},
	})
	require.Empty(t, s.statuses)
	require.Nil(t, s.config)
	require.Empty(t, s.changes)
}

// One field, or the annotation with the metadata, hides neither its object nor another: what cannot be read is noted.
func TestWhatCannotBeReadIsNoted(t *testing.T) {
	for field, value := range map[string]any{"maxRestartTime": "abc", "asNumber": int64(-1), "localASNumber": int64(-1), "ttlSecurity": int64(300), "": nil} {
		raw := &unstructured.Unstructured{Object: map[string]any{
			"metadata": map[string]any{"name": "p", "resourceVersion": "7"}, "spec": map[string]any{"nodeSelector": "has(a)", "peerIP": "192.0.2.1", field: value},
		}}
		unread, selector := `{"`+field+`":`, "has(a)"
		if field == "" {
			raw.SetAnnotations(map[string]string{metadataAnnotation: "{"})
			unread, selector = "parsing annotation "+metadataAnnotation, ""
		}
		pair := backend{group: GroupV1}.pairOf(apiv3.KindBGPPeer, raw)
		peer := pair.Value.(*apiv3.BGPPeer)
		require.Equal(t, "p", peer.Name)
		require.Equal(t, "7", pair.Revision)
		require.Equal(t, selector, peer.Spec.NodeSelector)
		require.Contains(t, peer.Annotations[unreadAnnotation], unread)
	}
}

// What others write into an affinity or a report is not kept.
func TestOfAffinitiesAndReportsOnlyWhatIsReadIsKept(t *testing.T) {
	big := strings.Repeat("x", 1<<20)
	affinity := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "crd.projectcalico.org/v1", "kind": "BlockAffinity",
		"metadata": map[string]any{"name": "a", "resourceVersion": "7", "annotations": map[string]any{"x": big}, "managedFields": []any{}},
		"spec":     map[string]any{"cidr": "10.0.0.0/26", "node": "n", "state": "confirmed", "deleted": "false", "x": big}, "status": big,
	}}
	ours, theirs := apiv3.NewCalicoNodeStatus(), apiv3.NewCalicoNodeStatus()
	for _, o := range []*apiv3.CalicoNodeStatus{ours, theirs} {
		o.Name, o.UID, o.ResourceVersion, o.Generation = "rrpool-n", "u", "7", 3
		o.Labels, o.Annotations = map[string]string{"x": big}, map[string]string{"x": big, clearedAnnotation: "kept"}
		o.OwnerReferences = []metav1.OwnerReference{{Name: big}}
		o.Spec.Node, o.Status.Agent.BIRDV4.Version = "n", "v2"
	}
	theirs.Spec.Node = "another"
	ours.Labels[v1alpha1.ManagedByLabel], theirs.Status.Agent.BIRDV4.Version = v1alpha1.ManagedByValue, big
	peer := apiv3.NewBGPPeer()
	peer.Name, peer.ResourceVersion, peer.Labels, peer.Annotations = "p", "7", map[string]string{"x": big}, map[string]string{"x": big}
	kept := map[string]any{}
	b := backend{group: GroupV3}
	for kind, o := range map[string]client.Object{libapiv3.KindBlockAffinity: affinity, apiv3.KindCalicoNodeStatus: ours, "others' " + apiv3.KindCalicoNodeStatus: theirs, apiv3.KindBGPPeer: peer} {
		fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(o)
		require.NoError(t, err)
		pair := b.pairOf(strings.TrimPrefix(kind, "others' "), &unstructured.Unstructured{Object: fields})
		text, err := json.Marshal(pair.Value)
		require.NoError(t, err)
		require.Less(t, len(text), 1000, kind)
		kept[kind] = pair.Value
		require.Equal(t, "7", pair.Revision)
	}
	ours = kept[apiv3.KindCalicoNodeStatus].(*apiv3.CalicoNodeStatus)
	got, ok := blockOf(kept[libapiv3.KindBlockAffinity].(*unstructured.Unstructured))
	require.True(t, ok)
	require.Equal(t, block{node: "n", prefix: netip.MustParsePrefix("10.0.0.0/26")}, got)
	require.Equal(t, map[string]string{clearedAnnotation: "kept"}, ours.Annotations)
	require.True(t, isReport(ours))
	require.Equal(t, "v2", ours.Status.Agent.BIRDV4.Version)
	require.EqualValues(t, "u", ours.UID)
	require.EqualValues(t, 3, ours.Generation)
}
