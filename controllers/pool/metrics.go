package pool

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/rrpool/rrpool/cloud"
	"github.com/rrpool/rrpool/cloud/metered"
	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/controllers/plan"
)

// The label names and the values that are chosen here.
const (
	namespace      = "rrpool"
	labelStep      = "step"
	labelAction    = "action"
	labelResult    = "result"
	labelCondition = "condition"
	labelStatus    = "status"
	labelReason    = "reason"
	labelMethod    = "method"
	labelMode      = "mode"
	labelState     = "state"
	labelCurrency  = "currency"

	resultChanged   = "changed"
	resultUnchanged = "unchanged"
	resultOK        = "ok"
	resultError     = "error"
)

// Metrics are what rrpool exports to Prometheus. A nil Metrics exports nothing.
//
// Of several managers one acts. The others export rrpool_leader 0 and
// count what they did while they did; how the cluster is they do not know, and those
// metrics are absent, never 0.
type Metrics struct {
	leader    prometheus.Gauge
	steps     *prometheus.CounterVec
	actions   *prometheus.CounterVec
	held      *prometheus.CounterVec
	providers *metered.Metrics
	calls     *prometheus.HistogramVec
	*gauges
}

// NewMetrics registers the metrics; it panics when they are registered already.
func NewMetrics(registry prometheus.Registerer) *Metrics {
	m := &Metrics{
		leader: prometheus.NewGauge(prometheus.GaugeOpts{
			Namespace: namespace, Name: "leader",
			Help: "1 for the manager that acts, 0 for one that stands by. Only the one that acts knows how the cluster is.",
		}),
		steps: prometheus.NewCounterVec(prometheus.CounterOpts{
			Namespace: namespace, Name: "steps_total", Help: "Steps begun, since the manager started.",
		}, []string{labelStep}),
		actions: prometheus.NewCounterVec(prometheus.CounterOpts{
			Namespace: namespace, Name: "actions_total",
			Help: "Actions taken, by kind and result: changed, unchanged (it was so already) or error.",
		}, []string{labelAction, labelResult}),
		held: prometheus.NewCounterVec(prometheus.CounterOpts{
			Namespace: namespace, Name: "events_held_back_total",
			Help: "Events not sent when they were due, because there were too many of their reason. The log has them, and the next event their number.",
		}, []string{labelReason}),
		providers: metered.NewMetrics(),
		calls: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Namespace: namespace, Subsystem: "datastore", Name: "call_duration_seconds", Help: "How long calls of Calico's datastore took.",
			Buckets: []float64{.005, .025, .1, .5, 1, 2.5, 5, 10, 20, 60},
		}, []string{labelMethod, labelResult}),
		gauges: newGauges(),
	}
	registry.MustRegister(m.leader, m.steps, m.actions, m.held, m.providers, m.calls, m.gauges)
	return m
}

// Lead notes that this manager acts. One that no longer does ends.
func (m *Metrics) Lead() { m.leader.Set(1) }

// stepped counts a new step; before is the step of the last reconciliation.
func (m *Metrics) stepped(s *scope, before string) {
	if m != nil && s.step.Name != before {
		m.steps.WithLabelValues(s.step.Name).Inc()
	}
}

// action notes one action and what came of it.
func (m *Metrics) action(action plan.Action, changed bool, err error) {
	if m == nil {
		return
	}
	result := resultUnchanged
	switch {
	case err != nil:
		result = resultError
	case changed:
		result = resultChanged
	}
	kind := fmt.Sprintf("%T", action)
	m.actions.WithLabelValues(kind[strings.LastIndex(kind, ".")+1:], result).Inc()
}

// eventHeldBack notes an event that was not sent.
func (m *Metrics) eventHeldBack(reason string) {
	if m != nil {
		m.held.WithLabelValues(reason).Inc()
	}
}

// provider gives p with its calls measured.
func (m *Metrics) provider(p cloud.Provider) cloud.Provider {
	if m == nil {
		return p
	}
	return m.providers.Provider(p)
}

func (m *Metrics) call(method string, began time.Time, err error) {
	if m == nil {
		return
	}
	result := resultOK
	if err != nil {
		result = resultError
	}
	m.calls.WithLabelValues(method, result).Observe(time.Since(began).Seconds())
}

// gauges export the last snapshot. What is not known is absent: a 0
// that means "unknown" would be taken for one that means none.
type gauges struct {
	all  []gauge
	mu   sync.Mutex
	seen metricsSnapshot
}

// gauge is one metric: read gives its values, none while it is not known.
type gauge struct {
	desc *prometheus.Desc
	read func(*metricsSnapshot) []reading
}

type reading struct {
	value  float64
	labels []string
}

func newGauges() *gauges {
	g := &gauges{}
	add := func(name, help string, read func(*metricsSnapshot) []reading, labels ...string) {
		desc := prometheus.NewDesc(prometheus.BuildFQName(namespace, "", name), help, labels, nil)
		g.all = append(g.all, gauge{desc, read})
	}
	add("object_present", "1 while there is a RouteReflectorPool, 0 while there is none and nothing is done.", objectPresent)
	add("mode", "1 for the mode that spec.mode asks for, 0 for the others; FullMesh while the object is being deleted.", modes, labelMode)
	add("last_observation_timestamp_seconds", "When the cluster was last observed whole. At rest that is every 5 minutes.", lastObserved)
	add("mesh", "1 for the state of the node-to-node mesh: on, off, or unknown while the cluster cannot be observed.", mesh, labelState)
	add("safety_net_due", "1 while the mesh is off and fewer route reflectors serve than should, in any mode: "+
		"the mesh has to come back, after spec.rollout.safetyNet.after at the latest.", ifKnown(func(k *clusterMetrics) float64 { return boolValue(k.netDue) }))
	add("safety_net_acted", "1 while the mesh is on because rrpool switched it on again, though route reflectors are wanted.",
		ifKnown(func(k *clusterMetrics) float64 { return boolValue(k.netActed) }))
	add("nodes", "Ready nodes that speak BGP and are not in the dedicated pool.", ifKnown(func(k *clusterMetrics) float64 { return float64(k.nodes) }))
	add("reflectors", "Route reflectors that the current step relies on.", ofReflectors(func(r *reflectorMetrics) int { return r.count }))
	add("reflectors_serving", "Route reflectors that are Ready, in their role, and have sessions with most of their clients.",
		ofReflectors(func(r *reflectorMetrics) int { return r.serving }))
	add("reflectors_wanted", "Route reflectors that there should be, 0 where the mesh is wanted.",
		ifNumber(func(k *clusterMetrics) *int { return k.wanted }))
	add("reflectors_minimum", "With fewer route reflectors serving the mesh comes back: spec.rollout.safetyNet.minServing, "+
		"or as many as are wanted at all; absent for topologies other than Single.", ifNumber(func(k *clusterMetrics) *int { return k.minimum }))
	add("workers_wanted", "Workers that the pool should have, or nodes to be chosen where they exist already.",
		ofWorkers(func(c *workerMetrics) int { return c.wanted }))
	add("workers_deployed", "Workers of the pool that the provider calls deployed.", ofWorkers(func(c *workerMetrics) int { return c.deployed }))
	add("pool_cost_hourly", "What the dedicated pool's nodes cost together for an hour, by the built-in prices; "+
		"absent without any, on existing nodes, and while a price is unknown: status.cost.source says which.", costHourly, labelCurrency)
	add("sessions_established", "Established sessions with Ready nodes of the route reflectors that serve and report; absent while none does, and with the Timer gate.",
		sessions(func(r *reflectorMetrics) int { return r.established }))
	add("sessions_expected", "Sessions with Ready nodes that the route reflectors that serve and report should have, those with others "+
		"that do not serve left out; absent while none does, and with the Timer gate.",
		sessions(func(r *reflectorMetrics) int { return r.expected }))
	add("nodes_unserved", "Ready nodes without an Established session with any route reflector; absent while that is unknown, as with the Timer gate.",
		ifNumber(func(k *clusterMetrics) *int { return k.unserved }))
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

func (g *gauges) set(seen metricsSnapshot) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.seen = seen
}

func (g *gauges) last() metricsSnapshot {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.seen
}

func objectPresent(s *metricsSnapshot) []reading {
	if !s.read {
		return nil
	}
	return one(boolValue(s.exists))
}

func modes(s *metricsSnapshot) []reading {
	if !s.exists {
		return nil
	}
	var out []reading
	for _, mode := range []v1alpha1.Mode{v1alpha1.ModeRouteReflector, v1alpha1.ModeFullMesh, v1alpha1.ModePaused} {
		out = append(out, reading{boolValue(s.mode == mode), []string{string(mode)}})
	}
	return out
}

func lastObserved(s *metricsSnapshot) []reading {
	if s.observed.IsZero() {
		return nil
	}
	return one(float64(s.observed.UnixMilli()) / float64(time.Second/time.Millisecond))
}

func mesh(s *metricsSnapshot) []reading {
	if !s.exists {
		return nil
	}
	is := "unknown"
	switch {
	case s.cluster == nil:
	case s.cluster.meshOn:
		is = "on"
	default:
		is = "off"
	}
	var out []reading
	for _, state := range []string{"on", "off", "unknown"} {
		out = append(out, reading{boolValue(state == is), []string{state}})
	}
	return out
}

func step(s *metricsSnapshot) []reading {
	if s.cluster == nil {
		return nil
	}
	return []reading{{1, []string{s.cluster.step}}}
}

func stepWaiting(s *metricsSnapshot) []reading {
	return ifKnown(func(k *clusterMetrics) float64 { return k.waiting(s.now()) })(s)
}

func conditionsSeen(s *metricsSnapshot) []reading {
	var out []reading
	for _, c := range s.conditions {
		out = append(out, reading{1, []string{c.Type, string(c.Status), c.Reason}})
	}
	return out
}

// ifSet reads a number of a part of what is known, which is nil while nothing is.
func ifSet[part any](of func(*clusterMetrics) *part, value func(*part) float64) func(*metricsSnapshot) []reading {
	return func(s *metricsSnapshot) []reading {
		if s.cluster == nil || of(s.cluster) == nil {
			return nil
		}
		return one(value(of(s.cluster)))
	}
}

func ifKnown(value func(*clusterMetrics) float64) func(*metricsSnapshot) []reading {
	return ifSet(func(k *clusterMetrics) *clusterMetrics { return k }, value)
}

func ifNumber(number func(*clusterMetrics) *int) func(*metricsSnapshot) []reading {
	return ifSet(number, func(n *int) float64 { return float64(*n) })
}

func ofReflectors(count func(*reflectorMetrics) int) func(*metricsSnapshot) []reading {
	return ifSet(func(k *clusterMetrics) *reflectorMetrics { return k.reflectors }, func(r *reflectorMetrics) float64 { return float64(count(r)) })
}

func sessions(count func(*reflectorMetrics) int) func(*metricsSnapshot) []reading {
	observed := func(k *clusterMetrics) *reflectorMetrics {
		if k.reflectors == nil || !k.reflectors.observed {
			return nil
		}
		return k.reflectors
	}
	return ifSet(observed, func(r *reflectorMetrics) float64 { return float64(count(r)) })
}

func ofWorkers(count func(*workerMetrics) int) func(*metricsSnapshot) []reading {
	return ifSet(func(k *clusterMetrics) *workerMetrics { return k.workers }, func(c *workerMetrics) float64 { return float64(count(c)) })
}

func one(value float64) []reading { return []reading{{value: value}} }

func boolValue(is bool) float64 {
	if is {
		return 1
	}
	return 0
}

// MeteredDatastore times every call to the datastore.
func MeteredDatastore(d Datastore, m *Metrics) Datastore {
	return meteredDatastore{Datastore: d, metrics: m}
}

type meteredDatastore struct {
	Datastore
	metrics *Metrics
}

// Observe implements Datastore.
func (d meteredDatastore) Observe(ctx context.Context, scope plan.Scope) (cluster plan.Cluster, err error) {
	defer func(began time.Time) { d.metrics.call("Observe", began, err) }(time.Now())
	return d.Datastore.Observe(ctx, scope)
}

// Apply implements Datastore.
func (d meteredDatastore) Apply(ctx context.Context, scope plan.Scope, action plan.Action) (changed bool, err error) {
	defer func(began time.Time) { d.metrics.call("Apply", began, err) }(time.Now())
	return d.Datastore.Apply(ctx, scope, action)
}

// Watch implements Datastore.
func (d meteredDatastore) Watch(ctx context.Context, want []plan.StatusRequest) (changed bool, err error) {
	defer func(began time.Time) { d.metrics.call("Watch", began, err) }(time.Now())
	return d.Datastore.Watch(ctx, want)
}
