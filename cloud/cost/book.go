package cost

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"sigs.k8s.io/yaml"
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

// OlderThanAYear says whether the price was seen more than a year ago.
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

// bookVersion is the version of the file format that this code reads.
const bookVersion = 1

// file is a price book as it is written.
type file struct {
	Version int         `json:"version"`
	Entries []fileEntry `json:"entries"`
}

type fileEntry struct {
	Flavor   string `json:"flavor"`
	Region   string `json:"region"`
	Price    amount `json:"price"`
	Hours    *int   `json:"hours,omitempty"`
	Currency string `json:"currency"`
	Date     string `json:"date"`
	Source   string `json:"source"`
	Note     string `json:"note,omitempty"`
	Excludes string `json:"excludes,omitempty"`
}

// amount takes 0.11 with and without quotes.
type amount string

// UnmarshalJSON implements json.Unmarshaler.
func (a *amount) UnmarshalJSON(data []byte) error {
	text := string(data)
	if strings.HasPrefix(text, `"`) {
		if err := json.Unmarshal(data, &text); err != nil {
			return err //nolint:wrapcheck // the caller wraps
		}
	}
	*a = amount(text)
	return nil
}

// Parse reads a price book. The error names the entry, the field, the value and
// what to write instead.
func Parse(data []byte) (Book, error) {
	var f file
	if err := yaml.UnmarshalStrict(data, &f); err != nil {
		return Book{}, oneLine(err)
	}
	if again := secondDocument.FindIndex(bytes.TrimPrefix(data, []byte("---\n"))); again != nil {
		return Book{}, errors.New("the file has a second document after a line ---: write all entries into one")
	}
	if f.Version != bookVersion {
		return Book{}, fmt.Errorf("version: %d is not known: this version of rrpool reads version: %d", f.Version, bookVersion)
	}
	entries := make([]Entry, 0, len(f.Entries))
	for i, raw := range f.Entries {
		entry, err := raw.entry()
		if err != nil {
			return Book{}, fmt.Errorf("entries[%d].%w", i, err)
		}
		entries = append(entries, entry)
	}
	if len(entries) == 0 {
		return Book{}, errors.New("entries: there is none: write at least one price")
	}
	return NewBook(entries)
}

var secondDocument = regexp.MustCompile(`(?m)^(---|\.{3})(\s|$)`)

func (f fileEntry) entry() (Entry, error) {
	price, err := ParseDecimal(string(f.Price))
	if err != nil {
		return Entry{}, fmt.Errorf("price: %w", err)
	}
	hours := 1
	if f.Hours != nil {
		hours = *f.Hours
	}
	if hours < 1 {
		return Entry{}, fmt.Errorf("hours: %d is no number of hours: write 1 or more, or leave it out for a price per hour", hours)
	}
	date, err := time.Parse(DateLayout, f.Date)
	if err != nil {
		return Entry{}, fmt.Errorf("date: %q is no day: write when the price was seen, such as \"2026-02-19\"", f.Date)
	}
	return Entry{
		Flavor: f.Flavor, Region: f.Region, Hourly: price.Over(hours), Currency: f.Currency,
		Source: f.Source, Date: date, Note: strings.Join(strings.Fields(f.Note), " "), Excludes: strings.Join(strings.Fields(f.Excludes), " "),
	}, nil
}

// The forms of what an entry names; the flavor's is that of spec.provider.iks.flavor.
var (
	flavorForm   = regexp.MustCompile(`^[A-Za-z0-9]+([.-][A-Za-z0-9]+)*$`)
	regionForm   = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]*[a-z0-9])?$`)
	currencyForm = regexp.MustCompile(`^[A-Z]{3}$`)
	printable    = regexp.MustCompile(`^[[:graph:]]([[:print:]]*[[:graph:]])?$`)
	showing      = regexp.MustCompile(`^[\pL\pM\pN\pP\pS\p{Zs}]*$`)
)

// CheckFlavor says what is wrong with a flavor's name.
func CheckFlavor(flavor string) error {
	return form(flavorForm, flavor, "flavor: %q is no flavor: write it as the cloud does, such as bx2.2x8")
}

// CheckRegion says what is wrong with a region's name.
func CheckRegion(region string) error {
	return form(regionForm, region, "region: %q is no region: write it as the cloud does, such as eu-de, or any")
}

// CheckCurrency says what is wrong with a currency's name.
func CheckCurrency(currency string) error {
	return form(currencyForm, currency, "currency: %q is no currency: write its three letters, such as USD")
}

func (e Entry) check() error {
	for _, err := range []error{
		CheckFlavor(e.Flavor), CheckRegion(e.Region), CheckCurrency(e.Currency),
		form(printable, e.Source, "source: %q does not say where the price was seen: write a URL"),
		form(showing, e.Note, "note: %q is too long, or has characters that do not show: write plain text"),
		form(showing, e.Excludes, "excludes: %q is too long, or has characters that do not show: write plain text"),
	} {
		if err != nil {
			return err
		}
	}
	if e.Date.IsZero() {
		return errors.New("date: missing: write when the price was seen")
	}
	return nil
}

func form(pattern *regexp.Regexp, value, message string) error {
	if len(value) > 512 || !pattern.MatchString(value) {
		return fmt.Errorf(message, value)
	}
	return nil
}

// oneLine makes one sentence of what the YAML library says in several lines.
func oneLine(err error) error {
	text := strings.TrimPrefix(err.Error(), "error converting YAML to JSON: ")
	text = strings.TrimPrefix(text, "error unmarshaling JSON: while decoding JSON: ")
	return fmt.Errorf("this is no price book: %s", strings.Join(strings.Fields(text), " "))
}
