package pool_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/rrpool/rrpool/cloud"
	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/controllers/plan"
	"github.com/rrpool/rrpool/controllers/plan/rollout"
)

const sessionTimeout = 5 * time.Minute

func impatient(o *v1alpha1.RouteReflectorPool) {
	o.Spec.Rollout.SessionTimeout.Duration = sessionTimeout
	o.Spec.Rollout.RemovalDelay.Duration = time.Minute
}

func timerGate(o *v1alpha1.RouteReflectorPool) {
	impatient(o)
	o.Spec.Rollout.Gate = v1alpha1.GateTimer
}

func TestAWaitThatLastsTooLongIsSaid(t *testing.T) {
	missing := []string{"10.0.1.1 ↔ 10.0.0.7 to be Established"}
	cases := map[string]struct {
		change  func(*v1alpha1.RouteReflectorPool)
		step    rollout.Step
		after   time.Duration
		degrade string
	}{
		"missing sessions":                   {step: rollout.Step{Name: "AwaitSessions", WaitingFor: missing}, after: sessionTimeout, degrade: "SessionTimeout"},
		"missing routes":                     {step: rollout.Step{Name: "AwaitRoutes", WaitingFor: missing}, after: sessionTimeout, degrade: "SessionTimeout"},
		"a mesh that does not come":          {step: rollout.Step{Name: "AwaitMesh", WaitingFor: missing}, after: sessionTimeout, degrade: "SessionTimeout"},
		"a promotion that is not prepared":   {step: rollout.Step{Name: "StagePeers", WaitingFor: missing}, after: sessionTimeout, degrade: "SessionTimeout"},
		"a promotion that cannot be":         {step: rollout.Step{Name: "PromoteReflectors", WaitingFor: missing}, after: sessionTimeout, degrade: "SessionTimeout"},
		"a demotion that is not prepared":    {step: rollout.Step{Name: "StageDemotion", WaitingFor: missing}, after: sessionTimeout, degrade: "SessionTimeout"},
		"a demotion that cannot be":          {step: rollout.Step{Name: "DemoteReflectors", WaitingFor: missing}, after: sessionTimeout, degrade: "SessionTimeout"},
		"a cluster ID that cannot change":    {step: rollout.Step{Name: "ChangeClusterID", WaitingFor: missing}, after: sessionTimeout, degrade: "SessionTimeout"},
		"a reflector that cannot go":         {step: rollout.Step{Name: "RemoveReflector", WaitingFor: missing}, after: sessionTimeout + time.Minute, degrade: "SessionTimeout"},
		"the removal delay is no trouble":    {step: rollout.Step{Name: "RemoveReflector", WaitingFor: missing}, after: sessionTimeout - 62*time.Second},
		"workers that do not come":           {step: rollout.Step{Name: "EnsurePool", WaitingFor: missing}, after: time.Hour, degrade: "WorkersLate"},
		"workers that take half an hour":     {step: rollout.Step{Name: "EnsurePool", WaitingFor: missing}, after: 30 * time.Minute},
		"a worker that does not go":          {step: rollout.Step{Name: "RetireWorker", WaitingFor: missing}, after: time.Hour, degrade: "WorkersLate"},
		"a step that waits for nothing":      {step: rollout.Step{Name: "AwaitSessions"}, after: sessionTimeout},
		"rest":                               {step: rollout.Step{Name: rollout.Steady}, after: 24 * time.Hour},
		"fixed waits, which observe nothing": {change: timerGate, step: rollout.Step{Name: "AwaitSessions", WaitingFor: missing}, after: sessionTimeout},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			change := impatient
			if tc.change != nil {
				change = tc.change
			}
			w := newWorld(t, change)
			w.cloud.pool = cloud.Pool{Exists: true, Owned: true, Name: "route-reflectors", Zones: []string{"z1"}, ClusterZones: []string{"z1"}}
			w.script = always(tc.step)
			require.NoError(t, w.reconcile())
			applied := len(w.calico.applied)
			w.clock = w.clock.Add(tc.after)
			require.NoError(t, w.reconcile())
			w.expect("Degraded False AsExpected")
			w.clock = w.clock.Add(time.Second)
			for range 3 {
				require.NoError(t, w.reconcile())
				w.clock = w.clock.Add(time.Minute)
			}
			require.Len(t, w.calico.applied, applied, "what is done stays the same")
			if tc.degrade == "" {
				w.expect("Degraded False AsExpected")
				require.Empty(t, w.said)
				return
			}
			w.expect("Degraded True " + tc.degrade)
			require.Contains(t, w.condition(v1alpha1.ConditionDegraded).Message, missing[0])
			require.Len(t, w.said, 1, "once")
			require.True(t, strings.HasPrefix(w.said[0], "Warning "+tc.degrade), w.said[0])
			writes := w.writes
			require.NoError(t, w.reconcile())
			require.Equal(t, writes, w.writes, "said is said")

			w.script = always(rollout.Step{Name: "DisableMesh"})
			require.NoError(t, w.reconcile())
			w.expect("Degraded False AsExpected")
			require.Len(t, w.said, 2)
			require.Contains(t, w.said[1], "no longer hindered by "+tc.degrade)
		})
	}
}

func TestAWaitOutlivesTheManager(t *testing.T) {
	w := newWorld(t, impatient)
	w.script = always(rollout.Step{Name: "AwaitSessions", WaitingFor: []string{"a"}})
	require.NoError(t, w.reconcile())
	w.clock = w.clock.Add(sessionTimeout + time.Second)
	w.restart()
	require.NoError(t, w.reconcile())
	w.expect("Degraded True SessionTimeout")

	object := w.object()
	object.Status.Step.Since = metav1.Time{}
	require.NoError(t, w.client.Status().Update(t.Context(), object))
	w.restart()
	require.NoError(t, w.reconcile())
	w.expect("Degraded False AsExpected")
	require.False(t, w.object().Status.Step.Since.IsZero(), "begun anew")
}

// Three reflectors that change their ID one after the other, and the batches of
// a large mesh, are many waits and not a long one.
func TestProgressBeginsTheWaitAnew(t *testing.T) {
	for name, progress := range map[string]rollout.Step{
		"a change": {Name: "ChangeClusterID", Actions: []plan.Action{plan.SetReflector{Node: "n"}}},
		"a batch": {
			Name: "ChangeClusterID", WaitingFor: []string{"the next nodes"}, Proven: []string{"a", "b"},
			Watch: []plan.Watch{{Node: "a"}, {Node: "b"}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, impatient)
			waiting := rollout.Step{Name: "ChangeClusterID", WaitingFor: []string{"a"}}
			for _, step := range []rollout.Step{waiting, progress, waiting} {
				w.script = always(step)
				require.NoError(t, w.reconcile())
				w.expect("Degraded False AsExpected")
				w.clock = w.clock.Add(sessionTimeout - time.Second)
			}
			w.script = always(rollout.Step{
				Name: "ChangeClusterID", WaitingFor: []string{"a"}, Actions: []plan.Action{plan.RefreshStatus{Node: "a"}},
				Proven: []string{"a"}, Watch: []plan.Watch{{Node: "a"}, {Node: "b"}},
			})
			require.NoError(t, w.reconcile())
			w.expect("Degraded True SessionTimeout")
		})
	}
}

func TestThePoolsNameIsReportedWhileItIsOurs(t *testing.T) {
	ours := cloud.Pool{Exists: true, Owned: true, Name: "route-reflectors", ClusterZones: []string{"z1"}}
	foreign := ours
	foreign.Owned = false
	w := newWorld(t)
	w.script = always(rollout.Step{Name: "EnsurePool"})
	for _, at := range []struct {
		says string
		pool cloud.Pool
		err  error
		want string
	}{
		{"none yet", cloud.Pool{}, nil, ""},
		{"unknown from the start", ours, &cloud.Error{Kind: cloud.Unavailable, Op: "x"}, ""},
		{"ours", ours, nil, "route-reflectors"},
		{"unknown", cloud.Pool{}, &cloud.Error{Kind: cloud.Unauthorized, Op: "x"}, "route-reflectors"},
		{"gone", cloud.Pool{}, nil, ""},
		{"somebody else's", foreign, nil, ""},
		{"ours again", ours, nil, "route-reflectors"},
	} {
		w.cloud.pool, w.cloud.observeErr = at.pool, at.err
		w.clock = w.clock.Add(time.Hour)
		require.NoError(t, w.reconcile())
		require.Equal(t, at.want, w.object().Status.Pool, at.says)
	}
	w.restart()
	require.NoError(t, w.client.Delete(t.Context(), secret("")))
	require.NoError(t, w.reconcile())
	require.Equal(t, "route-reflectors", w.object().Status.Pool, "without a provider it is what it was")
}
