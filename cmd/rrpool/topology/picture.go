// Package topology is the command that draws the topology of the route reflectors.
package topology

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/rrpool/rrpool/cmd/rrpool/iostreams"
	"github.com/rrpool/rrpool/cmd/rrpool/snapshot"
	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/config/crd"
)

// pictureFlags are the flags of `rrpool topology`.
type pictureFlags struct {
	snapshot.Flags
	set                             *pflag.FlagSet
	nodes, zones, reflectors, racks iostreams.Count
	file, outputFile                string
	topology, output                *iostreams.Choice
}

// New makes the command.
func New(s iostreams.Streams) *cobra.Command {
	f := &pictureFlags{
		nodes:      iostreams.Count{Least: 1, Most: 100000},
		zones:      iostreams.Count{Least: 1, Most: 100},
		reflectors: iostreams.Count{Least: 1, Most: 1000},
		racks:      iostreams.Count{Least: 1, Most: 200},
		topology:   iostreams.NewChoice("single", "quorum", "hierarchy", "multicluster", "auto"),
		output:     iostreams.NewChoice("svg", "dot", "mermaid", "json", "html"),
	}
	cmd := &cobra.Command{
		Use:   "topology",
		Short: "Draw the route reflectors, their clients and their sessions",
		Long: `Draws the zones of a cluster with their route reflectors and clients, and the BGP sessions between them with
their states. Clients are drawn as groups with a count, so the picture stays readable with thousands of nodes.

A frame is a zone; in a Hierarchy it is a rack, with the spines that join the racks above them.

Without flags it looks at the cluster of the kubeconfig. With --nodes it draws a cluster that you think of, and
needs none: of the topology that you say, as large as the default sizing makes it, or the one of the
RouteReflectorPool given with -f, or with as many --reflectors as you say.

The same network gives the same picture, byte for byte.`,
		Example: `  rrpool topology --output-file topology.svg
  rrpool topology -o mermaid
  rrpool topology --nodes 500 --zones 3 -o html --output-file topology.html
  rrpool topology --nodes 5000 --zones 3 --topology hierarchy --output-file topology.svg
  rrpool topology -f pool.yaml --nodes 500 -o dot | dot -Tpdf > topology.pdf`,
		Args: iostreams.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd, s) },
	}
	f.register(cmd)
	return cmd
}

func (f *pictureFlags) register(cmd *cobra.Command) {
	f.set = cmd.Flags()
	f.set.SortFlags = false
	f.set.Var(&f.nodes, "nodes", "draw a cluster of that many nodes, without those of a dedicated pool; no cluster is asked")
	f.set.Var(&f.zones, "zones", "zones of that cluster; default: those in the file, else 1")
	f.topology.Register(cmd, "topology", "", "its topology: single, quorum, hierarchy, multicluster or auto; it counts before that of the file")
	f.set.Var(&f.racks, "racks", "racks that its nodes are labelled with; default: none")
	f.set.Var(&f.reflectors, "reflectors", "reflectors of that cluster, all zones together; default: what sizing and topology give")
	f.set.StringVarP(&f.file, "filename", "f", "", "file with a RouteReflectorPool, whose spec counts; - for standard input")
	f.output.Register(cmd, "output", "o", "format: svg, dot, mermaid, json or html")
	f.set.StringVar(&f.outputFile, "output-file", "", "write to this file instead of standard output")
	f.Register(f.set)
	none := cobra.FixedCompletions(nil, cobra.ShellCompDirectiveNoFileComp)
	for _, flag := range []string{"nodes", "zones", "racks", "reflectors"} {
		cobra.CheckErr(cmd.RegisterFlagCompletionFunc(flag, none))
	}
}

func (f *pictureFlags) given(flag string) bool { return f.set.Changed(flag) }

func (f *pictureFlags) run(cmd *cobra.Command, s iostreams.Streams) error {
	n, err := f.network(cmd, s)
	if err != nil {
		return err
	}
	render := map[string]func(iostreams.Streams, *Network) error{
		"svg": svgOf, "dot": dotOf, "mermaid": mermaidOf, "json": jsonOf, "html": htmlOf,
	}[f.output.Value]
	if err := s.Emit("picture", f.outputFile, func(s iostreams.Streams) error { return render(s, &n) }); err != nil {
		return err
	}
	for _, warning := range n.Warnings {
		_, _ = fmt.Fprintf(s.Err, "%s\n", s.Fold("‼ "+warning, "  "))
	}
	return nil
}

// network is what is to be drawn.
func (f *pictureFlags) network(cmd *cobra.Command, s iostreams.Streams) (Network, error) {
	if err := f.check(); err != nil {
		return Network{}, err
	}
	if !f.given("nodes") {
		n, err := f.look(cmd.Context())
		if err != nil && !errors.Is(err, iostreams.ErrInterrupted) {
			return Network{}, fmt.Errorf("%w; without a cluster: %s --nodes 500 --zones 3", err, cmd.CommandPath())
		}
		return n, err
	}
	object, err := f.object(s)
	if err != nil {
		return Network{}, err
	}
	if f.given("topology") {
		object.Spec.Topology.Type = plans[f.topology.Value]
	}
	return invent(wish{object: object, nodes: f.nodes.Value, zones: f.zones.Value, reflectors: f.reflectors.Value, racks: f.racks.Value})
}

// check refuses flags that do not go together.
func (f *pictureFlags) check() error {
	alone := []string{"zones", "topology", "racks", "reflectors", "filename"}
	clusters := []string{"kubeconfig", "context", "namespace"}
	given := func(flag string) bool { return f.given(flag) }
	if f.given("nodes") {
		if i := slices.IndexFunc(clusters, given); i >= 0 {
			return fmt.Errorf("--nodes %d and --%s exclude each other: with --nodes no cluster is asked; leave out one of them", f.nodes.Value, clusters[i])
		}
		return nil
	}
	if i := slices.IndexFunc(alone, given); i >= 0 {
		return fmt.Errorf("--nodes: missing, and --%s is about a cluster that you think of: say how many nodes it has, such as --nodes 500", alone[i])
	}
	return nil
}

// object is the RouteReflectorPool of the file, else one with the defaults.
func (f *pictureFlags) object(s iostreams.Streams) (*v1alpha1.RouteReflectorPool, error) {
	if f.file == "" {
		return crd.Default()
	}
	return snapshot.Object(f.file, s.In)
}

// look draws the cluster.
func (f *pictureFlags) look(ctx context.Context) (Network, error) {
	connection, err := f.Connect()
	if err != nil {
		return Network{}, err
	}
	seen, err := snapshot.Take(ctx, connection, f.Namespace, nil, false)
	if err != nil {
		return Network{}, err
	}
	o := observed{Cluster: seen.Cluster, name: connection.Name, provider: seen.Provider}
	if seen.Stored {
		o.step = seen.Step.Name
		o.coming = seen.Object.Spec.Mode != v1alpha1.ModeFullMesh && seen.Object.DeletionTimestamp == nil
	}
	n := live(o)
	if len(n.Zones) == 0 && len(n.Warnings) > 0 {
		return Network{}, fmt.Errorf("there is nothing to draw in the cluster of context %q: %s", connection.Name, n.Warnings[0])
	}
	return n, nil
}
