package pool

import (
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/controllers/plan"
	"github.com/rrpool/rrpool/controllers/plan/rollout"
	"github.com/rrpool/rrpool/controllers/plan/topology"
)

// What a kubelet, or whoever has taken one over, may write into its own Node, and what
// rrpool makes of it in a cluster that is settled. It never acts on another node for it,
// and never writes another BGPPeer. What is refused stops further changes until a person
// has looked; the safety net and the routes that there are stay.
func TestWhatANodeMayWriteIntoItself(t *testing.T) {
	const role, id = "rrpool.io/route-reflector", "244.0.0.1"
	now := time.Unix(1e9, 0)
	long := now.Add(-24 * time.Hour)
	for name, tc := range map[string]struct {
		write   func(*plan.Node)
		step    string
		problem string
	}{
		"nothing": {func(*plan.Node) {}, rollout.Steady, ""},
		"the label of the dedicated pool, to be chosen for a reflector": {
			func(n *plan.Node) { n.Labels[PoolLabel] = "route-reflectors" }, rollout.Steady, "",
		},
		"the label of the role":   {func(n *plan.Node) { n.RoleLabel, n.Seat = true, "true" }, "RemoveStrayLabel", ""},
		"a seat that another has": {func(n *plan.Node) { n.RoleLabel, n.Seat = true, "quorum-z1-1" }, "RemoveStrayLabel", ""},
		"all that makes a reflector, as if it had been the first": {
			func(n *plan.Node) {
				n.RoleLabel, n.Seat, n.ClusterID, n.Marked, n.RoleSince = true, "true", id, true, time.Unix(1, 0)
			}, "RemoveReflector", "",
		},
		"a cluster ID":            {func(n *plan.Node) { n.ClusterID = id }, rollout.UnsupportedCluster, "ForeignReflector"},
		"an AS number of its own": {func(n *plan.Node) { n.ASN = 65001 }, rollout.UnsupportedCluster, "MixedASNumbers"},
		"a rack":                  {func(n *plan.Node) { n.Rack = "7" }, "ClearRacks", ""},
		"another zone":            {func(n *plan.Node) { n.Zone = "z9" }, rollout.Steady, ""},
		"our mark of a cordon":    {func(n *plan.Node) { n.CordonMark = true }, "UncordonNode", ""},
		"an address that another has": {
			func(n *plan.Node) { n.Addresses = []netip.Addr{netip.MustParseAddr("10.0.0.1")} }, rollout.Steady, "",
		},
		"another's providerID": {func(n *plan.Node) { n.ProviderID = "ibm://acc///c1/w1" }, rollout.Steady, ""},
	} {
		t.Run(name, func(t *testing.T) {
			pool := &rollout.Pool{Exists: true, SizePerZone: 1, Zones: []string{"z1", "z2", "z3"}}
			members := map[string]string{}
			var all []plan.Node
			for i := range 12 {
				z := pool.Zones[i%3]
				worker := "w" + string(rune('a'+i))
				n := plan.Node{
					Name: "node-" + string(rune('a'+i)), ProviderID: "ibm://acc///c1/" + worker, Zone: z, Ready: true, ReadyChanged: long, Created: long,
					Labels: map[string]string{workerIDLabel: worker}, Addresses: []netip.Addr{netip.AddrFrom4([4]byte{10, 0, 0, byte(i)})},
				}
				if i < 3 {
					n.RoleLabel, n.Seat, n.ClusterID, n.Marked, n.RoleSince = true, "true", id, true, long
					n.Labels[PoolLabel], members[worker] = "route-reflectors", z
					pool.Workers = append(pool.Workers, rollout.Worker{ID: worker, Node: n.Name, Zone: z})
				}
				all = append(all, n)
			}
			evil := &all[11]
			tc.write(evil)
			fillIn(all, "route-reflectors", members)
			require.False(t, evil.Pooled)
			off := false
			peers := topology.Single(role, topology.Session{})
			for i := range peers {
				peers[i].Written = long
			}
			step := rollout.Next(rollout.Observed{
				Cluster: plan.Cluster{
					Nodes: all, Peers: peers,
					BGP: plan.BGPConfig{Exists: true, Mesh: plan.Mesh{Enabled: &off}, Saved: &plan.Mesh{}, ASN: 64512},
				},
				Pool: pool,
			}, rollout.Desired{
				Mode: rollout.Reflect, Dedicated: true, Pool: plan.PoolWant{SizePerZone: 1, Zones: pool.Zones}, ClusterID: id, RoleLabel: role, Timer: true,
				Topology:       topology.Spec{Kind: v1alpha1.TopologySingle, ClusterID: id, RoleLabel: role},
				SessionTimeout: time.Minute, NotReadyGrace: time.Minute, RemovalDelay: time.Minute, MinServing: 2, NetAfter: time.Minute,
			}, now)
			require.Equal(t, tc.step, step.Name, "%s", step.Reason)
			if tc.problem != "" {
				require.Equal(t, tc.problem, step.Problem.Reason)
				require.Contains(t, step.Problem.Message, evil.Name, "a person is told who")
				require.Empty(t, step.Actions)
			}
			own := []plan.Action{
				plan.ClearReflector{Node: evil.Name}, plan.SetRack{Node: evil.Name}, plan.UncordonNode{Node: evil.Name}, plan.RefreshStatus{Node: evil.Name},
			}
			for _, action := range step.Actions {
				require.True(t, slices.Contains(own, action), "%s", action)
			}
		})
	}
}
