package modelcheck

import (
	"fmt"
	"strings"
	"text/tabwriter"
	"time"
)

// Report sums up explorations.
type Report struct {
	Results []Result
	began   time.Time
}

// NewReport begins a report.
func NewReport() *Report { return &Report{began: time.Now()} }

// Add adds what an exploration has found.
func (r *Report) Add(x Result) { r.Results = append(r.Results, x) }

// Empty reports whether nothing was explored.
func (r *Report) Empty() bool { return len(r.Results) == 0 }

// States is how many distinct states there were.
func (r *Report) States() int {
	n := 0
	for _, x := range r.Results {
		n += x.States
	}
	return n
}

// String is the report as a table.
func (r *Report) String() string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "states\ttransitions\tdepth\tfair runs\tseconds\tall\tviolation\t  configuration")
	moves, runs, bad := 0, 0, 0
	for _, x := range r.Results {
		all, broken := "no", "none"
		if x.Complete {
			all = "yes"
		}
		if x.Violation != "" {
			broken = x.Violation
			bad++
		}
		moves, runs = moves+x.Moves, runs+x.Runs
		fmt.Fprintf(w, "%d\t%d\t%d\t%d\t%.1f\t%s\t%s\t  %s\n", x.States, x.Moves, x.Depth, x.Runs, x.Took.Seconds(), all, broken, x.Scenario)
	}
	_ = w.Flush() // a strings.Builder does not fail
	took := time.Since(r.began).Seconds()
	fmt.Fprintf(&b, "%d configurations, %d distinct states, %d transitions, %d fair runs, %d violations, %.0f s, %.0f states/s\n",
		len(r.Results), r.States(), moves, runs, bad, took, float64(r.States())/max(took, 0.001))
	return b.String()
}
