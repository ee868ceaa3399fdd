// Package command makes the program rrpool: a root command and all commands below it.
package command

import (
	"fmt"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/rrpool/rrpool/cmd/rrpool/check"
	"github.com/rrpool/rrpool/cmd/rrpool/cost"
	"github.com/rrpool/rrpool/cmd/rrpool/iostreams"
	"github.com/rrpool/rrpool/cmd/rrpool/migrate"
	"github.com/rrpool/rrpool/cmd/rrpool/peering"
	"github.com/rrpool/rrpool/cmd/rrpool/plan"
	"github.com/rrpool/rrpool/cmd/rrpool/report"
	"github.com/rrpool/rrpool/cmd/rrpool/status"
	"github.com/rrpool/rrpool/cmd/rrpool/topology"
	"github.com/rrpool/rrpool/cmd/version"
)

// CalledAs returns how the user calls the program. args[0] is the name of its file.
func CalledAs(args []string) string {
	if len(args) > 0 && strings.TrimSuffix(filepath.Base(args[0]), ".exe") == "kubectl-rrpool" {
		return "kubectl rrpool"
	}
	return iostreams.Program
}

// New makes the program with all its commands. called is how the user calls it.
func New(called string, s iostreams.Streams) *cobra.Command {
	root := &cobra.Command{
		Use:   iostreams.Program,
		Short: "Route reflectors for Calico, without losing a packet",
		Long: "rrpool shows the route reflectors of a Calico cluster, and moves it from the BGP mesh to them and back.\n\n" +
			"Results go to standard output, everything else to standard error.\n" +
			"Exit codes: 0 success, 1 failure (one sentence on standard error says why), 2 where plan finds changes.",
		Example: `  rrpool check --pre      is this cluster fit for route reflectors?
  rrpool plan             what would happen, and what would it cost?
  rrpool migrate          do it, and watch
  rrpool status --watch   where is it now?
  rrpool rollback         back to the full mesh`,
		Annotations: map[string]string{cobra.CommandDisplayNameAnnotation: called},
		RunE:        func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.AddCommand(
		check.New(s), plan.New(s), migrate.New(s), migrate.NewRollback(s), status.New(s), cost.New(s),
		topology.New(s), topology.NewSimulate(s), peering.New(s), report.New(s), newVersion(s),
	)
	return root
}

func newVersion(s iostreams.Streams) *cobra.Command {
	return iostreams.Command(&cobra.Command{Use: "version", Short: "Print the version"}, func(*cobra.Command) error {
		_, err := fmt.Fprintln(s.Out, version.Get().Of(iostreams.Program))
		return err //nolint:wrapcheck // iostreams.Run says it
	})
}
