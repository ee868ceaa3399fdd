package pool_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/utils/ptr"

	"github.com/rrpool/rrpool/cloud"
	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/controllers/plan"
	"github.com/rrpool/rrpool/controllers/plan/rollout"
)

func TestNothingIsWrittenAtRest(t *testing.T) {
	e := newEnvironment(t)
	e.calico.cluster.BGP.Mesh.Enabled = ptr.To(false)
	e.cloud.pool = cloud.Pool{Exists: true, Owned: true, SizePerZone: 1, Zones: []string{"z1", "z2", "z3"}}
	e.script = always(rollout.Step{
		Name: rollout.Steady, Reason: "all is well",
		Reflectors: []rollout.Reflector{{Node: "10.0.1.1", Established: 6, Expected: 6, Serving: true}},
	})
	e.settle(1)
	e.expect("Ready True Steady", "MeshDisabled True MeshOff", "ReflectorsEstablished True AllEstablished")
	require.Equal(t, 1, e.writes)
	reads := e.cloud.observed
	for range 60 { // an hour, with something pushed every minute
		require.NoError(t, e.reconcile())
		e.clock = e.clock.Add(time.Minute)
	}
	require.Equal(t, 1, e.writes, "not even a status")
	require.LessOrEqual(t, 2*(e.cloud.observed-reads), 60, "two reads each, at most one a minute")
	require.Empty(t, e.calico.applied)
	require.Empty(t, e.emitted)

	e.restart()
	e.settle(2)
	require.Equal(t, 1, e.writes, "a restart says nothing new")

	e.script = always(rollout.Step{Name: "AwaitSessions", WaitingFor: []string{"a session"}})
	e.settle(1)
	require.Equal(t, 2, e.writes, "the count above counts")
}

func TestTheMeshNeedsNoProvider(t *testing.T) {
	e := newEnvironment(t, func(o *v1alpha1.RouteReflectorPool) { o.Spec.Mode = v1alpha1.ModeFullMesh })
	require.NoError(t, e.client.Delete(t.Context(), secret("")))
	e.settle(2)
	e.expect("Ready True Steady", "ProviderReady False CredentialsMissing", "Degraded False AsExpected", "MeshDisabled False MeshOn")
	require.Empty(t, e.emitted)
}

func TestUnknownWhenTheClusterCannotBeObserved(t *testing.T) {
	e := newEnvironment(t)
	e.script = always(steady)
	e.settle(1)
	nodes := e.object().Status.Nodes
	for port := range 5 {
		e.calico.err = fmt.Errorf("dial 127.0.0.1:%d: refused", port)
		require.Error(t, e.reconcile())
	}
	for _, c := range e.object().Status.Conditions {
		require.Equal(t, "Unknown ObservationFailed", fmt.Sprintf("%s %s", c.Status, c.Reason))
		require.Contains(t, c.Message, "127.0.0.1:0", "the first of a series stands for all")
	}
	require.Equal(t, nodes, e.object().Status.Nodes)
	require.Equal(t, 2, e.writes)
}

func TestPausedOnlyReports(t *testing.T) {
	e := newEnvironment(t, func(o *v1alpha1.RouteReflectorPool) {
		o.Spec.Mode, o.Finalizers = v1alpha1.ModePaused, nil
	})
	e.calico.watched = []plan.StatusRequest{{Node: "kept"}}
	e.script = always(rollout.Step{Name: "DisableMesh", Actions: []plan.Action{plan.DisableMesh{}}})
	e.settle(3)
	require.Empty(t, e.calico.applied)
	require.Equal(t, []plan.StatusRequest{{Node: "kept"}}, e.calico.watched)
	require.Empty(t, e.object().Finalizers)
	e.expect("Ready False Paused", "Progressing False Paused")
	require.Equal(t, "DisableMesh", e.object().Status.Step.Name)
	require.Contains(t, e.object().Status.Step.WaitingFor, "would switch the node-to-node mesh off")
	require.Equal(t, 1, e.writes)
}

func TestConditionsAreInOrderAndCapped(t *testing.T) {
	e := newEnvironment(t)
	var many []string
	for i := range 5000 {
		many = append(many, fmt.Sprintf("10.0.0.7 ↔ 10.1.%d.%d not Established", i/256, i%256))
	}
	e.script = always(rollout.Step{Name: "AwaitSessions", WaitingFor: many})
	e.settle(1)
	var kinds []string
	for _, c := range e.object().Status.Conditions {
		kinds = append(kinds, c.Type)
		require.EqualValues(t, 1, c.ObservedGeneration)
		require.NotEmpty(t, c.Reason)
	}
	require.Equal(t, []string{"Ready", "ProviderReady", "ReflectorsEstablished", "MeshDisabled", "Progressing", "Degraded"}, kinds)
	require.Contains(t, e.condition(v1alpha1.ConditionReady).Message, "and 4997 more")
	require.Len(t, e.object().Status.Step.WaitingFor, 11)
}
