package simulate

import (
	"fmt"

	"github.com/rrpool/rrpool/cmd/rrpool/iostreams"
	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/controllers/plan/topology"
)

// answer computes what is asked.
func answer(q question) (view, error) {
	v := view{SchemaVersion: simulationSchema, Subject: q.subject(), Fail: q.fail}
	for _, kind := range q.kinds() {
		t, err := q.simulate(kind)
		if err != nil && !q.compare {
			return view{}, err
		}
		if err != nil {
			t = topologyView{Type: string(kind), Refused: &problemView{Reason: "DoesNotFit", Message: iostreams.Sentence(err)}}
		}
		v.Topologies = append(v.Topologies, t)
	}
	if q.compare {
		if s, _, err := q.settle(v1alpha1.TopologyAuto); err == nil && s.problem == nil {
			v.Auto = string(s.spec.Kind)
		}
	}
	return v, nil
}

func (q question) subject() string {
	out := fmt.Sprintf("a cluster of %s, the reflectors among them, in %s", nodes(q.nodes), plural(len(q.zones), "zone"))
	if q.nodes == 0 {
		out = fmt.Sprintf("a cluster of %s and the reflectors, in %s", nodes(q.clients), plural(len(q.zones), "zone"))
	}
	if q.racks > 0 {
		out += fmt.Sprintf(" with %s", plural(q.racks, "rack"))
	}
	return out
}

// simulate computes one topology.
func (q question) simulate(kind v1alpha1.TopologyType) (topologyView, error) {
	s, clients, err := q.settle(kind)
	if err != nil {
		return topologyView{}, err
	}
	t := topologyView{Type: string(s.spec.Kind), ByHand: q.perClient > 0}
	if s.problem != nil && !t.ByHand {
		t.Refused = &problemView{Reason: s.problem.Reason, Message: s.problem.Message}
	}
	if s.spec.Kind == v1alpha1.TopologyAuto {
		return t, nil
	}
	a, err := q.build(s, clients)
	if err != nil {
		return topologyView{}, err
	}
	t.Figures = a.figures()
	t.Failures = a.failures(q.zones, q.fail)
	return t, nil
}

// build arranges the nodes as the planner does, or by hand.
func (q question) build(s sized, clients int) (*arrangement, error) {
	people, pool := q.invent(clients, s.spec), q.dedicated(s.perZone, s.spec)
	if q.fail > len(pool) && !q.compare {
		return nil, fmt.Errorf("--fail: %d of %d reflectors: give at most %d", q.fail, len(pool), len(pool))
	}
	if q.perClient == 0 {
		return arrange(topology.Arrange(s.spec, topology.Session{}, people, pool, q.zones, s.perZone), s.spec, people, pool)
	}
	layout, err := q.byHand(s.spec, people, pool)
	if err != nil {
		return nil, err
	}
	return arrange(layout, s.spec, people, pool)
}
