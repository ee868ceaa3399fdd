package pool

import (
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
	perZone, err := perZone(spec, t.cluster.Nodes, known)
	if err != nil {
		return d, sizingProblem(err)
	}
	d.Pool = plan.PoolWant{SizePerZone: perZone, Zones: spec.Provider.IKS.Zones}
	return d, nil
}

// perZone sizes the pool by the nodes that are Ready. While some are not, nobody
// knows whether they come back: the size then stays where it is, as long as that
// is right for some number of them. Otherwise an outage of half the cluster
// would take reflectors away from the other half.
func perZone(spec v1alpha1.RouteReflectorPoolSpec, nodes []plan.Node, known *cloud.Pool) (int, error) {
	zones := countZones(spec, nodes, known)
	ready, all := countNodes(nodes)
	low, err := sizing.Reflectors(spec.Sizing, ready, zones)
	if err != nil || known == nil || !known.Exists || ready == all {
		return low.PerZone, err
	}
	high, err := sizing.Reflectors(spec.Sizing, all, zones)
	return max(low.PerZone, min(known.SizePerZone, high.PerZone)), err
}

// countNodes counts the nodes that speak BGP and are not dedicated to reflecting.
func countNodes(nodes []plan.Node) (ready, all int) {
	for _, node := range nodes {
		if node.Dedicated || !node.SpeaksBGP() {
			continue
		}
		all++
		if node.Ready {
			ready++
		}
	}
	return ready, all
}

// countZones counts the zones of the pool: those the user names, else all that
// the cloud knows, else those in which there are nodes.
func countZones(spec v1alpha1.RouteReflectorPoolSpec, nodes []plan.Node, known *cloud.Pool) int {
	if len(spec.Provider.IKS.Zones) > 0 {
		return len(spec.Provider.IKS.Zones)
	}
	if known != nil && len(known.ClusterZones) > 0 {
		return len(known.ClusterZones)
	}
	zones := map[string]bool{}
	for _, node := range nodes {
		if node.SpeaksBGP() {
			zones[node.Zone] = true
		}
	}
	return max(len(zones), 1)
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
