package simulate

import (
	"fmt"

	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/controllers/plan"
	"github.com/rrpool/rrpool/controllers/plan/sizing"
	"github.com/rrpool/rrpool/controllers/plan/topology"
	"github.com/rrpool/rrpool/controllers/pool"
)

// question is which cluster is arranged how.
type question struct {
	spec v1alpha1.RouteReflectorPoolSpec
	// nodes with the reflectors, or else clients without them.
	nodes, clients int
	zones          []string
	// reflectors in all zones together, 0 for as many as sizing and topology take.
	reflectors int
	// racks that the clients are labelled with, 0 for none.
	racks int
	// perClient, where it is not 0, is a quorum by hand.
	perClient int
	// fail is how many reflectors fail together, 0 where nobody asks.
	fail    int
	compare bool
}

// check refuses numbers that do not fit each other.
func (q question) check() error {
	all, zones := max(q.nodes, q.clients), len(q.zones)
	switch {
	case zones > all:
		return fmt.Errorf("--zones: %d zones for %s: give at most as many zones as nodes", zones, nodes(all))
	case q.racks > all:
		return fmt.Errorf("--racks: %d racks for %s: give at most as many racks as nodes", q.racks, nodes(all))
	case q.racks > 0 && q.racks < zones:
		return fmt.Errorf("--racks: %d racks in %d zones, and a rack is in one zone: give at least %d", q.racks, zones, zones)
	}
	return q.fitting(zones)
}

// fitting refuses numbers of reflectors that do not fit.
func (q question) fitting(zones int) error {
	switch {
	case q.reflectors%zones != 0:
		below, above := q.reflectors/zones*zones, (q.reflectors/zones+1)*zones
		remedy := fmt.Sprintf("%d or %d", below, above)
		if below == 0 {
			remedy = fmt.Sprint(above)
		}
		return fmt.Errorf("--reflectors: %d reflectors cannot be the same number in each of %d zones, as rrpool has them: use %s, or other --zones",
			q.reflectors, zones, remedy)
	case q.nodes > 0 && q.reflectors >= q.nodes:
		return fmt.Errorf("--reflectors: %d of %s, and there have to be clients: give fewer, or more --nodes", q.reflectors, nodes(q.nodes))
	case q.fail > 0 && q.reflectors > 0 && q.fail > q.reflectors:
		return fmt.Errorf("--fail: %d of %d reflectors: give at most %d", q.fail, q.reflectors, q.reflectors)
	}
	return nil
}

func nodes(n int) string {
	if n == 1 {
		return "1 node"
	}
	return fmt.Sprintf("%d nodes", n)
}

// kinds are the topologies that are asked about.
func (q question) kinds() []v1alpha1.TopologyType {
	if q.compare {
		return []v1alpha1.TopologyType{
			v1alpha1.TopologySingle, v1alpha1.TopologyQuorum, v1alpha1.TopologyHierarchy, v1alpha1.TopologyMultiCluster,
		}
	}
	return []v1alpha1.TopologyType{q.spec.Topology.Type}
}

// sized is how many nodes of each zone reflect, and the topology that it comes to.
type sized struct {
	spec    topology.Spec
	perZone int
	// problem is why the manager refuses, nil where it does not.
	problem *plan.Problem
}

// size sizes for so many clients, as the manager does.
func (q question) size(kind v1alpha1.TopologyType, clients int) (sized, error) {
	zones := len(q.zones)
	asked := q.reflectors
	if asked == 0 {
		size, err := sizing.Reflectors(q.spec.Sizing, clients, zones)
		if err != nil {
			return sized{}, fmt.Errorf("%w; or give --reflectors", err)
		}
		asked = size.PerZone * zones
	}
	out := sized{spec: q.topology(kind), perZone: asked / zones}
	if q.perClient > 0 {
		return out, nil
	}
	var total int
	out.spec, total, out.problem = topology.Size(out.spec, q.invent(clients, out.spec), q.zones, asked, "")
	if q.reflectors > 0 {
		if out.problem == nil && total > q.reflectors {
			out.problem = &plan.Problem{
				Reason:  pool.ReasonSizingInvalid,
				Message: fmt.Sprintf("--reflectors: %d, and topology %s takes %d here: give so many, or leave it out", q.reflectors, out.spec.Kind, total),
			}
		}
		return out, nil
	}
	if limit := int(q.spec.Sizing.Max); out.problem == nil && total > max(limit, asked) {
		out.problem = pool.BeyondMax(out.spec.Kind, limit, total, clients, zones)
	}
	out.perZone = (total + zones - 1) / zones
	return out, nil
}

// settle sizes the cluster. Where all nodes are counted, the reflectors among them, it
// takes as few of them as serve the rest.
func (q question) settle(kind v1alpha1.TopologyType) (out sized, clients int, err error) {
	if q.nodes == 0 {
		out, err = q.size(kind, q.clients)
		return out, q.clients, err
	}
	rest := func(s sized) int { return q.nodes - s.perZone*len(q.zones) }
	if out, err = q.size(kind, q.nodes); err != nil {
		return out, 0, err
	}
	for {
		clients = rest(out)
		if clients < 1 {
			return out, 0, fmt.Errorf("--nodes: %d nodes are %d reflectors and no client: give more", q.nodes, q.nodes-clients)
		}
		fitting, err := q.size(kind, clients)
		if err != nil {
			return out, 0, err
		}
		if fitting.perZone >= out.perZone {
			return fitting, clients, nil
		}
		again, err := q.size(kind, rest(fitting))
		if err != nil {
			return out, 0, err
		}
		if again.perZone > fitting.perZone { // the last ones that would become clients need them
			fitting.perZone = out.perZone
			return fitting, clients, nil
		}
		out = again
	}
}

// topology is the spec as the planner reads it.
func (q question) topology(kind v1alpha1.TopologyType) topology.Spec {
	spec := topology.Read(q.spec.Topology, q.spec.BGP.NodeLabel, q.spec.Provider.Type != v1alpha1.ProviderExistingNodes)
	spec.Kind = kind
	return spec
}
