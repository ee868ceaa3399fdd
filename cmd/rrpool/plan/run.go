package plan

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/rrpool/rrpool/cloud"
	"github.com/rrpool/rrpool/cmd/rrpool/iostreams"
	"github.com/rrpool/rrpool/cmd/rrpool/snapshot"
	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/controllers/plan"
	"github.com/rrpool/rrpool/controllers/plan/rollout"
	"github.com/rrpool/rrpool/controllers/pool"
)

const (
	// patience is how long the model may wait for one and the same thing, and most how
	// long all of it may take: a thousand nodes take over one role after the other in hours.
	patience = 3 * time.Hour
	most     = 7 * 24 * time.Hour
	// reasonStuck is the reason when that was not enough.
	reasonStuck = "NeverDone"
	// reasonWaits is the reason when there is nothing to do but to wait.
	reasonWaits = "Waits"
	// reasonZones is the cloud's own reason for a zone that it does not have.
	reasonZones = "Cloud" + string(cloud.InvalidInput)
	// mostReconciles bounds a plan whatever happens in it.
	mostReconciles = 50_000
	// mostGuards is how many waits of a step are named.
	mostGuards = 10
)

// Input is a cluster as it is, and what is wanted of it. The Name of an invented one is "".
type Input struct {
	*snapshot.Snapshot
	Now time.Time
}

func (in Input) paused() bool {
	return in.Object.Spec.Mode == v1alpha1.ModePaused && in.Object.DeletionTimestamp == nil
}

// Plan is what the manager will do.
type Plan struct {
	// Steps in order; none when there is nothing to do.
	Steps []Step `json:"steps"`
	// Settled: at the end nothing is left to do. Otherwise Problem says what stops it.
	Settled bool          `json:"settled"`
	Problem *plan.Problem `json:"problem,omitempty"`
	// LastsSeconds is how long it takes in the model, machines included.
	LastsSeconds int `json:"lastsSeconds"`
	// Loss names the nodes whose pods will not be reached for a moment; none is the rule.
	Loss []Loss `json:"loss"`
	// LostAlready are the nodes whose pods cannot be reached as it is.
	LostAlready []string `json:"lostAlready,omitempty"`
	Before      Shape    `json:"before"`
	After       Shape    `json:"after"`

	in Input
	// final is the last reconcile.
	final pool.Scope
}

// Step is one step of the manager, until the next one begins.
type Step struct {
	// Name and Reason as the manager gives them.
	Name   string `json:"name"`
	Reason string `json:"reason"`
	// Guard is what the step waits for, as first seen: before it writes (GuardFirst), or
	// after that. These are the first few of GuardCount.
	Guard      []string `json:"guard"`
	GuardCount int      `json:"guardCount"`
	GuardFirst bool     `json:"guardFirst"`
	// Writes are all changes, in the words of the manager's events. ReportsAsked is how
	// many nodes are asked for a report of their sessions besides (CalicoNodeStatus).
	Writes       []string `json:"writes"`
	ReportsAsked int      `json:"reportsAsked"`
	// BeginsSeconds counts from now; both are those of the model.
	BeginsSeconds int `json:"beginsSeconds"`
	LastsSeconds  int `json:"lastsSeconds"`
}

// Loss is a node whose pods cannot be reached for a moment; the reason of the step says for how long.
type Loss struct {
	Node string `json:"node"`
	// Pods is how many run there, -1 when unknown.
	Pods int `json:"pods"`
	// Step during which it begins.
	Step string `json:"step"`
}

// Shape is a cluster before or after.
type Shape struct {
	MeshOn bool `json:"fullMesh"`
	// Nodes that speak BGP, Reflectors among them, and the topology that these have.
	Nodes      int    `json:"nodes"`
	Reflectors int    `json:"reflectors"`
	Topology   string `json:"topology,omitempty"`
	// Zones of the pool with its nodes, sorted by name.
	Zones []Zone `json:"zones"`
	// Sessions are all BGP sessions between nodes; the others those of one such node.
	Sessions     int `json:"sessions"`
	PerClient    int `json:"sessionsPerNode"`
	PerReflector int `json:"sessionsPerReflector"`
}

// Zone of the pool.
type Zone struct {
	Name  string `json:"name"`
	Nodes int    `json:"poolNodes"`
}

// Run lets the manager reconcile a model of the cluster until nothing is left to do,
// something stops it, or ctx ends. In the model nothing fails.
func Run(ctx context.Context, in Input) (*Plan, error) {
	r := &run{environment: newEnvironment(in), out: &Plan{in: in, Loss: []Loss{}, Problem: strayZones(in)}, began: in.Now}
	r.out.Before = r.shape()
	r.cut = r.unreached()
	for r.out.Problem == nil && !r.out.Settled && !in.paused() {
		if err := r.reconcile(ctx); err != nil {
			return nil, err
		}
	}
	r.out.After = r.shape()
	r.out.Steps = condense(r.out.Steps)
	if n := len(r.out.Steps); n > 0 {
		r.out.LastsSeconds = r.out.Steps[n-1].BeginsSeconds + r.out.Steps[n-1].LastsSeconds
	}
	r.out.Loss, r.out.LostAlready = append(r.out.Loss, r.lost...), r.cut
	return r.out, nil
}

// condense leaves out rest, and of steps that wait for this and that alternately keeps one
// each.
func condense(steps []Step) []Step {
	out := []Step{}
	waits := 0 // where the waits in a row begin
	for _, s := range steps {
		if s.Name == rollout.Steady {
			continue
		}
		if len(s.Writes) > 0 {
			s.Writes = counted(s.Writes)
			out, waits = append(out, s), len(out)+1
			continue
		}
		same := slices.IndexFunc(out[waits:], func(o Step) bool { return o.Name == s.Name })
		if same < 0 {
			out = append(out, s)
			continue
		}
		o := &out[waits+same]
		o.LastsSeconds, o.ReportsAsked = o.LastsSeconds+s.LastsSeconds, o.ReportsAsked+s.ReportsAsked
		if o.GuardCount < s.GuardCount {
			o.Guard, o.GuardCount = s.Guard, s.GuardCount
		}
	}
	return out
}

// counted makes one line of the labels that were written on many nodes.
func counted(writes []string) []string {
	out, times := []string{}, map[string]int{}
	for _, w := range writes {
		if times[w]++; times[w] == 1 || !strings.HasSuffix(w, onANode) {
			out = append(out, w)
		}
	}
	for i, w := range out {
		if what, ok := strings.CutSuffix(w, onANode); ok {
			out[i] = what + " " + iostreams.Number(times[w], "node")
		}
	}
	return out
}

// Page is where to read about the reason of a plan's problem.
func Page(reason string) string {
	if reason == reasonStuck || reason == reasonWaits {
		return plan.Docs + "plan.md#how-far-to-trust-it"
	}
	return plan.Docs + plan.Page(reason)
}

// strayZones is the problem of zones in the spec that the cloud does not have.
func strayZones(in Input) *plan.Problem {
	if in.Provider != v1alpha1.ProviderIKS || in.Pool == nil || len(in.Pool.ClusterZones) == 0 || in.Object.Spec.Mode != v1alpha1.ModeRouteReflector {
		return nil
	}
	stray := slices.DeleteFunc(slices.Clone(in.Object.Spec.Provider.IKS.Zones), func(zone string) bool {
		return slices.Contains(in.Pool.ClusterZones, zone) || slices.Contains(in.Pool.Zones, zone)
	})
	if len(stray) == 0 {
		return nil
	}
	return &plan.Problem{Reason: reasonZones, Message: fmt.Sprintf("spec.provider.iks.zones: the cluster has no zone %s, it has %s: name some of these",
		strings.Join(stray, ", "), strings.Join(in.Pool.ClusterZones, ", "))}
}

// run is a plan in the making.
type run struct {
	*environment
	out   *Plan
	began time.Time
	// since is when the step, or what it waits for, changed last.
	since      time.Time
	last       string
	reconciles int
}

// reconcile lets the manager reconcile once, and time pass until the next time.
func (r *run) reconcile(ctx context.Context) error {
	if ctx.Err() != nil {
		return context.Cause(ctx) //nolint:wrapcheck // the caller knows it
	}
	r.reconciles++
	r.writes, r.asked = nil, 0
	turn, err := r.manager.Rehearse(ctx, r.object)
	if err != nil {
		return fmt.Errorf("rehearsing step %s on a model of the cluster: %w", turn.Step.Name, err)
	}
	r.out.final, r.object.Status = turn, turn.Status
	if turn.Step.Problem != nil && len(turn.Step.Actions) == 0 {
		r.out.Problem = turn.Step.Problem
		return nil
	}
	r.record(turn)
	if turn.Step.Name == rollout.Steady && turn.Changes == 0 && r.model.Quiet() {
		r.out.Settled = true
		return nil
	}
	if r.out.Problem = r.stuck(turn); r.out.Problem == nil {
		r.pass(turn.Again)
	}
	return nil
}

// stuck says why a plan has no end, nil while it may have one: something is in the
// way, something that does not come by itself is waited for, or the manager would change
// things for ever.
func (r *run) stuck(turn pool.Scope) *plan.Problem {
	now := r.model.Now()
	waited, passed := now.Sub(r.since), now.Sub(r.began)
	blocked := turn.Obstacle != nil && turn.Changes == 0 && turn.Step.Name == "AwaitProvider"
	if !blocked && waited <= patience && passed <= most && r.reconciles <= mostReconciles {
		return nil
	}
	waits := strings.Join(turn.WaitingFor[:min(3, len(turn.WaitingFor))], "; ")
	switch {
	case turn.Obstacle != nil && (blocked || turn.Step.Name == "EnsurePool"):
		return turn.Obstacle
	case waited > patience:
		return &plan.Problem{Reason: reasonWaits, Message: fmt.Sprintf("step %s waits for %s, and nothing more happens until that is so", turn.Step.Name, waits)}
	}
	return &plan.Problem{Reason: reasonStuck, Message: fmt.Sprintf("in the model the manager is not done after %s; it waits for %s: this is a "+
		"mistake of the model or of the manager, please report it (rrpool report)", passed.Round(time.Minute), waits)}
}

// current is the step that a reconcile belongs to. What is written for another reason is a
// step of its own, also if its name is the same.
func (r *run) current(is rollout.Step, writes bool) *Step {
	passed, last := int(r.model.Now().Sub(r.began).Round(time.Second)/time.Second), len(r.out.Steps)-1
	if last >= 0 {
		at := &r.out.Steps[last]
		at.LastsSeconds = passed - at.BeginsSeconds
		another := writes && len(at.Writes) > 0 && at.Reason != is.Reason
		if at.Name == is.Name && !another {
			return at
		}
	}
	r.out.Steps = append(r.out.Steps, Step{Name: is.Name, BeginsSeconds: passed, Guard: []string{}, Writes: []string{}})
	return &r.out.Steps[last+1]
}

// record adds a reconcile to the step that it belongs to.
func (r *run) record(turn pool.Scope) {
	if said := turn.Step.Name + strings.Join(turn.WaitingFor, "\n"); said != r.last || turn.Changes > 0 {
		r.last, r.since = said, r.model.Now()
	}
	at := r.current(turn.Step, len(r.writes) > 0)
	if len(at.Writes) == 0 {
		at.Reason = turn.Step.Reason
	}
	if len(at.Guard) == 0 && len(turn.WaitingFor) > 0 {
		at.GuardCount, at.GuardFirst = len(turn.WaitingFor), len(at.Writes)+len(r.writes) == 0
		at.Guard = append(at.Guard, turn.WaitingFor[:min(at.GuardCount, mostGuards)]...)
	}
	for _, w := range r.writes {
		at.Writes = append(at.Writes, strings.TrimSuffix(w, ": "+at.Reason)) // the reason is said once
	}
	at.ReportsAsked += r.asked
}
