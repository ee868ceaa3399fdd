package topology_test

import (
	"cmp"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/controllers/plan"
	"github.com/rrpool/rrpool/controllers/plan/topology"
)

// row is a line of the proposal's tables.
type row struct {
	nodes, reflectors, zones, limit int
	// clients and connections of a reflector that has clients, on average, and the most;
	// and the reflectors that a client has.
	clients, connections, most, each int
	// paths to a client's prefix, on any node.
	paths   uint64
	problem string
}

// The proposal's rows, and what they really take.
func TestTheProposal(t *testing.T) {
	for name, tc := range map[string]struct {
		kind v1alpha1.TopologyType
		row
	}{
		"Single, 500 nodes, 3 reflectors: as it says": {
			v1alpha1.TopologySingle, row{nodes: 500, reflectors: 3, zones: 3, clients: 497, connections: 499, most: 499, each: 3, paths: 3},
		},
		"MultiCluster, 2,000 nodes, 11 reflectors: the connections are right, and no node can hold the paths": {
			v1alpha1.TopologyMultiCluster, row{
				nodes: 2000, reflectors: 11, zones: 1, clients: 542, connections: 552, most: 840, each: 3, paths: 8877690,
				problem: "spec.topology.type: MultiCluster with 11 reflectors and spec.topology.redundancy 3 gives nodes up to over a million " +
					"paths to each prefix, and spec.topology.maxPathsPerPrefix is 64: set spec.topology.type to Single, which takes 11 " +
					"reflectors, or lower spec.topology.redundancy, or raise the limit",
			},
		},
		"Quorum, 2,000 nodes, 13 reflectors: a client takes 8 of them, not 3": {
			v1alpha1.TopologyQuorum, row{nodes: 2000, reflectors: 13, zones: 1, clients: 1222, connections: 1234, most: 1338, each: 8, paths: 8},
		},
		"Hierarchy, 5,000 nodes, 10 racks, 33 reflectors: as it says": {
			v1alpha1.TopologyHierarchy, row{
				nodes: 5000, reflectors: 33, zones: 3, limit: 500, clients: 496, connections: 499, most: 500, each: 3, paths: 27,
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(tc.kind, tc.zones).joinAll(tc.nodes - tc.reflectors)
			w.spec.MaxClients = cmp.Or(tc.limit, w.spec.MaxClients)
			_, problem := w.settle(tc.reflectors)
			require.Len(t, w.reflectors, tc.reflectors)
			if tc.problem == "" {
				require.Nil(t, problem)
			} else {
				require.Equal(t, tc.problem, problem.Message)
			}
			require.Equal(t, tc.row, w.row(tc.row))
		})
	}
}

// row measures.
func (w *world) row(r row) row {
	net := w.network()
	r.clients, r.connections, r.most, r.paths, r.each = 0, 0, 0, 0, 0
	classes := net.Classes()
	serving := 0
	for _, n := range w.reflectors {
		clients := 0
		for _, class := range classes {
			if !class.Reflects && net.Connected(n.Name, class.Nodes[0]) {
				clients += len(class.Nodes)
			}
		}
		if clients > 0 {
			serving++
			r.clients += clients
			r.connections += net.Sessions(n.Name)
			r.most = max(r.most, net.Sessions(n.Name))
		}
	}
	r.clients /= serving
	r.connections /= serving
	for _, from := range classes {
		for _, to := range classes {
			if !from.Reflects {
				r.paths = max(r.paths, net.Paths(from.Nodes[0], to.Nodes[len(to.Nodes)-1]).Paths)
				r.each = max(r.each, net.Sessions(from.Nodes[0]))
			}
		}
	}
	return r
}

// Groups that do not overlap cut the cluster in pieces, whatever the reflectors know.
func TestReflectorsThatClientsDoNotShareCutTheClusterInTwo(t *testing.T) {
	w := newWorld(v1alpha1.TopologyQuorum, 2).join(5)
	w.perZone = 3
	w.pool()
	l := w.arrange()
	w.follow(l)
	require.Empty(t, w.network().Unreached(isClient), "as planned")
	for i, p := range w.peers {
		if p.Name != topology.PeerQuorumReflectors {
			zone := w.zones[i%2]
			w.peers[i].PeerSelector = roleLabel + ` starts with "` + topology.SlotQuorum + zone + `"` // 3 of 6
		}
	}
	require.NotEmpty(t, w.network().Unreached(isClient))
}

func TestRacksWithoutSpinesDoNotReachEachOther(t *testing.T) {
	w := newWorld(v1alpha1.TopologyHierarchy, 2).join(5)
	w.settle(1)
	require.Empty(t, w.network().Unreached(isClient), "as planned")
	w.peers = slices.DeleteFunc(w.peers, func(p plan.Peer) bool { return p.Name == topology.PeerSpines })
	require.NotEmpty(t, w.network().Unreached(isClient))
}
