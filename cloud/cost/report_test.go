package cost_test

import (
	"cmp"
	"math/big"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"pgregory.net/rapid"

	"github.com/rrpool/rrpool/cloud/cost"
	"github.com/rrpool/rrpool/config/api/v1alpha1"
)

func workers(number int, zone, flavor string) []cost.Machine {
	out := make([]cost.Machine, 0, number)
	for range number {
		out = append(out, cost.Machine{Zone: zone, Region: "eu-de", Flavor: flavor})
	}
	return out
}

// small costs 0.15, large 0.35 and leaves the disk out, odd is in no book.
const small, large, odd = "bx2.2x8", "bx2.4x16", "odd.1x1"

func TestHowCertainTheTotalsAre(t *testing.T) {
	for name, tc := range map[string]struct {
		pool, rest   []cost.Machine
		pooled, bill cost.Certainty
		share        string
	}{
		"all prices are known":                         {workers(2, "a", small), workers(6, "a", small), cost.Exact, cost.Exact, "25"},
		"the rest has an unknown price":                {workers(2, "a", small), append(workers(2, "a", small), workers(1, "a", odd)...), cost.Exact, cost.AtLeast, ""},
		"the rest leaves something out":                {workers(7, "a", small), workers(3, "a", large), cost.Exact, cost.AtLeast, ""},
		"nothing of the rest has a price":              {workers(2, "a", small), workers(2, "a", odd), cost.Exact, cost.AtLeast, ""},
		"the pool has no price":                        {workers(2, "a", odd), workers(2, "a", small), cost.Unknown, cost.AtLeast, ""},
		"one worker of the pool has no price":          {append(workers(1, "a", small), workers(1, "b", odd)...), workers(1, "a", small), cost.AtLeast, cost.AtLeast, ""},
		"the pool leaves something out":                {workers(3, "a", large), workers(7, "a", small), cost.AtLeast, cost.AtLeast, ""},
		"both leave something out":                     {workers(1, "a", large), workers(1, "a", large), cost.AtLeast, cost.AtLeast, ""},
		"an empty pool costs nothing":                  {nil, workers(1, "a", small), cost.Exact, cost.Exact, "0"},
		"there is no share of nothing":                 {nil, []cost.Machine{}, cost.Exact, cost.Exact, ""},
		"the pool is all there is":                     {workers(1, "a", small), []cost.Machine{}, cost.Exact, cost.Exact, "100"},
		"a node without a flavor label has no price":   {workers(1, "a", small), workers(1, "a", ""), cost.Exact, cost.AtLeast, ""},
		"an empty pool beside workers without a price": {nil, workers(1, "a", odd), cost.Exact, cost.Unknown, ""},
	} {
		t.Run(name, func(t *testing.T) {
			r := cost.Compute(cost.Input{Pool: tc.pool, Rest: tc.rest, Prices: parse(t, page)})
			require.Equal(t, tc.pooled, r.Pool.Certainty, "pool")
			require.Equal(t, tc.bill, r.ClusterBill.Certainty, "bill")
			require.Equal(t, tc.share, r.Share, "share")
		})
	}
}

// TestABuiltInPriceIsNotThatOfOpenShift, which bills a licence as well: by the node's operating system, or OpenShift's own label.
func TestABuiltInPriceIsNotThatOfOpenShift(t *testing.T) {
	node := func(key, value string) cost.Machine {
		return cost.MachineOf(map[string]string{"ibm-cloud.kubernetes.io/machine-type": small, "ibm-cloud.kubernetes.io/region": "eu-de", key: value}, "")
	}
	for _, system := range []string{"REDHAT_7_64", "REDHAT_8_64", "RHEL_9_64", "RHCOS", "rhcos"} {
		require.True(t, node("ibm-cloud.kubernetes.io/os", system).OpenShift, system)
	}
	require.True(t, node("node.openshift.io/os_id", "rhel").OpenShift)
	for _, system := range []string{"UBUNTU_24_64", ""} {
		require.False(t, node("ibm-cloud.kubernetes.io/os", system).OpenShift, system)
	}
	shift, plain := node("ibm-cloud.kubernetes.io/os", "RHCOS"), node("", "")
	r := cost.Compute(cost.Input{Pool: []cost.Machine{shift, plain}, Prices: cost.Builtin(), Sizes: []int{3}, Model: shift})
	require.Equal(t, []cost.Certainty{cost.Exact, cost.AtLeast, cost.AtLeast, cost.AtLeast}, []cost.Certainty{r.Lines[0].Certainty, r.Lines[1].Certainty, r.Pool.Certainty, r.Sizes[0].Certainty})
	status := cost.Builtin().Status([]cost.Machine{shift})
	require.Empty(t, status.Monthly)
	require.Contains(t, status.Source, "at least 112.00 USD/month")
	require.Contains(t, status.Source, "the price of bx2.2x8 in eu-de leaves out the OpenShift licence")
	require.NotContains(t, cost.Builtin().Status([]cost.Machine{plain}).Source, "OpenShift")

	own := cost.Compute(cost.Input{Pool: []cost.Machine{shift}, Prices: append(parse(t, page), cost.Builtin()...)})
	require.Equal(t, cost.Exact, own.Pool.Certainty, "who gives a price knows what it is for")
}

func TestExistingNodesCostNothingExtra(t *testing.T) {
	r := cost.Compute(cost.Input{
		Existing: true, Pool: workers(3, "a", small), Rest: workers(1, "b", odd), Prices: parse(t, page),
		Sizes: []int{3}, Model: workers(1, "a", small)[0],
	})
	require.Equal(t, cost.Sum{Workers: 3, Certainty: cost.Exact, Hourly: "0", Monthly: "0.00", Yearly: "0.00"}, r.Pool)
	require.Equal(t, "0.45", r.ClusterBill.Hourly, "the cluster pays for them anyway")
	require.Empty(t, r.Sizes)
	require.Equal(t, []string{"odd.1x1 in eu-de"}, r.Unpriced)
}

func TestAPriceForThePoolIsNotOneForTheRest(t *testing.T) {
	own := parse(t, page)[0]
	own.Price = "0.11"
	r := cost.Compute(cost.Input{
		Pool: workers(1, "a", odd), Rest: workers(1, "a", odd), PoolPrice: &own,
		Sizes: []int{3, 6, 9}, Model: cost.Machine{Flavor: odd},
	})
	require.Equal(t, cost.Exact, r.Pool.Certainty)
	require.Equal(t, cost.AtLeast, r.ClusterBill.Certainty)
	require.Equal(t, []string{"odd.1x1 in eu-de"}, r.Unpriced)
	var monthly []string
	for _, size := range r.Sizes {
		monthly = append(monthly, size.Monthly)
	}
	require.Equal(t, []string{"237.60", "475.20", "712.80"}, monthly)
}

func TestLinesAreSortedAndPricesNamedOnce(t *testing.T) {
	pool := append(workers(1, "b", small), append(workers(2, "a", large), workers(1, "a", small)...)...)
	in := cost.Input{Pool: pool, Rest: workers(4, "c", small), Prices: parse(t, page)}
	r := cost.Compute(in)
	require.Len(t, r.Lines, 3)
	require.Equal(t, cost.Machine{Zone: "a", Region: "eu-de", Flavor: small}, r.Lines[0].Machine)
	require.Equal(t, 2, r.Lines[1].Workers)
	require.Equal(t, "b", r.Lines[2].Zone)
	require.Len(t, r.Prices, 2)
}

// Whatever the workers and their order: the lines add up to the pool, no worker is lost, and an
// unknown price never makes anything cheaper.
func TestReportsAddUp(t *testing.T) {
	book := parse(t, page)
	worker := rapid.Custom(func(t *rapid.T) cost.Machine {
		return cost.Machine{
			Zone:   rapid.SampledFrom([]string{"a", "b", ""}).Draw(t, "zone"),
			Region: rapid.SampledFrom([]string{"eu-de", "eu-gb", ""}).Draw(t, "region"),
			Flavor: rapid.SampledFrom([]string{small, large, odd, ""}).Draw(t, "flavor"),
		}
	})
	hourly := func(s cost.Sum) *big.Rat { return decimal(t, cmp.Or(s.Hourly, "0")) } // these prices have few decimals
	rapid.Check(t, func(t *rapid.T) {
		in := cost.Input{Prices: book}
		in.Pool = rapid.SliceOfN(worker, 0, 20).Draw(t, "pool")
		in.Rest = rapid.SliceOfN(worker, 0, 20).Draw(t, "rest")
		r := cost.Compute(in)
		sum, count := new(big.Rat), 0
		for _, line := range r.Lines {
			sum.Add(sum, hourly(line.Sum))
			count += line.Workers
			require.Equal(t, book.Find(line.Flavor, line.Region) == nil, line.Certainty == cost.Unknown)
		}
		require.Zero(t, sum.Cmp(hourly(r.Pool)))
		require.Equal(t, len(in.Pool), count)
		require.Equal(t, len(in.Pool), r.Pool.Workers)
		require.Equal(t, len(in.Pool)+len(in.Rest), r.ClusterBill.Workers)
		if r.Pool.Certainty != cost.Unknown {
			require.Equal(t, new(big.Rat).Mul(sum, big.NewRat(12*cost.HoursPerMonth, 1)).FloatString(2), r.Pool.Yearly)
		}
		require.LessOrEqual(t, sum.Cmp(hourly(*r.ClusterBill)), 0)

		in.Pool = rapid.Permutation(in.Pool).Draw(t, "order")
		require.Equal(t, r.Lines, cost.Compute(in).Lines, "the order of nodes does not matter")

		in.Pool = append(in.Pool, cost.Machine{Flavor: odd})
		more := cost.Compute(in)
		require.Zero(t, hourly(more.Pool).Cmp(sum))
		require.NotEqual(t, cost.Exact, more.Pool.Certainty)
	})
}

// What is reported of a pool: amounts where the sum is exact, and else what is lacking.
func TestStatus(t *testing.T) {
	lost := workers(2, "a", small)
	lost[1].Region = ""
	for name, tc := range map[string]struct {
		pool []cost.Machine
		want *v1alpha1.CostStatus
	}{
		"no worker": {nil, nil},
		"all prices are known": {append(workers(2, "a", small), workers(1, "b", small)...), &v1alpha1.CostStatus{
			Currency: "USD", Hourly: "0.45", Monthly: "324.00", Source: "the built-in prices of 2026-02-19; rrpool cost has the details",
		}},
		"no price is known": {workers(2, "a", odd), &v1alpha1.CostStatus{
			Source: "no price is known of odd.1x1 in eu-de; rrpool cost says how to give one",
		}},
		"one price is not known": {append(workers(2, "a", small), workers(1, "b", odd)...), &v1alpha1.CostStatus{
			Source: "at least 216.00 USD/month by the built-in prices of 2026-02-19; no price is known of odd.1x1 in eu-de; rrpool cost says how to give one",
		}},
		"a price leaves something out": {workers(1, "a", large), &v1alpha1.CostStatus{
			Source: "at least 252.00 USD/month by the built-in prices of 2026-02-19; the price of bx2.4x16 in eu-de leaves out disk; rrpool cost has the details",
		}},
		"a node without a flavor": {workers(1, "a", ""), &v1alpha1.CostStatus{
			Source: "no price is known of nodes without a label node.kubernetes.io/instance-type in eu-de; rrpool cost says how to give one",
		}},
		"a node without a region, which has the price for any": {lost, &v1alpha1.CostStatus{
			Currency: "USD", Hourly: "0.35", Monthly: "252.00", Source: "the built-in prices of 2026-02-19; rrpool cost has the details",
		}},
		"a node without a region, and no price for any": {[]cost.Machine{{Flavor: large}}, &v1alpha1.CostStatus{
			Source: "no price is known of bx2.4x16 in an unknown region; rrpool cost says how to give one",
		}},
		"many unknown flavors": {slices.Concat(workers(1, "a", "a"), workers(1, "a", "b"), workers(1, "a", "c"), workers(1, "a", "d")), &v1alpha1.CostStatus{
			Source: "no price is known of a in eu-de, b in eu-de, c in eu-de and 1 more; rrpool cost says how to give one",
		}},
	} {
		t.Run(name, func(t *testing.T) { require.Equal(t, tc.want, parse(t, page).Status(tc.pool)) })
	}
}

func TestEachDayOfAPriceIsNamedOnce(t *testing.T) {
	book := parse(t, strings.Replace(strings.Replace(page, ", excludes: disk", "", 1), `"2026-02-19", source: https://example.com/a`, `"2022-01-31", source: https://example.com/a`, 1))
	pool := slices.Concat(workers(1, "a", large), workers(1, "a", small))
	pool = append(pool, cost.Machine{Region: "eu-gb", Flavor: small})
	require.Equal(t, "the built-in prices of 2022-01-31, 2026-02-19; rrpool cost has the details", book.Status(pool).Source)
}

// The manager reports by the built-in book: one that cannot be read fails here, and not there.
func TestStatusIsByTheBuiltInBook(t *testing.T) {
	book := cost.Builtin()
	require.Nil(t, book.Status(nil))
	for _, e := range book {
		pool := []cost.Machine{{Zone: "a", Region: e.Region, Flavor: e.Flavor}, {Zone: "b", Region: e.Region, Flavor: e.Flavor}}
		said := book.Status(pool)
		if e.Excludes != "" {
			require.Empty(t, said.Monthly, e.Flavor)
			require.Contains(t, said.Source, e.Excludes)
			continue
		}
		require.Equal(t, new(big.Rat).Mul(e.Hourly(), big.NewRat(2*720, 1)).FloatString(2), said.Monthly, e.Flavor)
		require.Contains(t, said.Source, e.Date)
	}
}

// What nodes are paid for as.
func TestWhatNodesSay(t *testing.T) {
	require.Equal(t, cost.Machine{}, cost.MachineOf(nil, ""))
	labels := map[string]string{
		"ibm-cloud.kubernetes.io/machine-type": "bx2.2x8.encrypted", corev1.LabelInstanceTypeStable: "else",
		"ibm-cloud.kubernetes.io/region": "eu-de", corev1.LabelTopologyRegion: "else", corev1.LabelTopologyZone: "eu-de-1", "room": "7",
	}
	require.Equal(t, cost.Machine{Zone: "eu-de-1", Region: "eu-de", Flavor: "bx2.2x8"}, cost.MachineOf(labels, "rooms"))
	require.Equal(t, "7", cost.MachineOf(labels, "room").Zone)
	delete(labels, "ibm-cloud.kubernetes.io/machine-type")
	delete(labels, "ibm-cloud.kubernetes.io/region")
	require.Equal(t, cost.Machine{Zone: "eu-de-1", Region: "else", Flavor: "else"}, cost.MachineOf(labels, "rooms"))
}
