package simulate

import (
	"fmt"
	"math"
	"math/big"
	"slices"
	"strings"

	"github.com/rrpool/rrpool/cmd/rrpool/invent"
	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/controllers/plan"
	"github.com/rrpool/rrpool/controllers/plan/simulate"
	"github.com/rrpool/rrpool/controllers/plan/topology"
)

// arrangement is a layout, and the network that comes of it.
type arrangement struct {
	topology.Layout
	zones   []string
	nodes   map[string]plan.Node
	slots   map[string]topology.Slot // by node
	network *simulate.Network
	classes []simulate.Class
}

// arrange places the nodes as the planner does, or by hand.
func (r *request) arrange(s invent.Sized) (*arrangement, error) {
	reflectors := s.PerZone * len(r.cluster.Zones)
	if r.fail.Value > reflectors && !r.compare {
		return nil, fmt.Errorf("--fail: %d of %d reflectors: give at most %d", r.fail.Value, reflectors, reflectors)
	}
	clients, dedicated := r.cluster.Workloads(reflectors), r.cluster.Pool(s.PerZone)
	a := &arrangement{zones: r.cluster.Zones, nodes: map[string]plan.Node{}, slots: map[string]topology.Slot{}}
	var err error
	if r.perClient.Value == 0 {
		a.Layout = topology.Arrange(s.Spec, topology.Session{}, clients, dedicated, a.zones, s.PerZone)
	} else if a.Layout, err = byHand(s.Spec, r.perClient.Value, clients, dedicated); err != nil {
		return nil, err
	}
	all := a.Written(slices.Concat(clients, dedicated), s.RoleLabel)
	for _, n := range all {
		a.nodes[n.Name] = n
	}
	for _, slot := range a.Slots {
		if slot.Name == topology.SlotSingle {
			slot.Name = slot.Node // all have the same
		}
		if slot.Node != "" {
			a.slots[slot.Node] = slot
		}
	}
	off := false
	bgp := plan.BGPConfig{Exists: true, Mesh: plan.Mesh{Enabled: &off}, ASN: 64512}
	a.network = simulate.NewConfiguration(s.RoleLabel, all, bgp, a.Peers).Network(func(string) bool { return true })
	a.classes = a.network.Classes()
	return a, nil
}

func (a *arrangement) isClient(name string) bool { return !a.nodes[name].Pooled }

// mostGroups is how many groups a quorum by hand may have.
const mostGroups = 300

// byHand arranges a quorum as a table on paper does: every combination of so many
// reflectors has a group of clients of its own. rrpool does not build it.
func byHand(spec topology.Spec, perClient int, clients, reflectors []plan.Node) (topology.Layout, error) {
	all, most := choose(len(reflectors), perClient), min(mostGroups, len(clients))
	if all > uint64(most) {
		return topology.Layout{}, fmt.Errorf("--per-client: %d of %d reflectors make %d groups, and at most %d are simulated, each with a client: give fewer reflectors, or more nodes",
			perClient, len(reflectors), all, most)
	}
	// Two clients share at least as many reflectors as their choices must overlap in.
	out := topology.Layout{Kind: v1alpha1.TopologyQuorum, Racks: map[string]string{}, Depth: max(2*perClient-len(reflectors), 0)}
	single := make([]simulate.Class, len(reflectors))
	for i, name := range invent.Names("quorum-", len(reflectors)) {
		out.Slots = append(out.Slots, topology.Slot{Name: name, ClusterID: spec.ClusterID, Node: reflectors[i].Name})
		single[i].Nodes = []string{name}
	}
	names := invent.Names("g", int(all)) //nolint:gosec // G115: at most mostGroups
	draw(single, perClient, func(taken []int) bool {
		var chosen []string
		for i, n := range taken {
			chosen = append(chosen, single[i].Nodes[:n]...)
		}
		name := names[len(out.Groups)]
		out.Groups = append(out.Groups, topology.Group{Name: name, Slots: chosen})
		out.Peers = append(out.Peers, plan.Peer{
			Name: topology.PeerQuorum + "." + name, Owned: true,
			NodeSelector: fmt.Sprintf("!has(%s) && %s == '%s'", spec.RoleLabel, plan.RackLabel, name),
			PeerSelector: fmt.Sprintf("%s in {'%s'}", spec.RoleLabel, strings.Join(chosen, "', '")),
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
	if all := new(big.Int).Binomial(int64(n), int64(k)); all.IsUint64() {
		return all.Uint64()
	}
	return math.MaxUint64
}

// draw calls visit with every way to take count nodes of the classes, until it returns
// false. taken is only valid during the call.
func draw(classes []simulate.Class, count int, visit func(taken []int) bool) {
	taken := make([]int, len(classes))
	var from func(i, left int) bool
	from = func(i, left int) bool {
		if i == len(classes) {
			return left > 0 || visit(taken)
		}
		for n := min(left, len(classes[i].Nodes)); n >= 0; n-- {
			if taken[i] = n; !from(i+1, left-n) {
				return false
			}
		}
		return true
	}
	from(0, count)
}
