package monitoring_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/prometheus/prometheus/promql/parser"
	"github.com/stretchr/testify/require"
)

// What Prometheus itself adds to every series, or makes; cluster is for one that has several.
var (
	added = []string{"job", "namespace", "instance", "pod", "cluster"}
	made  = map[string][]string{"up": nil, "process_start_time_seconds": nil, "ALERTS": {"alertname", "alertstate", "severity"}}
)

// problems of a query: what Prometheus cannot parse, and metrics and labels that no manager serves.
func problems(query string, known map[string][]string) []string {
	expr, err := parser.NewParser(parser.Options{}).ParseExpr(query)
	if err != nil {
		return []string{err.Error()}
	}
	var out, labels []string
	parser.Inspect(expr, func(node parser.Node, _ []parser.Node) error {
		if selector, ok := node.(*parser.VectorSelector); ok {
			has, exists := known[selector.Name]
			if own, ok := made[selector.Name]; ok {
				has, exists = own, true
			}
			if !exists {
				out = append(out, fmt.Sprintf("there is no metric %s", selector.Name))
			}
			labels = append(labels, has...)
			for _, m := range selector.LabelMatchers {
				if m.Name != "__name__" && !slices.Contains(has, m.Name) && !slices.Contains(added, m.Name) {
					out = append(out, fmt.Sprintf("%s has no label %s", selector.Name, m.Name))
				}
			}
		}
		return nil
	})
	parser.Inspect(expr, func(node parser.Node, _ []parser.Node) error {
		var named []string
		switch n := node.(type) {
		case *parser.AggregateExpr:
			named = n.Grouping
		case *parser.BinaryExpr:
			if n.VectorMatching != nil {
				named = n.VectorMatching.MatchingLabels
			}
		}
		for _, label := range named {
			if !slices.Contains(labels, label) && !slices.Contains(added, label) {
				out = append(out, "nothing has a label "+label)
			}
		}
		return nil
	})
	return out
}

func TestABadQueryIsFoundOut(t *testing.T) {
	known := metrics(t)
	for query, problem := range map[string]string{
		"max(rrpool_leader":                             "unclosed left parenthesis",
		"max(rrpool_ledaer)":                            "there is no metric rrpool_ledaer",
		`rrpool_mesh{stat="off"}`:                       "rrpool_mesh has no label stat",
		"sum by (steps) (rrpool_step)":                  "nothing has a label steps",
		"rrpool_mesh and ignoring (mode) rrpool_leader": "nothing has a label mode",
		"rate(rrpool_leader)":                           "expected type range vector",
	} {
		require.Contains(t, fmt.Sprint(problems(query, known)), problem, query)
	}
	require.Empty(t, problems(`max without (instance, pod) (rrpool_mesh{state="off"}) == 1 and ignoring (state) rrpool_leader`, known))
}
