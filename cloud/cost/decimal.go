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

// decimalForm keeps exponents and fractions out: no price is written like that,
// and 1e999999999 would be computed for ever.
var decimalForm = regexp.MustCompile(`^\d{1,9}(\.\d{1,18})?$`)

// ParseDecimal reads digits with at most one point between them, such as 0.11. The error says what to write instead.
func ParseDecimal(text string) (*big.Rat, error) {
	if !decimalForm.MatchString(text) {
		return nil, errors.New("write a decimal of 0 or more, such as 0.11")
	}
	exact, _ := new(big.Rat).SetString(text)
	return exact, nil
}

// times is so many of an amount.
func times(amount *big.Rat, number int) *big.Rat {
	return new(big.Rat).Mul(amount, big.NewRat(int64(number), 1))
}

// Short is an amount rounded half up to so many places, without zeros at its end.
func Short(amount *big.Rat, places int) string {
	text := amount.FloatString(places)
	if !strings.Contains(text, ".") {
		return text
	}
	return strings.TrimRight(strings.TrimRight(text, "0"), ".")
}
