//go:build linux

package lab_test

import (
	"context"
	"errors"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	apiv3 "github.com/projectcalico/api/pkg/apis/projectcalico/v3"
	cerrors "github.com/projectcalico/calico/libcalico-go/lib/errors"
	"github.com/projectcalico/calico/libcalico-go/lib/options"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/rrpool/rrpool/controllers/calico"
	"github.com/rrpool/rrpool/controllers/plan"
	"github.com/rrpool/rrpool/test/lab"
)

// never is a reporting period longer than any test: what comes all the same is an answer. It takes some 20 ms.
const never = 3600

// These are the facts about Calico's node status reporter that the session gate is built on. They are Calico's, not ours: when one
// of these tests fails after an update of Calico, the gate needs another look.
func TestWhatTheSessionGateKnowsAboutTheReporter(t *testing.T) {
	l := inMesh(t, "")
	const node = "worker-0"
	sessions := len(l.Nodes()) - 1
	agentAndBGP := []apiv3.NodeStatusClassType{apiv3.NodeStatusClassTypeAgent, apiv3.NodeStatusClassTypeBGP}

	t.Run("a new object is filled in at once", func(t *testing.T) {
		createStatus(t, l, "new", node, never, agentAndBGP...)
		status := requireAnswer(t, l, "new")
		require.Equal(t, apiv3.BGPDaemonStateReady, status.Agent.BIRDV4.State)
		require.Equal(t, sessions, status.BGP.NumberEstablishedV4)
		require.Len(t, status.BGP.PeersV4, sessions)
		for _, peer := range status.BGP.PeersV4 {
			require.Equal(t, apiv3.BGPPeerTypeNodeMesh, peer.Type)
			require.Equal(t, apiv3.BGPSessionStateEstablished, peer.State)
		}
	})
	t.Run("a status that is cleared, with a higher generation and its classes in another order, is filled in at once", func(t *testing.T) {
		createStatus(t, l, "challenged", node, never, agentAndBGP...)
		requireAnswer(t, l, "challenged")
		for range 3 {
			challenge(t, l, "challenged", 1)
			require.Equal(t, sessions, requireAnswer(t, l, "challenged").BGP.NumberEstablishedV4)
		}
	})
	t.Run("a status that is cleared without touching either stays empty: the reporter takes it for its own write", func(t *testing.T) {
		createStatus(t, l, "unnoticed", node, never, agentAndBGP...)
		requireAnswer(t, l, "unnoticed")
		challenge(t, l, "unnoticed", 0)
		for range 3 { // the reporter has seen what came before what it answers
			challenge(t, l, "challenged", 1)
			requireAnswer(t, l, "challenged")
		}
		requireNoAnswer(t, l, "unnoticed")
	})
	// These are watched together, until enough is written of the one that always writes.
	createStatus(t, l, "quiet", node, 0, agentAndBGP...)
	createStatus(t, l, "chatty", node, 1, agentAndBGP...)
	createStatus(t, l, "silent", node, 1, apiv3.NodeStatusClassTypeAgent)
	for _, name := range []string{"quiet", "chatty", "silent"} {
		requireAnswer(t, l, name)
	}
	written := writes(t, l, "chatty", 3)
	t.Run("a period of 0 means that only challenges are answered", func(t *testing.T) {
		require.Empty(t, written[statusName("quiet")])
		challenge(t, l, "quiet", 1)
		requireAnswer(t, l, "quiet")
	})
	t.Run("without a session in one address family it writes every period, changed or not: an empty list differs from none", func(t *testing.T) {
		require.Contains(t, written[statusName("chatty")], true)
	})
	t.Run("where nothing has changed for it either, it writes nothing, so lastUpdated does not show that it runs", func(t *testing.T) {
		require.NotContains(t, written[statusName("silent")], true)
	})
	t.Run("a challenge shows a session that has just ended", func(t *testing.T) {
		require.NoError(t, l.StopBIRD("worker-2"))
		require.Eventually(t, func() bool { return established(t, l, node) == sessions-1 }, patience, 5*time.Millisecond, "BIRD does not know")
		challenge(t, l, "challenged", 1)
		require.Equal(t, sessions-1, requireAnswer(t, l, "challenged").BGP.NumberEstablishedV4)
	})
	t.Run("a challenge shows that the node's own BIRD is dead, and no session", func(t *testing.T) {
		require.NoError(t, l.KillBIRD(node))
		challenge(t, l, "challenged", 1)
		status := requireAnswer(t, l, "challenged")
		require.Equal(t, apiv3.BGPDaemonStateNotReady, status.Agent.BIRDV4.State)
		require.Empty(t, status.BGP.PeersV4)
		require.Zero(t, status.BGP.NumberEstablishedV4)
	})
	t.Run("while a BIRD that has started waits for a neighbour that is down, its sessions are listed as Established and not counted", func(t *testing.T) {
		require.NoError(t, l.StartBIRD(t.Context(), node))
		createStatus(t, l, "recovers", node, 1, agentAndBGP...)
		var status apiv3.CalicoNodeBGPStatus
		require.Eventually(t, func() bool {
			status = getStatus(t, l, "recovers").Status.BGP
			down := func(p apiv3.CalicoNodePeer) bool { return p.State != apiv3.BGPSessionStateEstablished }
			return len(slices.DeleteFunc(status.PeersV4, down)) == sessions-1
		}, patience, 100*time.Millisecond)
		require.Zero(t, status.NumberEstablishedV4)
	})
	t.Run("a node without a network answers no challenge until it has one", func(t *testing.T) {
		createStatus(t, l, "cut off", "worker-1", never, agentAndBGP...)
		requireAnswer(t, l, "cut off")
		require.NoError(t, l.CutLink("worker-1"))
		challenge(t, l, "cut off", 1)
		watch(t.Context(), 2*time.Second)
		requireNoAnswer(t, l, "cut off")
		require.NoError(t, l.RestoreLink("worker-1"))
		requireAnswer(t, l, "cut off")
	})
}

// established counts a node's sessions, as its BIRD has them.
func established(t *testing.T, l *lab.Lab, node string) int {
	t.Helper()
	sessions, err := l.Sessions(node)
	require.NoError(t, err)
	return len(slices.DeleteFunc(sessions, func(s lab.Session) bool { return !s.Established() }))
}

func createStatus(t *testing.T, l *lab.Lab, name, node string, period uint32, classes ...apiv3.NodeStatusClassType) {
	t.Helper()
	status := apiv3.NewCalicoNodeStatus()
	status.Name = statusName(name)
	status.Spec = apiv3.CalicoNodeStatusSpec{Node: node, Classes: classes, UpdatePeriodSeconds: &period}
	_, err := l.Calico().CalicoNodeStatus().Create(t.Context(), status, options.SetOptions{})
	require.NoError(t, err)
}

// challenge clears the status, and adds to the generation, which libcalico-go stores as it is given. Before Calico 3.31 the reporter
// compares specs instead.
func challenge(t *testing.T, l *lab.Lab, name string, generations int64) {
	t.Helper()
	for {
		status := getStatus(t, l, name)
		status.Status = apiv3.CalicoNodeStatusStatus{}
		if status.Generation += generations; generations > 0 {
			slices.Reverse(status.Spec.Classes)
		}
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
	return getStatusNamed(t, l, statusName(name))
}

func getStatusNamed(t *testing.T, l *lab.Lab, name string) *apiv3.CalicoNodeStatus {
	t.Helper()
	status, err := l.Calico().CalicoNodeStatus().Get(t.Context(), name, options.GetOptions{})
	require.NoError(t, err)
	return status
}

func requireAnswer(t *testing.T, l *lab.Lab, name string) apiv3.CalicoNodeStatusStatus {
	t.Helper()
	for began := time.Now(); ; watch(t.Context(), 5*time.Millisecond) {
		status := getStatus(t, l, name).Status
		if !status.LastUpdated.IsZero() {
			t.Logf("answered after %s", time.Since(began).Round(time.Millisecond))
			return status
		}
		require.Less(t, time.Since(began), patience, "no answer")
	}
}

func requireNoAnswer(t *testing.T, l *lab.Lab, name string) {
	t.Helper()
	require.True(t, getStatus(t, l, name).Status.LastUpdated.IsZero(), "it was answered")
}

// writes gives, by object, of each write of the reporters whether it says nothing new, until one of them has so often said nothing new. BIRD
// counts its own times from two clocks whose seconds begin at different moments: the time of its start may change by a second and back,
// which is something new.
func writes(t *testing.T, l *lab.Lab, until string, times int) map[string][]bool {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	list, err := l.Calico().CalicoNodeStatus().List(ctx, options.ListOptions{})
	require.NoError(t, err)
	before := map[string]apiv3.CalicoNodeStatusStatus{}
	for _, object := range list.Items {
		before[object.Name] = object.Status
	}
	events, err := l.Calico().CalicoNodeStatus().Watch(ctx, options.ListOptions{ResourceVersion: list.ResourceVersion})
	require.NoError(t, err)
	defer events.Stop()
	out := map[string][]bool{}
	for event := range events.ResultChan() {
		require.NoError(t, event.Error)
		object, ok := event.Object.(*apiv3.CalicoNodeStatus)
		require.True(t, ok, "%s %v", event.Type, event.Object)
		was, is := before[object.Name], object.Status
		was.LastUpdated = is.LastUpdated
		nothingNew := reflect.DeepEqual(was, is)
		before[object.Name] = is
		out[object.Name] = append(out[object.Name], nothingNew)
		if nothingNew && object.Name == statusName(until) {
			times--
		}
		if times == 0 {
			return out
		}
	}
	require.Fail(t, "the watch has ended", "%v", out)
	return nil
}

// statusName makes an object's name of a word or two.
func statusName(name string) string {
	return "test-" + string(slices.DeleteFunc([]rune(name), func(r rune) bool { return r == ' ' }))
}

// With listenPort confd adds the port to the names of sessions of BGPPeers, and Calico's reporter makes the peers of routes from these names. What
// the adapter makes of that is the address of the node, in both families: each block, from each reflector.
func TestRoutesAreReadWhereBGPListensOnAnotherPort(t *testing.T) {
	l := start(t, lab.Options{ListenPort: 178, DualStack: true}, append(lab.Workers(3), lab.Dedicated(3)...)...)
	makeReflectors(t, l)
	createPeer(t, l, nil)
	require.NoError(t, l.WaitReflected(t.Context(), reflectors...))
	awaitPaths(t, l)
	sessions, err := l.Sessions("worker-0")
	require.NoError(t, err)
	require.Condition(t, func() bool {
		for _, s := range sessions {
			if strings.HasPrefix(s.Name, "Node_") && strings.HasSuffix(s.Name, "_port_178") {
				return true
			}
		}
		return false
	}, "%v", sessions)

	cluster, err := client.New(l.AdminConfig(), client.Options{Scheme: scheme.Scheme})
	require.NoError(t, err)
	adapter, err := calico.New(calico.Config{RestConfig: l.AdminConfig(), Nodes: cluster, Writer: cluster, Log: logr.Discard()})
	require.NoError(t, err)
	go func() { assert.NoError(t, adapter.Start(t.Context())) }()
	require.NoError(t, adapter.WaitSynced(t.Context()))
	_, err = adapter.Watch(t.Context(), []plan.StatusRequest{{Node: "worker-0", Period: time.Second, Routes: true}})
	require.NoError(t, err)
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		seen, err := adapter.Observe(t.Context(), plan.DatastoreOptions{RoleLabel: roleLabel})
		require.NoError(c, err)
		st := seen.Statuses["worker-0"]
		require.Empty(c, st.Unread)
		require.Empty(c, st.UnreadRoutes)
		require.True(c, st.HasRoutes)
		from := map[netip.Prefix]map[netip.Addr]bool{}
		for _, r := range st.Routes {
			if from[r.Prefix] == nil {
				from[r.Prefix] = map[netip.Addr]bool{}
			}
			from[r.Prefix][r.From] = true
		}
		for _, to := range []string{"worker-1", "worker-2"} {
			for _, block := range l.Families(l.Block(to)) {
				for _, n := range seen.Nodes {
					if n.ClusterID == "" {
						continue
					}
					for _, a := range n.Addresses {
						require.True(c, a.Is4() != block.Addr().Is4() || from[block][a], "%s from %s of %s: %v", block, a, n.Name, from[block])
					}
				}
			}
		}
	}, patience, time.Second)
	object := getStatusNamed(t, l, "rrpool-worker-0")
	texts := map[bool]int{}
	for _, r := range append(object.Status.Routes.RoutesV4, object.Status.Routes.RoutesV6...) {
		if r.LearnedFrom.SourceType == apiv3.RouteSourceTypeBGPPeer {
			texts[strings.HasSuffix(r.LearnedFrom.PeerIP, ".port.178") || strings.HasSuffix(r.LearnedFrom.PeerIP, ":port:178")]++
		}
	}
	require.NotZero(t, texts[true], "else the test proves nothing: %v", object.Status.Routes)
	require.Zero(t, texts[false])
}
