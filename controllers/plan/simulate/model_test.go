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

const role = "rrpool.io/route-reflector"

var begin = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func allNodes(plan.Node) bool { return true }

func cluster(nodes int) plan.Cluster {
	out := plan.Cluster{BGP: plan.BGPConfig{ASN: 64512}}
	for i := range nodes {
		out.Nodes = append(out.Nodes, plan.Node{
			Name: fmt.Sprintf("n%d", i+1), Ready: true,
			Addresses: []netip.Addr{netip.AddrFrom4([4]byte{10, 0, 0, byte(i + 1)})},
			Blocks:    []netip.Prefix{netip.PrefixFrom(netip.AddrFrom4([4]byte{192, 168, byte(i + 1), 0}), 26)},
		})
	}
	return out
}

func model(nodes int) *simulate.Model {
	return simulate.New(cluster(nodes), plan.Scope{RoleLabel: role}, begin)
}

func apply(t require.TestingT, m *simulate.Model, actions ...plan.Action) {
	for _, a := range actions {
		_, err := m.Apply(a)
		require.NoError(t, err)
	}
}

var (
	clients    = plan.PutPeer{Peer: plan.Peer{Name: "clients", NodeSelector: "!has(" + role + ")", PeerSelector: "has(" + role + ")"}}
	reflectors = plan.PutPeer{Peer: plan.Peer{Name: "reflectors", NodeSelector: "has(" + role + ")", PeerSelector: "has(" + role + ")"}}
)

func promote(names ...string) []plan.Action {
	var out []plan.Action
	for _, name := range names {
		out = append(out, plan.SetReflector{Node: name, ClusterID: "244.0.0.1"})
	}
	return out
}

// most is the most nodes without a route to one that there ever are in the next minute.
func most(m *simulate.Model) int {
	out := 0
	for range 60 {
		out = max(out, len(m.Unreached(allNodes)))
		m.Advance(time.Second)
	}
	return out
}

func TestWhatCutsNodesOffAndWhatDoesNot(t *testing.T) {
	for name, tc := range map[string]struct {
		do    func(require.TestingT, *simulate.Model)
		loses bool
	}{
		"a mesh at rest":      {func(require.TestingT, *simulate.Model) {}, false},
		"BGPPeers of no node": {func(t require.TestingT, m *simulate.Model) { apply(t, m, clients, reflectors) }, false},
		"everything at once": {func(t require.TestingT, m *simulate.Model) {
			apply(t, m, append(promote("n1", "n2", "n3"), clients, reflectors, plan.DisableMesh{})...)
		}, true},
		"the mesh off without reflectors": {func(t require.TestingT, m *simulate.Model) { apply(t, m, plan.DisableMesh{}) }, true},
		"reflectors of two cluster IDs that no session connects": {func(t require.TestingT, m *simulate.Model) {
			apply(t, m, clients, plan.SetReflector{Node: "n1", ClusterID: "244.0.0.1"}, plan.SetReflector{Node: "n2", ClusterID: "244.0.0.2"})
			m.Advance(time.Minute)
			apply(t, m, plan.DisableMesh{})
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			m := model(6)
			tc.do(t, m)
			require.Equal(t, tc.loses, most(m) > 0)
		})
	}
}

// Dedicated nodes, which run nothing: with the mesh on until their sessions are up
// no node loses a route, and without it the mesh's sessions are gone.
func TestTheOrderOfAMigration(t *testing.T) {
	m := model(6)
	idle := func(n plan.Node) bool { return n.Name > "n3" }
	apply(t, m, append(promote("n1", "n2", "n3"), clients, reflectors)...)
	for range 60 {
		require.Empty(t, m.Unreached(idle))
		m.Advance(time.Second)
	}
	require.True(t, m.Quiet())
	apply(t, m, plan.DisableMesh{})
	require.False(t, m.Quiet())
	for range 60 {
		require.Empty(t, m.Unreached(allNodes))
		m.Advance(time.Second)
	}
	all, perReflector, perClient := m.Sessions()
	require.Equal(t, []int{3*3 + 3, 5, 3}, []int{all, perReflector, perClient})
	require.False(t, m.Observe().BGP.MeshOn())
	apply(t, m, plan.RestoreMesh{}, plan.ForgetMesh{})
	require.True(t, m.Observe().BGP.MeshOn())
}

// Nodes that cannot be told apart are counted, not looked at one by one: the answer is
// the one that looking at each would give.
func TestGroupsStandForTheirNodes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := model(rapid.IntRange(2, 9).Draw(t, "nodes"))
		node := rapid.Custom(func(t *rapid.T) string {
			nodes := m.Nodes()
			return nodes[rapid.IntRange(0, len(nodes)-1).Draw(t, "node")].Name
		})
		for range rapid.IntRange(1, 12).Draw(t, "events") {
			apply(t, m, event(t, m, node)...)
			m.Advance(time.Duration(rapid.IntRange(0, 8).Draw(t, "seconds")) * time.Second)
			lost, sessions := oneByOne(m)
			require.Equal(t, lost, len(m.Unreached(allNodes)) > 0)
			all, _, _ := m.Sessions()
			require.Equal(t, sessions, all)
		}
	})
}

func event(t *rapid.T, m *simulate.Model, node *rapid.Generator[string]) []plan.Action {
	a, b := node.Draw(t, "a"), node.Draw(t, "b")
	address := m.Nodes()[0].Addresses[0]
	for _, n := range m.Nodes() {
		if n.Name == b {
			address = n.Addresses[0]
		}
	}
	pair := plan.PutPeer{Peer: plan.Peer{Name: a + "." + b, Node: a, PeerIP: address.String()}}
	return []plan.Action{rapid.SampledFrom([]plan.Action{
		plan.SetReflector{Node: a, ClusterID: rapid.SampledFrom([]string{"244.0.0.1", "244.0.0.2"}).Draw(t, "id")},
		plan.ClearReflector{Node: a},
		clients, reflectors, pair,
		plan.DeletePeer{Name: "clients"},
		plan.DeletePeer{Name: a + "." + b},
		plan.DisableMesh{},
		plan.RestoreMesh{},
	}).Draw(t, "event")}
}

// oneByOne asks every node for its own report and its routes.
func oneByOne(m *simulate.Model) (lost bool, sessions int) {
	var all []plan.StatusRequest
	for _, n := range m.Nodes() {
		all = append(all, plan.StatusRequest{Node: n.Name, Period: time.Second, Routes: true})
	}
	_, _ = m.Watch(all)
	// A report takes a moment, and must be about this one: let no time pass.
	m.Advance(-simulate.Answer)
	_, _ = m.Watch(nil)
	_, _ = m.Watch(all)
	m.Advance(simulate.Answer)
	for _, n := range m.Nodes() {
		st := m.Observe().Statuses[n.Name]
		known := map[netip.Prefix]bool{n.Blocks[0]: true}
		for _, r := range st.Routes {
			known[r.Prefix] = true
		}
		lost = lost || len(known) < len(m.Nodes())
		for _, s := range st.Sessions {
			if s.Established {
				sessions++
			}
		}
	}
	return lost, sessions / 2
}

// Reports come after a moment, blank until then, and name what is up since when.
func TestReports(t *testing.T) {
	m := model(4)
	asked, changed := m.Watch([]plan.StatusRequest{{Node: "n1", Period: 10 * time.Second}})
	require.Equal(t, []string{"n1"}, asked)
	require.True(t, changed)
	require.False(t, m.Observe().Statuses["n1"].Cleared.IsZero())
	m.Advance(simulate.Answer)
	st := m.Observe().Statuses["n1"]
	require.True(t, st.Cleared.IsZero())
	require.Len(t, st.Sessions, 3)
	for _, s := range st.Sessions {
		require.True(t, s.Established && s.Kind == plan.SessionMesh)
	}
	_, changed = m.Watch([]plan.StatusRequest{{Node: "n1", Period: 10 * time.Second}})
	require.False(t, changed)
	m.Advance(time.Minute)
	apply(t, m, plan.RefreshStatus{Node: "n1"})
	require.False(t, m.Observe().Statuses["n1"].Cleared.IsZero(), "cleared until it is filled in anew")

	m.Leave("n4")
	m.Advance(time.Minute)
	require.Len(t, m.Observe().Statuses["n1"].Sessions, 2)
	_, err := m.Apply(plan.EnsurePool{})
	require.ErrorContains(t, err, "the model does not know it")
}
