package cost

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/controllers/plan"
)

const (
	// HoursPerMonth is the length of a month.
	HoursPerMonth = 720
	// Currency is that of the built-in book.
	Currency = "USD"
)

// Status is what a pool of these workers costs by the built-in book: status.cost, as the
// manager reports it and the command line says it where none has; nil without workers.
// It depends on the workers and nothing else, their order and the time neither. Amounts
// are there when they are exact; if not, Source says what is known and what is lacking.
func Status(pool []Worker) *v1alpha1.CostStatus { return statusBy(Builtin(), pool) }

func statusBy(book Book, pool []Worker) *v1alpha1.CostStatus {
	if len(pool) == 0 {
		return nil
	}
	r := Compute(Input{Pool: pool, Prices: book})
	var dates, says []string
	for _, price := range r.Prices {
		dates = append(dates, price.Date)
		if price.Excludes != "" {
			says = append(says, fmt.Sprintf("the price of %s in %s leaves out %s", price.Flavor, price.Region, price.Excludes))
		}
	}
	slices.Sort(dates)
	out, by := &v1alpha1.CostStatus{}, "the built-in prices of "+strings.Join(slices.Compact(dates), ", ")
	switch r.Pool.Certainty {
	case Exact:
		out.Currency, out.Hourly, out.Monthly = Currency, r.Pool.Hourly, r.Pool.Monthly
		says = append(says, by)
	case AtLeast:
		says = append([]string{fmt.Sprintf("at least %s %s/month by %s", r.Pool.Monthly, Currency, by)}, says...)
	case Unknown:
	}
	last := "rrpool cost has the details"
	if len(r.Unpriced) > 0 {
		says, last = append(says, "no price is known of "+plan.Few(r.Unpriced)), "rrpool cost says how to give one"
	}
	out.Source = strings.Join(append(says, last), "; ")
	return out
}

// WorkerOf is the worker behind a node with these labels. IBM's own come first: the others
// can be changed by anyone who may change nodes.
func WorkerOf(labels map[string]string, zoneLabel string) Worker {
	flavor := cmp.Or(labels["ibm-cloud.kubernetes.io/machine-type"], labels[corev1.LabelInstanceTypeStable])
	return Worker{
		Zone:   cmp.Or(labels[zoneLabel], labels[corev1.LabelTopologyZone]),
		Region: cmp.Or(labels["ibm-cloud.kubernetes.io/region"], labels[corev1.LabelTopologyRegion]),
		Flavor: strings.TrimSuffix(flavor, ".encrypted"), // what IKS adds for encrypted disks, at the same price
	}
}
