// Package check is the command that says whether a cluster is fit for rrpool, and what to
// do where it is not.
package check

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/rrpool/rrpool/cmd/rrpool/cluster"
	"github.com/rrpool/rrpool/cmd/rrpool/iostreams"
	"github.com/rrpool/rrpool/cmd/rrpool/snapshot"
	"github.com/rrpool/rrpool/config/api/v1alpha1"
)

// flags of `rrpool check`.
type flags struct {
	snapshot.Flags
	pre      bool
	wait     time.Duration
	filename string
	output   *iostreams.Choice
}

// New makes the command.
func New(s iostreams.Streams) *cobra.Command {
	f := &flags{output: iostreams.NewChoice("table", "json", "short")}
	cmd := &cobra.Command{
		Use:   "check",
		Short: "Whether the cluster is fit, and what to do where it is not",
		Long: `Whether the cluster is fit for rrpool: Kubernetes and rights, rrpool itself, Calico, the nodes, and where route
reflectors come from. Every failure has a remedy, and a page that explains it. Nothing is changed.

√ right   · something to know   ‼ rrpool works, but look   × rrpool does not work, or refuses to

What could not be looked at is ‼, never √. With --pre it is about installing rrpool: whether you may, and what is
not there yet is no failure.

Exit code 0 when there is no ×, 1 when there is one, or no answer.`,
		Example: `  rrpool check --pre
  rrpool check
  rrpool check --filename pool.yaml
  rrpool check --wait 5m -o short`,
		Args: iostreams.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd, s) },
	}
	set := cmd.Flags()
	set.SortFlags = false
	set.BoolVar(&f.pre, "pre", false, "check whether rrpool can be installed")
	set.StringVarP(&f.filename, "filename", "f", "", "check for the RouteReflectorPool in this file, - for standard input, instead of the cluster's")
	set.DurationVar(&f.wait, "wait", 0, "check again until nothing is wrong, for that long at most")
	f.output.Register(cmd, "output", "o", "format: table, json or short")
	f.Register(set)
	return cmd
}

func (f *flags) run(cmd *cobra.Command, s iostreams.Streams) error {
	if f.wait < 0 {
		return fmt.Errorf("--wait: %s is no time to wait: use for example 5m", f.wait)
	}
	object, err := snapshot.Object(f.filename, s.In)
	if err != nil {
		return err
	}
	connection, err := f.Connect()
	if err != nil {
		return err
	}
	called := strings.TrimSuffix(cmd.CommandPath(), " "+cmd.Name())
	v, err := f.patiently(cmd.Context(), s, func(ctx context.Context) (view, error) {
		found, err := f.look(ctx, connection, object, s.Now())
		if err != nil {
			return view{}, err
		}
		return judge(found, called), nil
	})
	if err != nil {
		return err
	}
	render := map[string]func(iostreams.Streams, view) error{"table": tableOf, "json": jsonOf, "short": shortOf}[f.output.Value]
	if err := s.Emit("answer", "", func(s iostreams.Streams) error { return render(s, v) }); err != nil {
		return err
	}
	if !v.Fit {
		return &iostreams.ExitError{Code: 1}
	}
	return nil
}

func (f *flags) look(ctx context.Context, c *cluster.Connection, object *v1alpha1.RouteReflectorPool, now time.Time) (facts, error) {
	start := facts{now: now, pre: f.pre, namespace: f.Namespace, file: f.filename}
	if object != nil {
		start.object = object.DeepCopy()
	}
	g, err := newGatherer(c, start)
	if err != nil {
		return facts{}, err
	}
	return g.gather(ctx)
}

// pause is between two looks.
const pause = 5 * time.Second

// patiently looks until nothing is wrong, or it has lasted long enough; what was seen
// last counts. Progress goes to standard error, where there is any.
func (f *flags) patiently(ctx context.Context, s iostreams.Streams, look func(context.Context) (view, error)) (view, error) {
	end, told := s.Now().Add(f.wait), ""
	for {
		v, err := look(ctx)
		left := end.Sub(s.Now())
		if err == nil && v.Fit || left <= 0 || ctx.Err() != nil {
			return v, err
		}
		saying := "× " + strings.Join(v.wrong(), ", ")
		if err != nil {
			saying = iostreams.Sentence(err)
		}
		if saying != told {
			told = saying
			_, _ = fmt.Fprintf(s.Err, "waiting, %s left: %s\n", left.Round(time.Second), saying)
		}
		s.Wait(min(pause, left), ctx.Done())
		if ctx.Err() != nil {
			return view{}, iostreams.ErrInterrupted
		}
	}
}
