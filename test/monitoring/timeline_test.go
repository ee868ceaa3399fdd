//go:build linux

package monitoring_test

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// grid is the distance of samples on the timeline that promtool gets.
const grid = 5 * time.Second

// target is what Prometheus adds to each series.
const target = `job="rrpool-manager-metrics",namespace="rrpool-system",instance="127.0.0.1:8443",pod="rrpool-manager-a"`

// phase is a part of the timeline: what was scraped each second, stretched, and then held as it was at the end.
type phase struct {
	name    string
	scrapes []scrape
	// stretch is how long a second takes on the timeline.
	stretch time.Duration
	hold    time.Duration
	// fires are the alerts, by name and severity, that fire at any time of the phase but
	// its first settle, when those of the phase before may linger.
	fires  []string
	settle time.Duration
}

// timeline gives the values of each series on the grid, and when each phase ends.
type timeline struct {
	values map[string][]string
	length int
	ends   []time.Duration
}

func newTimeline(phases []phase) *timeline {
	l := &timeline{values: map[string][]string{}}
	for _, p := range phases {
		step := max(1, int(grid/p.stretch)) // scrapes between two samples that are kept
		for i := 0; i < len(p.scrapes); i += step {
			for n := range max(1, int(p.stretch/grid)) {
				l.add(p.scrapes[i], p.stretch, time.Duration(n)*grid)
			}
		}
		last := p.scrapes[len(p.scrapes)-1]
		for n := range int(p.hold / grid) {
			l.add(last, p.stretch, time.Duration(n+1)*grid)
		}
		l.ends = append(l.ends, time.Duration(l.length-1)*grid)
	}
	return l
}

// add puts a scrape onto the timeline, as if it had been made after that long. Times that
// are served are moved: a last look stays as long ago as it was, because rest or not the
// manager looks again; what a step waits is stretched, and grows.
func (l *timeline) add(s scrape, stretch, after time.Duration) {
	now := time.Duration(l.length) * grid
	for series, value := range s.values {
		switch name, _, _ := strings.Cut(series, ","); name {
		case "rrpool_last_observation_timestamp_seconds":
			value = now.Seconds() - (float64(s.at.UnixMilli())/1000 - value)
		case "rrpool_step_waiting_seconds":
			if value > 0 {
				value = value*stretch.Seconds() + after.Seconds()
			}
		}
		if l.values[series] == nil && l.length > 0 {
			l.values[series] = []string{fmt.Sprintf("_x%d", l.length)}
		}
		l.values[series] = append(l.values[series], fmt.Sprintf("%g", value))
	}
	l.length++
	for series, values := range l.values {
		if _, served := s.values[series]; served {
			continue
		}
		gone := "stale" // as Prometheus marks it, once
		if before := values[len(values)-1]; before == gone || strings.HasPrefix(before, "_") {
			gone = "_"
		}
		l.values[series] = append(values, gone)
	}
}

// test is the timeline as promtool's unit test, with what the phases expect.
func (l *timeline) test(rules string, phases []phase) string {
	var out strings.Builder
	fmt.Fprintf(&out, "rule_files: [%q]\nevaluation_interval: 30s\ntests:\n- interval: %s\n  input_series:\n", rules, grid)
	for _, series := range slices.Sorted(maps.Keys(l.values)) {
		name, labels, _ := strings.Cut(series, ",")
		if labels != "" {
			labels = "," + labels
		}
		fmt.Fprintf(&out, "  - series: '%s{%s%s}'\n    values: '%s'\n", name, target, labels, strings.Join(l.values[series], " "))
	}
	out.WriteString("  promql_expr_test:\n")
	begin := time.Duration(0)
	for i, p := range phases {
		fmt.Fprintf(&out, "  - expr: max by (alertname, severity) (max_over_time(ALERTS{alertstate=\"firing\"}[%s]))\n    eval_time: %s\n",
			l.ends[i]-begin-p.settle, l.ends[i])
		if len(p.fires) == 0 {
			out.WriteString("    exp_samples: []\n")
		} else {
			out.WriteString("    exp_samples:\n")
		}
		for _, alert := range p.fires {
			name, severity, _ := strings.Cut(alert, " ")
			fmt.Fprintf(&out, "    - labels: '{alertname=%q,severity=%q}'\n      value: 1\n", name, severity)
		}
		begin = l.ends[i]
	}
	return out.String()
}

// promtool evaluates the true rules over the phases.
func promtool(t *testing.T, name string, phases []phase) error {
	t.Helper()
	rules, err := filepath.Abs(filepath.Join("..", "..", "config", "monitoring", "rules.yaml"))
	require.NoError(t, err)
	file := filepath.Join(t.TempDir(), name+".yaml")
	require.NoError(t, os.WriteFile(file, []byte(newTimeline(phases).test(rules, phases)), 0o600))
	began := time.Now()
	out, err := exec.CommandContext(t.Context(), os.Getenv(promtoolVariable), "test", "rules", file).CombinedOutput()
	t.Logf("promtool took %s", time.Since(began).Round(time.Second))
	if err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	return nil
}
