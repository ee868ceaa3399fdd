package wiring

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/rrpool/rrpool/cmd/version"
	"github.com/rrpool/rrpool/controllers/pool"
)

// Metrics registers all that the manager tells Prometheus, this program's version with
// it. docs/metrics.md is made from the same.
func Metrics(registry prometheus.Registerer) *pool.Metrics {
	this := version.Get()
	build := prometheus.NewGauge(prometheus.GaugeOpts{
		Namespace: "rrpool", Name: "build_info", Help: "1, with the version that runs.",
		ConstLabels: prometheus.Labels{"version": this.Version, "revision": this.Revision, "goversion": this.Go},
	})
	build.Set(1)
	registry.MustRegister(build)
	return pool.NewMetrics(registry)
}
