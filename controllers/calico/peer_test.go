package calico

import (
	"encoding/json"
	"testing"
	"time"

	apiv3 "github.com/projectcalico/api/pkg/apis/projectcalico/v3"
	"github.com/stretchr/testify/require"
	"k8s.io/utils/ptr"

	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/controllers/plan"
)

var clients = plan.Peer{
	Name: "rrpool-clients", NodeSelector: "!has(rrpool.io/route-reflector)", PeerSelector: "has(rrpool.io/route-reflector)",
	Password: &plan.SecretRef{Name: "bgp", Key: "password"}, MaxRestartTime: ptr.To(90 * time.Second),
}

func TestAPeerIsWrittenOnceCorrectedAndDeleted(t *testing.T) {
	b := newBench(t).run()
	require.Equal(t, []string{"create bgppeers/rrpool-clients"}, b.writes(func() { b.apply(plan.PutPeer{Peer: clients}, true) }))
	want := clients
	want.Owned, want.Written = true, b.clock.Now()
	require.Equal(t, []plan.Peer{want}, b.observe().Peers)

	b.clock.Move(time.Minute)
	require.Empty(t, b.writes(func() { b.apply(plan.PutPeer{Peer: clients}, false) }))
	require.Equal(t, []plan.Peer{want}, b.observe().Peers)

	b.editPeer(func(o *apiv3.BGPPeer) { o.Spec.NextHopMode = ptr.To(apiv3.NextHopMode("Keep")) })
	b.await("a person's edit", func(c plan.Cluster) bool { return c.Peers[0].Extra == `{"nextHopMode":"Keep"}` })
	require.Len(t, b.writes(func() { b.apply(plan.PutPeer{Peer: clients}, true) }), 1)
	want.Written = b.clock.Now()
	require.Equal(t, []plan.Peer{want}, b.observe().Peers)

	// The other side may be held back, and let go.
	held := clients
	held.Manual = true
	b.apply(plan.PutPeer{Peer: held}, true)
	b.apply(plan.PutPeer{Peer: held}, false)
	require.Equal(t, apiv3.ReversePeeringManual, *b.peer().Spec.ReversePeering)
	require.True(t, plan.SamePeer(held, b.observe().Peers[0]))
	b.apply(plan.PutPeer{Peer: clients}, true)
	require.NotEqual(t, apiv3.ReversePeeringManual, ptr.Deref(b.peer().Spec.ReversePeering, ""))

	require.Equal(t, []string{"delete bgppeers/rrpool-clients"}, b.writes(func() { b.apply(plan.DeletePeer{Name: clients.Name}, true) }))
	require.Empty(t, b.observe().Peers)
	require.Empty(t, b.writes(func() { b.apply(plan.DeletePeer{Name: clients.Name}, false) }))
}

func TestAPeerOfSomebodyElseIsNeverTouched(t *testing.T) {
	b := newBench(t)
	foreign := apiv3.NewBGPPeer()
	foreign.Name = clients.Name
	foreign.Spec = apiv3.BGPPeerSpec{PeerIP: "192.0.2.1", ASNumber: 65001}
	before, err := b.other.peers.write(t.Context(), foreign)
	require.NoError(t, err)
	b.run()
	require.Equal(t, []plan.Peer{{Name: clients.Name, PeerIP: "192.0.2.1", ASN: 65001}}, b.observe().Peers)

	require.Empty(t, b.writes(func() {
		_, err := b.Apply(t.Context(), scope, plan.PutPeer{Peer: clients})
		var taken *NameTakenError
		require.ErrorAs(t, err, &taken)
		require.ErrorContains(t, err, "rename or delete it")
		require.False(t, IsConflict(err), "trying again does not help")
		b.apply(plan.DeletePeer{Name: clients.Name}, false)
	}))
	require.Equal(t, before, b.peer())
}

func TestAPeerThatSomebodyTakesOverMeanwhileIsNotDeleted(t *testing.T) {
	b := newBench(t)
	b.apply(plan.PutPeer{Peer: clients}, true)
	stale := b.peer()
	b.editPeer(func(o *apiv3.BGPPeer) { o.Labels = map[string]string{"team": "network"} })
	_, err := b.deleteVersion(t.Context(), stale)
	require.True(t, IsConflict(err), "got %v", err)
	b.apply(plan.DeletePeer{Name: clients.Name}, false)
	require.NotNil(t, b.peer())
}

func TestOnlyWhatChangesSomethingIsExtra(t *testing.T) {
	auto, manual, other := apiv3.ReversePeeringAuto, apiv3.ReversePeeringManual, apiv3.ReversePeering("Other")
	for name, c := range map[string]struct {
		spec apiv3.BGPPeerSpec
		want string
	}{
		"nothing":                       {apiv3.BGPPeerSpec{NodeSelector: "all()", PeerSelector: "all()"}, ""},
		"reverse peering as by default": {apiv3.BGPPeerSpec{ReversePeering: &auto}, ""},
		"manual reverse peering":        {apiv3.BGPPeerSpec{ReversePeering: &manual}, ""},
		"another reverse peering":       {apiv3.BGPPeerSpec{ReversePeering: &other}, `{"reversePeering":"Other"}`},
		"next hop as by default":        {apiv3.BGPPeerSpec{NextHopMode: ptr.To(apiv3.NextHopMode("Auto"))}, ""},
		"source address as by default":  {apiv3.BGPPeerSpec{SourceAddress: apiv3.SourceAddressUseNodeIP}, ""},
		"no source address":             {apiv3.BGPPeerSpec{SourceAddress: apiv3.SourceAddressNone}, `{"sourceAddress":"None"}`},
		"filters, the next hop and more": {
			apiv3.BGPPeerSpec{Filters: []string{"f"}, KeepOriginalNextHop: true, TTLSecurity: ptr.To(uint8(1))}, `{"ttlSecurity":1}`,
		},
		"a password without a Secret": {apiv3.BGPPeerSpec{Password: &apiv3.BGPPassword{}}, `{"password":{}}`},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, c.want, extraOf(c.spec))
		})
	}
}

func TestTheNextHopOfAPeer(t *testing.T) {
	for mode, want := range map[string][2]bool{"Keep": {true, false}, "Self": {false, true}, "Auto": {false, false}, "Other": {false, true}} {
		for _, keep := range []bool{false, true} {
			p := peerOf(&apiv3.BGPPeer{Spec: apiv3.BGPPeerSpec{NextHopMode: ptr.To(apiv3.NextHopMode(mode)), KeepOriginalNextHop: keep}})
			require.Equal(t, want, [2]bool{p.KeepNextHop, p.SelfNextHop}, "with %s Calico does not look at keepOriginalNextHop", mode)
		}
	}
	require.True(t, peerOf(&apiv3.BGPPeer{Spec: apiv3.BGPPeerSpec{KeepOriginalNextHop: true}}).KeepNextHop)
}

// libcalico-go keeps the labels of its objects in an annotation of the custom
// resource: this is where kubectl shows that an object is ours.
func TestTheOwnerIsToBeSeenOnTheCustomResource(t *testing.T) {
	b := newBench(t)
	b.apply(plan.PutPeer{Peer: clients}, true)
	raw := b.raw(apiv3.KindBGPPeer, clients.Name)
	if group == GroupV3 {
		require.Equal(t, map[string]string{v1alpha1.ManagedByLabel: v1alpha1.ManagedByValue}, raw.GetLabels())
		require.NotContains(t, raw.GetAnnotations(), metadataAnnotation)
		return
	}
	var meta struct{ Labels map[string]string }
	require.NoError(t, json.Unmarshal([]byte(raw.GetAnnotations()["projectcalico.org/metadata"]), &meta))
	require.Equal(t, v1alpha1.ManagedByValue, meta.Labels[v1alpha1.ManagedByLabel])
	require.Empty(t, raw.GetLabels(), "should this fail, kubectl can select by the label: say so in the docs")
}
