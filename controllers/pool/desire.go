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
	}
	if ref := spec.BGP.PasswordSecretRef; ref.Name != "" {
		d.Password = &plan.SecretRef{Name: ref.Name, Key: ref.Key}
	}
	if !t.reflecting() {
		return d, nil
	}
	d.Mode = rollout.Reflect
	if kind := spec.Topology.Type; kind != v1alpha1.TopologySingle && kind != "" {
		return d, topologyProblem(kind)
	}
	zones := poolZones(spec, t.cluster.Nodes, known)
	perZone, err := sizePerZone(spec.Sizing, t.cluster.Nodes, len(zones), known)
	if err != nil {
		return d, sizingProblem(err)
	}
	d.Pool = plan.PoolWant{SizePerZone: perZone, Zones: zones}
	return d, nil
}

// sizePerZone sizes the pool by the nodes that are Ready. While some are not,
// nobody knows whether they come back: the size then stays where it is, as long
// as that is right for some number of them. Otherwise an outage of half the
// cluster would take reflectors away from the other half.
func sizePerZone(spec v1alpha1.SizingSpec, nodes []plan.Node, zones int, known *cloud.Pool) (int, error) {
	zones = max(zones, 1)
	ready, all := countNodes(nodes)
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

// countNodes counts the nodes that speak BGP and are not dedicated to reflecting.
func countNodes(nodes []plan.Node) (ready, all int) {
	for _, node := range nodes {
		if node.Pooled || !node.SpeaksBGP() {
			continue
		}
		all++
		if node.Ready {
			ready++
		}
	}
	return ready, all
}

// poolZones names the zones of the pool, sorted: those the user gives, else all
// that the cloud knows, else those in which there are nodes. They are always
// named: the number of reflectors to wait for depends on the zones that are
// still without a node. A zone that the pool has is given up only when the user
// says so, not because the cloud's list is shorter today.
func poolZones(spec v1alpha1.RouteReflectorPoolSpec, nodes []plan.Node, known *cloud.Pool) []string {
	if zones := spec.Provider.IKS.Zones; len(zones) > 0 {
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
	for _, node := range nodes {
		if node.SpeaksBGP() && node.Zone != "" {
			zones[node.Zone] = true
		}
	}
	return slices.Sorted(maps.Keys(zones))
}

// poolSpec is the provider's view of the wanted pool.
func poolSpec(spec v1alpha1.IKSSpec, want plan.PoolWant) cloud.PoolSpec {
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
	}
	return out
}
