// Package topology is the command `rrpool topology`. It draws the topology
// of a cluster, or prints the figures of a topology in an invented cluster.
package topology

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/spf13/cobra"

	"github.com/rrpool/rrpool/cmd/rrpool/invent"
	"github.com/rrpool/rrpool/cmd/rrpool/iostreams"
	"github.com/rrpool/rrpool/cmd/rrpool/snapshot"
	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/controllers/plan/topology"
)

// The formats of --output that the code refers to. dot is the language of Graphviz; all others show figures.
const (
	formatDot   = "dot"
	formatTable = "table"
)

// flags are those of `rrpool topology`.
type flags struct {
	snapshot.Flags
	invented invent.Flags
	compare  bool
	output   string
}

// New makes the command.
func New(s iostreams.Streams) *cobra.Command { return newCommand(s, &flags{}) }

// NewSimulate makes `rrpool simulate`, the former name of `rrpool topology -o table`.
func NewSimulate(s iostreams.Streams) *cobra.Command {
	f := &flags{}
	cmd := newCommand(s, f)
	cmd.Use, cmd.Hidden, f.output = "simulate", true, formatTable
	cmd.PreRun = func(*cobra.Command, []string) {
		_, _ = fmt.Fprintf(s.Err, "‼ %s is deprecated: use %s topology -o table\n", cmd.CommandPath(), cmd.Root().CommandPath())
	}
	return cmd
}

func newCommand(s iostreams.Streams, f *flags) *cobra.Command {
	cmd := iostreams.Command(&cobra.Command{
		Use:   "topology",
		Short: "Draw the route reflectors and their sessions, or compare topologies",
		Long: `Draws the zones of a cluster with their route reflectors and clients, and the BGP sessions between them with
their states, for Graphviz: its program dot makes a picture of it. Clients are drawn as groups with a count. In a
Hierarchy a frame is a rack instead of a zone. The same network gives the same bytes.

Without flags it reads the cluster of the kubeconfig. With --nodes it is about an invented cluster and reads none:
--nodes counts the nodes that run workloads, --reflectors the pool, -f names a file with a RouteReflectorPool.

With -o table it says what a topology comes to in an invented cluster: how many reflectors and BGPPeers it takes, how
many clients, sessions and paths there are, how much memory BIRD needs, and whether any zone, and how many reflectors,
may fail. The manager's own planner arranges the nodes, and BGP is simulated as Calico configures BIRD.

Exit codes: 0 there is an answer, 1 there is none, or the manager would refuse what was asked about.`,
		Example: `  rrpool topology | dot -Tsvg > topology.svg
  rrpool topology --nodes 5000 --zones 3 --topology hierarchy | dot -Tsvg > topology.svg
  rrpool topology --nodes 2000 --zones 3 -o table --compare
  rrpool topology --nodes 500 -f pool.yaml -o json`,
	}, func(cmd *cobra.Command) error { return f.run(cmd, s) })
	f.invented.Register(cmd)
	cmd.Flags().BoolVar(&f.compare, "compare", false, "all topologies beside each other, and which one Auto takes; not as a drawing")
	iostreams.Choice(cmd, &f.output, "output", "o", "`format`: dot, the default, or of an invented cluster table, json or yaml", formatDot, formatTable, "json", "yaml")
	f.Register(cmd.Flags())
	cmd.MarkFlagsMutuallyExclusive("compare", "topology")
	for _, ofCluster := range []string{"kubeconfig", "context", "namespace"} {
		cmd.MarkFlagsMutuallyExclusive("nodes", ofCluster)
	}
	return cmd
}

func (f *flags) run(cmd *cobra.Command, s iostreams.Streams) error {
	if f.invented.Nodes == 0 {
		return f.drawExisting(cmd, s)
	}
	c, err := f.invented.Cluster(cmd, s)
	switch {
	case err != nil:
		return err
	case f.output != formatDot:
		return f.tabulate(c, s)
	case f.compare:
		return errors.New("--compare: a drawing shows one topology: give --output table, json or yaml as well")
	}
	n, err := inventedDrawing(c)
	if err != nil {
		return err
	}
	return n.draw(s)
}

// drawExisting draws the cluster of the kubeconfig.
func (f *flags) drawExisting(cmd *cobra.Command, s iostreams.Streams) error {
	about := []string{"zones", "topology", "racks", "reflectors", "filename", "compare"}
	const remedy = "say how many nodes run workloads, such as --nodes 500"
	if i := slices.IndexFunc(about, cmd.Flags().Changed); i >= 0 {
		return fmt.Errorf("--nodes: missing, and --%s is about an invented cluster: %s", about[i], remedy)
	}
	if f.output != formatDot {
		return fmt.Errorf("--nodes: missing, and a %s is of an invented cluster: %s", f.output, remedy)
	}
	n, err := f.read(cmd.Context())
	switch {
	case errors.Is(err, iostreams.ErrInterrupted):
		return err
	case err != nil:
		return fmt.Errorf("%w; without a cluster: %s --nodes 500 --zones 3", err, cmd.CommandPath())
	}
	return n.draw(s)
}

// draw writes the drawing, and the warnings to standard error.
func (n *Drawing) draw(s iostreams.Streams) error {
	if err := s.Print("drawing", formatDot, nil, n.print); err != nil {
		return err
	}
	for _, warning := range n.Warnings {
		_, _ = fmt.Fprintf(s.Err, "%s\n", s.Fold("‼ "+warning, "  "))
	}
	return nil
}

func (n *Drawing) print(s iostreams.Streams) { _, _ = io.WriteString(s.Out, dotGraph(n)) }

// read returns the drawing of the cluster of the kubeconfig.
func (f *flags) read(ctx context.Context) (Drawing, error) {
	connection, err := f.Connect()
	if err != nil {
		return Drawing{}, err
	}
	seen, err := snapshot.Take(ctx, connection, f.Namespace, nil, false)
	if err != nil {
		return Drawing{}, err
	}
	spec := seen.Object.Spec
	o := observed{Cluster: seen.Cluster, name: connection.Name, roleLabel: spec.BGP.NodeLabel}
	if seen.Stored {
		o.step = seen.Step.Name
		o.wanted = spec.Mode != v1alpha1.ModeFullMesh && seen.Object.DeletionTimestamp == nil && seen.Provider != v1alpha1.ProviderExistingNodes
	}
	n := drawingOf(o)
	if len(n.Zones) == 0 && len(n.Warnings) > 0 {
		return n, fmt.Errorf("there is nothing to draw in the cluster of context %q: %s", connection.Name, n.Warnings[0])
	}
	return n, nil
}

// inventedDrawing returns the drawing of an invented cluster, in full mesh or with its complete topology.
func inventedDrawing(c invent.Cluster) (Drawing, error) {
	o := observed{invented: true, roleLabel: c.Spec.BGP.NodeLabel}
	var notes []string
	switch mesh := c.Spec.Mode == v1alpha1.ModeFullMesh; {
	case mesh && c.Reflectors > 0:
		return Drawing{}, fmt.Errorf("--reflectors: %d, but spec.mode is FullMesh, which has none: leave out one of them", c.Reflectors)
	case mesh:
		o.Cluster = c.InFullMesh()
	default:
		layout, err := o.arrange(c)
		if err != nil {
			return Drawing{}, err
		}
		if layout.Kind != v1alpha1.TopologySingle && layout.Depth > 1 {
			notes = []string{fmt.Sprintf("Any %s may fail at the same time: all clients still reach each other.", iostreams.Number(layout.Depth-1, "reflector"))}
		}
	}
	n := drawingOf(o)
	n.Title, n.Notes = fmt.Sprintf("BGP topology for %s in %s", iostreams.Number(c.Nodes, "node"), iostreams.Number(len(c.Zones), "zone")), append(n.Notes, notes...)
	return n, nil
}

// arrange sets the nodes and BGPPeers of the complete topology. Where slots differ (not in Single), the name of a reflector is its slot.
func (o *observed) arrange(c invent.Cluster) (topology.Layout, error) {
	sized, err := c.Size(c.Spec.Topology.Type)
	if err == nil && sized.Problem != nil {
		err = errors.New(sized.Problem.Message)
	}
	if err != nil {
		return topology.Layout{}, err
	}
	layout, arranged := c.Arrange(sized)
	for i := range arranged.Nodes {
		if n := &arranged.Nodes[i]; n.Slot != "" && n.Slot != topology.SlotSingle {
			n.Name = n.Slot
		}
	}
	o.Cluster = arranged
	return layout, nil
}
