package monitoring_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/grafana/grafana-foundation-sdk/go/cog/plugins"
	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
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

type board struct {
	Panels []struct {
		ID          int    `json:"id"`
		Type        string `json:"type"`
		Title       string `json:"title"`
		Description string `json:"description"`
		Datasource  source `json:"datasource"`
		Targets     []struct {
			RefID      string `json:"refId"`
			Expr       string `json:"expr"`
			Datasource source `json:"datasource"`
		} `json:"targets"`
		FieldConfig struct {
			Defaults struct {
				Unit string `json:"unit"`
			} `json:"defaults"`
		} `json:"fieldConfig"`
	} `json:"panels"`
	Templating struct {
		List []struct {
			Name, Type string
			Datasource source
		} `json:"list"`
	} `json:"templating"`
}

type source struct{ Type, UID string }

// faults of a dashboard, none of which keeps Grafana from loading it.
func faults(text string, known map[string][]string) []string {
	var b board
	if err := json.Unmarshal([]byte(text), &b); err != nil {
		return []string{err.Error()}
	}
	var out []string
	say := func(format string, args ...any) { out = append(out, fmt.Sprintf(format, args...)) }
	chosen := source{"prometheus", "${datasource}"}
	for _, v := range b.Templating.List {
		if v.Type == "query" && v.Datasource != chosen {
			say("variable %s: its data source is not the one that the user has chosen", v.Name)
		}
	}
	ids := map[int]bool{}
	for _, p := range b.Panels {
		if ids[p.ID] {
			say("%s: id %d is taken", p.Title, p.ID)
		}
		ids[p.ID] = true
		if p.Type == "row" {
			continue
		}
		if p.Description == "" || p.FieldConfig.Defaults.Unit == "" || len(p.Targets) == 0 {
			say("%s: has no description, no unit or no query", p.Title)
		}
		if p.Datasource != chosen {
			say("%s: its data source is not the one that the user has chosen", p.Title)
		}
		for _, target := range p.Targets {
			if target.Datasource != chosen {
				say("%s: the data source of query %s is not the one that the user has chosen", p.Title, target.RefID)
			}
			query := strings.NewReplacer("$__rate_interval", "5m", "$job", "rrpool").Replace(target.Expr)
			for _, problem := range problems(query, known) {
				say("%s: query %s: %s", p.Title, target.RefID, problem)
			}
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// Grafana's own model of dashboards, from which its SDK is made, takes every field, the options of
// each panel with them. Grafana itself is not run.
func TestGrafanasModelTakesTheDashboard(t *testing.T) {
	plugins.RegisterDefaultPlugins()
	text := content(t, manifest+"dashboard.json")
	var model dashboard.Dashboard
	require.NoError(t, model.UnmarshalJSONStrict([]byte(text)))
	require.NoError(t, model.Validate())
	require.EqualValues(t, 39, model.SchemaVersion)
	require.Equal(t, "rrpool", *model.Uid)
	require.Empty(t, faults(text, metrics(t)))
	for what, tc := range map[string][2]string{
		"a field that there is not":  {`"gridPos"`, `"gridPosition"`},
		"an option of another panel": {`"graphMode"`, `"graphMood"`},
		"a number that is a word":    {`"schemaVersion": 39`, `"schemaVersion": "39"`},
		"a variable without a name":  {`"name": "job",`, ``},
	} {
		var spoiled dashboard.Dashboard
		err := spoiled.UnmarshalJSONStrict([]byte(strings.Replace(text, tc[0], tc[1], 1)))
		if err == nil {
			err = spoiled.Validate()
		}
		require.Error(t, err, what)
	}
}

func TestABadDashboardIsFoundOut(t *testing.T) {
	text, known := content(t, manifest+"dashboard.json"), metrics(t)
	for spoilt, problem := range map[[2]string]string{
		{`"id": 3,`, `"id": 2,`}:                           "id 2 is taken",
		{`"unit": "s"`, `"unit": ""`}:                      "no unit",
		{`"uid": "${datasource}"`, `"uid": "P1809F7CD0C"`}: "not the one that the user has chosen",
		{"rrpool_safety_net_due", "rrpool_safety_due"}:     "there is no metric rrpool_safety_due",
		{"max by (state)", "max by (mesh)"}:                "nothing has a label mesh",
	} {
		require.Contains(t, strings.Join(faults(strings.Replace(text, spoilt[0], spoilt[1], 1), known), "\n"), problem)
	}
}
