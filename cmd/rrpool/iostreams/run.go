package iostreams

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
)

// Program is the name before each error.
const Program = "rrpool"

// ErrInterrupted is the error after Ctrl-C.
var ErrInterrupted = errors.New("interrupted")

// ExitCode is the error of a command that has said all, and only ends with this code.
type ExitCode int

// Error implements error.
func (c ExitCode) Error() string { return fmt.Sprintf("exit code %d", int(c)) }

// Run executes a command and returns the exit code: 0, an ExitCode, else 1.
// An error is one sentence on standard error.
func Run(ctx context.Context, root *cobra.Command, args []string, s Streams) int {
	root.SetIn(s.In)
	root.SetOut(s.Out)
	root.SetErr(s.Err)
	root.SilenceErrors, root.SilenceUsage = true, true
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return fmt.Errorf("%w (%s --help lists all flags)", err, cmd.CommandPath())
	})
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	var code ExitCode
	switch {
	case err == nil, errors.Is(err, syscall.EPIPE):
		return 0
	case errors.As(err, &code):
		return int(code)
	}
	_, _ = fmt.Fprintf(s.Err, "%s: %s\n", Program, Sentence(err))
	return 1
}

// Sentence is the error in one line.
func Sentence(err error) string { return strings.Join(strings.Fields(err.Error()), " ") }

// Command completes a command that takes flags only, which its help lists in the order in which they are added.
func Command(cmd *cobra.Command, run func(*cobra.Command) error) *cobra.Command {
	cmd.Flags().SortFlags = false
	cmd.Args = cobra.NoArgs
	cmd.RunE = func(cmd *cobra.Command, _ []string) error { return run(cmd) }
	return cmd
}

// Choice is a flag for one of some words, in capitals or not. pflag names the flag and the value in front of
// the errors of Choice and Count.
type Choice struct {
	Value   string
	choices []string
}

// NewChoice has the first of the words as its default.
func NewChoice(choices ...string) *Choice { return &Choice{Value: choices[0], choices: choices} }

// String implements pflag.Value.
func (c *Choice) String() string { return c.Value }

// Type implements pflag.Value.
func (*Choice) Type() string { return "format" }

// Set implements pflag.Value.
func (c *Choice) Set(text string) error {
	i := slices.IndexFunc(c.choices, func(choice string) bool { return strings.EqualFold(choice, text) })
	if i < 0 {
		return fmt.Errorf("use %s", strings.Join(c.choices, ", "))
	}
	c.Value = c.choices[i]
	return nil
}

// Register adds it to the flags of a command, with completion.
func (c *Choice) Register(cmd *cobra.Command, long, short, usage string) {
	cmd.Flags().VarP(c, long, short, usage)
	cobra.CheckErr(cmd.RegisterFlagCompletionFunc(long, cobra.FixedCompletions(c.choices, cobra.ShellCompDirectiveNoFileComp)))
}

// Count is a flag for a whole number within bounds.
type Count struct{ Value, Least, Most int }

// Register adds it to the flags of a command; nothing completes it.
func (c *Count) Register(cmd *cobra.Command, name, usage string) {
	cmd.Flags().Var(c, name, usage)
	CompleteNothing(cmd, name)
}

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

// CompleteNothing keeps the shell from offering files for a flag.
func CompleteNothing(cmd *cobra.Command, flag string) {
	cobra.CheckErr(cmd.RegisterFlagCompletionFunc(flag, cobra.NoFileCompletions))
}

// Output adds the flag for the format of a command's answer.
func Output(cmd *cobra.Command) *Choice {
	format := NewChoice("table", "json")
	format.Register(cmd, "output", "o", "format: table or json")
	return format
}

// Print renders a value as JSON, or as table does, into memory, then writes it to s.Out: a failure leaves no half
// of the output. Errors call the output what, such as "report".
func (s Streams) Print(what, format string, value any, table func(Streams)) error {
	var buffer bytes.Buffer
	if format != "json" {
		to := s
		to.Out = &buffer
		table(to)
	} else {
		encoder := json.NewEncoder(&buffer)
		encoder.SetEscapeHTML(false)
		encoder.SetIndent("", "  ")
		if err := encoder.Encode(value); err != nil {
			return fmt.Errorf("rendering the %s: %w", what, err)
		}
	}
	if _, err := io.WriteString(s.Out, Visible(buffer.String())); err != nil {
		return fmt.Errorf("writing the %s: %w", what, err)
	}
	return nil
}

// Reason is an error of the file system without the name of the file.
func Reason(err error) error {
	var reason syscall.Errno
	if errors.As(err, &reason) {
		return reason
	}
	return err
}
