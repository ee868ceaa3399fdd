// Command metrics writes what is generated for whoever monitors rrpool: a page with every
// metric, from what the manager registers, and the alerts as a PrometheusRule.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/rrpool/rrpool/cmd/wiring"
)

func main() {
	markdown := flag.String("markdown", "", "page with every metric, to be written")
	rules := flag.String("rules", "", "rules for Prometheus, to be read")
	wrapped := flag.String("prometheusrule", "", "the same as a PrometheusRule, to be written")
	flag.Parse()
	if err := write(*markdown, *rules, *wrapped); err != nil {
		fmt.Fprintln(os.Stderr, "metrics:", err)
		os.Exit(1)
	}
}

func write(markdown, rules, wrapped string) error {
	var errs []error
	if markdown != "" {
		text, err := page(registered())
		errs = append(errs, err, os.WriteFile(markdown, []byte(text), 0o644)) //nolint:gosec // G306: a page of the docs
	}
	if wrapped != "" {
		content, err := os.ReadFile(rules) //nolint:gosec // G304: named by whoever calls it
		if err == nil {
			err = os.WriteFile(wrapped, []byte(wrap(string(content))), 0o644) //nolint:gosec // G306: a manifest
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// registry keeps what is registered.
type registry struct {
	prometheus.Registerer
	all []prometheus.Collector
}

// MustRegister implements prometheus.Registerer.
func (r *registry) MustRegister(collectors ...prometheus.Collector) {
	r.Registerer.MustRegister(collectors...)
	r.all = append(r.all, collectors...)
}

// registered are the descriptions of all that the manager registers.
func registered() []*prometheus.Desc {
	r := &registry{Registerer: prometheus.NewPedanticRegistry()}
	wiring.Metrics(r)
	var out []*prometheus.Desc
	for _, collector := range r.all {
		descs := make(chan *prometheus.Desc)
		go func() {
			defer close(descs)
			collector.Describe(descs)
		}()
		for desc := range descs {
			out = append(out, desc)
		}
	}
	return out
}
