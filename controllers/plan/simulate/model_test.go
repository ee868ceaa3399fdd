package simulate_test

import (
	"fmt"
	"net/netip"
	"strings"
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
	return simulate.New(cluster(nodes), plan.DatastoreOptions{RoleLabel: role}, begin)
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

// Two nodes have one address: others have one session with it, which is up as long as either answers, and they have none with each other.
func TestAnAddressOfTwoNodesIsReportedOnce(t *testing.T) {
	m := model(4)
	m.Edit("n3", func(n *plan.Node) { n.Addresses = m.Nodes()[1].Addresses })
	shared := m.Nodes()[1].Addresses[0]
	for cut, up := range map[string]bool{"": true, "n2": true, "n3": true, "n2 n3": false} {
		for _, n := range []string{"n2", "n3"} {
			m.Cut("n1", n, strings.Contains(cut, n))
		}
		m.Advance(time.Minute)
		var with []bool
		for _, s := range m.Report("n1", false).Sessions {
			if s.Peer == shared {
				with = append(with, s.Established)
			}
		}
		require.Equal(t, []bool{up}, with, "cut off from: %s", cut)
	}
	require.Len(t, m.Report("n2", false).Sessions, 2)
}

// There and back, the mesh is all that changes in a BGPConfiguration.
func TestTheMeshIsAllThatChangesInTheConfiguration(t *testing.T) {
	before := cluster(3)
	on := true
	before.BGP = plan.BGPConfig{Exists: true, ASN: 65001, Mesh: plan.Mesh{Enabled: &on, Password: &plan.SecretRef{Name: "a", Key: "b"}}, Services: []netip.Prefix{netip.MustParsePrefix("10.96.0.0/12")}}
	m := simulate.New(before, plan.DatastoreOptions{RoleLabel: role}, begin)
	apply(t, m, plan.DisableMesh{Saved: before.BGP.Mesh})
	is := m.Observe().BGP
	require.False(t, is.MeshOn())
	require.Equal(t, []any{before.BGP.Services, before.BGP.ASN}, []any{is.Services, is.ASN})
	apply(t, m, plan.RestoreMesh{}, plan.ForgetMesh{})
	require.Equal(t, before.BGP, m.Observe().BGP)
}

// Where routes come from, as it is configured.
func TestSources(t *testing.T) {
	off, label := false, map[string]string{"rr": ""}
	tor := plan.Peer{Name: "tor", PeerIP: "192.0.2.1", ASN: 65000}
	byLabel := plan.Peer{Name: "clients", NodeSelector: "!has(rr)", PeerSelector: "has(rr)"}
	reflector := func(c *plan.Cluster) { c.Nodes[0].ClusterID, c.Nodes[0].Labels = "1.0.0.1", label }
	const none, mesh, reflectors, nodes, routers = simulate.SourceNone, simulate.SourceMesh, simulate.SourceReflectors, simulate.SourceNodes, simulate.SourceRouters
	for name, c := range map[string]struct {
		on    bool
		edit  func(*plan.Cluster)
		peers []plan.Peer
		want  [3]simulate.Source
	}{
		"the mesh":                     {on: true, want: [3]simulate.Source{mesh, mesh, mesh}},
		"the mesh, and a router":       {on: true, peers: []plan.Peer{tor}, want: [3]simulate.Source{mesh, mesh, mesh}},
		"a reflector beside the mesh":  {on: true, edit: reflector, peers: []plan.Peer{byLabel}, want: [3]simulate.Source{reflectors, mesh, mesh}},
		"one that nobody peers with":   {on: true, edit: reflector, want: [3]simulate.Source{none, mesh, mesh}},
		"reflectors":                   {edit: reflector, peers: []plan.Peer{byLabel}, want: [3]simulate.Source{reflectors, reflectors, reflectors}},
		"reflectors, and a router":     {edit: reflector, peers: []plan.Peer{byLabel, tor}, want: [3]simulate.Source{reflectors, reflectors, reflectors}},
		"a label, and no cluster ID":   {edit: func(c *plan.Cluster) { c.Nodes[0].Labels = label }, peers: []plan.Peer{byLabel}, want: [3]simulate.Source{nodes, nodes, nodes}},
		"a selector of no node":        {peers: []plan.Peer{byLabel}, want: [3]simulate.Source{none, none, none}},
		"a router":                     {peers: []plan.Peer{tor}, want: [3]simulate.Source{routers, routers, routers}},
		"a router of one node":         {peers: []plan.Peer{{Name: "tor", Node: "n2", PeerIP: "192.0.2.1:178"}}, want: [3]simulate.Source{none, routers, none}},
		"a router of a label":          {edit: reflector, peers: []plan.Peer{{Name: "tor", NodeSelector: "has(rr)", PeerIP: "2001:db8::1"}}, want: [3]simulate.Source{routers, none, none}},
		"a peer with a node's address": {peers: []plan.Peer{{Name: "p", Node: "n1", PeerIP: "10.0.0.2"}}, want: [3]simulate.Source{nodes, nodes, none}},
		"a pod":                        {peers: []plan.Peer{{Name: "p", PeerIP: "192.0.2.1", Workloads: true}}, want: [3]simulate.Source{none, none, none}},
		"no address":                   {peers: []plan.Peer{{Name: "p", PeerIP: "2001:db8::1/128"}}, want: [3]simulate.Source{none, none, none}},
		"a ClusterPeering":             {peers: []plan.Peer{{Name: "p", PeerIP: "192.0.2.1", Peering: "b"}}, want: [3]simulate.Source{none, none, none}},
		"nothing":                      {want: [3]simulate.Source{none, none, none}},
		"a cluster of one node":        {edit: func(c *plan.Cluster) { c.Nodes = c.Nodes[:1] }, peers: []plan.Peer{{Name: "p", PeerSelector: "all()"}}, want: [3]simulate.Source{none, none, none}},
	} {
		t.Run(name, func(t *testing.T) {
			seen := cluster(3)
			if seen.Peers = c.peers; !c.on {
				seen.BGP.Mesh.Enabled = &off
			}
			if c.edit != nil {
				c.edit(&seen)
			}
			got := simulate.Sources(role, seen)
			require.Len(t, got, len(seen.Nodes))
			require.Equal(t, c.want, [3]simulate.Source{got["n1"], got["n2"], got["n3"]})
		})
	}
}

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
	require.Equal(t, []any{true, "true", map[string]string{role: "true"}}, []any{n[0].HasRoleLabel, n[0].Slot, n[0].Labels})
	require.Equal(t, []any{"a", map[string]string{plan.RackLabel: "a"}}, []any{n[1].Rack, n[1].Labels})
	apply(t, m, plan.SetReflector{Node: "n1", ClusterID: "244.0.0.1", Slot: "spine-1"})
	require.Equal(t, map[string]string{role: "spine-1"}, m.Nodes()[0].Labels)
	apply(t, m, plan.ClearReflector{Node: "n1"}, plan.SetRack{Node: "n2"})
	for _, n := range m.Nodes() {
		require.Equal(t, []any{false, "", "", map[string]string{}}, []any{n.HasRoleLabel, n.Slot, n.Rack, n.Labels})
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
