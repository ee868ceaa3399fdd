// Package cost knows what workers cost and adds it up: a price book with source
// and date for each price, and exact arithmetic on it. It is pure: no network, no
// clock, no client. A price that is not in the book is unknown, never guessed.
package cost

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"sigs.k8s.io/yaml"
)

// AnyRegion is the region of an entry that applies where no other entry does.
const AnyRegion = "any"

// Entry is what one worker of a flavor costs in a region, and who says so. It has the same form in price books and reports.
type Entry struct {
	Flavor string `json:"flavor"`
	// Region is an IBM Cloud region, or AnyRegion.
	Region string `json:"region"`
	// Price is the price of one worker for this number of Hours (0 means 1), a decimal, before tax and discounts.
	Price Amount `json:"price"`
	Hours int    `json:"hours,omitempty"`
	// Currency as an ISO 4217 code.
	Currency string `json:"currency"`
	// Date is the day on which the source said so, as in 2026-02-19.
	Date string `json:"date"`
	// Source is where the price was read: a URL, or the words of who gave it.
	Source string `json:"source"`
	// Note says more about the source. Optional.
	Note string `json:"note,omitempty"`
	// Excludes is what the source bills separately. A sum that contains such an entry is "at least". Optional.
	Excludes string `json:"excludes,omitempty"`

	// kubernetes says that the price leaves out the OpenShift licence, as all built-in ones do.
	kubernetes bool
}

// Amount is a decimal, which may have quotes in YAML and JSON.
type Amount string

// UnmarshalJSON implements json.Unmarshaler.
func (a *Amount) UnmarshalJSON(data []byte) error {
	text := string(data)
	if strings.HasPrefix(text, `"`) {
		if err := json.Unmarshal(data, &text); err != nil {
			return err //nolint:wrapcheck // the caller wraps
		}
	}
	*a = Amount(text)
	return nil
}

// Hourly returns the price for one hour.
func (e Entry) Hourly() *big.Rat {
	price, _ := ParseDecimal(string(e.Price)) // check has accepted it
	return price.Quo(price, big.NewRat(int64(max(e.Hours, 1)), 1))
}

// OlderThanAYear reports whether the price was seen more than a year ago.
func (e Entry) OlderThanAYear(now time.Time) bool {
	return e.Date < now.UTC().AddDate(-1, 0, 0).Format(time.DateOnly)
}

// Book is a list of prices in one currency. The first entry that fits a worker counts, so a book that should win is put
// in front of another. A parsed book has only one entry for a flavor and region, and those for AnyRegion come last.
type Book []Entry

//go:embed book.yaml
var builtin []byte

// Builtin returns the book that comes with this version.
var Builtin = sync.OnceValue(func() Book {
	book, err := Parse(builtin)
	if err != nil {
		panic(err) // does not happen: a test parses the same book
	}
	for i := range book {
		book[i].kubernetes = true
	}
	return book
})

// Find returns the price of a flavor in a region, nil for none.
func (b Book) Find(flavor, region string) *Entry {
	for i, e := range b {
		if e.Flavor == flavor && (e.Region == region || e.Region == AnyRegion) {
			return &b[i]
		}
	}
	return nil
}

// Parse reads a price book. The error names the entry, the field, the value and what to write instead.
func Parse(data []byte) (Book, error) {
	var file struct {
		Version int  `json:"version"`
		Entries Book `json:"entries"`
	}
	switch err := yaml.UnmarshalStrict(data, &file); {
	case err != nil:
		return nil, inOneLine(err)
	case secondDocument.Match(bytes.TrimPrefix(data, []byte("---\n"))):
		return nil, errors.New("the file has a second document after a line ---: write all entries into one")
	case file.Version != 1:
		return nil, fmt.Errorf("version: %d is not known: this version of rrpool reads version: 1", file.Version)
	case len(file.Entries) == 0:
		return nil, errors.New("entries: there is none: write at least one price")
	}
	seen := map[[2]string]int{}
	for i := range file.Entries {
		e := &file.Entries[i]
		e.Note, e.Excludes = strings.Join(strings.Fields(e.Note), " "), strings.Join(strings.Fields(e.Excludes), " ")
		if err := e.check(); err != nil {
			return nil, fmt.Errorf("entries[%d].%w", i, err)
		}
		if first := file.Entries[0].Currency; e.Currency != first {
			return nil, fmt.Errorf("entries[%d].currency: %q: entries[0] is in %s: write all prices in one currency", i, e.Currency, first)
		}
		key := [2]string{e.Flavor, e.Region}
		if first, double := seen[key]; double {
			return nil, fmt.Errorf("entries[%d]: %s in %s has a price in entries[%d] already: remove one", i, e.Flavor, e.Region, first)
		}
		seen[key] = i
	}
	last := map[string]int{AnyRegion: 1}
	slices.SortStableFunc(file.Entries, func(a, b Entry) int { return last[a.Region] - last[b.Region] })
	return file.Entries, nil
}

var secondDocument = regexp.MustCompile(`(?m)^(---|\.{3})(\s|$)`)

// Patterns of an entry's fields; flavorPattern is also that of spec.provider.iks.flavor.
var (
	flavorPattern   = regexp.MustCompile(`^[A-Za-z0-9]+([.-][A-Za-z0-9]+)*$`)
	regionPattern   = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]*[a-z0-9])?$`)
	hoursPattern    = regexp.MustCompile(`^\d+$`)
	currencyPattern = regexp.MustCompile(`^[A-Z]{3}$`)
	printable       = regexp.MustCompile(`^[[:graph:]]([[:print:]]*[[:graph:]])?$`)
	visible         = regexp.MustCompile(`^[\pL\pM\pN\pP\pS\p{Zs}]*$`)
)

// checkFlavor returns an error that says what to write instead if flavor is not valid.
func checkFlavor(flavor string) error {
	return checkFormat(flavorPattern, flavor, "write it as the cloud does, such as bx2.2x8")
}

// CheckRegion returns an error that says what to write instead if region is not valid.
func CheckRegion(region string) error {
	return checkFormat(regionPattern, region, "write it as the cloud does, such as eu-de, or any")
}

func (e Entry) check() error {
	_, price := ParseDecimal(string(e.Price))
	date := error(nil)
	if _, err := time.Parse(time.DateOnly, e.Date); err != nil {
		date = errors.New(`write when the price was seen, such as "2026-02-19"`)
	}
	const plain = "write plain text of at most 512 characters"
	for _, field := range []struct {
		name, value string
		err         error
	}{
		{"flavor", e.Flavor, checkFlavor(e.Flavor)},
		{"region", e.Region, CheckRegion(e.Region)},
		{"price", string(e.Price), price},
		{"hours", strconv.Itoa(e.Hours), checkFormat(hoursPattern, strconv.Itoa(e.Hours), "write 1 or more, or leave it out for a price per hour")},
		{"currency", e.Currency, checkFormat(currencyPattern, e.Currency, "write its three letters, such as USD")},
		{"date", e.Date, date},
		{"source", e.Source, checkFormat(printable, e.Source, "write a URL that says where the price was seen")},
		{"note", e.Note, checkFormat(visible, e.Note, plain)},
		{"excludes", e.Excludes, checkFormat(visible, e.Excludes, plain)},
	} {
		if field.err != nil {
			return fmt.Errorf("%s: %q: %w", field.name, field.value, field.err)
		}
	}
	return nil
}

func checkFormat(pattern *regexp.Regexp, value, remedy string) error {
	if len(value) > 512 || !pattern.MatchString(value) {
		return errors.New(remedy)
	}
	return nil
}

// inOneLine joins the lines of an error of the YAML library.
func inOneLine(err error) error {
	text := strings.TrimPrefix(err.Error(), "error converting YAML to JSON: ")
	text = strings.TrimPrefix(text, "error unmarshaling JSON: while decoding JSON: ")
	return fmt.Errorf("this is no price book: %s", strings.Join(strings.Fields(text), " "))
}

// decimalPattern excludes exponents and fractions: to compute 1e999999999 would take for ever.
var decimalPattern = regexp.MustCompile(`^\d{1,9}(\.\d{1,18})?$`)

// ParseDecimal reads digits with at most one point between them, such as 0.11. The error says what to write instead.
func ParseDecimal(text string) (*big.Rat, error) {
	if !decimalPattern.MatchString(text) {
		return nil, errors.New("write a decimal of 0 or more, such as 0.11")
	}
	exact, _ := new(big.Rat).SetString(text)
	return exact, nil
}

// times multiplies an amount.
func times(amount *big.Rat, number int) *big.Rat {
	return new(big.Rat).Mul(amount, big.NewRat(int64(number), 1))
}

// Short returns an amount rounded half up to a number of places, without zeros at its end.
func Short(amount *big.Rat, places int) string {
	text := amount.FloatString(places)
	if !strings.Contains(text, ".") {
		return text
	}
	return strings.TrimRight(strings.TrimRight(text, "0"), ".")
}
