// Package cost knows what workers cost and adds it up: a price book with source
// and date for each price, and exact arithmetic on it. It is pure: no network, no
// clock, no client. A price that is not in the book is unknown, never guessed.
package cost

import (
	"errors"
	"math/big"
	"regexp"
	"strings"
)

// Decimal is an exact amount, never negative. The zero value is 0. It is rounded
// where it is printed and nowhere else, so sums do not depend on their order.
type Decimal struct{ rat *big.Rat }

// decimalForm keeps exponents and fractions out: no price is written like that,
// and 1e999999999 would be computed for ever.
var decimalForm = regexp.MustCompile(`^\d{1,9}(\.\d{1,18})?$`)

// ParseDecimal reads digits with at most one point between them, such as 0.11. The error
// says what to write instead.
func ParseDecimal(text string) (Decimal, error) {
	if !decimalForm.MatchString(text) {
		return Decimal{}, errors.New("write a decimal of 0 or more, such as 0.11")
	}
	rat, _ := new(big.Rat).SetString(text)
	return Decimal{rat: rat}, nil
}

// Plus is the sum.
func (d Decimal) Plus(other Decimal) Decimal {
	return Decimal{rat: new(big.Rat).Add(d.exact(), other.exact())}
}

// Times is the product with a number of 0 or more.
func (d Decimal) Times(number int) Decimal {
	return Decimal{rat: new(big.Rat).Mul(d.exact(), new(big.Rat).SetInt64(int64(max(number, 0))))}
}

// Over is the quotient with a number of 1 or more.
func (d Decimal) Over(number int) Decimal {
	return Decimal{rat: new(big.Rat).Quo(d.exact(), new(big.Rat).SetInt64(int64(max(number, 1))))}
}

// Cmp is -1, 0 or 1 when d is less than, equal to or greater than other.
func (d Decimal) Cmp(other Decimal) int { return d.exact().Cmp(other.exact()) }

// IsZero says whether the amount is nothing.
func (d Decimal) IsZero() bool { return d.exact().Sign() == 0 }

// Round prints the amount with that many decimal places, the last one rounded half up.
func (d Decimal) Round(places int) string { return d.exact().FloatString(places) }

// Short is Round without zeros at the end.
func (d Decimal) Short(places int) string {
	text := d.Round(places)
	if !strings.Contains(text, ".") {
		return text
	}
	return strings.TrimRight(strings.TrimRight(text, "0"), ".")
}

// Percent is how many hundredths of whole the amount is; whole must not be 0.
func (d Decimal) Percent(whole Decimal) Decimal {
	return Decimal{rat: new(big.Rat).Quo(d.Times(100).exact(), whole.exact())}
}

func (d Decimal) exact() *big.Rat {
	if d.rat == nil {
		return new(big.Rat)
	}
	return d.rat
}
