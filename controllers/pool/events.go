package pool

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/controllers/plan"
	"github.com/rrpool/rrpool/controllers/plan/rollout"
)

// maxNote is the API's limit for an event's note.
const maxNote = 1024

// news is something that changed.
type news struct {
	kind, reason, action, note string
}

// actionTaken says what was changed in the cluster and why; zero for what is
// not worth an event.
func actionTaken(action plan.Action, step rollout.Step) news {
	reason := ""
	switch action.(type) {
	case plan.SetReflector:
		reason = "ReflectorAdded"
	case plan.ClearReflector:
		reason = "ReflectorRemoved"
	case plan.PutPeer:
		reason = "PeerWritten"
	case plan.DeletePeer:
		reason = "PeerDeleted"
	case plan.DisableMesh:
		reason = "MeshDisabled"
	case plan.RestoreMesh:
		reason = "MeshRestored"
	case plan.ForgetMesh:
		reason = "MeshForgotten"
	default:
		return news{}
	}
	return news{corev1.EventTypeNormal, reason, step.Name, action.String() + ": " + step.Reason}
}

// poolChanged says what was changed in the cloud, in the provider's words.
func poolChanged(did string) news {
	return news{corev1.EventTypeNormal, "PoolChanged", "EnsurePool", did}
}

// refused says that rrpool holds still, and what would help.
func refused(problem plan.Problem, step string) news {
	return news{corev1.EventTypeWarning, problem.Reason, step, problem.Message}
}

// recovered says that a refusal is over.
func recovered(reason, step string) news {
	return news{corev1.EventTypeNormal, "Recovered", step, "no longer hindered by " + reason}
}

// released says that the object may go.
func released(policy v1alpha1.DeletionPolicy) news {
	note := "the node-to-node mesh carries the cluster; the worker pool is left as it is"
	if policy == v1alpha1.DeletionDelete {
		note = "the node-to-node mesh carries the cluster; rrpool has no worker pool any more"
	}
	return news{corev1.EventTypeNormal, "Released", "Finalize", note}
}

func (r *Reconciler) emit(t *turn, e news) {
	if r.Recorder == nil || e.reason == "" {
		return
	}
	r.Recorder.Eventf(t.object, nil, e.kind, e.reason, e.action, "%s", short(e.note, maxNote))
}

// narrate tells of a hindrance when it comes and when it goes.
func (r *Reconciler) narrate(t *turn) {
	problem, reason := r.hindrance(t), ""
	if problem != nil {
		reason = problem.Reason
	}
	if reason != r.problem {
		if problem != nil {
			r.emit(t, refused(*problem, t.step.Name))
		} else {
			r.emit(t, recovered(r.problem, t.step.Name))
		}
		r.problem = reason
	}
	r.Metrics.turn(t, r.stepName)
	r.stepName = t.step.Name
}

// hindrance is what a person should look at first, nil for nothing.
func (r *Reconciler) hindrance(t *turn) *plan.Problem {
	if t.step.Problem != nil {
		return t.step.Problem
	}
	return providerProblem(t, &r.supply)
}

func short(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	const more = " …"
	cut := []rune(text)
	for len(string(cut)) > limit-len(more) {
		cut = cut[:len(cut)-1]
	}
	return string(cut) + more
}
