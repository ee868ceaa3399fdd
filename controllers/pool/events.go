package pool

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"golang.org/x/time/rate"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/rrpool/rrpool/cloud"
	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/controllers/plan"
	"github.com/rrpool/rrpool/controllers/plan/rollout"
)

// The API's limits for an event's note and action, in bytes.
const (
	maxNote   = 1024
	maxAction = 128
)

// poolEvent is an event about the RouteReflectorPool. Kubernetes merges events that
// differ only in the note. Events to be kept apart need another action or related object.
type poolEvent struct {
	kind, reason, action, note string
	related                    runtime.Object
}

// actionEvent returns the event about a change in the cluster, zero for none.
func actionEvent(action plan.Action, step rollout.Step) poolEvent {
	e := poolEvent{kind: corev1.EventTypeNormal, action: step.Name, note: action.String() + ": " + step.Reason}
	switch a := action.(type) {
	case plan.SetReflector:
		e.reason, e.related = "ReflectorAdded", nodeRef(a.Node)
	case plan.ClearReflector:
		e.reason, e.related = "ReflectorRemoved", nodeRef(a.Node)
	case plan.SetRack:
		return racksLabelled(a, step)
	case plan.PutPeer:
		e.reason, e.related = "PeerWritten", peerRef(a.Peer.Name)
	case plan.DeletePeer:
		e.reason, e.related = "PeerDeleted", peerRef(a.Name)
	case plan.CordonNode:
		e.reason, e.related = "NodeCordoned", nodeRef(a.Node)
	case plan.UncordonNode:
		e.reason, e.related = "NodeUncordoned", nodeRef(a.Node)
	default:
		if e.reason = meshReason(action); e.reason == "" {
			return poolEvent{}
		}
	}
	return e
}

// meshReason returns the reason of the event about an action on the mesh, "" for other actions.
func meshReason(action plan.Action) string {
	switch action.(type) {
	case plan.DisableMesh:
		return "MeshDisabled"
	case plan.RestoreMesh:
		return "MeshRestored"
	case plan.NoteMesh:
		return "MeshNoted"
	case plan.ForgetMesh:
		return "MeshForgotten"
	}
	return ""
}

// racksLabelled returns one event for all clients that a step labels, with the first of these actions; zero for the others.
func racksLabelled(action plan.SetRack, step rollout.Step) poolEvent {
	if first := slices.IndexFunc(step.Actions, is[plan.SetRack]); first >= 0 && step.Actions[first] != action {
		return poolEvent{}
	}
	all := count(step.Actions, is[plan.SetRack])
	note := fmt.Sprintf("write the label %s on %d clients, of which the first is %s: %s", plan.RackLabel, all, action.Node, step.Reason)
	return poolEvent{corev1.EventTypeNormal, "RacksLabelled", step.Name, note, nodeRef(action.Node)}
}

func nodeRef(name string) runtime.Object {
	return &corev1.ObjectReference{APIVersion: "v1", Kind: "Node", Name: name}
}

func peerRef(name string) runtime.Object {
	return &corev1.ObjectReference{APIVersion: "projectcalico.org/v3", Kind: "BGPPeer", Name: name}
}

// podsEvicted says how many pods were evicted from a node, and why.
func podsEvicted(node string, count int, step rollout.Step) poolEvent {
	note := fmt.Sprintf("evicted %d pods from node %s: %s", count, node, step.Reason)
	return poolEvent{corev1.EventTypeNormal, "PodsEvicted", step.Name, note, nodeRef(node)}
}

// podsStay warns of the pods that are not evicted from a node, because no controller would create them again.
func podsStay(node string, pods []string, step rollout.Step) poolEvent {
	note := fmt.Sprintf("pods without a controller stay on node %s, because no controller would create them again: %s; "+
		"move them yourself, or they meet what the change of role costs", node, few(pods))
	return poolEvent{corev1.EventTypeWarning, "PodsStay", step.Name, note, nodeRef(node)}
}

// poolChanged says what was changed in the pool, in the provider's words.
func poolChanged(did string) poolEvent {
	return poolEvent{corev1.EventTypeNormal, "PoolChanged", plan.Plain(did, maxAction), did, nil}
}

// reasonRecovered is the reason of the event that a problem is over.
const reasonRecovered = "Recovered"

// problemEvent names a problem and its remedy. If p is nil, it says that the previous problem is over, whose reason was before.
func problemEvent(p *plan.Problem, before, step string) poolEvent {
	if p == nil {
		return poolEvent{corev1.EventTypeNormal, reasonRecovered, step, "no longer hindered by " + before, nil}
	}
	return poolEvent{corev1.EventTypeWarning, p.Reason, step, plan.Linked(p.Message, p.Reason, maxNote), nil}
}

// released says that the finalizer is gone, what becomes of the pool, and whether the mesh is as it was before rrpool.
func released(s *Scope, last *cloud.Pool) poolEvent {
	pool := "the worker pool is left as it is"
	switch {
	case s.inPlace():
		pool = "no node is in the pool any more"
	case s.object.Spec.Provider.IKS.DeletionPolicy == v1alpha1.DeletionDelete && last != nil && last.Exists && !last.Owned:
		pool = fmt.Sprintf("worker pool %s, which rrpool did not make, is left as it is, with its workers", last.Name)
	case s.object.Spec.Provider.IKS.DeletionPolicy == v1alpha1.DeletionDelete:
		pool = "rrpool has no worker pool any more"
	}
	kind, mesh := corev1.EventTypeNormal, "the node-to-node mesh carries the cluster"
	if s.Step.Name == rollout.ForgetMesh {
		kind, mesh = corev1.EventTypeWarning, mesh+", and is not as it was: "+s.Step.Reason+" ("+few(s.Step.WaitingFor)+")"
	}
	return poolEvent{kind, "Released", "Finalize", mesh + "; " + pool, nil}
}

// emit logs a change, and sends an event about it if the budget allows that.
func (r *Reconciler) emit(ctx context.Context, s *Scope, e poolEvent) {
	if e.reason == "" {
		return
	}
	logEvent(ctx, s, e)
	if !r.send(s, e) {
		r.Metrics.held.WithLabelValues(e.reason).Inc()
	}
}

func logEvent(ctx context.Context, s *Scope, e poolEvent) {
	log.FromContext(ctx).Info(apiText(e.note), "event", e.reason, "step", s.Step.Name)
}

// send sends an event if the budget allows it, and reports whether it does.
func (r *Reconciler) send(s *Scope, e poolEvent) bool {
	allowed := r.budget.allows(e, s.now)
	if allowed && r.Recorder != nil {
		r.Recorder.Eventf(s.object, e.related, e.kind, e.reason, e.action, "%s", apiText(e.note))
	}
	return allowed
}

// reportStep logs a new step, and sends an event when a problem begins, changes or ends. If the budget does not allow
// the event, the latest state is sent as soon as it does, so that the last event never names a problem that is over.
func (r *Reconciler) reportStep(ctx context.Context, s *Scope) {
	if s.Step.Name != r.stepName {
		log.FromContext(ctx).Info("next step", "step", s.Step.Name, "rule", s.Step.Rule, "reason", s.Step.Reason, "waitingFor", few(s.Step.WaitingFor))
		r.Metrics.steps.WithLabelValues(s.Step.Name).Inc()
		r.stepName = s.Step.Name
	}
	if s.Step.Rule != r.rule && s.Step.Rule != "" {
		r.Metrics.rules.WithLabelValues(s.Step.Rule).Inc()
		r.rule = s.Step.Rule
	}
	problem, reason := r.worstProblem(s), ""
	if problem != nil {
		reason = problem.Reason
	}
	changed := reason != r.problem
	if changed {
		logEvent(ctx, s, problemEvent(problem, r.problem, s.Step.Name))
		r.problem = reason
	}
	event := problemEvent(problem, r.reportedProblem, s.Step.Name)
	switch {
	case reason != r.reportedProblem && r.send(s, event):
		r.reportedProblem = reason
	case changed:
		r.Metrics.held.WithLabelValues(event.reason).Inc()
	}
}

// apiText returns text as the API accepts it: it may quote nodes and the cloud.
func apiText(text string) string { return plan.Plain(text, maxNote) }

// eventBudget limits the events of each reason: problems may come and go, and another writer may undo each change.
// Kubernetes merges events only while the object, with its status, does not change. The log has everything.
type eventBudget map[string]*rate.Limiter

// The budgets of one reason: a burst, then one event per period. One reconciliation may take hundreds of actions, so their budget is larger.
const (
	actionBurst, actionEvery   = 600, 10 * time.Second
	problemBurst, problemEvery = 10, 5 * time.Minute
)

// allows reports whether an event may be sent now, and counts it. Events about the mesh are always sent.
func (b eventBudget) allows(e poolEvent, now time.Time) bool {
	if strings.HasPrefix(e.reason, "Mesh") {
		return true
	}
	if b[e.reason] == nil {
		b[e.reason] = rate.NewLimiter(rate.Every(actionEvery), actionBurst)
		if e.kind == corev1.EventTypeWarning || e.reason == reasonRecovered {
			b[e.reason] = rate.NewLimiter(rate.Every(problemEvery), problemBurst)
		}
	}
	return b[e.reason].AllowN(now, 1)
}
