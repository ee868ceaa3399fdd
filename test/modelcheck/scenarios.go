package modelcheck

import (
	"slices"

	"github.com/rrpool/rrpool/config/api/v1alpha1"
)

// Of a cluster at rest on reflectors, or on its way: what one failure or one person does.
var (
	anywhere = []Disturbance{
		ModeChanges, NodeFails, LabelRemoved, IDRemoved, IDChanged, RoleRemoved, StrayLabel, MeshOn, MeshOff, PeerDeleted, PeerEdited, ForeignPeer,
		ProblemReported, Restart,
	}
	withPool = slices.Concat(anywhere, []Disturbance{NodeDeleted, ProviderSilent})
	withBusy = slices.Concat(anywhere, []Disturbance{Cordoned})
)

var twoZones = []string{"zone-a", "zone-b"}

func dedicated(name string, clients, reflectors int, more func(*Scenario)) Scenario {
	return with(Scenario{Name: name, Clients: clients, Pool: reflectors, PerZone: reflectors, Dedicated: true, Disturbances: withPool}, more)
}

func busy(name string, nodes, reflectors int, promotion v1alpha1.Promotion, more func(*Scenario)) Scenario {
	return with(Scenario{Name: name, Clients: nodes, PerZone: reflectors, Promotion: promotion, Disturbances: withBusy}, more)
}

func with(sc Scenario, more func(*Scenario)) Scenario {
	if more != nil {
		more(&sc)
	}
	return sc
}

// Scenarios of the small bound, and those that only the full run has.
func Scenarios(full bool) []Scenario {
	out := []Scenario{
		dedicated("there, 2 clients and 2 reflectors", 2, 2, func(s *Scenario) { s.Late, s.Slow = true, true }),
		dedicated("there and back", 2, 2, func(s *Scenario) { s.Flip = true }),
		dedicated("at rest, one disturbance", 2, 3, func(s *Scenario) { s.Settled, s.Budget, s.Spare = true, 1, 1 }),
		dedicated("there, one disturbance", 2, 2, func(s *Scenario) { s.Budget = 1 }),
		dedicated("timer", 2, 2, func(s *Scenario) { s.Timer, s.Flip, s.Late = true, true, true }),
		dedicated("3 reflectors to 2", 2, 3, func(s *Scenario) {
			was := dedicated("", 2, 3, nil)
			s.PerZone, s.Was = 2, &was
		}),
		dedicated("2 reflectors to 3", 2, 2, func(s *Scenario) {
			was := dedicated("", 2, 2, nil)
			s.PerZone, s.Spare, s.Was = 3, 1, &was
		}),
		busy("existing nodes, there and back", 4, 2, v1alpha1.PromotionStaged, func(s *Scenario) { s.Flip = true }),
		busy("existing nodes, at rest, one disturbance", 5, 3, v1alpha1.PromotionStaged, func(s *Scenario) { s.Settled, s.Budget = true, 1 }),
		busy("existing nodes, cordon", 4, 2, v1alpha1.PromotionCordon, func(s *Scenario) { s.Flip = true }),
		busy("existing nodes, drain", 4, 2, v1alpha1.PromotionDrain, func(s *Scenario) { s.Flip = true }),
		busy("existing nodes, immediate", 4, 2, v1alpha1.PromotionImmediate, func(s *Scenario) { s.Flip = true }),
		dedicated("quorum", 2, 4, func(s *Scenario) { s.Kind, s.Redundancy, s.Zones, s.PerZone = v1alpha1.TopologyQuorum, 2, twoZones, 2 }),
		dedicated("multi", 2, 2, func(s *Scenario) { s.Kind, s.Redundancy, s.Zones, s.PerZone = v1alpha1.TopologyMultiCluster, 2, twoZones, 1 }),
		dedicated("hierarchy", 2, 4, func(s *Scenario) { s.Kind, s.Redundancy, s.Zones, s.PerZone = v1alpha1.TopologyHierarchy, 1, twoZones, 2 }),
		dedicated("single to quorum", 2, 4, func(s *Scenario) {
			s.Kind, s.Redundancy, s.Zones, s.PerZone = v1alpha1.TopologyQuorum, 2, twoZones, 2
			was := dedicated("", 2, 4, func(s *Scenario) { s.Zones, s.PerZone = twoZones, 2 })
			s.Was = &was
		}),
		dedicated("single to hierarchy", 2, 4, func(s *Scenario) {
			s.Kind, s.Redundancy, s.Zones, s.PerZone = v1alpha1.TopologyHierarchy, 1, twoZones, 2
			was := dedicated("", 2, 4, func(s *Scenario) { s.Zones, s.PerZone = twoZones, 2 })
			s.Was = &was
		}),
		dedicated("hierarchy, one disturbance", 2, 4, func(s *Scenario) {
			s.Kind, s.Redundancy, s.Zones, s.PerZone, s.Settled, s.Budget = v1alpha1.TopologyHierarchy, 1, twoZones, 2, true, 1
		}),
		dedicated("quorum, one disturbance", 2, 4, func(s *Scenario) {
			s.Kind, s.Redundancy, s.Zones, s.PerZone, s.Settled, s.Budget = v1alpha1.TopologyQuorum, 2, twoZones, 2, true, 1
		}),
		busy("existing nodes, on the way, one disturbance", 4, 2, v1alpha1.PromotionStaged, func(s *Scenario) { s.Budget = 1 }),
	}
	_ = full
	return out
}
