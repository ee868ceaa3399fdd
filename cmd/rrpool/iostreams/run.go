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
	"sigs.k8s.io/yaml"
)

// Program is this program's name, put before each error.
const Program = "rrpool"

// ErrInterrupted is the error of a command that Ctrl-C has ended.
var ErrInterrupted = errors.New("interrupted")

// ExitError is the exit code of a command that has printed its answer, and prints no error.
type ExitError int

// Error implements error.
func (c ExitError) Error() string { return fmt.Sprintf("exit code %d", int(c)) }

// Run executes a command and returns the exit code: 0, the code of an ExitError, or 1 for any
// other error, which it prints as one sentence on standard error. A closed pipe is no error.
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
	var code ExitError
	switch {
	case err == nil, errors.Is(err, syscall.EPIPE):
		return 0
	case errors.As(err, &code):
		return int(code)
	}
	_, _ = fmt.Fprintf(s.Err, "%s: %s\n", Program, Sentence(err))
	return 1
}

// Sentence returns the error in one line.
func Sentence(err error) string { return strings.Join(strings.Fields(err.Error()), " ") }

// Command sets up a command that takes flags and no arguments. Its help lists the flags in the order in which they are added.
func Command(cmd *cobra.Command, run func(*cobra.Command) error) *cobra.Command {
	cmd.Flags().SortFlags = false
	cmd.Args = cobra.NoArgs
	cmd.RunE = func(cmd *cobra.Command, _ []string) error { return run(cmd) }
	return cmd
}

// File adds the flag -f for a file with a RouteReflectorPool.
func File(cmd *cobra.Command, to *string, usage string) {
	cmd.Flags().StringVarP(to, "filename", "f", "", usage)
	cobra.CheckErr(cmd.MarkFlagFilename("filename", "yaml", "yml", "json"))
}

// Choice adds a flag whose value is one of choices, in upper or lower case; the first is the default.
// The errors of Choice and Count do not name the flag and the value, as pflag puts both before them.
func Choice(cmd *cobra.Command, to *string, long, short, usage string, choices ...string) {
	*to = choices[0]
	cmd.Flags().FuncP(long, short, usage, func(text string) error {
		i := slices.IndexFunc(choices, func(choice string) bool { return strings.EqualFold(choice, text) })
		if i < 0 {
			return fmt.Errorf("use %s", strings.Join(choices, ", "))
		}
		*to = choices[i]
		return nil
	})
	cobra.CheckErr(cmd.RegisterFlagCompletionFunc(long, cobra.FixedCompletions(choices, cobra.ShellCompDirectiveNoFileComp)))
}

// Count adds a flag that takes a whole number within bounds.
func Count(cmd *cobra.Command, to *int, name string, least, most int, usage string) {
	cmd.Flags().Func(name, usage, func(text string) error {
		number, err := strconv.Atoi(text)
		if err != nil || number < least || number > most {
			return fmt.Errorf("use a whole number from %d to %d", least, most)
		}
		*to = number
		return nil
	})
	CompleteNothing(cmd, name)
}

// CompleteNothing keeps the shell from completing a flag with files.
func CompleteNothing(cmd *cobra.Command, flag string) {
	cobra.CheckErr(cmd.RegisterFlagCompletionFunc(flag, cobra.NoFileCompletions))
}

// Output adds the flag for the format of the answer.
func Output(cmd *cobra.Command, to *string) {
	Choice(cmd, to, "output", "o", "`format`: table, the default, json or yaml", "table", "json", "yaml")
}

// Print renders a value as JSON, as YAML or by calling table, and then writes it to s.Out.
// If rendering fails, nothing is written. Errors name the output by what, such as "report".
func (s Streams) Print(what, format string, value any, table func(Streams)) error {
	var buffer bytes.Buffer
	var err error
	switch format {
	case "json":
		encoder := json.NewEncoder(&buffer)
		encoder.SetEscapeHTML(false)
		encoder.SetIndent("", "  ")
		err = encoder.Encode(value)
	case "yaml":
		var content []byte
		content, err = yaml.Marshal(value)
		buffer.Write(content)
	default:
		to := s
		to.Out = &buffer
		table(to)
	}
	if err != nil {
		return fmt.Errorf("rendering the %s: %w", what, err)
	}
	if _, err := io.WriteString(s.Out, Visible(buffer.String())); err != nil {
		return fmt.Errorf("writing the %s: %w", what, err)
	}
	return nil
}

// Reason returns an error of the file system without the name of the file.
func Reason(err error) error {
	var reason syscall.Errno
	if errors.As(err, &reason) {
		return reason
	}
	return err
}
