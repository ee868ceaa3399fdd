package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// The names under which the program is installed.
const (
	name       = "rrpool"
	pluginFile = "kubectl-rrpool"
	pluginName = "kubectl rrpool"
)

// run gives the exit code. args begin with the program's own name.
func run(ctx context.Context, args []string, s surroundings) int {
	root := newRoot(calledAs(args), s)
	root.SetArgs(args[min(1, len(args)):])
	err := root.ExecuteContext(ctx)
	if err == nil || errors.Is(err, syscall.EPIPE) {
		return 0
	}
	_, _ = fmt.Fprintf(s.err, "%s: %s\n", name, sentence(err))
	var coded interface{ ExitCode() int }
	if errors.As(err, &coded) {
		return coded.ExitCode()
	}
	return 1
}

// calledAs is how the user calls the program.
func calledAs(args []string) string {
	if len(args) == 0 {
		return name
	}
	file := strings.TrimSuffix(filepath.Base(args[0]), ".exe")
	if file == pluginFile {
		return pluginName
	}
	return name
}

func newRoot(called string, s surroundings) *cobra.Command {
	root := &cobra.Command{
		Use:   name,
		Short: "Route reflectors for Calico, without losing a packet",
		Long: "rrpool answers questions about the route reflectors of a Calico cluster.\n\n" +
			"What was asked for goes to standard output, everything else to standard error.\n" +
			"Exit codes: 0 answered, 1 not answered (one sentence on standard error says why).",
		Annotations:   map[string]string{cobra.CommandDisplayNameAnnotation: called},
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return cmd.Help()
		},
	}
	root.SetOut(s.out)
	root.SetErr(s.err)
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		if errors.Is(err, pflag.ErrHelp) {
			return err
		}
		return fmt.Errorf("%w (%s --help lists all flags)", err, cmd.CommandPath())
	})
	root.AddCommand(newCost(s), newVersion(s))
	return root
}

// noArguments refuses what is not a flag. For the program itself that is a command
// which does not exist.
func noArguments(cmd *cobra.Command, args []string) error {
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

// sentence is the error in one line.
func sentence(err error) string { return strings.Join(strings.Fields(err.Error()), " ") }
