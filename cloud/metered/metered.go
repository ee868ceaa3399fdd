// Package metered counts and times the calls of a provider, so that providers need not know about metrics.
package metered

import (
	"cmp"
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/rrpool/rrpool/cloud"
)

// Metrics are the metrics of all providers of a process.
type Metrics struct {
	calls    *prometheus.CounterVec
	duration *prometheus.HistogramVec
}

// NewMetrics registers the metrics. The label kind of a call is the cloud.Kind
// of its error, "None" without an error, "Other" if the error has no Kind.
func NewMetrics(registry prometheus.Registerer) *Metrics {
	m := &Metrics{
		calls: prometheus.NewCounterVec(prometheus.CounterOpts{
			Namespace: "rrpool", Subsystem: "provider", Name: "calls_total",
			Help: "Calls of the node provider, by the kind of their error.",
		}, []string{"provider", "method", "kind"}),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Namespace: "rrpool", Subsystem: "provider", Name: "call_duration_seconds",
			Help:    "How long calls of the node provider took.",
			Buckets: []float64{0.01, 0.05, 0.1, 0.5, 1, 2.5, 5, 10, 30, 60},
		}, []string{"provider", "method"}),
	}
	registry.MustRegister(m.calls, m.duration)
	return m
}

// Provider returns p with its calls measured.
func (m *Metrics) Provider(p cloud.Provider) cloud.Provider { return &provider{p, m} }

type provider struct {
	cloud.Provider
	metrics *Metrics
}

func (p *provider) Observe(ctx context.Context, want cloud.PoolSpec) (cloud.Pool, error) {
	return measured(p, "Observe", func() (cloud.Pool, error) { return p.Provider.Observe(ctx, want) })
}

func (p *provider) Ensure(ctx context.Context, want cloud.PoolSpec) (cloud.Progress, error) {
	return measured(p, "Ensure", func() (cloud.Progress, error) { return p.Provider.Ensure(ctx, want) })
}

func (p *provider) Delete(ctx context.Context) (cloud.Progress, error) {
	return measured(p, "Delete", func() (cloud.Progress, error) { return p.Provider.Delete(ctx) })
}

func measured[T any](p *provider, method string, call func() (T, error)) (T, error) {
	start := time.Now()
	out, err := call()
	kind := cloud.Kind("None")
	if err != nil {
		kind = cmp.Or(cloud.KindOf(err), "Other")
	}
	p.metrics.calls.WithLabelValues(p.Name(), method, string(kind)).Inc()
	p.metrics.duration.WithLabelValues(p.Name(), method).Observe(time.Since(start).Seconds())
	return out, err
}
