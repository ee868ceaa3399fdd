package simulate_test

import (
	"fmt"
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/rrpool/rrpool/controllers/plan"
	"github.com/rrpool/rrpool/controllers/plan/simulate"
)

// senders are those that a node reports to have a route from, to the block of node i.
func senders(m *simulate.Model, node string, i int) []string {
	var out []string
	for _, r := range m.Observe().Statuses[node].Routes {
		if r.Prefix == netip.MustParsePrefix(fmt.Sprintf("192.168.%d.0/26", i)) {
			out = append(out, r.From.String())
		}
	}
	return out
}

func TestSlotsAndRacksAreLabels(t *testing.T) {
	m := model(2)
	apply(t, m, plan.SetReflector{Node: "n1", ClusterID: "244.0.0.1"}, plan.SetRack{Node: "n2", Rack: "a"})
	n := m.Nodes()
	require.Equal(t, []any{true, "true", map[string]string{role: "true"}}, []any{n[0].RoleLabel, n[0].Slot, n[0].Labels})
	require.Equal(t, []any{"a", map[string]string{plan.RackLabel: "a"}}, []any{n[1].Rack, n[1].Labels})
	apply(t, m, plan.SetReflector{Node: "n1", ClusterID: "244.0.0.1", Slot: "spine-1"})
	require.Equal(t, map[string]string{role: "spine-1"}, m.Nodes()[0].Labels)
	apply(t, m, plan.ClearReflector{Node: "n1"}, plan.SetRack{Node: "n2"})
	for _, n := range m.Nodes() {
		require.Equal(t, []any{false, "", "", map[string]string{}}, []any{n.RoleLabel, n.Slot, n.Rack, n.Labels})
	}
}

// On the way the model, which counts nodes that cannot be told apart, is what looking at each one would give; at rest
// it is what the rules make of the datastore.
func TestTheModelIsWhatTheRulesSay(t *testing.T) {
	slots := rapid.SampledFrom([]string{"", "rack-a-1", "rack-b-1", "spine-1"})
	racks := rapid.SampledFrom([]string{"", "a", "b"})
	ids := rapid.SampledFrom([]string{"244.0.0.0", "244.0.0.1", "244.0.0.2"})
	rapid.Check(t, func(t *rapid.T) {
		m := model(rapid.IntRange(2, 8).Draw(t, "nodes"))
		nodes := m.Nodes()
		apply(t, m, plan.DisableMesh{})
		s := &sketch{}
		s.peer("spines", "R starts with 'spine-'", "R starts with 'rack-'")
		s.peer("clients.a", "!has(R) && "+plan.RackLabel+" == 'a'", "R in {'rack-a-1','rack-a-2'}")
		s.peer("clients.b", "!has(R) && "+plan.RackLabel+" == 'b'", "R in {'rack-b-1','rack-b-2'}")
		for _, p := range s.peers {
			apply(t, m, plan.PutPeer{Peer: p})
		}
		apply(t, m, reflectors)
		for range rapid.IntRange(4, 14).Draw(t, "events") {
			node := rapid.SampledFrom(nodes).Draw(t, "node").Name
			apply(t, m, rapid.SampledFrom([]plan.Action{
				plan.SetReflector{Node: node, Slot: slots.Draw(t, "slot"), ClusterID: ids.Draw(t, "id")},
				plan.ClearReflector{Node: node},
				plan.SetRack{Node: node, Rack: racks.Draw(t, "rack")},
				plan.SetRack{Node: node, Rack: racks.Draw(t, "rack")},
				plan.DeletePeer{Name: "reflectors"},
				plan.DisableMesh{},
				plan.RestoreMesh{},
			}).Draw(t, "event"))
			m.Advance(time.Duration(rapid.IntRange(0, 8).Draw(t, "seconds")) * time.Second)
			lost, sessions := oneByOne(m)
			require.Equal(t, lost, len(m.Unreached(allNodes)) > 0)
			established, _, _ := m.Sessions()
			require.Equal(t, sessions, established)
		}
		_, _ = m.Watch(everyReport(m))
		m.Advance(time.Minute)
		now := m.Observe()
		o := &oracle{sketch: sketch{now.Nodes, now.Peers}, bgp: now.BGP, up: map[string]bool{}}
		for _, n := range nodes {
			o.up[n.Name] = true
		}
		table, ends, lost := o.table(), o.ends(), false
		for i, origin := range nodes {
			require.Len(t, now.Statuses[origin.Name].Sessions, len(ends[origin.Name]))
			for _, n := range nodes {
				var want []string
				for from := range table[origin.Name][n.Name] {
					want = append(want, o.node(from).Addresses[0].String())
				}
				require.ElementsMatch(t, want, senders(m, n.Name, i+1))
				lost = lost || len(want) == 0 && n.Name != origin.Name
			}
		}
		require.Equal(t, lost, len(m.Unreached(allNodes)) > 0)
	})
}
