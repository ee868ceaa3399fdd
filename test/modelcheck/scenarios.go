package modelcheck

import (
	"cmp"
	"slices"
	"time"

	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/controllers/plan"
	"github.com/rrpool/rrpool/controllers/plan/rollout"
	"github.com/rrpool/rrpool/controllers/plan/topology"
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
		inPlace("existing nodes, there and back", 4, 2, v1alpha1.PromotionStaged, func(s *Scenario) { s.Flip = true }),
		inPlace("existing nodes, at rest, one disturbance", 5, 3, v1alpha1.PromotionStaged, func(s *Scenario) { s.Settled, s.Budget = true, 1 }),
		inPlace("existing nodes, cordon", 4, 2, v1alpha1.PromotionCordon, func(s *Scenario) { s.Flip = true }),
		inPlace("existing nodes, drain", 4, 2, v1alpha1.PromotionDrain, func(s *Scenario) { s.Flip = true }),
		inPlace("existing nodes, immediate", 4, 2, v1alpha1.PromotionImmediate, func(s *Scenario) { s.Flip = true }),
		dedicated("quorum", 2, 4, func(s *Scenario) { s.Kind, s.Redundancy, s.Zones, s.PerZone = v1alpha1.TopologyQuorum, 2, twoZones, 2 }),
		dedicated("multi", 2, 2, func(s *Scenario) {
			s.Kind, s.Redundancy, s.Zones, s.PerZone = v1alpha1.TopologyMultiCluster, 2, twoZones, 1
		}),
		dedicated("hierarchy", 2, 4, func(s *Scenario) {
			s.Kind, s.Redundancy, s.Zones, s.PerZone = v1alpha1.TopologyHierarchy, 1, twoZones, 2
		}),
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
		inPlace("existing nodes, on the way, one disturbance", 4, 2, v1alpha1.PromotionStaged, func(s *Scenario) { s.Budget = 1 }),
	}
	for i := range out {
		out[i].Limit = 4000
		if full {
			out[i].Limit = 60_000
		}
	}
	return out
}

// Probes are the smallest scenarios that find a missing gate.
func Probes() []Scenario {
	hierarchy := dedicated("", 2, 4, func(s *Scenario) {
		s.Kind, s.Redundancy, s.Zones, s.PerZone = v1alpha1.TopologyHierarchy, 1, twoZones, 2
	})
	multi := dedicated("", 2, 4, func(s *Scenario) {
		s.Kind, s.Redundancy, s.Zones, s.PerZone = v1alpha1.TopologyMultiCluster, 2, twoZones, 2
	})
	single := dedicated("", 2, 4, func(s *Scenario) { s.Zones, s.PerZone = twoZones, 2 })
	three, two, five := dedicated("", 2, 3, nil), dedicated("", 2, 2, nil), inPlace("", 5, 3, v1alpha1.PromotionStaged, nil)
	out := []Scenario{
		dedicated("probe: there", 3, 2, func(s *Scenario) { s.Late, s.Slow, s.Stale = true, true, 1 }),
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
		dedicated("probe: failures", 2, 3, func(s *Scenario) {
			s.Settled, s.Budget, s.Disturbances = true, 1, []Disturbance{NodeFails, NodeDeleted, MeshOn}
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
		inPlace("probe: existing nodes, back", 5, 3, v1alpha1.PromotionStaged, func(s *Scenario) { s.Was, s.Back = &five, true }),
		inPlace("probe: existing nodes, a cordon", 5, 3, v1alpha1.PromotionStaged, func(s *Scenario) { s.Settled, s.Budget, s.Disturbances = true, 1, []Disturbance{Cordoned} }),
		inPlace("probe: existing nodes, edits", 5, 3, v1alpha1.PromotionStaged, func(s *Scenario) {
			s.Settled, s.Budget, s.Disturbances = true, 1, []Disturbance{IDChanged, IDRemoved, RoleRemoved, LabelRemoved, PeerDeleted, MeshOn}
		}),
		inPlace("probe: existing nodes, a label", 4, 2, v1alpha1.PromotionStaged, func(s *Scenario) { s.Budget, s.Disturbances = 1, []Disturbance{StrayLabel} }),
		with(hierarchy, func(s *Scenario) { s.Name, s.Was = "probe: single to hierarchy", &single }),
		with(single, func(s *Scenario) { s.Name, s.Was = "probe: multi to single", &multi }),
		with(multi, func(s *Scenario) { s.Name, s.Was = "probe: single to multi", &single }),
		with(hierarchy, func(s *Scenario) {
			s.Name, s.Settled, s.Budget, s.Disturbances = "probe: hierarchy, edits", true, 1, []Disturbance{PeerEdited, IDChanged, LabelRemoved}
		}),
	}
	for i := range out {
		out[i].Unbroken, out[i].Limit = true, max(out[i].Limit, 6000)
	}
	return out
}

// Scenario is a cluster, what is wanted of it, and what may happen to it.
type Scenario struct {
	Name string
	// Clients run pods; Pool are dedicated nodes that are there, Spare ones that the cloud can bring.
	Clients, Pool, Spare int
	Zones                []string
	// Dedicated: the reflectors are those of the pool; else some of the clients.
	Dedicated bool
	// PerZone is how many reflectors are wanted in each zone.
	PerZone    int
	Kind       v1alpha1.TopologyType
	Redundancy int
	Promotion  v1alpha1.Promotion
	Timer      bool
	// ID and Password are those of spec.topology and spec.bgp; empty: 244.0.0.1, and none.
	ID, Password string
	// Back: the wanted mode is FullMesh. Flip: it may change once at any moment, besides all disturbances.
	Back, Flip bool
	// Settled: it begins at rest. With Was, at rest with so many per zone, or that topology.
	Settled bool
	Was     *Scenario
	// Disturbances that may happen at any moment, Budget of them in one run.
	Disturbances []Disturbance
	Budget       int
	// Slow: a session is Established some time before all routes have arrived.
	// Late: a session may take longer than one tick to start.
	Slow, Late bool
	// Stale is how many times in one run a report falls behind, and stays so for as long as
	// it likes. The others arrive at once.
	Stale int
	// Unbroken: the manager does not die.
	Unbroken bool
	// Limit is how many states are looked at, 0 for all.
	Limit int
}

// arranged: at some time not every client peers with every reflector.
func (m *model) arranged() bool {
	return m.Kind != v1alpha1.TopologySingle || m.Was != nil && m.Was.Kind != "" && m.Was.Kind != v1alpha1.TopologySingle
}

func (m *model) total() int { return m.PerZone * len(m.Zones) }

func (m *model) setUp() {
	if len(m.Zones) == 0 {
		m.Zones = []string{"zone-a"}
	}
	d := rollout.Desired{
		Mode: rollout.Reflect, Dedicated: m.Dedicated, Pool: plan.PoolSpec{SizePerZone: m.PerZone, Zones: m.Zones}, Promotion: m.Promotion,
		ClusterID: cmp.Or(m.ID, "244.0.0.1"), RoleLabel: label, Timer: m.Timer, SessionTimeout: 5 * time.Minute, NotReadyGrace: time.Minute,
		RemovalDelay: time.Minute, MinServing: 2, NetAfter: 30 * time.Second,
	}
	if m.Password != "" {
		d.Password = &plan.SecretRef{Name: m.Password, Key: "password"}
	}
	if m.Kind == "" {
		m.Kind = v1alpha1.TopologySingle
	}
	if m.Dedicated {
		d.Topology = topology.Spec{
			Kind: m.Kind, ClusterID: d.ClusterID, Redundancy: m.Redundancy, MaxClients: 500, MaxPaths: 64, RoleLabel: label, ZoneLabel: "zone",
		}
	}
	m.desired[0] = d
	d.Mode = rollout.Mesh
	m.desired[1] = d
	m.begin = mesh{is: m.meshOf(plan.Mesh{}), restored: never}
}

// beginning is the state that a scenario begins in.
func (m *model) beginning() state {
	s := state{mesh: m.begin, meshSince: longAgo, shortSince: never, straySince: never, back: m.Back && m.Was == nil}
	for i := range s.nodes {
		s.nodes[i] = node{readyAge: never, roleAge: never, born: never}
		s.reports[i] = report{updated: never, cleared: never}
	}
	for i := range s.peers {
		s.peers[i].at = never
	}
	for i := range m.Clients + m.Pool {
		s.nodes[i] = node{flags: exists | alive | ready, readyAge: longAgo, roleAge: never, born: longAgo}
		s.nodes[i].set(pods, i < m.Clients)
		s.nodes[i].set(pooled, i >= m.Clients)
		s.owed[i] = 2
	}
	if m.Dedicated && m.Pool > 0 {
		s.pool = small(m.Pool / len(m.Zones))
	}
	m.allRender(&s)
	m.allComeUp(&s)
	if m.Was != nil {
		now := m.desired
		was := newModel(*m.Was)
		m.desired = was.desired
		m.steps = memo[key, *step]{}
		s = m.rest(s)
		m.desired, s.back = now, m.Back
		m.steps = memo[key, *step]{}
	}
	if m.Settled {
		s = m.rest(s)
	}
	m.normalise(&s)
	return s
}

// rest is where the fair run from a state ends.
func (m *model) rest(s state) state {
	for range longest {
		next, changed := m.fair(&s)
		if !changed {
			break
		}
		s = next
	}
	return s
}
