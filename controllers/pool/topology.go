package pool

import (
	"fmt"

	"github.com/rrpool/rrpool/cloud"
	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/controllers/plan"
	"github.com/rrpool/rrpool/controllers/plan/topology"
)

// kindNow is the topology that the reflectors have: on the way from one to another, the
// larger one.
func kindNow(nodes []plan.Node) v1alpha1.TopologyType {
	order := []v1alpha1.TopologyType{
		"", v1alpha1.TopologySingle, v1alpha1.TopologyMultiCluster, v1alpha1.TopologyQuorum, v1alpha1.TopologyHierarchy,
	}
	size := 0
	for _, n := range nodes {
		if !n.Marked || !n.RoleLabel {
			continue
		}
		for i, kind := range order {
			if topology.KindOf(n.Seat) == kind {
				size = max(size, i)
			}
		}
	}
	return order[size]
}

// shape turns the wanted number of reflectors per zone into what the topology takes. A
// reflector that comes to serve more clients than it should is no reason to stop what
// works: then problem is set and serious is not.
func shape(t *turn, known *cloud.Pool, clients []plan.Node, zones []string, perZone int) (spec topology.Spec, size int, problem *plan.Problem, serious bool) {
	spec = topology.Read(t.object.Spec.Topology, t.object.Spec.BGP.NodeLabel, !t.busy())
	if kind := spec.Kind; t.busy() && kind != "" && kind != v1alpha1.TopologySingle && kind != v1alpha1.TopologyAuto {
		return spec, perZone, dedicatedOnly(kind), true
	}
	if t.busy() {
		spec.Kind = v1alpha1.TopologySingle
	}
	now := kindNow(t.cluster.Nodes)
	spec, total, problem := topology.Size(spec.Standing(t.cluster.Nodes, t.cluster.Peers), clients, zones, perZone*len(zones), now)
	if problem != nil {
		return spec, perZone, problem, problem.Reason != topology.ReasonTooManyClients || now != spec.Kind
	}
	total = steady(spec, known, clients, zones, total, perZone*len(zones), now)
	size = (total + len(zones) - 1) / max(len(zones), 1)
	if limit := int(t.object.Spec.Sizing.Max); limit > 0 && total > max(limit, perZone*len(zones)) {
		if now == spec.Kind {
			perZone = limit / len(zones) // what serves goes on, also healing
		}
		return spec, perZone, BeyondMax(spec.Kind, limit, total, len(clients), len(zones)), now != spec.Kind
	}
	return spec, size, nil, false
}

// BeyondMax refuses a topology that takes more reflectors than spec.sizing.max.
func BeyondMax(kind v1alpha1.TopologyType, limit, total, clients, zones int) *plan.Problem {
	return sizingProblem(fmt.Errorf(
		"spec.sizing.max: %d is too small: topology %s takes %d route reflectors for %d nodes in %d zones: raise max to %d",
		limit, kind, total, clients, zones, total,
	))
}

// steady keeps a pool that is larger than it has to be as it is, while a tenth more
// clients would need it: those that come and go must not buy and return machines.
func steady(spec topology.Spec, known *cloud.Pool, clients []plan.Node, zones []string, total, sized int, now v1alpha1.TopologyType) int {
	if known == nil || !known.Owned || known.SizePerZone*len(zones) <= total {
		return total
	}
	spec.MaxClients = spec.MaxClients * 9 / 10
	_, margin, _ := topology.Size(spec, clients, zones, sized, now)
	return max(total, min(known.SizePerZone*len(zones), margin))
}

func dedicatedOnly(kind v1alpha1.TopologyType) *plan.Problem {
	return &plan.Problem{
		Reason: ReasonTopologyNotSupported,
		Message: fmt.Sprintf("spec.topology.type: %s needs nodes that do nothing but reflect (spec.provider.type: IKS), "+
			"and here existing nodes reflect, which run workloads as well: use Single", kind),
	}
}
