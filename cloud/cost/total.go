package cost

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
