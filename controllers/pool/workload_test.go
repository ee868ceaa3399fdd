package pool_test

import (
	"cmp"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/controllers/plan"
	"github.com/rrpool/rrpool/controllers/plan/rollout"
	"github.com/rrpool/rrpool/controllers/pool"
)

// Pods are counted when it matters whose they are, and otherwise not.
func TestPodsAreCountedOnlyWhenThatDecidesSomething(t *testing.T) {
	promote := rollout.Step{Name: "PromoteReflectors"}
	all := []string{"10.0.0.1", "10.0.0.2", "10.0.0.3", "10.0.0.4", "10.0.0.5", "10.0.0.6"}
	reflector := func(n *plan.Node) { n.HasRoleLabel, n.Marked, n.ClusterID = true, true, "244.0.0.1" }
	member := func(n *plan.Node) { n.Labels = map[string]string{v1alpha1.PoolLabel: pool.ExistingPool} }
	for name, tc := range map[string]struct {
		mode    v1alpha1.Mode
		step    rollout.Step
		arrange func([]plan.Node)
		meshOff bool
		want    []string
	}{
		"no reflector, no node chosen": {step: promote, want: all},
		"no reflector, two chosen": {step: promote, arrange: func(n []plan.Node) {
			member(&n[1])
			member(&n[3])
		}, want: []string{"10.0.0.2", "10.0.0.4"}},
		"no node that could": {step: promote, arrange: func(n []plan.Node) {
			n[0].Ready, n[1].Addresses = false, nil
		}, want: all[2:]},
		"one reflects":                       {step: promote, arrange: func(n []plan.Node) { reflector(&n[0]) }},
		"one reflects, and is not Ready":     {step: promote, arrange: func(n []plan.Node) { reflector(&n[0]); n[0].Ready = false }, want: all[1:]},
		"the mesh is off":                    {step: promote, meshOff: true},
		"a refusal":                          {step: rollout.Step{Name: rollout.UnsupportedCluster, Problem: &plan.Problem{Reason: "X"}}},
		"rest":                               {step: steady},
		"the mesh comes back":                {step: rollout.Step{Name: "RestoreMesh", Actions: []plan.Action{plan.RestoreMesh{}}}},
		"back, and one is left":              {mode: v1alpha1.ModeFullMesh, step: promote, arrange: func(n []plan.Node) { reflector(&n[4]) }, want: all[4:5]},
		"back, and two are left":             {mode: v1alpha1.ModeFullMesh, step: promote, arrange: func(n []plan.Node) { reflector(&n[4]); reflector(&n[5]) }, want: all[4:6]},
		"back, and none is left":             {mode: v1alpha1.ModeFullMesh, step: promote},
		"paused, to tell what it would cost": {mode: v1alpha1.ModePaused, step: promote, want: all},
	} {
		t.Run(name, func(t *testing.T) {
			e := newInPlaceEnvironment(t, inMode(cmp.Or(tc.mode, v1alpha1.ModeRouteReflector)))
			if tc.arrange != nil {
				tc.arrange(e.calico.cluster.Nodes)
			}
			if tc.meshOff {
				e.meshOff()
			}
			e.pods.counts = map[string]int{}
			for _, name := range tc.want {
				e.pods.counts[name] = 3
			}
			e.script = always(tc.step)
			require.NoError(t, e.reconcile())
			if tc.want == nil {
				require.Empty(t, e.pods.counted)
				require.Len(t, e.seen, 1, "computed once")
				return
			}
			require.Equal(t, [][]string{tc.want}, e.pods.counted)
			require.Len(t, e.seen, 2, "computed once more")
			for _, n := range e.lastSeen().Nodes {
				if _, counted := e.pods.counts[n.Name]; counted {
					require.Equal(t, 3, *n.Pods, n.Name)
				} else {
					require.Nil(t, n.Pods, n.Name)
				}
			}
		})
	}
	dedicated := newEnvironment(t)
	dedicated.script = always(promote)
	dedicated.settle(1)
	require.Empty(t, dedicated.pods.counted, "dedicated nodes run none")
}

func TestWithoutACountTheStepGoesOn(t *testing.T) {
	e := newInPlaceEnvironment(t)
	e.pods.countErr = errors.New("forbidden")
	e.script = always(rollout.Step{Name: "PromoteReflectors"})
	require.NoError(t, e.reconcile())
	require.Nil(t, e.lastSeen().Nodes[0].Pods)
	e.expect("Degraded False AsExpected")
	e.after(4 * time.Second)
	require.Len(t, e.pods.counted, 1, "not with every turn")
	e.after(time.Second)
	require.Len(t, e.pods.counted, 2)
}

// emptying is a step that empties a node and knows what is on it.
func emptying(o rollout.Observed, _ rollout.Desired) rollout.Step {
	pods, seen := o.Evictable["10.0.0.1"]
	step := rollout.Step{Name: "DrainNode", Reason: "r", Drains: "10.0.0.1", WaitingFor: []string{"a look"}, Awaits: rollout.AwaitsPods, Timeout: sessionTimeout}
	if seen {
		step.WaitingFor = nil
		step.Actions = []plan.Action{plan.DrainNode{Node: "10.0.0.1"}}
		for _, pod := range pods {
			step.WaitingFor = append(step.WaitingFor, "pod "+pod+" to leave 10.0.0.1")
		}
	}
	return step
}

func TestANodeIsEmptiedWithPatience(t *testing.T) {
	e := newInPlaceEnvironment(t)
	e.script = emptying
	e.pods.moving["10.0.0.1"] = []string{"default/api", "default/web"}
	e.pods.blocked = []string{"default/web: the budget"}
	require.NoError(t, e.reconcile())
	require.Equal(t, []string{"10.0.0.1"}, e.pods.evictions)
	require.Equal(t, []string{"Normal PodsEvicted evicted 1 pods from node 10.0.0.1: r"}, e.emitted)
	require.Equal(t, []string{"pod default/api to leave 10.0.0.1", "pod default/web to leave 10.0.0.1"}, e.object().Status.Step.WaitingFor)
	e.after(4 * time.Second)
	require.Len(t, e.pods.evictions, 1, "pods are not asked with every turn")
	require.Equal(t, 2, e.pods.evictable, "but looked at")
	e.after(time.Second)
	require.Len(t, e.pods.evictions, 2)
	require.Len(t, e.emitted, 1, "nothing has changed")
}

func TestPodsThatStayAreNamedOnce(t *testing.T) {
	e := newInPlaceEnvironment(t)
	e.script = emptying
	e.pods.staying["10.0.0.1"] = []string{"default/bare"}
	e.settle(3)
	require.Len(t, e.emitted, 1)
	require.Contains(t, e.emitted[0], "Warning PodsStay pods without a controller stay on node 10.0.0.1")
	require.Contains(t, e.emitted[0], "default/bare")
	e.pods.staying["10.0.0.1"] = []string{"default/another", "default/bare"}
	e.settle(3)
	require.Len(t, e.emitted, 2)
}

func TestAPausedObjectEvictsNobody(t *testing.T) {
	e := newInPlaceEnvironment(t, inMode(v1alpha1.ModePaused))
	e.script = emptying
	e.pods.moving["10.0.0.1"], e.pods.staying["10.0.0.1"] = []string{"default/web"}, []string{"default/bare"}
	e.settle(3)
	require.Empty(t, e.pods.evictions)
	require.Empty(t, e.emitted)
	require.Contains(t, e.object().Status.Step.WaitingFor, "would evict the pods of node 10.0.0.1")
}

func TestPodsThatCannotBeSeenOrAskedFailTheStep(t *testing.T) {
	for name, arrange := range map[string]func(*fakePods){
		"seen":  func(p *fakePods) { p.lookErr = errors.New("forbidden") },
		"asked": func(p *fakePods) { p.evictErr = errors.New("forbidden") },
	} {
		t.Run(name, func(t *testing.T) {
			e := newInPlaceEnvironment(t)
			e.script = emptying
			e.pods.moving["10.0.0.1"] = []string{"default/web"}
			arrange(e.pods)
			require.ErrorContains(t, e.reconcile(), "forbidden")
			e.expect("Degraded True StepFailed")
			e.pods.lookErr, e.pods.evictErr = nil, nil
			e.after(time.Minute)
			e.expect("Degraded False AsExpected")
		})
	}
}

func TestADrainThatDoesNotEndIsSaid(t *testing.T) {
	e := newInPlaceEnvironment(t)
	e.script = emptying
	e.pods.moving["10.0.0.1"] = []string{"default/web"}
	e.pods.blocked = []string{"default/web: The disruption budget web needs 2 healthy pods and has 2 currently"}
	require.NoError(t, e.reconcile())
	e.after(sessionTimeout)
	e.expect("Degraded False AsExpected")
	e.after(time.Second)
	e.expect("Degraded True DrainBlocked")
	message := e.condition(v1alpha1.ConditionDegraded).Message
	for _, words := range []string{"pod default/web to leave 10.0.0.1", "The disruption budget web needs 2", "promotion to Staged"} {
		require.Contains(t, message, words)
	}
	require.Len(t, e.emitted, 1, "once")
	writes := e.writes
	e.after(time.Second)
	require.Equal(t, writes, e.writes, "said is said, also between two attempts")

	e.pods.blocked = nil
	e.clock = e.clock.Add(time.Minute)
	e.settle(2)
	e.expect("Degraded False AsExpected")
}
