package calico

import (
	"encoding/json"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode"

	apiv3 "github.com/projectcalico/api/pkg/apis/projectcalico/v3"
	validatorv3 "github.com/projectcalico/calico/libcalico-go/lib/validator/v3"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/rrpool/rrpool/controllers/plan"
)

// Whatever a kubelet writes into its Node, the plan gets addresses and times that are
// some, and of the rest nothing that could pass for what it is not.
func FuzzNode(f *testing.F) {
	f.Add("10.0.0.1/24", "fd00::1/64", "64512", "244.0.0.1", "2026-01-01T00:00:00Z", "z1", "ibm://a///c/w")
	f.Add("fd00::1", "10.0.0.1", "1.1", "244.0.0.1\n", "never", "", "")
	f.Add("::ffff:10.0.0.1", "fe80::1%eth0", "4294967296", "\x1b[2J244.0.0.1", "9999-12-31T23:59:59Z", "z\x00", "ibm://\n")
	f.Add("10.0.0.1/99", "::/0", "-1", strings.Repeat("9", 5000), "0000-01-01T00:00:00Z", "\xff", strings.Repeat("/", 5000))
	f.Fuzz(func(t *testing.T, v4, v6, asn, id, since, zone, providerID string) {
		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{
			Name: "n", Labels: map[string]string{"zone": zone, "role": zone},
			Annotations: map[string]string{
				ipv4Annotation: v4, ipv6Annotation: v6, asnAnnotation: asn, clusterIDAnnotation: id, sinceAnnotation: since,
			},
		}}
		n.Spec.ProviderID = providerID
		got := nodeOf(n, plan.DatastoreOptions{RoleLabel: "role", ZoneLabel: "zone"})
		for _, a := range got.Addresses {
			require.True(t, a.IsValid() && a.Zone() == "" && !a.Is4In6())
		}
		require.LessOrEqual(t, len(got.Addresses), 2)
		require.LessOrEqual(t, len(got.ClusterID), longestID)
		requireVisible(t, got.ClusterID)
		require.Equal(t, id == "" || validatorv3.ValidateIPv4Network(id) != nil, got.ClusterID == "", "what Calico takes for a reflector is one")
		if addr, err := netip.ParseAddr(got.ClusterID); err == nil && addr.Is4() {
			require.Equal(t, id, got.ClusterID, "nothing passes for an ID that is none")
		}
		require.True(t, got.Marked)
	})
}

func requireVisible(t *testing.T, text string) {
	t.Helper()
	require.Equal(t, -1, strings.IndexFunc(text, func(r rune) bool { return !unicode.IsGraphic(r) }), "%q", text)
}

// Whatever a reporter writes, a session counts as Established only where it says so, its
// age is never older than what we have seen, and a blank report proves nothing.
func FuzzNodeStatus(f *testing.F) {
	const head = `{"spec":{"node":"n","classes":["Agent","BGP","Routes"]},"status":{"lastUpdated":"2026-01-01T00:00:00Z",`
	f.Add(head+`"bgp":{"peersV4":[{"peerIP":"10.0.0.1","type":"NodePeer","state":"Established","since":"12:00:00"}]}}}`,
		head+`"bgp":{"peersV4":[{"peerIP":"10.0.0.1","type":"NodePeer","state":"Idle","since":"12:00:01"}]}}}`, true, true)
	f.Add(head+`"routes":{"routesV4":[{"destination":"10.0.0.0/26","learnedFrom":{"sourceType":"BGPPeer","peerIP":"x"}}]}}}`, `{}`, true, false)
	f.Add(head+`"bgp":{"peersV4":[{"peerIP":"::ffff:10.0.0.1","state":"Established"},{"peerIP":"10.0.0.1","state":"Idle"}]},"agent":{"birdV4":{"state":"Ready"}}}}`, `{"status":{"lastUpdated":null}}`, false, true)
	f.Add(`{"status":{"bgp":{"peersV6":[{"peerIP":"fe80::1%eth0","type":"\u0000","since":"99:99:99"}]}}}`, head+`"routes":{"routesV6":[{"destination":"::/200"}]}}}`, true, true)
	f.Fuzz(func(t *testing.T, first, second string, v4, v6 bool) {
		begin := time.Unix(1e9, 0)
		var r *report
		for i, text := range []string{first, second, first} {
			o := apiv3.NewCalicoNodeStatus()
			if err := json.Unmarshal([]byte(text), o); err != nil {
				t.Skip("the apiserver does not take it")
			}
			now := begin.Add(time.Duration(i) * time.Minute)
			r = r.next(o, now, i == 1)
			got := r.status(v4, v6)
			if isCleared(o) {
				require.True(t, got.Updated.IsZero())
				require.False(t, got.Cleared.IsZero())
			}
			requireWhatItSays(t, o, got, now)
		}
	})
}

// requireWhatItSays demands that sessions and routes are those that the report has.
func requireWhatItSays(t *testing.T, o *apiv3.CalicoNodeStatus, got plan.Status, now time.Time) {
	t.Helper()
	says := map[netip.Addr]bool{}
	sessions, unread := sessionsOf(o)
	require.Equal(t, len(sessions)+len(unread) == 0, len(o.Status.BGP.PeersV4)+len(o.Status.BGP.PeersV6) == 0, "no session is passed over")
	require.False(t, got.HasRoutes && len(got.UnreadRoutes) > 0)
	for key, s := range sessions {
		says[key.peer] = says[key.peer] || s.established
	}
	for _, s := range got.Sessions {
		require.True(t, s.Peer.IsValid() && s.Peer.Zone() == "")
		require.False(t, s.Since.After(now))
		if s.Established && !isCleared(o) {
			require.True(t, says[s.Peer])
		}
	}
	for _, route := range got.Routes {
		require.True(t, route.Prefix.IsValid())
	}
	require.True(t, slices.IsSortedFunc(got.Sessions, func(a, b plan.Session) int { return a.Peer.Compare(b.Peer) }))
}

// Whatever stands in the note of how the mesh was, it is read as what it says, and can be
// noted again without a change, or it is said why it cannot be read.
func FuzzMeshNote(f *testing.F) {
	for _, seed := range []string{
		`{"absent":true}`, `{}`, `{"enabled":true,"password":{"secretKeyRef":{"name":"n","key":"k"}},"maxRestartTime":"2m0s"}`,
		`{"enabled":false,"password":{}}`, `{"maxRestartTime":"-1s"}`, `{"maxRestartTime":"99999999h"}`, `null`, `[]`, `{"enabled":"yes"}`, "", "\x1b[2J",
		`{"password":{"secretKeyRef":{"name":"n","key":"k","optional":true}}}`,
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		o := apiv3.NewBGPConfiguration()
		o.Name, o.Annotations = defaultConfig, map[string]string{beforeAnnotation: text}
		store := newStore(time.Now)
		got := store.configOf(o)
		require.NotNil(t, got.Saved)
		requireVisible(t, got.SavedUnread)
		before, _ := store.saved(o)
		again, err := encodeSaved(plan.DisableMesh{Saved: *got.Saved, SavedAbsent: got.SavedAbsent}, savedMesh{}, before)
		require.NoError(t, err)
		o.Annotations[beforeAnnotation] = again
		kept := store.configOf(o)
		require.Empty(t, kept.SavedUnread)
		require.Equal(t, got.Saved, kept.Saved, "%s became %s", text, again)
		require.Equal(t, got.SavedAbsent, kept.SavedAbsent)
	})
}

// A BGPPeer is read as what it says: what the plan does not know of it is in Extra, and
// without that it can be written again without a change.
func FuzzPeer(f *testing.F) {
	f.Add(`{"nodeSelector":"!has(a)","peerSelector":"has(a)","maxRestartTime":"2m0s","password":{"secretKeyRef":{"name":"n","key":"k"}}}`)
	f.Add(`{"node":"n","peerIP":"10.0.0.1:179","asNumber":64512,"reversePeering":"Manual"}`)
	f.Add(`{"node":"first","peerIP":"fd00::2","asNumber":64512,"maxRestartTime":"1m30s","password":{"secretKeyRef":{"name":"n","key":"k"}}}`)
	f.Add(`{"asNumber":"1.10","nextHopMode":"Auto","sourceAddress":"UseNodeIP","filters":["x"],"ttlSecurity":1}`)
	f.Add(`{"peerIP":"10.0.0.1","nextHopMode":"Other"}`)
	f.Add(`{"password":{},"localASNumber":4294967295,"keepOriginalNextHop":true}`)
	f.Add(`{"password":{"secretKeyRef":{"name":"n","key":"k","optional":false}},"reversePeering":"?"}`)
	f.Fuzz(func(t *testing.T, spec string) {
		o := apiv3.NewBGPPeer()
		o.Name = "p"
		if err := json.Unmarshal([]byte(spec), &o.Spec); err != nil {
			t.Skip("the apiserver does not take it")
		}
		got := peerOf(o)
		o.Spec = peerSpec(got)
		again := peerOf(o)
		require.Empty(t, again.Extra, "nothing that we write is unknown to us")
		again.Extra, again.SelfNextHop = got.Extra, got.SelfNextHop // which comes of it
		require.Equal(t, got, again)
	})
}
