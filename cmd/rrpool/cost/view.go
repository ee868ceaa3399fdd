package cost

import (
	"fmt"
	"time"

	"github.com/rrpool/rrpool/cloud/cost"
	"github.com/rrpool/rrpool/cmd/rrpool/iostreams"
	"github.com/rrpool/rrpool/config/api/v1alpha1"
)

// schema is the version of the JSON and YAML output. It changes when a field changes its
// meaning or is removed.
const schema = "rrpool.io/cost/v2"

// view is the report as it is printed.
type view struct {
	SchemaVersion string `json:"schemaVersion"`
	GeneratedAt   string `json:"generatedAt"`
	// Subject is what the report is about, in words.
	Subject string `json:"subject"`
	// Cluster is the context that was read, empty when none was.
	Cluster string `json:"cluster,omitempty"`
	// Described: flags describe the pool.
	Described     bool   `json:"described"`
	ExistingNodes bool   `json:"existingNodes"`
	Currency      string `json:"currency"`
	HoursPerMonth int    `json:"hoursPerMonth"`
	// WantedWorkers is the size of the complete pool, 0 when it is unknown.
	WantedWorkers int        `json:"wantedWorkers"`
	Lines         []lineView `json:"lines"`
	Pool          Sum        `json:"pool"`
	// Mesh is what the full mesh costs extra: nothing.
	Mesh Sum `json:"mesh"`
	// ClusterBill is for all workers of the cluster, and Share the pool's part of it.
	ClusterBill *Sum       `json:"clusterBill,omitempty"`
	Share       *shareView `json:"share,omitempty"`
	// OneWorker more, and pools of other sizes; absent when the price is unknown.
	OneWorker *Sum        `json:"oneWorker,omitempty"`
	Sizes     []Sum       `json:"sizes,omitempty"`
	Unpriced  []string    `json:"unpriced,omitempty"`
	Prices    []priceView `json:"prices"`
	Warnings  []string    `json:"warnings"`
	Notes     []string    `json:"notes"`
	Next      string      `json:"next,omitempty"`
}

// Sum is what some workers cost, in decimals: hourly with at most 6 places, others with 2,
// rounded half up from the exact value. They are empty when unknown.
type Sum struct {
	Workers   int            `json:"workers"`
	Certainty cost.Certainty `json:"certainty"`
	Hourly    string         `json:"hourly,omitempty"`
	Monthly   string         `json:"monthly,omitempty"`
	Yearly    string         `json:"yearly,omitempty"`
}

type lineView struct {
	Zone   string `json:"zone"`
	Region string `json:"region"`
	Flavor string `json:"flavor"`
	Sum
}

type shareView struct {
	Certainty cost.Certainty `json:"certainty"`
	Percent   string         `json:"percent,omitempty"`
}

type priceView struct {
	Flavor   string `json:"flavor"`
	Region   string `json:"region"`
	Hourly   string `json:"hourly"`
	Currency string `json:"currency"`
	Source   string `json:"source"`
	Date     string `json:"date"`
	Note     string `json:"note,omitempty"`
	Excludes string `json:"excludes,omitempty"`
	Old      bool   `json:"olderThanAYear"`
}

// newView rounds a report and adds the words. called is how the user calls the command.
func newView(called string, p facts, r cost.Report, now time.Time) view {
	sum := func(t cost.Total) Sum {
		out := Sum{Workers: t.Workers(), Certainty: t.Certainty()}
		if out.Certainty != cost.Unknown {
			out.Hourly, out.Monthly, out.Yearly = t.Hourly.Short(6), t.Monthly(r.HoursPerMonth).Round(2), t.Yearly(r.HoursPerMonth).Round(2)
		}
		return out
	}
	v := view{
		SchemaVersion: schema, GeneratedAt: now.UTC().Format(time.RFC3339), Subject: subject(p), Cluster: p.cluster,
		Described: p.described, ExistingNodes: r.Existing, Currency: r.Currency, HoursPerMonth: r.HoursPerMonth, WantedWorkers: p.wanted,
		Lines: []lineView{}, Pool: sum(r.Pool), Mesh: sum(cost.Total{}), Unpriced: r.Unpriced, Prices: []priceView{}, Notes: notes(p, r),
	}
	for _, line := range r.Lines {
		v.Lines = append(v.Lines, lineView{line.Zone, line.Region, line.Flavor, sum(line.Total)})
	}
	if r.Bill != nil {
		bill := sum(*r.Bill)
		v.ClusterBill, v.Share = &bill, &shareView{Certainty: r.Share.Certainty}
		if r.Share.Certainty != cost.Unknown {
			v.Share.Percent = r.Share.Percent.Short(2)
		}
	}
	if r.ModelPrice != nil {
		one := sum(cost.Total{Hourly: r.ModelPrice.Hourly, Priced: 1, Partial: r.ModelPrice.Excludes != ""})
		v.OneWorker = &one
	}
	for _, size := range r.Sizes {
		v.Sizes = append(v.Sizes, sum(size.Total))
	}
	for _, e := range r.Used {
		v.Prices = append(v.Prices, priceView{
			e.Flavor, e.Region, e.Hourly.Short(6), e.Currency, e.Source, e.Date.Format(cost.DateLayout), e.Note, e.Excludes, e.OlderThanAYear(now),
		})
	}
	v.Warnings = warnings(p, r)
	v.Next = next(called, p, r)
	return v
}

// next is the command for prices that are not known.
func next(called string, p facts, r cost.Report) string {
	if r.Pool.Certainty() != cost.Unknown && (r.ModelPrice != nil || r.Existing) {
		return ""
	}
	command := called + " --hourly-price <price of one worker>"
	if p.cluster != "" {
		command += " --context " + p.cluster
	}
	return command
}

func subject(p facts) string {
	what := "pool of " + iostreams.Number(len(p.pool), "worker")
	switch {
	case p.nodes > 0:
		what = fmt.Sprintf("a %s, for %s that run workloads", what, iostreams.Number(p.nodes, "node"))
	case p.described:
		what = "a " + what
	case !p.existing:
		what = "the " + what
	default:
		what = "route reflectors on " + iostreams.Number(len(p.pool), "existing node")
	}
	if p.cluster != "" {
		what += ", cluster " + p.cluster
	}
	return what
}

func notes(p facts, r cost.Report) []string {
	var out []string
	if p.cluster != "" && !p.stored {
		out = append(out, "The cluster has no RouteReflectorPool.")
	}
	if note := poolNote(p); note != "" {
		out = append(out, note)
	}
	return append(out, "The full mesh costs nothing extra.",
		fmt.Sprintf("A month is %d hours, a year 12 months. Workers only, before tax and discounts. Rounded half up.", r.HoursPerMonth))
}

// poolNote says what of the pool costs, or does not yet.
func poolNote(p facts) string {
	missing := p.wanted - len(p.pool)
	switch {
	case p.existing:
		return "Existing nodes cost nothing extra."
	case p.described:
	case !p.stored && len(p.pool) > 0:
		return "The pool still exists, and costs until it is deleted."
	case p.mode == v1alpha1.ModeFullMesh && len(p.pool) > 0:
		return "spec.mode is FullMesh, and the pool costs until it is deleted."
	case !p.stored && missing > 0:
		return "With the defaults the pool would have " + iostreams.Number(p.wanted, "worker") + "."
	case p.mode != v1alpha1.ModeFullMesh && missing > 0:
		return fmt.Sprintf("The pool gets %s, and %d of them are not nodes yet: a worker costs from the end of its provisioning.",
			iostreams.Number(p.wanted, "worker"), missing)
	}
	return ""
}

// largePool is the default of spec.sizing.max.
const largePool = 25

func warnings(p facts, r cost.Report) []string {
	out := []string{}
	if n := len(p.pool); p.described && n > largePool {
		out = append(out, fmt.Sprintf("%d is the size of the pool: for a cluster with %d nodes use --nodes %d", n, n, n))
	}
	if len(r.Unpriced) > 0 {
		out = append(out, "no price is known of "+iostreams.Few(r.Unpriced)+": sums with them are \"at least\" or unknown; --price-book can add it")
	}
	for _, e := range r.Old {
		out = append(out, fmt.Sprintf("the price of %s in %s is of %s, more than a year old: try --refresh, or give --hourly-price or --price-book",
			e.Flavor, e.Region, e.Date.Format(cost.DateLayout)))
	}
	for _, e := range r.Used {
		if e.Excludes != "" {
			out = append(out, fmt.Sprintf("the price of %s in %s leaves out: %s", e.Flavor, e.Region, e.Excludes))
		}
	}
	return out
}
