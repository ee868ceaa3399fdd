//go:build linux

package lab_test

import (
	"errors"
	"net/netip"
	"reflect"
	"slices"
	"testing"
	"time"

	apiv3 "github.com/projectcalico/api/pkg/apis/projectcalico/v3"
	cerrors "github.com/projectcalico/calico/libcalico-go/lib/errors"
	"github.com/projectcalico/calico/libcalico-go/lib/options"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/rrpool/rrpool/test/lab"
)

const (
	// never is a reporting period that no test lives to see.
	never = 3600
	// atOnce is how soon a reporter answers that need not wait for its period. It takes some 20 ms.
	atOnce = 2 * time.Second
)

// These are the facts about Calico's node status reporter that the session gate is built on. They are Calico's, not ours: when one
// of these tests fails after an update of Calico, the gate needs another look.
func TestWhatTheSessionGateKnowsAboutTheReporter(t *testing.T) {
	l := start(t, lab.Options{}, lab.Workers(3)...)
	const node = "worker-0"
	agentAndBGP := []apiv3.NodeStatusClassType{apiv3.NodeStatusClassTypeAgent, apiv3.NodeStatusClassTypeBGP}

	t.Run("a new object is filled in at once", func(t *testing.T) {
		createStatus(t, l, "new", node, never, agentAndBGP...)
		status := requireAnswer(t, l, "new")
		require.Equal(t, apiv3.BGPDaemonStateReady, status.Agent.BIRDV4.State)
		require.Equal(t, 2, status.BGP.NumberEstablishedV4)
		require.Len(t, status.BGP.PeersV4, 2)
		for _, peer := range status.BGP.PeersV4 {
			require.Equal(t, apiv3.BGPPeerTypeNodeMesh, peer.Type)
			require.Equal(t, apiv3.BGPSessionStateEstablished, peer.State)
		}
	})
	t.Run("a status that is cleared, with a higher generation, is filled in at once, though nothing has changed", func(t *testing.T) {
		createStatus(t, l, "challenged", node, never, agentAndBGP...)
		requireAnswer(t, l, "challenged")
		for range 3 {
			challenge(t, l, "challenged", 1)
			require.Equal(t, 2, requireAnswer(t, l, "challenged").BGP.NumberEstablishedV4)
		}
	})
	t.Run("a status that is cleared without touching the generation stays empty: the reporter takes it for its own write", func(t *testing.T) {
		createStatus(t, l, "unnoticed", node, never, agentAndBGP...)
		requireAnswer(t, l, "unnoticed")
		challenge(t, l, "unnoticed", 0)
		requireNoAnswer(t, l, "unnoticed")
	})
	t.Run("a period of 0 means that only challenges are answered", func(t *testing.T) {
		createStatus(t, l, "quiet", node, 0, agentAndBGP...)
		requireAnswer(t, l, "quiet")
		require.Empty(t, writes(t, l, "quiet"))
		challenge(t, l, "quiet", 1)
		requireAnswer(t, l, "quiet")
	})
	t.Run("without a session in one address family it writes every period, changed or not: an empty list differs from none", func(t *testing.T) {
		createStatus(t, l, "chatty", node, 1, agentAndBGP...)
		requireAnswer(t, l, "chatty")
		require.Contains(t, writes(t, l, "chatty"), nothingNew)
	})
	t.Run("where nothing has changed for it either, it writes nothing, so lastUpdated is no sign of life", func(t *testing.T) {
		createStatus(t, l, "silent", node, 1, apiv3.NodeStatusClassTypeAgent)
		requireAnswer(t, l, "silent")
		require.NotContains(t, writes(t, l, "silent"), nothingNew)
	})
	t.Run("a challenge shows a session that has just ended", func(t *testing.T) {
		require.NoError(t, l.StopBIRD("worker-2"))
		challenge(t, l, "challenged", 1)
		require.Equal(t, 1, requireAnswer(t, l, "challenged").BGP.NumberEstablishedV4)
	})
	t.Run("a challenge shows that the node's own BIRD is dead, and no session", func(t *testing.T) {
		require.NoError(t, l.KillBIRD(node))
		challenge(t, l, "challenged", 1)
		status := requireAnswer(t, l, "challenged")
		require.Equal(t, apiv3.BGPDaemonStateNotReady, status.Agent.BIRDV4.State)
		require.Empty(t, status.BGP.PeersV4)
		require.Zero(t, status.BGP.NumberEstablishedV4)
	})
	t.Run("a node without a network answers no challenge", func(t *testing.T) {
		createStatus(t, l, "cut off", "worker-1", never, agentAndBGP...)
		requireAnswer(t, l, "cut off")
		require.NoError(t, l.CutLink("worker-1"))
		challenge(t, l, "cut off", 1)
		requireNoAnswer(t, l, "cut off")
	})
}

func TestTheRoutesClassListsEveryPathWithItsPeer(t *testing.T) {
	l := start(t, lab.Options{}, append(lab.Workers(3), lab.Dedicated(3)...)...)
	createPeer(t, l, nil)
	makeReflectors(t, l)
	require.NoError(t, l.WaitReflected(t.Context(), reflectors...))
	want := []netip.Addr{l.Address("worker-1")}
	for _, name := range reflectors {
		want = append(want, l.Address(name))
	}
	slices.SortFunc(want, netip.Addr.Compare)
	createStatus(t, l, "routes", "worker-0", 1, apiv3.NodeStatusClassTypeRoutes)

	var best []apiv3.CalicoNodeRouteType
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		var from []netip.Addr
		best = nil
		for _, route := range getStatus(t, l, "routes").Status.Routes.RoutesV4 {
			if route.Destination == l.Block("worker-1").String() {
				from = append(from, netip.MustParseAddr(route.LearnedFrom.PeerIP))
				best = append(best, route.Type)
			}
		}
		slices.SortFunc(from, netip.Addr.Compare)
		require.Equal(c, want, from)
	}, 20*time.Second, 100*time.Millisecond)
	slices.Sort(best)
	require.Equal(t, []apiv3.CalicoNodeRouteType{"FIB", "RIB", "RIB", "RIB"}, best, "one path is the best, the others are listed too")
}

func createStatus(t *testing.T, l *lab.Lab, name, node string, period uint32, classes ...apiv3.NodeStatusClassType) {
	t.Helper()
	status := apiv3.NewCalicoNodeStatus()
	status.Name = statusName(name)
	status.Spec = apiv3.CalicoNodeStatusSpec{Node: node, Classes: classes, UpdatePeriodSeconds: &period}
	_, err := l.Calico().CalicoNodeStatus().Create(t.Context(), status, options.SetOptions{})
	require.NoError(t, err)
}

// challenge clears the status, and adds to the generation, which libcalico-go stores as it is given.
func challenge(t *testing.T, l *lab.Lab, name string, generations int64) {
	t.Helper()
	for {
		status := getStatus(t, l, name)
		status.Status = apiv3.CalicoNodeStatusStatus{}
		status.Generation += generations
		_, err := l.Calico().CalicoNodeStatus().Update(t.Context(), status, options.SetOptions{})
		if conflict := (cerrors.ErrorResourceUpdateConflict{}); errors.As(err, &conflict) {
			continue // the reporter was faster
		}
		require.NoError(t, err)
		return
	}
}

func getStatus(t *testing.T, l *lab.Lab, name string) *apiv3.CalicoNodeStatus {
	t.Helper()
	status, err := l.Calico().CalicoNodeStatus().Get(t.Context(), statusName(name), options.GetOptions{})
	require.NoError(t, err)
	return status
}

// requireAnswer waits for the reporter to fill in the status at once.
func requireAnswer(t *testing.T, l *lab.Lab, name string) apiv3.CalicoNodeStatusStatus {
	t.Helper()
	for began := time.Now(); ; watch(t.Context(), 5*time.Millisecond) {
		status := getStatus(t, l, name).Status
		if !status.LastUpdated.IsZero() {
			t.Logf("answered after %s", time.Since(began).Round(time.Millisecond))
			return status
		}
		require.Less(t, time.Since(began), atOnce, "no answer")
	}
}

func requireNoAnswer(t *testing.T, l *lab.Lab, name string) {
	t.Helper()
	watch(t.Context(), atOnce)
	require.True(t, getStatus(t, l, name).Status.LastUpdated.IsZero(), "it was answered")
}

// What a write of the reporter says.
const (
	somethingNew = "something new"
	nothingNew   = "nothing new"
)

// writes tells what the reporter writes within a few seconds. BIRD counts its own times from two clocks whose seconds begin at
// different moments: the time of its start may change by a second and back, which is something new.
func writes(t *testing.T, l *lab.Lab, name string) []string {
	t.Helper()
	var out []string
	before := getStatus(t, l, name)
	for began := time.Now(); time.Since(began) < 2*atOnce; watch(t.Context(), 5*time.Millisecond) {
		after := getStatus(t, l, name)
		if after.ResourceVersion == before.ResourceVersion {
			continue
		}
		before.Status.LastUpdated = after.Status.LastUpdated
		said := somethingNew
		if reflect.DeepEqual(before.Status, after.Status) {
			said = nothingNew
		}
		out = append(out, said)
		before = after
	}
	return out
}

// statusName makes an object's name of a word or two.
func statusName(name string) string {
	return "test-" + string(slices.DeleteFunc([]rune(name), func(r rune) bool { return r == ' ' }))
}
