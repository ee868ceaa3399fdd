package pool_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rrpool/rrpool/controllers/plan"
	"github.com/rrpool/rrpool/controllers/plan/rollout"
	"github.com/rrpool/rrpool/controllers/pool"
	"github.com/rrpool/rrpool/controllers/workload"
)

// silentPods never answer before the caller gives up.
type silentPods struct{}

func (silentPods) Count(ctx context.Context, _ []string) (map[string]int, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

func (silentPods) Evictable(ctx context.Context, _ string) (moving, staying []string, err error) {
	<-ctx.Done()
	return nil, nil, ctx.Err()
}

func (silentPods) Evict(ctx context.Context, _ string) (workload.Eviction, error) {
	<-ctx.Done()
	return workload.Eviction{}, ctx.Err()
}

// slowPods are seen at once and never go.
type slowPods struct{ silentPods }

func (slowPods) Evictable(context.Context, string) (moving, staying []string, err error) {
	return []string{"default/web"}, nil, nil
}

// meshOff says that the cluster lives on reflectors, by our doing.
func (w *world) meshOff() {
	off := false
	w.calico.cluster.BGP.Mesh.Enabled = &off
	w.calico.cluster.BGP.Saved = &plan.Mesh{}
}

// Nothing that is slow about pods comes before the mesh, which the real plan wants
// back here.
func TestTheMeshComesBackWhilePodsDoNotAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newBusyWorld(t)
		w.meshOff()
		for i := range 3 {
			n := &w.calico.cluster.Nodes[i]
			n.Marked, n.RoleLabel, n.ClusterID, n.Ready = true, true, "244.0.0.1", false
		}
		w.reconciler.Workload = silentPods{}
		began := time.Now()
		require.NoError(t, w.reconcile())
		require.Equal(t, []string{plan.RestoreMesh{}.String()}, w.calico.applied)
		require.Zero(t, time.Since(began), "nobody was waited for")
	})
}

// What is slow about pods may hold up a turn for a moment, and less while the mesh is
// off, because reflectors may die meanwhile.
func TestATurnWaitsForPodsNoLongerThanTheDataPlaneCan(t *testing.T) {
	drain := rollout.Step{Name: "DrainNode", Drains: "10.0.0.1", Again: 5 * time.Second, Actions: []plan.Action{plan.DrainNode{Node: "10.0.0.1"}}}
	short := drain
	short.Short, short.Again = true, 2*time.Second
	for name, tc := range map[string]struct {
		pods    pool.Workload
		meshOff bool
		step    rollout.Step
		most    time.Duration
	}{
		"the mesh is off, and nobody can look":         {silentPods{}, true, drain, 10 * time.Second},
		"the mesh is off, and evictions hang":          {slowPods{}, true, drain, 5 * time.Second},
		"the net is due in 2 seconds, evictions hang":  {slowPods{}, true, short, 2 * time.Second},
		"the net is due in 2 seconds, nobody can look": {silentPods{}, true, short, 4 * time.Second},
		"the mesh is on: there is time to count":       {slowPods{}, false, drain, 80 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newBusyWorld(t)
				if tc.meshOff {
					w.meshOff()
				}
				w.script = always(tc.step)
				w.reconciler.Workload = tc.pods
				began := time.Now()
				_ = w.reconcile() // that it fails is held elsewhere
				require.LessOrEqual(t, time.Since(began), tc.most)
			})
		})
	}
}

// A count that takes a minute and fails must not fill every turn.
func TestAfterACountThatHangsTheTurnsGoOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newBusyWorld(t)
		w.reconciler.Now, w.reconciler.Workload = time.Now, silentPods{}
		w.script = always(rollout.Step{Name: "PromoteReflectors"})
		began := time.Now()
		require.NoError(t, w.reconcile())
		require.Equal(t, time.Minute, time.Since(began))
		for range 5 {
			time.Sleep(30 * time.Second)
			began = time.Now()
			require.NoError(t, w.reconcile())
			require.Zero(t, time.Since(began))
		}
		time.Sleep(3 * time.Minute)
		began = time.Now()
		require.NoError(t, w.reconcile())
		require.Equal(t, time.Minute, time.Since(began), "it is tried again")
	})
}

// A step that fails backs off, up to 30 s. While too few reflectors serve, the net is
// due sooner than that.
func TestAFailingStepDoesNotPutTheSafetyNetToSleep(t *testing.T) {
	w := newBusyWorld(t)
	w.meshOff()
	w.pods.lookErr = errors.New("pods is forbidden")
	step := rollout.Step{Name: "DrainNode", Drains: "10.0.0.1", Again: 5 * time.Second}
	w.script = always(step)
	require.ErrorContains(t, w.reconcile(), "forbidden", "with enough reflectors it backs off")
	step.Short = true
	w.script = always(step)
	for range 3 {
		require.NoError(t, w.reconcile())
		require.Equal(t, time.Second, w.result.RequeueAfter)
		w.expect("Degraded True StepFailed")
		w.clock = w.clock.Add(w.result.RequeueAfter)
	}
}

// While the net is about to be cast, seconds count, and a cloud takes minutes anyway.
func TestTheCloudIsNotAskedWhileTheSafetyNetIsDue(t *testing.T) {
	w := newWorld(t)
	w.meshOff()
	step := rollout.Step{Name: "EnsurePool", Short: true, Again: 5 * time.Second, Actions: []plan.Action{plan.EnsurePool{}}}
	w.script = always(step)
	w.settle(3)
	require.Zero(t, w.cloud.observed)
	require.Zero(t, w.cloud.ensured)
	step.Short = false
	w.script = always(step)
	w.settle(1)
	require.NotZero(t, w.cloud.observed)
	require.NotZero(t, w.cloud.ensured)
}
