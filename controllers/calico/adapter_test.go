package calico

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	apiv3 "github.com/projectcalico/api/pkg/apis/projectcalico/v3"
	libapiv3 "github.com/projectcalico/calico/libcalico-go/lib/apis/v3"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/rrpool/rrpool/controllers/plan"
	"github.com/rrpool/rrpool/controllers/plan/reason"
	"github.com/rrpool/rrpool/test/controlplane"
	"github.com/rrpool/rrpool/test/leaks"
)

func TestTheProxyOfTheKubeconfigIsUsedForCalicosObjects(t *testing.T) {
	var asked string
	proxy := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { asked = r.URL.String() }))
	defer proxy.Close()
	through, err := url.Parse(proxy.URL)
	require.NoError(t, err)
	calico, err := connect(&rest.Config{Host: "http://apiserver.example", Proxy: http.ProxyURL(through)}, group)
	require.NoError(t, err)
	_, err = calico.peers.get(t.Context(), "any")
	require.Error(t, err, "the proxy answers nothing")
	require.Equal(t, "http://apiserver.example/apis/"+group.String()+"/bgppeers/any", asked)
}

// Calico's CRDs take any text for a duration and any number for an AS number. One such field hides neither its object nor another, and stops no
// way back; what is ours is written anew.
func TestAFieldThatCannotBeReadHidesNothing(t *testing.T) {
	b := newBench(t)
	b.node(five, nil)
	create := func(kind, name string, spec map[string]any) {
		raw := b.custom(kind, name)
		raw.Object["spec"] = spec
		require.NoError(t, b.kube.Create(t.Context(), raw))
	}
	spoil := func(kind, name, body string) { b.patch(b.custom(kind, name), `{"spec":`+body+`}`) }
	b.apply(plan.PutPeer{Peer: clients}, true)
	b.apply(plan.DisableMesh{SavedAbsent: true}, true)
	spoil(apiv3.KindBGPPeer, clients.Name, `{"maxRestartTime":"abc"}`)
	b.run()
	find := func(c plan.Cluster, name string) plan.Peer {
		for _, p := range c.Peers {
			if p.Name == name {
				return p
			}
		}
		return plan.Peer{}
	}
	c := b.observe()
	require.Contains(t, find(c, clients.Name).Extra, `"abc"`, "it is not as we wrote it")
	require.Empty(t, c.Problems, "we write it anew")
	b.apply(plan.PutPeer{Peer: clients}, true)
	require.Empty(t, find(b.observe(), clients.Name).Extra)
	require.NotEqual(t, "abc", b.raw(apiv3.KindBGPPeer, clients.Name).Object["spec"].(map[string]any)["maxRestartTime"])
	require.Empty(t, b.raw(apiv3.KindBGPPeer, clients.Name).GetAnnotations()[unreadAnnotation])
	b.apply(plan.PutPeer{Peer: clients}, false)

	create(apiv3.KindBGPPeer, "a-spoiled", map[string]any{"nodeSelector": "has(a)", "peerIP": "192.0.2.1", "maxRestartTime": "abc"})
	create(apiv3.KindBGPPeer, "b-good", map[string]any{"nodeSelector": "has(b)"})
	c = b.await("the one that came after a spoiled one", func(c plan.Cluster) bool { return find(c, "b-good").Name != "" })
	require.Equal(t, "has(a)", find(c, "a-spoiled").NodeSelector)
	require.Len(t, c.Problems, 1)
	require.Equal(t, reason.ObjectUnreadable, c.Problems[0].Reason)
	require.Contains(t, c.Problems[0].Message, `BGPPeer a-spoiled ({"maxRestartTime":"abc"})`)
	another := b.adapter()
	stop := start(t, another)
	require.NoError(t, another.WaitSynced(t.Context()))
	listed, err := another.Observe(t.Context(), scope)
	require.NoError(t, err, "as after a restart")
	require.Len(t, listed.Peers, 3)
	require.Equal(t, c.Problems, listed.Problems)
	stop()
	require.NoError(t, b.kube.Delete(t.Context(), b.custom(apiv3.KindBGPPeer, "a-spoiled")))
	b.await("the end of it", func(c plan.Cluster) bool { return len(c.Problems) == 0 && len(c.Peers) == 2 })

	spoil(apiv3.KindBGPConfiguration, defaultConfig, `{"asNumber":64500,"nodeMeshMaxRestartTime":"abc"}`)
	c = b.await("the config", func(c plan.Cluster) bool { return len(c.Problems) == 1 })
	require.Contains(t, c.Problems[0].Message, `BGPConfiguration default ({"nodeMeshMaxRestartTime":"abc"})`)
	require.False(t, c.BGP.MeshOn())
	require.Equal(t, uint32(64500), c.BGP.ASN)
	b.apply(plan.RestoreMesh{}, true)
	c = b.observe()
	require.True(t, c.BGP.MeshOn())
	require.Empty(t, c.Problems, "it is as it was before")

	for kind, field := range map[string]map[string]any{
		apiv3.KindBGPConfiguration: {"asNumber": int64(-1)}, apiv3.KindCalicoNodeStatus: {"node": five, "classes": []any{"BGP"}, "updatePeriodSeconds": int64(-1)},
	} {
		create(kind, "node.others", field)
		c = b.await("an object that rrpool does not use", func(c plan.Cluster) bool { return len(c.Problems) == 1 })
		require.Contains(t, c.Problems[0].Message, kind+" node.others ({")
		require.NoError(t, b.kube.Delete(t.Context(), b.custom(kind, "node.others")))
		b.await("the end of it", func(c plan.Cluster) bool { return len(c.Problems) == 0 })
	}

	require.True(t, b.watch(plan.StatusRequest{Node: five, Period: time.Second}))
	spoil(apiv3.KindCalicoNodeStatus, statusName(five), `{"updatePeriodSeconds":-1}`)
	require.Eventually(t, func() bool { return b.watch(plan.StatusRequest{Node: five, Period: time.Second}) }, time.Minute, 20*time.Millisecond)
	require.EqualValues(t, 1, *b.report(five).Spec.UpdatePeriodSeconds)
}

func TestNothingIsKnownBeforeTheStart(t *testing.T) {
	b := newBench(t)
	require.False(t, b.Synced())
	_, err := b.Observe(t.Context(), scope)
	require.ErrorContains(t, err, "not all are listed yet")
	_, err = b.Watch(t.Context(), nil)
	require.Error(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, b.WaitSynced(ctx), context.Canceled)
	b.run()
	require.True(t, b.Synced())
}

func TestAtRestNothingIsAskedAndNothingSignaled(t *testing.T) {
	b := newBench(t)
	b.node(five, nil)
	b.apply(plan.PutPeer{Peer: clients}, true)
	b.cfg.Nodes = &frozen{node: *b.liveNode(five)}
	b.run()
	b.await("the peer", func(c plan.Cluster) bool { return len(c.Peers) == 1 })
	signaled := func(what string) {
		t.Helper()
		select {
		case <-b.Changes():
		case <-time.After(time.Minute):
			t.Fatal(what + " was not signaled")
		}
	}
	signaled("the first list")
	since := time.Now()
	for range 10 {
		b.observe()
		require.False(t, b.watch())
	}
	requests, err := b.plane.Requests(b.user, since)
	require.NoError(t, err)
	for _, r := range requests {
		require.Equal(t, "watch", r.Verb, "%s", r)
	}
	require.Empty(t, b.Changes())
	b.giveConfig(withPassword)
	signaled("a change")
}

func TestStartLeavesNoGoroutineBehind(t *testing.T) {
	b := newBench(t)
	ignore := []goleak.Option{
		goleak.IgnoreCurrent(),
		// Connections stay open for the next request.
		goleak.IgnoreAnyFunction("net/http.(*persistConn).readLoop"),
		goleak.IgnoreAnyFunction("net/http.(*persistConn).writeLoop"),
		goleak.IgnoreAnyFunction("net/http/internal/http2.(*clientConnReadLoop).run"),
		goleak.IgnoreAnyFunction("golang.org/x/net/http2.(*clientConnReadLoop).run"),
	}
	b.run()
	require.Error(t, goleak.Find(ignore...), "the check finds a running adapter")
	b.stop()
	require.NoError(t, leaks.Find(ignore...))
}

func TestNodesWithoutBGPAreAProblemOfItsOwn(t *testing.T) {
	b := newBench(t)
	b.node(five, func(n *corev1.Node) { n.Annotations[ipv4Annotation] = "garbage" })
	b.run()
	seen := b.observe()
	require.Len(t, seen.Problems, 1)
	require.Equal(t, reason.BGPDisabled, seen.Problems[0].Reason)
	b.node("10.240.0.6", nil)
	require.Empty(t, b.observe().Problems, "one node that does is enough, whatever the other has")
}

// DatastoreMigration locks the old group's objects and leaves them so, and removes them later.
func TestALockedDatastoreIsNotWrittenTo(t *testing.T) {
	b := newBench(t)
	b.node(five, nil)
	b.run()
	information := func(ready string) {
		o := b.custom(apiv3.KindClusterInformation, "default")
		err := b.kube.Patch(t.Context(), o, client.RawPatch(types.MergePatchType, []byte(`{"spec":{"datastoreReady":`+ready+`}}`)))
		if apierrors.IsNotFound(err) {
			require.NoError(t, unstructured.SetNestedField(o.Object, ready == "true", "spec", "datastoreReady"))
			err = b.kube.Create(t.Context(), o)
		}
		require.NoError(t, err)
	}
	information("false")
	seen := b.await("the lock", func(c plan.Cluster) bool { return c.Locked != nil })
	require.Equal(t, reason.DatastoreLocked, seen.Locked.Reason)
	require.NotContains(t, b.tryAll(), nil, "each is refused")
	require.Empty(t, b.observe().Peers)

	information("true")
	b.await("the end of the lock", func(c plan.Cluster) bool { return c.Locked == nil })
	require.NoError(t, errors.Join(b.tryAll()...))
	information("false")
	b.await("the lock", func(c plan.Cluster) bool { return c.Locked != nil })
	require.NoError(t, b.kube.Delete(t.Context(), b.custom(apiv3.KindClusterInformation, "default")))
	b.affinity("after-the-deletion", libapiv3.BlockAffinitySpec{Node: five, CIDR: "10.1.0.0/26", State: "confirmed"})
	seen = b.await("what happened after that", func(c plan.Cluster) bool { return len(c.Nodes[0].Blocks) == 1 })
	require.NotNil(t, seen.Locked, "the old group is being taken away")
	information("true")
	b.await("the end of the lock", func(c plan.Cluster) bool { return c.Locked == nil })
}

func TestACalicoThatIsNotThereIsAProblemUntilItIsInstalled(t *testing.T) {
	notInEtcd(t, "there are no CRDs")
	plane, err := controlplane.Start(t.Context(), controlplane.Options{AuditReads: true})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, plane.Stop()) })
	b := &bench{t: t, plane: plane, clock: newClock(), user: "bare", groups: []string{"system:masters"}}
	b.kube, err = client.New(plane.AdminConfig(), client.Options{})
	require.NoError(t, err)
	b.Adapter = b.adapter()
	b.run()
	seen := b.observe()
	require.Len(t, seen.Problems, 1)
	require.Equal(t, reason.CalicoNotInstalled, seen.Problems[0].Reason)
	require.False(t, b.watch(plan.StatusRequest{Node: five}))

	// First everything but the reports, as before Calico 3.21.
	crds, err := controlplane.CalicoCRDs(t.Context())
	require.NoError(t, err)
	if group == GroupV3 {
		crds = t.TempDir()
		require.NoError(t, controlplane.NativeCRDs(t.Context(), crds))
	}
	crds += "/" + group.Group + "_"
	dir := t.TempDir()
	for _, file := range []string{"bgppeers", "bgpconfigurations", "blockaffinities"} {
		text, err := os.ReadFile(crds + file + ".yaml")
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(dir+"/"+file+".yaml", text, 0o600))
	}
	require.NoError(t, controlplane.InstallCRDs(plane.AdminConfig(), dir))
	seen = b.await("Calico without reports", func(c plan.Cluster) bool {
		return len(c.Problems) == 1 && c.Problems[0].Reason == reason.NodeStatusCRDMissing
	})
	require.Contains(t, seen.Problems[0].Message, "rollout.gate: Timer")

	// What ClusterPeerings need may be missing, or too old: a filter that lost a field would let through more.
	found, err := b.ObservePeering(t.Context(), scope)
	require.NoError(t, err, "so that a ClusterPeering can be deleted")
	require.Empty(t, found.Filters)
	put := plan.PutFilter{Name: "rrpool-peering-b", Peering: "b"}
	_, err = b.Apply(t.Context(), scope, put)
	require.ErrorContains(t, err, "too old for a ClusterPeering, upgrade it")
	text, err := os.ReadFile(crds + "bgpfilters.yaml")
	require.NoError(t, err)
	old := strings.ReplaceAll(string(text), "                      source:\n                        type: string\n", "")
	require.NotEqual(t, string(text), old)
	require.NoError(t, os.WriteFile(dir+"/bgpfilters.yaml", []byte(old), 0o600))
	require.NoError(t, controlplane.InstallCRDs(plane.AdminConfig(), dir))
	_, err = b.Apply(t.Context(), scope, put)
	require.ErrorContains(t, err, `too old for a ClusterPeering, upgrade it: `)
	require.ErrorContains(t, err, `unknown field "spec.exportV4[1].source"`)
	found, err = b.ObservePeering(t.Context(), scope)
	require.NoError(t, err)
	require.Empty(t, found.Filters, "it was not written")

	require.NoError(t, controlplane.InstallCRDs(plane.AdminConfig(), filepath.Dir(crds)))
	b.await("all of Calico", func(c plan.Cluster) bool { return len(c.Problems) == 0 })
	b.other = othersOf(t, plane)
	b.apply(plan.PutPeer{Peer: clients}, true)
	b.giveConfig(func(*apiv3.BGPConfiguration) {})
	b.await("what happens afterwards", func(c plan.Cluster) bool { return len(c.Peers) == 1 && c.BGP.Exists })

	b.watch(plan.StatusRequest{Node: five, Period: time.Second})
	b.fill(five, func(*apiv3.CalicoNodeStatusStatus) {})
	before := b.clock.Now()
	b.await("a report", func(c plan.Cluster) bool { return c.Statuses[five].Updated.Equal(before) })

	// A setting of a Calico newer than ours must not be lost by a write of ours.
	text, err = os.ReadFile(crds + "bgpconfigurations.yaml")
	require.NoError(t, err)
	newer := strings.Replace(string(text), "                logSeverityScreen:\n",
		"                ofTomorrow:\n                  type: string\n                logSeverityScreen:\n", 1)
	require.NotEqual(t, string(text), newer)
	require.NoError(t, os.WriteFile(dir+"/bgpconfigurations.yaml", []byte(newer), 0o600))
	require.NoError(t, controlplane.InstallCRDs(plane.AdminConfig(), dir))
	require.Eventually(t, func() bool {
		raw := b.custom(apiv3.KindBGPConfiguration, defaultConfig)
		if b.kube.Patch(t.Context(), raw, client.RawPatch(types.MergePatchType, []byte(`{"spec":{"ofTomorrow":"set"}}`))) != nil {
			return false // a kind that is just being changed
		}
		kept, _, err := unstructured.NestedString(raw.Object, "spec", "ofTomorrow")
		return err == nil && kept == "set"
	}, 2*time.Minute, 50*time.Millisecond, "the API never learned of the new field")
	kept := func() string {
		out, _, err := unstructured.NestedString(b.raw(apiv3.KindBGPConfiguration, defaultConfig).Object, "spec", "ofTomorrow")
		require.NoError(t, err)
		return out
	}
	b.apply(plan.DisableMesh{}, true)
	require.Equal(t, "set", kept())
	b.apply(plan.RestoreMesh{}, true)
	b.apply(plan.ForgetMesh{}, true)
	require.Equal(t, "set", kept())

	// Nor by deleting what we had made.
	_, err = b.deleteVersion(t.Context(), b.config())
	require.NoError(t, err)
	b.apply(plan.DisableMesh{SavedAbsent: true}, true)
	b.patch(b.custom(apiv3.KindBGPConfiguration, defaultConfig), `{"spec":{"ofTomorrow":"set"}}`)
	b.apply(plan.RestoreMesh{}, true)
	b.apply(plan.ForgetMesh{}, true)
	require.Equal(t, "set", kept())

	// While the API is away nothing is known, rather than what was true before.
	plane.KillAPIServer()
	require.Eventually(t, func() bool {
		_, err := b.Observe(b.t.Context(), scope)
		return err != nil && !b.Synced() // the nodes may be missed before the watches end
	}, 2*time.Minute, 50*time.Millisecond)
	require.NoError(t, plane.StartAPIServer(t.Context()))
	b.fill(five, func(s *apiv3.CalicoNodeStatusStatus) { s.BGP.NumberEstablishedV4 = 7 })
	seen = b.await("the API again", func(plan.Cluster) bool { return true })
	require.Len(t, seen.Peers, 1)
}
