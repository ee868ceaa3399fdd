package pool_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rrpool/rrpool/cloud"
	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/controllers/plan"
	"github.com/rrpool/rrpool/controllers/plan/rollout"
)

func TestNoNewsOfThePoolReachesThePlanAsNoPool(t *testing.T) {
	w := newWorld(t)
	w.cloud.pool.Exists, w.cloud.pool.Owned = true, true
	w.script = always(rollout.Step{Name: "EnsurePool"})
	w.settle(1)
	require.NotNil(t, w.seen[len(w.seen)-1].Pool)

	w.cloud.observeErr = &cloud.Error{Kind: cloud.Unavailable, Op: "x", RetryAfter: 42 * time.Second}
	w.clock = w.clock.Add(time.Minute)
	require.NoError(t, w.reconcile())
	require.Nil(t, w.seen[len(w.seen)-1].Pool)
	asked := w.cloud.observed
	w.clock = w.clock.Add(41 * time.Second)
	require.NoError(t, w.reconcile())
	require.Equal(t, asked, w.cloud.observed, "left alone as long as it wished")

	w.cloud.observeErr = nil
	w.clock = w.clock.Add(time.Second)
	require.NoError(t, w.reconcile())
	require.NotNil(t, w.seen[len(w.seen)-1].Pool)
}

func TestNodesOfThePoolAreRecognised(t *testing.T) {
	w := newWorld(t)
	labelled := node("10.0.1.1", "p1", "z1")
	labelled.Labels = map[string]string{"rrpool.io/pool": "route-reflectors", "ibm-cloud.kubernetes.io/worker-id": "p1-by-label"}
	foreign := node("10.0.1.2", "p2", "z2")
	foreign.Labels = map[string]string{"rrpool.io/pool": "other"}
	byWorker := node("10.0.1.3", "p3", "z3")
	w.calico.cluster.Nodes = append(w.calico.cluster.Nodes, labelled, foreign, byWorker)
	w.cloud.pool = cloud.Pool{
		Exists: true, Owned: true, ClusterZones: []string{"z1", "z2", "z3"}, Zones: []string{"z1", "z2", "z3"},
		Workers: []cloud.Worker{{ID: "p1-by-label"}, {ID: "p3", NodeName: "10.9.9.9", Zone: "z3"}, {ID: "p4", NodeName: "10.0.1.3"}},
	}
	w.script = always(steady)
	w.settle(1)
	seen := w.seen[len(w.seen)-1]
	dedicated := map[string]string{}
	for _, n := range seen.Nodes {
		if n.Pooled {
			dedicated[n.Name] = n.WorkerID
		}
	}
	require.Equal(t, map[string]string{"10.0.1.1": "p1-by-label", "10.0.1.3": "p3"}, dedicated)
	require.Equal(t, "10.0.1.3", seen.Pool.Workers[1].Node, "Kubernetes knows better than the cloud")
	require.Empty(t, seen.Pool.Workers[2].Node, "another worker is behind that name")
	require.EqualValues(t, 7, w.object().Status.Nodes)
}

func TestANodeWithoutTheTaintStopsGrowth(t *testing.T) {
	const taint = "rrpool.io/dedicated=route-reflector:NoExecute"
	for name, c := range map[string]struct {
		taints  []string
		drifted string
	}{
		"the node has it":               {[]string{"other=x:NoSchedule", taint}, ""},
		"the node has none":             {[]string{}, "node 10.0.1.1 of the worker pool lacks the taint " + taint + ", so workloads may run there"},
		"the node has another value":    {[]string{"rrpool.io/dedicated=other:NoExecute"}, "node 10.0.1.1 of the worker pool lacks the taint " + taint + ", so workloads may run there"},
		"the node's taints are unknown": {nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			pooled := node("10.0.1.1", "p1", "z1")
			pooled.Taints = c.taints
			w.calico.cluster.Nodes = append(w.calico.cluster.Nodes, pooled)
			w.cloud.pool = cloud.Pool{
				Exists: true, Owned: true, Zones: []string{"z1"}, ClusterZones: []string{"z1"}, TaintsUnknown: true,
				Workers: []cloud.Worker{{ID: "p1", Zone: "z1"}},
			}
			w.script = always(rollout.Step{Name: "EnsurePool", Actions: []plan.Action{plan.EnsurePool{Want: plan.PoolWant{SizePerZone: 2}}}})
			w.settle(1)
			require.Equal(t, c.drifted, w.seen[len(w.seen)-1].Pool.Drifted)
			asked := w.cloud.wants[len(w.cloud.wants)-1]
			require.Equal(t, c.drifted != "", len(asked.Untainted) > 0, "what the provider is asked for: %v", asked)
		})
	}
}

func TestABlipOfTheCloudIsNotTold(t *testing.T) {
	w := newWorld(t)
	w.script = always(steady)
	w.settle(1)
	writes := w.writes
	w.cloud.observeErr = &cloud.Error{Kind: cloud.Unavailable, Op: "x"}
	w.clock = w.clock.Add(time.Hour)
	w.settle(1)
	require.Nil(t, w.seen[len(w.seen)-1].Pool, "but it is respected")
	require.Equal(t, writes, w.writes)
	w.clock = w.clock.Add(time.Minute)
	w.settle(1)
	w.expect("ProviderReady False CloudUnavailable", "Degraded True CloudUnavailable")
}

func TestPoolIsOrderedWithLabelsAndTaintsAndPatience(t *testing.T) {
	w := newWorld(t, func(o *v1alpha1.RouteReflectorPool) { o.Spec.Provider.IKS.Flavor = "bx2.4x16" })
	ensure := plan.EnsurePool{Want: plan.PoolWant{SizePerZone: 1, Zones: []string{"z1"}}}
	w.script = always(rollout.Step{Name: "EnsurePool", Actions: []plan.Action{ensure}})
	w.cloud.progress = cloud.Progress{Did: "created pool route-reflectors", WaitingFor: "its labels", RetryAfter: 20 * time.Second}
	require.NoError(t, w.reconcile())
	require.Equal(t, []cloud.PoolSpec{{
		Flavor: "bx2.4x16", Zones: []string{"z1"}, SizePerZone: 1,
		Labels: map[string]string{"app.kubernetes.io/managed-by": "rrpool", "rrpool.io/pool": "route-reflectors"},
		Taints: []cloud.Taint{{Key: "rrpool.io/dedicated", Value: "route-reflector", Effect: "NoExecute"}},
	}}, w.cloud.wants)
	require.Equal(t, []string{"Normal PoolChanged created pool route-reflectors"}, w.said)
	require.Contains(t, w.object().Status.Step.WaitingFor, "its labels")

	w.clock = w.clock.Add(19 * time.Second)
	require.NoError(t, w.reconcile())
	require.Equal(t, 1, w.cloud.ensured, "left alone as it wished")
	w.clock = w.clock.Add(time.Second)
	require.NoError(t, w.reconcile())
	require.Equal(t, 2, w.cloud.ensured)
}

func TestChangesFollowEachOtherUntilTheCloudIsBusy(t *testing.T) {
	w := newWorld(t)
	w.script = always(rollout.Step{Name: "EnsurePool", Actions: []plan.Action{plan.EnsurePool{}}})
	w.cloud.progress = cloud.Progress{Did: "created pool rr"}
	require.NoError(t, w.reconcile())
	w.cloud.progress = cloud.Progress{WaitingFor: "workers"}
	w.clock = w.clock.Add(2 * time.Second)
	require.NoError(t, w.reconcile())
	require.Equal(t, 2, w.cloud.ensured, "there is more to do")
	require.Equal(t, 2, w.cloud.observed, "on a pool as it is now")
	for range 14 {
		w.clock = w.clock.Add(time.Second)
		require.NoError(t, w.reconcile())
	}
	require.Equal(t, 2, w.cloud.ensured, "the cloud is busy")
	require.Equal(t, 2, w.cloud.observed)
	w.clock = w.clock.Add(time.Second)
	require.NoError(t, w.reconcile())
	require.Equal(t, 3, w.cloud.ensured)
}

func TestRefusedOrderKeepsThePoolKnown(t *testing.T) {
	w := newWorld(t)
	w.script = always(rollout.Step{Name: "EnsurePool", Actions: []plan.Action{plan.EnsurePool{}, plan.DeletePeer{Name: "later"}}})
	w.cloud.ensureErr = &cloud.Error{Kind: cloud.QuotaExceeded, Op: "ordering", Message: "200 of 200"}
	w.settle(1)
	require.Empty(t, w.calico.applied, "nothing after the error")
	w.expect("ProviderReady False CloudQuotaExceeded")
	require.NotNil(t, w.seen[len(w.seen)-1].Pool)
	w.clock = w.clock.Add(time.Minute)
	w.settle(1)
	require.Equal(t, 1, w.cloud.ensured, "a person has to act: no hurry")

	w.script = always(rollout.Step{Name: "EnsurePool", Actions: []plan.Action{plan.EnsurePool{Want: plan.PoolWant{SizePerZone: 2}}}})
	w.settle(1)
	require.Equal(t, 2, w.cloud.ensured, "another wish is another matter")
}

func TestKeyRotationMakesANewProvider(t *testing.T) {
	w := newWorld(t)
	w.script = always(steady)
	require.NoError(t, w.reconcile())
	require.NoError(t, w.reconcile())
	require.Equal(t, []string{apiKey}, w.cloud.keys)
	require.Equal(t, 1, w.cloud.observed)
	require.NoError(t, w.client.Update(t.Context(), secret("another")))
	require.NoError(t, w.reconcile())
	require.Equal(t, []string{apiKey, "another"}, w.cloud.keys)
	require.Equal(t, 2, w.cloud.observed, "the new key is tried at once")
}

func TestUrgentStepDoesNotWaitForTheCloud(t *testing.T) {
	w := newWorld(t)
	w.script = always(rollout.Step{Name: "RestoreMesh", Actions: []plan.Action{plan.RestoreMesh{}}})
	w.settle(1)
	require.Zero(t, w.cloud.observed)
	require.NotEmpty(t, w.calico.applied)
}

func TestKeyIsNeverTold(t *testing.T) {
	for name, echo := range map[string]string{"plain": apiKey, "escaped": "very+secret%2Fkey%2B1"} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			echo := "apikey=" + echo + " is wrong"
			w.cloud.observeErr = &cloud.Error{Kind: cloud.Unauthorized, Op: "logging in", Message: echo, Err: errors.New(echo)}
			w.settle(2)
			w.cloud.observeErr = nil
			w.cloud.pool = cloud.Pool{Exists: true, Owned: true, Problems: []string{echo}, Workers: []cloud.Worker{{Message: echo}}}
			w.cloud.progress = cloud.Progress{Did: echo, WaitingFor: echo}
			w.script = always(rollout.Step{Name: "EnsurePool", Actions: []plan.Action{plan.EnsurePool{}}})
			w.clock = w.clock.Add(time.Hour)
			w.settle(2)
			w.cloud.ensureErr = fmt.Errorf("odd: %w", errors.New(echo))
			w.clock = w.clock.Add(time.Hour)
			w.settle(2)
			told := fmt.Sprintf("%+v %v", w.object(), w.said)
			require.Contains(t, told, "[redacted]")
			require.NotContains(t, told, "very secret")
			require.NotContains(t, told, "very+secret")
		})
	}
}
