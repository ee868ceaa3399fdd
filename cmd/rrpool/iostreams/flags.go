package iostreams

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
)

// The values of flags refuse what makes no sense where it is given: pflag then
// names the flag and the value, and we say what to write instead.

// Choice is one of some words.
type Choice struct {
	Value   string
	choices []string
}

// NewChoice is the first of the words unless told otherwise.
func NewChoice(choices ...string) *Choice { return &Choice{Value: choices[0], choices: choices} }

// String implements pflag.Value.
func (c *Choice) String() string { return c.Value }

// Type implements pflag.Value.
func (*Choice) Type() string { return "format" }

// Set implements pflag.Value.
func (c *Choice) Set(text string) error {
	if !slices.Contains(c.choices, text) {
		return fmt.Errorf("use %s", strings.Join(c.choices, ", "))
	}
	c.Value = text
	return nil
}

// Register makes it a flag of a command, which the shell can complete.
func (c *Choice) Register(cmd *cobra.Command, long, short, usage string) {
	cmd.Flags().VarP(c, long, short, usage)
	cobra.CheckErr(cmd.RegisterFlagCompletionFunc(long, cobra.FixedCompletions(c.choices, cobra.ShellCompDirectiveNoFileComp)))
}

// Count is a whole number within bounds.
type Count struct{ Value, Least, Most int }

// String implements pflag.Value.
func (c *Count) String() string {
	if c.Value == 0 {
		return ""
	}
	return strconv.Itoa(c.Value)
}

// Type implements pflag.Value.
func (*Count) Type() string { return "number" }

// Set implements pflag.Value.
func (c *Count) Set(text string) error {
	number, err := strconv.Atoi(text)
	if err != nil || number < c.Least || number > c.Most {
		return fmt.Errorf("use a whole number from %d to %d", c.Least, c.Most)
	}
	c.Value = number
	return nil
}
