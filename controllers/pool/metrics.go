package pool

import (
	"fmt"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/rrpool/rrpool/cloud"
	"github.com/rrpool/rrpool/cloud/metered"
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

// Metrics are what rrpool tells Prometheus. A nil Metrics tells nothing.
//
// Of several managers one acts. The others tell that they do not (rrpool_leader 0) and
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

// turn notes the step of a turn; before is the step of the turn before.
func (m *Metrics) turn(t *turn, before string) {
	if m != nil && t.step.Name != before {
		m.steps.WithLabelValues(t.step.Name).Inc()
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

// heldBack notes an event that was not sent.
func (m *Metrics) heldBack(reason string) {
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
