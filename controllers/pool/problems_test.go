package pool_test

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/rrpool/rrpool/cloud"
	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/controllers/plan"
	"github.com/rrpool/rrpool/controllers/plan/evidence"
	"github.com/rrpool/rrpool/controllers/plan/rollout"
	"github.com/rrpool/rrpool/test/docs/links"
)

// A message about a problem ends with the address that explains it, in the conditions and
// in the event. Other messages have none.
func TestAProblemsMessageEndsWithItsPage(t *testing.T) {
	stuck := rollout.Step{Name: rollout.UnsupportedCluster, Problem: &plan.Problem{Reason: "ForeignReflector", Message: strings.Repeat("long ", 400)}}
	for name, tc := range map[string]struct {
		change func(*environment)
		want   map[string]string // the page by condition
		event  string
	}{
		"at rest": {func(e *environment) { e.script = always(steady) }, nil, ""},
		"on the way": {func(e *environment) {
			e.script = always(rollout.Step{Name: "AwaitSessions", WaitingFor: []string{"a session"}})
		}, nil, ""},
		"a refusal": {func(e *environment) { e.script = always(stuck) }, map[string]string{"Ready": "ForeignReflector", "Degraded": "ForeignReflector"}, "ForeignReflector"},
		"the cloud": {func(e *environment) {
			e.cloud.observeErr = &cloud.Error{Kind: cloud.Unauthorized, Op: "ask", Message: "no."}
		}, map[string]string{"Ready": "CloudUnauthorized", "ProviderReady": "CloudUnauthorized", "Degraded": "CloudUnauthorized"}, "CloudUnauthorized"},
		"a step fails": {func(e *environment) { e.fails("is forbidden") }, map[string]string{"Degraded": "StepFailed"}, ""},
		"nothing is seen": {
			func(e *environment) { e.calico.err = errors.New("no answer") },
			map[string]string{"Ready": "ObservationFailed", "ProviderReady": "ObservationFailed", "ReflectorsEstablished": "ObservationFailed", "MeshDisabled": "ObservationFailed", "Progressing": "ObservationFailed", "Degraded": "ObservationFailed"},
			"",
		},
	} {
		t.Run(name, func(t *testing.T) {
			e := newEnvironment(t)
			tc.change(e)
			_ = e.reconcile() // what fails is in the conditions
			have := map[string]string{}
			for _, c := range e.object().Status.Conditions {
				require.LessOrEqual(t, len(c.Message), 1024)
				if text := plan.Unlinked(c.Message, c.Reason); text != c.Message {
					have[c.Type] = c.Reason
				} else {
					require.NotContains(t, c.Message, plan.Docs, c.Type)
				}
			}
			if tc.want == nil {
				tc.want = map[string]string{}
			}
			require.Equal(t, tc.want, have)
			for _, reason := range slices.Sorted(maps.Values(have)) {
				require.NoError(t, links.Leads(os.DirFS("../.."), "docs/"+plan.Page(reason)))
			}
			if tc.event != "" {
				require.Len(t, e.emitted, 1)
				require.True(t, strings.HasSuffix(e.emitted[0], "; see "+plan.Docs+plan.Page(tc.event)), e.emitted)
			}
		})
	}
}

func (e *environment) fails(why string) {
	action := plan.SetReflector{Node: "10.0.1.1", ClusterID: "224.0.0.1"}
	e.calico.fail[action.String()] = errors.New(why)
	e.script = always(rollout.Step{Name: "PromoteReflectors", Actions: []plan.Action{action}})
}

const sessionTimeout = 5 * time.Minute

func TestAWaitThatLastsTooLongIsSaid(t *testing.T) {
	missing := []string{"10.0.1.1 ↔ 10.0.0.7 to be Established"}
	waits := func(what rollout.Awaited) rollout.Step {
		return rollout.Step{Name: "Waits", WaitingFor: missing, Awaits: what, Timeout: sessionTimeout}
	}
	for name, tc := range map[string]struct {
		step    rollout.Step
		after   time.Duration
		degrade string
	}{
		"sessions":                     {waits(rollout.AwaitsSessions), sessionTimeout, "SessionTimeout"},
		"sessions, for a shorter time": {waits(rollout.AwaitsSessions), sessionTimeout - 122*time.Second, ""},
		"pods":                         {waits(rollout.AwaitsPods), sessionTimeout, "DrainBlocked"},
		"workers":                      {waits(rollout.AwaitsWorkers), sessionTimeout, "WorkersLate"},
		"a ClusterPeering":             {waits(rollout.AwaitsPeering), sessionTimeout, "WorkersLate"},
		"a sign of BGP":                {waits(rollout.AwaitsBGP), sessionTimeout, "BGPUnknown"},
		"nothing":                      {rollout.Step{Name: "Waits", Awaits: rollout.AwaitsSessions, Timeout: sessionTimeout}, sessionTimeout, ""},
		"what has no limit":            {rollout.Step{Name: "Waits", WaitingFor: missing, Awaits: rollout.AwaitsSessions}, 24 * time.Hour, ""},
		"rest":                         {rollout.Step{Name: rollout.Steady}, 24 * time.Hour, ""},
	} {
		t.Run(name, func(t *testing.T) {
			e := newEnvironment(t)
			e.cloud.pool = cloud.Pool{Exists: true, Owned: true, Name: "route-reflectors", Zones: []string{"z1"}, ClusterZones: []string{"z1"}}
			e.script = always(tc.step)
			require.NoError(t, e.reconcile())
			applied := len(e.calico.applied)
			e.after(tc.after)
			e.expect("Degraded False AsExpected")
			e.clock = e.clock.Add(time.Second)
			for range 3 {
				require.NoError(t, e.reconcile())
				e.clock = e.clock.Add(time.Minute)
			}
			require.Len(t, e.calico.applied, applied, "what is done stays the same")
			if tc.degrade == "" {
				e.expect("Degraded False AsExpected")
				require.Empty(t, e.emitted)
				return
			}
			e.expect("Degraded True " + tc.degrade)
			require.Contains(t, e.condition(v1alpha1.ConditionDegraded).Message, missing[0])
			require.Len(t, e.emitted, 1, "once")
			require.True(t, strings.HasPrefix(e.emitted[0], "Warning "+tc.degrade), e.emitted[0])
			writes := e.writes
			require.NoError(t, e.reconcile())
			require.Equal(t, writes, e.writes, "said is said")

			e.script = always(rollout.Step{Name: "DisableMesh"})
			require.NoError(t, e.reconcile())
			e.expect("Degraded False AsExpected")
			require.Len(t, e.emitted, 2)
			require.Contains(t, e.emitted[1], "no longer hindered by "+tc.degrade)
		})
	}
}

// A mesh that others switch on again and again is remembered, and that is said; a person ends it with a pause.
func TestAMeshThatOthersKeepOnIsSaid(t *testing.T) {
	e := newEnvironment(t)
	reversed := 0
	e.script = func(o rollout.Observed, _ rollout.Desired) rollout.Step {
		if reversed = len(o.Reversed); reversed < 3 {
			return steady
		}
		return rollout.Step{Name: rollout.AwaitMeshOwner, Awaits: rollout.AwaitsOwner, WaitingFor: []string{"a field"}, Reason: "3 times (field manager x)"}
	}
	e.calico.cluster.BGP.Saved = &plan.Mesh{}
	for i := range 3 {
		require.Equal(t, i, reversed)
		for _, on := range []bool{false, true} {
			e.calico.cluster.BGP.Mesh.Enabled = ptr.To(on)
			e.clock = e.clock.Add(time.Minute)
			require.NoError(t, e.reconcile())
		}
	}
	e.expect("Degraded True MeshReversed")
	require.Contains(t, e.condition(v1alpha1.ConditionDegraded).Message, "(field manager x): let what describes the BGPConfiguration")
	e.edit(func(o *v1alpha1.RouteReflectorPool) { o.Spec.Mode = v1alpha1.ModePaused })
	require.NoError(t, e.reconcile())
	e.edit(func(o *v1alpha1.RouteReflectorPool) { o.Spec.Mode = v1alpha1.ModeRouteReflector })
	require.NoError(t, e.reconcile())
	require.Zero(t, reversed)
	e.expect("Degraded False AsExpected")
}

// Reports that do not come may be for want of a right.
func TestReportsThatDoNotComeNameTheRights(t *testing.T) {
	for what, says := range map[string]bool{"a status report from 10.0.1.1": true, "10.0.1.1 ↔ 10.0.0.7 to be Established": false} {
		e := newEnvironment(t)
		e.script = always(rollout.Step{Name: "AwaitSessions", WaitingFor: []string{what}, Awaits: rollout.AwaitsSessions, Timeout: sessionTimeout})
		require.NoError(t, e.reconcile())
		e.clock = e.clock.Add(sessionTimeout + time.Second)
		require.NoError(t, e.reconcile())
		require.Equal(t, says, strings.Contains(e.condition(v1alpha1.ConditionDegraded).Message, "update caliconodestatuses"))
	}
}

func TestAWaitOutlivesTheManager(t *testing.T) {
	e := newEnvironment(t)
	e.script = always(rollout.Step{Name: "AwaitSessions", WaitingFor: []string{"a"}, Awaits: rollout.AwaitsSessions, Timeout: sessionTimeout})
	require.NoError(t, e.reconcile())
	e.clock = e.clock.Add(sessionTimeout + time.Second)
	e.restart()
	require.NoError(t, e.reconcile())
	e.expect("Degraded True SessionTimeout")

	object := e.object()
	object.Status.Step.Since = metav1.Time{}
	require.NoError(t, e.client.Status().Update(t.Context(), object))
	e.restart()
	require.NoError(t, e.reconcile())
	e.expect("Degraded False AsExpected")
	require.False(t, e.object().Status.Step.Since.IsZero(), "begun anew")
}

// Three reflectors that change their ID one after the other, and the batches of
// a large mesh, are many waits and not a long one.
func TestProgressBeginsTheWaitAnew(t *testing.T) {
	for name, progress := range map[string]rollout.Step{
		"a change": {Name: "ChangeClusterID", Actions: []plan.Action{plan.SetReflector{Node: "n"}}},
		"a batch": {
			Name: "ChangeClusterID", WaitingFor: []string{"the next nodes"}, Proven: []string{"a", "b"},
			Watch: []plan.StatusRequest{{Node: "a"}, {Node: "b"}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			e := newEnvironment(t)
			waiting := rollout.Step{Name: "ChangeClusterID", WaitingFor: []string{"a"}, Awaits: rollout.AwaitsSessions, Timeout: sessionTimeout}
			for _, step := range []rollout.Step{waiting, progress, waiting} {
				e.script = always(step)
				require.NoError(t, e.reconcile())
				e.expect("Degraded False AsExpected")
				e.clock = e.clock.Add(sessionTimeout - time.Second)
			}
			e.script = always(rollout.Step{
				Name: "ChangeClusterID", WaitingFor: []string{"a"}, Actions: []plan.Action{plan.RefreshStatus{Node: "a"}},
				Proven: []string{"a"}, Watch: []plan.StatusRequest{{Node: "a"}, {Node: "b"}}, Awaits: rollout.AwaitsSessions, Timeout: sessionTimeout,
			})
			require.NoError(t, e.reconcile())
			e.expect("Degraded True SessionTimeout")
		})
	}
}

func TestThePoolsNameIsReportedWhileItIsOurs(t *testing.T) {
	ours := cloud.Pool{Exists: true, Owned: true, Name: "route-reflectors", ClusterZones: []string{"z1"}}
	foreign := ours
	foreign.Owned = false
	e := newEnvironment(t)
	e.script = always(rollout.Step{Name: "EnsurePool"})
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
		{"of others", foreign, nil, ""},
		{"ours again", ours, nil, "route-reflectors"},
	} {
		e.cloud.pool, e.cloud.observeErr = at.pool, at.err
		e.after(time.Hour)
		require.Equal(t, at.want, e.object().Status.Pool, at.says)
	}
	e.restart()
	require.NoError(t, e.client.Delete(t.Context(), secret("")))
	require.NoError(t, e.reconcile())
	require.Equal(t, "route-reflectors", e.object().Status.Pool, "without a provider it is what it was")
}

// Calico-node that does not run, and nodes that no reflector serves, are said with the nodes' names, whatever the step is.
func TestCalicoNodeThatDoesNotRunIsSaid(t *testing.T) {
	reflectors := []evidence.Reflector{
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
		"nodes without a reflector": {
			rollout.Step{Name: rollout.Steady, Reflectors: reflectors[1:], Unserved: []string{"a", "b", "c", "d"}},
			[]string{"Ready False NodesUnserved", "Degraded True NodesUnserved", "ReflectorsEstablished True AllEstablished"},
		},
		"all run": {
			rollout.Step{Name: rollout.Steady, Reflectors: reflectors[1:], Unserved: []string{}},
			[]string{"Ready True Steady", "Degraded False AsExpected", "ReflectorsEstablished True AllEstablished"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			e := newEnvironment(t)
			e.meshOff()
			e.cloud.pool.Exists, e.cloud.pool.Owned = true, true
			e.script = always(tc.step)
			e.settle(2)
			e.expect(tc.want...)
		})
	}
	e := newEnvironment(t)
	e.meshOff()
	e.script = always(rollout.Step{Name: rollout.Steady, Reflectors: reflectors[1:], Unserved: []string{"a", "b", "c", "d", "e"}})
	e.settle(1)
	require.Contains(t, e.condition(v1alpha1.ConditionReady).Message, "session with any route reflector: 5: a, b, c and 2 more; the mesh is off: look at")
	e.calico.cluster.BGP.Mesh.Enabled = nil
	e.settle(1)
	e.expect("Degraded False AsExpected")
	e.script = always(rollout.Step{Name: rollout.Steady, Reflectors: reflectors})
	e.settle(1)
	require.Contains(t, e.condition(v1alpha1.ConditionDegraded).Message, "calico-node is not running on 1 of 2 route reflectors: 10.0.1.1: look at its pods")
	require.Equal(t, "calico-node is not running on 10.0.1.1", e.condition(v1alpha1.ConditionReflectorsEstablished).Message, "not its last report")
}

// A report that cannot be asked for again holds up no step. One that cannot be created holds up the step, but not the
// questions to the others: the safety net needs their answers.
func TestAReportThatCannotBeAskedForIsSaid(t *testing.T) {
	refresh := plan.RefreshStatus{Node: "10.0.0.1"}
	for fails, tc := range map[string]struct {
		step  rollout.Step
		still plan.Action
	}{
		refresh.String(): {rollout.Step{Name: "RestoreMesh", Urgent: true, Actions: []plan.Action{refresh, plan.RestoreMesh{}}}, plan.RestoreMesh{}},
		"watch":          {rollout.Step{Name: "PromoteReflectors", Actions: []plan.Action{refresh, role}}, refresh},
	} {
		e := newEnvironment(t)
		e.meshOff()
		e.calico.fail[fails] = errors.New("it is another's")
		e.script = always(tc.step)
		require.ErrorContains(t, e.reconcile(), "it is another's")
		require.Equal(t, []string{tc.still.String()}, e.calico.applied)
	}
}

// One Node that may not be written holds up no other. What follows from a write waits for it.
func TestANodeThatIsRefusedHoldsUpNoOther(t *testing.T) {
	other := plan.SetReflector{Node: "10.0.0.2", ClusterID: role.ClusterID}
	for name, tc := range map[string]struct {
		actions []plan.Action
		still   []string
	}{
		"roles":                {[]plan.Action{role, other}, []string{other.String()}},
		"a role and a BGPPeer": {[]plan.Action{role, plan.PutPeer{Peer: plan.Peer{Name: "a"}}}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			e := newEnvironment(t)
			e.calico.fail[role.String()] = errors.New("protected")
			e.script = always(rollout.Step{Name: "HealReflectors", Actions: tc.actions})
			require.ErrorContains(t, e.reconcile(), "protected")
			require.Equal(t, tc.still, e.calico.applied)
		})
	}
}

func TestNothingIsWrittenAtRest(t *testing.T) {
	e := newEnvironment(t)
	e.calico.cluster.BGP.Mesh.Enabled = ptr.To(false)
	e.cloud.pool = cloud.Pool{Exists: true, Owned: true, SizePerZone: 1, Zones: []string{"z1", "z2", "z3"}}
	e.script = always(rollout.Step{
		Name: rollout.Steady, Reason: "all is well",
		Reflectors: []evidence.Reflector{{Node: "10.0.1.1", Established: 6, Expected: 6, Serving: true}},
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
