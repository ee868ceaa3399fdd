package pool

import (
	"fmt"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/rrpool/rrpool/cloud"
	"github.com/rrpool/rrpool/cloud/metered"
	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/controllers/plan"
	"github.com/rrpool/rrpool/controllers/plan/rollout"
)

// The label names and the values that are chosen here.
const (
	namespace      = "rrpool"
	labelStep      = "step"
	labelAction    = "action"
	labelResult    = "result"
	labelCondition = "condition"
	labelStatus    = "status"
	labelMethod    = "method"

	resultChanged   = "changed"
	resultUnchanged = "unchanged"
	resultOK        = "ok"
	resultError     = "error"
)

// Metrics are what rrpool tells Prometheus. A nil Metrics tells nothing.
type Metrics struct {
	step        *prometheus.GaugeVec
	steps       *prometheus.CounterVec
	waiting     prometheus.Gauge
	actions     *prometheus.CounterVec
	nodes       prometheus.Gauge
	reflectors  prometheus.Gauge
	established prometheus.Gauge
	expected    prometheus.Gauge
	conditions  *prometheus.GaugeVec
	providers   *metered.Metrics
	calls       *prometheus.HistogramVec
}

// NewMetrics registers the metrics; it panics when they are registered already.
func NewMetrics(registry prometheus.Registerer) *Metrics {
	gauge := func(name, help string) prometheus.GaugeOpts {
		return prometheus.GaugeOpts{Namespace: namespace, Name: name, Help: help}
	}
	m := &Metrics{
		step: prometheus.NewGaugeVec(gauge("step", "1 for the step being taken or waited for."), []string{labelStep}),
		steps: prometheus.NewCounterVec(prometheus.CounterOpts{
			Namespace: namespace, Name: "steps_total", Help: "Steps begun.",
		}, []string{labelStep}),
		waiting: prometheus.NewGauge(gauge("step_waiting_seconds", "How long the current step has been going on, 0 at rest.")),
		actions: prometheus.NewCounterVec(prometheus.CounterOpts{
			Namespace: namespace, Name: "actions_total", Help: "Actions taken, by kind and result.",
		}, []string{labelAction, labelResult}),
		nodes:       prometheus.NewGauge(gauge("nodes", "Ready nodes that speak BGP and are not in the dedicated pool.")),
		reflectors:  prometheus.NewGauge(gauge("reflectors", "Route reflectors that the current step relies on.")),
		established: prometheus.NewGauge(gauge("sessions_established", "Established sessions of all route reflectors.")),
		expected:    prometheus.NewGauge(gauge("sessions_expected", "Sessions that all route reflectors should have.")),
		conditions: prometheus.NewGaugeVec(gauge("condition", "1 for the status that a condition has."),
			[]string{labelCondition, labelStatus}),
		providers: metered.NewMetrics(),
		calls: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Namespace: namespace, Subsystem: "datastore", Name: "call_duration_seconds", Help: "How long calls of the datastore took.",
			Buckets: []float64{.005, .025, .1, .5, 1, 2.5, 5, 10, 20, 60},
		}, []string{labelMethod, labelResult}),
	}
	registry.MustRegister(m.step, m.steps, m.waiting, m.actions, m.nodes, m.reflectors,
		m.established, m.expected, m.conditions, m.providers, m.calls)
	return m
}

// turn notes the step of a turn; before is the step of the turn before.
func (m *Metrics) turn(t *turn, before string) {
	if m == nil {
		return
	}
	if t.step.Name != before {
		m.step.Reset()
		m.steps.WithLabelValues(t.step.Name).Inc()
	}
	m.step.WithLabelValues(t.step.Name).Set(1)
}

// status notes what the status says.
func (m *Metrics) status(status v1alpha1.RouteReflectorPoolStatus, now time.Time) {
	if m == nil {
		return
	}
	var established, expected int32
	for _, r := range status.Reflectors {
		established += r.SessionsEstablished
		expected += r.SessionsExpected
	}
	m.nodes.Set(float64(status.Nodes))
	m.reflectors.Set(float64(len(status.Reflectors)))
	m.established.Set(float64(established))
	m.expected.Set(float64(expected))
	m.waiting.Set(0)
	if status.Step.Name != rollout.Steady {
		m.waiting.Set(max(0, now.Sub(status.Step.Since.Time).Seconds()))
	}
	m.conditions.Reset()
	for _, c := range status.Conditions {
		m.conditions.WithLabelValues(c.Type, string(c.Status)).Set(1)
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
