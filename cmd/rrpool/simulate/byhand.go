package simulate

import (
	"fmt"
	"strings"

	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/controllers/plan"
	"github.com/rrpool/rrpool/controllers/plan/topology"
)

// mostGroups is how many groups a quorum by hand may have.
const mostGroups = 300

// byHand arranges a quorum as one would by hand: every combination of so many reflectors
// has a group of clients of its own. rrpool does not build it.
func (q question) byHand(spec topology.Spec, clients, pool []plan.Node) (topology.Layout, error) {
	all := choose(len(pool), q.perClient)
	if all > mostGroups {
		return topology.Layout{}, fmt.Errorf("--per-client: %d of %d reflectors make %d groups, and at most %d are simulated: give fewer reflectors, or another number of them",
			q.perClient, len(pool), all, mostGroups)
	}
	if all > uint64(len(clients)) {
		return topology.Layout{}, fmt.Errorf("--per-client: %d of %d reflectors make %d groups, and there are %d clients: give more nodes", q.perClient, len(pool), all, len(clients))
	}
	// Two clients share at least as many reflectors as their choices must overlap in.
	shared := max(2*q.perClient-len(pool), 0)
	out := topology.Layout{Kind: v1alpha1.TopologyQuorum, Racks: map[string]string{}, Depth: shared}
	for i, name := range numbered("quorum-", len(pool)) {
		out.Seats = append(out.Seats, topology.Seat{Name: name, ClusterID: spec.ClusterID, Node: pool[i].Name})
	}
	names := numbered("g", int(all))
	combinations(len(pool), q.perClient, func(chosen []int) bool {
		g := topology.Group{Name: names[len(out.Groups)]}
		g.Selector = fmt.Sprintf("%s == '%s'", plan.RackLabel, g.Name)
		for _, i := range chosen {
			g.Seats = append(g.Seats, out.Seats[i].Name)
		}
		out.Groups = append(out.Groups, g)
		out.Peers = append(out.Peers, plan.Peer{
			Name: topology.PeerQuorum + "." + g.Name, Owned: true,
			NodeSelector: fmt.Sprintf("!has(%s) && %s", spec.RoleLabel, g.Selector),
			PeerSelector: fmt.Sprintf("%s in {'%s'}", spec.RoleLabel, strings.Join(g.Seats, "', '")),
		})
		return true
	})
	reflector := fmt.Sprintf("has(%s)", spec.RoleLabel)
	out.Peers = append(out.Peers, plan.Peer{Name: topology.PeerQuorumReflectors, Owned: true, NodeSelector: reflector, PeerSelector: reflector})
	for i, n := range clients {
		g := &out.Groups[i%len(out.Groups)]
		g.Clients++
		out.Racks[n.Name] = g.Name
	}
	return out, nil
}

// choose is how many sets of k there are of n, or the largest number where there are more.
func choose(n, k int) uint64 {
	if k < 0 || k > n {
		return 0
	}
	const largest = uint64(1) << 62
	out := uint64(1)
	for i := 1; i <= k; i++ {
		factor := uint64(n - k + i) //nolint:gosec // G115: k is at most n
		if out > largest/factor {
			return largest
		}
		out = out * factor / uint64(i)
	}
	return out
}

// combinations calls with each set of k of the numbers below n, in order, until told to
// stop. The set is the callee's only until it returns.
func combinations(n, k int, visit func([]int) bool) {
	chosen := make([]int, k)
	for i := range chosen {
		chosen[i] = i
	}
	for k <= n && visit(chosen) {
		i := k - 1
		for i >= 0 && chosen[i] == n-k+i {
			i--
		}
		if i < 0 {
			return
		}
		chosen[i]++
		for j := i + 1; j < k; j++ {
			chosen[j] = chosen[j-1] + 1
		}
	}
}
