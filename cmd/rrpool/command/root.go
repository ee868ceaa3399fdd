// Package command is the program rrpool: all its commands below one root.
package command

import (
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/rrpool/rrpool/cmd/rrpool/check"
	"github.com/rrpool/rrpool/cmd/rrpool/cost"
	"github.com/rrpool/rrpool/cmd/rrpool/importenv"
	"github.com/rrpool/rrpool/cmd/rrpool/iostreams"
	"github.com/rrpool/rrpool/cmd/rrpool/migrate"
	"github.com/rrpool/rrpool/cmd/rrpool/plan"
	"github.com/rrpool/rrpool/cmd/rrpool/report"
	"github.com/rrpool/rrpool/cmd/rrpool/simulate"
	"github.com/rrpool/rrpool/cmd/rrpool/status"
	"github.com/rrpool/rrpool/cmd/rrpool/topology"
)

// The names under which the program is installed.
const (
	pluginFile = "kubectl-rrpool"
	pluginName = "kubectl rrpool"
)

// CalledAs is how the user calls the program; args begin with its own name.
func CalledAs(args []string) string {
	if len(args) == 0 {
		return iostreams.Program
	}
	file := strings.TrimSuffix(filepath.Base(args[0]), ".exe")
	if file == pluginFile {
		return pluginName
	}
	return iostreams.Program
}

// New makes the program. called is how the user calls it.
func New(called string, s iostreams.Streams) *cobra.Command {
	root := &cobra.Command{
		Use:   iostreams.Program,
		Short: "Route reflectors for Calico, without losing a packet",
		Long: "rrpool answers questions about the route reflectors of a Calico cluster, and sends it onto them and back.\n\n" +
			"What was asked for goes to standard output, everything else to standard error.\n" +
			"Exit codes: 0 done or answered, 1 not (one sentence on standard error says why), 2 where plan finds changes.",
		Example: `  rrpool check --pre      is this cluster fit for route reflectors?
  rrpool plan             what would happen, and what would it cost?
  rrpool migrate          do it, and watch
  rrpool status --watch   where is it now?
  rrpool rollback         back to the full mesh`,
		Annotations: map[string]string{cobra.CommandDisplayNameAnnotation: called},
		Args:        iostreams.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return cmd.Help()
		},
	}
	root.AddCommand(
		check.New(s), plan.New(s), migrate.New(s), migrate.NewRollback(s), status.New(s), cost.New(s),
		topology.New(s), simulate.New(s), importenv.New(s), report.New(s), newVersion(s),
	)
	return root
}
