// Package migrate is the commands `rrpool migrate` and `rrpool rollback`. They set spec.mode
// and show the progress. The manager does the work, and goes on if a command ends early.
package migrate

import (
	"context"
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

// direction is what the two commands differ in.
type direction struct {
	name string
	mode v1alpha1.Mode
	// action names what the manager does, and place says where the cluster is afterwards.
	action, place string
}

var (
	forth = direction{name: "migrate", mode: v1alpha1.ModeRouteReflector, action: "the migration", place: "on route reflectors"}
	back  = direction{name: "rollback", mode: v1alpha1.ModeFullMesh, action: "the way back", place: "on the node-to-node mesh"}
)

// flags holds the flags of either command.
type flags struct {
	snapshot.Flags
	direction
	planner
	file      string
	yes, wait bool
	timeout   time.Duration
}

// New makes `rrpool migrate`.
func New(s iostreams.Streams) *cobra.Command { return newMigrate(s, runPlan) }

// NewRollback makes `rrpool rollback`.
func NewRollback(s iostreams.Streams) *cobra.Command { return newRollback(s, runPlan) }

func newMigrate(s iostreams.Streams, p planner) *cobra.Command {
	f := &flags{direction: forth, planner: p}
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
	iostreams.File(cmd, &f.file, "file with the RouteReflectorPool to create; default: one with all defaults")
	return f.register(cmd, s)
}

func newRollback(s iostreams.Streams, p planner) *cobra.Command {
	f := &flags{direction: back, planner: p}
	return f.register(&cobra.Command{
		Short: "Take the cluster back to the node-to-node mesh, and watch",
		Long: `Shows what will happen, asks, sets spec.mode of the RouteReflectorPool to FullMesh, and shows how far the manager
is until the node-to-node mesh carries the cluster again. A worker pool stays.

Ctrl-C ends the watching, never the way back. Called again while it is under way, it only watches.`,
		Example: `  rrpool rollback
  rrpool rollback --yes --wait=false`,
	}, s)
}

func (f *flags) register(cmd *cobra.Command, s iostreams.Streams) *cobra.Command {
	cmd.Use = f.name
	set := iostreams.Command(cmd, func(cmd *cobra.Command) error { return f.run(cmd, s) }).Flags()
	set.BoolVarP(&f.yes, "yes", "y", false, "do not ask")
	set.BoolVar(&f.wait, "wait", true, "watch until the cluster has arrived")
	set.DurationVar(&f.timeout, "timeout", 2*time.Hour, "how long to watch; "+f.action+" goes on afterwards")
	f.Register(set)
	return cmd
}

// migration is a run of one of the commands.
type migration struct {
	iostreams.Streams
	*cluster.Connection
	*flags
	phrase status.Phrase

	shown    string // the progress that was shown last
	began    time.Time
	checked  time.Time         // when checkManager last looked for the manager
	notices  map[string]string // the problems that notice has reported, by subject: manager or cluster
	problems map[string]bool   // the reasons that reportProblems has reported
}

func (f *flags) run(cmd *cobra.Command, s iostreams.Streams) error {
	ctx := cmd.Context()
	given, err := snapshot.Object(f.file, s.In)
	switch {
	case err != nil:
		return err
	case given != nil && given.Spec.Mode != f.mode:
		return fmt.Errorf("--filename: %s: spec.mode is %q, and %s is for %s: leave it out", f.file, given.Spec.Mode, f.name, f.mode)
	}
	connection, err := f.Connect()
	if err != nil {
		return err
	}
	stored, err := connection.Pool(ctx)
	if err != nil {
		return err
	}
	m := &migration{
		Streams: s, Connection: connection, flags: f, phrase: status.PhraseOf(cmd),
		notices: map[string]string{},
	}
	switch err := m.fit(stored, given); {
	case err != nil:
		return err
	case stored != nil && stored.Spec.Mode == f.mode:
		return m.again(ctx, stored)
	}
	object, err := m.change(ctx, stored, given)
	if err != nil {
		return err
	}
	_, _ = fmt.Fprintf(s.Err, "√ spec.mode is %s\n", f.mode)
	return m.follow(ctx, object)
}

// fit returns an error if the command cannot be used with the stored object.
func (m *migration) fit(stored, given *v1alpha1.RouteReflectorPool) error {
	switch {
	case stored == nil && m.mode == v1alpha1.ModeFullMesh:
		return fmt.Errorf("there is no RouteReflectorPool, so rrpool has nothing to take back: %s says what is known of the mesh", m.phrase.Command("status"))
	case stored == nil:
		return nil
	case stored.DeletionTimestamp != nil:
		return fmt.Errorf("the RouteReflectorPool is being deleted, and the cluster goes back to the mesh before: wait until it is gone (%s), then call this again",
			m.phrase.Command("status --watch"))
	case given != nil && !equality.Semantic.DeepEqual(stored.Spec, withMode(given, stored.Spec.Mode).Spec):
		return fmt.Errorf("--filename: there is a RouteReflectorPool already, and it is not as in %s: kubectl apply -f %s changes it, then call this again without --filename",
			m.file, m.file)
	}
	return nil
}

// withMode returns a copy of the object with that mode.
func withMode(object *v1alpha1.RouteReflectorPool, mode v1alpha1.Mode) *v1alpha1.RouteReflectorPool {
	out := object.DeepCopy()
	out.Spec.Mode = mode
	return out
}

// again is called if the mode is set already. Without asking, it watches, or reports that the cluster has arrived.
func (m *migration) again(ctx context.Context, stored *v1alpha1.RouteReflectorPool) error {
	if !status.Reached(stored) {
		_, _ = fmt.Fprintf(m.Err, "√ %s is already under way: spec.mode is %s\n", m.action, m.mode)
		return m.follow(ctx, stored)
	}
	manager := status.FindManager(ctx, m.Connection, m.Namespace, m.Now())
	if manager.Status == status.Stopped {
		return fmt.Errorf("the manager reported last that the cluster is %s, but it does not run: %s; %s shows more", m.place, manager.Message, m.phrase.Manager())
	}
	for _, problem := range status.Problems(stored) { // shown, but not waited for
		_, _ = fmt.Fprintln(m.Err, m.Paint(iostreams.Red, m.Fold(m.line(problem), "  ")))
	}
	return m.result(stored, "already ", "")
}

func (m *migration) follow(ctx context.Context, object *v1alpha1.RouteReflectorPool) error {
	if !m.wait {
		_, err := fmt.Fprintf(m.Out, "%s goes on by itself.\n\nNext: %s\n", sentence(m.action), m.phrase.Command("status --watch"))
		return err //nolint:wrapcheck // iostreams.Run says it
	}
	return m.watch(ctx, object)
}

// change shows the plan, asks, and sets the mode.
func (m *migration) change(ctx context.Context, stored, given *v1alpha1.RouteReflectorPool) (*v1alpha1.RouteReflectorPool, error) {
	if !m.yes && !m.Interactive {
		return nil, fmt.Errorf("--yes: missing, and there is no terminal to ask on: %s shows what will be done, --yes does it", m.phrase.Command("plan"))
	}
	want, what := given, "the RouteReflectorPool is created as in "+m.file
	if stored != nil {
		want, what = withMode(stored, m.mode), fmt.Sprintf("spec.mode of the RouteReflectorPool is %s and becomes %s", stored.Spec.Mode, m.mode)
	} else if given == nil {
		want, what = crd.Default(), "the RouteReflectorPool is created with all defaults"
	}
	set := change{m.Connection, stored, want}
	if _, err := set.write(ctx, true); err != nil {
		return nil, err
	}
	if err := m.show(ctx, want, what); err != nil {
		return nil, err
	}
	if !m.yes {
		if err := m.confirm(ctx); err != nil {
			return nil, err
		}
	}
	return set.write(ctx, false)
}
