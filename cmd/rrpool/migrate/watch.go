package migrate

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/rrpool/rrpool/cmd/rrpool/iostreams"
	"github.com/rrpool/rrpool/cmd/rrpool/status"
	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/controllers/plan"
	"github.com/rrpool/rrpool/controllers/plan/reason"
)

const (
	// interval is how often the RouteReflectorPool is read.
	interval = 2 * time.Second
	// checkEvery is how often the command looks for the manager. The manager may take that long to observe a change before the delay is reported.
	checkEvery = 15 * time.Second
)

// watch shows the progress until the cluster is in the command's mode, or watching has to end.
func (m *migration) watch(ctx context.Context, object *v1alpha1.RouteReflectorPool) error {
	m.began, m.checked = m.Now(), m.Now()
	deadline := m.began.Add(m.timeout)
	for {
		if object == nil {
			return fmt.Errorf("the RouteReflectorPool was deleted meanwhile: %s shows the cluster", m.phrase.Command("status"))
		}
		m.checkManager(ctx, object)
		if status.Observed(object) { // otherwise the status is about another spec.mode
			m.reportProblems(object)
			m.update(progress(object))
		}
		if over, err := m.over(object); over {
			return err
		}
		left := deadline.Sub(m.Now())
		if left <= 0 {
			return fmt.Errorf("--timeout: the cluster is not %s after %s: %s goes on without this command: %s shows it, %s watches it again",
				m.place, duration.HumanDuration(m.timeout), m.action, m.phrase.Command("status --watch"), m.phrase.Command(m.name))
		}
		m.Sleep(min(interval, left), ctx.Done())
		fresh, err := m.Pool(ctx)
		switch {
		case ctx.Err() != nil:
			return fmt.Errorf("stopped watching: %s goes on without this command: %s shows it, %s watches it again",
				m.action, m.phrase.Command("status --watch"), m.phrase.Command(m.name))
		case err != nil:
			m.notice("cluster", "the cluster cannot be looked at: "+iostreams.Sentence(err)+"; trying again", "the cluster answers again")
		default:
			m.notice("cluster", "", "the cluster answers again")
			object = fresh
		}
	}
}

// checkManager checks every checkEvery whether the manager runs, and reports changes.
func (m *migration) checkManager(ctx context.Context, object *v1alpha1.RouteReflectorPool) {
	recovered := m.notices["manager"] != "" && status.Observed(object)
	if m.Now().Sub(m.checked) < checkEvery && !recovered {
		return
	}
	m.checked = m.Now()
	manager := status.FindManager(ctx, m.Connection, m.Namespace, m.Now())
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
		problem += "; " + m.phrase.Manager() + " shows more"
	}
	m.notice("manager", problem, "the manager acts")
}

// notice writes the text problem when it is new, and the text over when problem has become empty.
func (m *migration) notice(about, problem, over string) {
	before := m.notices[about]
	m.notices[about] = problem
	switch {
	case problem == before:
	case problem != "":
		m.say("‼ " + problem)
	default:
		m.say("√ " + over)
	}
}

// line renders a problem with the address of its page.
func (m *migration) line(p metav1.Condition) string {
	return fmt.Sprintf("‼ %s: %s (%s)", p.Reason, strings.TrimSuffix(p.Message, "."), m.Page(plan.Page(p.Reason), "  ()"))
}

// reportProblems reports once when a condition becomes bad, and once when the condition is no longer bad.
func (m *migration) reportProblems(object *v1alpha1.RouteReflectorPool) {
	now := map[string]bool{}
	for _, t := range status.Problems(object) {
		now[t.Reason] = true
		if m.problems[t.Reason] {
			continue
		}
		line := m.line(t)
		if !reason.Of(t.Reason).Passing {
			line += ". A person has to solve this; " + m.action + " then goes on by itself"
		}
		m.say(line)
	}
	for _, reason := range slices.Sorted(maps.Keys(m.problems)) {
		if !now[reason] {
			m.say("√ no longer " + reason)
		}
	}
	m.problems = now
}

// over reports whether watching ends. It returns an error if the cluster will not reach the command's mode.
func (m *migration) over(object *v1alpha1.RouteReflectorPool) (bool, error) {
	switch {
	case object.DeletionTimestamp != nil:
		return true, fmt.Errorf("the RouteReflectorPool is being deleted, and the cluster goes back to the mesh before it is gone: %s shows it", m.phrase.Command("status --watch"))
	case object.Spec.Mode != m.mode:
		return true, fmt.Errorf("spec.mode was set to %s meanwhile: %s has ended, %s shows the cluster", object.Spec.Mode, m.action, m.phrase.Command("status"))
	case status.Reached(object):
		took := ""
		if d := m.Now().Sub(m.began); d >= time.Second {
			took = " This took " + duration.HumanDuration(d) + "."
		}
		return true, m.result(object, "", took)
	}
	return false, nil
}

func (m *migration) result(object *v1alpha1.RouteReflectorPool, already, took string) error {
	line := fmt.Sprintf("√ The cluster is %s%s: %s.%s", already, m.place, object.Status.Step.Reason, took)
	if m.mode == v1alpha1.ModeFullMesh && object.Status.Pool != "" && object.Status.Provider == "iks" {
		line += fmt.Sprintf(" The worker pool %s stays, and costs until it is deleted (docs/operations.md#delete).", object.Status.Pool)
	}
	_, err := fmt.Fprintf(m.Out, "%s\n", m.Paint(iostreams.Green, m.Fold(line, "  ")))
	return err //nolint:wrapcheck // iostreams.Run says it
}

// progress says in numbers how far the manager is, and what the manager waits for.
func progress(object *v1alpha1.RouteReflectorPool) (numbers, waits string) {
	counts, _ := status.CountsOf(object.Status)
	what := fmt.Sprintf("reflectors left %d", counts.Reflectors)
	if object.Spec.Mode == v1alpha1.ModeRouteReflector {
		name := "workers"
		if object.Status.Provider == "existing" {
			name = "nodes"
		}
		what = fmt.Sprintf("%s %d/%d", name, counts.PoolReady, counts.PoolWanted)
		if object.Spec.Rollout.Gate != v1alpha1.GateTimer {
			what += fmt.Sprintf(", sessions %d/%d", counts.SessionsEstablished, counts.SessionsExpected)
		}
	}
	mesh := "on"
	if meta.IsStatusConditionTrue(object.Status.Conditions, v1alpha1.ConditionMeshDisabled) {
		mesh = "off"
	}
	if all := object.Status.Step.WaitingFor; len(all) == 1 {
		waits = "; waits for " + all[0]
	} else if len(all) > 1 {
		waits = fmt.Sprintf("; waits for %s and %d more", all[0], len(all)-1)
	}
	return fmt.Sprintf("%s: %s, mesh %s", object.Status.Step.Name, what, mesh), waits
}

// update shows the progress when its numbers have changed.
func (m *migration) update(numbers, waits string) {
	if numbers != m.shown {
		m.shown = numbers
		m.say(numbers + waits)
	}
}

// say writes a line with the time.
func (m *migration) say(line string) {
	_, _ = fmt.Fprintf(m.Err, "%s %s\n", m.Now().UTC().Format("15:04:05Z"), line)
}
