package status

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/controllers/plan"
	"github.com/rrpool/rrpool/controllers/plan/rollout"
)

// State is how things are, in one word.
type State string

// The states.
const (
	// NoPool: the cluster has no RouteReflectorPool.
	NoPool State = "NoPool"
	// Stale: the manager does not act, or has not observed the object as it is
	// now, so that what it reported may be old.
	Stale State = "Stale"
	// Unknown: the manager cannot see the cluster.
	Unknown State = "Unknown"
	// Degraded: the condition Degraded is not False.
	Degraded State = "Degraded"
	// Deleting: the object is being deleted, and the cluster goes back to the mesh first.
	Deleting State = "Deleting"
	// Paused: the manager changes nothing.
	Paused State = "Paused"
	// Ready: the cluster is where spec.mode wants it.
	Ready State = "Ready"
	// Progressing: a step is being taken or waited for, or the object has been changed
	// just now.
	Progressing State = "Progressing"
)

// Observed says whether the manager has reported about the object as it is now.
func Observed(object *v1alpha1.RouteReflectorPool) bool {
	return object.Status.ObservedGeneration > 0 && object.Status.ObservedGeneration >= object.Generation
}

// Reached says whether the cluster is where the object as it is now wants it.
func Reached(object *v1alpha1.RouteReflectorPool) bool {
	c := condition(object, v1alpha1.ConditionReady)
	return Observed(object) && c.Status == metav1.ConditionTrue && c.ObservedGeneration >= object.Generation
}

// condition of that type, the zero value when there is none.
func condition(object *v1alpha1.RouteReflectorPool, kind string) metav1.Condition {
	if c := meta.FindStatusCondition(object.Status.Conditions, kind); c != nil {
		return *c
	}
	return metav1.Condition{}
}

func stateOf(f Facts) State {
	switch {
	case f.Object == nil:
		return NoPool
	case fresh(f) && f.Object.DeletionTimestamp != nil:
		return Deleting
	case fresh(f):
		return Progressing
	case !Observed(f.Object) || f.Manager.Status == Stopped:
		return Stale
	}
	return reported(f.Object)
}

// reported is the state by the conditions.
func reported(object *v1alpha1.RouteReflectorPool) State {
	ready, degraded := condition(object, v1alpha1.ConditionReady), condition(object, v1alpha1.ConditionDegraded)
	switch {
	case ready.Status == metav1.ConditionUnknown:
		return Unknown
	case degraded.Status == metav1.ConditionTrue:
		return Degraded
	case object.DeletionTimestamp != nil:
		return Deleting
	case object.Spec.Mode == v1alpha1.ModePaused:
		return Paused
	case ready.Status == metav1.ConditionTrue:
		return Ready
	}
	return Progressing
}

// summary is the state in a sentence.
func summary(f Facts, state State) string {
	if state != NoPool && fresh(f) {
		return freshness(f.Object)
	}
	switch state {
	case NoPool:
		return "no RouteReflectorPool exists"
	case Stale:
		return staleness(f)
	case Deleting:
		return "the RouteReflectorPool is being deleted; before, the cluster goes back to the node-to-node mesh: " + progress(f.Object)
	case Paused:
		return "nothing is changed, not even by the safety net; " + progress(f.Object)
	case Degraded:
		return message(condition(f.Object, v1alpha1.ConditionDegraded))
	case Unknown, Ready:
		return message(condition(f.Object, v1alpha1.ConditionReady))
	case Progressing:
	}
	return progress(f.Object)
}

// progress is the step with its reason.
func progress(object *v1alpha1.RouteReflectorPool) string {
	step := object.Status.Step
	switch {
	case step.Name == "":
		return "no step has been reported"
	case object.Spec.Mode == v1alpha1.ModePaused && object.DeletionTimestamp == nil && !Reached(object):
		return fmt.Sprintf("the next step would be %s: %s", step.Name, step.Reason)
	case step.Reason == "":
		return step.Name
	}
	return step.Reason
}

// staleness says why what is reported may be old.
func staleness(f Facts) string {
	object := f.Object
	switch {
	case object.Status.ObservedGeneration == 0:
		return "the manager has not observed the RouteReflectorPool" + why(f.Manager)
	case !Observed(object):
		return fmt.Sprintf("the manager has not observed the RouteReflectorPool as it is now (generation %d, observed %d)%s; what follows is old",
			object.Generation, object.Status.ObservedGeneration, why(f.Manager))
	}
	return fmt.Sprintf("the manager does not run: %s; what follows may be old, and no step is taken, not even by the safety net", f.Manager.Message)
}

func why(m Manager) string {
	switch {
	case m.Status == Stopped:
		return ", and it does not run: " + m.Message
	case m.Status == Running || m.Message == "":
		return ""
	}
	return ", and whether it runs is unknown: " + m.Message
}

// patience is how long a running manager may take to observe a change before the state
// is Stale.
const patience = 15 * time.Second

// fresh says whether the manager has not observed the object because it was changed
// just now: the lease is held, and the change is only seconds old by this
// computer's clock as well as by that of the manager, whichever is ahead.
func fresh(f Facts) bool {
	if Observed(f.Object) || f.Manager.Status != Running || f.Manager.renewed.IsZero() {
		return false
	}
	changed := changedAt(f.Object)
	return f.Now.Sub(changed) < patience && f.Manager.renewed.Sub(changed) < patience
}

// changedAt is when the spec was changed or the object created or deleted, by the
// apiserver's clock, in whole seconds. Without managed fields it may be earlier.
func changedAt(object *v1alpha1.RouteReflectorPool) time.Time {
	out := object.CreationTimestamp.Time
	if gone := object.DeletionTimestamp; gone != nil && gone.After(out) {
		out = gone.Time
	}
	for _, entry := range object.ManagedFields {
		ours := entry.Subresource == "" && entry.Time != nil && entry.FieldsV1 != nil
		if ours && strings.Contains(entry.FieldsV1.GetRawString(), `"f:spec"`) && entry.Time.After(out) {
			out = entry.Time.Time
		}
	}
	return out
}

// freshness names the change that the manager has not observed yet.
func freshness(object *v1alpha1.RouteReflectorPool) string {
	at := changedAt(object).UTC().Format("15:04:05Z")
	if object.Status.ObservedGeneration == 0 {
		return fmt.Sprintf("the manager has not yet observed the RouteReflectorPool, which was created at %s", at)
	}
	return fmt.Sprintf("the manager has not yet observed the change that was made at %s (generation %d, observed %d); what follows is from before",
		at, object.Generation, object.Status.ObservedGeneration)
}

// Problem is a condition that is not as it should be.
type Problem struct {
	// Conditions that say so, such as Degraded=True.
	Conditions []string `json:"conditions"`
	Reason     string   `json:"reason"`
	Message    string   `json:"message"`
	// Docs is the page that says what it means and what to do.
	Docs  string `json:"docs"`
	Since string `json:"since"`

	since metav1.Time
}

// Passing says whether trouble may go by itself; everything else needs a person.
func (t Problem) Passing() bool {
	return slices.Contains([]string{
		"CloudRateLimited", "CloudUnavailable", "StepFailed", "ObservationFailed", "SessionTimeout", "WorkersLate", "DrainBlocked",
	}, t.Reason)
}

// Problems are the bad conditions of an object, those of one cause together.
func Problems(object *v1alpha1.RouteReflectorPool) []Problem {
	out := []Problem{}
	conditions := slices.Clone(object.Status.Conditions)
	// Degraded says best what is wrong; other conditions repeat its reason.
	slices.SortStableFunc(conditions, func(a, b metav1.Condition) int { return rank(a) - rank(b) })
	for _, c := range conditions {
		same := slices.IndexFunc(out, func(t Problem) bool { return t.Reason == c.Reason })
		switch {
		case same >= 0 && c.Status != metav1.ConditionTrue:
			out[same].Conditions = append(out[same].Conditions, says(c))
		case bad(object, c):
			out = append(out, Problem{
				Conditions: []string{says(c)}, Reason: c.Reason, Message: message(c), Docs: plan.Docs + plan.Page(c.Reason),
				Since: stamp(c.LastTransitionTime.Time), since: c.LastTransitionTime,
			})
		}
	}
	return out
}

func says(c metav1.Condition) string { return c.Type + "=" + string(c.Status) }

func rank(c metav1.Condition) int {
	if c.Type == v1alpha1.ConditionDegraded {
		return 0
	}
	return 1
}

// message is what a condition says, without the address of its page, which is shown elsewhere.
func message(c metav1.Condition) string { return plan.Unlinked(c.Message, c.Reason) }

// Page is where to read on. A link that is broken in two leads nowhere: where the terminal
// is too narrow for all of it, only the path in the repository is given.
func (t Problem) Page(width int) string {
	if width > 0 && len(t.Docs) > width {
		return "docs/" + strings.TrimPrefix(t.Docs, plan.Docs)
	}
	return t.Docs
}

// bad tells a condition that needs a look from one that is as expected on the way.
func bad(object *v1alpha1.RouteReflectorPool, c metav1.Condition) bool {
	reflecting := object.Spec.Mode != v1alpha1.ModeFullMesh && object.DeletionTimestamp == nil
	switch c.Type {
	case v1alpha1.ConditionDegraded:
		return c.Status != metav1.ConditionFalse
	case v1alpha1.ConditionProviderReady:
		usual := []string{"NotObserved", "PoolMissing", "WorkersPending", "PoolReady"}
		return reflecting && !slices.Contains(usual, c.Reason)
	case v1alpha1.ConditionReflectorsEstablished:
		// On the way sessions are missing; at rest they should not.
		resting := object.Status.Step.Name == rollout.Steady
		return c.Reason == "ObservationFailed" || resting && reflecting && c.Reason == "SessionsMissing"
	case v1alpha1.ConditionReady, v1alpha1.ConditionMeshDisabled, v1alpha1.ConditionProgressing:
		return c.Status == metav1.ConditionUnknown
	}
	return false
}
