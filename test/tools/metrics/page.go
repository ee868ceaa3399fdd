package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
)

// metric is one, as the page has it.
type metric struct {
	name, kind, help string
	labels           []string
}

// read takes a description from the words into which client_golang puts it; it gives them in no other way.
func read(desc *prometheus.Desc) (metric, error) {
	var m metric
	text := desc.String()
	if _, err := fmt.Sscanf(text, "Desc{fqName: %q, help: %q", &m.name, &m.help); err != nil {
		return metric{}, fmt.Errorf("reading %s: client_golang describes metrics in another way now: %w", text, err)
	}
	m.kind = kind(m.name)
	for _, list := range strings.SplitAfter(text, "Labels: {")[1:] {
		list, _, _ = strings.Cut(list, "}")
		for field := range strings.SplitSeq(list, ",") {
			if label, _, _ := strings.Cut(field, "="); label != "" {
				m.labels = append(m.labels, "`"+label+"`")
			}
		}
	}
	return m, nil
}

// kind follows from the name, by the rules of Prometheus' naming.
func kind(name string) string {
	switch {
	case strings.HasSuffix(name, "_total"):
		return "counter"
	case strings.HasSuffix(name, "_duration_seconds"):
		return "histogram"
	}
	return "gauge"
}

const head = `<!-- Made by make docs from what the manager registers: do not edit. -->

# Metrics

What a manager serves at ` + "`/metrics`" + ` of port 8443 (HTTPS, with a token); [monitoring.md](monitoring.md) says how to collect it, and what
alerts and dashboard make of it. Of two managers only the one that leads knows how the cluster is: the other serves ` + "`rrpool_leader 0`" + `, and
what it does not know is absent. So take ` + "`max without (instance, pod)`" + `, which does not depend on who leads.

Metrics with ` + "`controller_runtime_`, `leader_election_`, `rest_client_`, `workqueue_`, `go_` and `process_`" + ` are those of the libraries.

| metric | type | labels | meaning |
|---|---|---|---|
`

func page(descs []*prometheus.Desc) (string, error) {
	var all []metric
	for _, desc := range descs {
		m, err := read(desc)
		if err != nil {
			return "", err
		}
		all = append(all, m)
	}
	slices.SortFunc(all, func(a, b metric) int { return cmp.Compare(a.name, b.name) })
	var out strings.Builder
	out.WriteString(head)
	for _, m := range all {
		fmt.Fprintf(&out, "| `%s` | %s | %s | %s |\n", m.name, m.kind, cmp.Or(strings.Join(m.labels, ", "), "-"), m.help)
	}
	return out.String(), nil
}
