// Package topology is the command that draws the topology of the route reflectors.
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

// request is what the flags ask for.
type request struct {
	snapshot.Flags
	planned invent.Flags
}

// New makes the command.
func New(s iostreams.Streams) *cobra.Command {
	r := &request{}
	cmd := iostreams.Command(&cobra.Command{
		Use:   "topology",
		Short: "Draw the route reflectors, their clients and their sessions",
		Long: `Draws the zones of a cluster with their route reflectors and clients, and the BGP sessions between them with
their states, for Graphviz: its program dot makes a picture of it. Clients are drawn as groups with a count. In a
Hierarchy a frame is a rack instead of a zone.

Without flags it reads the cluster of the kubeconfig. With --nodes it draws a planned cluster and reads none: with
the sizing and topology of the RouteReflectorPool given with -f, or else the defaults.

The same network gives the same bytes.`,
		Example: `  rrpool topology | dot -Tsvg > topology.svg
  rrpool topology --nodes 5000 --zones 3 --topology hierarchy | dot -Tsvg > topology.svg
  rrpool topology -f pool.yaml --nodes 500 | dot -Tpdf > topology.pdf`,
	}, func(cmd *cobra.Command) error { return r.run(cmd, s) })
	r.planned.Register(cmd, v1alpha1.TopologySingle)
	r.Register(cmd.Flags())
	for _, ofCluster := range []string{"kubeconfig", "context", "namespace"} {
		cmd.MarkFlagsMutuallyExclusive("nodes", ofCluster)
	}
	return cmd
}

func (r *request) run(cmd *cobra.Command, s iostreams.Streams) error {
	n, err := r.network(cmd, s)
	if err != nil {
		return err
	}
	if err := s.Print("drawing", "dot", nil, n.print); err != nil {
		return err
	}
	for _, warning := range n.Warnings {
		_, _ = fmt.Fprintf(s.Err, "%s\n", s.Fold("‼ "+warning, "  "))
	}
	return nil
}

func (n *Network) print(s iostreams.Streams) { _, _ = io.WriteString(s.Out, dotGraph(n)) }

func (r *request) network(cmd *cobra.Command, s iostreams.Streams) (Network, error) {
	if r.planned.Nodes == 0 {
		ofPlan := []string{"zones", "topology", "racks", "reflectors", "filename"}
		if i := slices.IndexFunc(ofPlan, cmd.Flags().Changed); i >= 0 {
			return Network{}, fmt.Errorf("--nodes: missing, and --%s is about a planned cluster: say how many nodes run workloads, such as --nodes 500", ofPlan[i])
		}
		n, err := r.read(cmd.Context())
		if err != nil && !errors.Is(err, iostreams.ErrInterrupted) {
			return n, fmt.Errorf("%w; without a cluster: %s --nodes 500 --zones 3", err, cmd.CommandPath())
		}
		return n, err
	}
	planned, err := r.planned.Cluster(cmd, s)
	if err != nil {
		return Network{}, err
	}
	return plannedNetwork(planned)
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
	o := observed{Cluster: seen.Cluster, name: connection.Name, roleLabel: spec.BGP.NodeLabel}
	if seen.Stored {
		o.step = seen.Step.Name
		o.wanted = spec.Mode != v1alpha1.ModeFullMesh && seen.Object.DeletionTimestamp == nil && seen.Provider != v1alpha1.ProviderExistingNodes
	}
	n := networkOf(o)
	if len(n.Zones) == 0 && len(n.Warnings) > 0 {
		return n, fmt.Errorf("there is nothing to draw in the cluster of context %q: %s", connection.Name, n.Warnings[0])
	}
	return n, nil
}

// plannedNetwork is that of a planned cluster once its topology is complete.
func plannedNetwork(c invent.Cluster) (Network, error) {
	o := observed{planned: true, roleLabel: c.Spec.BGP.NodeLabel}
	var notes []string
	switch mesh := c.Spec.Mode == v1alpha1.ModeFullMesh; {
	case mesh && c.Reflectors > 0:
		return Network{}, fmt.Errorf("--reflectors: %d, but spec.mode is FullMesh, which has none: leave out one of them", c.Reflectors)
	case mesh:
		o.Cluster = c.InFullMesh()
	default:
		layout, err := o.arrange(c)
		if err != nil {
			return Network{}, err
		}
		if layout.Kind != v1alpha1.TopologySingle && layout.Depth > 1 {
			notes = []string{fmt.Sprintf("Any %s may fail at the same time: all clients still reach each other.", iostreams.Number(layout.Depth-1, "reflector"))}
		}
	}
	n := networkOf(o)
	n.Title, n.Notes = fmt.Sprintf("BGP topology for %s in %s", iostreams.Number(c.Nodes, "node"), iostreams.Number(len(c.Zones), "zone")), append(n.Notes, notes...)
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
	layout, arranged := c.Arrange(sized)
	for i := range arranged.Nodes {
		if n := &arranged.Nodes[i]; n.Slot != "" && n.Slot != topology.SlotSingle {
			n.Name = n.Slot
		}
	}
	o.Cluster = arranged
	return layout, nil
}
