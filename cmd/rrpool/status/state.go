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

// State of the cluster in one word.
type State string

// The states.
const (
	// NoPool: the cluster has no RouteReflectorPool.
	NoPool State = "NoPool"
	// Stale: the manager does not run, or has not observed the object as it is now.
	Stale State = "Stale"
	// Unknown: the manager cannot observe the cluster.
	Unknown State = "Unknown"
	// Degraded: the condition Degraded is not False.
	Degraded State = "Degraded"
	// Deleting: the object is being deleted, and the cluster goes back to the mesh first.
	Deleting State = "Deleting"
	// Paused: the manager changes nothing.
	Paused State = "Paused"
	// Ready: the cluster is as spec.mode wants it.
	Ready State = "Ready"
	// Progressing: a step is taken or waited for, or the object was changed seconds ago.
	Progressing State = "Progressing"
)

// Observed says whether the manager has reported about the object as it is now.
func Observed(object *v1alpha1.RouteReflectorPool) bool {
	return object.Status.ObservedGeneration > 0 && object.Status.ObservedGeneration >= object.Generation
}

// Reached says whether the cluster is as the object's present generation wants it.
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

// stateOf is the state, and the same in a sentence.
func stateOf(f Facts) (State, string) {
	o := f.Object
	if o == nil {
		return NoPool, "no RouteReflectorPool exists"
	}
	switch {
	case fresh(f) && o.DeletionTimestamp != nil:
		return Deleting, freshness(o)
	case fresh(f):
		return Progressing, freshness(o)
	case !Observed(o) || f.Manager.Status == Stopped:
		return Stale, staleness(f)
	}
	return reported(o)
}

// reported is the state by the conditions.
func reported(o *v1alpha1.RouteReflectorPool) (State, string) {
	ready, degraded := condition(o, v1alpha1.ConditionReady), condition(o, v1alpha1.ConditionDegraded)
	switch {
	case ready.Status == metav1.ConditionUnknown:
		return Unknown, message(ready)
	case degraded.Status == metav1.ConditionTrue:
		return Degraded, message(degraded)
	case o.DeletionTimestamp != nil:
		return Deleting, "the RouteReflectorPool is being deleted; before, the cluster goes back to the node-to-node mesh: " + progress(o)
	case o.Spec.Mode == v1alpha1.ModePaused:
		return Paused, "nothing is changed, not even by the safety net; " + progress(o)
	case ready.Status == metav1.ConditionTrue:
		return Ready, message(ready)
	}
	return Progressing, progress(o)
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
	generation, observed := f.Object.Generation, f.Object.Status.ObservedGeneration
	if Observed(f.Object) {
		return fmt.Sprintf("the manager does not run: %s; what follows may be old, and no step is taken, not even by the safety net", f.Manager.Message)
	}
	why := ""
	switch {
	case f.Manager.Status == Stopped:
		why = ", and it does not run: " + f.Manager.Message
	case f.Manager.Status != Running && f.Manager.Message != "":
		why = ", and whether it runs is unknown: " + f.Manager.Message
	}
	if observed == 0 {
		return "the manager has not observed the RouteReflectorPool" + why
	}
	return fmt.Sprintf("the manager has not observed the RouteReflectorPool as it is now (generation %d, observed %d)%s; what follows is old", generation, observed, why)
}

// patience is how long a running manager may take to observe a change before the state
// is Stale.
const patience = 15 * time.Second

// fresh: the lease is held and the change is only seconds old, by this computer's clock
// and the manager's, so that the manager may not have observed it yet.
func fresh(f Facts) bool {
	if Observed(f.Object) || f.Manager.Status != Running || f.Manager.renewed.IsZero() {
		return false
	}
	changed := changedAt(f.Object)
	return f.Now.Sub(changed) < patience && f.Manager.renewed.Sub(changed) < patience
}

// freshness names the change that the manager has not observed yet.
func freshness(object *v1alpha1.RouteReflectorPool) string {
	at, observed := changedAt(object).UTC().Format("15:04:05Z"), object.Status.ObservedGeneration
	if observed == 0 {
		return fmt.Sprintf("the manager has not yet observed the RouteReflectorPool, which was created at %s", at)
	}
	return fmt.Sprintf("the manager has not yet observed the change that was made at %s (generation %d, observed %d); what follows is from before", at, object.Generation, observed)
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

// Problem is a condition that is not as it should be.
type Problem struct {
	// Conditions that report it, such as Degraded=True.
	Conditions []string `json:"conditions"`
	Reason     string   `json:"reason"`
	Message    string   `json:"message"`
	// Docs is the page about it, with what to do.
	Docs  string      `json:"docs"`
	Since metav1.Time `json:"since"`
}

// Passing says whether a problem may go by itself; everything else needs a person.
func (p Problem) Passing() bool {
	return slices.Contains([]string{
		"CloudRateLimited", "CloudUnavailable", "StepFailed", "ObservationFailed", "SessionTimeout", "WorkersLate", "DrainBlocked",
	}, p.Reason)
}

// Page is the address of the docs. Where the terminal is too narrow for it, which would
// break the link, only the path in the repository is given.
func (p Problem) Page(width int) string {
	if width > 0 && len(p.Docs) > width {
		return "docs/" + strings.TrimPrefix(p.Docs, plan.Docs)
	}
	return p.Docs
}

// Problems are the bad conditions of an object, those of one cause together. Degraded has
// the best message; other conditions repeat its reason.
func Problems(object *v1alpha1.RouteReflectorPool) []Problem {
	out := []Problem{}
	isDegraded := func(c metav1.Condition) bool { return c.Type == v1alpha1.ConditionDegraded }
	others := slices.DeleteFunc(slices.Clone(object.Status.Conditions), isDegraded)
	for _, c := range append([]metav1.Condition{condition(object, v1alpha1.ConditionDegraded)}, others...) {
		same := slices.IndexFunc(out, func(p Problem) bool { return p.Reason == c.Reason })
		named := c.Type + "=" + string(c.Status)
		switch {
		case same >= 0 && c.Status != metav1.ConditionTrue:
			out[same].Conditions = append(out[same].Conditions, named)
		case bad(object, c):
			out = append(out, Problem{[]string{named}, c.Reason, message(c), plan.Docs + plan.Page(c.Reason), c.LastTransitionTime})
		}
	}
	return out
}

// message of a condition, without the address of its page, which is shown elsewhere.
func message(c metav1.Condition) string { return plan.Unlinked(c.Message, c.Reason) }

// bad: the condition is a problem, and not one that is expected on the way.
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
