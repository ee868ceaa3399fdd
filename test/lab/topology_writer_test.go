//go:build linux

package lab_test

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"

	apiv3 "github.com/projectcalico/api/pkg/apis/projectcalico/v3"
	"github.com/projectcalico/api/pkg/lib/numorstring"
	"github.com/projectcalico/calico/libcalico-go/lib/options"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rrpool/rrpool/controllers/plan"
	"github.com/rrpool/rrpool/test/lab"
)

// writer writes topologies by hand: slots, cluster IDs and BGPPeers.
type writer struct {
	t     *testing.T
	l     *lab.Lab
	specs []lab.NodeSpec
	// now is what the cluster is configured as.
	now configuration
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
	setMesh(w.t, w.l, c.mesh)
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
