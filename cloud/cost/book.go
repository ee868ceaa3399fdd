package cost

import (
	_ "embed"
	"fmt"
	"slices"
	"strings"
	"time"
)

// AnyRegion is the region of an entry that holds wherever no other one does.
const AnyRegion = "any"

// DateLayout is how dates are written in a price book.
const DateLayout = time.DateOnly

// Entry is what one worker of a flavor costs in a region, and who says so.
type Entry struct {
	Flavor string
	// Region is an IBM Cloud region, or AnyRegion.
	Region string
	// Hourly is the price of one worker for one hour, before tax and discounts.
	Hourly Decimal
	// Currency as an ISO 4217 code.
	Currency string
	// Source is where the price was read: a URL, or the words of who gave it.
	Source string
	// Date is the day on which the source said so.
	Date time.Time
	// Note says more about the source. Optional.
	Note string
	// Excludes is what the source bills apart; what is added up with such an entry
	// is "at least". Optional.
	Excludes string
}

// OlderThanAYear says whether nobody has looked at the price for more than a year.
func (e Entry) OlderThanAYear(now time.Time) bool { return e.Date.AddDate(1, 0, 0).Before(now) }

// Book is a list of prices with at most one for a flavor, region and currency.
type Book struct{ entries []Entry }

//go:embed book.yaml
var builtin []byte

// Builtin is the book that comes with this version.
func Builtin() (Book, error) {
	book, err := Parse(builtin)
	if err != nil {
		return Book{}, fmt.Errorf("reading the built-in price book: %w", err)
	}
	return book, nil
}

// NewBook makes a book of entries. It fails when an entry lacks something or
// contradicts another, and names it.
func NewBook(entries []Entry) (Book, error) {
	seen := map[[3]string]int{}
	for i, entry := range entries {
		if err := entry.check(); err != nil {
			return Book{}, fmt.Errorf("entries[%d].%w", i, err)
		}
		key := [3]string{entry.Flavor, entry.Region, entry.Currency}
		if first, double := seen[key]; double {
			return Book{}, fmt.Errorf("entries[%d]: %s in %s has a price in entries[%d] already: remove one", i, entry.Flavor, entry.Region, first)
		}
		seen[key] = i
	}
	entries = slices.Clone(entries)
	slices.SortFunc(entries, func(a, b Entry) int {
		return strings.Compare(a.Flavor+"\x00"+a.Region+"\x00"+a.Currency, b.Flavor+"\x00"+b.Region+"\x00"+b.Currency)
	})
	return Book{entries: entries}, nil
}

// Entries are all prices, sorted by flavor, region and currency.
func (b Book) Entries() []Entry { return slices.Clone(b.entries) }

// find is the price of the flavor in the region, else the one for any region.
func (b Book) find(flavor, region, currency string) (Entry, bool) {
	for _, place := range []string{region, AnyRegion} {
		for _, entry := range b.entries {
			if entry.Flavor == flavor && entry.Region == place && entry.Currency == currency {
				return entry, true
			}
		}
	}
	return Entry{}, false
}

// Shelf holds books; the first one that has a price for a worker counts.
type Shelf []Book

// Find is the price of a flavor in a region; false when no book has it.
func (s Shelf) Find(flavor, region, currency string) (Entry, bool) {
	for _, book := range s {
		if entry, ok := book.find(flavor, region, currency); ok {
			return entry, true
		}
	}
	return Entry{}, false
}

// Currencies are those that prices are in, sorted.
func (s Shelf) Currencies() []string {
	return s.collect(func(e Entry) (string, bool) { return e.Currency, true })
}

// Flavors are those that have a price in the currency somewhere, sorted.
func (s Shelf) Flavors(currency string) []string {
	return s.collect(func(e Entry) (string, bool) { return e.Flavor, e.Currency == currency })
}

// Regions are those in which the flavor has a price in the currency, sorted.
func (s Shelf) Regions(flavor, currency string) []string {
	return s.collect(func(e Entry) (string, bool) { return e.Region, e.Flavor == flavor && e.Currency == currency })
}

func (s Shelf) collect(pick func(Entry) (string, bool)) []string {
	var out []string
	for _, book := range s {
		for _, entry := range book.entries {
			if text, ok := pick(entry); ok {
				out = append(out, text)
			}
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}
