package modelcheck

import (
	"cmp"
	"time"

	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/controllers/plan"
	"github.com/rrpool/rrpool/controllers/plan/rollout"
	"github.com/rrpool/rrpool/controllers/plan/topology"
)

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
	// Other is what a second RouteReflectorPool wants, should one come. Heeds: the manager follows whichever came last.
	Other *Scenario
	Heeds bool
	// Slow: a session is Established some time before all routes have arrived.
	// Late: a session may take longer than one tick to start.
	Slow, Late bool
	// Stale is how many times in one run a report falls behind, and stays so for as long as
	// it likes. The others arrive at once.
	Stale int
	// Unbroken: the manager does not die.
	Unbroken bool
	// Limit is how many states are looked at.
	Limit int
}

// arranged: at some time not every client peers with every reflector.
func (sc Scenario) arranged() bool {
	return sc.Kind != v1alpha1.TopologySingle || sc.Was != nil && sc.Was.arranged()
}

func (sc Scenario) total() int { return sc.PerZone * len(sc.Zones) }

// complete fills in what is usual.
func (sc Scenario) complete() Scenario {
	sc.Kind = cmp.Or(sc.Kind, v1alpha1.TopologySingle)
	if len(sc.Zones) == 0 {
		sc.Zones = []string{"zone-a"}
	}
	if sc.Was != nil {
		was := sc.Was.complete()
		sc.Was = &was
	}
	if sc.Other != nil {
		other := sc.Other.complete()
		sc.Other = &other
	}
	return sc
}

// desired is what is wanted, in mode RouteReflector and in mode FullMesh.
func (sc Scenario) desired() [2]rollout.Desired {
	d := rollout.Desired{
		Mode: v1alpha1.ModeRouteReflector, Dedicated: sc.Dedicated, Pool: plan.PoolTarget{SizePerZone: sc.PerZone, Zones: sc.Zones}, Promotion: sc.Promotion,
		ClusterID: cmp.Or(sc.ID, "244.0.0.1"), RoleLabel: label, Timer: sc.Timer, SessionTimeout: 5 * time.Minute, NotReadyGrace: time.Minute,
		RemovalDelay: time.Minute, MinServing: 2, NetAfter: 30 * time.Second,
	}
	if sc.Password != "" {
		d.Password = &plan.SecretRef{Name: sc.Password, Key: "password"}
	}
	if sc.Dedicated {
		d.Topology = topology.Spec{
			Kind: sc.Kind, ClusterID: d.ClusterID, Redundancy: sc.Redundancy, MaxClients: 500, MaxPaths: 64, RoleLabel: label, ZoneLabel: "zone",
		}
	}
	back := d
	back.Mode = v1alpha1.ModeFullMesh
	return [2]rollout.Desired{d, back}
}

// untouched is the BGPConfiguration of a cluster that runs on Calico's defaults.
var untouched = plan.BGPConfig{ASN: 64512}

// beginning is the state that a scenario begins in.
func (m *model) beginning() state {
	s := state{visible: visible{meshSince: longAgo, shortSince: never, straySince: never}}
	m.edit(&s, "begin", func(c *cluster) {
		c.BGP = untouched
		for i := range m.Clients + m.Pool {
			c.Nodes = append(c.Nodes, m.newNode(i, longAgo))
			s.owed[i] = 2
		}
		if m.Dedicated {
			c.PerZone = m.Pool / len(m.Zones)
		}
	})
	for _, mv := range m.each(comesUp, carries) {
		m.make(&s, mv)
	}
	if m.Was != nil {
		now := m.desired
		m.desired = m.Was.desired()
		s = m.rest(s)
		m.desired = now
		m.steps = memo[visible, *step]{}
	}
	s.back = m.Back
	if m.Settled {
		s = m.rest(s)
	}
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
