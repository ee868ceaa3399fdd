package topology_test

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
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

// bigCluster is a cluster of clients, and a pool of twice as many reflectors as it needs.
func bigCluster(clients, zones, reflectors int, label string, values []string) (nodes, pool []plan.Node, names []string) {
	for z := range zones {
		names = append(names, "zone-"+strconv.Itoa(z+1))
	}
	for i := range clients {
		value := values[i%len(values)]
		nodes = append(nodes, plan.Node{
			Name: fmt.Sprintf("client-%03d", i), Zone: names[i%zones], Ready: true, Created: time.Unix(int64(i), 0),
			Labels:    map[string]string{label: value, zoneLabel: names[i%zones]},
			Addresses: []netip.Addr{netip.AddrFrom4([4]byte{10, 1, byte(i / 256), byte(i)})},
		})
	}
	for i := range reflectors {
		pool = append(pool, plan.Node{
			Name: fmt.Sprintf("reflector-%03d", i), Zone: names[i%zones], Ready: true, Pooled: true, Created: time.Unix(int64(i), 0),
			Addresses: []netip.Addr{netip.AddrFrom4([4]byte{10, 2, byte(i / 256), byte(i)})},
		})
	}
	return nodes, pool, names
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
		spec := topology.Read(object.Spec.Topology, object.Spec.BGP.NodeLabel, true)
		nodes, pool, names := bigCluster(int(clients)+1, int(zones%5)+1, 60, spec.RackLabel, strings.Split(racks, ","))
		size, err := sizing.Reflectors(object.Spec.Sizing, len(nodes), len(names))
		if err != nil {
			require.Regexp(t, `^spec\.sizing\.\w+: .*: .`, err.Error())
			return
		}
		spec, total, problem := topology.Size(spec, nodes, names, size.PerZone*len(names), "")
		if problem != nil {
			require.Regexp(t, `^spec\.topology\.\w+: .*: .`, problem.Message)
			require.NotEmpty(t, problem.Reason)
		} else if total <= int(object.Spec.Sizing.Max) {
			layout := topology.Arrange(spec, topology.Session{}, nodes, pool, names, (total+len(names)-1)/len(names))
			requireSound(t, layout, spec, append(nodes, pool...))
		}
		require.Less(t, working(t)-began, soon)
	})
}

// requireSound holds a layout to what the API and Calico take.
func requireSound(t *testing.T, layout topology.Layout, spec topology.Spec, nodes []plan.Node) {
	t.Helper()
	taken := map[string]bool{}
	for _, slot := range layout.Slots {
		require.Empty(t, validation.IsValidLabelValue(slot.Name), "%q", slot.Name)
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
		for _, text := range []string{peer.NodeSelector, peer.PeerSelector} {
			_, err := selector.Parse(text)
			require.NoError(t, err, "%s", text)
		}
	}
	for node, rack := range layout.Racks {
		require.True(t, slices.ContainsFunc(nodes, func(n plan.Node) bool { return n.Name == node }))
		require.Empty(t, validation.IsValidLabelValue(rack), "%q", rack)
	}
	requireGroups(t, layout, spec, nodes)
}

// requireGroups: each client that is where the layout wants it is in one group, and the
// selectors of no two groups take the same.
func requireGroups(t *testing.T, layout topology.Layout, spec topology.Spec, nodes []plan.Node) {
	t.Helper()
	for _, n := range layout.Written(nodes, spec.RoleLabel) {
		if n.Pooled {
			continue
		}
		var in []string
		for _, g := range layout.Groups {
			sel, err := selector.Parse(g.Selector)
			require.NoError(t, err, "%s", g.Selector)
			if sel.Evaluate(n.Labels) {
				in = append(in, g.Name)
			}
		}
		require.Len(t, in, 1, "node %s with labels %q is in groups %q", n.Name, n.Labels, in)
	}
}

var groupedKinds = []v1alpha1.TopologyType{
	v1alpha1.TopologySingle, v1alpha1.TopologyQuorum, v1alpha1.TopologyMultiCluster, v1alpha1.TopologyHierarchy,
}

// Whatever stands in the labels by which clients are divided, every selector that comes of it can be read, and
// selects just the nodes that it is meant for: those with that very value, and the open group all others.
func FuzzSelectors(f *testing.F) {
	f.Add("r1", "r2", "r3", "us-south-1", uint8(3))
	f.Add(`a" || all() || rack == "b`, `b"} || has(x) || rack in {"`, "", "z", uint8(3))
	f.Add("a'b", "a\\b", "a\x00b", "zöne", uint8(1))
	f.Add(strings.Repeat("x", 63), strings.Repeat("x", 64), strings.Repeat("x", 62)+"y", strings.Repeat("z", 70), uint8(2))
	f.Add("Rack", "rack", "RACK", "Z", uint8(3))
	f.Add("0123456789abcdef", "0123456789abcdee", "deadbeefdeadbeef", "1", uint8(3))
	f.Add("a.b", "a_b", "a-b", "a.b", uint8(3))
	f.Add("1", "01", "201", "2", uint8(7))
	f.Fuzz(func(t *testing.T, a, b, c, zone string, shape uint8) {
		kind, byRack := groupedKinds[shape%4], shape&4 == 0
		values := []string{a, b, c, a, b}
		nodes, pool, names := bigCluster(12, 3, 12, "rack", values)
		for i := range nodes[:4] {
			nodes[i].Zone, nodes[i].Labels[zoneLabel] = zone, zone
			nodes[i].Rack = a
		}
		spec := topology.Spec{
			Kind: kind, ClusterID: "244.0.0.1", Redundancy: 2, MaxClients: 2000, MaxPaths: 1 << 20, RoleLabel: roleLabel, ZoneLabel: zoneLabel,
		}
		if byRack {
			spec.RackLabel = "rack"
		}
		layout := topology.Arrange(spec, topology.Session{}, nodes, pool, names, 2)
		requireSound(t, layout, spec, nodes)
		for _, group := range layout.Groups {
			if group.Open {
				continue
			}
			sel, err := selector.Parse(group.Selector)
			require.NoError(t, err)
			key := spec.ZoneLabel
			if byRack {
				key = "rack"
			}
			for _, n := range layout.Written(nodes, roleLabel) {
				if byRack || n.Rack == "" {
					require.Equal(t, n.Labels[key] == group.Name, sel.Evaluate(n.Labels), "%s of %q", group.Selector, n.Labels)
				}
			}
		}
	})
}
