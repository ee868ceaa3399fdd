package cost

import (
	"cmp"
	"fmt"
	"maps"
	"math/big"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/controllers/plan"
)

// Machine is one machine that is paid for.
type Machine struct {
	Zone   string `json:"zone"`
	Region string `json:"region"`
	Flavor string `json:"flavor"`
	// OpenShift says that the licence is billed too, unless the cluster has an entitlement.
	OpenShift bool `json:"openShift,omitempty"`
}

// Input is all that a report depends on.
type Input struct {
	// Pool are the workers that reflect routes. Existing says that they are existing nodes of the cluster, which cost nothing extra.
	Pool     []Machine
	Existing bool
	// Rest are the other workers of the cluster, nil if they are not known.
	Rest []Machine
	// Prices are looked up for all workers. If PoolPrice is set, it replaces the price of the pool's workers.
	Prices    Book
	PoolPrice *Entry
	// Sizes are sizes of the pool to compare, at the price of Model.
	Sizes []int
	Model Machine
}

// Report is what the pool costs, as `rrpool cost` shows it.
type Report struct {
	// Lines are sorted by zone, region and flavor.
	Lines []Line `json:"lines"`
	Pool  Sum    `json:"pool"`
	// ClusterBill is the cost of all workers of the cluster, nil if they are not known.
	ClusterBill *Sum `json:"clusterBill,omitempty"`
	// Share is the pool's part of the bill in percent, "" unless both sums are exact.
	Share string `json:"share,omitempty"`
	// Sizes are the costs of Input.Sizes, absent if the price of Model is unknown.
	Sizes []Sum `json:"sizes,omitempty"`
	// Unpriced are the cluster's flavors without a price, as "flavor in region".
	Unpriced []string `json:"unpriced,omitempty"`
	// Prices are the prices used in the report, sorted by flavor and region.
	Prices []Entry `json:"prices"`
}

// Line is the cost of the workers of one zone, region and flavor.
type Line struct {
	Machine
	Sum
}

// Sum is what some workers cost. Amounts are decimals, hourly with at most 6 places,
// others with 2, rounded half up from the exact value. Unknown amounts are "".
type Sum struct {
	Workers   int       `json:"workers"`
	Certainty Certainty `json:"certainty"`
	Hourly    string    `json:"hourly,omitempty"`
	Monthly   string    `json:"monthly,omitempty"`
	// Yearly is for twelve months.
	Yearly string `json:"yearly,omitempty"`
}

// Certainty says how a sum is to be read.
type Certainty string

// The certainties.
const (
	// Exact: every price is known.
	Exact Certainty = "exact"
	// AtLeast: some price is unknown, or leaves something out, so the true cost is higher.
	AtLeast Certainty = "at least"
	// Unknown: there is no number.
	Unknown Certainty = "unknown"
)

// Compute returns the report.
func Compute(in Input) Report {
	out := Report{Lines: []Line{}, Prices: []Entry{}}
	poolPrice := func(w Machine) *Entry { return cmp.Or(in.PoolPrice, in.Prices.Find(w.Flavor, w.Region)) }
	pool := total{hourly: new(big.Rat)}
	workers, counts := counted(in.Pool)
	for _, worker := range workers {
		count := counts[worker]
		costs := total{hourly: new(big.Rat), priced: count}
		if !in.Existing {
			costs = out.total(worker, count, poolPrice(worker))
		}
		out.Lines = append(out.Lines, Line{worker, costs.sum()})
		pool = pool.plus(costs)
	}
	out.Pool = pool.sum()
	if in.Rest != nil {
		out.bill(in, pool)
	}
	if price := poolPrice(in.Model); price != nil && !in.Existing {
		for _, workers := range in.Sizes {
			out.Sizes = append(out.Sizes, out.total(in.Model, workers, price).sum())
		}
	}
	slices.Sort(out.Unpriced)
	out.Unpriced = slices.Compact(out.Unpriced)
	slices.SortFunc(out.Prices, func(a, b Entry) int { return cmp.Or(cmp.Compare(a.Flavor, b.Flavor), cmp.Compare(a.Region, b.Region)) })
	return out
}

// bill adds what all workers of the cluster cost, and the pool's share of that cost.
func (r *Report) bill(in Input, pool total) {
	bill, rest := pool, in.Rest
	if in.Existing {
		rest = slices.Concat(in.Rest, in.Pool) // existing nodes are part of the bill, at their own price
		bill = total{hourly: new(big.Rat)}
	}
	workers, counts := counted(rest)
	for _, worker := range workers {
		bill = bill.plus(r.total(worker, counts[worker], in.Prices.Find(worker.Flavor, worker.Region)))
	}
	sum := bill.sum()
	r.ClusterBill = &sum
	if r.Pool.Certainty == Exact && sum.Certainty == Exact && bill.hourly.Sign() != 0 {
		r.Share = Short(new(big.Rat).Quo(times(pool.hourly, 100), bill.hourly), 2)
	}
}

// total returns the cost of count workers at a price, nil for an unknown price, and adds the price to the report.
func (r *Report) total(worker Machine, count int, price *Entry) total {
	if price == nil {
		r.Unpriced = append(r.Unpriced, worker.String())
		return total{hourly: new(big.Rat), unpriced: count}
	}
	if worker.OpenShift && price.kubernetes {
		openShift := *price
		openShift.Excludes = strings.Join(slices.DeleteFunc([]string{price.Excludes, "the OpenShift licence"}, func(s string) bool { return s == "" }), ", ")
		price = &openShift
	}
	if !slices.Contains(r.Prices, *price) {
		r.Prices = append(r.Prices, *price)
	}
	return total{hourly: times(price.Hourly(), count), priced: count, partial: price.Excludes != ""}
}

// String names the flavor, and the region if it is known.
func (w Machine) String() string {
	what := cmp.Or(w.Flavor, "nodes without a label node.kubernetes.io/instance-type")
	switch {
	case w.Region != "":
		return what + " in " + w.Region
	case w.Flavor != "":
		return what + " in an unknown region"
	}
	return what
}

// counted returns the different workers, sorted, and how many there are of each.
func counted(workers []Machine) (sorted []Machine, count map[Machine]int) {
	count = map[Machine]int{}
	for _, w := range workers {
		count[w]++
	}
	return slices.SortedFunc(maps.Keys(count), func(a, b Machine) int {
		return cmp.Or(cmp.Compare(a.Zone, b.Zone), cmp.Compare(a.Region, b.Region), cmp.Compare(a.Flavor, b.Flavor), plan.TrueFirst(b.OpenShift, a.OpenShift))
	}), count
}

// total adds up the prices that are known, and counts the workers with and without a price. It is partial if some price leaves something out.
type total struct {
	hourly           *big.Rat
	priced, unpriced int
	partial          bool
}

func (t total) plus(o total) total {
	return total{new(big.Rat).Add(t.hourly, o.hourly), t.priced + o.priced, t.unpriced + o.unpriced, t.partial || o.partial}
}

// sum returns the total for an hour, a month and a year.
func (t total) sum() Sum {
	out := Sum{Workers: t.priced + t.unpriced, Certainty: AtLeast}
	switch {
	case t.unpriced == 0 && !t.partial:
		out.Certainty = Exact // also of no workers: they cost nothing
	case t.priced == 0:
		out.Certainty = Unknown
		return out
	}
	month := times(t.hourly, HoursPerMonth)
	out.Hourly, out.Monthly, out.Yearly = Short(t.hourly, 6), month.FloatString(2), times(month, 12).FloatString(2)
	return out
}

const (
	// HoursPerMonth is the length of a month: 30 days.
	HoursPerMonth = 720
	// Currency is the currency of the built-in book.
	Currency = "USD"
)

// Status returns the cost of a pool by b, the built-in book, for status.cost; nil without workers. The result depends neither on the
// order of the workers nor on the time. Amounts are set if they are exact; if not, Source says what is known and what is lacking.
func (b Book) Status(pool []Machine) *v1alpha1.CostStatus {
	if len(pool) == 0 {
		return nil
	}
	r := Compute(Input{Pool: pool, Prices: b})
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

// MachineOf reads the machine from a node's labels. IBM's own labels come first: anyone who may change nodes can change the others.
func MachineOf(labels map[string]string, zoneLabel string) Machine {
	flavor := cmp.Or(labels["ibm-cloud.kubernetes.io/machine-type"], labels[corev1.LabelInstanceTypeStable])
	return Machine{
		Zone:      cmp.Or(labels[zoneLabel], labels[corev1.LabelTopologyZone]),
		Region:    cmp.Or(labels["ibm-cloud.kubernetes.io/region"], labels[corev1.LabelTopologyRegion]),
		Flavor:    strings.TrimSuffix(flavor, ".encrypted"), // what IKS adds for encrypted disks, at the same price
		OpenShift: labels["node.openshift.io/os_id"] != "" || openShiftSystem.MatchString(labels["ibm-cloud.kubernetes.io/os"]),
	}
}

// openShiftSystem matches operating systems that only OpenShift's workers have: REDHAT_8_64, RHEL_9_64, RHCOS.
var openShiftSystem = regexp.MustCompile(`(?i)^(redhat|rhel|rhcos)`)
