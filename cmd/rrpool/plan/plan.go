// Package plan is the command `rrpool plan`, which shows what the manager will do. It runs the manager's own code on a model of the cluster.
package plan

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/rrpool/rrpool/cloud/cost"
	"github.com/rrpool/rrpool/cmd/rrpool/cluster"
	"github.com/rrpool/rrpool/cmd/rrpool/invent"
	"github.com/rrpool/rrpool/cmd/rrpool/iostreams"
	"github.com/rrpool/rrpool/cmd/rrpool/snapshot"
	"github.com/rrpool/rrpool/cmd/rrpool/status"
	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/config/crd"
	"github.com/rrpool/rrpool/controllers/pool"
)

// flags are those of `rrpool plan`.
type flags struct {
	snapshot.Flags
	cmd          *cobra.Command
	nodes, zones int
	file, region string
	mode, output string
}

// asWritten is the default of --mode: the object's own mode.
const asWritten = "as-written"

// New makes the command.
func New(s iostreams.Streams) *cobra.Command {
	f := &flags{}
	f.cmd = iostreams.Command(&cobra.Command{
		Use:   "plan",
		Short: "What the manager will do, step by step, and what it costs",
		Long: `What the manager will do next, and after that, until nothing is left to do: each step with its reason, what it
writes and what it waits for; the BGP sessions before and after; whether any packet between pods is lost; and what
the pool costs per month.

Nothing is changed. The manager's own decisions are run forward on a model of the cluster, in which nothing fails.
Without flags it is about the cluster of the kubeconfig and its RouteReflectorPool, or the defaults where there is
none; with -f about the one in a file; with --nodes about an invented cluster in full mesh.

Exit codes: 0 there is nothing to do, 2 there is, 1 there is no plan, or the manager would stop.`,
		Example: `  rrpool plan
  rrpool plan --mode FullMesh
  rrpool plan -f pool.yaml -o json
  rrpool plan --nodes 500 --zones 3 --region us-south`,
	}, func(cmd *cobra.Command) error {
		if f.nodes == 0 && f.zones > 0 {
			return errors.New("--zones: is about an invented cluster: give --nodes as well")
		}
		return f.run(cmd.Context(), s)
	})
	f.register()
	return f.cmd
}

func (f *flags) register() {
	set := f.cmd.Flags()
	iostreams.File(f.cmd, &f.file, "plan for the RouteReflectorPool in this file instead of the cluster's own")
	iostreams.Choice(f.cmd, &f.mode, "mode", "", "plan for this spec.`mode`: RouteReflector or FullMesh; default as written",
		asWritten, string(v1alpha1.ModeRouteReflector), string(v1alpha1.ModeFullMesh))
	iostreams.Count(f.cmd, &f.nodes, "nodes", 3, 5000,
		"plan for an invented cluster in full mesh with this `number` of nodes that run workloads; no cluster is asked")
	iostreams.Count(f.cmd, &f.zones, "zones", 1, 100, "`number` of zones of the invented cluster; default 3")
	set.Func("region", "`region` whose prices count, such as eu-de; default that of the nodes", func(value string) error {
		f.region = value
		return cost.CheckRegion(value)
	})
	iostreams.Output(f.cmd, &f.output)
	f.Register(set)
	f.cmd.MarkFlagsMutuallyExclusive("nodes", "kubeconfig")
	f.cmd.MarkFlagsMutuallyExclusive("nodes", "context")
}

func (f *flags) run(ctx context.Context, s iostreams.Streams) error {
	in, err := f.input(ctx, s)
	if err != nil {
		return err
	}
	p, err := Run(ctx, in)
	switch {
	case ctx.Err() != nil:
		return iostreams.ErrInterrupted
	case err != nil:
		return err
	}
	p.describe(f.region)
	if f.nodes == 0 && p.Problem == nil && p.Changes {
		p.Next = f.next(p)
	}
	if err := s.Print("plan", f.output, p, p.print); err != nil {
		return err
	}
	return p.Verdict()
}

// Verdict returns nil if there is nothing to do, iostreams.ExitError(2) if there is, and another error if the manager would stop.
func (p *Plan) Verdict() error {
	switch {
	case p.Problem != nil:
		return errors.New(p.Problem.Reason + ": " + p.Problem.Message)
	case p.First != "" && p.in.Stops() != nil:
		return errors.New(p.First)
	case p.Changes:
		return iostreams.ExitError(2)
	}
	return nil
}

// input reads the cluster, or makes the invented one.
func (f *flags) input(ctx context.Context, s iostreams.Streams) (Input, error) {
	in := Input{Now: s.Now()}
	object, err := snapshot.Object(f.file, s.In)
	if err != nil {
		return in, err
	}
	var c *cluster.Connection
	if f.nodes == 0 {
		if c, err = f.Connect(); err != nil {
			return in, fmt.Errorf("%w; without a cluster: %s --nodes 500 --zones 3", err, f.cmd.CommandPath())
		}
		if object == nil {
			if object, err = c.Pool(ctx); err != nil {
				return in, err
			}
		}
	}
	object = cmp.Or(object, crd.Default())
	if f.mode != asWritten {
		object.Spec.Mode = v1alpha1.Mode(f.mode)
	}
	if c == nil {
		in.Snapshot, err = f.invent(object)
	} else {
		in.Snapshot, err = snapshot.Take(ctx, c, f.Namespace, object, true)
	}
	return in, err
}

// invent makes an invented cluster in full mesh.
func (f *flags) invent(object *v1alpha1.RouteReflectorPool) (*snapshot.Snapshot, error) {
	provider := object.Spec.Provider.Type
	if provider == v1alpha1.ProviderAuto {
		provider = v1alpha1.ProviderIKS
	}
	if len(object.Spec.Provider.IKS.Zones) > 0 && provider == v1alpha1.ProviderIKS {
		return nil, errors.New("--filename: spec.provider.iks.zones names zones, and those of an invented cluster are zone-1, zone-2, …: leave the field out, or --nodes")
	}
	c := invent.Cluster{Spec: object.Spec, Nodes: f.nodes, Zones: invent.Names("zone-", cmp.Or(f.zones, min(3, f.nodes)))}
	return &snapshot.Snapshot{Object: object, Scope: pool.Scope{Cluster: c.InFullMesh(), Provider: provider}}, c.Check()
}

// next returns the command to type after the plan.
func (f *flags) next(p *Plan) string {
	next, stored := status.PhraseOf(f.cmd), p.in.Stored
	switch {
	case p.First != "":
		return next.Command("check")
	case stored && f.file == "" && f.mode == asWritten:
		return next.Command("status --watch")
	case f.file != "" && stored:
		return "kubectl apply -f " + f.file
	case p.Mode == v1alpha1.ModeFullMesh:
		return next.Command("rollback")
	case f.file != "":
		return next.Command("migrate -f " + f.file)
	}
	return next.Command("migrate")
}

// Show prints a plan as the command does, for an object that is about to be stored.
func Show(s iostreams.Streams, p *Plan) {
	p.in.Stored = true
	p.describe("")
	p.print(s)
}
