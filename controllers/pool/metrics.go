package pool

import (
	"cmp"
	"net/netip"
	"reflect"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/rrpool/rrpool/cloud"
	"github.com/rrpool/rrpool/cloud/metered"
	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/controllers/plan"
	"github.com/rrpool/rrpool/controllers/plan/evidence"
	"github.com/rrpool/rrpool/controllers/plan/rollout"
)

const namespace = "rrpool"

// Metrics are what rrpool exports to Prometheus.
//
// Only the leader of several managers observes the cluster. The others export rrpool_leader
// 0 and their own counters; their metrics of the cluster are absent, never 0.
type Metrics struct {
	leader    prometheus.Gauge
	steps     *prometheus.CounterVec
	rules     *prometheus.CounterVec
	actions   *prometheus.CounterVec
	held      *prometheus.CounterVec
	providers *metered.Metrics
	calls     *prometheus.HistogramVec
	cluster   clusterGauges
}

// NewMetrics registers the metrics; it panics when they are registered already.
func NewMetrics(registry prometheus.Registerer) *Metrics {
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: namespace, Name: name, Help: help}, labels)
	}
	m := &Metrics{
		leader: prometheus.NewGauge(prometheus.GaugeOpts{
			Namespace: namespace, Name: "leader",
			Help: "1 for the manager that acts, 0 for one that stands by. Only the one that acts knows how the cluster is.",
		}),
		steps:   counter("steps_total", "Steps begun, since the manager started.", "step"),
		rules:   counter("rules_total", "How often each rule was the first with a step, after another one, since the manager started.", "rule"),
		actions: counter("actions_total", "Actions taken, by kind and result: changed, unchanged (it was so already) or error.", "action", "result"),
		held: counter("events_held_back_total",
			"Events not sent when they were due, because there were too many of their reason. The log has them.", "reason"),
		providers: metered.NewMetrics(registry),
		calls: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Namespace: namespace, Subsystem: "datastore", Name: "call_duration_seconds", Help: "How long calls of Calico's datastore took.",
			Buckets: []float64{.005, .025, .1, .5, 1, 2.5, 5, 10, 20, 60},
		}, []string{"method", "result"}),
		cluster: clusterGauges{descs: clusterDescs()},
	}
	registry.MustRegister(m.leader, m.steps, m.rules, m.actions, m.held, m.calls, &m.cluster)
	return m
}

// Lead notes that this manager is the leader, which it is until its process ends.
func (m *Metrics) Lead() { m.leader.Set(1) }

// action counts an action by its kind and result.
func (m *Metrics) action(action plan.Action, changed bool, err error) {
	result := "unchanged"
	switch {
	case err != nil:
		result = "error"
	case changed:
		result = "changed"
	}
	m.actions.WithLabelValues(reflect.TypeOf(action).Name(), result).Inc()
}

// datastoreCall measures a call of Calico's datastore that began at began.
func (m *Metrics) datastoreCall(method string, began time.Time, err error) {
	result := "ok"
	if err != nil {
		result = "error"
	}
	m.calls.WithLabelValues(method, result).Observe(time.Since(began).Seconds())
}

// noteObjectAbsent notes that there is no RouteReflectorPool: of the cluster, only object_present 0 is exported.
func (m *Metrics) noteObjectAbsent() {
	var out samples
	out.add("object_present", 0)
	m.cluster.observedAt = time.Time{}
	m.cluster.seen.Store(&out)
}

// observed exports what a reconciliation observed, and its status.
func (m *Metrics) observed(s *Scope, c *poolClient, status v1alpha1.RouteReflectorPoolStatus, now func() time.Time) {
	m.cluster.observedAt = s.now
	bgp, mesh := s.Cluster.BGP, "off"
	if bgp.MeshOn() {
		mesh = "on"
	}
	var out samples
	out.addBool("safety_net_due", s.Step.Short)
	out.addBool("safety_net_acted", s.reflecting() && bgp.MeshOn() && !bgp.Restored.IsZero())
	out.add("nodes", int(status.Nodes))
	out.add("step", 1, status.Step.Name)
	out.addReflectors(s, now)
	if c.last != nil && !c.foreign() {
		wanted, deployed := workerCounts(s, c)
		out.add("workers_wanted", wanted)
		out.add("workers_deployed", deployed)
	}
	if status.Cost != nil {
		if amount, err := strconv.ParseFloat(status.Cost.Hourly, 64); err == nil { // otherwise the cost is unknown
			out = append(out, sample{"pool_cost_hourly", []string{status.Cost.Currency}, func() float64 { return amount }})
		}
	}
	if s.Step.Unserved != nil {
		out.add("nodes_unserved", len(s.Step.Unserved))
	}
	m.cluster.publish(s, status, mesh, append(out, sample{"step_waiting_seconds", nil, func() float64 {
		if status.Step.Name == rollout.Steady {
			return 0
		}
		return max(0, now().Sub(status.Step.Since.Time).Seconds())
	}}))
}

// clusterGauges exports the object and the cluster as last observed. A metric whose value is unknown is absent, never 0.
type clusterGauges struct {
	descs map[string]*prometheus.Desc
	// seen is what is exported until the next reconciliation.
	seen atomic.Pointer[samples]
	// observedAt is when this manager last observed the whole cluster, zero for never.
	observedAt time.Time
}

// sample is one series of a metric. Its value is computed at each scrape.
type sample struct {
	name   string
	labels []string
	value  func() float64
}

type samples []sample

func clusterDescs() map[string]*prometheus.Desc {
	out := map[string]*prometheus.Desc{}
	add := func(name, help string, labels ...string) {
		out[name] = prometheus.NewDesc(prometheus.BuildFQName(namespace, "", name), help, labels, nil)
	}
	add("object_present", "1 while there is a RouteReflectorPool, 0 while there is none and nothing is done.")
	add("mode", "1 for the mode that spec.mode asks for, 0 for the others; FullMesh while the object is being deleted.", "mode")
	add("last_observation_timestamp_seconds", "When the cluster was last observed whole. At rest that is every 5 minutes.")
	add("mesh", "1 for the state of the node-to-node mesh: on, off, or unknown while the cluster cannot be observed.", "state")
	add("safety_net_due", "1 while the mesh is off and fewer route reflectors serve than should, in any mode: "+
		"the mesh has to come back, after spec.rollout.safetyNet.after at the latest.")
	add("safety_net_acted", "1 while the mesh is on because rrpool switched it on again, though route reflectors are wanted.")
	add("nodes", "Ready nodes that speak BGP and are not in the dedicated pool.")
	add("reflectors", "Route reflectors that the current step relies on.")
	add("reflectors_serving", "Route reflectors that are Ready, in their role, and have sessions with most of their clients.")
	add("reflectors_wanted", "Route reflectors that there should be, 0 where the mesh is wanted.")
	add("reflectors_minimum", "With fewer route reflectors serving the mesh comes back: spec.rollout.safetyNet.minServing, "+
		"or as many as are wanted at all; absent for topologies other than Single.")
	add("workers_wanted", "Workers that the pool should have, or nodes to be chosen where they exist already.")
	add("workers_deployed", "Workers of the pool that the provider calls deployed.")
	add("pool_cost_hourly", "What the dedicated pool's nodes cost together for an hour, by the built-in prices; "+
		"absent without any, on existing nodes, and while a price is unknown: status.cost.source says which.", "currency")
	add("sessions_established", "Established sessions with Ready nodes of the route reflectors that serve and report; "+
		"absent while none does, and with the Timer gate.")
	add("sessions_expected", "Sessions with Ready nodes that the route reflectors that serve and report should have, those with others "+
		"that do not serve left out; absent while none does, and with the Timer gate.")
	const absent = "; absent while it does not report, and with the Timer gate."
	add("reflector_sessions_established", "Established sessions of a route reflector with Ready nodes"+absent, "node", "zone")
	add("reflector_sessions_expected", "Sessions that a route reflector should have with Ready nodes"+absent, "node", "zone")
	add("reflector_session_age_seconds", "For how long the youngest Established session of a route reflector has been seen so; "+
		"absent until this manager has seen reports for itself.", "node", "zone")
	add("reflector_prefixes", "Different prefixes that a route reflector knows; absent while no step asks for routes.", "node", "zone")
	add("clients", "Ready nodes that are no route reflectors, by zone and by the number of route reflectors with which all their sessions are "+
		"Established. Route reflectors that do not serve are not counted; absent while none that serves reports, and with the Timer gate.", "zone", "sessions")
	add("nodes_unserved", "Ready nodes without an Established session with any route reflector; absent while that is unknown, as with the Timer gate.")
	add("step", "1 for the step being taken or waited for; Steady at rest.", "step")
	add("step_waiting_seconds", "How long the current step has been going on without progress, 0 at rest.")
	add("condition", "1 for the status that a condition of the RouteReflectorPool has, with its reason.", "condition", "status", "reason")
	return out
}

func (g *clusterGauges) Describe(ch chan<- *prometheus.Desc) {
	for _, desc := range g.descs {
		ch <- desc
	}
}

func (g *clusterGauges) Collect(ch chan<- prometheus.Metric) {
	now := g.seen.Load()
	if now == nil {
		return
	}
	for _, s := range *now {
		ch <- prometheus.MustNewConstMetric(g.descs[s.name], prometheus.GaugeValue, s.value(), s.labels...)
	}
}

// publish exports the samples in the argument now. It adds those that are known even while the cluster cannot be observed.
func (g *clusterGauges) publish(s *Scope, status v1alpha1.RouteReflectorPoolStatus, mesh string, now samples) {
	now.add("object_present", 1)
	mode := s.object.Spec.Mode
	if s.deleting() {
		mode = v1alpha1.ModeFullMesh
	}
	now.addOneOf("mode", string(mode), string(v1alpha1.ModeRouteReflector), string(v1alpha1.ModeFullMesh), string(v1alpha1.ModePaused))
	now.addOneOf("mesh", mesh, "on", "off", "unknown")
	if !g.observedAt.IsZero() {
		at := float64(g.observedAt.UnixMilli()) / 1000
		now = append(now, sample{"last_observation_timestamp_seconds", nil, func() float64 { return at }})
	}
	for _, c := range status.Conditions {
		now.add("condition", 1, c.Type, string(c.Status), c.Reason)
	}
	g.seen.Store(&now)
}

func (s *samples) add(name string, value int, labels ...string) {
	*s = append(*s, sample{name, labels, func() float64 { return float64(value) }})
}

func (s *samples) addBool(name string, is bool, labels ...string) {
	value := 0
	if is {
		value = 1
	}
	s.add(name, value, labels...)
}

// addOneOf adds a sample for each label in all. The label in the argument is gets the value 1, the others get 0.
func (s *samples) addOneOf(name, is string, all ...string) {
	for _, label := range all {
		s.addBool(name, label == is, label)
	}
}

// addReflectors adds the numbers of route reflectors and their sessions. If a refusal leaves the step without
// reflectors, it adds only how many are wanted. With the Timer gate it adds no sessions, as there are no reports.
func (s *samples) addReflectors(of *Scope, now func() time.Time) {
	if wanted := of.Desired.Pool.SizePerZone * len(of.Desired.Pool.Zones); wanted > 0 || !of.reflecting() {
		s.add("reflectors_wanted", wanted)
		if kind := of.Desired.Topology.Kind; kind == "" || kind == v1alpha1.TopologySingle {
			s.add("reflectors_minimum", min(wanted, of.Desired.MinServing))
		}
	}
	if len(of.Step.Reflectors) == 0 && of.Step.Problem != nil {
		return
	}
	s.add("reflectors", len(of.Step.Reflectors))
	s.add("reflectors_serving", serving(of.Step))
	if !of.Desired.Timer {
		s.addEachReflector(of, now)
	}
}

// serving counts the reflectors of a step that serve.
func serving(step rollout.Step) int {
	return count(step.Reflectors, func(r evidence.Reflector) bool { return r.Serving })
}

// workerCounts counts the workers that the pool should have, and those that are deployed.
func workerCounts(s *Scope, c *poolClient) (wanted, deployed int) {
	deployed = count(c.last.Workers, func(w cloud.Worker) bool { return w.State == cloud.WorkerDeployed })
	return cmp.Or(s.Desired.Pool.SizePerZone*len(s.Desired.Pool.Zones), c.last.SizePerZone*len(c.last.Zones)), deployed
}

// addReflector adds what the report of a reflector shows.
func (s *samples) addReflector(r evidence.Reflector, report plan.Status, now func() time.Time) {
	s.add("reflector_sessions_established", r.Established, r.Node, r.Zone)
	s.add("reflector_sessions_expected", r.Expected, r.Node, r.Zone)
	if since := youngest(report); !since.IsZero() {
		*s = append(*s, sample{"reflector_session_age_seconds", []string{r.Node, r.Zone}, func() float64 { return max(0, now().Sub(since).Seconds()) }})
	}
	if report.HasRoutes {
		prefixes := sets.Set[netip.Prefix]{}
		for _, route := range report.Routes {
			prefixes.Insert(route.Prefix)
		}
		s.add("reflector_prefixes", prefixes.Len(), r.Node, r.Zone)
	}
}

// addEachReflector adds what each reflector's report shows, and the sums over those that serve.
func (s *samples) addEachReflector(of *Scope, now func() time.Time) {
	var reports []plan.Status
	reporting, established, expected := 0, 0, 0
	for _, r := range of.Step.Reflectors {
		report, reported := of.Cluster.Statuses[r.Node]
		if r.Serving && reported {
			reporting, established, expected = reporting+1, established+r.Established, expected+r.Established+r.Lacking
		}
		if !reported || len(report.Sessions) == 0 && report.Written.IsZero() {
			continue
		}
		if r.Serving { // the report of a reflector that does not serve may be old
			reports = append(reports, report)
		}
		s.addReflector(r, report, now)
	}
	if reporting > 0 {
		s.add("sessions_established", established)
		s.add("sessions_expected", expected)
	}
	if len(reports) > 0 {
		s.addClients(of.Cluster.Nodes, reports)
	}
}

// youngest returns when the youngest Established session outside the mesh was first seen Established, zero if that is unknown of any.
func youngest(report plan.Status) time.Time {
	var out time.Time
	for _, session := range report.Sessions {
		switch {
		case session.Kind == plan.SessionMesh || !session.Established:
		case session.Since.IsZero():
			return time.Time{}
		case session.Since.After(out):
			out = session.Since
		}
	}
	return out
}

// addClients counts clients by zone and by the number of reflectors that serve them.
func (s *samples) addClients(nodes []plan.Node, reports []plan.Status) {
	type group struct {
		zone     string
		sessions int
	}
	clients := map[group]int{}
	for _, n := range nodes {
		if n.Ready && n.SpeaksBGP() && !n.IsOurs() {
			clients[group{n.Zone, count(reports, func(r plan.Status) bool { return serves(r, n) })}]++
		}
	}
	for g, n := range clients {
		s.add("clients", n, g.zone, strconv.Itoa(g.sessions))
	}
}

// serves reports whether a reflector has sessions with a node, and all of them are Established.
func serves(report plan.Status, n plan.Node) bool {
	with := func(s plan.Session) bool { return s.Kind != plan.SessionMesh && slices.Contains(n.Addresses, s.Peer) }
	return slices.ContainsFunc(report.Sessions, with) &&
		!slices.ContainsFunc(report.Sessions, func(s plan.Session) bool { return with(s) && !s.Established })
}
