package topology_test

import (
	"slices"
	"testing"

	"github.com/projectcalico/calico/libcalico-go/lib/selector"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/controllers/plan"
	"github.com/rrpool/rrpool/controllers/plan/topology"
)

// With Calico's own parser: each client is in exactly one group, and no two BGPPeers match
// the same node and peer (whose winner Calico does not define).
func TestSelectorsExcludeEachOtherAndCoverAllClients(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w, l := settled(t)
		require.Len(t, slices.DeleteFunc(slices.Clone(l.Groups), func(g topology.Group) bool { return !g.Open }), 1)
		requireSound(t, l, w.spec, append(w.clients, w.reflectors...))
	})
}

func parsed(t require.TestingT, text string) *selector.Selector {
	s, err := selector.Parse(text)
	require.NoError(t, err, text)
	return s
}

func requireOnePeerEach(t require.TestingT, peers []plan.Peer, nodes []plan.Node) {
	winner := map[[2]string]string{}
	for _, p := range peers {
		from, to := parsed(t, p.NodeSelector), parsed(t, p.PeerSelector)
		for _, a := range nodes {
			for _, b := range nodes {
				if from.Evaluate(a.Labels) && to.Evaluate(b.Labels) {
					require.Empty(t, winner[[2]string{a.Name, b.Name}], "%s: from %s to %s", p.Name, a.Name, b.Name)
					winner[[2]string{a.Name, b.Name}] = p.Name
				}
			}
		}
	}
}

func TestAValueThatNoTopologyWritesIsOfNone(t *testing.T) {
	require.Empty(t, topology.KindOf("yes"))
}

// While a cluster moves from one topology to another both stand side by side. Single and
// Quorum, which have the same cluster ID, may match the same pair and render the same.
func TestPeersOfDifferentTopologiesNeverMatchTheSamePair(t *testing.T) {
	for _, flat := range []v1alpha1.TopologyType{single, quorum} {
		var peers []plan.Peer
		var nodes []plan.Node
		for _, kind := range []v1alpha1.TopologyType{flat, hierarchy, multi} {
			w := newWorld(kind, 2).join(2)
			w.made = 100 * len(nodes)
			w.settle(6)
			if kind == single {
				w.peers = topology.Scoped(roleLabel, topology.Session{})
				nodes = append(nodes, w.clients...)
			}
			peers, nodes = append(peers, w.peers...), append(nodes, w.reflectors...)
		}
		requireOnePeerEach(t, peers, nodes)
		seen := map[string]bool{}
		for _, p := range peers {
			require.False(t, seen[p.Name], p.Name)
			seen[p.Name] = true
		}
	}
}

func TestScopedPeersRenderSinglesSessions(t *testing.T) {
	w := newWorld(single, 3).join(3)
	w.settle(3)
	before := w.sessions()
	w.peers = topology.Scoped(roleLabel, topology.Session{})
	require.Equal(t, before, w.sessions())
	require.Empty(t, w.network().Unreached(all))
}
