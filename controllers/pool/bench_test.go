package pool_test

import (
	"fmt"
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/rrpool/rrpool/cloud"
	"github.com/rrpool/rrpool/controllers/plan"
	"github.com/rrpool/rrpool/controllers/plan/rollout"
	"github.com/rrpool/rrpool/controllers/plan/topology"
)

// BenchmarkReconcileAtRest is one turn of a migrated cluster that needs nothing.
func BenchmarkReconcileAtRest(b *testing.B) {
	for _, size := range []int{100, 1000, 5000} {
		b.Run(fmt.Sprintf("%d nodes", size), func(b *testing.B) {
			w := migrated(b, size)
			_, err := w.reconciler.Reconcile(b.Context(), reconcile.Request{})
			require.NoError(b, err)
			require.Equal(b, rollout.Steady, w.seenStep.Name, "%+v", w.seenStep)
			b.ReportAllocs()
			for b.Loop() {
				_, err := w.reconciler.Reconcile(b.Context(), reconcile.Request{})
				require.NoError(b, err)
			}
			require.LessOrEqual(b, w.writes, 2)
		})
	}
}

// migrated is a cluster of size workload nodes with all its reflectors serving.
func migrated(tb testing.TB, size int) *world {
	tb.Helper()
	w := newWorld(tb)
	reflectors := min(25, 3+size/100)
	perZone := (reflectors + 2) / 3
	if perZone*3 > 25 {
		perZone = 8
	}
	var nodes []plan.Node
	var sessions []plan.Session
	since := w.clock.Add(-time.Hour)
	address := func(i int) netip.Addr { return netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)}) }
	for i := range size + perZone*3 {
		ip := address(i + 1)
		n := node(ip.String(), fmt.Sprintf("w%d", i), fmt.Sprintf("z%d", i%3+1))
		n.ReadyChanged, n.Created = since, since
		if i >= size {
			n.Labels = map[string]string{"rrpool.io/pool": "route-reflectors"}
			n.RoleLabel, n.ClusterID, n.Marked, n.RoleSince = true, "244.0.0.1", true, since
			w.cloud.pool.Workers = append(w.cloud.pool.Workers, cloud.Worker{
				ID: n.ProviderID[len("ibm://account///c1/"):], NodeName: n.Name, Zone: n.Zone, State: cloud.WorkerDeployed,
			})
		}
		nodes = append(nodes, n)
		sessions = append(sessions, plan.Session{Peer: ip, Kind: plan.SessionNode, Established: true, Since: since})
	}
	off := false
	w.calico.cluster = plan.Cluster{
		Nodes: nodes, BGP: plan.BGPConfig{Exists: true, ASN: 64512, Mesh: plan.Mesh{Enabled: &off}, Saved: &plan.Mesh{}},
		Statuses: map[string]plan.Status{},
		Peers:    topology.Single("rrpool.io/route-reflector", topology.Session{}),
	}
	for i := range w.calico.cluster.Peers {
		w.calico.cluster.Peers[i].Written = since
	}
	for _, n := range nodes[size:] {
		w.calico.cluster.Statuses[n.Name] = plan.Status{Node: n.Name, Updated: since, Agent: true, Sessions: sessions}
	}
	w.cloud.pool.Exists, w.cloud.pool.Owned, w.cloud.pool.SizePerZone = true, true, perZone
	w.cloud.pool.Zones = w.cloud.pool.ClusterZones
	w.cloud.pool.Taints = []cloud.Taint{{Key: "rrpool.io/dedicated", Value: "route-reflector", Effect: "NoExecute"}}
	return w
}
