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

// news is something that changed. Kubernetes folds events into one that differ
// in nothing but the note, so action and related tell them apart.
type news struct {
	kind, reason, action, note string
	related                    *corev1.ObjectReference
}

// actionTaken says what was changed in the cluster and why; zero for what is
// not worth an event.
func actionTaken(action plan.Action, step rollout.Step) news {
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
		return news{}
	}
	return news{corev1.EventTypeNormal, reason, step.Name, action.String() + ": " + step.Reason, related}
}

func nodeRef(name string) *corev1.ObjectReference {
	return &corev1.ObjectReference{APIVersion: "v1", Kind: "Node", Name: name}
}

func peerRef(name string) *corev1.ObjectReference {
	return &corev1.ObjectReference{APIVersion: "projectcalico.org/v3", Kind: "BGPPeer", Name: name}
}

// podsEvicted says how many pods were asked to leave a node, and why.
func podsEvicted(node string, count int, step rollout.Step) news {
	note := fmt.Sprintf("evicted %d pods from node %s: %s", count, node, step.Reason)
	return news{corev1.EventTypeNormal, "PodsEvicted", step.Name, note, nodeRef(node)}
}

// podsStay names the pods that are not evicted although they have an address of
// their own.
func podsStay(node string, pods []string, step rollout.Step) news {
	note := fmt.Sprintf("pods without a controller stay on node %s, because nobody would make them again: %s; "+
		"move them yourself, or they meet what the change of role costs", node, few(pods))
	return news{corev1.EventTypeWarning, "PodsStay", step.Name, note, nodeRef(node)}
}

// poolChanged says what was changed in the pool, in the provider's words.
func poolChanged(did string) news {
	return news{corev1.EventTypeNormal, "PoolChanged", words(did), did, nil}
}

// refused says that rrpool holds still, and what would help.
func refused(problem plan.Problem, step string) news {
	return news{corev1.EventTypeWarning, problem.Reason, step, plan.Linked(problem.Message, problem.Reason, maxNote), nil}
}

// recovered says that a refusal is over.
func recovered(reason, step string) news {
	return news{corev1.EventTypeNormal, "Recovered", step, "no longer hindered by " + reason, nil}
}

// released says that the object may go.
func released(t *turn) news {
	note := "the node-to-node mesh carries the cluster; the worker pool is left as it is"
	switch {
	case t.busy():
		note = "the node-to-node mesh carries the cluster; no node is in the pool any more"
	case t.object.Spec.Provider.IKS.DeletionPolicy == v1alpha1.DeletionDelete:
		note = "the node-to-node mesh carries the cluster; rrpool has no worker pool any more"
	}
	return news{corev1.EventTypeNormal, "Released", "Finalize", note, nil}
}

// emit tells of something that changed: users by an event, operators by the log.
func (r *Reconciler) emit(ctx context.Context, t *turn, e news) {
	if e.reason == "" {
		return
	}
	r.log(ctx, t, e)
	if !r.send(t, e) {
		r.Metrics.heldBack(e.reason)
	}
}

// log has everything, and counts what there is for events to tell.
func (r *Reconciler) log(ctx context.Context, t *turn, e news) {
	log.FromContext(ctx).Info(short(e.note), "event", e.reason, "step", t.step.Name)
	r.budget.happened(e.reason, t.now)
}

// send sends an event, if there may be one now.
func (r *Reconciler) send(t *turn, e news) bool {
	suffix, ok := r.budget.spend(e.reason, t.now)
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
	r.Recorder.Eventf(t.object, related, e.kind, e.reason, e.action, "%s", note)
	return true
}

// narrate tells of a new step in the log, and of a hindrance when it comes and
// when it goes.
func (r *Reconciler) narrate(ctx context.Context, t *turn) {
	if t.step.Name != r.stepName {
		log.FromContext(ctx).Info("next step", "step", t.step.Name, "reason", t.step.Reason, "waitingFor", few(t.step.WaitingFor))
	}
	r.narrateHindrance(ctx, t)
	r.Metrics.turn(t, r.stepName)
	r.stepName = t.step.Name
}

// narrateHindrance tells what hinders, or that nothing does any more. Where that changes
// more often than there may be events, the last word is given as soon as there may be one:
// events never end with what is long over.
func (r *Reconciler) narrateHindrance(ctx context.Context, t *turn) {
	problem, reason := r.hindrance(t), ""
	said := func(before string) news { return recovered(before, t.step.Name) }
	if problem != nil {
		reason = problem.Reason
		said = func(string) news { return refused(*problem, t.step.Name) }
	}
	changed := reason != r.problem
	if changed {
		r.log(ctx, t, said(r.problem))
		r.problem = reason
	}
	switch {
	case reason != r.told && r.send(t, said(r.told)):
		r.told = reason
	case changed:
		r.Metrics.heldBack(said(r.told).reason)
	}
}

// hindrance is what a person should look at first, nil for nothing.
func (r *Reconciler) hindrance(t *turn) *plan.Problem {
	return worst(t, providerProblem(t, &r.supply), late(t, r.waiting(t)))
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

// racksLabelled tells of all clients that a step labels with the first of them: there may
// be thousands.
func racksLabelled(first plan.SetRack, step rollout.Step) news {
	count := 0
	for _, action := range step.Actions {
		if a, ok := action.(plan.SetRack); ok {
			if count == 0 && a != first {
				return news{}
			}
			count++
		}
	}
	note := fmt.Sprintf("write the label %s on %d clients, of which the first is %s: %s", plan.RackLabel, count, first.Node, step.Reason)
	return news{corev1.EventTypeNormal, "RacksLabelled", step.Name, note, nodeRef(first.Node)}
}

// budget is how many events may be sent. Usual days come nowhere near it; it is for
// trouble that comes and goes all the time, and for somebody who undoes what rrpool does
// as soon as it is done. Kubernetes itself folds events only while the object is the very
// same, and its status, which we write, is part of it.
//
// The log has everything. Of each kind the first is always sent, and the next one that is
// sent says how many were not. What a person must be able to rely on afterwards is never
// held back: see free.
//
// The zero value is full.
type budget struct {
	kinds map[string]*allowance
	// words is for all but deeds together.
	words *rate.Limiter
}

// allowance is the budget of one kind of event.
type allowance struct {
	*rate.Limiter
	deed bool
	// untold counts what has happened since the last event of this kind, first and last
	// are when the first of those did, and the last of all.
	untold      int
	first, last time.Time
	// rested: the last that happened was the first for a long time.
	rested bool
}

// Deeds are changes of the cluster. One turn may promote hundreds of reflectors; a fight
// about one of them is at most one deed in a turn. Words are trouble and its end.
const (
	deedBurst, deedEvery   = 600, 10 * time.Second
	wordBurst, wordEvery   = 10, 5 * time.Minute
	wordsBurst, wordsEvery = 60, time.Minute
	// rest is how long nothing of a kind has happened when the next is a first one.
	rest = time.Hour
)

// free are the deeds that change what carries the routes of everybody, or what is paid
// for. They take seconds at least, each with proof before.
var free = map[string]bool{"MeshDisabled": true, "MeshRestored": true, "MeshForgotten": true, "PoolChanged": true, "Released": true}

var deeds = map[string]bool{
	"ReflectorAdded": true, "ReflectorRemoved": true, "PeerWritten": true, "PeerDeleted": true,
	"NodeCordoned": true, "NodeUncordoned": true, "PodsEvicted": true, "RacksLabelled": true,
}

// happened notes that there is something of a kind to tell.
func (b *budget) happened(kind string, now time.Time) {
	a := b.of(kind)
	if a.untold == 0 {
		a.first = now
	}
	a.untold++
	a.rested = a.last.IsZero() || now.Sub(a.last) >= rest
	a.last = now
}

// spend says whether an event of a kind may be sent now, and if so what to add to it: of
// what it has to tell besides.
func (b *budget) spend(kind string, now time.Time) (suffix string, ok bool) {
	a := b.of(kind)
	if !free[kind] && !b.allow(a, now) {
		return "", false
	}
	if more := a.untold - 1; more > 0 {
		suffix = fmt.Sprintf(" (and %d more of these since %s, which only the log has)", more, a.first.UTC().Format("15:04:05Z"))
	}
	a.untold = 0
	return suffix, true
}

func (b *budget) allow(a *allowance, now time.Time) bool {
	if a.deed {
		return a.AllowN(now, 1)
	}
	if !a.rested && b.words.TokensAt(now) < 1 || !a.AllowN(now, 1) {
		return false
	}
	_ = b.words.AllowN(now, 1) // the first goes without
	a.rested = false
	return true
}

func (b *budget) of(kind string) *allowance {
	if b.kinds == nil {
		b.kinds = map[string]*allowance{}
		b.words = rate.NewLimiter(rate.Every(wordsEvery), wordsBurst)
	}
	a := b.kinds[kind]
	if a == nil {
		a = &allowance{Limiter: rate.NewLimiter(rate.Every(wordEvery), wordBurst)}
		if deeds[kind] {
			a = &allowance{Limiter: rate.NewLimiter(rate.Every(deedEvery), deedBurst), deed: true}
		}
		b.kinds[kind] = a
	}
	return a
}
