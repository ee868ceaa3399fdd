package status

import (
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/rrpool/rrpool/config/api/v1alpha1"
)

// State is how things are, in one word.
type State string

// The states.
const (
	// NoPool: nobody has asked for route reflectors.
	NoPool State = "NoPool"
	// Stale: the manager does not act, or has not taken note of the object as it is
	// now, so that what it reported may be old.
	Stale State = "Stale"
	// Unknown: the manager cannot see the cluster.
	Unknown State = "Unknown"
	// Degraded: something is wrong that a person may have to solve.
	Degraded State = "Degraded"
	// Deleting: the object is to go, and the cluster goes back to the mesh before.
	Deleting State = "Deleting"
	// Paused: the manager changes nothing.
	Paused State = "Paused"
	// Ready: the cluster is where spec.mode wants it.
	Ready State = "Ready"
	// Progressing: a step is being taken or waited for, or the object has been changed
	// just now.
	Progressing State = "Progressing"
)

// Noted says whether the manager has reported about the object as it is now.
func Noted(object *v1alpha1.RouteReflectorPool) bool {
	return object.Status.ObservedGeneration > 0 && object.Status.ObservedGeneration >= object.Generation
}

// Reached says whether the cluster is where the object as it is now wants it.
func Reached(object *v1alpha1.RouteReflectorPool) bool {
	c := condition(object, v1alpha1.ConditionReady)
	return Noted(object) && c.Status == metav1.ConditionTrue && c.ObservedGeneration >= object.Generation
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
	case !Noted(f.Object) || f.Manager.Pulse == Stopped:
		return Stale
	}
	return reported(f.Object)
}

// reported is the state that the manager tells of.
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
		return "nobody has asked for route reflectors in this cluster: there is no RouteReflectorPool"
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
		return "the manager has not taken note of the RouteReflectorPool" + why(f.Manager)
	case !Noted(object):
		return fmt.Sprintf("the manager has not taken note of the RouteReflectorPool as it is now (generation %d, it has seen %d)%s; what follows is old",
			object.Generation, object.Status.ObservedGeneration, why(f.Manager))
	}
	return fmt.Sprintf("the manager does not run: %s; what follows may be old, and no step is taken, not even by the safety net", f.Manager.Message)
}

func why(m Manager) string {
	switch {
	case m.Pulse == Stopped:
		return ", and it does not run: " + m.Message
	case m.Pulse == Running || m.Message == "":
		return ""
	}
	return ", and whether it runs is unknown: " + m.Message
}
