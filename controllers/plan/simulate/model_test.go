package simulate_test

import (
	"fmt"
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

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

func everyReport(m *simulate.Model) (out []plan.StatusRequest) {
	for _, n := range m.Nodes() {
		out = append(out, plan.StatusRequest{Node: n.Name, Period: time.Second, Routes: true})
	}
	return out
}

// oneByOne asks every node for its own report and its routes.
func oneByOne(m *simulate.Model) (lost bool, sessions int) {
	// A report takes a moment, and must be about this one: let no time pass.
	m.Advance(-simulate.Answer)
	_, _ = m.Watch(nil)
	_, _ = m.Watch(everyReport(m))
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
