// Command metrics prints the rows of the table of docs/metrics.md: every metric that the manager registers.
package main

import (
	"cmp"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/rrpool/rrpool/cmd/wiring"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "metrics:", err)
		os.Exit(1)
	}
}

func run() error {
	registry := prometheus.NewPedanticRegistry()
	wiring.Metrics(registry)
	families, err := registry.Gather()
	if err != nil {
		return fmt.Errorf("gathering: %w", err)
	}
	for _, f := range families { // metrics that are served from the start
		if served := strings.ToLower(f.GetType().String()); served != kind(f.GetName()) {
			return fmt.Errorf("%s is a %s: name it as one", f.GetName(), served)
		}
	}
	descs := make(chan *prometheus.Desc, 1000)
	registry.Describe(descs)
	close(descs)
	var rows []string
	for desc := range descs {
		r, err := row(desc)
		if err != nil {
			return err
		}
		rows = append(rows, r)
	}
	plain := func(row string) string { return strings.ReplaceAll(row, "`", "") }
	slices.SortFunc(rows, func(a, b string) int { return strings.Compare(plain(a), plain(b)) })
	fmt.Println(strings.Join(rows, "\n"))
	return nil
}

// row returns a row of the table. It parses the description's String, because client_golang offers no other access.
func row(desc *prometheus.Desc) (string, error) {
	var name, help string
	text := desc.String()
	if _, err := fmt.Sscanf(text, "Desc{fqName: %q, help: %q", &name, &help); err != nil {
		return "", fmt.Errorf("reading %s: client_golang describes metrics in another way now: %w", text, err)
	}
	var labels []string
	for _, list := range strings.SplitAfter(text, "Labels: {")[1:] {
		list, _, _ = strings.Cut(list, "}")
		for field := range strings.SplitSeq(list, ",") {
			if label, _, _ := strings.Cut(field, "="); label != "" {
				labels = append(labels, "`"+label+"`")
			}
		}
	}
	return fmt.Sprintf("| %#q | %s | %s | %s |", name, kind(name), cmp.Or(strings.Join(labels, ", "), "-"), help), nil
}

// kind returns the type of a metric, by the conventions of Prometheus' names.
func kind(name string) string {
	switch {
	case strings.HasSuffix(name, "_total"):
		return "counter"
	case strings.HasSuffix(name, "_duration_seconds"):
		return "histogram"
	}
	return "gauge"
}
