package simulate_test

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rrpool/rrpool/controllers/plan"
	"github.com/rrpool/rrpool/controllers/plan/simulate"
)

// sketch is a cluster to be configured.
type sketch struct {
	nodes []plan.Node
	peers []plan.Peer
}

func (s *sketch) add(n plan.Node) {
	i := len(s.nodes) + 1
	n.Ready = true
	n.Addresses = []netip.Addr{netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)})}
	s.nodes = append(s.nodes, n)
}

// client adds clients that are in a rack, "" for none.
func (s *sketch) client(rack string, names ...string) {
	for _, name := range names {
		s.add(plan.Node{Name: name, Rack: rack})
	}
}

// reflector adds a reflector in a slot of its name.
func (s *sketch) reflector(name, clusterID string) {
	s.add(plan.Node{Name: name, HasRoleLabel: true, Slot: name, ClusterID: clusterID})
}

// peer adds a BGPPeer between two selectors, in which R stands for the role label.
func (s *sketch) peer(name, from, to string) {
	r := func(selector string) string { return strings.ReplaceAll(selector, "R", role) }
	s.peers = append(s.peers, plan.Peer{Name: name, NodeSelector: r(from), PeerSelector: r(to)})
}

func (s *sketch) configuration() *simulate.Configuration {
	off := false
	return simulate.NewConfiguration(role, s.nodes, plan.BGPConfig{Mesh: plan.Mesh{Enabled: &off}}, s.peers)
}

func up(string) bool { return true }

// subsets has reflectors r1.. and groups of clients of which each peers with some of
// them, by their numbers: two clients where there is one group, else one.
func subsets(reflectors int, clusterID func(i int) string, groups ...[]int) *sketch {
	s := &sketch{}
	for i := range reflectors {
		s.reflector(fmt.Sprintf("r%d", i+1), clusterID(i+1))
	}
	s.peer("reflectors", "has(R)", "has(R)")
	for i, slots := range groups {
		group := fmt.Sprintf("g%d", i+1)
		s.client(group, fmt.Sprintf("c%d", i+1))
		if len(groups) == 1 {
			s.client(group, "d")
		}
		var in []string
		for _, slot := range slots {
			in = append(in, fmt.Sprintf("'r%d'", slot))
		}
		s.peer("clients."+group, "!has(R) && rrpool.io/rack == '"+group+"'", "R in {"+strings.Join(in, ",")+"}")
	}
	return s
}

func oneID(int) string    { return "244.0.0.1" }
func ownIDs(i int) string { return fmt.Sprintf("244.0.0.%d", i) }
func ring(n, q int) [][]int { // each q of n in a row
	var out [][]int
	for i := range n {
		var slots []int
		for j := range q {
			slots = append(slots, (i+j)%n+1)
		}
		out = append(out, slots)
	}
	return out
}

// hierarchy has racks of three reflectors and two clients, and spines.
func hierarchy(racks, spines int) *sketch {
	s := &sketch{}
	for i := range spines {
		s.reflector(fmt.Sprintf("spine-%d", i+1), "244.0.1.0")
	}
	s.peer("spines", "R starts with 'spine-'", "R starts with 'rack-'")
	for i := range racks {
		rack := fmt.Sprintf("rack-%d", i+1)
		for j := range 3 {
			s.reflector(fmt.Sprintf("%s-%d", rack, j+1), ownIDs(i+1))
		}
		s.client(rack, "c"+rack, "d"+rack)
		s.peer("clients."+rack, "!has(R) && rrpool.io/rack == '"+rack+"'", fmt.Sprintf("R in {'%[1]s-1','%[1]s-2','%[1]s-3'}", rack))
	}
	return s
}

// span is the least and the most.
func span(of []uint64) [2]uint64 { return [2]uint64{slices.Min(of), slices.Max(of)} }

// The paths per prefix that real BIRD held (docs/architecture.md), to prefixes of clients.
func TestPathsAsMeasured(t *testing.T) {
	for name, tc := range map[string]struct {
		sketch                *sketch
		onClients, reflectors [2]uint64
		perClient             int
	}{
		"Single":          {subsets(3, oneID, []int{1, 2, 3}), [2]uint64{3, 3}, [2]uint64{3, 3}, 3},
		"Quorum, 3 of 5":  {subsets(5, oneID, ring(5, 3)...), [2]uint64{1, 2}, [2]uint64{3, 3}, 3},
		"MultiCluster, 3": {subsets(3, ownIDs, []int{1, 2, 3}), [2]uint64{15, 15}, [2]uint64{5, 5}, 3},
		"MultiCluster, 5": {subsets(5, ownIDs, ring(5, 3)...), [2]uint64{114, 129}, [2]uint64{33, 48}, 3},
		"Hierarchy":       {hierarchy(2, 2), [2]uint64{3, 18}, [2]uint64{1, 6}, 3},
	} {
		t.Run(name, func(t *testing.T) {
			n := tc.sketch.configuration().Network(up)
			var onClients, onReflectors []uint64
			for _, from := range tc.sketch.nodes {
				for _, to := range tc.sketch.nodes {
					paths := n.Paths(from.Name, to.Name)
					require.False(t, paths.More)
					switch {
					case from.Name == to.Name || from.HasRoleLabel:
					case to.HasRoleLabel:
						onReflectors = append(onReflectors, paths.Paths)
					default:
						onClients = append(onClients, paths.Paths)
						require.Equal(t, tc.perClient, n.Sessions(to.Name))
					}
				}
			}
			require.Equal(t, [][2]uint64{tc.onClients, tc.reflectors}, [][2]uint64{span(onClients), span(onReflectors)})
			require.Empty(t, n.Unreached(up))
		})
	}
}

// The proposal's 11 reflectors for 2,000 nodes, each with its own cluster ID, cannot work:
// the number is exact. What is beyond counting is so soon.
func TestMultiClusterExplodes(t *testing.T) {
	for reflectors, want := range map[int]uint64{6: 585, 11: 8_877_690} {
		n := subsets(reflectors, ownIDs, ring(reflectors, 3)...).configuration().Network(up)
		require.Equal(t, simulate.Count{Paths: want}, n.Paths("c1", "c4"), "clients without a common reflector")
		require.Empty(t, n.Unreached(up))
	}
	n := subsets(30, ownIDs, ring(30, 3)...).configuration().Network(up)
	paths := n.Paths("c1", "c4")
	require.True(t, paths.More)
	require.Greater(t, paths.Paths, uint64(500))
	require.Empty(t, n.Unreached(up))
}
