package status

import (
	"cmp"
	"strings"
	"time"

	"github.com/rrpool/rrpool/cloud/cost"
	bill "github.com/rrpool/rrpool/cmd/rrpool/cost"
)

// hoursPerMonth is the month of `rrpool cost`.
const hoursPerMonth = 720

// priceView is what the pool costs per month.
type priceView struct {
	// Certainty as in `rrpool cost`; unknown has no amount.
	Certainty cost.Certainty `json:"certainty"`
	Currency  string         `json:"currency,omitempty"`
	// Monthly is a decimal, for a month of 720 hours.
	Monthly string `json:"monthly,omitempty"`
	// Source says where the price is from, or why there is none.
	Source string `json:"source"`
}

// priceOf is what the manager reports, else what the built-in book says of the pool's
// nodes. Nothing is guessed.
func priceOf(f Facts) priceView {
	reported := f.Object.Status.Cost
	workers, existing := bill.PoolOf(f.Object, f.Nodes)
	switch {
	case reported != nil && reported.Monthly == "":
		return priceView{Certainty: cost.Unknown, Source: cmp.Or(reported.Source, "the manager does not know it")}
	case reported != nil:
		return priceView{cost.Exact, reported.Currency, reported.Monthly, cmp.Or(reported.Source, "the manager")}
	case existing:
		return priceView{Certainty: cost.Exact, Monthly: "0.00", Source: "the reflectors are nodes that the cluster has anyway"}
	case len(workers) == 0:
		return priceView{Certainty: cost.Exact, Monthly: "0.00", Source: "no worker of the pool is a node"}
	}
	book, err := cost.Builtin()
	if err != nil {
		return priceView{Certainty: cost.Unknown, Source: err.Error()}
	}
	const currency = "USD"
	report := cost.Compute(cost.Input{
		Pool: workers, Prices: cost.Shelf{book}, Currency: currency, HoursPerMonth: hoursPerMonth, Now: f.Now,
	})
	out := priceView{Certainty: report.Pool.Certainty(), Source: "the built-in prices; rrpool cost has the details"}
	if len(report.Unpriced) > 0 {
		out.Source = "no price is known of " + strings.Join(report.Unpriced, ", ") + "; rrpool cost says how to give one"
	}
	if out.Certainty != cost.Unknown {
		out.Currency, out.Monthly = currency, report.Pool.Monthly(hoursPerMonth).Round(2)
	}
	if stale := report.Old; len(stale) > 0 {
		out.Source += "; of " + stale[0].Date.Format(time.DateOnly)
	}
	return out
}
