package migrate

import (
	"context"
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/rrpool/rrpool/cmd/rrpool/cluster"
	"github.com/rrpool/rrpool/cmd/rrpool/iostreams"
	"github.com/rrpool/rrpool/cmd/rrpool/status"
	"github.com/rrpool/rrpool/config/api/v1alpha1"
)

// watch follows a cluster until it has arrived. It reads and tells, nothing more.
type watch struct {
	iostreams.Streams
	*cluster.Connection
	direction
	phrase            status.Phrase
	namespace         string
	interval, timeout time.Duration

	display  display
	began    time.Time
	felt     time.Time         // when the manager's pulse was taken last
	notices  map[string]string // what was told, by what it is about
	troubled map[string]bool   // reasons that were told
}

// pulseEvery is how often the manager is looked for, and how long it may take to take
// note of a change before that is worth saying.
const pulseEvery = 15 * time.Second

func (w *watch) run(ctx context.Context, object *v1alpha1.RouteReflectorPool) error {
	w.began = w.Now()
	w.felt, w.notices, w.troubled = w.began, map[string]string{}, map[string]bool{}
	w.display = newDisplay(w.Streams)
	deadline := w.began.Add(w.timeout)
	for {
		w.tell(ctx, object)
		if over, err := w.over(object); over {
			return err
		}
		left := deadline.Sub(w.Now())
		if left <= 0 {
			return w.expired(ctx, object)
		}
		w.Wait(min(w.interval, left), ctx.Done())
		fresh, err := w.Pool(ctx)
		switch {
		case ctx.Err() != nil:
			return fmt.Errorf("stopped watching: %s goes on without this command: %s shows it, %s watches it again",
				w.deed, w.phrase.Command("status --watch"), w.phrase.Command(w.name))
		case err != nil:
			w.notice("cluster", "the cluster cannot be looked at: "+iostreams.Sentence(err)+"; trying again", "the cluster answers again")
		default:
			w.notice("cluster", "", "the cluster answers again")
			object = fresh
		}
	}
}

// tell says what is new.
func (w *watch) tell(ctx context.Context, object *v1alpha1.RouteReflectorPool) {
	if object == nil {
		return
	}
	w.feel(ctx, object)
	if !status.Noted(object) {
		return // what it reports is about another wish
	}
	w.troubles(object)
	w.display.update(progressOf(object, w.direction, w.Now().Sub(w.began)))
}

// feel takes the manager's pulse now and then.
func (w *watch) feel(ctx context.Context, object *v1alpha1.RouteReflectorPool) {
	recovered := w.notices["manager"] != "" && status.Noted(object)
	if w.Now().Sub(w.felt) < pulseEvery && !recovered {
		return
	}
	w.felt = w.Now()
	manager := status.FindManager(ctx, w.Connection, w.namespace, w.Now())
	trouble := ""
	switch {
	case ctx.Err() != nil:
		return
	case manager.Pulse == status.Stopped:
		trouble = "the manager does not run, so nothing goes on: " + manager.Message
	case !status.Noted(object):
		trouble = fmt.Sprintf("the manager has not taken note of spec.mode %s yet: %s", object.Spec.Mode, manager.Message)
	}
	if trouble != "" {
		trouble += "; " + w.phrase.Manager() + " shows more"
	}
	w.notice("manager", trouble, "the manager acts")
}

// notice tells of something once when it comes, and once when it is over.
func (w *watch) notice(about, trouble, over string) {
	before := w.notices[about]
	w.notices[about] = trouble
	switch {
	case trouble == before:
	case trouble != "":
		w.display.say(iostreams.Yellow, "‼ "+trouble)
	default:
		w.display.say(iostreams.Green, "√ "+over)
	}
}

// troubles tells of bad conditions when they come and go.
func (w *watch) troubles(object *v1alpha1.RouteReflectorPool) {
	now := map[string]bool{}
	for _, t := range status.Troubles(object) {
		now[t.Reason] = true
		if w.troubled[t.Reason] {
			continue
		}
		line := fmt.Sprintf("‼ %s: %s (%s)", t.Reason, strings.TrimSuffix(t.Message, "."), t.Page(w.Width-len("  ()")))
		if !t.Passing() {
			line += ". This needs somebody; " + w.deed + " goes on by itself when it is solved"
		}
		w.display.say(iostreams.Red, line)
	}
	for _, reason := range sorted(w.troubled) {
		if !now[reason] {
			w.display.say(iostreams.Green, "√ no longer "+reason)
		}
	}
	w.troubled = now
}

// over says whether there is nothing more to watch, and how that came.
func (w *watch) over(object *v1alpha1.RouteReflectorPool) (bool, error) {
	switch {
	case object == nil:
		return true, fmt.Errorf("somebody has deleted the RouteReflectorPool: %s says how things are", w.phrase.Command("status"))
	case object.DeletionTimestamp != nil:
		return true, fmt.Errorf("somebody deletes the RouteReflectorPool, and the cluster goes back to the mesh before it is gone: %s shows it", w.phrase.Command("status --watch"))
	case object.Spec.Mode != w.mode:
		return true, fmt.Errorf("somebody has set spec.mode to %s: %s has ended, %s says how things are", object.Spec.Mode, w.deed, w.phrase.Command("status"))
	case status.Reached(object):
		return true, w.arrived(object)
	}
	return false, nil
}

// there is the result where the cluster had arrived before. What is wrong there all the
// same is told, but waited for by nobody.
func (w *watch) there(object *v1alpha1.RouteReflectorPool) error {
	for _, t := range status.Troubles(object) {
		line := fmt.Sprintf("‼ %s: %s (%s)", t.Reason, strings.TrimSuffix(t.Message, "."), t.Page(w.Width-len("  ()")))
		_, _ = fmt.Fprintf(w.Err, "%s\n", w.Paint(iostreams.Red, w.Fold(line, "  ")))
	}
	return w.result(object, "already ", "")
}

// arrived is the result of a way that was watched.
func (w *watch) arrived(object *v1alpha1.RouteReflectorPool) error {
	took := ""
	if d := w.Now().Sub(w.began); d >= time.Second {
		took = " This took " + duration.HumanDuration(d) + "."
	}
	return w.result(object, "", took)
}

func (w *watch) result(object *v1alpha1.RouteReflectorPool, already, took string) error {
	line := fmt.Sprintf("√ The cluster is %s%s: %s.%s", already, w.place, object.Status.Step.Reason, took)
	if w.mode == v1alpha1.ModeFullMesh && object.Status.Pool != "" && object.Status.Provider == "iks" {
		line += fmt.Sprintf(" The worker pool %s stays, and costs until it is deleted (docs/operations.md#delete).", object.Status.Pool)
	}
	_, err := fmt.Fprintf(w.Out, "%s\n", w.Paint(iostreams.Green, w.Fold(line, "  ")))
	return err //nolint:wrapcheck // iostreams.Run says it
}

// expired shows the last known state.
func (w *watch) expired(ctx context.Context, object *v1alpha1.RouteReflectorPool) error {
	facts, err := status.Take(ctx, w.Connection, w.namespace, w.Now())
	if err != nil {
		facts = &status.Facts{Cluster: w.Name, Now: w.Now(), Object: object, Unseen: []string{"what is shown is old: " + iostreams.Sentence(err)}}
	}
	if err := status.Show(w.Streams, w.phrase, *facts); err != nil {
		return err
	}
	return fmt.Errorf("--timeout: the cluster is not %s after %s: %s goes on without this command: %s shows it, %s watches it again",
		w.place, duration.HumanDuration(w.timeout), w.deed, w.phrase.Command("status --watch"), w.phrase.Command(w.name))
}
