package pool_test

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/controllers/plan"
)

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
	require.Empty(t, about(t, reporting(t, func(o *v1alpha1.RouteReflectorPool) { o.Spec.Rollout.Gate = v1alpha1.GateTimer })))
}
