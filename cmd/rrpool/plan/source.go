package plan

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/rrpool/rrpool/cloud/cost"
	"github.com/rrpool/rrpool/cmd/rrpool/invent"
	"github.com/rrpool/rrpool/cmd/rrpool/iostreams"
	"github.com/rrpool/rrpool/cmd/rrpool/snapshot"
	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/config/crd"
	"github.com/rrpool/rrpool/controllers/plan"
	"github.com/rrpool/rrpool/controllers/pool"
)

// flags of `rrpool plan`.
type flags struct {
	snapshot.Flags
	cmd              *cobra.Command
	nodes, zones     iostreams.Count
	file, outputFile string
	provider, mode   *iostreams.Choice
	region           string
	output           *iostreams.Choice
}

// as leaves to the object what no flag says.
const as = "as-written"

func newFlags() *flags {
	return &flags{
		nodes: iostreams.Count{Least: 3, Most: 5000}, zones: iostreams.Count{Least: 1, Most: 100},
		provider: iostreams.NewChoice(as, string(v1alpha1.ProviderIKS), string(v1alpha1.ProviderExistingNodes)),
		mode:     iostreams.NewChoice(as, string(v1alpha1.ModeRouteReflector), string(v1alpha1.ModeFullMesh)),
		output:   iostreams.NewChoice("table", "json", "yaml"),
	}
}

func (f *flags) register(cmd *cobra.Command) {
	f.cmd = cmd
	set := cmd.Flags()
	set.SortFlags = false
	set.StringVarP(&f.file, "filename", "f", "", "plan for the RouteReflectorPool in this file instead of the cluster's own")
	f.mode.Register(cmd, "mode", "", "plan for this spec.mode: RouteReflector or FullMesh")
	set.Var(&f.nodes, "nodes", "plan for an invented cluster in full mesh with so many nodes that run workloads; no cluster is asked")
	set.Var(&f.zones, "zones", "zones of the invented cluster; default 3")
	f.provider.Register(cmd, "provider", "", "provider of the invented cluster: IKS or ExistingNodes")
	set.StringVar(&f.region, "region", "", "region whose prices count, such as eu-de; default that of the nodes")
	f.output.Register(cmd, "output", "o", "format: table, json or yaml")
	set.StringVar(&f.outputFile, "output-file", "", "write to this file instead of standard output")
	f.Register(set)
	cobra.CheckErr(cmd.MarkFlagFilename("filename", "yaml", "yml", "json"))
}

func (f *flags) given(name string) bool { return f.cmd.Flags().Changed(name) }

// check refuses what does not go together.
func (f *flags) check() error {
	if !f.given("nodes") {
		for _, name := range []string{"zones", "provider"} {
			if f.given(name) {
				return fmt.Errorf("--%s: is about an invented cluster: give --nodes as well", name)
			}
		}
	}
	for _, name := range []string{"kubeconfig", "context"} {
		if f.given("nodes") && f.given(name) {
			return fmt.Errorf("--nodes %d and --%s exclude each other: plan for an invented cluster, or for yours", f.nodes.Value, name)
		}
	}
	if f.region != "" {
		if err := cost.CheckRegion(f.region); err != nil {
			return fmt.Errorf("--region: %w", err)
		}
	}
	return nil
}

// look reads the cluster, or invents one.
func (f *flags) look(ctx context.Context, s iostreams.Streams) (in Input, err error) {
	if err := f.check(); err != nil {
		return in, err
	}
	object, err := snapshot.Object(f.file, s.In)
	if err != nil {
		return in, err
	}
	if f.given("nodes") {
		in.Snapshot, err = f.invent(object)
	} else {
		in.Snapshot, err = f.snapshot(ctx, object)
	}
	in.Now = s.Now()
	return in, err
}

// snapshot reads a cluster for its own object, or for another one.
func (f *flags) snapshot(ctx context.Context, object *v1alpha1.RouteReflectorPool) (*snapshot.Snapshot, error) {
	c, err := f.Connect()
	if err != nil {
		return nil, fmt.Errorf("%w; without a cluster: %s --nodes 500 --zones 3", err, f.cmd.CommandPath())
	}
	if object == nil {
		if object, err = c.Pool(ctx); err != nil {
			return nil, err
		}
	}
	if object, err = f.complete(object); err != nil {
		return nil, err
	}
	return snapshot.Take(ctx, c, f.Namespace, object, true)
}

// complete is the object with the mode that is asked for, one with all defaults where there is none.
func (f *flags) complete(object *v1alpha1.RouteReflectorPool) (*v1alpha1.RouteReflectorPool, error) {
	if object == nil {
		var err error
		if object, err = crd.Default(); err != nil {
			return nil, err
		}
	}
	if f.mode.Value != as {
		object.Spec.Mode = v1alpha1.Mode(f.mode.Value)
	}
	return object, nil
}

func (f *flags) invent(object *v1alpha1.RouteReflectorPool) (*snapshot.Snapshot, error) {
	object, err := f.complete(object)
	if err != nil {
		return nil, err
	}
	provider := object.Spec.Provider.Type
	switch {
	case f.provider.Value != as:
		provider = v1alpha1.ProviderType(f.provider.Value)
	case provider == v1alpha1.ProviderAuto:
		provider = v1alpha1.ProviderIKS
	}
	if len(object.Spec.Provider.IKS.Zones) > 0 && provider == v1alpha1.ProviderIKS {
		return nil, errors.New("--filename: spec.provider.iks.zones names zones, and those of an invented cluster are zone-1, zone-2, …: leave the field out, or --nodes")
	}
	invented := invent.Cluster{Spec: object.Spec, Nodes: f.nodes.Value, Zones: invent.Names("zone-", cmp.Or(f.zones.Value, min(3, f.nodes.Value)))}
	if err := invented.Check(); err != nil {
		return nil, err
	}
	return &snapshot.Snapshot{Object: object, Scope: pool.Scope{Cluster: inFullMesh(invented, provider), Provider: provider}}, nil
}

// inFullMesh is an invented cluster before anything is done to it.
func inFullMesh(c invent.Cluster, provider v1alpha1.ProviderType) plan.Cluster {
	out := plan.Cluster{BGP: plan.BGPConfig{ASN: 64512}, Nodes: c.Workloads(0), Statuses: map[string]plan.Status{}}
	for i := range out.Nodes {
		if provider == v1alpha1.ProviderIKS {
			out.Nodes[i].ProviderID = fmt.Sprintf("ibm://model///model/invented-%d", i+1)
		}
	}
	return out
}
