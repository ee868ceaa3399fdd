package pool_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	webhookerrors "k8s.io/apiserver/pkg/admission/plugin/webhook/errors"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/rrpool/rrpool/cloud"
	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/config/crd"
	"github.com/rrpool/rrpool/controllers/calico"
	"github.com/rrpool/rrpool/controllers/plan"
	"github.com/rrpool/rrpool/controllers/plan/reason"
	"github.com/rrpool/rrpool/controllers/plan/rollout"
	"github.com/rrpool/rrpool/controllers/plan/topology"
	"github.com/rrpool/rrpool/controllers/pool"
	"github.com/rrpool/rrpool/controllers/workload"
)

var steady = rollout.Step{Name: rollout.Steady, Reason: "all is well"}

// Each hindrance is a named condition with a remedy, and touches nothing.
func TestProblemsThatStopTheRollout(t *testing.T) {
	for name, tc := range map[string]struct {
		arrange func(*environment)
		want    []string
		remedy  string
	}{
		"the cluster does not say who it is": {
			func(e *environment) { require.NoError(e, e.client.Delete(e.Context(), clusterInfo(""))) },
			[]string{"ProviderReady False ClusterIDUnknown"},
			"set spec.provider.iks.clusterID",
		},
		"the nodes belong to another cluster than configured": {
			func(e *environment) { require.NoError(e, e.client.Update(e.Context(), clusterInfo("c2"))) },
			[]string{"ProviderReady False ClusterIDMismatch"},
			`the cluster ID is "c2", but the providerID of node 10.0.0.1 says "c1"`,
		},
		"the autoscaler resizes the pool": {
			func(e *environment) { e.cloud.pool = cloud.Pool{Exists: true, Owned: true, Autoscaled: true} },
			[]string{"ProviderReady False PoolAutoscaled"},
			"disable it for this pool",
		},
	} {
		t.Run(name, func(t *testing.T) {
			e := newEnvironment(t)
			tc.arrange(e)
			e.settle(3)
			e.expect(tc.want...)
			message := e.condition(v1alpha1.ConditionDegraded).Message
			require.Contains(t, message, tc.remedy)
			require.Empty(t, e.calico.applied, "something was changed")
			require.Empty(t, e.calico.watched)
			require.Zero(t, e.cloud.ensured)
			require.Len(t, e.emitted, 1, "one warning, however often it is looked at")
			require.True(t, strings.HasPrefix(e.emitted[0], corev1.EventTypeWarning))
			before := e.writes
			e.settle(5)
			require.Equal(t, before, e.writes, "the same hindrance is written once")
		})
	}
}

// Nothing is ordered, and nothing written, of which the datastore would not take what follows.
func TestNothingIsOrderedThatCouldNotBeFinished(t *testing.T) {
	e := newEnvironment(t)
	refusal := apierrors.NewInvalid(schema.GroupKind{Kind: "BGPPeer"}, "rrpool-clients", nil)
	e.calico.fail["try"] = refusal
	e.settle(3)
	e.expect("Ready False WriteRefused", "Degraded True WriteRefused")
	require.Contains(t, e.condition(v1alpha1.ConditionReady).Message, refusal.Error())
	e.calico.fail["try"] = errors.New("no answer")
	require.Error(t, e.reconcile(), "what is not known is asked again")
	e.expect("Ready Unknown ObservationFailed")
	require.Contains(t, e.condition(v1alpha1.ConditionReady).Message, "no answer")
	e.calico.fail["try"] = fmt.Errorf("trying: %w", &calico.NameTakenError{Kind: "BGPPeer", Name: "rrpool-a-b"})
	e.settle(3)
	e.expect("Ready False NameTaken", "Degraded True NameTaken")
	require.Contains(t, e.condition(v1alpha1.ConditionReady).Message, `BGPPeer "rrpool-a-b" exists but was not made by rrpool`)
	require.Zero(t, e.cloud.ensured)
	require.Empty(t, e.calico.applied)

	e.calico.fail["try"] = webhookerrors.NewDryRunUnsupportedErr("w")
	e.settle(3)
	require.NotZero(t, e.cloud.ensured, "what nobody can try is not waited for")
	delete(e.calico.fail, "try")
	e.settle(3)
	require.NotZero(t, e.cloud.ensured, "the negative control")
	asked := len(e.calico.tried)
	e.settle(3)
	require.Len(t, e.calico.tried, asked, "what would be taken is not asked for again")
}

func TestFixedWaitsNeedNoReports(t *testing.T) {
	for gate, left := range map[v1alpha1.Gate]int{v1alpha1.GateSessions: 2, v1alpha1.GateTimer: 1} {
		t.Run(string(gate), func(t *testing.T) {
			e := newEnvironment(t, func(o *v1alpha1.RouteReflectorPool) { o.Spec.Rollout.Gate = gate })
			e.calico.cluster.Problems = []plan.Problem{{Reason: "Another"}, {Reason: reason.NodeStatusCRDMissing}}
			e.script = always(steady)
			e.settle(1)
			require.Len(t, e.seen[len(e.seen)-1].Problems, left)
		})
	}
}

func TestStepIsTakenInOrderUpToTheFirstError(t *testing.T) {
	one, two := plan.SetReflector{Node: "a", ClusterID: "1"}, plan.DeletePeer{Name: "b"}
	e := newEnvironment(t)
	e.script = always(rollout.Step{Name: "X", Reason: "because", Actions: []plan.Action{one, two, plan.DeletePeer{Name: "c"}}})
	e.calico.fail[two.String()] = errors.New("etcd is tired")
	require.ErrorContains(t, e.reconcile(), "etcd is tired")
	require.Equal(t, []string{one.String()}, e.calico.applied)
	e.expect("Degraded True StepFailed", "Ready False X")
	require.Equal(t, []string{"Normal ReflectorAdded " + one.String() + ": because"}, e.emitted)

	e.calico.fail[two.String()] = fmt.Errorf("writing: %w", apierrors.NewConflict(schema.GroupResource{Resource: "nodes"}, "10.0.0.1", errors.New("another write was faster")))
	require.NoError(t, e.reconcile(), "a lost race is no error")
	require.Equal(t, time.Second, e.result.RequeueAfter)
	e.expect("Degraded False AsExpected")
}

func TestGoneObjectIsNoWork(t *testing.T) {
	e := newEnvironment(t, func(o *v1alpha1.RouteReflectorPool) { o.Finalizers = nil })
	require.NoError(t, e.client.Delete(t.Context(), e.object(), &client.DeleteOptions{}))
	require.NoError(t, e.reconcile())
	require.Zero(t, e.result.RequeueAfter)
	require.Empty(t, e.seen)
}

// The CRD takes no RouteReflectorPool with another name than default. Where one is there all the same, whatever it wants, nothing is done for
// it, and nothing else for default; with default gone, nothing at all.
func TestASecondRouteReflectorPoolIsLeftAlone(t *testing.T) {
	e := newEnvironment(t)
	second := crd.Default()
	second.Name, second.Spec.Mode, second.Spec.Topology.ClusterID = "another", v1alpha1.ModeFullMesh, "244.9.9.9"
	second.Spec.Provider.IKS.DeletionPolicy = v1alpha1.DeletionDelete
	require.NoError(t, e.client.Create(t.Context(), second))
	e.settle(3)
	require.NotEmpty(t, e.cloud.wants, "it goes on to reflectors")
	require.Equal(t, v1alpha1.ModeRouteReflector, e.wanted.Mode)
	require.Equal(t, "244.0.0.1", e.wanted.ClusterID)
	looks := len(e.seen)
	e.edit(func(o *v1alpha1.RouteReflectorPool) { o.Finalizers = nil })
	e.delete()
	_, err := e.reconciler.Reconcile(t.Context(), reconcile.Request{NamespacedName: client.ObjectKeyFromObject(second)})
	require.NoError(t, err)
	require.Len(t, e.seen, looks)
	require.Zero(t, e.cloud.deleted)
	now := &v1alpha1.RouteReflectorPool{}
	require.NoError(t, e.client.Get(t.Context(), client.ObjectKeyFromObject(second), now))
	require.Equal(t, second, now, "it has got no finalizer and no status")
}

// A spec that cannot be followed must not cost a cluster its last way out.
func TestALostClusterGetsItsMeshWhateverTheSpec(t *testing.T) {
	for name, serves := range map[string]bool{"its reflectors are lost": false, "its reflectors serve": true} {
		t.Run(name, func(t *testing.T) {
			e := newEnvironment(t, refusedSpec)
			off := false
			e.calico.cluster.BGP = plan.BGPConfig{Exists: true, Mesh: plan.Mesh{Enabled: &off}, Saved: &plan.Mesh{}}
			e.calico.cluster.Peers = topology.Single("rrpool.io/route-reflector", topology.Session{})
			for i := range 3 {
				rr := node(fmt.Sprintf("10.0.1.%d", i+1), fmt.Sprintf("p%d", i+1), fmt.Sprintf("z%d", i+1))
				rr.Ready, rr.HasRoleLabel, rr.Marked, rr.ClusterID = serves, true, true, "244.0.0.1"
				e.calico.cluster.Nodes = append(e.calico.cluster.Nodes, rr)
			}
			e.settle(2)
			e.expect("Degraded True SizingInvalid")
			require.Equal(t, !serves, e.calico.cluster.BGP.MeshOn())
			if serves {
				require.Empty(t, e.calico.applied)
				return
			}
			require.Equal(t, []string{plan.RestoreMesh{}.String()}, e.calico.applied, "and nothing else")
		})
	}
}

// Nor must it make the manager forget since when too few reflectors serve: those that
// were deleted have left no other date.
func TestARefusalRemembersSinceWhenTooFewServe(t *testing.T) {
	e := newEnvironment(t, refusedSpec)
	e.script = always(rollout.Step{Name: rollout.Steady, Short: true})
	began := e.clock
	e.settle(3)
	e.expect("Degraded True SizingInvalid")
	require.Equal(t, began, e.lastSeen().ShortSince)
	e.edit(func(o *v1alpha1.RouteReflectorPool) { o.Spec.Sizing.Max = 25 })
	e.script = always(rollout.Step{Name: "DeletePeers", Stray: []string{"stray"}})
	began = e.clock
	e.settle(3)
	require.Zero(t, e.lastSeen().ShortSince)
	require.Equal(t, began, e.lastSeen().StraySince, "so are stray BGPPeers, while they last")
	e.script = always(steady)
	e.settle(2)
	require.Zero(t, e.lastSeen().StraySince)
}

var (
	role  = plan.SetReflector{Node: "a", ClusterID: "1"}
	sides = plan.PutPeer{Peer: plan.Peer{Name: "b"}}
)

// obedient changes nothing for a manager that has been asked to stop.
type obedient struct {
	*fakeDatastore
	stop func() // after each change
}

func (o obedient) Apply(ctx context.Context, s plan.DatastoreOptions, a plan.Action) (bool, error) {
	if err := ctx.Err(); err != nil {
		return false, fmt.Errorf("writing: %w", err)
	}
	defer o.stop()
	return o.fakeDatastore.Apply(ctx, s, a)
}

// Half of a step with a pause in it cuts a node off until the next manager leads.
func TestAShutdownDoesNotStopAStepHalfwayThroughItsPause(t *testing.T) {
	pause := plan.Pause{For: time.Hour}
	for name, tc := range map[string]struct {
		actions   []plan.Action
		toldAfter time.Duration // after the first change
		applied   []string
		lasts     time.Duration
	}{
		"stopped in the pause":                 {[]plan.Action{role, pause, sides}, time.Minute, []string{role.String(), sides.String()}, time.Hour},
		"stopped just before":                  {[]plan.Action{role, pause, sides}, 0, []string{role.String(), sides.String()}, time.Hour},
		"without a pause it stops where it is": {[]plan.Action{role, sides}, 0, []string{role.String()}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				e := newEnvironment(t)
				e.script = always(rollout.Step{Name: "X", Actions: tc.actions})
				e.reconciler.Pause = nil // the manager's own clock
				e.reconciler.Datastore = obedient{e.calico, func() {
					if tc.toldAfter == 0 {
						cancel()
					}
					time.AfterFunc(tc.toldAfter, cancel)
				}}
				began := time.Now()
				_, err := e.reconciler.Reconcile(ctx, reconcile.Request{})
				require.Equal(t, len(tc.applied) < 2, err != nil, err)
				require.Equal(t, tc.applied, e.calico.applied)
				require.Equal(t, tc.lasts, time.Since(began))
			})
		})
	}
}

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

// meshOff says that the cluster is on reflectors, by our doing.
func (e *environment) meshOff() {
	e.calico.cluster.BGP.Mesh.Enabled = ptr.To(false)
	e.calico.cluster.BGP.Saved = &plan.Mesh{}
}

// Nothing that is slow about pods comes before the mesh, which the real plan wants back here.
func TestTheMeshComesBackWhilePodsDoNotAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newInPlaceEnvironment(t)
		e.meshOff()
		for i := range 3 {
			n := &e.calico.cluster.Nodes[i]
			n.Marked, n.HasRoleLabel, n.ClusterID, n.Ready = true, true, "244.0.0.1", false
		}
		e.reconciler.Workload = silentPods{}
		began := time.Now()
		require.NoError(t, e.reconcile())
		require.Equal(t, []string{plan.RestoreMesh{}.String()}, e.calico.applied)
		require.Zero(t, time.Since(began), "no answer was waited for")
	})
}

// What is slow about pods may hold up a turn for a moment, and less while the mesh is
// off, because reflectors may die meanwhile.
func TestPodsAreWaitedForNoLongerThanTheDataPlaneCan(t *testing.T) {
	drain := rollout.Step{Name: "DrainNode", Drains: "10.0.0.1", Again: 5 * time.Second, Actions: []plan.Action{plan.DrainNode{Node: "10.0.0.1"}}}
	short := drain
	short.Short, short.Again = true, 2*time.Second
	for name, tc := range map[string]struct {
		pods    pool.Workload
		meshOff bool
		step    rollout.Step
		most    time.Duration
	}{
		"the mesh is off, and pods cannot be listed":         {silentPods{}, true, drain, 10 * time.Second},
		"the mesh is off, and evictions hang":                {slowPods{}, true, drain, 5 * time.Second},
		"the net is due in 2 seconds, evictions hang":        {slowPods{}, true, short, 2 * time.Second},
		"the net is due in 2 seconds, pods cannot be listed": {silentPods{}, true, short, 4 * time.Second},
		"the mesh is on: there is time to count":             {slowPods{}, false, drain, 80 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := newInPlaceEnvironment(t)
				if tc.meshOff {
					e.meshOff()
				}
				e.script = always(tc.step)
				e.reconciler.Workload = tc.pods
				began := time.Now()
				_ = e.reconcile() // that it fails is held elsewhere
				require.LessOrEqual(t, time.Since(began), tc.most)
			})
		})
	}
}

// A count that takes a minute and fails must not fill every turn.
func TestAfterACountThatHangsReconcilingGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newInPlaceEnvironment(t)
		e.reconciler.Now, e.reconciler.Workload = time.Now, silentPods{}
		e.script = always(rollout.Step{Name: "PromoteReflectors"})
		began := time.Now()
		require.NoError(t, e.reconcile())
		require.Equal(t, time.Minute, time.Since(began))
		for range 5 {
			time.Sleep(30 * time.Second)
			began = time.Now()
			require.NoError(t, e.reconcile())
			require.Zero(t, time.Since(began))
		}
		time.Sleep(3 * time.Minute)
		began = time.Now()
		require.NoError(t, e.reconcile())
		require.Equal(t, time.Minute, time.Since(began), "it is tried again")
	})
}

// A step that fails backs off, up to 30 s. While too few reflectors serve, the net is due sooner than that.
func TestAFailingStepDoesNotPutTheSafetyNetToSleep(t *testing.T) {
	e := newInPlaceEnvironment(t)
	e.meshOff()
	e.pods.lookErr = errors.New("pods is forbidden")
	step := rollout.Step{Name: "DrainNode", Drains: "10.0.0.1", Again: 5 * time.Second}
	e.script = always(step)
	require.ErrorContains(t, e.reconcile(), "forbidden", "with enough reflectors it backs off")
	step.Short = true
	e.script = always(step)
	for range 3 {
		require.NoError(t, e.reconcile())
		require.Equal(t, time.Second, e.result.RequeueAfter)
		e.expect("Degraded True StepFailed")
		e.clock = e.clock.Add(e.result.RequeueAfter)
	}
}

// While the net is about to be cast, seconds count, and a cloud takes minutes anyway.
func TestTheCloudIsNotAskedWhileTheSafetyNetIsDue(t *testing.T) {
	e := newEnvironment(t)
	e.meshOff()
	step := rollout.Step{Name: "EnsurePool", Short: true, Again: 5 * time.Second, Actions: []plan.Action{plan.EnsurePool{}}}
	e.script = always(step)
	e.settle(3)
	require.Zero(t, e.cloud.observed)
	require.Zero(t, e.cloud.ensured)
	step.Short = false
	e.script = always(step)
	e.settle(1)
	require.NotZero(t, e.cloud.observed)
	require.NotZero(t, e.cloud.ensured)
}

func TestAClockThatWasSetIsNoticed(t *testing.T) {
	for name, tc := range map[string]struct {
		clock, elapsed time.Duration
		noticed        bool
	}{
		"time passes":            {time.Minute, time.Minute, false},
		"a clock that is slow":   {time.Minute, time.Minute + 2*time.Second, false},
		"set forth":              {time.Hour, time.Minute, true},
		"set back":               {-time.Hour, time.Minute, true},
		"the machine was asleep": {time.Minute, 0, true},
	} {
		t.Run(name, func(t *testing.T) {
			e := newEnvironment(t)
			var elapsed time.Duration
			e.reconciler.Elapsed = func() time.Duration { return elapsed }
			require.NoError(t, e.reconcile())
			require.Zero(t, e.lastSeen().ClockSet, "the first look has nothing to compare with")
			e.clock, elapsed = e.clock.Add(tc.clock), elapsed+tc.elapsed
			require.NoError(t, e.reconcile())
			if !tc.noticed {
				require.Zero(t, e.lastSeen().ClockSet)
				return
			}
			set := e.clock
			require.Equal(t, set, e.lastSeen().ClockSet)
			e.clock, elapsed = e.clock.Add(time.Minute), elapsed+time.Minute
			require.NoError(t, e.reconcile())
			require.Equal(t, set, e.lastSeen().ClockSet, "it stays known")
		})
	}
}

func TestATimeLaterThanNowIsCorrectedBeforeTheDecision(t *testing.T) {
	e := newEnvironment(t)
	later := e.clock.Add(time.Hour)
	e.calico.cluster.BGP.Restored = later
	require.NoError(t, e.reconcile())
	first := e.clock
	require.Equal(t, first, e.lastSeen().BGP.Restored)
	e.after(time.Minute)
	require.Equal(t, first, e.lastSeen().BGP.Restored)
}
