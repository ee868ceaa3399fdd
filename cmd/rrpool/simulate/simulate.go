// Package simulate is the command that says what a topology makes of a cluster of any
// size, and which failures it survives.
package simulate

import (
	"errors"

	"github.com/spf13/cobra"

	"github.com/rrpool/rrpool/cmd/rrpool/invent"
	"github.com/rrpool/rrpool/cmd/rrpool/iostreams"
)

// request is what the flags ask.
type request struct {
	invent.Flags
	output  *iostreams.Choice
	compare bool
	// cluster is what they and the file come to.
	cluster invent.Cluster
}

// New makes the command.
func New(s iostreams.Streams) *cobra.Command {
	r := &request{}
	cmd := iostreams.Command(&cobra.Command{
		Use:   "simulate",
		Short: "What a topology makes of a cluster of any size, and what it survives",
		Long: `What a topology makes of a cluster of any size: how many reflectors and BGPPeers it takes, how many clients, sessions
and paths there are, how much memory BIRD needs, and whether any zone, and how many reflectors, may fail.

No cluster is asked. The manager's own planner arranges the nodes, and BGP is simulated as Calico configures BIRD.
--nodes counts the nodes that run workloads, --reflectors the pool. -f names a file with a RouteReflectorPool.

Exit codes: 0 there is an answer, 1 there is none, or the manager would refuse what was asked about.`,
		Example: `  rrpool simulate --nodes 2000 --zones 3 --topology quorum
  rrpool simulate --nodes 2000 --zones 3 --compare
  rrpool simulate --nodes 5000 --racks 10 --topology hierarchy
  rrpool simulate -f pool.yaml --nodes 500 -o json`,
	}, func(cmd *cobra.Command) error { return r.run(cmd, s) })
	r.Register(cmd, "auto")
	cmd.Flags().BoolVar(&r.compare, "compare", false, "all topologies beside each other, and which one Auto takes")
	r.output = iostreams.Output(cmd)
	cmd.MarkFlagsMutuallyExclusive("compare", "topology")
	return cmd
}

func (r *request) run(cmd *cobra.Command, s iostreams.Streams) error {
	var err error
	if r.cluster, err = r.Cluster(cmd, s); err != nil {
		return err
	}
	v, err := r.answer()
	if err != nil {
		return err
	}
	if err := s.Print("simulation", r.output.Value, v, func(s iostreams.Streams) { printTable(s, v) }); err != nil {
		return err
	}
	if refused := v.Topologies[0].Refused; !r.compare && refused != nil {
		return errors.New(refused.Reason + ": " + refused.Message)
	}
	return nil
}
