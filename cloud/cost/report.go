package cost

import (
	"cmp"
	"slices"
	"time"
)

// MonthsPerYear says that a year is twelve of the months that are asked for.
const MonthsPerYear = 12

// Worker is one machine that is paid for.
type Worker struct{ Zone, Region, Flavor string }

// Input is all that a report depends on.
type Input struct {
	// Pool are the workers that reflect routes.
	Pool []Worker
	// Existing says that they are nodes which the cluster has anyway.
	Existing bool
	// Rest are the other workers of the cluster; nil when they are not known.
	Rest []Worker
	// Prices are looked up for all workers, and PoolPrice, if there, comes first for
	// those of the pool.
	Prices    Shelf
	PoolPrice *Entry
	Currency  string
	// HoursPerMonth is the length of a month.
	HoursPerMonth int
	// Sizes of the pool to compare, at the price of Model.
	Sizes []int
	Model Worker
	Now   time.Time
}

// Line is the cost of the workers of one zone, region and flavor.
type Line struct {
	Worker
	Workers int
	// Price of one worker, nil when it is unknown, or when the nodes are there anyway.
	Price *Entry
	Total Total
}

// Report is what the pool costs. Its lines are sorted by zone, region and flavor.
type Report struct {
	Currency      string
	HoursPerMonth int
	Existing      bool
	Lines         []Line
	Pool          Total
	// Bill is what all workers of the cluster cost, nil when they are not known.
	Bill *Total
	// Unpriced are the cluster's flavors without a price, as "flavor in region".
	Unpriced []string
	Share    Share
	// Sizes are empty when the model's price is unknown.
	Sizes []Size
	// ModelPrice is the price of Sizes.
	ModelPrice *Entry
	// Used are the prices that went into the report, and Old those of them that
	// are older than a year.
	Used, Old []Entry
}

// Size is what a pool of that many workers would cost.
type Size struct {
	Workers int
	Total   Total
}

// Compute makes the report.
func Compute(in Input) Report {
	out := Report{Currency: in.Currency, HoursPerMonth: in.HoursPerMonth, Existing: in.Existing}
	out.Lines = in.lines()
	for _, line := range out.Lines {
		out.Pool = out.Pool.plus(line.Total)
		out.note(line)
	}
	if in.Rest != nil {
		out.bill(in)
	}
	if price := in.price(in.Model, true); price != nil && !in.Existing {
		out.ModelPrice = price
		out.Used = append(out.Used, *price)
		for _, workers := range in.Sizes {
			out.Sizes = append(out.Sizes, Size{Workers: workers, Total: total(price, workers)})
		}
	}
	slices.Sort(out.Unpriced)
	out.Unpriced = slices.Compact(out.Unpriced)
	out.Used = distinct(out.Used)
	for _, entry := range out.Used {
		if entry.OlderThanAYear(in.Now) {
			out.Old = append(out.Old, entry)
		}
	}
	return out
}

// bill adds the rest of the cluster. Existing nodes are part of the bill, but what
// they cost is not what the pool costs.
func (r *Report) bill(in Input) {
	rest := in.Rest
	pool := r.Pool
	if in.Existing {
		rest, pool = slices.Concat(in.Rest, in.Pool), Total{}
	}
	var other Total
	for _, group := range groups(rest) {
		line := Line{Worker: group.Worker, Workers: group.workers, Price: in.price(group.Worker, false)}
		line.Total = total(line.Price, line.Workers)
		other = other.plus(line.Total)
		r.note(line)
	}
	sum := pool.plus(other)
	r.Bill, r.Share = &sum, shareOf(pool, other)
}

func (r *Report) note(line Line) {
	switch {
	case line.Price != nil:
		r.Used = append(r.Used, *line.Price)
	case line.Total.Unpriced > 0:
		r.Unpriced = append(r.Unpriced, line.describe())
	}
}

func (w Worker) describe() string {
	what := cmp.Or(w.Flavor, "nodes without a label node.kubernetes.io/instance-type")
	switch {
	case w.Region != "":
		return what + " in " + w.Region
	case w.Flavor != "":
		return what + " in an unknown region"
	}
	return what
}

func (in Input) lines() []Line {
	var out []Line
	for _, group := range groups(in.Pool) {
		line := Line{Worker: group.Worker, Workers: group.workers}
		if in.Existing {
			line.Total = Total{Priced: group.workers}
		} else {
			line.Price = in.price(group.Worker, true)
			line.Total = total(line.Price, line.Workers)
		}
		out = append(out, line)
	}
	return out
}

func (in Input) price(w Worker, pool bool) *Entry {
	if pool && in.PoolPrice != nil {
		return in.PoolPrice
	}
	entry, ok := in.Prices.Find(w.Flavor, w.Region, in.Currency)
	if !ok {
		return nil
	}
	return &entry
}

type group struct {
	Worker
	workers int
}

// groups counts equal workers, sorted.
func groups(workers []Worker) []group {
	count := map[Worker]int{}
	for _, worker := range workers {
		count[worker]++
	}
	out := make([]group, 0, len(count))
	for worker, number := range count {
		out = append(out, group{worker, number})
	}
	slices.SortFunc(out, func(a, b group) int {
		return cmp.Or(cmp.Compare(a.Zone, b.Zone), cmp.Compare(a.Region, b.Region), cmp.Compare(a.Flavor, b.Flavor))
	})
	return out
}

// distinct drops what is there twice, and sorts.
func distinct(entries []Entry) []Entry {
	key := func(e Entry) string {
		return e.Flavor + "\x00" + e.Region + "\x00" + e.Source + "\x00" + e.Hourly.Short(18)
	}
	slices.SortFunc(entries, func(a, b Entry) int { return cmp.Compare(key(a), key(b)) })
	return slices.CompactFunc(entries, func(a, b Entry) bool { return key(a) == key(b) })
}

// Certainty says how a total is to be read.
type Certainty string

// The certainties.
const (
	// Exact: every worker has a price that leaves nothing out.
	Exact Certainty = "exact"
	// AtLeast: some price is unknown or leaves something out, so that it is more.
	AtLeast Certainty = "at least"
	// AtMost is for shares: some price is unknown in the whole, so that it is less.
	AtMost Certainty = "at most"
	// Unknown: there is no number.
	Unknown Certainty = "unknown"
)

// Total is what some workers cost together.
type Total struct {
	// Hourly is the sum of the prices that are known.
	Hourly Decimal
	// Priced and Unpriced count the workers.
	Priced, Unpriced int
	// Partial says that some price leaves something out.
	Partial bool
}

// Certainty of the sum. Nothing costs exactly nothing.
func (t Total) Certainty() Certainty {
	switch {
	case t.Unpriced == 0 && !t.Partial:
		return Exact
	case t.Priced == 0:
		return Unknown
	default:
		return AtLeast
	}
}

// Workers counts all of them.
func (t Total) Workers() int { return t.Priced + t.Unpriced }

// Monthly is the sum for a month of that many hours.
func (t Total) Monthly(hours int) Decimal { return t.Hourly.Times(hours) }

// Yearly is the sum for twelve such months.
func (t Total) Yearly(hours int) Decimal { return t.Monthly(hours).Times(MonthsPerYear) }

func (t Total) plus(other Total) Total {
	return Total{
		Hourly: t.Hourly.Plus(other.Hourly), Priced: t.Priced + other.Priced,
		Unpriced: t.Unpriced + other.Unpriced, Partial: t.Partial || other.Partial,
	}
}

// total is what workers cost at a price; nil is an unknown one.
func total(price *Entry, workers int) Total {
	if price == nil {
		return Total{Unpriced: workers}
	}
	return Total{Hourly: price.Hourly.Times(workers), Priced: workers, Partial: price.Excludes != "" && workers > 0}
}

// Share is the pool's part of the cluster's bill.
type Share struct {
	// Percent is meaningless when Certainty is Unknown.
	Percent   Decimal
	Certainty Certainty
}

// shareOf is part's share of part and other together. More in the part can only
// make it greater, more in the other can only make it less.
// Nothing is no part of anything.
func shareOf(part, other Total) Share {
	if part.Certainty() == Exact && part.Hourly.IsZero() && other.Certainty() != Exact {
		return Share{Certainty: Exact}
	}
	percent, ok := part.Hourly.Percent(part.Hourly.Plus(other.Hourly))
	if !ok || part.Certainty() == Unknown || other.Certainty() == Unknown {
		return Share{Certainty: Unknown}
	}
	switch {
	case part.Certainty() == Exact && other.Certainty() == Exact:
		return Share{Percent: percent, Certainty: Exact}
	case other.Certainty() == Exact:
		return Share{Percent: percent, Certainty: AtLeast}
	case part.Certainty() == Exact:
		return Share{Percent: percent, Certainty: AtMost}
	default:
		return Share{Certainty: Unknown}
	}
}
