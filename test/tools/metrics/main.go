// Command metrics prints docs/metrics.md: a page with every metric, from what the manager registers.
package main

import (
	"fmt"
	"os"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/rrpool/rrpool/cmd/wiring"
)

func main() {
	text, err := page(registered())
	if err != nil {
		fmt.Fprintln(os.Stderr, "metrics:", err)
		os.Exit(1)
	}
	_, _ = fmt.Fprint(os.Stdout, text)
}

// registered are the descriptions of all that the manager registers.
func registered() []*prometheus.Desc {
	registry, descs := prometheus.NewPedanticRegistry(), make(chan *prometheus.Desc)
	wiring.Metrics(registry)
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
