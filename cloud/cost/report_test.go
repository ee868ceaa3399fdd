package cost_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/rrpool/rrpool/cloud/cost"
)

var today = time.Date(2026, 11, 21, 0, 0, 0, 0, time.UTC)

func workers(number int, zone, flavor string) []cost.Worker {
	out := make([]cost.Worker, 0, number)
	for range number {
		out = append(out, cost.Worker{Zone: zone, Region: "eu-de", Flavor: flavor})
	}
	return out
}

// small costs 0.15, large 0.35 and leaves the disk out, odd is in no book.
const small, large, odd = "bx2.2x8", "bx2.4x16", "odd.1x1"

func TestHowCertainTheTotalsAre(t *testing.T) {
	for name, tc := range map[string]struct {
		pool, rest   []cost.Worker
		pooled, bill cost.Certainty
		share        cost.Certainty
		percent      string
	}{
		"all prices are known":                         {workers(2, "a", small), workers(6, "a", small), cost.Exact, cost.Exact, cost.Exact, "25"},
		"the rest has an unknown price":                {workers(2, "a", small), append(workers(2, "a", small), workers(1, "a", odd)...), cost.Exact, cost.AtLeast, cost.AtMost, "50"},
		"the rest leaves something out":                {workers(7, "a", small), workers(3, "a", large), cost.Exact, cost.AtLeast, cost.AtMost, "50"},
		"nothing of the rest has a price":              {workers(2, "a", small), workers(2, "a", odd), cost.Exact, cost.AtLeast, cost.Unknown, ""},
		"the pool has no price":                        {workers(2, "a", odd), workers(2, "a", small), cost.Unknown, cost.AtLeast, cost.Unknown, ""},
		"one worker of the pool has no price":          {append(workers(1, "a", small), workers(1, "b", odd)...), workers(1, "a", small), cost.AtLeast, cost.AtLeast, cost.AtLeast, "50"},
		"the pool leaves something out":                {workers(3, "a", large), workers(7, "a", small), cost.AtLeast, cost.AtLeast, cost.AtLeast, "50"},
		"both leave something out":                     {workers(1, "a", large), workers(1, "a", large), cost.AtLeast, cost.AtLeast, cost.Unknown, ""},
		"an empty pool costs nothing":                  {nil, workers(1, "a", small), cost.Exact, cost.Exact, cost.Exact, "0"},
		"there is no share of nothing":                 {nil, []cost.Worker{}, cost.Exact, cost.Exact, cost.Unknown, ""},
		"the pool is all there is":                     {workers(1, "a", small), []cost.Worker{}, cost.Exact, cost.Exact, cost.Exact, "100"},
		"a node without a flavor label has no price":   {workers(1, "a", small), workers(1, "a", ""), cost.Exact, cost.AtLeast, cost.Unknown, ""},
		"an empty pool beside workers without a price": {nil, workers(1, "a", odd), cost.Exact, cost.Unknown, cost.Exact, "0"},
	} {
		t.Run(name, func(t *testing.T) {
			r := cost.Compute(cost.Input{Pool: tc.pool, Rest: tc.rest, Prices: cost.Shelf{parse(t, page)}, Currency: "USD", HoursPerMonth: 720, Now: today})
			require.Equal(t, tc.pooled, r.Pool.Certainty(), "pool")
			require.Equal(t, tc.bill, r.Bill.Certainty(), "bill")
			require.Equal(t, tc.share, r.Share.Certainty, "share")
			if tc.percent != "" {
				require.Equal(t, tc.percent, r.Share.Percent.Short(2))
			}
		})
	}
}

func TestExistingNodesCostNothingExtra(t *testing.T) {
	r := cost.Compute(cost.Input{
		Existing: true, Pool: workers(3, "a", small), Rest: workers(1, "b", odd), Prices: cost.Shelf{parse(t, page)}, Currency: "USD", HoursPerMonth: 720,
		Sizes: []int{3}, Model: workers(1, "a", small)[0],
	})
	require.True(t, r.Pool.Hourly.IsZero())
	require.Equal(t, cost.Exact, r.Pool.Certainty())
	require.Equal(t, "0.45", r.Bill.Hourly.Short(6), "the cluster pays for them anyway")
	require.Equal(t, "0", r.Share.Percent.Short(2))
	require.Empty(t, r.Sizes)
	require.Equal(t, []string{"odd.1x1 in eu-de"}, r.Unpriced)
}

func TestAPriceForThePoolIsNotOneForTheRest(t *testing.T) {
	own := parse(t, page).Entries()[0]
	own.Hourly = decimal(t, "0.11")
	r := cost.Compute(cost.Input{
		Pool: workers(1, "a", odd), Rest: workers(1, "a", odd), PoolPrice: &own, Currency: "USD", HoursPerMonth: 720,
		Sizes: []int{3, 6, 9}, Model: cost.Worker{Flavor: odd}, Now: today,
	})
	require.Equal(t, cost.Exact, r.Pool.Certainty())
	require.Equal(t, cost.AtLeast, r.Bill.Certainty())
	require.Equal(t, []string{"odd.1x1 in eu-de"}, r.Unpriced)
	var monthly []string
	for _, size := range r.Sizes {
		monthly = append(monthly, size.Total.Monthly(720).Round(0))
	}
	require.Equal(t, []string{"238", "475", "713"}, monthly)
}

func TestLinesAreSortedAndOldPricesNamedOnce(t *testing.T) {
	pool := append(workers(1, "b", small), append(workers(2, "a", large), workers(1, "a", small)...)...)
	in := cost.Input{Pool: pool, Rest: workers(4, "c", small), Prices: cost.Shelf{parse(t, page)}, Currency: "USD", HoursPerMonth: 720, Now: today}
	r := cost.Compute(in)
	require.Len(t, r.Lines, 3)
	require.Equal(t, cost.Worker{Zone: "a", Region: "eu-de", Flavor: small}, r.Lines[0].Worker)
	require.Equal(t, 2, r.Lines[1].Workers)
	require.Equal(t, "b", r.Lines[2].Zone)
	require.Len(t, r.Used, 2)
	require.Empty(t, r.Old)
	in.Now = today.AddDate(1, 0, 0)
	require.Len(t, cost.Compute(in).Old, 2)
}

// Whatever the workers and their order: the lines add up to the pool, pool and rest
// to the bill, nobody is lost, and an unknown price never makes anything cheaper.
func TestReportsAddUp(t *testing.T) {
	shelf := cost.Shelf{parse(t, page)}
	worker := rapid.Custom(func(t *rapid.T) cost.Worker {
		return cost.Worker{
			Zone:   rapid.SampledFrom([]string{"a", "b", ""}).Draw(t, "zone"),
			Region: rapid.SampledFrom([]string{"eu-de", "eu-gb", ""}).Draw(t, "region"),
			Flavor: rapid.SampledFrom([]string{small, large, odd, ""}).Draw(t, "flavor"),
		}
	})
	rapid.Check(t, func(t *rapid.T) {
		in := cost.Input{Currency: "USD", Now: today, Prices: shelf}
		in.Pool = rapid.SliceOfN(worker, 0, 20).Draw(t, "pool")
		in.Rest = rapid.SliceOfN(worker, 0, 20).Draw(t, "rest")
		in.HoursPerMonth = rapid.IntRange(1, 744).Draw(t, "hours")
		r := cost.Compute(in)
		sum, count := cost.Decimal{}, 0
		for _, line := range r.Lines {
			sum, count = sum.Plus(line.Total.Hourly), count+line.Workers
			require.Equal(t, line.Price == nil, line.Total.Unpriced > 0)
		}
		require.Zero(t, sum.Cmp(r.Pool.Hourly))
		require.Equal(t, len(in.Pool), count)
		require.Equal(t, len(in.Pool), r.Pool.Workers())
		require.Equal(t, len(in.Pool)+len(in.Rest), r.Bill.Workers())
		require.Zero(t, r.Pool.Yearly(in.HoursPerMonth).Cmp(r.Pool.Hourly.Times(12*in.HoursPerMonth)))
		require.LessOrEqual(t, r.Pool.Hourly.Cmp(r.Bill.Hourly), 0)

		in.Pool = rapid.Permutation(in.Pool).Draw(t, "order")
		require.Equal(t, r.Lines, cost.Compute(in).Lines, "the order of nodes does not matter")

		in.Pool = append(in.Pool, cost.Worker{Flavor: odd})
		more := cost.Compute(in)
		require.Zero(t, more.Pool.Hourly.Cmp(r.Pool.Hourly))
		require.NotEqual(t, cost.Exact, more.Pool.Certainty())
	})
}

// At least and at most keep their word, whatever the unknown prices turn out to be.
func TestSharesAreBounds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		known := cost.Shelf{mustParse(t)}
		in := cost.Input{Prices: known, Currency: "USD", HoursPerMonth: 720, Now: today}
		number := func(name string) int { return rapid.IntRange(0, 5).Draw(t, name) }
		in.Pool = append(workers(number("pool"), "a", small), workers(number("pool odd"), "a", odd)...)
		in.Rest = append(workers(number("rest"), "a", small), workers(number("rest odd"), "a", odd)...)
		said := cost.Compute(in).Share
		odds := mustParse(t).Entries()[0]
		odds.Flavor, odds.Hourly = odd, decimal(t, amounts.Draw(t, "odd"))
		book, err := cost.NewBook([]cost.Entry{odds})
		require.NoError(t, err)
		in.Prices = append(in.Prices, book)
		truth := cost.Compute(in).Share
		switch said.Certainty {
		case cost.AtLeast:
			require.GreaterOrEqual(t, truth.Percent.Cmp(said.Percent), 0)
		case cost.AtMost:
			require.LessOrEqual(t, truth.Percent.Cmp(said.Percent), 0)
		case cost.Unknown:
		case cost.Exact:
			require.Zero(t, truth.Percent.Cmp(said.Percent))
		}
	})
}

func mustParse(t require.TestingT) cost.Book {
	book, err := cost.Parse([]byte(page))
	require.NoError(t, err)
	return book
}
