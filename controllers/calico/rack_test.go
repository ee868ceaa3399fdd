package calico

import (
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/rrpool/rrpool/controllers/plan"
	"github.com/rrpool/rrpool/controllers/plan/topology"
)

func TestASeatIsTheValueOfTheRoleLabel(t *testing.T) {
	for name, tc := range map[string]struct {
		// found is the label's value when the role is given.
		found, seat, written string
		change               bool
	}{
		"no seat is that of Single":           {"true", "", "true", false},
		"the seat of Single by name":          {"true", topology.SeatSingle, "true", false},
		"a label without a value":             {"", "", "true", true},
		"a value that somebody has changed":   {"yes", "", "true", true},
		"from Single to a seat":               {"true", "quorum-us-south-1-1", "quorum-us-south-1-1", true},
		"the seat that the node has":          {"spine-2", "spine-2", "spine-2", false},
		"from one seat to another":            {"rack-a-1", "rack-a-2", "rack-a-2", true},
		"from a seat to Single, not by name":  {"rack-a-1", "", "true", true},
		"a seat that a person has taken away": {"", "rack-a-1", "rack-a-1", true},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			b.node(five, func(n *corev1.Node) {
				n.Labels = map[string]string{"kept": "yes", scope.RoleLabel: tc.found}
				n.Annotations[clusterIDAnnotation], n.Annotations[sinceAnnotation] = "244.0.0.1", rfc3339(b.clock.Now())
			})
			set := plan.SetReflector{Node: five, ClusterID: "244.0.0.1", Seat: tc.seat}
			var writes []string
			if tc.change {
				writes = []string{"patch nodes/" + five}
			}
			require.Equal(t, writes, b.writes(func() { b.apply(set, tc.change) }))
			require.Equal(t, map[string]string{"kept": "yes", scope.RoleLabel: tc.written}, b.liveNode(five).Labels)
			require.Empty(t, b.writes(func() { b.apply(set, false) }), "written once, it stays")
			b.clean()
		})
	}
}

func TestARackIsGivenAndTakenInOneWriteEach(t *testing.T) {
	b := newBench(t)
	b.node(five, func(n *corev1.Node) { n.Labels = map[string]string{"kept": "yes"} })
	b.run()
	patch := []string{"patch nodes/" + five}
	one, two, none := plan.SetRack{Node: five, Rack: "1"}, plan.SetRack{Node: five, Rack: "2"}, plan.SetRack{Node: five}
	require.Equal(t, patch, b.writes(func() { b.apply(one, true) }))
	require.Equal(t, map[string]string{"kept": "yes", "rrpool.io/rack": "1"}, b.liveNode(five).Labels)
	require.Equal(t, "1", b.observe().Nodes[0].Rack)
	require.Empty(t, b.writes(func() { b.apply(one, false) }))
	require.Equal(t, patch, b.writes(func() { b.apply(two, true) }))
	require.Equal(t, "2", b.observe().Nodes[0].Rack)
	require.Equal(t, patch, b.writes(func() { b.apply(none, true) }))
	live := b.liveNode(five)
	require.Equal(t, map[string]string{"kept": "yes"}, live.Labels)
	require.Equal(t, map[string]string{ipv4Annotation: five + "/24"}, live.Annotations, "a client is no reflector")
	require.Empty(t, b.writes(func() { b.apply(none, false) }))
	b.apply(plan.SetRack{Node: "10.240.0.99", Rack: "1"}, false)
	b.apply(plan.SetRack{Node: "10.240.0.99"}, false)
}

func TestALabelWithoutARackGoesAsWell(t *testing.T) {
	b := newBench(t)
	b.node(five, func(n *corev1.Node) { n.Labels = map[string]string{plan.RackLabel: ""} })
	b.apply(plan.SetRack{Node: five}, true)
	require.NotContains(t, b.liveNode(five).Labels, plan.RackLabel)
}

func TestAnotherMachineOfTheNameGetsNoRack(t *testing.T) {
	b := newBench(t)
	old := b.node(five, nil)
	require.NoError(t, b.kube.Delete(t.Context(), old.DeepCopy()))
	b.node(five, nil)
	b.nodes = &frozen{node: *old}
	_, err := b.Apply(t.Context(), scope, plan.SetRack{Node: five, Rack: "1"})
	require.True(t, IsConflict(err), "got %v", err)
	require.NotContains(t, b.liveNode(five).Labels, plan.RackLabel)
}

// The role is not the rack: neither write touches the other's label.
func TestRoleAndRackLeaveEachOtherAlone(t *testing.T) {
	b := newBench(t)
	b.node(five, nil)
	b.apply(plan.SetRack{Node: five, Rack: "1"}, true)
	b.apply(plan.SetReflector{Node: five, ClusterID: "244.0.0.2", Seat: "rack-1-1"}, true)
	require.Equal(t, map[string]string{scope.RoleLabel: "rack-1-1", plan.RackLabel: "1"}, b.liveNode(five).Labels)
	b.apply(plan.ClearReflector{Node: five}, true)
	require.Equal(t, map[string]string{plan.RackLabel: "1"}, b.liveNode(five).Labels)
}
