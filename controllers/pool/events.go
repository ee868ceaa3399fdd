package pool

import (
	"context"
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"golang.org/x/time/rate"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/controllers/plan"
	"github.com/rrpool/rrpool/controllers/plan/rollout"
)

// The API's limits for an event's note and action.
const (
	maxNote   = 1024
	maxAction = 128
)

// poolEvent is something that changed. Kubernetes folds events into one that differ
// in nothing but the note, so action and related tell them apart.
type poolEvent struct {
	kind, reason, action, note string
	related                    *corev1.ObjectReference
}

// actionEvent says what was changed in the cluster and why; zero for what is
// not worth an event.
func actionEvent(action plan.Action, step rollout.Step) poolEvent {
	var reason string
	var related *corev1.ObjectReference
	switch a := action.(type) {
	case plan.SetReflector:
		reason, related = "ReflectorAdded", nodeRef(a.Node)
	case plan.ClearReflector:
		reason, related = "ReflectorRemoved", nodeRef(a.Node)
	case plan.SetRack:
		return racksLabelled(a, step)
	case plan.PutPeer:
		reason, related = "PeerWritten", peerRef(a.Peer.Name)
	case plan.DeletePeer:
		reason, related = "PeerDeleted", peerRef(a.Name)
	case plan.DisableMesh:
		reason = "MeshDisabled"
	case plan.RestoreMesh:
		reason = "MeshRestored"
	case plan.ForgetMesh:
		reason = "MeshForgotten"
	case plan.CordonNode:
		reason, related = "NodeCordoned", nodeRef(a.Node)
	case plan.UncordonNode:
		reason, related = "NodeUncordoned", nodeRef(a.Node)
	default:
		return poolEvent{}
	}
	return poolEvent{corev1.EventTypeNormal, reason, step.Name, action.String() + ": " + step.Reason, related}
}

func nodeRef(name string) *corev1.ObjectReference {
	return &corev1.ObjectReference{APIVersion: "v1", Kind: "Node", Name: name}
}

func peerRef(name string) *corev1.ObjectReference {
	return &corev1.ObjectReference{APIVersion: "projectcalico.org/v3", Kind: "BGPPeer", Name: name}
}

// podsEvicted says how many pods were asked to leave a node, and why.
func podsEvicted(node string, count int, step rollout.Step) poolEvent {
	note := fmt.Sprintf("evicted %d pods from node %s: %s", count, node, step.Reason)
	return poolEvent{corev1.EventTypeNormal, "PodsEvicted", step.Name, note, nodeRef(node)}
}

// podsStay names the pods that are not evicted although they have an address of
// their own.
func podsStay(node string, pods []string, step rollout.Step) poolEvent {
	note := fmt.Sprintf("pods without a controller stay on node %s, because no controller would create them again: %s; "+
		"move them yourself, or they meet what the change of role costs", node, few(pods))
	return poolEvent{corev1.EventTypeWarning, "PodsStay", step.Name, note, nodeRef(node)}
}

// poolChanged says what was changed in the pool, in the provider's words.
func poolChanged(did string) poolEvent {
	return poolEvent{corev1.EventTypeNormal, "PoolChanged", words(did), did, nil}
}

// refused says that rrpool holds still, and what would help.
func refused(problem plan.Problem, step string) poolEvent {
	return poolEvent{corev1.EventTypeWarning, problem.Reason, step, plan.Linked(problem.Message, problem.Reason, maxNote), nil}
}

// recovered says that a refusal is over.
func recovered(reason, step string) poolEvent {
	return poolEvent{corev1.EventTypeNormal, "Recovered", step, "no longer hindered by " + reason, nil}
}

// released says that the object may go.
func released(s *scope) poolEvent {
	note := "the node-to-node mesh carries the cluster; the worker pool is left as it is"
	switch {
	case s.inPlace():
		note = "the node-to-node mesh carries the cluster; no node is in the pool any more"
	case s.object.Spec.Provider.IKS.DeletionPolicy == v1alpha1.DeletionDelete:
		note = "the node-to-node mesh carries the cluster; rrpool has no worker pool any more"
	}
	return poolEvent{corev1.EventTypeNormal, "Released", "Finalize", note, nil}
}

// emit reports a change: to users by an event, to operators in the log.
func (r *Reconciler) emit(ctx context.Context, s *scope, e poolEvent) {
	if e.reason == "" {
		return
	}
	r.log(ctx, s, e)
	if !r.send(s, e) {
		r.Metrics.eventHeldBack(e.reason)
	}
}

// log writes every event to the log and counts it in the budget.
func (r *Reconciler) log(ctx context.Context, s *scope, e poolEvent) {
	log.FromContext(ctx).Info(short(e.note), "event", e.reason, "step", s.step.Name)
	r.budget.happened(e.reason, s.now)
}

// send sends an event, if there may be one now.
func (r *Reconciler) send(s *scope, e poolEvent) bool {
	suffix, ok := r.budget.spend(e.reason, s.now)
	if !ok || r.Recorder == nil {
		return ok
	}
	var related runtime.Object
	if e.related != nil {
		related = e.related
	}
	text := plan.Unlinked(e.note, e.reason)
	link := e.note[len(text):]
	note := plan.Plain(text, maxNote-len(suffix)-len(link)) + suffix + link
	r.Recorder.Eventf(s.object, related, e.kind, e.reason, e.action, "%s", note)
	return true
}

// reportStep logs a new step, and reports a problem when it begins and
// when it ends.
func (r *Reconciler) reportStep(ctx context.Context, s *scope) {
	if s.step.Name != r.stepName {
		log.FromContext(ctx).Info("next step", "step", s.step.Name, "reason", s.step.Reason, "waitingFor", few(s.step.WaitingFor))
	}
	r.reportProblem(ctx, s)
	r.Metrics.stepped(s, r.stepName)
	r.stepName = s.step.Name
}

// reportProblem emits an event for a new problem, or for its end. When problems change
// more often than the budget allows, the latest state is sent as soon as it may be: the
// last event never names a problem that is over.
func (r *Reconciler) reportProblem(ctx context.Context, s *scope) {
	problem, reason := r.worstProblem(s), ""
	said := func(before string) poolEvent { return recovered(before, s.step.Name) }
	if problem != nil {
		reason = problem.Reason
		said = func(string) poolEvent { return refused(*problem, s.step.Name) }
	}
	changed := reason != r.problem
	if changed {
		r.log(ctx, s, said(r.problem))
		r.problem = reason
	}
	switch {
	case reason != r.reportedProblem && r.send(s, said(r.reportedProblem)):
		r.reportedProblem = reason
	case changed:
		r.Metrics.eventHeldBack(said(r.reportedProblem).reason)
	}
}

// worstProblem is what a person should look at first, nil for nothing.
func (r *Reconciler) worstProblem(s *scope) *plan.Problem {
	return worst(s, providerProblem(s, &r.poolClient), waitProblem(s, r.waiting(s)))
}

// words makes a CamelCase word of a sentence.
func words(sentence string) string {
	var out strings.Builder
	for _, field := range strings.FieldsFunc(sentence, func(c rune) bool { return !unicode.IsLetter(c) && !unicode.IsDigit(c) }) {
		first, size := utf8.DecodeRuneInString(field)
		word := string(unicode.ToUpper(first)) + field[size:] // a capital may take more bytes
		if out.Len()+len(word) > maxAction {
			break
		}
		out.WriteString(word)
	}
	return out.String()
}

// short is a text as the API takes it. Words of nodes and of the cloud are in it.
func short(text string) string { return plan.Plain(text, maxNote) }

// racksLabelled is one event for all clients that a step labels, sent with the first: there
// may be thousands.
func racksLabelled(first plan.SetRack, step rollout.Step) poolEvent {
	count := 0
	for _, action := range step.Actions {
		if a, ok := action.(plan.SetRack); ok {
			if count == 0 && a != first {
				return poolEvent{}
			}
			count++
		}
	}
	note := fmt.Sprintf("write the label %s on %d clients, of which the first is %s: %s", plan.RackLabel, count, first.Node, step.Reason)
	return poolEvent{corev1.EventTypeNormal, "RacksLabelled", step.Name, note, nodeRef(first.Node)}
}

// eventBudget is how many events may be sent. Usual days come nowhere near it; it is for
// problems that come and go all the time, and for another writer that undoes each change
// at once. Kubernetes itself folds events only while the object is the very
// same, and its status, which we write, is part of it.
//
// The log has everything. Of each kind the first is always sent, and the next one that is
// sent says how many were not. What a person must be able to rely on afterwards is never
// held back: see alwaysSent.
//
// The zero value is full.
type eventBudget struct {
	reasons map[string]*reasonBudget
	// problems is the limit of all reasons but actions together.
	problems *rate.Limiter
}

// reasonBudget is the budget of one kind of event.
type reasonBudget struct {
	*rate.Limiter
	action bool
	// unsent counts what has happened since the last event of this kind, first and last
	// are when the first of those did, and the last of all.
	unsent      int
	first, last time.Time
	// rested: the last that happened was the first for a long time.
	rested bool
}

// Actions are changes of the cluster. One reconciliation may promote hundreds of reflectors;
// a change that another writer undoes is at most one action in each. The others are
// problems and their end.
const (
	actionBurst, actionEvery     = 600, 10 * time.Second
	problemBurst, problemEvery   = 10, 5 * time.Minute
	problemsBurst, problemsEvery = 60, time.Minute
	// rest is how long nothing of a kind has happened when the next is a first one.
	rest = time.Hour
)

// alwaysSent are the actions that change what carries all routes, or what is paid for. They take seconds at least, each with proof before.
var alwaysSent = map[string]bool{"MeshDisabled": true, "MeshRestored": true, "MeshForgotten": true, "PoolChanged": true, "Released": true}

var actionReasons = map[string]bool{
	"ReflectorAdded": true, "ReflectorRemoved": true, "PeerWritten": true, "PeerDeleted": true,
	"NodeCordoned": true, "NodeUncordoned": true, "PodsEvicted": true, "RacksLabelled": true,
}

// happened counts an event of a reason.
func (b *eventBudget) happened(kind string, now time.Time) {
	a := b.of(kind)
	if a.unsent == 0 {
		a.first = now
	}
	a.unsent++
	a.rested = a.last.IsZero() || now.Sub(a.last) >= rest
	a.last = now
}

// spend says whether an event of a kind may be sent now, and if so what to add to it: of
// the events that were not sent before.
func (b *eventBudget) spend(kind string, now time.Time) (suffix string, ok bool) {
	a := b.of(kind)
	if !alwaysSent[kind] && !b.allow(a, now) {
		return "", false
	}
	if more := a.unsent - 1; more > 0 {
		suffix = fmt.Sprintf(" (and %d more of these since %s, which only the log has)", more, a.first.UTC().Format("15:04:05Z"))
	}
	a.unsent = 0
	return suffix, true
}

func (b *eventBudget) allow(a *reasonBudget, now time.Time) bool {
	if a.action {
		return a.AllowN(now, 1)
	}
	if !a.rested && b.problems.TokensAt(now) < 1 || !a.AllowN(now, 1) {
		return false
	}
	_ = b.problems.AllowN(now, 1) // the first goes without
	a.rested = false
	return true
}

func (b *eventBudget) of(kind string) *reasonBudget {
	if b.reasons == nil {
		b.reasons = map[string]*reasonBudget{}
		b.problems = rate.NewLimiter(rate.Every(problemsEvery), problemsBurst)
	}
	a := b.reasons[kind]
	if a == nil {
		a = &reasonBudget{Limiter: rate.NewLimiter(rate.Every(problemEvery), problemBurst)}
		if actionReasons[kind] {
			a = &reasonBudget{Limiter: rate.NewLimiter(rate.Every(actionEvery), actionBurst), action: true}
		}
		b.reasons[kind] = a
	}
	return a
}
