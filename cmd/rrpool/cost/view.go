package cost

import (
	"fmt"
	"time"

	"github.com/rrpool/rrpool/cloud/cost"
	"github.com/rrpool/rrpool/cmd/rrpool/iostreams"
	"github.com/rrpool/rrpool/config/api/v1alpha1"
)

// costSchema names the form of `cost -o json`. It changes when a field changes its
// meaning or goes away.
const costSchema = "rrpool.io/cost/v1"

// view is the report as it is shown: everything rounded and in words.
type view struct {
	SchemaVersion string `json:"schemaVersion"`
	GeneratedAt   string `json:"generatedAt"`
	// Subject says in a sentence what the numbers are about.
	Subject string `json:"subject"`
	// Cluster is the context that was read, empty when none was.
	Cluster       string `json:"cluster,omitempty"`
	Imagined      bool   `json:"imagined"`
	ExistingNodes bool   `json:"existingNodes"`
	Currency      string `json:"currency"`
	HoursPerMonth int    `json:"hoursPerMonth"`
	// WantedWorkers is the size of the pool when it is complete, 0 when unknown.
	WantedWorkers int        `json:"wantedWorkers"`
	Lines         []lineView `json:"lines"`
	Pool          Sum        `json:"pool"`
	// Mesh is what the full mesh costs extra: nothing.
	Mesh Sum `json:"mesh"`
	// ClusterBill is for all workers of the cluster.
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

// Sum is what some workers cost, with decimals as text: hourly to at most 6 places, others to 2, whole to none;
// each rounded half up from the exact value. They are empty when unknown.
type Sum struct {
	Workers      int            `json:"workers"`
	Certainty    cost.Certainty `json:"certainty"`
	Hourly       string         `json:"hourly,omitempty"`
	Monthly      string         `json:"monthly,omitempty"`
	Yearly       string         `json:"yearly,omitempty"`
	WholeMonthly string         `json:"wholeMonthly,omitempty"`
	WholeYearly  string         `json:"wholeYearly,omitempty"`

	exact cost.Decimal
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

// newView puts a report into words. called is how the user calls the command.
func newView(called string, q question, r cost.Report, now time.Time) view {
	v := view{
		SchemaVersion: costSchema, GeneratedAt: now.UTC().Format(time.RFC3339),
		Subject: subject(q), Cluster: q.cluster, Imagined: q.imagined, ExistingNodes: r.Existing,
		Currency: r.Currency, HoursPerMonth: r.HoursPerMonth,
		WantedWorkers: q.wanted, Lines: []lineView{}, Prices: []priceView{},
		Pool:     sumOf(r.Pool, r.HoursPerMonth),
		Mesh:     sumOf(cost.Total{}, r.HoursPerMonth),
		Unpriced: r.Unpriced, Warnings: warnings(q, r), Notes: notes(q, r),
	}
	for _, line := range r.Lines {
		v.Lines = append(v.Lines, lineView{line.Zone, line.Region, line.Flavor, sumOf(line.Total, r.HoursPerMonth)})
	}
	v.ClusterBill, v.Share = billOf(r)
	if r.ModelPrice != nil {
		one := sumOf(cost.Total{Hourly: r.ModelPrice.Hourly, Priced: 1, Partial: r.ModelPrice.Excludes != ""}, r.HoursPerMonth)
		v.OneWorker = &one
	}
	for _, size := range r.Sizes {
		v.Sizes = append(v.Sizes, sumOf(size.Total, r.HoursPerMonth))
	}
	for _, used := range r.Used {
		v.Prices = append(v.Prices, priceOf(used, now))
	}
	if r.Pool.Certainty() == cost.Unknown || r.ModelPrice == nil && !r.Existing {
		v.Next = called + " --hourly-price <price of one worker>"
		if q.cluster != "" {
			v.Next += " --context " + q.cluster
		}
	}
	return v
}

func billOf(r cost.Report) (*Sum, *shareView) {
	if r.Bill == nil {
		return nil, nil
	}
	bill, share := sumOf(*r.Bill, r.HoursPerMonth), shareView{Certainty: r.Share.Certainty}
	if r.Share.Certainty != cost.Unknown {
		share.Percent = r.Share.Percent.Short(2)
	}
	return &bill, &share
}

func sumOf(t cost.Total, hours int) Sum {
	out := Sum{Workers: t.Workers(), Certainty: t.Certainty(), exact: t.Monthly(hours)}
	if out.Certainty == cost.Unknown {
		return out
	}
	out.Hourly, out.Monthly, out.Yearly = t.Hourly.Short(6), t.Monthly(hours).Round(2), t.Yearly(hours).Round(2)
	out.WholeMonthly, out.WholeYearly = t.Monthly(hours).Round(0), t.Yearly(hours).Round(0)
	return out
}

func priceOf(e cost.Entry, now time.Time) priceView {
	return priceView{
		Flavor: e.Flavor, Region: e.Region, Hourly: e.Hourly.Short(6), Currency: e.Currency, Source: e.Source,
		Date: e.Date.Format(cost.DateLayout), Note: e.Note, Excludes: e.Excludes, Old: e.OlderThanAYear(now),
	}
}

// subject says what the numbers are about.
func subject(q question) string {
	var what string
	switch {
	case q.imagined && q.sizedFor > 0:
		what = fmt.Sprintf("a pool of %s, sized for a cluster of %d nodes", iostreams.Number(len(q.pool), "worker"), q.sizedFor)
	case q.imagined:
		what = "a pool of " + iostreams.Number(len(q.pool), "worker")
	case q.existing:
		what = "reflectors on " + iostreams.Number(len(q.pool), "existing node")
	default:
		what = "the pool of " + iostreams.Number(len(q.pool), "worker")
	}
	if q.cluster != "" {
		what += ", cluster " + q.cluster
	}
	return what
}

// tooMany is where a pool is larger than the default sizing would make any.
const tooMany = 25

func notes(q question, r cost.Report) []string {
	var out []string
	if q.cluster != "" && !q.exists {
		out = append(out, "Nobody has asked for route reflectors in this cluster yet: there is no RouteReflectorPool.")
	}
	switch {
	case r.Existing:
		out = append(out, "The reflectors are nodes that the cluster has anyway: they cost nothing extra.")
	case !q.imagined:
		out = append(out, orderedNotes(q)...)
	}
	return append(out, "The full mesh costs nothing extra.", fmt.Sprintf("A month is %d hours, a year 12 months. Workers only, before tax and discounts. "+
		"Sums are exact; what is shown is rounded half up.", r.HoursPerMonth))
}

// orderedNotes tell the pool that is there from the one that is to be.
func orderedNotes(q question) []string {
	missing := q.wanted - len(q.pool)
	switch {
	case !q.exists && len(q.pool) > 0:
		return []string{"The pool is there all the same, and costs until it is deleted."}
	case q.mode == v1alpha1.ModeFullMesh && len(q.pool) > 0:
		return []string{"The cluster is to be on the full mesh, and the pool costs until it is deleted."}
	case !q.exists && missing > 0:
		return []string{"With the defaults the pool would have " + iostreams.Number(q.wanted, "worker") + "."}
	case q.mode != v1alpha1.ModeFullMesh && missing > 0:
		return []string{fmt.Sprintf("The pool is to have %s, and %d of them are not nodes yet: a worker costs from the end of its provisioning.",
			iostreams.Number(q.wanted, "worker"), missing)}
	}
	return nil
}

func warnings(q question, r cost.Report) []string {
	out := []string{}
	if q.imagined && len(q.pool) > tooMany {
		out = append(out, fmt.Sprintf("%d is the number of workers in the pool: for the pool of a cluster of %d nodes say --cluster-nodes %d",
			len(q.pool), len(q.pool), len(q.pool)))
	}
	if len(r.Unpriced) > 0 {
		out = append(out, "the price is unknown of "+iostreams.Few(r.Unpriced)+": nothing is guessed, so sums with them are \"at least\" or unknown; "+
			"--price-book can add it")
	}
	for _, entry := range r.Old {
		out = append(out, fmt.Sprintf("the price of %s in %s is of %s, more than a year old: try --refresh, or give --hourly-price or --price-book",
			entry.Flavor, entry.Region, entry.Date.Format(cost.DateLayout)))
	}
	for _, entry := range r.Used {
		if entry.Excludes != "" {
			out = append(out, fmt.Sprintf("the price of %s in %s leaves out: %s", entry.Flavor, entry.Region, entry.Excludes))
		}
	}
	return out
}
