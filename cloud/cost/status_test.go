package cost_test

import (
	"math/big"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/rrpool/rrpool/cloud/cost"
	"github.com/rrpool/rrpool/config/api/v1alpha1"
)

// What is reported of a pool: amounts where the sum is exact, and else what is lacking.
func TestStatus(t *testing.T) {
	lost := workers(2, "a", small)
	lost[1].Region = ""
	for name, tc := range map[string]struct {
		pool []cost.Worker
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
		"a node without a region, and no price for any": {[]cost.Worker{{Flavor: large}}, &v1alpha1.CostStatus{
			Source: "no price is known of bx2.4x16 in an unknown region; rrpool cost says how to give one",
		}},
		"many unknown flavors": {slices.Concat(workers(1, "a", "a"), workers(1, "a", "b"), workers(1, "a", "c"), workers(1, "a", "d")), &v1alpha1.CostStatus{
			Source: "no price is known of a in eu-de, b in eu-de, c in eu-de and 1 more; rrpool cost says how to give one",
		}},
	} {
		t.Run(name, func(t *testing.T) { require.Equal(t, tc.want, cost.StatusBy(parse(t, page), tc.pool)) })
	}
}

func TestEachDayOfAPriceIsNamedOnce(t *testing.T) {
	book := parse(t, strings.Replace(strings.Replace(page, ", excludes: disk", "", 1), `"2026-02-19", source: https://example.com/a`, `"2022-01-31", source: https://example.com/a`, 1))
	pool := slices.Concat(workers(1, "a", large), workers(1, "a", small))
	pool = append(pool, cost.Worker{Region: "eu-gb", Flavor: small})
	require.Equal(t, "the built-in prices of 2022-01-31, 2026-02-19; rrpool cost has the details", cost.StatusBy(book, pool).Source)
}

// The manager reports by the built-in book: one that cannot be read fails here, and not there.
func TestStatusIsByTheBuiltInBook(t *testing.T) {
	book := cost.Builtin()
	require.Nil(t, cost.Status(nil))
	for _, e := range book {
		pool := []cost.Worker{{Zone: "a", Region: e.Region, Flavor: e.Flavor}, {Zone: "b", Region: e.Region, Flavor: e.Flavor}}
		said := cost.Status(pool)
		require.Equal(t, cost.StatusBy(book, pool), said)
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
	require.Equal(t, cost.Worker{}, cost.WorkerOf(nil, ""))
	labels := map[string]string{
		"ibm-cloud.kubernetes.io/machine-type": "bx2.2x8.encrypted", corev1.LabelInstanceTypeStable: "else",
		"ibm-cloud.kubernetes.io/region": "eu-de", corev1.LabelTopologyRegion: "else", corev1.LabelTopologyZone: "eu-de-1", "room": "7",
	}
	require.Equal(t, cost.Worker{Zone: "eu-de-1", Region: "eu-de", Flavor: "bx2.2x8"}, cost.WorkerOf(labels, "rooms"))
	require.Equal(t, "7", cost.WorkerOf(labels, "room").Zone)
	delete(labels, "ibm-cloud.kubernetes.io/machine-type")
	delete(labels, "ibm-cloud.kubernetes.io/region")
	require.Equal(t, cost.Worker{Zone: "eu-de-1", Region: "else", Flavor: "else"}, cost.WorkerOf(labels, "rooms"))
}
