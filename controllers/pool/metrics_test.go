package pool_test

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/stretchr/testify/require"

	"github.com/rrpool/rrpool/cloud"
	"github.com/rrpool/rrpool/cloud/cost"
	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/controllers/plan"
	"github.com/rrpool/rrpool/controllers/plan/evidence"
	"github.com/rrpool/rrpool/controllers/plan/rollout"
	"github.com/rrpool/rrpool/controllers/pool"
)

// exported lists every gauge and counter but those of calls: name, label values, value.
func exported(tb testing.TB, registry prometheus.Gatherer) []string {
	tb.Helper()
	families, err := registry.Gather()
	require.NoError(tb, err)
	var out []string
	for _, family := range families {
		if family.GetType() == dto.MetricType_HISTOGRAM || strings.Contains(family.GetName(), "_provider_") {
			continue
		}
		for _, metric := range family.GetMetric() {
			line := strings.TrimPrefix(family.GetName(), "rrpool_")
			for _, label := range metric.GetLabel() {
				line += " " + label.GetValue()
			}
			out = append(out, fmt.Sprintf("%s %v", line, metric.GetGauge().GetValue()+metric.GetCounter().GetValue()))
		}
	}
	return out
}

// onReflectors is a cluster on three reflectors, of which as many serve as said.
func onReflectors(t *testing.T, serving int, change ...func(*v1alpha1.RouteReflectorPool)) *environment {
	t.Helper()
	e := newEnvironment(t, change...)
	e.meshOff()
	e.cloud.pool = cloud.Pool{
		Exists: true, Owned: true, SizePerZone: 1, Zones: []string{"z1", "z2", "z3"},
		Workers: []cloud.Worker{{ID: "rr1", State: cloud.WorkerDeployed}, {ID: "rr2", State: cloud.WorkerDeployed}, {ID: "rr3", State: cloud.WorkerProvisioning}},
	}
	step := rollout.Step{Name: rollout.Steady, Short: serving < 2, Unserved: []string{}}
	e.calico.cluster.Statuses = map[string]plan.Status{}
	for i := range 3 {
		r := evidence.Reflector{Node: fmt.Sprintf("10.0.%d.1", i+1), Zone: fmt.Sprintf("z%d", i+1), Expected: 8}
		n := node(r.Node, fmt.Sprintf("rr%d", i+1), r.Zone)
		n.HasRoleLabel, n.ClusterID, n.Marked = true, "244.0.0.1", true
		if i < serving {
			r.Serving, r.Established = true, 8
		}
		n.Ready = i < serving
		e.calico.cluster.Nodes = append(e.calico.cluster.Nodes, n)
		e.calico.cluster.Statuses[r.Node] = plan.Status{Node: r.Node}
		step.Reflectors = append(step.Reflectors, r)
	}
	e.script = always(step)
	return e
}

func TestMetricsOfAClusterAtRest(t *testing.T) {
	e := onReflectors(t, 3)
	e.settle(2)
	require.Equal(t, []string{
		"condition Degraded AsExpected False 1", "condition MeshDisabled MeshOff True 1", "condition Progressing Steady False 1",
		"condition ProviderReady WorkersPending False 1", "condition Ready Steady True 1",
		"condition ReflectorsEstablished AllEstablished True 1",
		"last_observation_timestamp_seconds 1.767323345e+09", "leader 0",
		"mesh off 1", "mesh on 0", "mesh unknown 0", "mode FullMesh 0", "mode Paused 0", "mode RouteReflector 1",
		"nodes 6", "nodes_unserved 0", "object_present 1", "reflectors 3", "reflectors_minimum 2", "reflectors_serving 3", "reflectors_wanted 3",
		"safety_net_acted 0", "safety_net_due 0", "sessions_established 24", "sessions_expected 24",
		"step Steady 1", "step_waiting_seconds 0", "steps_total Steady 1", "workers_deployed 2", "workers_wanted 3",
	}, exported(t, e.metrics))
}

func timer(o *v1alpha1.RouteReflectorPool) { o.Spec.Rollout.Gate = v1alpha1.GateTimer }

func TestWhatMetricsSayOf(t *testing.T) {
	restored := func(e *environment) {
		e.calico.cluster.BGP.Mesh.Enabled = nil
		e.calico.cluster.BGP.Restored = e.clock
	}
	for name, tc := range map[string]struct {
		serving     int
		spec        func(*v1alpha1.RouteReflectorPool)
		arrange     func(*environment)
		says, hides []string
	}{
		"one reflector that serves of three": {serving: 1, says: []string{"reflectors 3", "reflectors_serving 1", "safety_net_due 1", "sessions_established 8"}},
		"reflectors of which one lacks a session, and one serves no more": {
			serving: 2, arrange: func(e *environment) {
				step := e.script(rollout.Observed{}, rollout.Desired{})
				step.Reflectors[1].Established, step.Reflectors[1].Lacking = 6, 1 // of the two, one is that with the third
				e.script = always(step)
			},
			says: []string{"reflectors 3", "reflectors_serving 2", "sessions_established 14", "sessions_expected 15"},
		},
		"no reflector that serves":     {says: []string{"reflectors 3"}, hides: []string{"sessions_"}},
		"a mesh that had to come back": {arrange: restored, says: []string{"mesh on 1", "mesh off 0", "safety_net_acted 1"}},
		"a mesh that was asked for": {
			spec: inMode(v1alpha1.ModeFullMesh), arrange: restored,
			says: []string{"safety_net_acted 0", "reflectors_wanted 0", "reflectors_minimum 0", "mode FullMesh 1"},
		},
		"a pause": {
			serving: 1, spec: inMode(v1alpha1.ModePaused),
			says: []string{"mode Paused 1", "mode RouteReflector 0", "safety_net_due 1", "reflectors_wanted 3"},
		},
		"a wish for fewer reflectors than the safety net's minimum": {
			serving: 3, spec: func(o *v1alpha1.RouteReflectorPool) { o.Spec.Rollout.SafetyNet.MinServing = 9 }, says: []string{"reflectors_minimum 3"},
		},
		"sessions that are not observed": {serving: 3, spec: timer, says: []string{"reflectors_serving 3"}, hides: []string{"sessions_"}},
		"reflectors that do not report": {
			serving: 3, arrange: func(e *environment) { e.calico.cluster.Statuses = nil },
			says: []string{"reflectors_serving 3", "safety_net_due 0"}, hides: []string{"sessions_"},
		},
		"one reflector that does not report": {
			serving: 3, arrange: func(e *environment) { delete(e.calico.cluster.Statuses, "10.0.1.1") },
			says: []string{"sessions_established 16", "sessions_expected 16"},
		},
		"nodes that have lost all sessions": {
			serving: 3, arrange: func(e *environment) {
				e.script = always(rollout.Step{Name: rollout.Steady, Unserved: []string{"a", "b"}})
			},
			says: []string{"nodes_unserved 2", "safety_net_due 0"},
		},
		"no reflector left, and the way back is refused": {
			spec: inMode(v1alpha1.ModeFullMesh), says: []string{"safety_net_due 1", "mode FullMesh 1", "mesh off 1"},
		},
		"reflectors that serve until the mesh is back": {serving: 3, spec: inMode(v1alpha1.ModeFullMesh), says: []string{"safety_net_due 0"}},
		"a mesh that another writer keeps off": {
			spec: inMode(v1alpha1.ModeFullMesh), arrange: func(e *environment) {
				e.calico.cluster.BGP.Saved, e.calico.cluster.Nodes = nil, e.calico.cluster.Nodes[:6]
				e.script = always(rollout.Step{Name: rollout.Steady})
			},
			says: []string{"safety_net_due 0", "mesh off 1"}, hides: []string{"nodes_unserved"},
		},
		"a topology in which not all reflectors are alike": {
			serving: 3, spec: func(o *v1alpha1.RouteReflectorPool) { o.Spec.Topology.Type = v1alpha1.TopologyQuorum },
			says: []string{"reflectors_serving 3"}, hides: []string{"reflectors_minimum"},
		},
		"a pool of others": {serving: 3, arrange: func(e *environment) { e.cloud.pool.Owned = false }, hides: []string{"workers_"}},
		"a spec that is refused": {
			serving: 3, spec: refusedSpec,
			says: []string{"mesh off 1", "safety_net_due 0", "condition Degraded SizingInvalid True 1"}, hides: []string{"reflectors", "sessions_"},
		},
		"a cluster that cannot be observed": {
			serving: 3, arrange: func(e *environment) { e.settle(1); e.calico.err = errors.New("no route to host") },
			says: []string{
				"mesh unknown 1", "mesh on 0", "mesh off 0", "object_present 1", "mode RouteReflector 1",
				"condition Ready ObservationFailed Unknown 1", "last_observation_timestamp_seconds 1.767323045e+09",
			},
			hides: []string{"reflectors", "sessions_", "safety_net_", "nodes", "step ", "step_", "workers_", "condition Ready Steady"},
		},
		"no object": {
			serving: 3, arrange: func(e *environment) { require.NoError(e, e.client.Delete(e.Context(), e.object())) },
			says: []string{"object_present 0"}, hides: []string{"mesh", "mode", "condition", "reflectors", "last_"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			e := onReflectors(t, tc.serving)
			if tc.spec != nil {
				e.edit(tc.spec)
			}
			if tc.arrange != nil {
				tc.arrange(e)
			}
			_ = e.reconcile() // metrics say what fails
			have := exported(t, e.metrics)
			require.Subset(t, have, tc.says)
			for _, prefix := range tc.hides {
				for _, line := range have {
					require.False(t, strings.HasPrefix(line, prefix), "%s is not known", line)
				}
			}
		})
	}
}

// A manager that stands by has not looked: 0 reflectors would be a lie.
func TestAManagerThatStandsByExportsOnlyThat(t *testing.T) {
	registry := prometheus.NewRegistry()
	m := pool.NewMetrics(registry)
	require.Equal(t, []string{"leader 0"}, exported(t, registry))
	m.Lead()
	require.Equal(t, []string{"leader 1"}, exported(t, registry))
}

// The wait is exported as of now: at rest, or while a write hangs, reconciliations are minutes apart.
func TestAWaitGrowsBetweenReconciliations(t *testing.T) {
	e := newEnvironment(t)
	e.script = always(rollout.Step{Name: "AwaitSessions"})
	require.NoError(t, e.reconcile())
	require.NoError(t, e.reconcile())
	e.clock = e.clock.Add(90 * time.Second)
	require.Contains(t, exported(t, e.metrics), "step_waiting_seconds 90")
}

func TestActionsAreCountedByResult(t *testing.T) {
	e := newEnvironment(t)
	e.script = always(rollout.Step{Name: "DisableMesh", Actions: []plan.Action{plan.DisableMesh{}}})
	e.settle(2)
	e.calico.fail[plan.DisableMesh{}.String()] = errors.New("no")
	require.Error(t, e.reconcile())
	require.Subset(t, exported(t, e.metrics), []string{"actions_total DisableMesh changed 2", "actions_total DisableMesh error 1", "steps_total DisableMesh 1"})
}

// hired gives the cluster another node, labelled as a worker of that flavor in a pool.
func (e *environment) hired(poolName, flavor string) {
	e.Helper()
	number := len(e.calico.cluster.Nodes) + 1
	n := node(fmt.Sprintf("10.0.1.%d", number), fmt.Sprintf("rr%d", number), fmt.Sprintf("z%d", number%3+1))
	n.Labels = map[string]string{
		v1alpha1.PoolLabel: poolName, "ibm-cloud.kubernetes.io/machine-type": flavor, "ibm-cloud.kubernetes.io/region": "eu-de",
	}
	e.calico.cluster.Nodes = append(e.calico.cluster.Nodes, n)
}

// expectCost holds the status and the metric to the cost of so many small workers.
func (e *environment) expectCost(workers int) {
	e.Helper()
	want := cost.Builtin().Status(slices.Repeat([]cost.Machine{{Region: "eu-de", Flavor: small}}, workers))
	require.Equal(e, want, e.object().Status.Cost)
	have := exported(e, e.metrics)
	if want == nil {
		require.NotContains(e, strings.Join(have, "\n"), "pool_cost_hourly", "a 0 would be taken for free")
	} else {
		require.Contains(e, have, "pool_cost_hourly "+want.Currency+" "+want.Hourly)
	}
}

// A pool from its order to its deletion, as it is paid for. Neither the cloud nor its key is needed to tell: nodes say what they are.
func TestThePoolCostsFromItsFirstNodeToItsLast(t *testing.T) {
	e := newEnvironment(t)
	require.NoError(t, e.client.Delete(t.Context(), secret("")))
	e.script = always(steady)
	e.hired("other-pool", small)
	e.hired("route-reflectors-2", small)
	e.settle(2)
	e.expectCost(0)
	for range 3 {
		e.hired("route-reflectors", small)
	}
	e.settle(1)
	e.expectCost(3)
	writes := e.writes
	e.clock = e.clock.AddDate(3, 0, 0) // all prices are older than a year
	e.restart()
	require.NoError(t, e.reconcile())
	require.Equal(t, writes, e.writes, "at rest nothing is written")
	for _, mode := range []v1alpha1.Mode{v1alpha1.ModeFullMesh, v1alpha1.ModePaused} {
		e.edit(inMode(mode))
		e.settle(2)
		e.expectCost(3)
	}
	e.hired("route-reflectors", "odd.1x1")
	e.settle(1)
	require.Contains(t, e.object().Status.Cost.Source, "no price is known of odd.1x1")
	require.NotContains(t, strings.Join(exported(t, e.metrics), "\n"), "pool_cost_hourly")

	// Existing nodes cost nothing extra, whatever their labels say.
	in := newInPlaceEnvironment(t)
	in.script = always(steady)
	in.hired(in.object().Spec.Provider.IKS.PoolName, small)
	in.settle(2)
	in.expectCost(0)
}

const small = "bx2.2x8"

// reporting is a cluster on three reflectors of which the third serves no more. Each has a session with the first five
// of six clients; that of the second reflector with the first client is not Established.
func reporting(t *testing.T, change ...func(*v1alpha1.RouteReflectorPool)) *environment {
	t.Helper()
	e := onReflectors(t, 2, change...)
	var clients []plan.Node
	for _, n := range e.calico.cluster.Nodes {
		if !n.Marked {
			clients = append(clients, n)
		}
	}
	for i, reflector := range []string{"10.0.1.1", "10.0.2.1", "10.0.3.1"} {
		report := plan.Status{Node: reflector, Written: e.clock}
		for j, n := range clients[:5] {
			report.Sessions = append(report.Sessions,
				plan.Session{Peer: n.Addresses[0], Kind: plan.SessionMesh, Established: false},
				plan.Session{Peer: n.Addresses[0], Kind: plan.SessionNode, Established: i != 1 || j != 0, Since: e.clock.Add(-time.Duration(j+1) * time.Minute)})
		}
		e.calico.cluster.Statuses[reflector] = report
	}
	return e
}

// about are the exported lines of the metrics of single reflectors and their clients.
func about(t *testing.T, e *environment) []string {
	t.Helper()
	e.settle(1)
	var out []string
	for _, line := range exported(t, e.metrics) {
		if strings.HasPrefix(line, "clients") || strings.HasPrefix(line, "reflector_") {
			out = append(out, line)
		}
	}
	return out
}

func TestMetricsOfEachReflector(t *testing.T) {
	e := reporting(t)
	first := e.calico.cluster.Statuses["10.0.1.1"]
	prefix := netip.MustParsePrefix("192.168.0.0/26")
	first.HasRoutes, first.Routes = true, []plan.Route{{Prefix: prefix}, {Prefix: prefix, From: first.Sessions[0].Peer}}
	e.calico.cluster.Statuses["10.0.1.1"] = first
	require.Equal(t, []string{
		"clients 0 z3 1", "clients 1 z1 1", "clients 2 z1 1", "clients 2 z2 2", "clients 2 z3 1",
		"reflector_prefixes 10.0.1.1 z1 1",
		"reflector_session_age_seconds 10.0.1.1 z1 360", "reflector_session_age_seconds 10.0.2.1 z2 420", "reflector_session_age_seconds 10.0.3.1 z3 360",
		"reflector_sessions_established 10.0.1.1 z1 8", "reflector_sessions_established 10.0.2.1 z2 8", "reflector_sessions_established 10.0.3.1 z3 0",
		"reflector_sessions_expected 10.0.1.1 z1 8", "reflector_sessions_expected 10.0.2.1 z2 8", "reflector_sessions_expected 10.0.3.1 z3 8",
	}, about(t, e))
}

func TestWhatIsNotKnownOfReflectorsIsAbsent(t *testing.T) {
	e := reporting(t)
	for name, report := range e.calico.cluster.Statuses {
		report.Sessions[1].Since, report.Sessions[3].Since = time.Time{}, time.Time{} // this manager has not seen it begin
		e.calico.cluster.Statuses[name] = report
	}
	e.calico.cluster.Statuses["10.0.2.1"] = plan.Status{Node: "10.0.2.1"} // asked for, not filled in yet
	for _, line := range about(t, e) {
		require.NotContains(t, line, "age_seconds")
		require.NotContains(t, line, "10.0.2.1")
	}
	require.Empty(t, about(t, reporting(t, timer)))
}
