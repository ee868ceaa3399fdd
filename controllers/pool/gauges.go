package pool

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/rrpool/rrpool/config/api/v1alpha1"
)

// gauges tell of the last sight when they are asked. What is not known is absent: a 0
// that means "unknown" would be taken for one that means none.
type gauges struct {
	all  []gauge
	mu   sync.Mutex
	seen sight
}

// gauge is one metric: read gives its values, none while it is not known.
type gauge struct {
	desc *prometheus.Desc
	read func(*sight) []reading
}

type reading struct {
	value  float64
	labels []string
}

func newGauges() *gauges {
	g := &gauges{}
	add := func(name, help string, read func(*sight) []reading, labels ...string) {
		desc := prometheus.NewDesc(prometheus.BuildFQName(namespace, "", name), help, labels, nil)
		g.all = append(g.all, gauge{desc, read})
	}
	add("object_present", "1 while there is a RouteReflectorPool, 0 while there is none and nothing is done.", objectPresent)
	add("mode", "1 for the mode that spec.mode asks for, 0 for the others; FullMesh while the object is being deleted.", modes, labelMode)
	add("last_observation_timestamp_seconds", "When the cluster was last observed whole. At rest that is every 5 minutes.", lastLook)
	add("mesh", "1 for the state of the node-to-node mesh: on, off, or unknown while the cluster cannot be observed.", mesh, labelState)
	add("safety_net_due", "1 while the mesh is off and fewer route reflectors serve than should, in any mode: "+
		"the mesh has to come back, after spec.rollout.safetyNet.after at the latest.", ifKnown(func(k *known) float64 { return truth(k.netDue) }))
	add("safety_net_acted", "1 while the mesh is on because rrpool switched it on again, though route reflectors are wanted.",
		ifKnown(func(k *known) float64 { return truth(k.netActed) }))
	add("nodes", "Ready nodes that speak BGP and are not in the dedicated pool.", ifKnown(func(k *known) float64 { return float64(k.nodes) }))
	add("reflectors", "Route reflectors that the current step relies on.", ofReflectors(func(r *reflecting) int { return r.count }))
	add("reflectors_serving", "Route reflectors that are Ready, in their role, and have sessions with most of their clients.",
		ofReflectors(func(r *reflecting) int { return r.serving }))
	add("reflectors_wanted", "Route reflectors that there should be, 0 where the mesh is wanted.",
		ifSaid(func(k *known) *int { return k.wanted }))
	add("reflectors_minimum", "With fewer route reflectors serving the mesh comes back: spec.rollout.safetyNet.minServing, "+
		"or as many as are wanted at all; absent for topologies other than Single.", ifSaid(func(k *known) *int { return k.minimum }))
	add("workers_wanted", "Workers that the pool should have, or nodes to be chosen where they exist already.",
		ofCrew(func(c *crew) int { return c.wanted }))
	add("workers_deployed", "Workers of the pool that the provider calls deployed.", ofCrew(func(c *crew) int { return c.deployed }))
	add("pool_cost_hourly", "What the dedicated pool's nodes cost together for an hour, by the built-in prices; "+
		"absent without any, on existing nodes, and while a price is unknown: status.cost.source says which.", costHourly, labelCurrency)
	add("sessions_established", "Established sessions with Ready nodes of the route reflectors that serve and report; absent while none does, and with the Timer gate.",
		sessions(func(r *reflecting) int { return r.established }))
	add("sessions_expected", "Sessions with Ready nodes that the route reflectors that serve and report should have, those with others "+
		"that do not serve left out; absent while none does, and with the Timer gate.",
		sessions(func(r *reflecting) int { return r.expected }))
	add("nodes_unserved", "Ready nodes without an Established session with any route reflector; absent while that cannot be told, as with the Timer gate.",
		ifSaid(func(k *known) *int { return k.unserved }))
	add("step", "1 for the step being taken or waited for; Steady at rest.", step, labelStep)
	add("step_waiting_seconds", "How long the current step has been going on without progress, 0 at rest.", stepWaiting)
	add("condition", "1 for the status that a condition of the RouteReflectorPool has, with its reason.", conditionsSeen,
		labelCondition, labelStatus, labelReason)
	return g
}

// Describe implements prometheus.Collector.
func (g *gauges) Describe(ch chan<- *prometheus.Desc) {
	for _, one := range g.all {
		ch <- one.desc
	}
}

// Collect implements prometheus.Collector.
func (g *gauges) Collect(ch chan<- prometheus.Metric) {
	seen := g.last()
	for _, one := range g.all {
		for _, r := range one.read(&seen) {
			ch <- prometheus.MustNewConstMetric(one.desc, prometheus.GaugeValue, r.value, r.labels...)
		}
	}
}

func (g *gauges) show(seen sight) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.seen = seen
}

func (g *gauges) last() sight {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.seen
}

func objectPresent(s *sight) []reading {
	if !s.looked {
		return nil
	}
	return one(truth(s.exists))
}

func modes(s *sight) []reading {
	if !s.exists {
		return nil
	}
	var out []reading
	for _, mode := range []v1alpha1.Mode{v1alpha1.ModeRouteReflector, v1alpha1.ModeFullMesh, v1alpha1.ModePaused} {
		out = append(out, reading{truth(s.mode == mode), []string{string(mode)}})
	}
	return out
}

func lastLook(s *sight) []reading {
	if s.seen.IsZero() {
		return nil
	}
	return one(float64(s.seen.UnixMilli()) / float64(time.Second/time.Millisecond))
}

func mesh(s *sight) []reading {
	if !s.exists {
		return nil
	}
	is := "unknown"
	switch {
	case s.known == nil:
	case s.known.meshOn:
		is = "on"
	default:
		is = "off"
	}
	var out []reading
	for _, state := range []string{"on", "off", "unknown"} {
		out = append(out, reading{truth(state == is), []string{state}})
	}
	return out
}

func step(s *sight) []reading {
	if s.known == nil {
		return nil
	}
	return []reading{{1, []string{s.known.step}}}
}

func stepWaiting(s *sight) []reading {
	return ifKnown(func(k *known) float64 { return k.waiting(s.now()) })(s)
}

func conditionsSeen(s *sight) []reading {
	var out []reading
	for _, c := range s.conditions {
		out = append(out, reading{1, []string{c.Type, string(c.Status), c.Reason}})
	}
	return out
}

// told reads a number of a part of what is known, which is nil while nothing is.
func told[part any](of func(*known) *part, value func(*part) float64) func(*sight) []reading {
	return func(s *sight) []reading {
		if s.known == nil || of(s.known) == nil {
			return nil
		}
		return one(value(of(s.known)))
	}
}

func ifKnown(value func(*known) float64) func(*sight) []reading {
	return told(func(k *known) *known { return k }, value)
}

func ifSaid(number func(*known) *int) func(*sight) []reading {
	return told(number, func(n *int) float64 { return float64(*n) })
}

func ofReflectors(count func(*reflecting) int) func(*sight) []reading {
	return told(func(k *known) *reflecting { return k.reflectors }, func(r *reflecting) float64 { return float64(count(r)) })
}

func sessions(count func(*reflecting) int) func(*sight) []reading {
	observed := func(k *known) *reflecting {
		if k.reflectors == nil || !k.reflectors.observed {
			return nil
		}
		return k.reflectors
	}
	return told(observed, func(r *reflecting) float64 { return float64(count(r)) })
}

func ofCrew(count func(*crew) int) func(*sight) []reading {
	return told(func(k *known) *crew { return k.workers }, func(c *crew) float64 { return float64(count(c)) })
}

func one(value float64) []reading { return []reading{{value: value}} }

func truth(is bool) float64 {
	if is {
		return 1
	}
	return 0
}
