// Package topology is the command that draws the topology of the route reflectors.
package topology

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/rrpool/rrpool/cmd/rrpool/invent"
	"github.com/rrpool/rrpool/cmd/rrpool/iostreams"
	"github.com/rrpool/rrpool/cmd/rrpool/snapshot"
	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/config/crd"
	"github.com/rrpool/rrpool/controllers/plan/topology"
)

// request is what the flags ask for.
type request struct {
	snapshot.Flags
	set                             *pflag.FlagSet
	nodes, zones, reflectors, racks iostreams.Count
	file, outputFile                string
	topology, output                *iostreams.Choice
}

// kinds are the topologies by the words of --topology.
var kinds = map[string]v1alpha1.TopologyType{
	"single": v1alpha1.TopologySingle, "quorum": v1alpha1.TopologyQuorum, "hierarchy": v1alpha1.TopologyHierarchy,
	"multicluster": v1alpha1.TopologyMultiCluster, "auto": v1alpha1.TopologyAuto,
}

// New makes the command.
func New(s iostreams.Streams) *cobra.Command {
	r := &request{
		topology: iostreams.NewChoice("single", "quorum", "hierarchy", "multicluster", "auto"),
		output:   iostreams.NewChoice("svg", "dot", "json", "yaml"),
	}
	cmd := &cobra.Command{
		Use:   "topology",
		Short: "Draw the route reflectors, their clients and their sessions",
		Long: `Draws the zones of a cluster with their route reflectors and clients, and the BGP sessions between them with
their states. Clients are drawn as groups with a count. In a Hierarchy a frame is a rack instead of a zone.

Without flags it reads the cluster of the kubeconfig. With --nodes it draws a planned cluster and reads none: with
the sizing and topology of the RouteReflectorPool given with -f, or else the defaults.

The same network gives the same bytes.`,
		Example: `  rrpool topology --output-file topology.svg
  rrpool topology --nodes 5000 --zones 3 --topology hierarchy --output-file topology.svg
  rrpool topology -f pool.yaml --nodes 500 -o dot | dot -Tpdf > topology.pdf`,
		Args: iostreams.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error { return r.run(cmd, s) },
	}
	r.register(cmd)
	return cmd
}

func (r *request) register(cmd *cobra.Command) {
	r.set = cmd.Flags()
	r.set.SortFlags = false
	number := func(c *iostreams.Count, most int, name, usage string) {
		c.Least, c.Most = 1, most
		r.set.Var(c, name, usage)
		cobra.CheckErr(cmd.RegisterFlagCompletionFunc(name, cobra.FixedCompletions(nil, cobra.ShellCompDirectiveNoFileComp)))
	}
	number(&r.nodes, 100000, "nodes", "nodes that run workloads; draws a planned cluster")
	number(&r.zones, 100, "zones", "zones of the planned cluster; default those in the file, else 1")
	r.topology.Register(cmd, "topology", "", "its topology: single, quorum, hierarchy, multicluster or auto; default that of the file")
	number(&r.racks, 200, "racks", "racks that its nodes are labelled with; default none")
	number(&r.reflectors, 1000, "reflectors", "size of the pool, all zones together; default as many as sizing and topology take")
	r.set.StringVarP(&r.file, "filename", "f", "", "file with a RouteReflectorPool, whose spec counts; - for standard input")
	r.output.Register(cmd, "output", "o", "format: svg, dot, json or yaml")
	r.set.StringVar(&r.outputFile, "output-file", "", "write to this file instead of standard output")
	r.Register(r.set)
}

func (r *request) run(cmd *cobra.Command, s iostreams.Streams) error {
	n, err := r.network(cmd, s)
	if err != nil {
		return err
	}
	if err := s.Emit("drawing", r.outputFile, func(s iostreams.Streams) error { return render(s.Out, r.output.Value, &n) }); err != nil {
		return err
	}
	for _, warning := range n.Warnings {
		_, _ = fmt.Fprintf(s.Err, "%s\n", s.Fold("‼ "+warning, "  "))
	}
	return nil
}

func render(out io.Writer, format string, n *Network) error {
	switch format {
	case "json":
		return iostreams.WriteJSON(out, n)
	case "yaml":
		return iostreams.WriteYAML(out, n)
	}
	_, err := io.WriteString(out, map[string]func(*Network) string{"svg": svg, "dot": dotGraph}[format](n))
	return err //nolint:wrapcheck // Emit adds what was written
}

// check refuses flags that do not go together.
func (r *request) check() error {
	ofCluster, ofPlan := []string{"kubeconfig", "context", "namespace"}, []string{"zones", "topology", "racks", "reflectors", "filename"}
	if i := slices.IndexFunc(ofCluster, r.set.Changed); i >= 0 && r.nodes.Value > 0 {
		return fmt.Errorf("--nodes %d and --%s exclude each other: with --nodes no cluster is read; leave out one of them", r.nodes.Value, ofCluster[i])
	}
	if i := slices.IndexFunc(ofPlan, r.set.Changed); i >= 0 && r.nodes.Value == 0 {
		return fmt.Errorf("--nodes: missing, and --%s is about a planned cluster: say how many nodes run workloads, such as --nodes 500", ofPlan[i])
	}
	return nil
}

func (r *request) network(cmd *cobra.Command, s iostreams.Streams) (Network, error) {
	if err := r.check(); err != nil {
		return Network{}, err
	}
	if r.nodes.Value == 0 {
		n, err := r.read(cmd.Context())
		if err != nil && !errors.Is(err, iostreams.ErrInterrupted) {
			return n, fmt.Errorf("%w; without a cluster: %s --nodes 500 --zones 3", err, cmd.CommandPath())
		}
		return n, err
	}
	object, err := snapshot.Object(r.file, s.In)
	if err == nil && object == nil {
		object, err = crd.Default()
	}
	if err != nil {
		return Network{}, err
	}
	if r.set.Changed("topology") {
		object.Spec.Topology.Type = kinds[r.topology.Value]
	}
	return plannedNetwork(invent.Cluster{
		Spec: object.Spec, Nodes: r.nodes.Value, Reflectors: r.reflectors.Value, Racks: r.racks.Value,
		Zones: invent.Zones(r.zones.Value, object.Spec, 1),
	})
}

// read gives the network of the cluster of the kubeconfig.
func (r *request) read(ctx context.Context) (Network, error) {
	connection, err := r.Connect()
	if err != nil {
		return Network{}, err
	}
	seen, err := snapshot.Take(ctx, connection, r.Namespace, nil, false)
	if err != nil {
		return Network{}, err
	}
	spec := seen.Object.Spec
	o := observed{Cluster: seen.Cluster, name: connection.Name, provider: seen.Provider, roleLabel: spec.BGP.NodeLabel}
	if seen.Stored {
		o.step = seen.Step.Name
		o.wanted = spec.Mode != v1alpha1.ModeFullMesh && seen.Object.DeletionTimestamp == nil
	}
	n := networkOf(o)
	if len(n.Zones) == 0 && len(n.Warnings) > 0 {
		return n, fmt.Errorf("there is nothing to draw in the cluster of context %q: %s", connection.Name, n.Warnings[0])
	}
	return n, nil
}

// plannedNetwork is that of a planned cluster once its topology is complete.
func plannedNetwork(c invent.Cluster) (Network, error) {
	o := observed{provider: c.Spec.Provider.Type, planned: true, roleLabel: c.Spec.BGP.NodeLabel}
	if err := c.Check(); err != nil {
		return Network{}, err
	}
	var notes []string
	switch mesh := c.Spec.Mode == v1alpha1.ModeFullMesh; {
	case mesh && c.Reflectors > 0:
		return Network{}, fmt.Errorf("--reflectors: %d, but spec.mode is FullMesh, which has none: leave out one of them", c.Reflectors)
	case mesh:
		o.Nodes = c.Workloads(0)
	default:
		layout, err := o.arrange(c)
		if err != nil {
			return Network{}, err
		}
		if layout.Kind != v1alpha1.TopologySingle && layout.Depth > 1 {
			notes = []string{fmt.Sprintf("Any %s may fail at the same time: all clients still reach each other.", count(layout.Depth-1, "reflector"))}
		}
	}
	n := networkOf(o)
	n.Title, n.Notes = fmt.Sprintf("BGP topology for %s in %s", count(c.Nodes, "node"), count(len(c.Zones), "zone")), append(n.Notes, notes...)
	return n, nil
}

// arrange adds the nodes and BGPPeers that there are once the topology is complete.
func (o *observed) arrange(c invent.Cluster) (topology.Layout, error) {
	sized, err := c.Size(c.Spec.Topology.Type)
	if err == nil && sized.Problem != nil {
		err = errors.New(sized.Problem.Message)
	}
	if err != nil {
		return topology.Layout{}, err
	}
	clients, pool := c.Workloads(sized.PerZone*len(c.Zones)), c.Pool(sized.PerZone)
	layout := topology.Arrange(sized.Spec, topology.Session{}, clients, pool, c.Zones, sized.PerZone)
	for _, n := range layout.Written(append(pool, clients...), sized.RoleLabel) {
		if n.Slot != "" && n.Slot != topology.SlotSingle {
			n.Name = n.Slot
		}
		o.Nodes = append(o.Nodes, n)
	}
	off := false
	o.BGP.Mesh.Enabled, o.Peers = &off, layout.Peers
	return layout, nil
}
