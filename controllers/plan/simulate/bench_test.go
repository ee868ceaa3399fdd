package simulate_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rrpool/rrpool/controllers/plan"
	"github.com/rrpool/rrpool/controllers/plan/simulate"
)

// populated is what a node of a cluster in IBM Cloud looks like.
func populated(n plan.Node) plan.Node {
	n.Labels = map[string]string{"kubernetes.io/hostname": n.Name, "kubernetes.io/os": "linux", "topology.kubernetes.io/zone": "zone-1"}
	for i := range 20 {
		n.Labels[fmt.Sprintf("ibm-cloud.kubernetes.io/label-%d", i)] = n.Name
	}
	return n
}

func singleOf(nodes int) *sketch {
	s := &sketch{}
	for i := range 3 {
		s.add(populated(plan.Node{Name: fmt.Sprintf("r%d", i+1), RoleLabel: true, Slot: "true", ClusterID: "244.0.0.1"}))
	}
	for i := range nodes - 3 {
		s.add(populated(plan.Node{Name: fmt.Sprintf("c%06d", i)}))
	}
	s.peer("clients", "!has(R)", "has(R)")
	s.peer("reflectors", "has(R)", "has(R)")
	return s
}

// hierarchyOf has racks of about 500 nodes, and three spines.
func hierarchyOf(nodes int) *sketch {
	racks := (nodes + 499) / 500
	s := hierarchy(racks, 3)
	for i := range nodes - len(s.nodes) {
		s.add(populated(plan.Node{Name: fmt.Sprintf("c%06d", i), Rack: fmt.Sprintf("rack-%d", i%racks+1)}))
	}
	return s
}

// greatest is the most paths that a node has to one prefix of a client.
func greatest(n *simulate.Network) simulate.Count {
	var out simulate.Count
	for _, a := range n.Classes() {
		if a.Reflects {
			continue
		}
		for _, b := range n.Classes() {
			c := n.Paths(a.Nodes[0], b.Nodes[len(b.Nodes)-1])
			if out.More = out.More || c.More; c.Paths > out.Paths {
				out.Paths = c.Paths
			}
		}
	}
	return out
}

// From nodes and BGPPeers to sessions, reachability and the most paths to a prefix.
func BenchmarkNetwork(b *testing.B) {
	for name, tc := range map[string]struct {
		cluster func(nodes int) *sketch
		paths   uint64
	}{
		"Single":    {singleOf, 3},
		"Hierarchy": {hierarchyOf, 27},
	} {
		for _, nodes := range []int{500, 5000, 50000} {
			b.Run(fmt.Sprintf("%s/%d", name, nodes), func(b *testing.B) {
				s := tc.cluster(nodes)
				for b.Loop() {
					n := s.configuration().Network(up)
					require.Empty(b, n.Unreached(up))
					require.LessOrEqual(b, greatest(n).Paths, tc.paths)
				}
			})
		}
	}
}

// Cluster IDs of their own for all reflectors: what explodes ends soon.
func BenchmarkMultiCluster(b *testing.B) {
	for _, reflectors := range []int{5, 11, 13, 20, 40} {
		s := subsets(reflectors, ownIDs, ring(reflectors, 3)...)
		b.Run(fmt.Sprint(reflectors), func(b *testing.B) {
			for b.Loop() {
				n := s.configuration().Network(up)
				require.Empty(b, n.Unreached(up))
				require.Greater(b, greatest(n).Paths, uint64(64))
			}
		})
	}
}

func BenchmarkDepth(b *testing.B) {
	for name, s := range map[string]*sketch{
		"Hierarchy/5000": hierarchyOf(5000), "Hierarchy/50000": hierarchyOf(50000),
		"MultiCluster/11": subsets(11, ownIDs, ring(11, 3)...), "Quorum/13": subsets(13, oneID, ring(13, 8)...),
	} {
		b.Run(name, func(b *testing.B) {
			n := s.configuration().Network(up)
			for b.Loop() {
				require.Equal(b, 3, n.Depth(3, func(node string) bool { return node[0] == 'c' || node[0] == 'd' }))
			}
		})
	}
}
