package iostreams

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Program is the name that errors are told under.
const Program = "rrpool"

// ErrInterrupted is what is left to say after Ctrl-C.
var ErrInterrupted = errors.New("interrupted")

// ExitError is an error that carries an exit code of its own. Without Err nothing is said.
type ExitError struct {
	Code int
	Err  error
}

// Error implements error.
func (e *ExitError) Error() string {
	if e.Err == nil {
		return fmt.Sprintf("exit code %d", e.Code)
	}
	return e.Err.Error()
}

// Unwrap gives what is said.
func (e *ExitError) Unwrap() error { return e.Err }

// Run executes a command and gives the exit code: 0, the code of an ExitError, else 1,
// with one sentence on standard error.
func Run(ctx context.Context, root *cobra.Command, args []string, s Streams) int {
	root.SetIn(s.In)
	root.SetOut(s.Out)
	root.SetErr(s.Err)
	root.SilenceErrors, root.SilenceUsage = true, true
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		if errors.Is(err, pflag.ErrHelp) {
			return err
		}
		return fmt.Errorf("%w (%s --help lists all flags)", err, cmd.CommandPath())
	})
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	if err == nil || errors.Is(err, syscall.EPIPE) {
		return 0
	}
	var exit *ExitError
	if !errors.As(err, &exit) {
		exit = &ExitError{Code: 1, Err: err}
	}
	if exit.Err != nil {
		_, _ = fmt.Fprintf(s.Err, "%s: %s\n", Program, Sentence(err))
	}
	return exit.Code
}

// NoArguments refuses what is not a flag. For the program itself that is a command
// which does not exist.
func NoArguments(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	if cmd.HasParent() {
		return fmt.Errorf("unexpected argument %q: %s takes flags only", args[0], cmd.CommandPath())
	}
	var known []string
	for _, command := range cmd.Commands() {
		if command.IsAvailableCommand() {
			known = append(known, command.Name())
		}
	}
	return fmt.Errorf("unknown command %q: use one of %s", args[0], strings.Join(known, ", "))
}

// Sentence is the error in one line.
func Sentence(err error) string { return strings.Join(strings.Fields(err.Error()), " ") }

// WriteJSON writes a value, indented.
func WriteJSON(out io.Writer, value any) error {
	encoder := json.NewEncoder(out)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	return encoder.Encode(value) //nolint:wrapcheck // Run says it
}

// Emit renders first and writes then, to s.Out or as a whole to the file, if one is
// named: what cannot be rendered leaves no half of it. what is the word for it in
// errors, such as "report".
func (s Streams) Emit(what, file string, render func(Streams) error) error {
	var buffer bytes.Buffer
	to := s
	to.Out = &buffer
	if file != "" {
		to.Terminal, to.Colour, to.Width = false, false, 0
	}
	if err := render(to); err != nil {
		return fmt.Errorf("rendering the %s: %w", what, err)
	}
	content := []byte(Visible(buffer.String()))
	if file != "" {
		return WriteFile(file, content)
	}
	if _, err := s.Out.Write(content); err != nil {
		return fmt.Errorf("writing the %s: %w", what, err)
	}
	return nil
}
