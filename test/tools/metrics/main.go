// Command metrics prints docs/metrics.md: a page with every metric, from what the manager registers.
package main

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/rrpool/rrpool/cmd/wiring"
)

func main() {
	registry := prometheus.NewPedanticRegistry()
	wiring.Metrics(registry)
	text, err := page(registered(registry))
	if err = errors.Join(err, agree(registry)); err != nil {
		fmt.Fprintln(os.Stderr, "metrics:", err)
		os.Exit(1)
	}
	_, _ = fmt.Fprint(os.Stdout, text)
}

// agree holds the kinds to what is served, as far as it is from the start.
func agree(registry prometheus.Gatherer) error {
	families, err := registry.Gather()
	for _, f := range families {
		if served := strings.ToLower(f.GetType().String()); served != kind(f.GetName()) {
			err = errors.Join(err, fmt.Errorf("%s is a %s: name it as one", f.GetName(), served))
		}
	}
	return err
}

// registered are the descriptions of all that the manager registers.
func registered(registry *prometheus.Registry) []*prometheus.Desc {
	descs := make(chan *prometheus.Desc)
	go func() {
		defer close(descs)
		registry.Describe(descs)
	}()
	var out []*prometheus.Desc
	for desc := range descs {
		out = append(out, desc)
	}
	return out
}
