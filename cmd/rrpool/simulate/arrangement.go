package simulate

import (
	"fmt"
	"slices"

	"github.com/projectcalico/calico/libcalico-go/lib/selector"

	"github.com/rrpool/rrpool/controllers/plan"
	"github.com/rrpool/rrpool/controllers/plan/simulate"
	"github.com/rrpool/rrpool/controllers/plan/topology"
)

// arrangement is a layout, and the network that comes of it.
type arrangement struct {
	topology.Layout
	nodes map[string]plan.Node
	seats map[string]topology.Seat // by node
	// members has the first client of each group, by the group's index.
	members []string
	// zoned: there are several zones, and reflectors that nothing tells apart are in one.
	zoned   bool
	network *simulate.Network
	classes []simulate.Class
}

// arrange builds what the layout says.
func arrange(layout topology.Layout, spec topology.Spec, clients, pool []plan.Node) (*arrangement, error) {
	all := layout.Written(slices.Concat(clients, pool), spec.RoleLabel)
	off := false
	bgp := plan.BGPConfig{Exists: true, Mesh: plan.Mesh{Enabled: &off}, ASN: 64512}
	a := &arrangement{Layout: layout, nodes: map[string]plan.Node{}, seats: map[string]topology.Seat{}}
	for _, n := range all {
		a.nodes[n.Name] = n
	}
	for _, s := range layout.Seats {
		a.seats[s.Node] = s
	}
	a.network = simulate.NewConfiguration(spec.RoleLabel, all, bgp, layout.Peers).Network(func(string) bool { return true })
	a.classes = a.network.Classes()
	return a, a.assign(all[:len(clients)])
}

// assign finds a client of each group.
func (a *arrangement) assign(clients []plan.Node) error {
	a.members = make([]string, len(a.Groups))
	selectors := make([]*selector.Selector, len(a.Groups))
	for i, g := range a.Groups {
		var err error
		if selectors[i], err = selector.Parse(g.Selector); err != nil {
			return fmt.Errorf("reading the selector %q of group %s: %w", g.Selector, g.Name, err)
		}
	}
	missing := len(a.Groups)
	for _, n := range clients {
		for i := range selectors {
			if missing == 0 {
				return nil
			}
			if a.members[i] == "" && selectors[i].Evaluate(n.Labels) {
				a.members[i] = n.Name
				missing--
				break
			}
		}
	}
	return nil
}

func (a *arrangement) reflects(name string) bool { return a.nodes[name].ClusterID != "" }

func (a *arrangement) isClient(name string) bool { return !a.nodes[name].Pooled }
