package cost

import (
	"fmt"
	"time"

	"github.com/rrpool/rrpool/cloud/cost"
	"github.com/rrpool/rrpool/controllers/plan"
)

// view is the report as it is printed. Its schema version changes when a field changes its meaning or goes away.
type view struct {
	SchemaVersion string `json:"schemaVersion"`
	GeneratedAt   string `json:"generatedAt"`
	// Subject is what the report is about, in words.
	Subject string `json:"subject"`
	// Cluster is the context that was read.
	Cluster       string `json:"cluster"`
	ExistingNodes bool   `json:"existingNodes"`
	Currency      string `json:"currency"`
	// WantedWorkers is the size of the complete pool, 0 when it is unknown.
	WantedWorkers int `json:"wantedWorkers"`
	cost.Report
	Warnings []string `json:"warnings"`
	Notes    []string `json:"notes"`
	Next     string   `json:"next,omitempty"`
}

// newView adds the words to a report. called is how the user calls the command.
func newView(called string, p facts, now time.Time) view {
	v := view{
		SchemaVersion: "rrpool.io/cost/v5", GeneratedAt: now.UTC().Format(time.RFC3339), Subject: p.String(), Cluster: p.cluster,
		ExistingNodes: p.Existing, Currency: p.Prices[0].Currency, WantedWorkers: p.wanted,
		Report: cost.Compute(p.Input), Warnings: []string{},
	}
	v.warn(now)
	if !p.stored {
		v.Notes = append(v.Notes, "The cluster has no RouteReflectorPool.")
	}
	if note := p.note(); note != "" {
		v.Notes = append(v.Notes, note)
	}
	v.Notes = append(v.Notes, "The full mesh costs nothing extra.",
		fmt.Sprintf("A month is %d hours, a year 12 months. Workers only, before tax and discounts. Rounded half up.", cost.HoursPerMonth))
	if !p.Existing && len(v.Sizes) == 0 {
		v.Next = called + " --hourly-price <price of one worker> --context " + v.Cluster
	}
	return v
}

func (v *view) warn(now time.Time) {
	warn := func(format string, args ...any) { v.Warnings = append(v.Warnings, fmt.Sprintf(format, args...)) }
	if len(v.Unpriced) > 0 {
		warn("no price is known of %s: sums with them are \"at least\" or unknown; --price-book can add it", plan.Few(v.Unpriced))
	}
	for _, e := range v.Prices {
		if e.OlderThanAYear(now) {
			warn("the price of %s in %s is of %s, more than a year old: give --hourly-price or --price-book", e.Flavor, e.Region, e.Date)
		}
		if e.Excludes != "" {
			warn("the price of %s in %s leaves out: %s", e.Flavor, e.Region, e.Excludes)
		}
	}
}
