package cost

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"

	"github.com/rrpool/rrpool/config/api/v1alpha1"
)

const (
	// HoursPerMonth is the length of a month unless another is asked for.
	HoursPerMonth = 720
	// Currency is that of the built-in book.
	Currency = "USD"
)

// once spares the manager reading the same book at every turn.
var once = sync.OnceValues(Builtin)

// Status is what a pool of these workers costs by the built-in book: status.cost, as the
// manager reports it and the command line says it where none has; nil without workers.
// It depends on the workers and nothing else, their order and the time neither. Amounts
// are there when they are exact; if not, Source says what is known and what is lacking.
func Status(pool []Worker) *v1alpha1.CostStatus {
	book, err := once()
	if err != nil && len(pool) > 0 {
		return &v1alpha1.CostStatus{Source: err.Error()}
	}
	return statusBy(book, pool)
}

func statusBy(book Book, pool []Worker) *v1alpha1.CostStatus {
	if len(pool) == 0 {
		return nil
	}
	r := Compute(Input{Pool: pool, Prices: Shelf{book}, Currency: Currency, HoursPerMonth: HoursPerMonth})
	out := &v1alpha1.CostStatus{Source: r.source()}
	if r.Pool.Certainty() == Exact {
		out.Currency, out.Hourly, out.Monthly = r.Currency, r.Pool.Hourly.Short(6), r.Pool.Monthly(r.HoursPerMonth).Round(2)
	}
	return out
}

// source says in a sentence where the pool's price is from, and what it lacks.
func (r Report) source() string {
	var dates, parts, says []string
	for _, price := range r.Used {
		dates = append(dates, price.Date.Format(DateLayout))
		if price.Excludes != "" {
			parts = append(parts, fmt.Sprintf("%s in %s leaves out %s", price.Flavor, price.Region, price.Excludes))
		}
	}
	slices.Sort(dates)
	prices := "the built-in prices of " + few(slices.Compact(dates))
	switch r.Pool.Certainty() {
	case Exact:
		says = append(says, prices)
	case AtLeast:
		says = append(says, fmt.Sprintf("at least %s %s/month by %s", r.Pool.Monthly(r.HoursPerMonth).Round(2), r.Currency, prices))
	case AtMost, Unknown:
	}
	if len(parts) > 0 {
		says = append(says, "that of "+few(parts))
	}
	if len(r.Unpriced) > 0 {
		return strings.Join(append(says, "no price is known of "+few(r.Unpriced), "rrpool cost says how to give one"), "; ")
	}
	return strings.Join(append(says, "rrpool cost has the details"), "; ")
}

// few names the first three of a list and counts the rest.
func few(items []string) string {
	const named = 3
	if len(items) <= named {
		return strings.Join(items, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(items[:named], ", "), len(items)-named)
}

// Labels that say what a node is paid for. IBM's own come first: the others can be
// changed by anyone who may change nodes.
var (
	flavorLabels = []string{"ibm-cloud.kubernetes.io/machine-type", corev1.LabelInstanceTypeStable}
	regionLabels = []string{"ibm-cloud.kubernetes.io/region", corev1.LabelTopologyRegion}
)

// encrypted is what IKS adds to a flavor whose disks are encrypted, at the same price.
const encrypted = ".encrypted"

// InPool says whether a node with these labels is paid for as one of the worker pool of
// that name.
func InPool(labels map[string]string, name string) bool {
	return name != "" && labels[v1alpha1.PoolLabel] == name
}

// WorkerOf is the worker behind a node with these labels.
func WorkerOf(labels map[string]string, zoneLabel string) Worker {
	return Worker{
		Zone:   cmp.Or(labels[zoneLabel], labels[corev1.LabelTopologyZone]),
		Region: RegionOf(labels),
		Flavor: strings.TrimSuffix(first(labels, flavorLabels), encrypted),
	}
}

// RegionOf is the region that a node's labels name, "" for none.
func RegionOf(labels map[string]string) string { return first(labels, regionLabels) }

func first(labels map[string]string, keys []string) string {
	for _, key := range keys {
		if value := labels[key]; value != "" {
			return value
		}
	}
	return ""
}
