package topology_test

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/rrpool/rrpool/controllers/plan"
	"github.com/rrpool/rrpool/controllers/plan/topology"
)

func TestChoose(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	node := func(name, zone string, edits ...func(*plan.Node)) plan.Node {
		n := plan.Node{Name: name, Zone: zone, Pooled: true, Ready: true, Created: now}
		for _, edit := range edits {
			edit(&n)
		}
		return n
	}
	marked := func(n *plan.Node) { n.Marked = true }
	slot := func(name string) func(*plan.Node) {
		return func(n *plan.Node) { n.Marked, n.Slot = true, name }
	}
	older := func(n *plan.Node) { n.Created = now.Add(-time.Hour) }
	down := func(n *plan.Node) { n.Ready = false }
	for name, tc := range map[string]struct {
		nodes []plan.Node
		zones []string
		lost  string
		want  []string
	}{
		"one in each zone":                   {nodes: []plan.Node{node("a", "1"), node("b", "2"), node("c", "2")}, want: []string{"a", "b"}},
		"those in the role stay":             {nodes: []plan.Node{node("a", "1", older), node("b", "1", marked)}, want: []string{"b"}},
		"one that is away for long does not": {nodes: []plan.Node{node("a", "1"), node("b", "1", marked, down)}, lost: "b", want: []string{"a"}},
		"one that is away for a moment does": {nodes: []plan.Node{node("a", "1"), node("b", "1", marked, down)}, want: []string{"b"}},
		"Ready ones come first":              {nodes: []plan.Node{node("a", "1", older, down), node("b", "1")}, want: []string{"b"}},
		"the oldest come first":              {nodes: []plan.Node{node("a", "1"), node("b", "1", older)}, want: []string{"b"}},
		"the first slots come first":         {nodes: []plan.Node{node("a", "1", older, slot("quorum-1-2")), node("b", "1", slot("quorum-1-1"))}, want: []string{"b"}},
		"only the wanted zones":              {nodes: []plan.Node{node("a", "1"), node("b", "2")}, zones: []string{"2"}, want: []string{"b"}},
		"workload nodes never":               {nodes: []plan.Node{node("a", "1", func(n *plan.Node) { n.Pooled = false })}},
		"nodes on their way out never":       {nodes: []plan.Node{node("a", "1", func(n *plan.Node) { n.Deleting = true })}},
	} {
		t.Run(name, func(t *testing.T) {
			got := topology.Choose("", tc.nodes, 1, tc.zones, func(n plan.Node) bool { return n.Name == tc.lost })
			require.Equal(t, tc.want, names(got))
		})
	}
}

// The choice does not depend on the order of the input, and once made it stays when nodes are added.
func TestChoiceIsStable(t *testing.T) {
	never := func(plan.Node) bool { return false }
	rapid.Check(t, func(t *rapid.T) {
		var nodes []plan.Node
		for i := range rapid.IntRange(1, 12).Draw(t, "nodes") {
			nodes = append(nodes, plan.Node{
				Name: fmt.Sprintf("n%02d", i), Zone: rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "zone"), Pooled: true,
				Ready: rapid.Bool().Draw(t, "ready"), Created: time.Unix(int64(rapid.IntRange(0, 3).Draw(t, "age")), 0),
			})
		}
		perZone := rapid.IntRange(1, 3).Draw(t, "perZone")
		first := names(topology.Choose("", nodes, perZone, nil, never))
		shuffled := rapid.Permutation(nodes).Draw(t, "order")
		require.Equal(t, first, names(topology.Choose("", shuffled, perZone, nil, never)))
		for i := range nodes {
			nodes[i].Marked = slices.Contains(first, nodes[i].Name)
		}
		newcomer := plan.Node{Name: "a-newcomer", Zone: nodes[0].Zone, Pooled: true, Ready: true}
		more := names(topology.Choose("", append(nodes, newcomer), perZone, nil, never))
		require.Subset(t, more, first)
	})
}

func names(nodes []plan.Node) []string {
	var out []string
	for _, n := range nodes {
		out = append(out, n.Name)
	}
	return out
}

func TestAReflectorHasAPeerForEachAddressFamilyThatBothHave(t *testing.T) {
	four, six := netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("fd00::1")
	session := topology.Session{Password: &plan.SecretRef{Name: "bgp", Key: "password"}}
	node := func(name string, addrs ...netip.Addr) plan.Node { return plan.Node{Name: name, Addresses: addrs} }
	for name, tc := range map[string]struct {
		reflector, client plan.Node
		want              []string
	}{
		"IPv4 only":           {reflector: node("b", four), client: node("a", four), want: []string{"rrpool.a.b.v4 b 10.0.0.1"}},
		"both families":       {reflector: node("a", four, six), client: node("b", four, six), want: []string{"rrpool.a.b.v4 a 10.0.0.1", "rrpool.a.b.v6 a fd00::1"}},
		"one in common":       {reflector: node("a", six), client: node("b", four, six), want: []string{"rrpool.a.b.v6 a fd00::1"}},
		"nothing in common":   {reflector: node("a", six), client: node("b", four)},
		"the other way round": {reflector: node("a", four), client: node("b", four), want: []string{"rrpool.a.b.v4 a 10.0.0.1"}},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, p := range topology.Peerings(tc.reflector, tc.client, 64512, session) {
				got = append(got, p.Name+" "+p.Node+" "+p.PeerIP)
				require.True(t, topology.IsPeering(p))
				require.Equal(t, uint32(64512), p.ASN, "Calico takes a peer's AS from nowhere else")
				require.Equal(t, session.Password, p.Password)
			}
			require.Equal(t, tc.want, got)
		})
	}
	for _, p := range topology.Single("role", session) {
		require.False(t, topology.IsPeering(p))
	}
}

func TestNamesOfPeeringsFitAndDiffer(t *testing.T) {
	long := strings.Repeat("node.", 30)
	addr := netip.MustParseAddr("10.0.0.1")
	name := func(a, b string) string {
		return topology.Peerings(plan.Node{Name: a, Addresses: []netip.Addr{addr}}, plan.Node{Name: b, Addresses: []netip.Addr{addr}}, 1, topology.Session{})[0].Name
	}
	require.LessOrEqual(t, len(name(long+"a", long+"b")), 200)
	require.NotEqual(t, name(long+"a", long+"b"), name(long+"a", long+"c"))
	require.NotEqual(t, name("a", "b.c"), name("a.b", "c"), "two pairs under one name would rewrite one object for ever")
	require.Equal(t, name(long+"a", long+"b"), name(long+"b", long+"a"), "one object for two nodes, whichever is the reflector")
}
