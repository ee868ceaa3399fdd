package migrate

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/rrpool/rrpool/cmd/rrpool/cluster"
	"github.com/rrpool/rrpool/cmd/rrpool/iostreams"
	"github.com/rrpool/rrpool/cmd/rrpool/status"
	"github.com/rrpool/rrpool/config/api/v1alpha1"
)

// watch shows the progress until the cluster has arrived. It only reads.
type watch struct {
	iostreams.Streams
	*cluster.Connection
	direction
	phrase            status.Phrase
	namespace         string
	interval, timeout time.Duration

	display  display
	began    time.Time
	checked  time.Time         // when the manager was looked for last
	notices  map[string]string // what was reported, by what it is about
	problems map[string]bool   // reasons that were reported
}

// checkEvery is how often the manager is looked for, and how long it may take to observe
// a change before that is reported.
const checkEvery = 15 * time.Second

func (w *watch) run(ctx context.Context, object *v1alpha1.RouteReflectorPool) error {
	w.began = w.Now()
	w.checked, w.notices, w.problems = w.began, map[string]string{}, map[string]bool{}
	w.display = newDisplay(w.Streams)
	deadline := w.began.Add(w.timeout)
	for {
		w.report(ctx, object)
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
				w.action, w.phrase.Command("status --watch"), w.phrase.Command(w.name))
		case err != nil:
			w.notice("cluster", "the cluster cannot be looked at: "+iostreams.Sentence(err)+"; trying again", "the cluster answers again")
		default:
			w.notice("cluster", "", "the cluster answers again")
			object = fresh
		}
	}
}

// report shows what is new.
func (w *watch) report(ctx context.Context, object *v1alpha1.RouteReflectorPool) {
	if object == nil {
		return
	}
	w.checkManager(ctx, object)
	if !status.Observed(object) {
		return // its status is about another spec.mode
	}
	w.reportProblems(object)
	w.display.update(progressOf(object, w.direction, w.Now().Sub(w.began)))
}

// checkManager looks for the manager now and then.
func (w *watch) checkManager(ctx context.Context, object *v1alpha1.RouteReflectorPool) {
	recovered := w.notices["manager"] != "" && status.Observed(object)
	if w.Now().Sub(w.checked) < checkEvery && !recovered {
		return
	}
	w.checked = w.Now()
	manager := status.FindManager(ctx, w.Connection, w.namespace, w.Now())
	problem := ""
	switch {
	case ctx.Err() != nil:
		return
	case manager.Status == status.Stopped:
		problem = "the manager does not run, so nothing goes on: " + manager.Message
	case !status.Observed(object):
		problem = fmt.Sprintf("the manager has not observed spec.mode %s yet: %s", object.Spec.Mode, manager.Message)
	}
	if problem != "" {
		problem += "; " + w.phrase.Manager() + " shows more"
	}
	w.notice("manager", problem, "the manager acts")
}

// notice reports a problem once when it comes, and once when it is over.
func (w *watch) notice(about, problem, over string) {
	before := w.notices[about]
	w.notices[about] = problem
	switch {
	case problem == before:
	case problem != "":
		w.display.say(iostreams.Yellow, "‼ "+problem)
	default:
		w.display.say(iostreams.Green, "√ "+over)
	}
}

// line is a problem with its page.
func (w *watch) line(p status.Problem) string {
	return fmt.Sprintf("‼ %s: %s (%s)", p.Reason, strings.TrimSuffix(p.Message, "."), p.Page(w.Width-len("  ()")))
}

// reportProblems reports bad conditions when they come and go.
func (w *watch) reportProblems(object *v1alpha1.RouteReflectorPool) {
	now := map[string]bool{}
	for _, t := range status.Problems(object) {
		now[t.Reason] = true
		if w.problems[t.Reason] {
			continue
		}
		line := w.line(t)
		if !t.Passing() {
			line += ". A person has to solve this; " + w.action + " then goes on by itself"
		}
		w.display.say(iostreams.Red, line)
	}
	for _, reason := range slices.Sorted(maps.Keys(w.problems)) {
		if !now[reason] {
			w.display.say(iostreams.Green, "√ no longer "+reason)
		}
	}
	w.problems = now
}

// over says whether there is nothing more to watch, and how that came.
func (w *watch) over(object *v1alpha1.RouteReflectorPool) (bool, error) {
	switch {
	case object == nil:
		return true, fmt.Errorf("the RouteReflectorPool was deleted meanwhile: %s shows the cluster", w.phrase.Command("status"))
	case object.DeletionTimestamp != nil:
		return true, fmt.Errorf("the RouteReflectorPool is being deleted, and the cluster goes back to the mesh before it is gone: %s shows it", w.phrase.Command("status --watch"))
	case object.Spec.Mode != w.mode:
		return true, fmt.Errorf("spec.mode was set to %s meanwhile: %s has ended, %s shows the cluster", object.Spec.Mode, w.action, w.phrase.Command("status"))
	case status.Reached(object):
		took := ""
		if d := w.Now().Sub(w.began); d >= time.Second {
			took = " This took " + duration.HumanDuration(d) + "."
		}
		return true, w.result(object, "", took)
	}
	return false, nil
}

// there is the result where the cluster had arrived before. Problems are shown, but not
// waited for.
func (w *watch) there(object *v1alpha1.RouteReflectorPool) error {
	for _, t := range status.Problems(object) {
		_, _ = fmt.Fprintln(w.Err, w.Paint(iostreams.Red, w.Fold(w.line(t), "  ")))
	}
	return w.result(object, "already ", "")
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
	facts, err := status.Take(ctx, w.Connection, w.namespace, false, w.Now())
	if err != nil {
		facts = &status.Facts{Cluster: w.Name, Now: w.Now(), Object: object, Unseen: []string{"what is shown is old: " + iostreams.Sentence(err)}}
	}
	if err := status.Show(w.Streams, w.phrase, *facts); err != nil {
		return err
	}
	return fmt.Errorf("--timeout: the cluster is not %s after %s: %s goes on without this command: %s shows it, %s watches it again",
		w.place, duration.HumanDuration(w.timeout), w.action, w.phrase.Command("status --watch"), w.phrase.Command(w.name))
}
