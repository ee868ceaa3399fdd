package main

import (
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/rrpool/rrpool/cmd/rrpool/cost"
	"github.com/rrpool/rrpool/cmd/rrpool/forecast"
	"github.com/rrpool/rrpool/cmd/rrpool/terminal"
)

// The names under which the program is installed.
const (
	pluginFile = "kubectl-rrpool"
	pluginName = "kubectl rrpool"
)

// calledAs is how the user calls the program.
func calledAs(args []string) string {
	if len(args) == 0 {
		return terminal.Program
	}
	file := strings.TrimSuffix(filepath.Base(args[0]), ".exe")
	if file == pluginFile {
		return pluginName
	}
	return terminal.Program
}

func newRoot(called string, s terminal.Streams) *cobra.Command {
	root := &cobra.Command{
		Use:   terminal.Program,
		Short: "Route reflectors for Calico, without losing a packet",
		Long: "rrpool answers questions about the route reflectors of a Calico cluster.\n\n" +
			"What was asked for goes to standard output, everything else to standard error.\n" +
			"Exit codes: 0 answered, 1 not answered (one sentence on standard error says why).",
		Annotations: map[string]string{cobra.CommandDisplayNameAnnotation: called},
		Args:        terminal.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return cmd.Help()
		},
	}
	root.AddCommand(cost.New(s), forecast.New(s), newVersion(s))
	return root
}
