// Package plan is the command that says what the manager will do: the manager's own
// decisions run forward on a model of the cluster.
package plan

import (
	"errors"

	"github.com/spf13/cobra"

	"github.com/rrpool/rrpool/cmd/rrpool/iostreams"
	"github.com/rrpool/rrpool/cmd/rrpool/status"
	"github.com/rrpool/rrpool/config/api/v1alpha1"
)

// New makes the command.
func New(s iostreams.Streams) *cobra.Command {
	f := newFlags()
	cmd := &cobra.Command{
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
  rrpool plan -f pool.yaml -o yaml
  rrpool plan --nodes 500 --zones 3 --region us-south`,
		Args: iostreams.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd, s) },
	}
	f.register(cmd)
	return cmd
}

func (f *flags) run(cmd *cobra.Command, s iostreams.Streams) error {
	in, err := f.look(cmd.Context(), s)
	if err != nil {
		return err
	}
	out, err := Run(cmd.Context(), in)
	if err != nil {
		if cmd.Context().Err() != nil {
			return iostreams.ErrInterrupted
		}
		return err
	}
	v := newView(out, f.region)
	v.Next = f.next(v, in.Stored)
	render := func(s iostreams.Streams) error {
		switch f.output.Value {
		case "json":
			return iostreams.WriteJSON(s.Out, v)
		case "yaml":
			return iostreams.WriteYAML(s.Out, v)
		}
		return tableOf(s, v)
	}
	if err := s.Emit("plan", f.outputFile, render); err != nil {
		return err
	}
	switch {
	case v.Problem != nil:
		return &iostreams.ExitError{Code: 1, Err: errors.New(v.Problem.Reason + ": " + v.Problem.Message)}
	case v.Changes:
		return &iostreams.ExitError{Code: 2}
	}
	return nil
}

// next is the command that follows from the plan, "" for none.
func (f *flags) next(v view, stored bool) string {
	next := status.PhraseOf(f.cmd)
	if f.nodes.Value > 0 || v.Problem != nil || !v.Changes {
		return ""
	}
	switch {
	case v.Obstacle != "":
		return next.Command("check")
	case stored && f.file == "" && f.mode.Value == as:
		return next.Command("status --watch")
	case f.file != "" && stored:
		return "kubectl apply -f " + f.file
	case v.Mode == string(v1alpha1.ModeFullMesh):
		return next.Command("rollback")
	}
	return next.Command("migrate" + map[bool]string{true: " -f " + f.file}[f.file != ""])
}

// Show prints a plan for people, as the command does, where the object is about to be stored.
func Show(s iostreams.Streams, p *Plan) error {
	p.in.Stored = true
	return tableOf(s, newView(p, ""))
}
