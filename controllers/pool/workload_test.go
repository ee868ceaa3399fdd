package pool_test

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/controllers/plan"
	"github.com/rrpool/rrpool/controllers/plan/rollout"
	"github.com/rrpool/rrpool/controllers/pool"
)

// Pods are counted when it matters whose they are, and otherwise nobody asks.
func TestPodsAreCountedOnlyWhenThatDecidesSomething(t *testing.T) {
	promote := rollout.Step{Name: "PromoteReflectors"}
	all := []string{"10.0.0.1", "10.0.0.2", "10.0.0.3", "10.0.0.4", "10.0.0.5", "10.0.0.6"}
	reflector := func(n *plan.Node) { n.RoleLabel, n.Marked, n.ClusterID = true, true, "244.0.0.1" }
	member := func(n *plan.Node) { n.Labels = map[string]string{pool.PoolLabel: pool.ExistingPool} }
	for name, tc := range map[string]struct {
		mode    v1alpha1.Mode
		step    rollout.Step
		arrange func([]plan.Node)
		meshOff bool
		want    []string
	}{
		"nobody reflects, nobody is chosen": {step: promote, want: all},
		"nobody reflects, two are chosen": {step: promote, arrange: func(n []plan.Node) {
			member(&n[1])
			member(&n[3])
		}, want: []string{"10.0.0.2", "10.0.0.4"}},
		"nobody that could": {step: promote, arrange: func(n []plan.Node) {
			n[0].Ready, n[1].Addresses = false, nil
		}, want: all[2:]},
		"one reflects":                       {step: promote, arrange: func(n []plan.Node) { reflector(&n[0]) }},
		"one reflects, and is not Ready":     {step: promote, arrange: func(n []plan.Node) { reflector(&n[0]); n[0].Ready = false }, want: all[1:]},
		"the mesh is off":                    {step: promote, meshOff: true},
		"a refusal":                          {step: rollout.Step{Name: rollout.UnsupportedCluster, Problem: &plan.Problem{Reason: "X"}}},
		"rest":                               {step: steady},
		"the mesh comes back":                {step: rollout.Step{Name: "RestoreMesh", Actions: []plan.Action{plan.RestoreMesh{}}}},
		"back, and one is left":              {mode: v1alpha1.ModeFullMesh, step: promote, arrange: func(n []plan.Node) { reflector(&n[4]) }, want: all[4:5]},
		"back, and two are left":             {mode: v1alpha1.ModeFullMesh, step: promote, arrange: func(n []plan.Node) { reflector(&n[4]); reflector(&n[5]) }},
		"back, and none is left":             {mode: v1alpha1.ModeFullMesh, step: promote},
		"paused, to tell what it would cost": {mode: v1alpha1.ModePaused, step: promote, want: all},
	} {
		t.Run(name, func(t *testing.T) {
			w := newBusyWorld(t, func(o *v1alpha1.RouteReflectorPool) {
				if tc.mode != "" {
					o.Spec.Mode = tc.mode
				}
			})
			if tc.arrange != nil {
				tc.arrange(w.calico.cluster.Nodes)
			}
			if tc.meshOff {
				w.calico.cluster.BGP.Mesh.Enabled = &tc.meshOff
				*w.calico.cluster.BGP.Mesh.Enabled = false
			}
			w.pods.counts = map[string]int{}
			for _, name := range tc.want {
				w.pods.counts[name] = 3
			}
			w.script = always(tc.step)
			require.NoError(t, w.reconcile())
			if tc.want == nil {
				require.Empty(t, w.pods.counted)
				require.Len(t, w.seen, 1, "computed once")
				return
			}
			require.Equal(t, [][]string{tc.want}, w.pods.counted)
			require.Len(t, w.seen, 2, "computed once more")
			for _, n := range w.lastSeen().Nodes {
				if _, counted := w.pods.counts[n.Name]; counted {
					require.Equal(t, 3, *n.Pods, n.Name)
				} else {
					require.Nil(t, n.Pods, n.Name)
				}
			}
		})
	}
	dedicated := newWorld(t)
	dedicated.script = always(promote)
	dedicated.settle(1)
	require.Empty(t, dedicated.pods.counted, "dedicated nodes run none")
}

func TestWithoutACountTheStepGoesOn(t *testing.T) {
	w := newBusyWorld(t)
	w.pods.countErr = errors.New("forbidden")
	w.script = always(rollout.Step{Name: "PromoteReflectors"})
	require.NoError(t, w.reconcile())
	require.Nil(t, w.lastSeen().Nodes[0].Pods)
	w.expect("Degraded False AsExpected")
	w.clock = w.clock.Add(4 * time.Second)
	require.NoError(t, w.reconcile())
	require.Len(t, w.pods.counted, 1, "not with every turn")
	w.clock = w.clock.Add(time.Second)
	require.NoError(t, w.reconcile())
	require.Len(t, w.pods.counted, 2)
}

// emptying is a step that empties a node and knows what is on it.
func emptying(o rollout.Observed, _ rollout.Desired) rollout.Step {
	pods, seen := o.Evictable["10.0.0.1"]
	step := rollout.Step{Name: "DrainNode", Reason: "r", Drains: "10.0.0.1", WaitingFor: []string{"a look"}}
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
	w := newBusyWorld(t)
	w.script = emptying
	w.pods.moving["10.0.0.1"] = []string{"default/api", "default/web"}
	w.pods.blocked = []string{"default/web: the budget"}
	require.NoError(t, w.reconcile())
	require.Equal(t, []string{"10.0.0.1"}, w.pods.evictions)
	require.Equal(t, []string{"Normal PodsEvicted evicted 1 pods from node 10.0.0.1: r"}, w.said)
	require.Equal(t, []string{"pod default/api to leave 10.0.0.1", "pod default/web to leave 10.0.0.1"}, w.object().Status.Step.WaitingFor)
	w.clock = w.clock.Add(4 * time.Second)
	require.NoError(t, w.reconcile())
	require.Len(t, w.pods.evictions, 1, "pods are not asked with every turn")
	require.Equal(t, 2, w.pods.evictable, "but looked at")
	w.clock = w.clock.Add(time.Second)
	require.NoError(t, w.reconcile())
	require.Len(t, w.pods.evictions, 2)
	require.Len(t, w.said, 1, "nothing has changed")
}

func TestPodsThatStayAreNamedOnce(t *testing.T) {
	w := newBusyWorld(t)
	w.script = emptying
	w.pods.staying["10.0.0.1"] = []string{"default/bare"}
	w.settle(3)
	require.Len(t, w.said, 1)
	require.Contains(t, w.said[0], "Warning PodsStay pods without a controller stay on node 10.0.0.1")
	require.Contains(t, w.said[0], "default/bare")
	w.pods.staying["10.0.0.1"] = []string{"default/another", "default/bare"}
	w.settle(3)
	require.Len(t, w.said, 2)
}

func TestAPausedObjectEvictsNobody(t *testing.T) {
	w := newBusyWorld(t, func(o *v1alpha1.RouteReflectorPool) { o.Spec.Mode = v1alpha1.ModePaused })
	w.script = emptying
	w.pods.moving["10.0.0.1"], w.pods.staying["10.0.0.1"] = []string{"default/web"}, []string{"default/bare"}
	w.settle(3)
	require.Empty(t, w.pods.evictions)
	require.Empty(t, w.said)
	require.Contains(t, w.object().Status.Step.WaitingFor, "would evict the pods of node 10.0.0.1")
}

func TestPodsThatCannotBeSeenOrAskedFailTheStep(t *testing.T) {
	for name, arrange := range map[string]func(*pods){
		"seen":  func(p *pods) { p.lookErr = errors.New("forbidden") },
		"asked": func(p *pods) { p.evictErr = errors.New("forbidden") },
	} {
		t.Run(name, func(t *testing.T) {
			w := newBusyWorld(t)
			w.script = emptying
			w.pods.moving["10.0.0.1"] = []string{"default/web"}
			arrange(w.pods)
			require.ErrorContains(t, w.reconcile(), "forbidden")
			w.expect("Degraded True StepFailed")
			w.pods.lookErr, w.pods.evictErr = nil, nil
			w.clock = w.clock.Add(time.Minute)
			require.NoError(t, w.reconcile())
			w.expect("Degraded False AsExpected")
		})
	}
}

func TestADrainThatDoesNotEndIsSaid(t *testing.T) {
	w := newBusyWorld(t, impatient)
	w.script = emptying
	w.pods.moving["10.0.0.1"] = []string{"default/web"}
	w.pods.blocked = []string{"default/web: The disruption budget web needs 2 healthy pods and has 2 currently"}
	require.NoError(t, w.reconcile())
	w.clock = w.clock.Add(sessionTimeout)
	require.NoError(t, w.reconcile())
	w.expect("Degraded False AsExpected")
	w.clock = w.clock.Add(time.Second)
	require.NoError(t, w.reconcile())
	w.expect("Degraded True DrainBlocked")
	message := w.condition(v1alpha1.ConditionDegraded).Message
	for _, words := range []string{"pod default/web to leave 10.0.0.1", "The disruption budget web needs 2", "promotion to Staged"} {
		require.Contains(t, message, words)
	}
	require.Len(t, w.said, 1, "once")
	writes := w.writes
	w.clock = w.clock.Add(time.Second)
	require.NoError(t, w.reconcile())
	require.Equal(t, writes, w.writes, "said is said, also between two attempts")

	w.pods.blocked = nil
	w.clock = w.clock.Add(time.Minute)
	w.settle(2)
	w.expect("Degraded False AsExpected")
}
