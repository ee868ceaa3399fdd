package topology_test

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/projectcalico/calico/libcalico-go/lib/selector"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/config/crd"
	"github.com/rrpool/rrpool/controllers/plan"
	"github.com/rrpool/rrpool/controllers/plan/simulate"
	"github.com/rrpool/rrpool/controllers/plan/sizing"
	"github.com/rrpool/rrpool/controllers/plan/topology"
)

// soon is far more than any of this takes.
const soon = 3 * time.Second

// working is how long this process has had a processor: what else the machine does is nothing to the plan.
func working(t *testing.T) time.Duration {
	t.Helper()
	var usage unix.Rusage
	require.NoError(t, unix.Getrusage(unix.RUSAGE_SELF, &usage))
	return time.Duration(usage.Utime.Nano())
}

// labelled is a cluster of clients with these values of a label, and a pool.
func labelled(clients, zones, perZone int, label string, values ...string) *world {
	w := newWorld(v1alpha1.TopologySingle, zones).joinAll(clients)
	for i, n := range w.clients {
		n.Labels[label] = values[i%len(values)]
	}
	w.perZone = perZone
	w.pool()
	return w
}

// Whatever is applied is refused in words, or it gives a size and a layout that
// keep their bounds, and are computed at once.
func FuzzSpec(f *testing.F) {
	const head = "apiVersion: rrpool.io/v1alpha1\nkind: RouteReflectorPool\nmetadata: {name: default}\n"
	for _, spec := range []string{
		"", "spec: {mode: FullMesh}", "spec: {sizing: {min: 1, max: 1000, method: Linear, ratio: '1'}, topology: {type: Quorum}}",
		"spec: {topology: {type: Hierarchy, redundancy: 2147483647, maxPathsPerPrefix: 2147483647, rackLabel: rack}}",
		"spec: {topology: {type: MultiCluster, redundancy: 1, maxPathsPerPrefix: 2147483647}, sizing: {min: 2147483647, max: 2147483647}}",
		"spec: {topology: {type: Auto, maxClientsPerReflector: 1, clusterID: 255.255.255.255, rackLabel: rack}}",
		"spec: {topology: {type: Hierarchy, redundancy: 40, maxPathsPerPrefix: 2147483647, maxClientsPerReflector: 1}, sizing: {max: 1000}}",
		"spec: {provider: {iks: {clusterID: ../.., zones: [a, a]}}}", "spec: {bgp: {nodeLabel: \"a\\nb\"}}", "spec: {rollout: {sessionTimeout: 999999999h}}",
		"spec: {sizing: {method: Stepping, steps: [{upToNodes: 1, reflectors: 2}]}}", "spec: &a {b: *a}", "{", "---\n---",
	} {
		f.Add(head+spec, uint8(70), uint8(3), "r1,r2,R_3")
	}
	f.Fuzz(func(t *testing.T, content string, clients, zones uint8, racks string) {
		if len(content) > 4096 {
			t.Skip("the API's own reading takes what it takes")
		}
		object, err := crd.Read([]byte(content))
		if err != nil {
			require.NotEmpty(t, err.Error())
			return
		}
		began := working(t)
		spec := topology.ReadSpec(object.Spec.Topology, object.Spec.BGP.NodeLabel, true)
		w := labelled(int(clients)+1, int(zones%5)+1, 60/(int(zones%5)+1), spec.RackLabel, strings.Split(racks, ",")...)
		size, err := sizing.Reflectors(object.Spec.Sizing, len(w.clients), len(w.zones))
		if err != nil {
			require.Regexp(t, `^spec\.sizing\.\w+: .*: .`, err.Error())
			return
		}
		spec, total, problem := topology.Size(spec, w.clients, w.zones, size*len(w.zones), "")
		if problem != nil {
			require.Regexp(t, `^spec\.topology\.\w+: .*: .`, problem.Message)
			require.NotEmpty(t, problem.Reason)
		} else if total <= int(object.Spec.Sizing.Max) {
			layout := topology.Arrange(spec, topology.Session{}, w.clients, w.reflectors, w.zones, (total+len(w.zones)-1)/len(w.zones))
			requireSound(t, layout, spec, append(w.clients, w.reflectors...))
		}
		require.Less(t, working(t)-began, soon)
	})
}

// requireSound holds a layout to what the API and Calico take.
func requireSound(t require.TestingT, layout topology.Layout, spec topology.Spec, nodes []plan.Node) {
	taken := map[string]bool{}
	for _, slot := range layout.Slots {
		require.Empty(t, validation.IsValidLabelValue(slot.Name), "%q", slot.Name)
		require.Equal(t, spec.Kind, topology.KindOf(slot.Name), "%q", slot.Name)
		require.False(t, taken[slot.Node], "%s has two slots", slot.Node)
		taken[slot.Node] = slot.Node != ""
		id, err := netip.ParseAddr(slot.ClusterID)
		require.NoError(t, err)
		require.True(t, id.Is4() && !id.IsUnspecified())
	}
	names := map[string]bool{}
	for _, peer := range layout.Peers {
		require.Empty(t, validation.IsDNS1123Subdomain(peer.Name), "%q", peer.Name)
		require.False(t, names[peer.Name], "two BGPPeers %s", peer.Name)
		names[peer.Name] = true
	}
	for node, rack := range layout.Racks {
		require.True(t, slices.ContainsFunc(nodes, func(n plan.Node) bool { return n.Name == node }))
		require.Empty(t, validation.IsValidLabelValue(rack), "%q", rack)
	}
	written := layout.Applied(nodes, spec.RoleLabel)
	// Each client that is where the layout wants it is in one group, and counts there.
	var selectors []*selector.Selector
	for _, g := range layout.Groups {
		selectors = append(selectors, parsed(t, g.Selector))
	}
	clients := make([]int, len(selectors))
	for _, n := range written {
		if n.Pooled {
			continue
		}
		var in []string
		for i, g := range layout.Groups {
			if selectors[i].Evaluate(n.Labels) {
				in = append(in, g.Name)
				clients[i]++
			}
		}
		require.Len(t, in, 1, "node %s with labels %q is in groups %q", n.Name, n.Labels, in)
	}
	for i, g := range layout.Groups {
		require.Equal(t, clients[i], g.Clients, g.Name)
	}
	// The first node of each kind of labels.
	seen := map[string]int{}
	requireOnePeerEach(t, layout.Peers, slices.DeleteFunc(slices.Clone(written), func(n plan.Node) bool {
		key := fmt.Sprint(n.Labels)
		seen[key]++
		return seen[key] > 1
	}))
}

// Whatever stands in the labels by which clients are divided, every selector that comes of it can be read, and
// selects just the nodes that it is meant for: those with that very value, and the open group all others.
func FuzzSelectors(f *testing.F) {
	f.Add("r1", "r2", "r3", "us-south-1", uint8(3))
	f.Add(`a" || all() || rack == "b`, `b"} || has(x) || rack in {"`, "", "z", uint8(3))
	f.Add("a'b", "a\\b", "a\x00b", "zöne", uint8(1))
	f.Add(strings.Repeat("x", 63), strings.Repeat("x", 64), strings.Repeat("x", 62)+"y", strings.Repeat("z", 70), uint8(2))
	f.Add("Rack", "4cd265c2b8c65fa6", "RACK", "Z", uint8(3)) // the second is the hash that stands for the first
	f.Add("0123456789abcdef", "0123456789abcdee", "deadbeefdeadbeef", "1", uint8(3))
	f.Add("a.b", "a_b", "a-b", "a.b", uint8(3))
	f.Add("1", "01", "201", "2", uint8(7))
	f.Add("Row_7.Rack-B", "spine-1", "x}", "стойка", uint8(0))
	f.Fuzz(func(t *testing.T, a, b, c, zone string, shape uint8) {
		for _, kind := range everyKind {
			w := labelled(12, 3, 4, rackLabel, a, b, c, a, b)
			for i := range w.clients[:4] {
				w.clients[i].Zone, w.clients[i].Labels[zoneLabel], w.clients[i].Rack = zone, zone, a
			}
			w.spec.Kind, w.spec.Redundancy, w.spec.MaxPaths, w.perZone = kind, 2, 1<<20, 2
			key, byRack := zoneLabel, shape&4 == 0
			if byRack {
				w.spec.RackLabel, key = rackLabel, rackLabel
			}
			layout := w.arrange()
			requireSound(t, layout, w.spec, append(w.clients, w.reflectors...))
			requireMeant(t, layout, layout.Applied(w.clients, roleLabel), key, byRack)
			for _, value := range []string{a, b, c} {
				named := slices.ContainsFunc(layout.Groups, func(g topology.Group) bool { return g.Name == value })
				valid := len(validation.IsValidLabelValue(value)) == 0
				require.True(t, kind == v1alpha1.TopologySingle || !byRack || value == "" || named == valid, "%q", value)
			}
			w.follow(layout)
			require.Empty(t, w.network().Unreached(isClient))
		}
	})
}

// requireMeant: a group that is not open selects just the nodes with its name as the value of the label.
func requireMeant(t require.TestingT, layout topology.Layout, clients []plan.Node, key string, byRack bool) {
	for _, group := range layout.Groups {
		for _, n := range clients {
			if !group.Open && (byRack || n.Rack == "") {
				require.Equal(t, n.Labels[key] == group.Name, parsed(t, group.Selector).Evaluate(n.Labels), "%s of %q", group.Selector, n.Labels)
			}
		}
	}
}

// planned is the layout for other clients.
func (w *world) planned(clients []plan.Node) topology.Layout {
	return topology.Arrange(w.spec, topology.Session{}, clients, w.reflectors, w.zones, w.perZone)
}

// sides are what all nodes but the evil one configure about each other, once the layout for
// clients is written; all includes those that are no clients.
func (w *world) sides(clients, all []plan.Node) map[[2]string]simulate.Side {
	layout := w.planned(clients)
	off := false
	config := simulate.NewConfiguration(roleLabel, layout.Applied(all, roleLabel), plan.BGPConfig{Exists: true, Mesh: plan.Mesh{Enabled: &off}}, layout.Peers)
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
			evil.HasRoleLabel, evil.Slot, evil.Marked, evil.Labels[roleLabel] = true, slot, true, slot
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
