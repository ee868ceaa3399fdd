package topology_test

import (
	"maps"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rrpool/rrpool/controllers/plan"
	"github.com/rrpool/rrpool/controllers/plan/simulate"
	"github.com/rrpool/rrpool/controllers/plan/topology"
)

// planned is the layout for other clients.
func (w *world) planned(clients []plan.Node) topology.Layout {
	return topology.Arrange(w.spec, topology.Session{}, clients, w.reflectors, w.zones, w.perZone)
}

// sides are what all nodes but the evil one configure about each other, once the layout for
// clients is written; all includes those that are no clients.
func (w *world) sides(clients, all []plan.Node) map[[2]string]simulate.Side {
	layout := w.planned(clients)
	off := false
	config := simulate.NewConfiguration(roleLabel, layout.Written(all, roleLabel), plan.BGPConfig{Exists: true, Mesh: plan.Mesh{Enabled: &off}}, layout.Peers)
	out := map[[2]string]simulate.Side{}
	for _, a := range all {
		for _, b := range all {
			if side, ok := config.Side(a.Name, b.Name); ok && a.Name != evilName && b.Name != evilName {
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
	f.Add(uint8(1), "quorum-zone-1-1", "244.0.0.1", "", "zone-1", "rack-zone-1", true)
	f.Add(uint8(2), "multi-zone-2-1", "244.0.1.1", "1", "zone-2", "rack-zone-2", true)
	f.Add(uint8(3), "rack-rack-zone-1-1", "244.0.0.3", "999", "evil", "evil", true)
	f.Add(uint8(7), "spine-1", "244.0.0.2", "2", "zone-9", "0", true)
	f.Add(uint8(1), "", "", "", "zone-2", "rack-zone-1", false)
	f.Add(uint8(5), "true", "0.0.0.0", "a\"b", "zone\"1", "x\" || all()", true)
	f.Fuzz(func(t *testing.T, shape uint8, slot, id, ownRack, ownZone, label string, hasRole bool) {
		// A cluster that is settled in a topology: three zones, four clients in each, and reflectors in their slots.
		w := newWorld(everyKind[shape%4], 3).join(4)
		w.spec.Redundancy, w.spec.MaxPaths, w.perZone = 2, 1<<20, 3
		if shape&4 == 0 {
			w.spec.RackLabel = rackLabel
		}
		for _, n := range w.clients {
			n.Labels[rackLabel] = "rack-" + n.Zone
		}
		w.pool()
		w.follow(w.arrange())
		w.spec = w.standing()
		innocent := w.node("client", w.zones[0])
		innocent.Name, innocent.Labels[rackLabel] = evilName, "rack-zone-1"
		evil := innocent
		evil.Zone, evil.Rack, evil.ClusterID = ownZone, ownRack, id
		evil.Labels = map[string]string{zoneLabel: ownZone, rackLabel: label, plan.RackLabel: ownRack}
		if hasRole {
			evil.RoleLabel, evil.Slot, evil.Marked, evil.Labels[roleLabel] = true, slot, true, slot
		}
		with := func(n plan.Node) []plan.Node { return append(slices.Clone(w.clients), n) }
		want := w.sides(with(innocent), append(with(innocent), w.reflectors...))
		require.NotEmpty(t, want)

		// The node is a client for rrpool, unless it has what only reflectors have.
		hostile := w.clients
		if !hasRole && id == "" {
			hostile = with(evil)
		}
		got := w.sides(hostile, append(with(evil), w.reflectors...))
		if w.spec.Kind != hierarchy || len(w.planned(hostile).Slots) == len(w.planned(w.clients).Slots) {
			require.Equal(t, want, got)
			return
		}
		// A Hierarchy gets another rack for the node, with slots of its own. That adds reflectors; no client may lose all that it has.
		maps.DeleteFunc(got, func(pair [2]string, _ simulate.Side) bool { _, had := want[pair]; return !had })
		for _, n := range w.clients {
			kept := slices.ContainsFunc(slices.Collect(maps.Keys(got)), func(pair [2]string) bool { return pair[0] == n.Name })
			require.True(t, kept, "%s has lost every session that it had", n.Name)
		}
	})
}
