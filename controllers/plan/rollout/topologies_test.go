package rollout_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/controllers/plan"
	"github.com/rrpool/rrpool/controllers/plan/rollout"
	"github.com/rrpool/rrpool/controllers/plan/topology"
)

var kinds = []v1alpha1.TopologyType{
	v1alpha1.TopologySingle, v1alpha1.TopologyQuorum, v1alpha1.TopologyHierarchy, v1alpha1.TopologyMultiCluster,
}

// want asks for a topology, with the number of reflectors that it takes.
func (w *world) want(kind v1alpha1.TopologyType, redundancy, sized int) string {
	return w.wantLimited(kind, redundancy, sized, max(w.d.Topology.MaxClients, 500))
}

func (w *world) wantLimited(kind v1alpha1.TopologyType, redundancy, sized, clients int) string {
	spec := topology.Spec{
		Kind: kind, ClusterID: w.d.ClusterID, Redundancy: redundancy, MaxClients: clients, MaxPaths: 64,
		RoleLabel: label, ZoneLabel: "zone",
	}
	spec, total, problem := topology.Size(spec.Standing(w.observe().Nodes, w.observe().Peers), w.workloadNodes(), w.d.Pool.Zones, sized, "")
	if problem != nil {
		return problem.Message
	}
	w.d.Topology = spec
	w.d.Pool.SizePerZone = (total + len(w.d.Pool.Zones) - 1) / len(w.d.Pool.Zones)
	w.nextLook = w.now
	return ""
}

func (w *world) workloadNodes() []plan.Node {
	var out []plan.Node
	for _, m := range w.clients() {
		out = append(out, m.Node)
	}
	return out
}

// arrived: everybody sits where the topology says, and nothing else of ours is left.
func (w *world) arrived(t require.TestingT) {
	require.False(t, w.bgp.MeshOn())
	require.Len(t, w.reflectors(), w.d.Pool.SizePerZone*len(w.d.Pool.Zones))
	for _, r := range w.reflectors() {
		require.Equal(t, w.d.Topology.Kind, topology.KindOf(r.Seat), r.Name)
	}
	for _, p := range w.peers {
		single := slices.Contains([]string{topology.PeerClients, topology.PeerReflectors}, p.Name)
		require.Equal(t, w.d.Topology.Kind == v1alpha1.TopologySingle, single, p.Name)
	}
}

// tight: in this MultiCluster two reflectors serve each node, and none of the three can
// be done without. With more nodes in the pool it would be otherwise.
func tight(from, to v1alpha1.TopologyType) bool {
	const multi = v1alpha1.TopologyMultiCluster
	return from == multi || to == multi
}

// From any topology to any other, there and back to the mesh, without a packet lost, and
// without the mesh in between.
func TestFromEveryTopologyToEveryOther(t *testing.T) {
	t.Parallel()
	for _, from := range kinds {
		for _, to := range kinds {
			if from == to {
				continue
			}
			t.Run(string(from)+" to "+string(to), func(t *testing.T) {
				t.Parallel()
				w := newWorld(7, 12, 3)
				w.stamps = true
				require.Empty(t, w.want(from, 2, 3))
				require.Empty(t, w.settle())
				w.arrived(t)
				told := len(w.narrative)
				require.Empty(t, w.want(to, 2, 3))
				require.Empty(t, w.settle(), w.story())
				w.arrived(t)
				needed := slices.ContainsFunc(w.narrative[told:], func(line string) bool { return strings.Contains(line, "RestoreMesh") })
				require.Equal(t, tight(from, to), needed, "whether the mesh was needed:\n%s", w.story())
				w.d.Mode, w.nextLook = rollout.Mesh, w.now
				require.Empty(t, w.settle(), w.story())
				require.Empty(t, w.reflectors())
				require.Empty(t, w.peers)
			})
		}
	}
}

// In every topology the disturbances that Single survives cost nothing either, and the
// topology may change at any moment.
func TestAnyOrderOfDisturbancesInAnyTopology(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(rapid.Uint64().Draw(t, "seed"), rapid.IntRange(3, 6).Draw(t, "clients"), rapid.IntRange(2, 3).Draw(t, "zones"))
		w.stamps, w.regular = true, rapid.Bool().Draw(t, "regular")
		redundancy := rapid.IntRange(2, 3).Draw(t, "redundancy")
		w.atLeast = redundancy - 1 // a rack has no more reflectors than that, and a person takes one
		change := func(w *world, _ int) { w.want(rapid.SampledFrom(kinds).Draw(t, "kind"), redundancy, 3) }
		change(w, 0)
		w.hold(t, w.settle())
		e := arrangedEvents()
		e.happen["topology changes"] = change
		e.names = append(e.names, "topology changes", "topology changes", "topology changes")
		w.suffer(t, e, w.run)
		w.problems, w.asleep = nil, time.Time{}
		for _, m := range w.sorted() {
			w.birdBack(m.Name)
			w.setAlive(m.Name, true)
		}
		w.hold(t, w.run(60))
		w.hold(t, w.settle())
		require.Equal(t, w.d.Mode == rollout.Mesh, w.bgp.MeshOn())
	})
}

// arrangedEvents leaves out what resizes the pool without regard to the topology, and the
// role label on a client: in other topologies than Single it costs that client its
// sessions until it is taken away again.
func arrangedEvents() events {
	e := dedicatedEvents()
	e.names = slices.DeleteFunc(e.names, func(name string) bool { return name == "grow" || name == "shrink" || name == "stray label" })
	return e
}

// Where no label makes racks, rrpool labels the clients, and takes the labels away when
// nothing asks for them any more. Nobody loses a route, also not those who join.
func TestRacksBySize(t *testing.T) {
	t.Parallel()
	for name, leave := range map[string]func(*world){
		"and on to Single":     func(w *world) { require.Empty(t, w.want(v1alpha1.TopologySingle, 2, 3)) },
		"and back to the mesh": func(w *world) { w.d.Mode, w.nextLook = rollout.Mesh, w.now },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(3, 12, 1)
			w.stamps = true
			require.Empty(t, w.wantLimited(v1alpha1.TopologyHierarchy, 2, 3, 5))
			require.Empty(t, w.settle(), w.story())
			w.arrived(t)
			require.Equal(t, map[string]int{"1": 4, "2": 4, "3": 4}, w.racks())
			for i := range 4 {
				w.addNode(fmt.Sprintf("new-%d", i), "zone-1", false)
				require.Empty(t, w.run(100), w.story())
			}
			require.Empty(t, w.wantLimited(v1alpha1.TopologyHierarchy, 2, 3, 5))
			require.Empty(t, w.settle(), w.story())
			require.Equal(t, 16, w.racks()["1"]+w.racks()["2"]+w.racks()["3"]+w.racks()["4"], "%v", w.racks())
			leave(w)
			require.Empty(t, w.settle(), w.story())
			require.Empty(t, w.racks())
		})
	}
}

// racks counts the clients in each rack of ours.
func (w *world) racks() map[string]int {
	out := map[string]int{}
	for _, m := range w.nodes {
		if m.Rack != "" {
			out[m.Rack]++
		}
	}
	return out
}
