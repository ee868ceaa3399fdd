package cost

import (
	"math/big"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/stretchr/testify/require"
)

// Whatever stands in a price file, it is a book that can be added up and printed, or one
// sentence about what is wrong with it.
func FuzzPrices(f *testing.F) {
	f.Add(string(builtin))
	for _, seed := range []string{
		"version: 1\nentries: [{flavor: bx2.2x8, region: any, price: 0.11, currency: USD, date: 2026-02-19, source: x}]",
		"version: 1\nentries: [{flavor: a, region: any, price: 1e999999999, currency: USD, date: 2026-02-19, source: x}]",
		"version: 1\nentries: [{flavor: a, region: any, price: \"999999999.999999999999999999\", hours: 2147483647, currency: USD, date: 0000-01-01, source: x}]",
		"version: 1\nentries: [{flavor: a, region: any, price: -1, currency: USD, date: 2026-02-30, source: x}]",
		"version: 1\nentries: [{flavor: \"a\\x1b[2J\", region: any, price: 1, currency: USD, date: 2026-02-19, source: \"\\u202e\"}]",
		"version: 1\nentries: [{flavor: a, region: any, price: 1, currency: USD, date: 2026-02-19, source: x, note: \"a\\nb\\x1b[2J\", excludes: \"\\u009b\"}]",
		"version: 1\nversion: 2", "a: &a [*a]", "{}", "", "---\n---\n", "version: 1\nentries: [&a {flavor: a}, *a]", "entries: 1", "\xff",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, content string) {
		if len(content) > 1<<15 {
			t.Skip("YAML takes what it takes")
		}
		book, err := Parse([]byte(content))
		if err != nil {
			require.NotContains(t, err.Error(), "\n")
			require.NotEmpty(t, err.Error())
			return
		}
		sum := new(big.Rat)
		for _, e := range book {
			sum.Add(sum, times(e.Hourly(), 720))
			require.GreaterOrEqual(t, e.Hourly().Sign(), 0)
			require.NotNil(t, book.Find(e.Flavor, e.Region))
			for _, text := range []string{e.Flavor, e.Region, e.Currency, e.Date, e.Source, e.Note, e.Excludes} {
				require.Equal(t, -1, strings.IndexFunc(text, func(r rune) bool { return !unicode.IsGraphic(r) }), "%q", text)
			}
			_ = e.OlderThanAYear(time.Unix(1e9, 0))
		}
		require.LessOrEqual(t, len(sum.FloatString(2)), 64)
	})
}
