package modelcheck

import (
	"cmp"
	"time"

	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/controllers/plan"
	"github.com/rrpool/rrpool/controllers/plan/rollout"
	"github.com/rrpool/rrpool/controllers/plan/topology"
)

// Scenario is a cluster, what is wanted of it, and what may befall it.
type Scenario struct {
	Name string
	// Clients run pods; Pool are dedicated nodes that are there, Spare ones that the
	// cloud can bring.
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
	// Idle clients run no pods.
	Idle int
	// Back: the wanted mode is FullMesh. Flip: it may change once at any moment, besides
	// all disturbances.
	Back, Flip bool
	// Settled: it begins at rest. With Was, at rest with so many per zone, or that topology.
	Settled bool
	Was     *Scenario
	// Disturbances that may happen at any moment, Budget of them in one run.
	Disturbances []Disturbance
	Budget       int
	// Fine: every session comes up on its own; else all of one node at once. Slow: a
	// session is Established some time before all routes have arrived.
	// Late: a session may take longer than one tick to start.
	Fine, Slow, Late bool
	// Stale is how many times in one run a report falls behind, and stays so for as long as
	// it likes. The others arrive at once.
	Stale int
	// Unbroken: the manager dies in no step.
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
		s.nodes[i].set(pods, i < m.Clients && i >= m.Idle)
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
