package pool_test

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/controllers/plan"
	"github.com/rrpool/rrpool/controllers/plan/rollout"
)

// Calico-node that does not run is said with the nodes' names, whatever the step is.
func TestCalicoNodeThatDoesNotRunIsSaid(t *testing.T) {
	reflectors := []rollout.Reflector{
		{Node: "10.0.1.1", Established: 8, Expected: 8, NotRunning: true},
		{Node: "10.0.1.2", Established: 8, Expected: 8, Serving: true},
	}
	for name, tc := range map[string]struct {
		step rollout.Step
		want []string
	}{
		"at rest": {
			rollout.Step{Name: rollout.Steady, Reflectors: reflectors},
			[]string{"Ready False CalicoNodeNotRunning", "Degraded True CalicoNodeNotRunning", "ReflectorsEstablished False SessionsMissing"},
		},
		"while the mesh is needed": {
			rollout.Step{Name: "AwaitSessions", Reflectors: reflectors, WaitingFor: []string{"x"}},
			[]string{"Ready False CalicoNodeNotRunning", "Degraded True CalicoNodeNotRunning"},
		},
		"a refusal comes first": {
			rollout.Step{Name: rollout.UnsupportedCluster, Reflectors: reflectors, Problem: &plan.Problem{Reason: "BGPDisabled", Message: "m"}},
			[]string{"Ready False BGPDisabled", "Degraded True BGPDisabled"},
		},
		"all run": {
			rollout.Step{Name: rollout.Steady, Reflectors: reflectors[1:]},
			[]string{"Ready True Steady", "Degraded False AsExpected", "ReflectorsEstablished True AllEstablished"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.meshOff()
			w.cloud.pool.Exists, w.cloud.pool.Owned = true, true
			w.script = always(tc.step)
			w.settle(2)
			w.expect(tc.want...)
		})
	}
	w := newWorld(t)
	w.script = always(rollout.Step{Name: rollout.Steady, Reflectors: reflectors})
	w.settle(1)
	require.Contains(t, w.condition(v1alpha1.ConditionDegraded).Message, "calico-node is not running on 1 of 2 route reflectors: 10.0.1.1: look at its pods")
	require.Equal(t, "calico-node is not running on 10.0.1.1", w.condition(v1alpha1.ConditionReflectorsEstablished).Message, "not its last report")
}

// A spec that is refused changes nothing, and stale reports are asked for again all the same.
func TestARefusedSpecStillAsksForStaleReports(t *testing.T) {
	w := newWorld(t, func(o *v1alpha1.RouteReflectorPool) { o.Spec.Sizing.Min, o.Spec.Sizing.Max = 9, 3 })
	w.meshOff()
	refresh := plan.RefreshStatus{Node: "10.0.0.1"}
	w.script = always(rollout.Step{
		Name: "PromoteReflectors", Again: 7 * time.Second, Actions: []plan.Action{refresh, plan.SetReflector{Node: "10.0.0.2", ClusterID: "1.1.1.1"}},
	})
	require.NoError(t, w.reconcile())
	w.expect("Degraded True SizingInvalid")
	require.Equal(t, []string{refresh.String()}, w.calico.applied)
}

// A report that cannot be asked for holds up no step, and is said.
func TestARefreshThatFailsHoldsUpNothing(t *testing.T) {
	w := newWorld(t)
	w.meshOff()
	refresh := plan.RefreshStatus{Node: "10.0.0.1"}
	w.calico.fail[refresh.String()] = errors.New("it is another's")
	w.script = always(rollout.Step{Name: "RestoreMesh", Urgent: true, Actions: []plan.Action{refresh, plan.RestoreMesh{}}})
	require.ErrorContains(t, w.reconcile(), "it is another's")
	require.Equal(t, []string{plan.RestoreMesh{}.String()}, w.calico.applied)
}
