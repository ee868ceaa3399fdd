package main

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/rrpool/rrpool/cloud/cost"
)

// The values of flags refuse what makes no sense where it is given: pflag then
// names the flag and the value, and we say what to write instead.

// choice is one of some words.
type choice struct {
	value   string
	choices []string
}

func newChoice(choices ...string) *choice { return &choice{value: choices[0], choices: choices} }

// String implements pflag.Value.
func (c *choice) String() string { return c.value }

// Type implements pflag.Value.
func (*choice) Type() string { return "format" }

// Set implements pflag.Value.
func (c *choice) Set(text string) error {
	if !slices.Contains(c.choices, text) {
		return fmt.Errorf("use %s", strings.Join(c.choices, ", "))
	}
	c.value = text
	return nil
}

func (c *choice) register(cmd *cobra.Command, long, short, usage string) {
	cmd.Flags().VarP(c, long, short, usage)
	cobra.CheckErr(cmd.RegisterFlagCompletionFunc(long, cobra.FixedCompletions(c.choices, cobra.ShellCompDirectiveNoFileComp)))
}

// count is a whole number within bounds.
type count struct{ value, least, most int }

// String implements pflag.Value.
func (c *count) String() string {
	if c.value == 0 {
		return ""
	}
	return strconv.Itoa(c.value)
}

// Type implements pflag.Value.
func (*count) Type() string { return "number" }

// Set implements pflag.Value.
func (c *count) Set(text string) error {
	number, err := strconv.Atoi(text)
	if err != nil || number < c.least || number > c.most {
		return fmt.Errorf("use a whole number from %d to %d", c.least, c.most)
	}
	c.value = number
	return nil
}

// price is an amount of money.
type price struct {
	text  string
	value cost.Decimal
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
	p.text, p.value = text, value
	return nil
}

// word is a name in a form that check knows.
type word struct {
	value, kind string
	check       func(string) error
}

// String implements pflag.Value.
func (w *word) String() string { return w.value }

// Type implements pflag.Value.
func (w *word) Type() string { return w.kind }

// Set implements pflag.Value.
func (w *word) Set(text string) error {
	if err := w.check(text); err != nil {
		_, remedy, _ := strings.Cut(err.Error(), ": write ")
		return errors.New("write " + remedy)
	}
	w.value = text
	return nil
}
