package pool

import (
	"maps"
	"slices"

	"github.com/rrpool/rrpool/cloud"
	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/controllers/plan"
	"github.com/rrpool/rrpool/controllers/plan/rollout"
	"github.com/rrpool/rrpool/controllers/plan/sizing"
)

// desire says where the cluster is to go. known is the pool as it was last
// seen, which may be long ago, or nil. The way back to the mesh needs neither a
// provider nor a size, so nothing in the spec can block it.
func desire(t *turn, known *cloud.Pool) (rollout.Desired, *plan.Problem) {
	spec := t.object.Spec
	d := rollout.Desired{
		Mode:           rollout.Mesh,
		Dedicated:      t.origin.kind == v1alpha1.ProviderIKS,
		ClusterID:      spec.Topology.ClusterID,
		RoleLabel:      spec.BGP.NodeLabel,
		Timer:          spec.Rollout.Gate == v1alpha1.GateTimer,
		SessionTimeout: spec.Rollout.SessionTimeout.Duration,
		NotReadyGrace:  spec.Rollout.NotReadyGrace.Duration,
		RemovalDelay:   spec.Rollout.RemovalDelay.Duration,
		MinServing:     int(spec.Rollout.SafetyNet.MinServing),
		NetAfter:       spec.Rollout.SafetyNet.After.Duration,
		Promotion:      spec.Provider.ExistingNodes.Promotion,
	}
	var problem *plan.Problem
	d.Preferred, d.Excluded, problem = selectors(spec.Provider.ExistingNodes)
	if ref := spec.BGP.PasswordSecretRef; ref.Name != "" {
		d.Password = &plan.SecretRef{Name: ref.Name, Key: ref.Key}
	}
	if !t.reflecting() {
		return d, nil
	}
	d.Mode = rollout.Reflect
	if t.busy() && problem != nil {
		return d, problem
	}
	clients, zones := clientsOf(t), poolZones(t, known)
	perZone, err := sizePerZone(spec.Sizing, clients, len(zones), known)
	if err != nil {
		return d, sizingProblem(err)
	}
	topo, perZone, problem, serious := shape(t, known, clients, zones, perZone)
	if serious {
		return d, problem
	}
	t.worry = problem
	d.Topology, d.Pool = topo, plan.PoolWant{SizePerZone: perZone, Zones: zones}
	return d, nil
}

// sizePerZone sizes the pool by the nodes that are Ready. While some are not,
// nobody knows whether they come back: the size then stays where it is, as long
// as that is right for some number of them. Otherwise an outage of half the
// cluster would take reflectors away from the other half.
func sizePerZone(spec v1alpha1.SizingSpec, clients []plan.Node, zones int, known *cloud.Pool) (int, error) {
	zones = max(zones, 1)
	ready, all := countReady(clients), len(clients)
	low, err := sizing.Reflectors(spec, ready, zones)
	if err != nil || known == nil || !known.Owned || known.SizePerZone <= low.PerZone {
		return low.PerZone, err
	}
	if ready < all {
		high, err := sizing.Reflectors(spec, all, zones)
		low.PerZone = max(low.PerZone, min(known.SizePerZone, high.PerZone))
		return low.PerZone, err
	}
	// Nodes that come and go around a threshold must not buy and return machines.
	margin, err := sizing.Reflectors(spec, ready+max(ready/10, 1), zones)
	return max(low.PerZone, min(known.SizePerZone, margin.PerZone)), err
}

// clientsOf are the nodes that route reflectors are there for: those that speak
// BGP and are not dedicated to reflecting. A busy reflector is a client too.
func clientsOf(t *turn) []plan.Node {
	return slices.DeleteFunc(slices.Clone(t.cluster.Nodes), func(n plan.Node) bool {
		return !n.SpeaksBGP() || n.Pooled && !t.busy()
	})
}

func countReady(nodes []plan.Node) int {
	ready := 0
	for _, node := range nodes {
		if node.Ready {
			ready++
		}
	}
	return ready
}

// poolZones names the zones of the pool, sorted. For existing nodes they are where
// the nodes are, and "" is that of nodes without one. For a pool of its own: those
// the user gives, else all that the cloud knows, else those in which there are
// nodes. They are always named: the number of reflectors to wait for depends on
// the zones that are still without a node. A zone that the pool has is given up
// only when the user says so, not because the cloud's list is shorter today.
func poolZones(t *turn, known *cloud.Pool) []string {
	if t.busy() {
		return zonesOf(t.cluster.Nodes)
	}
	if zones := t.object.Spec.Provider.IKS.Zones; len(zones) > 0 {
		return slices.Compact(slices.Sorted(slices.Values(zones)))
	}
	zones := map[string]bool{}
	if known != nil && len(known.ClusterZones) > 0 {
		for _, zone := range known.ClusterZones {
			zones[zone] = true
		}
		if known.Owned {
			for _, zone := range known.Zones {
				zones[zone] = true
			}
		}
		return slices.Sorted(maps.Keys(zones))
	}
	return slices.DeleteFunc(zonesOf(t.cluster.Nodes), func(zone string) bool { return zone == "" })
}

// zonesOf are the zones of the nodes that speak BGP, sorted.
func zonesOf(nodes []plan.Node) []string {
	zones := map[string]bool{}
	for _, node := range nodes {
		if node.SpeaksBGP() {
			zones[node.Zone] = true
		}
	}
	return slices.Sorted(maps.Keys(zones))
}

// poolSpec is the provider's view of the wanted pool. Existing nodes are as they are.
func poolSpec(t *turn, want plan.PoolWant) cloud.PoolSpec {
	if t.busy() {
		return cloud.PoolSpec{Zones: want.Zones, SizePerZone: want.SizePerZone, Retire: want.Retire, Replace: want.Replace}
	}
	spec := t.object.Spec.Provider.IKS
	out := cloud.PoolSpec{
		Flavor:      spec.Flavor,
		Zones:       want.Zones,
		SizePerZone: want.SizePerZone,
		Labels: map[string]string{
			v1alpha1.ManagedByLabel: v1alpha1.ManagedByValue,
			PoolLabel:               spec.PoolName,
		},
		Retire:  want.Retire,
		Replace: want.Replace,
	}
	if taint := taintOf(spec.Taint); taint.Key != "" {
		out.Taints = []cloud.Taint{taint}
		for _, node := range untainted(t.cluster.Nodes, taint) {
			out.Untainted = append(out.Untainted, node.WorkerID)
		}
		slices.Sort(out.Untainted)
	}
	return out
}
