package topology_test

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/controllers/plan"
	"github.com/rrpool/rrpool/controllers/plan/reason"
	"github.com/rrpool/rrpool/controllers/plan/topology"
)

const (
	auto      = v1alpha1.TopologyAuto
	single    = v1alpha1.TopologySingle
	quorum    = v1alpha1.TopologyQuorum
	hierarchy = v1alpha1.TopologyHierarchy
	multi     = v1alpha1.TopologyMultiCluster
)

func TestSize(t *testing.T) {
	for name, tc := range map[string]struct {
		kind, now             v1alpha1.TopologyType
		clients, zones, sized int
		want                  v1alpha1.TopologyType
		total                 int
	}{
		"Single takes what sizing asks for, as many in each zone": {kind: single, clients: 497, zones: 3, sized: 7, want: single, total: 9},
		"no kind is Single":                                             {clients: 497, zones: 3, sized: 3, want: single, total: 3},
		"Quorum never takes fewer":                                      {kind: quorum, clients: 400, zones: 3, sized: 9, want: quorum, total: 9},
		"Quorum takes more where they would have too many":              {kind: quorum, clients: 2500, zones: 3, sized: 3, want: quorum, total: 9},
		"Quorum by size, in one zone":                                   {kind: quorum, clients: 2500, zones: 1, sized: 3, want: quorum, total: 7},
		"Hierarchy takes three for each zone and three spines":          {kind: hierarchy, clients: 400, zones: 3, sized: 9, want: hierarchy, total: 12},
		"Hierarchy without racks needs no spines":                       {kind: hierarchy, clients: 400, zones: 1, sized: 9, want: hierarchy, total: 3},
		"Auto is Single while that holds":                               {kind: auto, clients: 2000, zones: 3, sized: 3, want: single, total: 3},
		"Auto survives what redundancy asks for":                        {kind: auto, clients: 100, zones: 1, sized: 1, want: single, total: 3},
		"Auto is Quorum next":                                           {kind: auto, clients: 2001, zones: 3, sized: 3, want: quorum, total: 9},
		"Auto is Hierarchy where Quorum takes more":                     {kind: auto, clients: 3100, zones: 3, sized: 3, want: hierarchy, total: 12},
		"Auto stays a Quorum at 95% of what Single would hold":          {kind: auto, now: quorum, clients: 1900, zones: 3, sized: 3, want: quorum, total: 3},
		"Auto leaves a Quorum at 90%":                                   {kind: auto, now: quorum, clients: 1800, zones: 3, sized: 3, want: single, total: 3},
		"Auto stays a Hierarchy at 95% of what Quorum would hold":       {kind: auto, now: hierarchy, clients: 2850, zones: 3, sized: 3, want: hierarchy, total: 12},
		"a kind that was asked for is not kept back":                    {kind: single, now: hierarchy, clients: 1900, zones: 3, sized: 3, want: single, total: 3},
		"MultiCluster with three reflectors is fine":                    {kind: multi, clients: 100, zones: 3, sized: 3, want: multi, total: 3},
		"MultiCluster with four as well, if a client has three of them": {kind: multi, clients: 100, zones: 1, sized: 4, want: multi, total: 4},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(tc.kind, tc.zones).joinAll(tc.clients)
			spec, total, problem := topology.Size(w.spec, w.clients, w.zones, tc.sized, tc.now)
			require.Nil(t, problem)
			require.Equal(t, tc.want, spec.Kind)
			require.Equal(t, tc.total, total)
		})
	}
}

func TestRefusalsNameFieldValueAndRemedy(t *testing.T) {
	for name, tc := range map[string]struct {
		kind                  v1alpha1.TopologyType
		clients, zones, sized int
		edit                  func(*world)
		reason, message       string
	}{
		"Single with too many clients": {
			kind: single, clients: 2500, zones: 3, sized: 3, reason: reason.TooManyClients,
			message: "spec.topology.type: in Single with 3 reflectors, each of them would serve 2500 clients, and " +
				"spec.topology.maxClientsPerReflector is 2000: set spec.topology.type to Quorum, which takes 9 reflectors, or raise the limit",
		},
		"Quorum with too many": {
			kind: quorum, clients: 5000, zones: 3, sized: 6, reason: reason.TooManyClients,
			message: "spec.topology.type: in Quorum with 6 reflectors, each of the busiest would serve 5000 clients, and " +
				"spec.topology.maxClientsPerReflector is 2000: set spec.topology.type to Hierarchy, which takes 12 reflectors, or raise the limit",
		},
		"a rack that is too large": {
			kind: hierarchy, clients: 5000, zones: 3, sized: 3, reason: reason.TooManyClients, edit: racks(2),
			message: "spec.topology.type: in Hierarchy with 9 reflectors, each reflector of rack r0 would serve 2500 clients, and " +
				"spec.topology.maxClientsPerReflector is 2000: leave out spec.topology.rackLabel example.com/rack, so that rrpool makes groups " +
				"that fit, or raise the limit",
		},
		"a label of which every node has its own value": {
			kind: hierarchy, clients: 60, zones: 3, sized: 3, reason: reason.TooManyRacks, edit: racks(60),
			message: "spec.topology.rackLabel: example.com/rack makes 60 racks of 60 nodes, which would take 183 reflectors: " +
				"name a label that more nodes share, or leave it out",
		},
		"more racks than BGPPeers can be": {
			kind: quorum, clients: 600, zones: 3, sized: 6, reason: reason.TooManyRacks, edit: racks(300),
			message: "spec.topology.rackLabel: example.com/rack makes 300 groups of 600 nodes, and 200 are possible: " +
				"name a label that more nodes share, or leave it out",
		},
		"more racks of a size than can be": {
			kind: hierarchy, clients: 300, zones: 1, sized: 3, reason: reason.TooManyRacks, edit: func(w *world) { w.spec.MaxClients = 1 },
			message: "spec.topology.maxClientsPerReflector: 1 makes 201 groups of 300 nodes, and 200 are possible: raise it",
		},
		"MultiCluster with five reflectors": {
			kind: multi, clients: 100, zones: 1, sized: 5, reason: reason.TooManyPaths,
			message: "spec.topology.type: MultiCluster with 5 reflectors and spec.topology.redundancy 3 gives nodes up to 129 paths to each " +
				"prefix, and spec.topology.maxPathsPerPrefix is 64: set spec.topology.type to Single, which takes 5 reflectors, or lower " +
				"spec.topology.redundancy, or raise the limit",
		},
		"Hierarchy with five of each": {
			kind: hierarchy, clients: 100, zones: 2, sized: 5, reason: reason.TooManyPaths, edit: func(w *world) { w.spec.Redundancy = 5 },
			message: "spec.topology.type: Hierarchy with 16 reflectors and spec.topology.redundancy 5 gives nodes up to 125 paths to each " +
				"prefix, and spec.topology.maxPathsPerPrefix is 64: set spec.topology.type to Single, which takes 6 reflectors, or lower " +
				"spec.topology.redundancy, or raise the limit",
		},
		"Single with more reflectors than paths": {
			kind: single, clients: 100, zones: 1, sized: 65, reason: reason.TooManyPaths,
			message: "spec.topology.type: Single with 65 reflectors and spec.topology.redundancy 3 gives nodes up to 65 paths to each " +
				"prefix, and spec.topology.maxPathsPerPrefix is 64: set spec.topology.type to Hierarchy, which takes 3 reflectors, or raise the limit",
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(tc.kind, tc.zones).joinAll(tc.clients)
			if tc.edit != nil {
				tc.edit(w)
			}
			problem := w.size(tc.sized)
			require.NotNil(t, problem)
			require.Equal(t, plan.Problem{Reason: tc.reason, Message: tc.message}, *problem)
		})
	}
}

// racks labels the clients with so many racks.
func racks(n int) func(*world) {
	return func(w *world) {
		w.spec.RackLabel = rackLabel
		for i := range w.clients {
			w.clients[i].Labels[rackLabel] = fmt.Sprintf("r%d", i%n)
		}
	}
}

// A Hierarchy whose racks go by size, from its first rack to the third and back. No client
// that is there already loses a session meanwhile.
func TestRacksBySizeOpenWhenTheOthersAreFull(t *testing.T) {
	w := newWorld(hierarchy, 1)
	w.spec.MaxClients, w.spec.Redundancy = 20, 2
	state := func() map[string]int {
		out := map[string]int{}
		for _, g := range w.arrange().Groups {
			out[g.Name] = g.Clients
		}
		return out
	}
	w.joinAll(19).settle(2)
	require.Equal(t, map[string]int{"1": 19}, state())
	require.False(t, slices.ContainsFunc(w.peers, topology.SelectsByRack), "one rack needs no labels")
	for _, step := range []struct {
		join int
		want map[string]int
	}{
		{1, map[string]int{"1": 20, "2": 0}},
		{12, map[string]int{"1": 20, "2": 12}},
		{30, map[string]int{"1": 20, "2": 42, "3": 0}}, // they were served at once, and stay
		{5, map[string]int{"1": 20, "2": 42, "3": 5}},
	} {
		before := w.sessions()
		_, problem := w.joinAll(step.join).settle(2)
		require.Nil(t, problem)
		require.Equal(t, step.want, state())
		for name, peers := range before {
			require.Subset(t, w.sessions()[name], peers[:w.spec.Redundancy])
		}
		require.Empty(t, w.network().Unreached(all))
	}
	before := w.sessions()
	leave := func(rack string, n int) {
		w.clients = slices.DeleteFunc(slices.Clone(w.clients), func(c plan.Node) bool {
			n -= map[bool]int{c.Rack == rack: 1}[true]
			return c.Rack == rack && n >= 0
		})
		w.settle(2)
	}
	leave("3", 5)
	require.Equal(t, map[string]int{"1": 20, "2": 42, "3": 0}, state(), "the others have no room")
	leave("1", 1)
	require.Equal(t, map[string]int{"1": 19, "2": 42, "3": 0}, state(), "not room enough")
	leave("1", 2)
	require.Equal(t, map[string]int{"1": 17, "2": 42}, state())
	for _, n := range w.clients {
		require.Equal(t, before[n.Name], w.sessions()[n.Name])
	}
}

// Labels are written in many steps, and the manager may stop at any of them.
func TestLabelsWrittenHalfWayMoveNoClient(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(rapid.SampledFrom([]v1alpha1.TopologyType{quorum, hierarchy}).Draw(t, "kind"), 1)
		w.spec.MaxClients = rapid.IntRange(40, 60).Draw(t, "limit")
		_, problem := w.joinAll(45).settle(5)
		if problem != nil {
			t.Skip(problem.Message)
		}
		w.joinAll(rapid.IntRange(1, 40).Draw(t, "newcomers"))
		before := w.sessions()
		for range 10 {
			l := w.arrange()
			if len(l.Racks) == 0 {
				break
			}
			some := slices.Sorted(maps.Keys(l.Racks))[:rapid.IntRange(1, min(15, len(l.Racks))).Draw(t, "written")]
			maps.DeleteFunc(l.Racks, func(name, _ string) bool { return !slices.Contains(some, name) })
			slots := w.reflectors
			w.follow(l)
			w.reflectors = slots
			require.Equal(t, before, w.sessions())
		}
	})
}
