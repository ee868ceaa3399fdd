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
	"github.com/rrpool/rrpool/controllers/plan/topology"
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

func TestGoneObjectIsNoWork(t *testing.T) {
	w := newWorld(t, func(o *v1alpha1.RouteReflectorPool) { o.Finalizers = nil })
	require.NoError(t, w.client.Delete(t.Context(), w.object(), &client.DeleteOptions{}))
	require.NoError(t, w.reconcile())
	require.Zero(t, w.result.RequeueAfter)
	require.Empty(t, w.seen)
}

// A spec that cannot be followed must not cost a cluster its last way out.
func TestALostClusterGetsItsMeshWhateverTheSpec(t *testing.T) {
	for name, serves := range map[string]bool{"its reflectors are lost": false, "its reflectors serve": true} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, func(o *v1alpha1.RouteReflectorPool) { o.Spec.Sizing.Min, o.Spec.Sizing.Max = 9, 3 })
			off := false
			w.calico.cluster.BGP = plan.BGPConfig{Exists: true, Mesh: plan.Mesh{Enabled: &off}, Saved: &plan.Mesh{}}
			w.calico.cluster.Peers = topology.Single("rrpool.io/route-reflector", topology.Session{})
			for i := range 3 {
				rr := node(fmt.Sprintf("10.0.1.%d", i+1), fmt.Sprintf("p%d", i+1), fmt.Sprintf("z%d", i+1))
				rr.Ready, rr.RoleLabel, rr.Marked, rr.ClusterID = serves, true, true, "244.0.0.1"
				w.calico.cluster.Nodes = append(w.calico.cluster.Nodes, rr)
			}
			w.settle(2)
			w.expect("Degraded True SizingInvalid")
			require.Equal(t, !serves, w.calico.cluster.BGP.MeshOn())
			if serves {
				require.Empty(t, w.calico.applied)
				return
			}
			require.Equal(t, []string{plan.RestoreMesh{}.String()}, w.calico.applied, "and nothing else")
		})
	}
}

// Nor must it make the manager forget since when too few reflectors serve: those that
// were deleted have left no other date.
func TestARefusalRemembersSinceWhenTooFewServe(t *testing.T) {
	w := newWorld(t, func(o *v1alpha1.RouteReflectorPool) { o.Spec.Sizing.Min, o.Spec.Sizing.Max = 9, 3 })
	w.script = always(rollout.Step{Name: rollout.Steady, Short: true})
	began := w.clock
	w.settle(3)
	w.expect("Degraded True SizingInvalid")
	require.Equal(t, began, w.lastSeen().ShortSince)
	w.script = always(steady)
	w.settle(2)
	require.Zero(t, w.lastSeen().ShortSince)
}
