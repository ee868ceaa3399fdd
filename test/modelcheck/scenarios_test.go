package modelcheck

import (
	"slices"

	"github.com/rrpool/rrpool/config/api/v1alpha1"
)

// What may happen to a cluster at rest on reflectors, or on its way.
var (
	anywhere = []Disturbance{
		ModeChanges, NodeFails, LabelRemoved, IDRemoved, IDChanged, RoleRemoved, StrayLabel, MeshOn, MeshOff, PeerDeleted, PeerEdited, ForeignPeer,
		ProblemReported, Mute, Restart,
	}
	withPool   = slices.Concat(anywhere, []Disturbance{NodeDeleted, ProviderSilent})
	inPlaceToo = slices.Concat(anywhere, []Disturbance{Cordoned})
)

var twoZones = []string{"zone-a", "zone-b"}

func dedicated(name string, clients, reflectors int, more func(*Scenario)) Scenario {
	return with(Scenario{Name: name, Clients: clients, Pool: reflectors, PerZone: reflectors, Dedicated: true, Disturbances: withPool}, more)
}

func inPlace(name string, nodes, reflectors int, promotion v1alpha1.Promotion, more func(*Scenario)) Scenario {
	return with(Scenario{Name: name, Clients: nodes, PerZone: reflectors, Promotion: promotion, Disturbances: inPlaceToo}, more)
}

func with(sc Scenario, more func(*Scenario)) Scenario {
	if more != nil {
		more(&sc)
	}
	return sc
}

// arranged has four reflectors in two zones, in a topology.
func arranged(name string, kind v1alpha1.TopologyType, redundancy int, more func(*Scenario)) Scenario {
	sc := dedicated(name, 2, 4, more)
	sc.Kind, sc.Redundancy, sc.Zones, sc.PerZone = kind, redundancy, twoZones, 2
	return sc
}

// scenarios of the small bound, and those that only the full run has.
func scenarios(full bool) []Scenario {
	single := arranged("", v1alpha1.TopologySingle, 0, nil)
	three, two := dedicated("", 2, 3, nil), dedicated("", 2, 2, nil)
	out := []Scenario{
		dedicated("there, 2 clients and 2 reflectors", 2, 2, func(s *Scenario) { s.Late, s.Slow = true, true }),
		dedicated("there and back", 2, 2, func(s *Scenario) { s.Flip = true }),
		dedicated("at rest, one disturbance", 2, 3, func(s *Scenario) { s.Settled, s.Budget, s.Spare = true, 1, 1 }),
		dedicated("there, one disturbance", 2, 2, func(s *Scenario) { s.Budget = 1 }),
		dedicated("timer", 2, 2, func(s *Scenario) { s.Timer, s.Flip, s.Late = true, true, true }),
		dedicated("3 reflectors to 2", 2, 3, func(s *Scenario) { s.PerZone, s.Was = 2, &three }),
		dedicated("2 reflectors to 3", 2, 2, func(s *Scenario) { s.PerZone, s.Spare, s.Was = 3, 1, &two }),
		inPlace("existing nodes, there and back", 4, 2, v1alpha1.PromotionStaged, func(s *Scenario) { s.Flip = true }),
		inPlace("existing nodes, at rest, one disturbance", 5, 3, v1alpha1.PromotionStaged, func(s *Scenario) { s.Settled, s.Budget = true, 1 }),
		inPlace("existing nodes, cordon", 4, 2, v1alpha1.PromotionCordon, func(s *Scenario) { s.Flip = true }),
		inPlace("existing nodes, drain", 4, 2, v1alpha1.PromotionDrain, func(s *Scenario) { s.Flip = true }),
		inPlace("existing nodes, immediate", 4, 2, v1alpha1.PromotionImmediate, func(s *Scenario) { s.Flip = true }),
		arranged("quorum", v1alpha1.TopologyQuorum, 2, nil),
		dedicated("multi", 2, 2, func(s *Scenario) {
			s.Kind, s.Redundancy, s.Zones, s.PerZone = v1alpha1.TopologyMultiCluster, 2, twoZones, 1
		}),
		arranged("hierarchy", v1alpha1.TopologyHierarchy, 1, nil),
		arranged("single to quorum", v1alpha1.TopologyQuorum, 2, func(s *Scenario) { s.Was = &single }),
		arranged("single to hierarchy", v1alpha1.TopologyHierarchy, 1, func(s *Scenario) { s.Was = &single }),
		arranged("hierarchy, one disturbance", v1alpha1.TopologyHierarchy, 1, func(s *Scenario) { s.Settled, s.Budget = true, 1 }),
		arranged("quorum, one disturbance", v1alpha1.TopologyQuorum, 2, func(s *Scenario) { s.Settled, s.Budget = true, 1 }),
		inPlace("existing nodes, on the way, one disturbance", 4, 2, v1alpha1.PromotionStaged, func(s *Scenario) { s.Budget = 1 }),
	}
	for i := range out {
		out[i].Limit = 4000
		if full {
			out[i].Limit = 72_000
		}
	}
	return out
}

// probes are the smallest scenarios that find a missing gate.
func probes() []Scenario {
	single := arranged("", v1alpha1.TopologySingle, 0, nil)
	three, two := dedicated("", 2, 3, nil), dedicated("", 2, 2, nil)
	out := []Scenario{
		dedicated("probe: there, quickly", 3, 1, func(s *Scenario) { s.Slow = true }),
		dedicated("probe: back", 3, 2, func(s *Scenario) { s.Was, s.Back, s.Late, s.Slow = &two, true, true, true }),
		dedicated("probe: fewer", 2, 3, func(s *Scenario) { s.Was, s.PerZone, s.Spare = &three, 2, 1 }),
		dedicated("probe: edits", 2, 3, func(s *Scenario) {
			s.Settled, s.Budget, s.Disturbances = true, 1, []Disturbance{PeerDeleted, PeerEdited, IDChanged, IDRemoved, LabelRemoved, RoleRemoved, StrayLabel}
		}),
		dedicated("probe: in the way", 2, 2, func(s *Scenario) {
			s.Budget, s.Disturbances = 1, []Disturbance{ForeignPeer, ProblemReported, ProviderSilent}
		}),
		dedicated("probe: in the way, fewer", 2, 3, func(s *Scenario) {
			s.Was, s.PerZone, s.Spare, s.Budget, s.Disturbances = &three, 2, 1, 1, []Disturbance{ForeignPeer, ProblemReported, ProviderSilent}
		}),
		dedicated("probe: too small a pool", 2, 1, func(s *Scenario) {
			s.PerZone, s.Spare, s.Budget, s.Disturbances = 2, 2, 1, []Disturbance{ProviderSilent}
		}),
		dedicated("probe: two failures", 2, 3, func(s *Scenario) { s.Settled, s.Budget, s.Disturbances = true, 2, []Disturbance{NodeFails} }),
		dedicated("probe: another cluster ID", 2, 3, func(s *Scenario) { s.Was, s.ID = &three, "244.0.0.9" }),
		dedicated("probe: a password", 2, 3, func(s *Scenario) { s.Was, s.Password = &three, "bgp" }),
		dedicated("probe: mute", 2, 1, func(s *Scenario) { s.Budget, s.Disturbances = 1, []Disturbance{Mute} }),
		dedicated("probe: stale", 3, 1, func(s *Scenario) {
			s.Settled, s.Stale, s.Budget, s.Disturbances, s.Limit = true, 1, 2, []Disturbance{MeshOn, ClientFails}, 100_000
		}),
		dedicated("probe: timer", 2, 2, func(s *Scenario) { s.Timer = true }),
		inPlace("probe: existing nodes, there", 4, 2, v1alpha1.PromotionStaged, nil),
		inPlace("probe: existing nodes, 3 of 5", 5, 3, v1alpha1.PromotionStaged, nil),
		inPlace("probe: existing nodes, a cordon", 5, 3, v1alpha1.PromotionStaged, func(s *Scenario) { s.Settled, s.Budget, s.Disturbances = true, 1, []Disturbance{Cordoned} }),
		arranged("probe: single to hierarchy", v1alpha1.TopologyHierarchy, 1, func(s *Scenario) { s.Was = &single }),
		arranged("probe: single to multi", v1alpha1.TopologyMultiCluster, 2, func(s *Scenario) { s.Was = &single }),
	}
	for i := range out {
		out[i].Unbroken, out[i].Limit = true, max(out[i].Limit, 6000)
	}
	return out
}
