//go:build linux

package lab_test

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	apiv3 "github.com/projectcalico/api/pkg/apis/projectcalico/v3"
	"github.com/projectcalico/api/pkg/lib/numorstring"
	"github.com/projectcalico/calico/libcalico-go/lib/options"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rrpool/rrpool/controllers/plan"
	"github.com/rrpool/rrpool/test/lab"
)

// settle is how long Calico's own end-to-end test lets Established sessions exchange their routes.
const settle = 5 * time.Second

// These are the facts about Calico that moving from one topology to another is built on: which writes change no session, and what those
// cost that take sessions away. They are Calico's, not ours: when one of these tests fails after an update of Calico, the migrations need
// another look.
func TestWhatMovingBetweenTopologiesIsBuiltOn(t *testing.T) {
	lab.SkipLong(t)
	l := start(t, lab.Options{}, append(lab.Workers(6), lab.Dedicated(5)...)...)
	w := &writer{t: t, l: l}
	names := w.dedicated()
	w.peer(clientsPeer, isClient, anyReflector)
	w.peer("reflectors", anyReflector, anyReflector)
	for _, name := range names {
		w.slot(name, "true", clusterID)
	}
	require.NoError(t, l.WaitReflected(t.Context(), names...))
	setMesh(t, l, false, nil)
	watch(t.Context(), settle)

	for _, step := range []struct {
		name string
		do   func()
	}{
		{"a second forward peer for the same pairs", func() { w.peer("second", isClient, anyReflector) }},
		{"40 updates while two forward peers match the same pairs", func() { w.stir(40) }},
		{"the first forward peer goes", func() { w.remove(clientsPeer) }},
		{"it comes again, and the second goes", func() { w.peer(clientsPeer, isClient, anyReflector); w.remove("second") }},
		{"reflectors get slots, which has(role) does not distinguish", func() {
			for i, name := range names {
				w.slot(name, fmt.Sprintf("quorum-zone-1-%d", i+1), clusterID)
			}
		}},
		{"a selector that says the same in other words", func() { w.peer(clientsPeer, isClient+" && has(topology.kubernetes.io/zone)", anyReflector) }},
		{"a group's peer beside the one of everyone", func() {
			w.peer("group", isClient+" && topology.kubernetes.io/zone == 'zone-1'", in("quorum-zone-1-1", "quorum-zone-1-2", "quorum-zone-1-3"))
		}},
		{"40 updates while the group's peer and the one of everyone match the same pairs", func() { w.stir(40) }},
	} {
		t.Run(step.name, func(t *testing.T) {
			w.t = t
			before, configured := w.sessions(), w.configured()
			l.Checkpoint(step.name)
			step.do()
			watch(t.Context(), 4*time.Second)
			require.Zero(t, w.requireSubset(before, w.sessions()), "new sessions")
			for node, at := range w.configured() {
				require.InDelta(t, 0, at.Sub(configured[node]).Seconds(), 1, "confd had something new to write on %s", node)
			}
			require.NoError(t, l.Report().Phase(step.name).ZeroLoss())
		})
	}
	w.t = t
	for round := range 2 {
		narrow := fmt.Sprintf("clients of a zone lose 2 of their 5 sessions, round %d", round+1)
		before := w.sessions()
		l.Checkpoint(narrow)
		w.peer(clientsPeer, isClient+" && topology.kubernetes.io/zone != 'zone-1'", anyReflector)
		watch(t.Context(), 4*time.Second)
		after := w.sessions()
		require.Equal(t, 8, w.requireSubset(after, before), "sides of 4 sessions")
		wide := fmt.Sprintf("they get them back, round %d", round+1)
		l.Checkpoint(wide)
		w.peer(clientsPeer, isClient, anyReflector)
		require.NoError(t, l.WaitReflected(t.Context(), names...))
		watch(t.Context(), 2*time.Second)
		require.Equal(t, 8, w.requireSubset(after, w.sessions()), "sides of 4 sessions")
		for _, phase := range []string{narrow, wide} {
			require.NoError(t, l.Report().Phase(phase).ZeroLoss())
		}
	}
	t.Log("\n" + l.Report().String())
}

// writer writes topologies by hand: slots, cluster IDs and BGPPeers.
type writer struct {
	t     *testing.T
	l     *lab.Lab
	specs []lab.NodeSpec
	// now is what the cluster is configured as.
	now configuration
}

// stir makes every confd work out all peers anew, in an order that it does not define.
func (w *writer) stir(times int) {
	w.t.Helper()
	for i := range times {
		w.patch("worker-5", fmt.Sprintf(`{"metadata":{"labels":{"stirred":"%d"}}}`, i))
		watch(w.t.Context(), 50*time.Millisecond)
	}
}

// configured is when each BIRD has read its configuration last, give or take a second, as in same.
func (w *writer) configured() map[string]time.Time {
	w.t.Helper()
	out := map[string]time.Time{}
	for _, name := range w.l.Nodes() {
		status, err := w.l.Birdc(name, "show status")
		require.NoError(w.t, err)
		_, after, found := strings.Cut(status, "Last reconfiguration on ")
		require.True(w.t, found, status)
		line, _, _ := strings.Cut(after, "\n")
		out[name], err = time.Parse(time.DateTime, line)
		require.NoError(w.t, err)
	}
	return out
}

// requireSubset demands that all of the fewer sessions are among the more, and have not restarted, and counts the others.
func (w *writer) requireSubset(fewer, more map[string]lab.Session) int {
	w.t.Helper()
	for key, session := range fewer {
		require.True(w.t, session.Same(more[key]), "%s was %+v and is %+v", key, session, more[key])
	}
	return len(more) - len(fewer)
}

// anyReflector selects the nodes that have a slot.
const anyReflector = "has(" + roleLabel + ")"

// configure turns the cluster into a configuration, whatever it was.
func (w *writer) configure(c configuration) {
	w.t.Helper()
	for _, name := range w.names() {
		if w.now.racks[name] != c.racks[name] {
			w.patch(name, fmt.Sprintf(`{"metadata":{"labels":{%q:%s}}}`, plan.RackLabel, orNull(c.racks[name])))
		}
		if s := c.slots[name]; w.now.slots[name] != s {
			w.slot(name, s.name, s.clusterID)
		}
	}
	for _, old := range w.now.peers {
		if !slices.ContainsFunc(c.peers, func(p plan.Peer) bool { return p.Name == old.Name }) {
			w.remove(old.Name)
		}
	}
	for _, p := range w.resolved(c.peers) {
		w.write(p)
	}
	setMesh(w.t, w.l, c.mesh, nil)
	w.now = c
}

// revive starts the BIRDs that were killed.
func (w *writer) revive(names []string) {
	w.t.Helper()
	for _, name := range names {
		require.NoError(w.t, w.l.StartBIRD(w.t.Context(), name))
	}
}

func (w *writer) names() []string {
	var names []string
	for _, spec := range w.specs {
		names = append(names, spec.Name)
	}
	return names
}

func (w *writer) addresses(node string) []netip.Addr { return []netip.Addr{w.l.Address(node)} }

// resolved are peers with addresses where they name nodes.
func (w *writer) resolved(peers []plan.Peer) []plan.Peer {
	peers = slices.Clone(peers)
	for i, p := range peers {
		if p.PeerIP != "" {
			peers[i].PeerIP = w.l.Address(p.PeerIP).String()
		}
	}
	return peers
}

// dedicated are the names of the nodes of lab.Dedicated.
func (w *writer) dedicated() []string {
	var names []string
	for _, name := range w.l.Nodes() {
		if strings.HasPrefix(name, "reflector-") {
			names = append(names, name)
		}
	}
	return names
}

// slot gives a node a slot and a cluster ID, or takes them away where they are empty.
func (w *writer) slot(node, name, id string) {
	w.t.Helper()
	w.patch(node, fmt.Sprintf(`{"metadata":{"labels":{%q:%s},"annotations":{"projectcalico.org/RouteReflectorClusterID":%s}}}`, roleLabel, orNull(name), orNull(id)))
}

// orNull is a JSON string, or what takes a value away in a merge patch.
func orNull(s string) string {
	if s == "" {
		return "null"
	}
	return fmt.Sprintf("%q", s)
}

func (w *writer) patch(node, patch string) {
	w.t.Helper()
	_, err := w.l.Kube().CoreV1().Nodes().Patch(w.t.Context(), node, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	require.NoError(w.t, err)
}

// peer makes a BGPPeer, or changes it.
func (w *writer) peer(name, from, to string) {
	w.t.Helper()
	w.write(plan.Peer{Name: name, NodeSelector: from, PeerSelector: to})
}

func (w *writer) write(p plan.Peer) {
	w.t.Helper()
	peer, err := w.l.Calico().BGPPeers().Get(w.t.Context(), p.Name, options.GetOptions{})
	if err != nil {
		peer = apiv3.NewBGPPeer()
		peer.Name = p.Name
	}
	peer.Spec = apiv3.BGPPeerSpec{
		Node: p.Node, NodeSelector: p.NodeSelector, PeerIP: p.PeerIP, PeerSelector: p.PeerSelector, ASNumber: numorstring.ASNumber(p.ASN),
	}
	if p.MaxRestartTime != nil {
		peer.Spec.MaxRestartTime = &metav1.Duration{Duration: *p.MaxRestartTime}
	}
	if peer.ResourceVersion == "" {
		_, err = w.l.Calico().BGPPeers().Create(w.t.Context(), peer, options.SetOptions{})
	} else {
		_, err = w.l.Calico().BGPPeers().Update(w.t.Context(), peer, options.SetOptions{})
	}
	require.NoError(w.t, err)
}

func (w *writer) remove(name string) {
	w.t.Helper()
	_, err := w.l.Calico().BGPPeers().Delete(w.t.Context(), name, options.DeleteOptions{})
	require.NoError(w.t, err)
}

// sessions are those of all nodes, keyed by "on→with", from both sides.
func (w *writer) sessions() map[string]lab.Session {
	w.t.Helper()
	all := map[string]lab.Session{}
	for _, on := range w.l.Nodes() {
		sessions, err := w.l.Sessions(on)
		require.NoError(w.t, err)
		for _, session := range sessions {
			all[on+"→"+session.Peer.String()] = session
		}
	}
	return all
}
