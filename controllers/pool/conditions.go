package pool

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/controllers/plan"
	"github.com/rrpool/rrpool/controllers/plan/rollout"
)

// conditionTypes in the order in which they are reported.
var conditionTypes = []string{
	v1alpha1.ConditionReady,
	v1alpha1.ConditionProviderReady,
	v1alpha1.ConditionReflectorsEstablished,
	v1alpha1.ConditionMeshDisabled,
	v1alpha1.ConditionProgressing,
	v1alpha1.ConditionDegraded,
}

// conditions says how things are, from what was gathered and decided. failure is
// what went wrong while the step was taken, overdue is a wait that lasts too
// long; both nil for nothing.
func conditions(t *turn, s *supply, overdue *plan.Problem, failure error) []metav1.Condition {
	provider := providerProblem(t, s)
	return []metav1.Condition{
		ready(t, provider),
		providerReady(t, s, provider),
		reflectorsEstablished(t),
		meshDisabled(t),
		progressing(t),
		degraded(t, worst(t, provider, overdue), failure),
	}
}

// unknown is every condition while the cluster cannot be observed.
func unknown(failure error) []metav1.Condition {
	out := make([]metav1.Condition, 0, len(conditionTypes))
	for _, kind := range conditionTypes {
		out = append(out, troubled(kind, metav1.ConditionUnknown, ReasonObservationFailed, failure.Error()))
	}
	return out
}

func condition(kind string, status metav1.ConditionStatus, reason, message string) metav1.Condition {
	return metav1.Condition{Type: kind, Status: status, Reason: reason, Message: message}
}

// troubled is a condition that may want a person, and tells where to read on.
func troubled(kind string, status metav1.ConditionStatus, reason, message string) metav1.Condition {
	return condition(kind, status, reason, plan.Linked(message, reason, maxNote))
}

// ready: the cluster is where it is wanted. Trouble with the provider alone does
// not change that.
func ready(t *turn, provider *plan.Problem) metav1.Condition {
	kind, step := v1alpha1.ConditionReady, t.step
	stopped := notRunning(step.Reflectors)
	switch {
	case step.Problem != nil:
		return troubled(kind, metav1.ConditionFalse, step.Problem.Reason, step.Problem.Message)
	case stopped != nil && t.reflecting():
		return troubled(kind, metav1.ConditionFalse, stopped.Reason, stopped.Message)
	case step.Name == rollout.Steady && (!t.reflecting() || !t.cluster.BGP.MeshOn()):
		return condition(kind, metav1.ConditionTrue, rollout.Steady, step.Reason)
	case t.paused():
		return condition(kind, metav1.ConditionFalse, "Paused", fmt.Sprintf("spec.mode is Paused; the next step would be %s: %s",
			step.Name, step.Reason))
	case provider != nil && t.needsProvider():
		return troubled(kind, metav1.ConditionFalse, provider.Reason, provider.Message)
	default:
		return condition(kind, metav1.ConditionFalse, step.Name, waitText(step))
	}
}

// providerProblem is what keeps the provider from being useful, nil for nothing.
func providerProblem(t *turn, s *supply) *plan.Problem {
	switch {
	case t.origin.problem != nil:
		return t.origin.problem
	case s.observing.told(s.last) != nil:
		return cloudProblem(s.observing.err())
	case s.last != nil && (s.foreign() || s.last.Autoscaled):
		return poolProblem(*s.last)
	case s.ensuring.told(s.last) != nil:
		return cloudProblem(s.ensuring.err())
	case s.last != nil:
		return poolProblem(*s.last)
	}
	return nil
}

func providerReady(t *turn, s *supply, problem *plan.Problem) metav1.Condition {
	kind := v1alpha1.ConditionProviderReady
	switch {
	case problem != nil:
		return troubled(kind, metav1.ConditionFalse, problem.Reason, problem.Message)
	case s.last == nil:
		return condition(kind, metav1.ConditionUnknown, "NotObserved", "the provider has not been asked yet")
	case !s.last.Exists && t.busy():
		return condition(kind, metav1.ConditionFalse, "PoolMissing", "no node has been chosen for a route reflector")
	case !s.last.Exists:
		return condition(kind, metav1.ConditionFalse, "PoolMissing", "there is no worker pool for route reflectors")
	}
	return manned(t, s)
}

// manned says whether the pool has all its workers.
func manned(t *turn, s *supply) metav1.Condition {
	kind := v1alpha1.ConditionProviderReady
	want, deployed := manning(t, s)
	message := fmt.Sprintf("worker pool %s: %d of %d workers deployed", s.last.Name, deployed, want)
	if t.busy() {
		message = fmt.Sprintf("%d of %d nodes are chosen and Ready", deployed, want)
	}
	if deployed < want || want == 0 {
		return condition(kind, metav1.ConditionFalse, "WorkersPending", message)
	}
	return condition(kind, metav1.ConditionTrue, "PoolReady", message)
}

func reflectorsEstablished(t *turn) metav1.Condition {
	kind := v1alpha1.ConditionReflectorsEstablished
	if len(t.step.Reflectors) == 0 {
		reason, message := "NoReflectors", "no node is a route reflector"
		if t.step.Problem != nil {
			reason, message = t.step.Problem.Reason, t.step.Problem.Message
		}
		return condition(kind, metav1.ConditionFalse, reason, message)
	}
	if t.desired.Timer {
		return condition(kind, metav1.ConditionUnknown, "TimerGate", "spec.rollout.gate is Timer: sessions are not observed")
	}
	var missing []string
	for _, r := range t.step.Reflectors {
		if r.NotRunning {
			missing = append(missing, "calico-node is not running on "+r.Node)
		} else if r.Established < r.Expected || !r.Serving {
			missing = append(missing, fmt.Sprintf("%s has %d of %d sessions", r.Node, r.Established, r.Expected))
		}
	}
	if len(missing) > 0 {
		return condition(kind, metav1.ConditionFalse, "SessionsMissing", few(missing))
	}
	return condition(kind, metav1.ConditionTrue, "AllEstablished",
		fmt.Sprintf("%d route reflectors have all their sessions", len(t.step.Reflectors)))
}

func meshDisabled(t *turn) metav1.Condition {
	kind := v1alpha1.ConditionMeshDisabled
	if !t.cluster.BGP.MeshOn() {
		return condition(kind, metav1.ConditionTrue, "MeshOff", "the node-to-node mesh is off")
	}
	if t.step.Problem != nil {
		return condition(kind, metav1.ConditionFalse, t.step.Problem.Reason, t.step.Problem.Message)
	}
	return condition(kind, metav1.ConditionFalse, "MeshOn", "the node-to-node mesh is on")
}

func progressing(t *turn) metav1.Condition {
	kind, step := v1alpha1.ConditionProgressing, t.step
	switch {
	case step.Problem != nil:
		return condition(kind, metav1.ConditionFalse, step.Problem.Reason, "nothing is changed: "+step.Problem.Message)
	case step.Name == rollout.Steady:
		return condition(kind, metav1.ConditionFalse, rollout.Steady, "there is nothing to do")
	case t.paused():
		return condition(kind, metav1.ConditionFalse, "Paused", "spec.mode is Paused")
	default:
		return condition(kind, metav1.ConditionTrue, step.Name, waitText(step))
	}
}

// worst is what a person should look at first, nil for nothing: a refusal, then a
// calico-node that does not run, then missing sessions or pods that do not go, then what the provider says itself, then
// that it takes long.
func worst(t *turn, provider, overdue *plan.Problem) *plan.Problem {
	stopped := notRunning(t.step.Reflectors)
	switch {
	case t.step.Problem != nil:
		return t.step.Problem
	case stopped != nil:
		return stopped
	case overdue != nil && overdue.Reason != ReasonWorkersLate:
		return overdue
	case provider != nil && t.needsProvider():
		return provider
	case overdue == nil:
		return t.worry
	}
	return overdue
}

func degraded(t *turn, problem *plan.Problem, failure error) metav1.Condition {
	kind := v1alpha1.ConditionDegraded
	switch {
	case t.step.Problem == nil && failure != nil:
		return troubled(kind, metav1.ConditionTrue, ReasonStepFailed, failure.Error())
	case problem != nil:
		return troubled(kind, metav1.ConditionTrue, problem.Reason, problem.Message)
	}
	return condition(kind, metav1.ConditionFalse, "AsExpected", "nothing is wrong")
}

func waitText(step rollout.Step) string {
	if len(step.WaitingFor) == 0 {
		return step.Reason
	}
	return fmt.Sprintf("%s; waiting for %s", step.Reason, few(step.WaitingFor))
}
