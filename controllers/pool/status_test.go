package pool_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rrpool/rrpool/cloud"
	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/controllers/plan"
	"github.com/rrpool/rrpool/controllers/plan/rollout"
)

func TestNothingIsWrittenAtRest(t *testing.T) {
	w := newWorld(t)
	off := false
	w.calico.cluster.BGP.Mesh.Enabled = &off
	w.cloud.pool = cloud.Pool{Exists: true, Owned: true, SizePerZone: 1, Zones: []string{"z1", "z2", "z3"}}
	w.script = always(rollout.Step{
		Name: rollout.Steady, Reason: "all is well",
		Reflectors: []rollout.Reflector{{Node: "10.0.1.1", Established: 6, Expected: 6, Serving: true}},
	})
	w.settle(1)
	w.expect("Ready True Steady", "MeshDisabled True MeshOff", "ReflectorsEstablished True AllEstablished")
	require.Equal(t, 1, w.writes)
	reads := w.cloud.observed
	for range 60 { // an hour, with something pushed every minute
		require.NoError(t, w.reconcile())
		w.clock = w.clock.Add(time.Minute)
	}
	require.Equal(t, 1, w.writes, "not even a status")
	require.LessOrEqual(t, 2*(w.cloud.observed-reads), 60, "two reads each, at most one a minute")
	require.Empty(t, w.calico.applied)
	require.Empty(t, w.said)

	w.restart()
	w.settle(2)
	require.Equal(t, 1, w.writes, "a restart says nothing new")

	w.script = always(rollout.Step{Name: "AwaitSessions", WaitingFor: []string{"a session"}})
	w.settle(1)
	require.Equal(t, 2, w.writes, "the count above counts")
}

func TestTheMeshNeedsNoProvider(t *testing.T) {
	w := newWorld(t, func(o *v1alpha1.RouteReflectorPool) { o.Spec.Mode = v1alpha1.ModeFullMesh })
	require.NoError(t, w.client.Delete(t.Context(), secret("")))
	w.settle(2)
	w.expect("Ready True Steady", "ProviderReady False CredentialsMissing", "Degraded False AsExpected", "MeshDisabled False MeshOn")
	require.Empty(t, w.said)
}

func TestUnknownWhenTheClusterCannotBeObserved(t *testing.T) {
	w := newWorld(t)
	w.script = always(steady)
	w.settle(1)
	nodes := w.object().Status.Nodes
	for port := range 5 {
		w.calico.err = fmt.Errorf("dial 127.0.0.1:%d: refused", port)
		require.Error(t, w.reconcile())
	}
	for _, c := range w.object().Status.Conditions {
		require.Equal(t, "Unknown ObservationFailed", fmt.Sprintf("%s %s", c.Status, c.Reason))
		require.Contains(t, c.Message, "127.0.0.1:0", "the first of a series stands for all")
	}
	require.Equal(t, nodes, w.object().Status.Nodes)
	require.Equal(t, 2, w.writes)
}

func TestPausedOnlyReports(t *testing.T) {
	w := newWorld(t, func(o *v1alpha1.RouteReflectorPool) {
		o.Spec.Mode, o.Finalizers = v1alpha1.ModePaused, nil
	})
	w.calico.watched = []plan.StatusRequest{{Node: "kept"}}
	w.script = always(rollout.Step{Name: "DisableMesh", Actions: []plan.Action{plan.DisableMesh{}}})
	w.settle(3)
	require.Empty(t, w.calico.applied)
	require.Equal(t, []plan.StatusRequest{{Node: "kept"}}, w.calico.watched)
	require.Empty(t, w.object().Finalizers)
	w.expect("Ready False Paused", "Progressing False Paused")
	require.Equal(t, "DisableMesh", w.object().Status.Step.Name)
	require.Contains(t, w.object().Status.Step.WaitingFor, "would switch the node-to-node mesh off")
	require.Equal(t, 1, w.writes)
}

func TestSinceIsKeptWhileTheStepLasts(t *testing.T) {
	w := newWorld(t)
	w.script = always(rollout.Step{Name: "AwaitSessions", WaitingFor: []string{"a"}})
	w.settle(1)
	since := w.object().Status.Step.Since
	w.script = always(rollout.Step{Name: "AwaitSessions", WaitingFor: []string{"b"}})
	w.clock = w.clock.Add(time.Hour)
	w.settle(1)
	require.True(t, since.Equal(&w.object().Status.Step.Since))
	w.script = always(rollout.Step{Name: "DisableMesh"})
	w.settle(1)
	require.False(t, since.Equal(&w.object().Status.Step.Since))
}

func TestConditionsAreInOrderAndCapped(t *testing.T) {
	w := newWorld(t)
	var many []string
	for i := range 5000 {
		many = append(many, fmt.Sprintf("10.0.0.7 ↔ 10.1.%d.%d not Established", i/256, i%256))
	}
	w.script = always(rollout.Step{Name: "AwaitSessions", WaitingFor: many})
	w.settle(1)
	var kinds []string
	for _, c := range w.object().Status.Conditions {
		kinds = append(kinds, c.Type)
		require.EqualValues(t, 1, c.ObservedGeneration)
		require.NotEmpty(t, c.Reason)
	}
	require.Equal(t, []string{"Ready", "ProviderReady", "ReflectorsEstablished", "MeshDisabled", "Progressing", "Degraded"}, kinds)
	require.Contains(t, w.condition(v1alpha1.ConditionReady).Message, "and 4997 more")
	require.Len(t, w.object().Status.Step.WaitingFor, 11)
}
