// Package metered counts and times what a provider is asked, so that providers
// need not know about metrics.
package metered

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/rrpool/rrpool/cloud"
)

// Label names and the method values of the metrics.
const (
	labelProvider = "provider"
	labelMethod   = "method"
	labelKind     = "kind"

	methodObserve = "Observe"
	methodEnsure  = "Ensure"
	methodDelete  = "Delete"

	// kindNone is the kind of a call without error, kindOther of one whose error
	// is not typed.
	kindNone  = "None"
	kindOther = "Other"
)

// Metrics of all providers of a process. It is a prometheus.Collector.
type Metrics struct {
	calls    *prometheus.CounterVec
	duration *prometheus.HistogramVec
}

// NewMetrics makes the metrics; the caller registers them, once:
//
//	rrpool_provider_calls_total{provider,method,kind}
//	rrpool_provider_call_duration_seconds{provider,method}
//
// kind is the error's cloud.Kind, "None" without an error.
func NewMetrics() *Metrics {
	return &Metrics{
		calls: prometheus.NewCounterVec(prometheus.CounterOpts{
			Namespace: "rrpool", Subsystem: "provider", Name: "calls_total",
			Help: "Calls of the node provider, by the kind of their error.",
		}, []string{labelProvider, labelMethod, labelKind}),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Namespace: "rrpool", Subsystem: "provider", Name: "call_duration_seconds",
			Help:    "How long calls of the node provider took.",
			Buckets: []float64{0.01, 0.05, 0.1, 0.5, 1, 2.5, 5, 10, 30, 60},
		}, []string{labelProvider, labelMethod}),
	}
}

// Describe implements prometheus.Collector.
func (m *Metrics) Describe(ch chan<- *prometheus.Desc) {
	m.calls.Describe(ch)
	m.duration.Describe(ch)
}

// Collect implements prometheus.Collector.
func (m *Metrics) Collect(ch chan<- prometheus.Metric) {
	m.calls.Collect(ch)
	m.duration.Collect(ch)
}

// Provider gives p with its calls measured.
func (m *Metrics) Provider(p cloud.Provider) cloud.Provider {
	return &provider{Provider: p, metrics: m}
}

type provider struct {
	cloud.Provider
	metrics *Metrics
}

// Observe implements cloud.Provider.
func (p *provider) Observe(ctx context.Context) (cloud.Pool, error) {
	start := time.Now()
	out, err := p.Provider.Observe(ctx)
	p.note(methodObserve, start, err)
	return out, err
}

// Ensure implements cloud.Provider.
func (p *provider) Ensure(ctx context.Context, want cloud.PoolSpec) (cloud.Progress, error) {
	start := time.Now()
	out, err := p.Provider.Ensure(ctx, want)
	p.note(methodEnsure, start, err)
	return out, err
}

// Delete implements cloud.Provider.
func (p *provider) Delete(ctx context.Context) (cloud.Progress, error) {
	start := time.Now()
	out, err := p.Provider.Delete(ctx)
	p.note(methodDelete, start, err)
	return out, err
}

func (p *provider) note(method string, start time.Time, err error) {
	kind := kindNone
	if err != nil {
		if kind = string(cloud.KindOf(err)); kind == "" {
			kind = kindOther
		}
	}
	p.metrics.calls.WithLabelValues(p.Name(), method, kind).Inc()
	p.metrics.duration.WithLabelValues(p.Name(), method).Observe(time.Since(start).Seconds())
}
