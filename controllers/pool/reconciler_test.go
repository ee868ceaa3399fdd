package pool_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/rrpool/rrpool/cloud"
	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/controllers/plan"
	"github.com/rrpool/rrpool/controllers/plan/rollout"
	"github.com/rrpool/rrpool/controllers/pool"
)

var steady = rollout.Step{Name: rollout.Steady, Reason: "all is well"}

// Each hindrance is a named condition with a remedy, and touches nothing.
func TestHindrances(t *testing.T) {
	for name, tc := range map[string]struct {
		arrange func(*world)
		want    []string
		remedy  string
	}{
		"there is no Secret with credentials": {
			func(w *world) { require.NoError(w, w.client.Delete(w.Context(), secret(""))) },
			[]string{"ProviderReady False CredentialsMissing", "Ready False CredentialsMissing", "Degraded True CredentialsMissing"},
			`Secret "rrpool-ibmcloud" in namespace "rrpool-system" does not exist`,
		},
		"the Secret has no such key": {
			func(w *world) { require.NoError(w, w.client.Update(w.Context(), secret(" \n"))) },
			[]string{"ProviderReady False CredentialsMissing"},
			`has no value in its key "apikey"`,
		},
		"the cluster does not say who it is": {
			func(w *world) { require.NoError(w, w.client.Delete(w.Context(), clusterInfo(""))) },
			[]string{"ProviderReady False ClusterIDUnknown"},
			"set spec.provider.iks.clusterID",
		},
		"the nodes belong to another cluster than configured": {
			func(w *world) { require.NoError(w, w.client.Update(w.Context(), clusterInfo("c2"))) },
			[]string{"ProviderReady False ClusterIDMismatch"},
			`the cluster ID is "c2", but the providerID of node 10.0.0.1 says "c1"`,
		},
		"no node is IBM's": {
			func(w *world) {
				for i := range w.calico.cluster.Nodes {
					w.calico.cluster.Nodes[i].ProviderID = "kind://x"
				}
			},
			[]string{"ProviderReady False ExistingNodesNotSupported", "Ready False ExistingNodesNotSupported"},
			"set spec.provider.type to IKS",
		},
		"a pool of that name is somebody else's": {
			func(w *world) { w.cloud.pool = cloud.Pool{Exists: true, Name: "route-reflectors"} },
			[]string{"ProviderReady False PoolConflict", "Ready False PoolConflict"},
			"choose another spec.provider.iks.poolName",
		},
		"the autoscaler resizes the pool": {
			func(w *world) { w.cloud.pool = cloud.Pool{Exists: true, Owned: true, Autoscaled: true} },
			[]string{"ProviderReady False PoolAutoscaled"},
			"disable it for this pool",
		},
		"the cloud is down": {
			func(w *world) {
				w.cloud.observeErr = &cloud.Error{Kind: cloud.Unavailable, Op: "listing pools", Message: "no answer"}
			},
			[]string{"ProviderReady False CloudUnavailable", "Ready False CloudUnavailable"},
			"listing pools: no answer",
		},
		"the key is refused": {
			func(w *world) { w.cloud.observeErr = &cloud.Error{Kind: cloud.Unauthorized, Op: "logging in"} },
			[]string{"ProviderReady False CloudUnauthorized"},
			"logging in",
		},
		"Calico runs without BGP": {
			func(w *world) {
				w.calico.cluster.Problems = []plan.Problem{{Reason: "BGPDisabled", Message: "switch BGP on"}}
			},
			[]string{"Ready False BGPDisabled", "Degraded True BGPDisabled", "Progressing False BGPDisabled"},
			"switch BGP on",
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			tc.arrange(w)
			w.settle(3)
			w.expect(tc.want...)
			message := w.condition(v1alpha1.ConditionDegraded).Message
			require.Contains(t, message, tc.remedy)
			require.Empty(t, w.calico.applied, "something was changed")
			require.Empty(t, w.calico.watched)
			require.Zero(t, w.cloud.ensured)
			require.Len(t, w.said, 1, "one warning, however often it is looked at")
			require.True(t, strings.HasPrefix(w.said[0], corev1.EventTypeWarning))
			before := w.writes
			w.settle(5)
			require.Equal(t, before, w.writes, "the same hindrance is written once")
		})
	}
}

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
		if n.Dedicated {
			dedicated[n.Name] = n.WorkerID
		}
	}
	require.Equal(t, map[string]string{"10.0.1.1": "p1-by-label", "10.0.1.3": "p3"}, dedicated)
	require.Equal(t, "10.0.1.3", seen.Pool.Workers[1].Node, "Kubernetes knows better than the cloud")
	require.Empty(t, seen.Pool.Workers[2].Node, "another worker is behind that name")
	require.EqualValues(t, 7, w.object().Status.Nodes)
}

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

func TestFinalizerComesFirst(t *testing.T) {
	w := newWorld(t, func(o *v1alpha1.RouteReflectorPool) { o.Finalizers = []string{"keep/this"} })
	require.NoError(t, w.reconcile())
	require.Contains(t, w.object().Finalizers, v1alpha1.Finalizer)
	require.Zero(t, w.cloud.observed)
	require.Empty(t, w.seen)
	w.settle(1)
	require.NotZero(t, w.cloud.observed)
}

func TestDeletionRestoresTheMeshFirst(t *testing.T) {
	restore := rollout.Step{Name: "RestoreMesh", Actions: []plan.Action{plan.RestoreMesh{}}}
	setup := func(t *testing.T, policy v1alpha1.DeletionPolicy) *world {
		t.Helper()
		w := newWorld(t, func(o *v1alpha1.RouteReflectorPool) { o.Spec.Provider.IKS.DeletionPolicy = policy })
		w.cloud.pool = cloud.Pool{Exists: true, Owned: true}
		off := false
		w.calico.cluster.BGP.Mesh.Enabled = &off
		w.script = func(o rollout.Observed, d rollout.Desired) rollout.Step {
			require.Equal(t, rollout.Mesh, d.Mode)
			if !o.BGP.MeshOn() {
				return restore
			}
			return steady
		}
		w.delete()
		require.NoError(t, w.reconcile())
		require.Equal(t, []string{"switch the node-to-node mesh on"}, w.calico.applied)
		require.Zero(t, w.cloud.deleted, "the mesh comes first")
		require.Zero(t, w.cloud.observed, "the mesh does not wait for the cloud")
		require.False(t, w.gone())
		w.clock = w.clock.Add(time.Minute)
		return w
	}
	t.Run("Retain leaves the pool", func(t *testing.T) {
		w := setup(t, v1alpha1.DeletionRetain)
		require.NoError(t, w.reconcile())
		require.True(t, w.gone())
		require.Zero(t, w.cloud.deleted)
	})
	t.Run("Delete waits until the pool is gone", func(t *testing.T) {
		w := setup(t, v1alpha1.DeletionDelete)
		w.cloud.deletion = []cloud.Progress{{Did: "deleted pool rr", WaitingFor: "workers to go"}, {WaitingFor: "workers to go"}}
		w.settle(1)
		require.False(t, w.gone())
		require.Equal(t, "DeletePool", w.object().Status.Step.Name)
		require.Equal(t, []string{"workers to go"}, w.object().Status.Step.WaitingFor)
		w.clock = w.clock.Add(time.Minute)
		w.settle(1)
		require.False(t, w.gone())
		w.clock = w.clock.Add(time.Minute)
		require.NoError(t, w.reconcile())
		require.True(t, w.gone())
		require.Equal(t, 3, w.cloud.deleted)
	})
	t.Run("Delete with the cloud down keeps trying and says the way out", func(t *testing.T) {
		w := setup(t, v1alpha1.DeletionDelete)
		w.cloud.deleteErr = &cloud.Error{Kind: cloud.Unavailable, Op: "deleting", Message: "no answer"}
		for range 5 {
			require.NoError(t, w.reconcile())
			w.clock = w.clock.Add(time.Minute)
		}
		require.False(t, w.gone())
		w.expect("ProviderReady False CloudUnavailable", "Ready False CloudUnavailable")
		require.Contains(t, w.object().Status.Step.WaitingFor[0], "Retain")
		w.cloud.deleteErr = nil
		w.clock = w.clock.Add(10 * time.Minute)
		require.NoError(t, w.reconcile())
		require.True(t, w.gone())
	})
	t.Run("Delete leaves alone what is not ours", func(t *testing.T) {
		w := setup(t, v1alpha1.DeletionDelete)
		w.cloud.pool.Owned = false
		require.NoError(t, w.reconcile())
		require.True(t, w.gone())
		require.Zero(t, w.cloud.deleted)
	})
	t.Run("missing credentials do not hold up the mesh", func(t *testing.T) {
		w := newWorld(t, func(o *v1alpha1.RouteReflectorPool) { o.Spec.Provider.IKS.DeletionPolicy = v1alpha1.DeletionDelete })
		require.NoError(t, w.client.Delete(t.Context(), secret("")))
		off := false
		w.calico.cluster.BGP.Mesh.Enabled = &off
		w.script = func(o rollout.Observed, _ rollout.Desired) rollout.Step {
			if !o.BGP.MeshOn() {
				return restore
			}
			return steady
		}
		w.delete()
		w.settle(3)
		require.Equal(t, []string{"switch the node-to-node mesh on"}, w.calico.applied)
		require.False(t, w.gone())
		w.expect("ProviderReady False CredentialsMissing", "Ready False CredentialsMissing")
	})
}

func TestDeletionIsNotHeldUpByWhatWasNeverTouched(t *testing.T) {
	refused := rollout.Step{Name: "Refused", Problem: &plan.Problem{Reason: "BGPDisabled", Message: "m"}}
	for name, tc := range map[string]struct {
		arrange func(*plan.Cluster)
		gone    bool
	}{
		"nothing is ours":           {func(*plan.Cluster) {}, true},
		"a node is a reflector":     {func(c *plan.Cluster) { c.Nodes[0].Marked = true }, false},
		"a BGPPeer is ours":         {func(c *plan.Cluster) { c.Peers = []plan.Peer{{Owned: true}} }, false},
		"a BGPPeer is not":          {func(c *plan.Cluster) { c.Peers = []plan.Peer{{}} }, true},
		"the mesh was switched off": {func(c *plan.Cluster) { c.BGP.Saved = &plan.Mesh{} }, false},
		"no node is to be seen":     {func(c *plan.Cluster) { c.Nodes = nil }, false},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			tc.arrange(&w.calico.cluster)
			w.script = always(refused)
			w.delete()
			require.NoError(t, w.reconcile())
			require.Equal(t, tc.gone, w.gone())
		})
	}
}

func TestTheMeshNeedsNoProvider(t *testing.T) {
	w := newWorld(t, func(o *v1alpha1.RouteReflectorPool) { o.Spec.Mode = v1alpha1.ModeFullMesh })
	require.NoError(t, w.client.Delete(t.Context(), secret("")))
	w.settle(2)
	w.expect("Ready True Steady", "ProviderReady False CredentialsMissing", "Degraded False AsExpected", "MeshDisabled False MeshOn")
	require.Empty(t, w.said)
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

func TestFixedWaitsNeedNoReports(t *testing.T) {
	for gate, left := range map[v1alpha1.Gate]int{v1alpha1.GateSessions: 2, v1alpha1.GateTimer: 1} {
		t.Run(string(gate), func(t *testing.T) {
			w := newWorld(t, func(o *v1alpha1.RouteReflectorPool) { o.Spec.Rollout.Gate = gate })
			w.calico.cluster.Problems = []plan.Problem{{Reason: "Another"}, {Reason: pool.ReasonNodeStatusCRDMissing}}
			w.script = always(steady)
			w.settle(1)
			require.Len(t, w.seen[len(w.seen)-1].Problems, left)
		})
	}
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

func TestStepIsTakenInOrderUpToTheFirstError(t *testing.T) {
	one, two := plan.SetReflector{Node: "a", ClusterID: "1"}, plan.DeletePeer{Name: "b"}
	w := newWorld(t)
	w.script = always(rollout.Step{Name: "X", Reason: "because", Actions: []plan.Action{one, two, plan.DeletePeer{Name: "c"}}})
	w.calico.fail[two.String()] = errors.New("etcd is tired")
	require.ErrorContains(t, w.reconcile(), "etcd is tired")
	require.Equal(t, []string{one.String()}, w.calico.applied)
	w.expect("Degraded True StepFailed", "Ready False X")
	require.Equal(t, []string{"Normal ReflectorAdded " + one.String() + ": because"}, w.said)

	w.calico.fail[two.String()] = fmt.Errorf("writing: %w", errRace)
	require.NoError(t, w.reconcile(), "a lost race is no error")
	require.Equal(t, time.Second, w.result.RequeueAfter)
	w.expect("Degraded False AsExpected")
}

func TestPausedOnlyReports(t *testing.T) {
	w := newWorld(t, func(o *v1alpha1.RouteReflectorPool) {
		o.Spec.Mode, o.Finalizers = v1alpha1.ModePaused, nil
	})
	w.calico.watched = []plan.Watch{{Node: "kept"}}
	w.script = always(rollout.Step{Name: "DisableMesh", Actions: []plan.Action{plan.DisableMesh{}}})
	w.settle(3)
	require.Empty(t, w.calico.applied)
	require.Equal(t, []plan.Watch{{Node: "kept"}}, w.calico.watched)
	require.Empty(t, w.object().Finalizers)
	w.expect("Ready False Paused", "Progressing False Paused")
	require.Equal(t, "DisableMesh", w.object().Status.Step.Name)
	require.Contains(t, w.object().Status.Step.WaitingFor, "would switch the node-to-node mesh off")
	require.Equal(t, 1, w.writes)
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

func TestGoneObjectIsNoWork(t *testing.T) {
	w := newWorld(t, func(o *v1alpha1.RouteReflectorPool) { o.Finalizers = nil })
	require.NoError(t, w.client.Delete(t.Context(), w.object(), &client.DeleteOptions{}))
	require.NoError(t, w.reconcile())
	require.Zero(t, w.result.RequeueAfter)
	require.Empty(t, w.seen)
}
