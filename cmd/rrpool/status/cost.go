package status

import (
	"cmp"

	"github.com/rrpool/rrpool/cloud/cost"
	bill "github.com/rrpool/rrpool/cmd/rrpool/cost"
)

// priceView is what the pool costs per month.
type priceView struct {
	// Certainty is exact, or unknown, which has no amount.
	Certainty cost.Certainty `json:"certainty"`
	Currency  string         `json:"currency,omitempty"`
	// Monthly is a decimal, for a month of 720 hours.
	Monthly string `json:"monthly,omitempty"`
	// Source says where the price is from, or why there is none.
	Source string `json:"source"`
}

// priceOf is what the manager reports, else what it would report of the pool's nodes.
func priceOf(f Facts) priceView {
	reported := f.Object.Status.Cost
	workers, existing := bill.PoolOf(f.Object, f.Nodes)
	if reported == nil && !existing {
		reported = cost.Status(workers)
	}
	switch {
	case reported == nil && existing:
		return priceView{Certainty: cost.Exact, Monthly: "0.00", Source: "the reflectors are nodes that the cluster has anyway"}
	case reported == nil:
		return priceView{Certainty: cost.Exact, Monthly: "0.00", Source: "no worker of the pool is a node"}
	case reported.Monthly == "":
		return priceView{Certainty: cost.Unknown, Source: cmp.Or(reported.Source, "the manager does not know it")}
	}
	return priceView{cost.Exact, reported.Currency, reported.Monthly, cmp.Or(reported.Source, "the manager")}
}
