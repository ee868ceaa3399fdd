package cost_test

import (
	"math/big"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rrpool/rrpool/cloud/cost"
)

const page = `version: 1
entries:
- {flavor: bx2.2x8, region: eu-de, price: "0.15", currency: USD, date: "2026-02-19", source: https://example.com/a}
- {flavor: bx2.2x8, region: any, price: 0.2, currency: USD, date: "2026-02-19", source: https://example.com/b}
- {flavor: bx2.4x16, region: eu-de, price: "700", hours: 2000, currency: USD, date: "2026-02-19", source: a bill, excludes: disk}
`

func parse(t *testing.T, text string) cost.Book {
	t.Helper()
	book, err := cost.Parse([]byte(text))
	require.NoError(t, err)
	return book
}

func TestFind(t *testing.T) {
	own := parse(t, `{version: 1, entries: [{flavor: bx2.2x8, region: any, price: "0.11", currency: USD, date: "2026-01-01", source: mine}]}`)
	for name, tc := range map[string]struct {
		book           cost.Book
		flavor, region string
		want           string
	}{
		"the region's own price comes first":             {parse(t, page), "bx2.2x8", "eu-de", "0.15"},
		"then the one for any region":                    {parse(t, page), "bx2.2x8", "eu-gb", "0.2"},
		"a node without a region has the one for any":    {parse(t, page), "bx2.2x8", "", "0.2"},
		"the first book counts, even for any region":     {append(own, parse(t, page)...), "bx2.2x8", "eu-de", "0.11"},
		"what the first book has not is in the next":     {append(own, parse(t, page)...), "bx2.4x16", "eu-de", "0.35"},
		"another region's price is no price":             {parse(t, page), "bx2.4x16", "eu-gb", ""},
		"another flavor's price is no price":             {parse(t, page), "bx2.4x1", "eu-de", ""},
		"a node without a flavor has no price":           {parse(t, page), "", "eu-de", ""},
		"nothing is found where there is no book at all": {nil, "bx2.2x8", "eu-de", ""},
	} {
		t.Run(name, func(t *testing.T) {
			entry := tc.book.Find(tc.flavor, tc.region)
			require.Equal(t, tc.want != "", entry != nil)
			if entry != nil {
				require.Equal(t, tc.want, cost.Short(entry.Hourly(), 6))
			}
		})
	}
}

func TestABadBookIsRefusedWithFieldValueAndRemedy(t *testing.T) {
	entry := func(from, to string) string { return strings.Replace(page, from, to, 1) }
	for name, tc := range map[string]struct{ text, says string }{
		"no YAML":             {"entries: [", "this is no price book: yaml: line 1"},
		"an empty file":       {"", "version: 0 is not known: this version of rrpool reads version: 1"},
		"another version":     {entry("version: 1", "version: 2"), "version: 2 is not known"},
		"an unknown field":    {entry("source: a bill", "sauce: a bill"), `unknown field "sauce"`},
		"a field given twice": {entry("source: a bill", "source: a bill, source: b"), `"source" already set`},
		"no entries":          {"version: 1", "entries: there is none: write at least one price"},
		"a second document":   {page + "---\n" + page, "a second document after a line ---"},
		"a negative price":    {entry(`"0.15"`, `"-0.15"`), `entries[0].price: "-0.15": write a decimal of 0 or more`},
		"a price of words":    {entry(`0.2,`, `cheap,`), `entries[1].price: "cheap": write a decimal`},
		"a missing price":     {entry(`price: "0.15", `, ""), `entries[0].price: "": write a decimal`},
		"no hours":            {entry("hours: 2000", "hours: -1"), `entries[2].hours: "-1": write 1 or more`},
		"a date of words":     {entry(`"2026-02-19"`, "yesterday"), `entries[0].date: "yesterday": write when`},
		"a missing date":      {entry(`date: "2026-02-19", `, ""), `entries[0].date: "": write when`},
		"a missing source":    {entry(", source: https://example.com/b", ""), `entries[1].source: "": write a URL that says where`},
		"a missing flavor":    {entry("flavor: bx2.2x8, ", ""), `entries[0].flavor: "": write it`},
		"a missing region":    {entry("region: eu-de, ", ""), `entries[0].region: "": write it`},
		"a currency sign":     {entry("currency: USD", "currency: $"), `entries[0].currency: "$": write its three letters`},
		"two currencies":      {strings.Replace(page, "USD", "EUR", 1), `entries[1].currency: "USD": entries[0] is in EUR: write all prices in one currency`},
		"two prices for one":  {entry("region: any", "region: eu-de"), "entries[1]: bx2.2x8 in eu-de has a price in entries[0] already: remove one"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := cost.Parse([]byte(tc.text))
			require.ErrorContains(t, err, tc.says)
			require.NotContains(t, err.Error(), "\n", "one sentence")
		})
	}
}

func TestADocumentMayBeginWithItsMark(t *testing.T) {
	require.Len(t, parse(t, "---\n"+page), 3)
}

// What the built-in book claims can be followed up: every price has a page and a day.
func TestTheBuiltInBook(t *testing.T) {
	require.NotEmpty(t, cost.Builtin())
	for _, entry := range cost.Builtin() {
		link, err := url.Parse(entry.Source)
		require.NoError(t, err)
		require.Equal(t, "https", link.Scheme, entry.Source)
		require.Positive(t, entry.Hourly().Sign(), entry.Flavor)
		require.NotEqual(t, cost.AnyRegion, entry.Region, "no source says that a price holds everywhere")
		require.Equal(t, "USD", entry.Currency)
	}
}

func TestAge(t *testing.T) {
	entry := parse(t, page)[0]
	day := time.Date(2027, 2, 19, 0, 0, 0, 0, time.UTC)
	require.False(t, entry.OlderThanAYear(day), "a year to the day")
	require.True(t, entry.OlderThanAYear(day.AddDate(0, 0, 1)))
}

func decimal(t require.TestingT, text string) *big.Rat {
	d, err := cost.ParseDecimal(text)
	require.NoError(t, err)
	return d
}

func TestShort(t *testing.T) {
	for text, want := range map[string]string{"100": "100", "0": "0", "1.50": "1.5", "0.001": "0", "20.00": "20", "0.999": "1", "1.005": "1.01"} {
		require.Equal(t, want, cost.Short(decimal(t, text), 2), "half up; the nearest float64 of 1.005 is below it")
	}
	entry := cost.Entry{Price: "608.59", Hours: 2190}
	require.Equal(t, "0.277895", cost.Short(entry.Hourly(), 6), "a quotient that no decimal can hold")
}

func TestWhatIsNoAmount(t *testing.T) {
	for _, text := range []string{"", "-1", "+1", ".5", "1.", "1,5", "1e5", "1e999999999", "1/3", "NaN", "Inf", " 1", "1 ", "0x1", "1_000", "1234567890", "0.1234567890123456789"} {
		_, err := cost.ParseDecimal(text)
		require.ErrorContains(t, err, "write a decimal of 0 or more, such as 0.11", "%q", text)
	}
}
