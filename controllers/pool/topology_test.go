package pool

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rrpool/rrpool/cloud"
	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/controllers/plan"
	"github.com/rrpool/rrpool/controllers/plan/rollout"
)

// shaping is a turn on a cluster of so many clients in three zones.
func shaping(kind v1alpha1.TopologyType, nodes int) (*turn, []plan.Node) {
	t := &turn{object: &v1alpha1.RouteReflectorPool{}, origin: origin{kind: v1alpha1.ProviderIKS}}
	t.object.Spec.BGP.NodeLabel = "role"
	t.object.Spec.Sizing.Max = 25
	t.object.Spec.Topology = v1alpha1.TopologySpec{
		Type: kind, ClusterID: "244.0.0.1", Redundancy: 3, MaxClientsPerReflector: 500, MaxPathsPerPrefix: 64, ZoneLabel: "zone",
	}
	for i := range nodes {
		zone := fmt.Sprintf("z%d", i%3)
		t.cluster.Nodes = append(t.cluster.Nodes, plan.Node{
			Name: fmt.Sprintf("n%04d", i), Zone: zone, Labels: map[string]string{"zone": zone}, Ready: true,
		})
	}
	return t, t.cluster.Nodes
}

func TestTheTopologySaysHowManyReflectorsItTakes(t *testing.T) {
	zones := []string{"z0", "z1", "z2"}
	for name, tc := range map[string]struct {
		kind    v1alpha1.TopologyType
		nodes   int
		edit    func(*turn)
		known   int // per zone
		want    v1alpha1.TopologyType
		perZone int
		reason  string
		serious bool
	}{
		"a small cluster is Single by itself":     {kind: v1alpha1.TopologyAuto, nodes: 400, want: v1alpha1.TopologySingle, perZone: 1},
		"a large one is not":                      {kind: v1alpha1.TopologyAuto, nodes: 1400, want: v1alpha1.TopologyHierarchy, perZone: 4},
		"racks that take more than the limit":     {kind: v1alpha1.TopologyHierarchy, nodes: 4000, want: v1alpha1.TopologyHierarchy, perZone: 1, reason: ReasonSizingInvalid, serious: true},
		"racks that come to take more":            {kind: v1alpha1.TopologyHierarchy, nodes: 4000, edit: serving("rack-z0-1"), want: v1alpha1.TopologyHierarchy, perZone: 8, reason: ReasonSizingInvalid},
		"too many clients before the migration":   {kind: v1alpha1.TopologySingle, nodes: 600, want: v1alpha1.TopologySingle, perZone: 1, reason: "TooManyClients", serious: true},
		"too many clients of one that is serving": {kind: v1alpha1.TopologySingle, nodes: 600, edit: serving("true"), want: v1alpha1.TopologySingle, perZone: 1, reason: "TooManyClients"},
		"and a change to one that cannot be":      {kind: v1alpha1.TopologySingle, nodes: 600, edit: serving("rack-z0-1"), want: v1alpha1.TopologySingle, perZone: 1, reason: "TooManyClients", serious: true},
		"a pool does not shrink at the edge":      {kind: v1alpha1.TopologyQuorum, nodes: 580, known: 3, want: v1alpha1.TopologyQuorum, perZone: 3},
		"but beyond it":                           {kind: v1alpha1.TopologyQuorum, nodes: 300, known: 3, want: v1alpha1.TopologyQuorum, perZone: 1},
	} {
		t.Run(name, func(t *testing.T) {
			turn, clients := shaping(tc.kind, tc.nodes)
			if tc.edit != nil {
				tc.edit(turn)
			}
			var known *cloud.Pool
			if tc.known > 0 {
				known = &cloud.Pool{Owned: true, SizePerZone: tc.known}
			}
			spec, perZone, problem, serious := shape(turn, known, clients, zones, 1)
			require.Equal(t, tc.serious, serious, "%v", problem)
			require.Equal(t, tc.reason == "", problem == nil, "%v", problem)
			if problem != nil {
				require.Equal(t, tc.reason, problem.Reason)
			}
			require.Equal(t, tc.want, spec.Kind)
			require.Equal(t, tc.perZone, perZone)
		})
	}
}

// serving is a cluster in which a reflector has that seat already.
func serving(seat string) func(*turn) {
	return func(t *turn) {
		t.cluster.Nodes = append(t.cluster.Nodes, plan.Node{Name: "rr", Marked: true, RoleLabel: true, Seat: seat, ClusterID: "244.0.0.1", Pooled: true})
	}
}

func TestOneEventTellsOfAllRacksOfAStep(t *testing.T) {
	a, b := plan.SetRack{Node: "a", Rack: "1"}, plan.SetRack{Node: "b", Rack: "2"}
	step := rollout.Step{Name: "LabelRacks", Reason: "because", Actions: []plan.Action{a, b}}
	require.Contains(t, actionTaken(a, step).note, "on 2 clients, of which the first is a: because")
	require.Zero(t, actionTaken(b, step))
}
