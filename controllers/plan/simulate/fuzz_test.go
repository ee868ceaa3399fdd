package simulate_test

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/controllers/plan"
	"github.com/rrpool/rrpool/controllers/plan/simulate"
	"github.com/rrpool/rrpool/controllers/plan/topology"
)

// The labels of a cluster under attack, besides that of the role.
const (
	zoneKey = "topology.kubernetes.io/zone"
	rackKey = "example.com/rack"
)

// attacked is a cluster that is settled in a topology, with one hostile node.
type attacked struct {
	spec               topology.Spec
	clients, dedicated []plan.Node
	zones              []string
	perZone            int
}

// besieged makes such a cluster: three zones, four clients in each, and reflectors in their slots.
func besieged(kind v1alpha1.TopologyType, byRack bool) attacked {
	c := attacked{
		spec: topology.Spec{
			Kind: kind, ClusterID: "244.0.0.1", Redundancy: 2, MaxPaths: 1 << 20, MaxClients: 2000, RoleLabel: role, ZoneLabel: zoneKey,
		},
		zones: []string{"z1", "z2", "z3"}, perZone: 3,
	}
	if byRack {
		c.spec.RackLabel = rackKey
	}
	for i := range 12 {
		z := c.zones[i%3]
		c.clients = append(c.clients, plan.Node{
			Name: fmt.Sprintf("client-%02d", i), Zone: z, Ready: true, Created: time.Unix(int64(100+i), 0),
			Labels: map[string]string{zoneKey: z, rackKey: "rack-" + z}, Addresses: []netip.Addr{netip.AddrFrom4([4]byte{10, 1, 0, byte(i)})},
		})
	}
	for i := range 9 {
		z := c.zones[i%3]
		c.dedicated = append(c.dedicated, plan.Node{
			Name: fmt.Sprintf("reflector-%d", i), Zone: z, Ready: true, Pooled: true, Created: time.Unix(int64(50+i), 0),
			Labels: map[string]string{zoneKey: z}, Addresses: []netip.Addr{netip.AddrFrom4([4]byte{10, 2, 0, byte(i)})},
		})
	}
	layout := c.layout(c.clients)
	all := layout.Written(slices.Concat(c.clients, c.dedicated), role)
	c.clients, c.dedicated = all[:len(c.clients)], all[len(c.clients):]
	c.spec = c.spec.Standing(all, layout.Peers)
	return c
}

func (c attacked) layout(clients []plan.Node) topology.Layout {
	return topology.Arrange(c.spec, topology.Session{}, clients, c.dedicated, c.zones, c.perZone)
}

// sides are what all nodes but the evil one configure about each other, once the layout for
// clients is written; all includes those that are no clients.
func (c attacked) sides(t *testing.T, clients, all []plan.Node) map[[2]string]simulate.Side {
	t.Helper()
	layout := c.layout(clients)
	off := false
	config := simulate.NewConfiguration(role, layout.Written(all, role), plan.BGPConfig{Exists: true, Mesh: plan.Mesh{Enabled: &off}}, layout.Peers)
	out := map[[2]string]simulate.Side{}
	for _, a := range all {
		for _, b := range all {
			if a.Name == evilName || b.Name == evilName {
				continue
			}
			if side, ok := config.Side(a.Name, b.Name); ok {
				out[[2]string{a.Name, b.Name}] = side
			}
		}
	}
	return out
}

const evilName = "evil"

// A node may write anything into its own labels and annotations: the role, a slot that another has, another's
// cluster ID, a rack or a zone of its own, a mark as old as can be. The sessions of the others with each other stay
// what they are with an innocent node in its place: whether rrpool counts it among the clients, or leaves it out,
// as it does with what Calico takes for a reflector and rrpool did not make.
func FuzzHostileNode(f *testing.F) {
	f.Add(uint8(0), "", "", "", "", "", false)
	f.Add(uint8(1), "quorum-z1-1", "244.0.0.1", "", "z1", "rack-z1", true)
	f.Add(uint8(2), "multi-z2-1", "244.0.1.1", "1", "z2", "rack-z2", true)
	f.Add(uint8(3), "rack-rack-z1-1", "244.0.0.3", "999", "evil", "evil", true)
	f.Add(uint8(7), "spine-1", "244.0.0.2", "2", "z9", "0", true)
	f.Add(uint8(5), "true", "0.0.0.0", "a\"b", "z\"1", "x\" || all()", true)
	f.Fuzz(func(t *testing.T, shape uint8, slot, id, ownRack, ownZone, label string, hasRole bool) {
		kinds := []v1alpha1.TopologyType{
			v1alpha1.TopologySingle, v1alpha1.TopologyQuorum, v1alpha1.TopologyMultiCluster, v1alpha1.TopologyHierarchy,
		}
		c := besieged(kinds[shape%4], shape&4 == 0)
		innocent := plan.Node{
			Name: evilName, Zone: "z1", Ready: true, Created: time.Unix(500, 0),
			Labels: map[string]string{zoneKey: "z1", rackKey: "rack-z1"}, Addresses: []netip.Addr{netip.MustParseAddr("10.3.0.1")},
		}
		evil := innocent
		evil.Zone, evil.Rack, evil.ClusterID = ownZone, ownRack, id
		evil.Labels = map[string]string{zoneKey: ownZone, rackKey: label, plan.RackLabel: ownRack}
		if hasRole {
			evil.RoleLabel, evil.Slot, evil.Marked, evil.Labels[role] = true, slot, true, slot
		}
		clients := append(slices.Clone(c.clients), innocent)
		want := c.sides(t, clients, slices.Concat(clients, c.dedicated))
		require.NotEmpty(t, want)

		// The node is a client for rrpool, unless it has what only reflectors have.
		hostile := slices.Clone(c.clients)
		if !hasRole && id == "" {
			hostile = append(hostile, evil)
		}
		all := slices.Concat(c.clients, c.dedicated, []plan.Node{evil})
		if c.spec.Kind == v1alpha1.TopologyHierarchy && len(hostile) > len(c.clients) && opens(c, evil) {
			requireNoLoss(t, c, hostile, all, want)
			return
		}
		require.Equal(t, want, c.sides(t, hostile, all))
	})
}

// opens: a Hierarchy gets another rack for the node, with slots of its own. That adds
// reflectors; no client may lose one that it has.
func opens(c attacked, evil plan.Node) bool {
	return len(c.layout(append(slices.Clone(c.clients), evil)).Slots) != len(c.layout(c.clients).Slots)
}

// requireNoLoss: each client still has a session with a reflector of its own rack.
func requireNoLoss(t *testing.T, c attacked, clients, all []plan.Node, want map[[2]string]simulate.Side) {
	t.Helper()
	got := c.sides(t, clients, all)
	for _, n := range c.clients {
		kept := 0
		for pair := range want {
			if _, still := got[pair]; pair[0] == n.Name && still {
				kept++
			}
		}
		require.Positive(t, kept, "%s has lost every session that it had", n.Name)
	}
}
