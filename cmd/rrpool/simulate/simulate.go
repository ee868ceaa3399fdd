// Package simulate is the command that says what a topology makes of a cluster of any
// size, and which failures it survives.
package simulate

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/rrpool/rrpool/cmd/rrpool/invent"
	"github.com/rrpool/rrpool/cmd/rrpool/iostreams"
	"github.com/rrpool/rrpool/cmd/rrpool/snapshot"
	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/config/crd"
)

// request is what the flags ask.
type request struct {
	cmd                                                                                *cobra.Command
	nodes, zones, reflectors, racks, redundancy, perClient, maxClients, maxPaths, fail iostreams.Count
	topology, output                                                                   *iostreams.Choice
	file, outputFile                                                                   string
	compare                                                                            bool
	// cluster is what they and the file come to.
	cluster invent.Cluster
}

// mostNodes is the largest cluster that is simulated.
const mostNodes = 50000

// kinds are the topologies by the words of --topology.
var kinds = map[string]v1alpha1.TopologyType{
	"single": v1alpha1.TopologySingle, "quorum": v1alpha1.TopologyQuorum, "hierarchy": v1alpha1.TopologyHierarchy,
	"multicluster": v1alpha1.TopologyMultiCluster, "auto": v1alpha1.TopologyAuto,
}

// New makes the command.
func New(s iostreams.Streams) *cobra.Command {
	r := &request{}
	cmd := &cobra.Command{
		Use:   "simulate",
		Short: "What a topology makes of a cluster of any size, and what it survives",
		Long: `What a topology makes of a cluster of any size: how many reflectors and BGPPeers it takes, how many clients, sessions
and paths there are, how much memory BIRD needs, and whether any zone, and any so many reflectors, may fail.

No cluster is asked. The manager's own planner arranges the nodes, and BGP is simulated as Calico configures BIRD.
--nodes counts the nodes that run workloads, --reflectors the pool. -f names a file with a RouteReflectorPool.

Exit codes: 0 there is an answer, 1 there is none, or the manager would refuse what was asked about.`,
		Example: `  rrpool simulate --nodes 2000 --zones 3 --topology quorum --fail 2
  rrpool simulate --nodes 2000 --zones 3 --compare
  rrpool simulate --nodes 5000 --racks 10 --topology hierarchy
  rrpool simulate -f pool.yaml --nodes 500 -o json`,
		Args: iostreams.NoArguments, RunE: func(*cobra.Command, []string) error { return r.run(s) },
	}
	r.register(cmd)
	return cmd
}

func (r *request) register(cmd *cobra.Command) {
	r.cmd, r.output = cmd, iostreams.NewChoice("table", "json", "yaml")
	r.topology = iostreams.NewChoice("auto", "single", "quorum", "hierarchy", "multicluster")
	set := cmd.Flags()
	set.SortFlags = false
	count := func(c *iostreams.Count, most int, name, usage string) {
		c.Least, c.Most = 1, most
		set.Var(c, name, usage)
		cobra.CheckErr(cmd.RegisterFlagCompletionFunc(name, cobra.FixedCompletions(nil, cobra.ShellCompDirectiveNoFileComp)))
	}
	count(&r.nodes, mostNodes, "nodes", "nodes that run workloads")
	count(&r.zones, 100, "zones", "zones of the cluster; default 1")
	r.topology.Register(cmd, "topology", "", "topology: auto, single, quorum, hierarchy or multicluster; default that of the file")
	set.BoolVar(&r.compare, "compare", false, "all topologies beside each other, and which one Auto takes")
	count(&r.fail, 10, "fail", "which sets of so many reflectors may fail together")
	count(&r.reflectors, 100, "reflectors", "size of the pool, all zones together; default as many as sizing and topology take")
	count(&r.redundancy, 100, "redundancy", "spec.topology.redundancy: reflectors that keep two clients connected")
	count(&r.racks, 300, "racks", "racks that the nodes are labelled with; default none")
	count(&r.maxClients, mostNodes, "max-clients", "spec.topology.maxClientsPerReflector")
	count(&r.maxPaths, 1000000, "max-paths", "spec.topology.maxPathsPerPrefix")
	count(&r.perClient, 100, "per-client", "quorum by hand: each client has exactly so many reflectors, and every combination of them its clients")
	set.StringVarP(&r.file, "filename", "f", "", "file with a RouteReflectorPool, whose spec counts; - for standard input")
	r.output.Register(cmd, "output", "o", "format: table, json or yaml")
	set.StringVar(&r.outputFile, "output-file", "", "write to this file instead of standard output")
	cobra.CheckErr(cmd.MarkFlagFilename("filename", "yaml", "yml", "json"))
}

func (r *request) run(s iostreams.Streams) error {
	if err := r.complete(s); err != nil {
		return err
	}
	v, err := r.answer()
	if err != nil {
		return err
	}
	if err := s.Emit("simulation", r.outputFile, func(s iostreams.Streams) error { return r.render(s, v) }); err != nil {
		return err
	}
	if refused := v.Topologies[0].Refused; !r.compare && refused != nil {
		return &iostreams.ExitError{Code: 1, Err: errors.New(refused.Reason + ": " + refused.Message)}
	}
	return nil
}

func (r *request) render(s iostreams.Streams, v view) error {
	switch r.output.Value {
	case "json":
		return iostreams.WriteJSON(s.Out, v)
	case "yaml":
		return iostreams.WriteYAML(s.Out, v)
	}
	printTable(s, v)
	return nil
}

// complete reads the file, applies the flags to its spec and refuses what does not fit.
func (r *request) complete(s iostreams.Streams) error {
	if err := r.checkFlags(); err != nil {
		return err
	}
	object, err := snapshot.Object(r.file, s.In)
	if err == nil && object == nil {
		if object, err = crd.Default(); err == nil {
			object.Spec.Topology.Type = v1alpha1.TopologyAuto
		}
	}
	if err != nil {
		return err
	}
	r.cluster = invent.Cluster{
		Spec: object.Spec, Nodes: r.nodes.Value, Reflectors: r.reflectors.Value, Racks: r.racks.Value,
		Zones: invent.Zones(r.zones.Value, object.Spec, 1),
	}
	r.override(&r.cluster.Spec.Topology)
	return r.cluster.Check()
}

// override writes what flags say over what the file says.
func (r *request) override(spec *v1alpha1.TopologySpec) {
	if r.cmd.Flags().Changed("topology") {
		spec.Type = kinds[r.topology.Value]
	}
	for field, flag := range map[*int32]iostreams.Count{
		&spec.Redundancy: r.redundancy, &spec.MaxClientsPerReflector: r.maxClients, &spec.MaxPathsPerPrefix: r.maxPaths,
	} {
		if flag.Value > 0 {
			*field = int32(flag.Value) //nolint:gosec // G115: at most a million
		}
	}
}

// checkFlags refuses flags that do not go together.
func (r *request) checkFlags() error {
	given := r.cmd.Flags().Changed
	for _, two := range [][2]string{{"compare", "topology"}, {"compare", "per-client"}, {"per-client", "redundancy"}, {"per-client", "racks"}} {
		if given(two[0]) && given(two[1]) {
			return fmt.Errorf("--%s %s and --%s %s exclude each other: leave out one of them",
				two[0], r.cmd.Flag(two[0]).Value, two[1], r.cmd.Flag(two[1]).Value)
		}
	}
	if n := r.perClient.Value; n > 0 && (r.topology.Value != "quorum" || r.reflectors.Value < n) {
		return fmt.Errorf("--per-client: %d is so many reflectors of a quorum: give --topology quorum, and --reflectors with at least %d", n, n)
	}
	return nil
}
