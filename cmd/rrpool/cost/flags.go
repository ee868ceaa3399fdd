package cost

import (
	"errors"
	"strings"

	"github.com/rrpool/rrpool/cloud/cost"
)

// price is an amount of money.
type price struct {
	text  string
	Value cost.Decimal
}

// String implements pflag.Value.
func (p *price) String() string { return p.text }

// Type implements pflag.Value.
func (*price) Type() string { return "price" }

// Set implements pflag.Value.
func (p *price) Set(text string) error {
	value, err := cost.ParseDecimal(text)
	if err != nil {
		return errors.New("use a decimal of 0 or more, such as 0.11")
	}
	p.text, p.Value = text, value
	return nil
}

// word is a name in a form that check knows.
type word struct {
	Value, kind string
	check       func(string) error
}

// String implements pflag.Value.
func (w *word) String() string { return w.Value }

// Type implements pflag.Value.
func (w *word) Type() string { return w.kind }

// Set implements pflag.Value.
func (w *word) Set(text string) error {
	if err := w.check(text); err != nil {
		_, remedy, _ := strings.Cut(err.Error(), ": write ")
		return errors.New("write " + remedy)
	}
	w.Value = text
	return nil
}
