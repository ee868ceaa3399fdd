// Package simulate is the command that says what a topology makes of a cluster of any
// size, and which failures it survives.
package simulate

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"

	"github.com/rrpool/rrpool/cmd/rrpool/iostreams"
)

// New makes the command.
func New(s iostreams.Streams) *cobra.Command {
	f := newFlags()
	cmd := &cobra.Command{
		Use:   "simulate",
		Short: "What a topology makes of a cluster of any size, and what it survives",
		Long: `What a topology makes of a cluster of any size: how many reflectors and BGPPeers it takes, how many clients and
sessions each reflector gets, how many paths to a prefix the nodes hold, and how much memory BIRD needs for it. And
what it survives: the loss of each zone, and with --fail of any so many reflectors.

No cluster is asked. The manager's own planner arranges the nodes, and BGP is simulated as Calico configures BIRD.
--nodes counts all nodes, the reflectors among them; --clients counts the nodes besides them. With -f it is about the
RouteReflectorPool in that file. --compare shows all topologies beside each other, and which one Auto takes.

Exit codes: 0 there is an answer, 1 there is none, or the manager would refuse what was asked about.`,
		Example: `  rrpool simulate --nodes 2000 --zones 3 --topology quorum --fail 2
  rrpool simulate --nodes 2000 --zones 3 --compare
  rrpool simulate --nodes 5000 --racks 10 --topology hierarchy
  rrpool simulate -f pool.yaml --clients 500 -o json`,
		Args: iostreams.NoArguments,
		RunE: func(*cobra.Command, []string) error { return f.run(s) },
	}
	f.register(cmd)
	return cmd
}

func (f *flags) run(s iostreams.Streams) error {
	q, err := f.question(s)
	if err != nil {
		return err
	}
	v, err := answer(q)
	if err != nil {
		return err
	}
	render := map[string]func(iostreams.Streams, view) error{"table": tableOf, "json": jsonOf, "yaml": yamlOf}[f.output.Value]
	if err := s.Emit("simulation", f.outputFile, func(s iostreams.Streams) error { return render(s, v) }); err != nil {
		return err
	}
	if one := v.Topologies[0]; !q.compare && one.Refused != nil {
		return &iostreams.ExitError{Code: 1, Err: errors.New(one.Refused.Reason + ": " + one.Refused.Message)}
	}
	return nil
}

func jsonOf(s iostreams.Streams, v view) error { return iostreams.WriteJSON(s.Out, v) }

func yamlOf(s iostreams.Streams, v view) error {
	content, err := yaml.Marshal(v)
	if err != nil {
		return fmt.Errorf("encoding: %w", err)
	}
	_, err = s.Out.Write(content)
	return err //nolint:wrapcheck // Emit says it
}
