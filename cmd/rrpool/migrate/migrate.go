// Package migrate is the commands that move a cluster onto route reflectors and back to
// the mesh, and show the progress. They set spec.mode and nothing else: the manager does
// the work, also without them.
package migrate

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/rrpool/rrpool/cmd/rrpool/cluster"
	"github.com/rrpool/rrpool/cmd/rrpool/iostreams"
	"github.com/rrpool/rrpool/cmd/rrpool/snapshot"
	"github.com/rrpool/rrpool/cmd/rrpool/status"
	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/config/crd"
)

// direction is one of the two ways.
type direction struct {
	name string
	mode v1alpha1.Mode
	// action is what the manager does, and place is where the cluster is then.
	action, place string
	// urgent: the mode is set even if the plan says that the manager would refuse it.
	urgent bool
}

var (
	forth = direction{name: "migrate", mode: v1alpha1.ModeRouteReflector, action: "the migration", place: "on route reflectors"}
	back  = direction{name: "rollback", mode: v1alpha1.ModeFullMesh, action: "the way back", place: "on the node-to-node mesh", urgent: true}
)

// flags of both commands.
type flags struct {
	snapshot.Flags
	direction
	planner
	file              string
	yes, wait         bool
	interval, timeout status.Period
}

func newFlags(d direction, p planner) *flags {
	return &flags{
		direction: d, planner: p,
		interval: status.Period{Value: 2 * time.Second, Least: time.Second},
		timeout:  status.Period{Value: 2 * time.Hour, Least: time.Second},
	}
}

// New makes `rrpool migrate`.
func New(s iostreams.Streams) *cobra.Command { return newMigrate(s, runPlan) }

// NewRollback makes `rrpool rollback`.
func NewRollback(s iostreams.Streams) *cobra.Command { return newRollback(s, runPlan) }

func newMigrate(s iostreams.Streams, p planner) *cobra.Command {
	f := newFlags(forth, p)
	cmd := &cobra.Command{
		Short: "Move the cluster onto route reflectors, and watch",
		Long: `Shows what will happen, asks, sets spec.mode of the RouteReflectorPool to RouteReflector, and shows how far the
manager is until the cluster is on route reflectors. Where there is no RouteReflectorPool it creates one, from a file
or with all defaults.

Ctrl-C ends the watching, never the migration. Called again while a migration is under way, it only watches.`,
		Example: `  rrpool migrate
  rrpool migrate -f pool.yaml
  rrpool migrate --yes --wait=false`,
	}
	cmd.Flags().StringVarP(&f.file, "filename", "f", "", "file with the RouteReflectorPool to create; default: one with all defaults")
	cobra.CheckErr(cmd.MarkFlagFilename("filename", "yaml", "yml", "json"))
	return f.register(cmd, s)
}

func newRollback(s iostreams.Streams, p planner) *cobra.Command {
	return newFlags(back, p).register(&cobra.Command{
		Short: "Take the cluster back to the node-to-node mesh, and watch",
		Long: `Shows what will happen, asks, sets spec.mode of the RouteReflectorPool to FullMesh, and shows how far the manager
is until the node-to-node mesh carries the cluster again. A worker pool stays.

Ctrl-C ends the watching, never the way back. Called again while it is under way, it only watches.`,
		Example: `  rrpool rollback
  rrpool rollback --yes --wait=false`,
	}, s)
}

func (f *flags) register(cmd *cobra.Command, s iostreams.Streams) *cobra.Command {
	cmd.Use, cmd.Args = f.name, iostreams.NoArguments
	cmd.RunE = func(cmd *cobra.Command, _ []string) error { return f.run(cmd, s) }
	set := cmd.Flags()
	set.SortFlags = false
	set.BoolVarP(&f.yes, "yes", "y", false, "do not ask")
	set.BoolVar(&f.wait, "wait", true, "watch until the cluster has arrived")
	set.Var(&f.timeout, "timeout", "how long to watch; "+f.action+" goes on afterwards")
	set.Var(&f.interval, "interval", "how often to look")
	f.Register(set)
	status.CompleteNothing(cmd, "timeout", "interval")
	return cmd
}

func (f *flags) run(cmd *cobra.Command, s iostreams.Streams) error {
	ctx := cmd.Context()
	given, err := f.read(s)
	if err != nil {
		return err
	}
	connection, err := f.Connect()
	if err != nil {
		return err
	}
	stored, err := connection.Pool(ctx)
	if err != nil {
		return err
	}
	phrase := status.PhraseOf(cmd)
	if err := f.fit(stored, given, phrase); err != nil {
		return err
	}
	w := &watch{
		Streams: s, Connection: connection, direction: f.direction, phrase: phrase, namespace: f.Namespace,
		interval: f.interval.Value, timeout: f.timeout.Value,
	}
	if stored != nil && stored.Spec.Mode == f.mode {
		return f.again(ctx, w, stored)
	}
	if !f.yes && !s.Interactive {
		return fmt.Errorf("--yes: missing, and there is no terminal to ask on: %s shows what will be done, --yes does it", phrase.Command("plan"))
	}
	object, err := f.change(ctx, s, connection, stored, given)
	if err != nil {
		return err
	}
	_, _ = fmt.Fprintf(s.Err, "√ spec.mode is %s\n", f.mode)
	return f.follow(ctx, w, object)
}

// read gives the object of --filename, nil without one.
func (f *flags) read(s iostreams.Streams) (*v1alpha1.RouteReflectorPool, error) {
	object, err := snapshot.Object(f.file, s.In)
	if err == nil && object != nil && object.Spec.Mode != f.mode {
		return nil, fmt.Errorf("--filename: %s: spec.mode is %q, and %s is for %s: leave it out", f.file, object.Spec.Mode, f.name, f.mode)
	}
	return object, err
}

// fit refuses what makes no sense for the object as it is.
func (f *flags) fit(stored, given *v1alpha1.RouteReflectorPool, p status.Phrase) error {
	switch {
	case stored == nil && f.mode == v1alpha1.ModeFullMesh:
		return fmt.Errorf("there is no RouteReflectorPool, so rrpool has nothing to take back: %s says what is known of the mesh", p.Command("status"))
	case stored == nil:
		return nil
	case stored.DeletionTimestamp != nil:
		return fmt.Errorf("the RouteReflectorPool is being deleted, and the cluster goes back to the mesh before: wait until it is gone (%s), then call this again",
			p.Command("status --watch"))
	case given != nil && !equality.Semantic.DeepEqual(stored.Spec, withMode(given, stored.Spec.Mode).Spec):
		return fmt.Errorf("--filename: there is a RouteReflectorPool already, and it is not as in %s: kubectl apply -f %s changes it, then call this again without --filename",
			f.file, f.file)
	}
	return nil
}

// withMode is a copy of the object with that mode.
func withMode(object *v1alpha1.RouteReflectorPool, mode v1alpha1.Mode) *v1alpha1.RouteReflectorPool {
	out := object.DeepCopy()
	out.Spec.Mode = mode
	return out
}

// again is for a mode that is set already: no question is needed.
func (f *flags) again(ctx context.Context, w *watch, stored *v1alpha1.RouteReflectorPool) error {
	if !status.Reached(stored) {
		_, _ = fmt.Fprintf(w.Err, "√ %s is already under way: spec.mode is %s\n", f.action, f.mode)
		return f.follow(ctx, w, stored)
	}
	manager := status.FindManager(ctx, w.Connection, f.Namespace, w.Now())
	if manager.Status == status.Stopped {
		return fmt.Errorf("the manager reported last that the cluster is %s, but it does not run: %s; %s shows more", f.place, manager.Message, w.phrase.Manager())
	}
	return w.there(stored)
}

func (f *flags) follow(ctx context.Context, w *watch, object *v1alpha1.RouteReflectorPool) error {
	if !f.wait {
		_, err := fmt.Fprintf(w.Out, "%s goes on by itself.\n\nNext: %s\n", sentence(f.action), w.phrase.Command("status --watch"))
		return err //nolint:wrapcheck // iostreams.Run says it
	}
	return w.run(ctx, object)
}

// change shows the plan, asks, and sets the mode.
func (f *flags) change(
	ctx context.Context, s iostreams.Streams, c *cluster.Connection, stored, given *v1alpha1.RouteReflectorPool,
) (*v1alpha1.RouteReflectorPool, error) {
	want, what, err := f.want(stored, given)
	if err != nil {
		return nil, err
	}
	set := change{c, stored, want}
	if err := set.dryRun(ctx); err != nil {
		return nil, err
	}
	if err := f.show(ctx, s, c, want, what); err != nil {
		return nil, err
	}
	if !f.yes {
		if err := confirm(ctx, s, c.Name, f.direction); err != nil {
			return nil, err
		}
	}
	return set.do(ctx)
}

// want is the object as it is to be, and a sentence about what is changed for it.
func (f *flags) want(stored, given *v1alpha1.RouteReflectorPool) (*v1alpha1.RouteReflectorPool, string, error) {
	switch {
	case stored != nil:
		return withMode(stored, f.mode), fmt.Sprintf("spec.mode of the RouteReflectorPool is %s and becomes %s", stored.Spec.Mode, f.mode), nil
	case given != nil:
		return given, fmt.Sprintf("the RouteReflectorPool is created as in %s", f.file), nil
	}
	want, err := crd.Default()
	return want, "the RouteReflectorPool is created with all defaults", err
}

// errUnconfirmed: the answer was not yes.
var errUnconfirmed = errors.New("not confirmed: nothing was changed")
