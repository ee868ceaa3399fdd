package pool_test

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/rrpool/rrpool/cloud"
	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/controllers/plan"
	"github.com/rrpool/rrpool/controllers/plan/rollout"
	"github.com/rrpool/rrpool/test/iksserver"
)

// The cloud takes 20 s, and a node dies meanwhile: the step is not decided on what was so before.
func TestWhatHappensDuringALongAnswerOfTheCloudIsSeen(t *testing.T) {
	e := newEnvironment(t)
	e.cloud.meanwhile = func() {
		e.clock = e.clock.Add(20 * time.Second)
		e.calico.cluster.Nodes[0].Ready = false
	}
	e.script = func(o rollout.Observed, _ rollout.Desired) rollout.Step {
		if o.Pool == nil || !o.Nodes[0].Ready {
			return rollout.Step{Name: "AwaitSessions"}
		}
		return rollout.Step{Name: "DisableMesh", Actions: []plan.Action{plan.DisableMesh{}}}
	}
	e.settle(1)
	require.Equal(t, 1, e.cloud.observed)
	require.Empty(t, e.calico.applied)
}

func TestNodesOfThePoolAreRecognised(t *testing.T) {
	e := newEnvironment(t)
	labelled := node("10.0.1.1", "p1", "z1")
	labelled.Labels = map[string]string{"rrpool.io/pool": "route-reflectors", "ibm-cloud.kubernetes.io/worker-id": "p1-by-label"}
	foreign := node("10.0.1.2", "p2", "z2")
	foreign.Labels = map[string]string{"rrpool.io/pool": "other"}
	byWorker := node("10.0.1.3", "p3", "z3")
	e.calico.cluster.Nodes = append(e.calico.cluster.Nodes, labelled, foreign, byWorker)
	e.cloud.pool = cloud.Pool{
		Exists: true, Owned: true, ClusterZones: []string{"z1", "z2", "z3"}, Zones: []string{"z1", "z2", "z3"},
		Workers: []cloud.Worker{{ID: "p1-by-label"}, {ID: "p3", NodeName: "10.9.9.9", Zone: "z3"}, {ID: "p4", NodeName: "10.0.1.3"}},
	}
	e.script = always(steady)
	e.settle(1)
	seen := e.seen[len(e.seen)-1]
	dedicated := map[string]string{}
	for _, n := range seen.Nodes {
		if n.Pooled {
			dedicated[n.Name] = n.WorkerID
		}
	}
	require.Equal(t, map[string]string{"10.0.1.1": "p1-by-label", "10.0.1.3": "p3"}, dedicated)
	require.Equal(t, "10.0.1.3", seen.Pool.Workers[1].Node, "Kubernetes knows better than the cloud")
	require.Empty(t, seen.Pool.Workers[2].Node, "another worker is behind that name")
	require.EqualValues(t, 7, e.object().Status.Nodes)
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
			e := newEnvironment(t)
			pooled := node("10.0.1.1", "p1", "z1")
			pooled.Taints = c.taints
			e.calico.cluster.Nodes = append(e.calico.cluster.Nodes, pooled)
			e.cloud.pool = cloud.Pool{
				Exists: true, Owned: true, Zones: []string{"z1"}, ClusterZones: []string{"z1"}, TaintsUnknown: true,
				Workers: []cloud.Worker{{ID: "p1", Zone: "z1"}},
			}
			e.script = always(rollout.Step{Name: "EnsurePool", Actions: []plan.Action{plan.EnsurePool{Want: plan.PoolTarget{SizePerZone: 2}}}})
			e.settle(1)
			require.Equal(t, c.drifted, e.seen[len(e.seen)-1].Pool.Drifted)
			asked := e.cloud.wants[len(e.cloud.wants)-1]
			require.Equal(t, c.drifted != "", len(asked.Untainted) > 0, "what the provider is asked for: %v", asked)
			require.Equal(t, slices.Contains(c.taints, taint), asked.TaintsSeen)
		})
	}
}

// A cluster whose description rules route reflectors out is refused before anything is ordered. The way back needs no cloud.
func TestAClusterThatTheCloudRulesOutIsUnsupported(t *testing.T) {
	unsupported := &cloud.Error{Kind: cloud.Unsupported, Op: "reading cluster", Message: `its networkPlugin is "OVNKubernetes"`}
	e := newEnvironment(t)
	e.cloud.observeErr = unsupported
	e.settle(3)
	require.Equal(t, rollout.UnsupportedCluster, e.object().Status.Step.Name)
	require.Contains(t, e.condition(v1alpha1.ConditionReady).Message, unsupported.Message)
	e.expect("Ready False CloudUnsupported", "ProviderReady False CloudUnsupported", "Degraded True CloudUnsupported")
	require.Zero(t, e.cloud.ensured)

	// What reflects already goes on being repaired: one strange answer is not all that is known.
	e = newEnvironment(t)
	e.cloud.observeErr = unsupported
	e.calico.cluster.BGP.Saved = &plan.Mesh{}
	e.calico.cluster.Nodes[0].HasRoleLabel = true
	e.settle(3)
	require.Equal(t, "RemoveStrayLabel", e.object().Status.Step.Name)
	e.expect("ProviderReady False CloudUnsupported", "Degraded True CloudUnsupported")
	require.Zero(t, e.cloud.ensured)

	e = newEnvironment(t, inMode(v1alpha1.ModeFullMesh))
	e.cloud.observeErr = unsupported
	e.settle(3)
	e.expect("Ready True Steady", "Degraded False AsExpected")
}

func TestAMomentWithoutTheCloudIsNotReported(t *testing.T) {
	e := newEnvironment(t)
	e.script = always(steady)
	e.settle(1)
	writes := e.writes
	e.cloud.observeErr = &cloud.Error{Kind: cloud.Unavailable, Op: "x"}
	e.after(time.Hour)
	require.Nil(t, e.seen[len(e.seen)-1].Pool, "but it is respected")
	require.Equal(t, writes, e.writes)
	e.after(time.Minute)
	e.expect("ProviderReady False CloudUnavailable", "Degraded True CloudUnavailable")
}

func TestPoolIsOrderedWithItsTaint(t *testing.T) {
	e := newEnvironment(t, func(o *v1alpha1.RouteReflectorPool) {
		o.Spec.Provider.IKS.Flavor, o.Spec.Provider.IKS.OperatingSystem = "bx2.4x16", "UBUNTU_24_64"
		o.Spec.Provider.IKS.SecurityGroups, o.Spec.Provider.IKS.DedicatedHostPoolID = []string{"r006-a"}, "dh-1"
		o.Spec.Provider.IKS.WorkerVolumeEncryption = v1alpha1.WorkerVolumeEncryption{KMSInstanceID: "kms", RootKeyID: "key", KMSAccountID: "account"}
		o.Spec.Provider.IKS.Networks = []v1alpha1.ZoneNetwork{{Zone: "z1", SubnetID: "s"}, {Zone: "z2", PrivateVLAN: "1", PublicVLAN: "2"}}
	})
	ensure := plan.EnsurePool{Want: plan.PoolTarget{SizePerZone: 1, Zones: []string{"z1"}}}
	e.script = always(rollout.Step{Name: "EnsurePool", Actions: []plan.Action{ensure}})
	e.cloud.progress = cloud.Progress{Did: "created pool route-reflectors", WaitingFor: "its taint"}
	require.NoError(t, e.reconcile())
	require.Equal(t, []cloud.PoolSpec{{
		Flavor: "bx2.4x16", Zones: []string{"z1"}, SizePerZone: 1, Lasting: 1,
		Taints: []cloud.Taint{{Key: "rrpool.io/dedicated", Value: "route-reflector", Effect: "NoExecute"}},
		Options: cloud.PoolOptions{
			OperatingSystem: "UBUNTU_24_64", SecurityGroups: []string{"r006-a"}, DedicatedHostPoolID: "dh-1",
			WorkerVolumeEncryption: cloud.WorkerVolumeEncryption{KMSInstanceID: "kms", RootKeyID: "key", KMSAccountID: "account"},
			Networks:               map[string]cloud.Network{"z1": {SubnetID: "s"}, "z2": {PrivateVLAN: "1", PublicVLAN: "2"}},
		},
	}}, e.cloud.wants)
	require.Equal(t, []string{"Normal PoolChanged created pool route-reflectors"}, e.emitted)
	require.Contains(t, e.object().Status.Step.WaitingFor, "its taint")
}

func TestChangesFollowEachOtherUntilTheCloudIsBusy(t *testing.T) {
	e := newEnvironment(t)
	e.script = always(rollout.Step{Name: "EnsurePool", Actions: []plan.Action{plan.EnsurePool{}}})
	e.cloud.progress = cloud.Progress{Did: "created pool rr"}
	require.NoError(t, e.reconcile())
	e.cloud.progress = cloud.Progress{WaitingFor: "workers"}
	e.after(2 * time.Second)
	require.Equal(t, 2, e.cloud.ensured, "there is more to do")
	require.Equal(t, 2, e.cloud.observed, "on a pool as it is now")
	for range 14 {
		e.after(time.Second)
	}
	require.Equal(t, 2, e.cloud.ensured, "the cloud is busy")
	require.Equal(t, 2, e.cloud.observed)
	e.after(time.Second)
	require.Equal(t, 3, e.cloud.ensured)
}

func TestRefusedOrderKeepsThePoolKnown(t *testing.T) {
	e := newEnvironment(t)
	e.script = always(rollout.Step{Name: "EnsurePool", Actions: []plan.Action{plan.EnsurePool{}, plan.DeletePeer{Name: "later"}}})
	e.cloud.ensureErr = &cloud.Error{Kind: cloud.QuotaExceeded, Op: "ordering", Message: "200 of 200"}
	e.settle(1)
	require.Empty(t, e.calico.applied, "nothing after the error")
	e.expect("ProviderReady False CloudQuotaExceeded")
	require.NotNil(t, e.seen[len(e.seen)-1].Pool)
	e.after(time.Minute)
	require.Equal(t, 1, e.cloud.ensured, "a person has to act: no hurry")

	e.script = always(rollout.Step{Name: "EnsurePool", Actions: []plan.Action{plan.EnsurePool{Want: plan.PoolTarget{SizePerZone: 2}}}})
	e.settle(1)
	require.Equal(t, 2, e.cloud.ensured, "another wish is another matter")

	e.cloud.ensureErr = &cloud.Error{Kind: cloud.RateLimited, Op: "ordering", RetryAfter: 10 * time.Minute}
	e.script = always(rollout.Step{Name: "EnsurePool", Actions: []plan.Action{plan.EnsurePool{Want: plan.PoolTarget{SizePerZone: 3}}}})
	e.settle(1)
	require.Equal(t, 3, e.cloud.ensured)
	e.script = always(rollout.Step{Name: "EnsurePool", Actions: []plan.Action{plan.EnsurePool{Want: plan.PoolTarget{SizePerZone: 4}}}})
	e.after(4 * time.Minute)
	require.Equal(t, 3, e.cloud.ensured, "the cloud wants to be left alone")
	e.after(6 * time.Minute)
	require.Equal(t, 4, e.cloud.ensured)
}

// loss is a way to lose the cloud, and to get it back.
type loss struct {
	down, up func(*cloudEnvironment)
	// reason and remedy are what has to be said about it, perHour how many requests an hour are made meanwhile.
	reason, remedy string
	perHour        int
}

// gone is a cloud that answers like this. Once it has not answered for a while, it gets a
// request each five minutes, and then a new login for it.
func gone(reason, remedy string, how ...iksserver.Fault) loss {
	return loss{
		func(o *cloudEnvironment) {
			for _, f := range how {
				o.server.Inject(f)
			}
		}, func(o *cloudEnvironment) { o.server.ClearFaults() }, reason, remedy, 2 * 12,
	}
}

const lookAtTheNetwork = "check the network from the manager to the cloud"

var outages = map[string]loss{
	"every request fails":       gone("CloudUnavailable", lookAtTheNetwork, iksserver.Fault{Status: http.StatusServiceUnavailable, Body: "<html>?</html>"}),
	"every request hangs":       gone("CloudUnavailable", lookAtTheNetwork, iksserver.Fault{Hang: true}),
	"every connection breaks":   gone("CloudUnavailable", lookAtTheNetwork, iksserver.Fault{Reset: true}),
	"a proxy answers for all":   gone("CloudUnavailable", lookAtTheNetwork, iksserver.Body("<html><body>Please log in</body></html>")),
	"it wants to be left alone": gone("CloudRateLimited", "it is asked again by itself", iksserver.RateLimited(time.Minute)),
	"only IAM is gone": gone("CloudUnavailable", lookAtTheNetwork,
		iksserver.Fault{Path: "^/identity/", Hang: true}, iksserver.Fault{Path: "^/v", ExpireToken: true}),
	"everything is said to be forbidden": gone("CloudUnauthorized", "the API key must be valid and have the Operator or Administrator role",
		iksserver.Fault{Status: http.StatusForbidden, Body: `{"code":"A0656","description":"not allowed"}`}),
	"the lists are empty": gone("CloudUnavailable", "the cloud does not answer sensibly",
		iksserver.Fault{Method: "GET", Path: "getWorker", Status: http.StatusOK, Body: "[]"}),
}

// without lets a migrated cluster be without the cloud for hours, and says what went wrong: something changed in the
// data plane or was ordered, it was not said why, or more than once, the cloud was not left alone, or its return was
// not noticed.
func (o *cloudEnvironment) without(l loss, hours int) (complaints []string) {
	o.Helper()
	complain := func(ok bool, format string, args ...any) {
		if !ok {
			complaints = append(complaints, fmt.Sprintf(format, args...))
		}
	}
	_, ordered, _ := o.server.Counts()
	applied := slices.Clone(o.applied)
	l.down(o)
	o.pass(time.Hour) // which is how long a token is valid
	complain(o.is("Ready True Steady", "ProviderReady False "+l.reason, "Degraded True "+l.reason), "conditions: %v", o.object().Status.Conditions)
	message := o.condition(v1alpha1.ConditionProviderReady).Message
	complain(strings.Contains(message, l.remedy), "no remedy: %s", message)
	writes, said, asked := o.writes, len(o.emitted), len(o.server.Requests())
	o.pass(time.Duration(hours) * time.Hour)
	complain(o.writes-writes <= 1, "reported %d times that nothing has changed", o.writes-writes) // a login may fail then, instead of a list
	complain(said == len(o.emitted), "said again: %v", o.emitted[said:])
	n := len(o.server.Requests()) - asked
	complain(n <= hours*l.perHour, "%d requests in %d hours", n, hours)
	l.up(o)
	o.pass(6 * time.Minute)
	complain(o.is("Ready True Steady", "ProviderReady True PoolReady", "Degraded False AsExpected"), "conditions: %v", o.object().Status.Conditions)
	complain(slices.Equal(applied, o.applied), "the data plane was changed: %v", o.applied[len(applied):])
	complain(len(o.lost) == 0, "lost: %v", o.lost)
	_, now, _ := o.server.Counts()
	complain(ordered == now, "%d changes were ordered", now-ordered)
	return complaints
}

// nothingDepends holds a migrated cluster to not changing while it is without the cloud.
func nothingDepends(t *testing.T, losses map[string]loss) {
	t.Helper()
	for name, l := range losses {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inCloud(t, func(o *cloudEnvironment) {
				t := o.TB
				require.Empty(t, o.without(l, 3))
			})
		})
	}
}

// TestAtRestNothingDependsOnTheCloud: a migrated cluster does not change when the cloud goes away, for whatever
// reason and however long; it says so once, asks slowly, and notices by itself that the cloud is back.
func TestAtRestNothingDependsOnTheCloud(t *testing.T) { nothingDepends(t, outages) }

// eager is a provider that does not take no for an answer.
type eager struct{ cloud.Provider }

func (e eager) Observe(ctx context.Context, want cloud.PoolSpec) (out cloud.Pool, err error) {
	for range 20 {
		if out, err = e.Provider.Observe(ctx, want); err == nil {
			break
		}
	}
	return out, err
}

// TestAManagerThatMistakesAnOutageIsFoundOut is the negative control of the test above.
func TestAManagerThatMistakesAnOutageIsFoundOut(t *testing.T) {
	how := outages["every request fails"]
	for name, c := range map[string]struct {
		spoil func(*cloudEnvironment)
		want  string
	}{
		"it takes silence for the loss of the pool": {func(o *cloudEnvironment) {
			o.decide = func(seen rollout.Observed, want rollout.Desired, now time.Time) rollout.Step {
				if seen.Pool == nil && !seen.BGP.MeshOn() {
					return rollout.Step{Name: "RestoreMesh", Again: time.Minute, Actions: []plan.Action{plan.RestoreMesh{}}}
				}
				return rollout.Next(seen, want, now)
			}
		}, "the data plane was changed: [switch the node-to-node mesh on"},
		"it hammers": {func(o *cloudEnvironment) { o.wrap = func(p cloud.Provider) cloud.Provider { return eager{p} } }, "requests in 1 hours"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				o := newCloudEnvironment(t)
				c.spoil(o)
				o.until(time.Hour, o.migrated)
				o.pass(time.Minute)
				require.Contains(t, strings.Join(o.without(how, 1), "\n"), c.want)
			})
		})
	}
}

// scenario is a change in the cluster that calls for one of the data plane.
type scenario struct {
	name string
	// begin makes it happen, over says that the manager is through with it.
	begin func(*cloudEnvironment)
	over  func(*cloudEnvironment) bool
	// without: it needs nothing of the cloud.
	without bool
}

var scenarios = []scenario{
	{"to route reflectors", func(*cloudEnvironment) {}, (*cloudEnvironment).migrated, false},
	{"a reflector dies", func(o *cloudEnvironment) {
		o.migrate()
		o.pass(10 * time.Minute)
		o.die(o.reflectors()[0])
	}, func(o *cloudEnvironment) bool {
		return o.migrated() && len(o.reflectors()) == 3 && o.is("ProviderReady True PoolReady")
	}, false},
	{"back to the mesh", func(o *cloudEnvironment) {
		o.migrate()
		o.edit(func(r *v1alpha1.RouteReflectorPool) { r.Spec.Mode = v1alpha1.ModeFullMesh })
	}, func(o *cloudEnvironment) bool {
		return o.seenStep.Name == rollout.Steady && o.model.Observe().BGP.MeshOn()
	}, true},
	{"all reflectors die", func(o *cloudEnvironment) {
		o.migrate()
		o.pass(10 * time.Minute)
		o.die(o.reflectors()...)
	}, func(o *cloudEnvironment) bool { return o.model.Observe().BGP.MeshOn() }, true},
}

// undisturbed runs a scenario with the cloud up: what was changed in the data plane, and how many turns it took.
func (s scenario) undisturbed(t *testing.T) (applied []string, turns int) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		o := newCloudEnvironment(t)
		s.begin(o)
		o.applied = nil
		require.True(t, o.until(6*time.Hour, func() bool {
			turns++
			return s.over(o)
		}), "%s: %+v", s.name, o.seenStep)
		applied = o.applied
	})
	return applied, turns
}

// TestTheCloudChangesNoStepOfTheDataPlane: whenever in a scenario the cloud goes away, the data plane is
// changed as with the cloud up, and in no other way. What needs the cloud waits for it,
// and goes on by itself; what does not, does not wait.
func TestTheCloudChangesNoStepOfTheDataPlane(t *testing.T) {
	for _, s := range scenarios {
		want, turns := s.undisturbed(t)
		require.NotEmpty(t, want)
		for name, how := range map[string]loss{
			"no answer": outages["every request hangs"], "no key": deprivations["the Secret is deleted"],
		} {
			t.Run(s.name+", "+name, func(t *testing.T) {
				t.Parallel()
				for cut := 0; cut < turns; cut += max(1, turns/3) {
					synctest.Test(t, func(t *testing.T) { s.withoutCloud(t, how, cut, want) })
				}
			})
		}
	}
}

// withoutCloud runs the scenario with the cloud gone after some turns, for an hour.
func (s scenario) withoutCloud(t *testing.T, how loss, cut int, want []string) {
	t.Helper()
	o := newCloudEnvironment(t)
	s.begin(o)
	o.applied = nil
	turns := 0
	ended := o.until(6*time.Hour, func() bool {
		turns++
		return turns > cut || s.over(o)
	})
	require.True(t, ended)
	how.down(o)
	over := o.until(time.Hour, func() bool { return s.over(o) })
	require.Subset(t, want, o.applied, "%s: the cloud went after turn %d", s.name, cut)
	if s.without {
		require.True(t, over, "it waits for the cloud: %+v", o.seenStep)
	} else if !over {
		require.True(t, o.is("ProviderReady False "+how.reason), "%v", o.object().Status.Conditions)
	}
	how.up(o)
	require.True(t, over || o.until(3*time.Hour, func() bool { return s.over(o) }), "%+v", o.seenStep)
	require.ElementsMatch(t, want, o.applied, "%s: the cloud went after turn %d", s.name, cut)
	require.Len(t, o.server.Pools(clusterID), 2, "a second pool")
	require.Empty(t, o.server.Untainted("route-reflectors"))
}

// slowest is the longest creation of a classic pool that was measured.
const slowest = 93 * time.Second

// TestASlowOrderIsNoOutage: a cloud that takes a minute and a half for each change is waited for, by name, and no
// change is asked for twice.
func TestASlowOrderIsNoOutage(t *testing.T) {
	t.Setenv("RRPOOL_IKS_PROFILE", "") // it counts what a cloud with other faults, or without versions, does not show
	synctest.Test(t, func(t *testing.T) {
		o := newCloudEnvironment(t)
		o.server.Inject(iksserver.Fault{Method: "POST", Path: "^/v2", Delay: slowest})
		waited := false
		require.True(t, o.until(3*time.Hour, func() bool {
			for _, c := range o.object().Status.Conditions {
				require.False(t, c.Type == v1alpha1.ConditionDegraded && c.Status == "True", c.Message)
			}
			waited = waited || slices.Contains(o.object().Status.Step.WaitingFor, "the cloud to answer, which takes minutes at times")
			return o.migrated()
		}), "%+v", o.seenStep)
		require.True(t, waited, "nobody was told")
		require.Len(t, o.server.Pools(clusterID), 2)
		require.Len(t, slices.DeleteFunc(o.server.Requests(), func(r iksserver.Request) bool { return !r.Mutating() }), 5, "the pool, its taints, three zones")
		require.Empty(t, o.lost)
		require.Len(t, slices.DeleteFunc(slices.Clone(o.emitted), func(e string) bool { return !strings.Contains(e, "PoolChanged") }), 5, "%v", o.emitted)
	})
}

// TestASlowLookIsNoOutage: where a look takes longer than the data plane waits for it, what it shows comes a little later.
func TestASlowLookIsNoOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o, dies := newCloudEnvironment(t), scenarios[1]
		o.migrate()
		o.server.Inject(iksserver.Fault{Method: "GET", Delay: 8 * time.Second}) // of two requests and more
		dies.begin(o)
		require.True(t, o.until(6*time.Hour, func() bool {
			require.True(t, o.is("ProviderReady True PoolReady") || o.condition("ProviderReady").Reason != "CloudUnavailable", o.condition("ProviderReady").Message)
			return dies.over(o)
		}), "%+v", o.seenStep)
		require.Empty(t, o.lost)
	})
}

// TestAChangeUnderWay: nothing else is asked of the cloud meanwhile, by another connection neither.
func TestAChangeUnderWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEnvironment(t)
		e.script = always(rollout.Step{Name: "EnsurePool", Actions: []plan.Action{plan.EnsurePool{}}})
		var ended error
		e.cloud.ensureErr = &cloud.Error{Kind: cloud.Unauthorized, Message: "of the first key"}
		e.cloud.changing = func(ctx context.Context) {
			<-ctx.Done()
			ended = ctx.Err()
		}
		e.settle(3)
		synctest.Wait()
		require.Equal(t, 1, e.cloud.ensured)
		e.clock = e.clock.Add(10 * time.Minute)
		looked := e.cloud.observed
		e.settle(1)
		require.Equal(t, looked, e.cloud.observed)
		for _, key := range []string{"another", "a third"} { // the connection is another one: the order goes on, and nothing else is ordered
			require.NoError(t, e.client.Delete(t.Context(), secret("")))
			e.settle(1)
			require.NoError(t, e.client.Create(t.Context(), secret(key)))
			e.settle(2)
		}
		require.NoError(t, ended)
		require.Equal(t, 1, e.cloud.ensured)
		time.Sleep(3 * time.Minute)
		require.ErrorIs(t, ended, context.DeadlineExceeded)
		e.settle(1)
		require.Equal(t, 2, e.cloud.ensured)
		require.Equal(t, looked+1, e.cloud.observed)
		require.NotContains(t, fmt.Sprint(e.object().Status), "of the first key")
	})
}

// TestAnOrderThatIsRefusedForEver with an error of the server's is told after a few tries, and repeated ever more slowly.
func TestAnOrderThatIsRefusedForEver(t *testing.T) {
	for _, path := range []string{"createWorkerPool$", "setWorkerPoolTaints$", "createWorkerPoolZone$"} {
		synctest.Test(t, func(t *testing.T) {
			o := newCloudEnvironment(t)
			o.server.Inject(iksserver.Fault{Status: http.StatusInternalServerError, Body: `{"code":"E5001","description":"no such luck"}`}.On(http.MethodPost, path))
			o.pass(10 * time.Minute)
			asked := len(o.server.Requests())
			for range 60 {
				o.expect("Degraded True CloudUnavailable", "ProviderReady False CloudUnavailable")
				o.pass(time.Minute)
			}
			require.Contains(t, o.condition("Degraded").Message, "no such luck (E5001)")
			tries := slices.DeleteFunc(o.server.Requests()[asked:], func(r iksserver.Request) bool { return !r.Mutating() })
			require.LessOrEqual(t, len(tries), 3*60/10, "%s, in each of three zones at most", path)
			o.server.ClearFaults()
			o.migrate()
			o.expect("Degraded False AsExpected", "ProviderReady True PoolReady")
		})
	}
}

// TestAProviderThatPanics: the manager goes on, and with it the safety net. It does not print the key.
func TestAProviderThatPanics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEnvironment(t)
		e.script = always(rollout.Step{Name: "EnsurePool", Actions: []plan.Action{plan.EnsurePool{}}})
		e.cloud.changing = func(context.Context) { panic("no pool for " + apiKey) }
		for range 5 {
			_, _ = e.reconciler.Reconcile(t.Context(), reconcile.Request{})
			e.clock = e.clock.Add(10 * time.Minute)
		}
		require.Greater(t, e.cloud.ensured, 1, "it is asked again")
		require.Contains(t, e.condition("ProviderReady").Message, "the provider panicked")
		require.NotContains(t, e.condition("ProviderReady").Message, apiKey)
	})
}

// TestACloudThatHangsHoldsTheSafetyNetUpForSeconds: all reflectors die while a request
// is under way that gets no answer. It is the most that a cloud can do to the data plane.
func TestACloudThatHangsHoldsTheSafetyNetUpForSeconds(t *testing.T) {
	for name, c := range map[string]struct {
		hang iksserver.Fault
		// first are the reflectors that die before, so that something is ordered.
		first int
		most  time.Duration
	}{
		"it answers":                       {iksserver.Fault{Path: "^none$", Hang: true}, 0, 2 * time.Second},
		"it is silent about what there is": {iksserver.Fault{Method: "GET", Hang: true}, 0, 10 * time.Second},
		"it is silent about an order":      {iksserver.Fault{Method: "POST", Path: "^/v2", Hang: true}, 1, 5 * time.Second},
		"it carries an order out slowly":   {iksserver.Fault{Method: "POST", Path: "^/v2", Delay: slowest}, 1, 5 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inCloud(t, func(o *cloudEnvironment) {
				t := o.TB
				o.pass(10 * time.Minute)
				all := o.reflectors()
				o.server.Inject(c.hang)
				asked := len(o.server.Requests())
				died := make(chan time.Time, 1)
				go func() {
					for !slices.ContainsFunc(o.server.Requests()[asked:], func(r iksserver.Request) bool {
						return c.first == 0 || r.Mutating()
					}) {
						time.Sleep(100 * time.Millisecond)
					}
					time.Sleep(time.Second)
					o.die(all[c.first:]...)
					died <- time.Now()
				}()
				o.die(all[:c.first]...)
				require.True(t, o.until(time.Hour, func() bool { return o.model.Observe().BGP.MeshOn() }))
				took := time.Since(<-died)
				t.Log(took)
				require.LessOrEqual(t, took, c.most)
			})
		})
	}
}
