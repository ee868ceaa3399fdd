package topology_test

import (
	"cmp"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/projectcalico/calico/libcalico-go/lib/selector"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/controllers/plan"
	"github.com/rrpool/rrpool/controllers/plan/simulate"
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
				require.True(t, topology.IsPairPeer(p))
				require.Equal(t, uint32(64512), p.ASN, "Calico takes a peer's AS from nowhere else")
				require.Equal(t, session.Password, p.Password)
			}
			require.Equal(t, tc.want, got)
		})
	}
	for _, p := range topology.Single("role", session) {
		require.False(t, topology.IsPairPeer(p))
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

// With Calico's own parser: each client is in exactly one group, and no two BGPPeers match
// the same node and peer (whose winner Calico does not define).
func TestSelectorsExcludeEachOtherAndCoverAllClients(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w, l := settled(t)
		require.Len(t, slices.DeleteFunc(slices.Clone(l.Groups), func(g topology.Group) bool { return !g.Open }), 1)
		requireSound(t, l, w.spec, append(w.clients, w.reflectors...))
	})
}

func parsed(t require.TestingT, text string) *selector.Selector {
	s, err := selector.Parse(text)
	require.NoError(t, err, text)
	return s
}

func requireOnePeerEach(t require.TestingT, peers []plan.Peer, nodes []plan.Node) {
	winner := map[[2]string]string{}
	for _, p := range peers {
		from, to := parsed(t, p.NodeSelector), parsed(t, p.PeerSelector)
		for _, a := range nodes {
			for _, b := range nodes {
				if from.Evaluate(a.Labels) && to.Evaluate(b.Labels) {
					require.Empty(t, winner[[2]string{a.Name, b.Name}], "%s: from %s to %s", p.Name, a.Name, b.Name)
					winner[[2]string{a.Name, b.Name}] = p.Name
				}
			}
		}
	}
}

func TestAValueThatNoTopologyWritesIsOfNone(t *testing.T) {
	require.Empty(t, topology.KindOf("yes"))
}

// While a cluster moves from one topology to another both stand side by side. Single and
// Quorum, which have the same cluster ID, may match the same pair and render the same.
func TestPeersOfDifferentTopologiesNeverMatchTheSamePair(t *testing.T) {
	for _, flat := range []v1alpha1.TopologyType{single, quorum} {
		var peers []plan.Peer
		var nodes []plan.Node
		for _, kind := range []v1alpha1.TopologyType{flat, hierarchy, multi} {
			w := newWorld(kind, 2).join(2)
			w.made = 100 * len(nodes)
			w.settle(6)
			if kind == single {
				w.peers = topology.Scoped(roleLabel, topology.Session{})
				nodes = append(nodes, w.clients...)
			}
			peers, nodes = append(peers, w.peers...), append(nodes, w.reflectors...)
		}
		requireOnePeerEach(t, peers, nodes)
		seen := map[string]bool{}
		for _, p := range peers {
			require.False(t, seen[p.Name], p.Name)
			seen[p.Name] = true
		}
	}
}

func TestScopedPeersRenderSinglesSessions(t *testing.T) {
	w := newWorld(single, 3).join(3)
	w.settle(3)
	before := w.sessions()
	w.peers = topology.Scoped(roleLabel, topology.Session{})
	require.Equal(t, before, w.sessions())
	require.Empty(t, w.network().Unreached(all))
}

const (
	roleLabel = "rrpool.io/route-reflector"
	zoneLabel = "topology.kubernetes.io/zone"
	rackLabel = "example.com/rack"
)

var everyKind = []v1alpha1.TopologyType{single, quorum, multi, hierarchy}

// world is a cluster and what is wanted of it.
type world struct {
	spec       topology.Spec
	zones      []string
	perZone    int
	clients    []plan.Node
	reflectors []plan.Node
	peers      []plan.Peer
	made       int
}

func newWorld(kind v1alpha1.TopologyType, zones int) *world {
	w := &world{spec: topology.Spec{
		Kind: kind, ClusterID: "244.0.0.1", Redundancy: 3, MaxClients: 2000, MaxPaths: 64, RoleLabel: roleLabel, ZoneLabel: zoneLabel,
	}}
	for z := range zones {
		w.zones = append(w.zones, fmt.Sprintf("zone-%d", z+1))
	}
	return w
}

func (w *world) node(prefix, zone string) plan.Node {
	w.made++
	n := plan.Node{
		Name: fmt.Sprintf("%s-%05d", prefix, w.made), Zone: zone, Ready: true, Labels: map[string]string{},
		Created:   time.Unix(int64(w.made), 0),
		Addresses: []netip.Addr{netip.AddrFrom4([4]byte{10, byte(w.made >> 16), byte(w.made >> 8), byte(w.made)})},
	}
	if zone != "" {
		n.Labels[zoneLabel] = zone
	}
	return n
}

// join adds clients: n in every zone.
func (w *world) join(n int) *world {
	for range n {
		for _, z := range w.zones {
			w.clients = append(w.clients, w.node("client", z))
		}
	}
	return w
}

// joinAll adds n clients, spread over the zones.
func (w *world) joinAll(n int) *world {
	for i := range n {
		w.clients = append(w.clients, w.node("client", w.zones[i%len(w.zones)]))
	}
	return w
}

func (w *world) standing() topology.Spec {
	return w.spec.WithCurrent(slices.Concat(w.clients, w.reflectors), w.peers)
}

func (w *world) size(sized int) *plan.Problem {
	var total int
	var problem *plan.Problem
	w.spec, total, problem = topology.Size(w.standing(), w.clients, w.zones, sized, "")
	w.perZone = total / len(w.zones)
	return problem
}

// pool has perZone nodes in each zone: those without a slot go first, new ones come.
func (w *world) pool() {
	assigned := map[string]int{}
	for i, s := range w.arrange().Slots {
		assigned[s.Node] = len(w.reflectors) + i
	}
	var out []plan.Node
	for _, z := range w.zones {
		there := slices.DeleteFunc(slices.Clone(w.reflectors), func(n plan.Node) bool { return n.Zone != z })
		slices.SortFunc(there, func(a, b plan.Node) int {
			return cmp.Or(plan.TrueFirst(assigned[a.Name] > 0, assigned[b.Name] > 0), cmp.Compare(assigned[a.Name], assigned[b.Name]))
		})
		for len(there) < w.perZone {
			n := w.node("reflector", z)
			n.Pooled = true
			there = append(there, n)
		}
		out = append(out, there[:w.perZone]...)
	}
	w.reflectors = out
}

func (w *world) arrange() topology.Layout {
	return topology.Arrange(w.standing(), topology.Session{}, w.clients, w.reflectors, w.zones, w.perZone)
}

// follow does what a layout says.
func (w *world) follow(l topology.Layout) {
	reflectors := slices.Clone(w.reflectors)
	for i := range reflectors {
		n := &reflectors[i]
		n.HasRoleLabel, n.Slot, n.ClusterID, n.Labels = false, "", "", maps.Clone(n.Labels)
		delete(n.Labels, roleLabel)
	}
	w.reflectors, w.clients, w.peers = l.Applied(reflectors, roleLabel), l.Applied(w.clients, roleLabel), l.Peers
}

// settle sizes, orders, arranges and follows.
func (w *world) settle(sized int) (topology.Layout, *plan.Problem) {
	problem := w.size(sized)
	w.pool()
	l := w.arrange()
	w.follow(l)
	for next := w.arrange(); !slices.EqualFunc(l.Peers, next.Peers, plan.SamePeer) || len(next.Racks) > 0; next = w.arrange() {
		l = next
		w.follow(l)
	}
	return l, problem
}

// network is that of all nodes but those that are down.
func (w *world) network(down ...string) *simulate.Network {
	off := false
	return simulate.NewConfiguration(roleLabel, slices.Concat(w.clients, w.reflectors), plan.BGPConfig{Mesh: plan.Mesh{Enabled: &off}}, w.peers).
		Network(func(name string) bool { return !slices.Contains(down, name) })
}

func isClient(name string) bool { return strings.HasPrefix(name, "client") }

// sessions of each client with reflectors.
func (w *world) sessions() map[string][]string {
	net := w.network()
	classes := net.Classes()
	out := map[string][]string{}
	for _, class := range classes {
		if class.Reflects {
			continue
		}
		var peers []string
		for _, r := range w.reflectors {
			if net.Connected(class.Nodes[0], r.Name) {
				peers = append(peers, r.Name)
			}
		}
		for _, n := range class.Nodes {
			if isClient(n) {
				out[n] = peers
			}
		}
	}
	return out
}

// drawWorld makes up a cluster.
func drawWorld(t *rapid.T) *world {
	w := newWorld(rapid.SampledFrom(everyKind).Draw(t, "kind"), rapid.IntRange(1, 6).Draw(t, "zones"))
	w.spec.Redundancy = rapid.IntRange(1, 4).Draw(t, "redundancy")
	w.spec.MaxClients = rapid.SampledFrom([]int{20, 60, 150, 500}).Draw(t, "limit")
	racks := 0
	if rapid.IntRange(0, 3).Draw(t, "labels") == 0 {
		w.spec.RackLabel, racks = rackLabel, rapid.IntRange(1, 6).Draw(t, "racks")
	}
	skew := rapid.IntRange(1, 3).Draw(t, "skew")
	for range rapid.SampledFrom([]int{3, 10, 40, 100, 400}).Draw(t, "clients") {
		w.drawClient(t, racks, skew)
	}
	return w
}

// drawClient adds one, now and then without the label that would put it into a group.
func (w *world) drawClient(t *rapid.T, racks, skew int) {
	draw := rapid.IntRange(0, 1<<20).Draw(t, "client")
	zone := w.zones[min(draw%(skew*len(w.zones)), len(w.zones)-1)]
	n := w.node("client", zone)
	draw /= 64
	if draw%16 == 0 {
		delete(n.Labels, zoneLabel)
		n.Zone = ""
	} else if racks > 0 {
		n.Labels[rackLabel] = fmt.Sprintf("r%d", draw/16%racks)
	}
	w.clients = append(w.clients, n)
}
