package plan

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/rrpool/rrpool/cloud"
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
	// maxTurns bounds a forecast whatever happens in it.
	maxTurns = 50_000
)

// Run lets the manager take turns on a model of the cluster until nothing is left to
// do, something stops it, or ctx ends. The model is one in which nothing fails.
func Run(ctx context.Context, in Input) (*Forecast, error) {
	if problem := strayZones(in); problem != nil {
		return &Forecast{in: in, Problem: problem}, nil
	}
	s := newStage(in)
	r := &run{stage: s, out: &Forecast{in: in}, began: in.Now}
	r.out.Before = s.shape()
	s.cut = s.unreached()
	for in.Object.Spec.Mode != v1alpha1.ModePaused || in.Object.DeletionTimestamp != nil {
		done, err := r.turn(ctx)
		if err != nil {
			return nil, err
		}
		if done {
			break
		}
	}
	r.out.After = s.shape()
	r.out.Steps = condense(r.out.Steps)
	if n := len(r.out.Steps); n > 0 {
		r.out.Lasts = r.out.Steps[n-1].Begins + r.out.Steps[n-1].Lasts
	}
	r.out.Loss, r.out.LostAlready = s.lost, s.cut
	return r.out, nil
}

// condense leaves out rest, and of steps that take turns waiting for this and that keeps
// one each.
func condense(steps []Step) []Step {
	var out []Step
	waits := 0 // where the waits in a row begin
	for _, s := range steps {
		if s.Name == rollout.Steady {
			continue
		}
		if len(s.Writes) > 0 {
			out, waits = append(out, s), len(out)+1
			continue
		}
		same := slices.IndexFunc(out[waits:], func(o Step) bool { return o.Name == s.Name })
		if same < 0 {
			out = append(out, s)
			continue
		}
		o := &out[waits+same]
		o.Lasts, o.Asked = o.Lasts+s.Lasts, o.Asked+s.Asked
		if len(o.Guard) < len(s.Guard) {
			o.Guard = s.Guard
		}
	}
	return out
}

// Page is where to read about the reason of a forecast's problem.
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

// run is one forecast in the making.
type run struct {
	stage *stage
	out   *Forecast
	began time.Time
	// since is when the step, or what it waits for, changed last.
	since time.Time
	last  string
	turns int
}

// turn lets the manager take one turn, and time pass until the next.
func (r *run) turn(ctx context.Context) (done bool, err error) {
	if ctx.Err() != nil {
		return false, context.Cause(ctx) //nolint:wrapcheck // the caller knows it
	}
	s := r.stage
	r.turns++
	s.writes, s.asked, s.racked = nil, 0, map[string]int{}
	turn, err := s.manager.Rehearse(ctx, s.object)
	if err != nil {
		return false, fmt.Errorf("rehearsing step %s on a model of the cluster: %w", turn.Step.Name, err)
	}
	r.out.Final = turn
	s.object.Status = turn.Status
	if turn.Step.Problem != nil && len(turn.Step.Actions) == 0 {
		r.out.Problem = turn.Step.Problem
		return true, nil
	}
	r.record(turn, s.writes)
	if turn.Step.Name == rollout.Steady && turn.Changes == 0 && s.model.Quiet() {
		r.out.Settled = true
		return true, nil
	}
	if r.out.Problem = r.stuck(turn); r.out.Problem != nil {
		return true, nil
	}
	s.pass(turn.Again)
	return false, nil
}

// stuck says why a forecast has no end, nil while it may have one: something is in the
// way, something that does not come by itself is waited for, or the manager would change
// things for ever.
func (r *run) stuck(turn pool.Turn) *plan.Problem {
	now := r.stage.model.Now()
	waited, passed := now.Sub(r.since), now.Sub(r.began)
	hindered := turn.Obstacle != nil && turn.Changes == 0 && turn.Step.Name == "AwaitProvider"
	if !hindered && waited <= patience && passed <= most && r.turns <= maxTurns {
		return nil
	}
	waits := strings.Join(turn.WaitingFor[:min(3, len(turn.WaitingFor))], "; ")
	switch {
	case turn.Obstacle != nil && (hindered || turn.Step.Name == "EnsurePool"):
		return turn.Obstacle
	case waited > patience:
		return &plan.Problem{Reason: reasonWaits, Message: fmt.Sprintf("step %s waits for %s, and nothing more happens until that is so", turn.Step.Name, waits)}
	}
	return &plan.Problem{Reason: reasonStuck, Message: fmt.Sprintf("in the model the manager is not done after %s; it waits for %s: this is a "+
		"mistake of the model or of the manager, please report it (rrpool report)", passed.Round(time.Minute), waits)}
}

// current is the step that a turn belongs to. What is written for another reason is a
// step of its own, also if its name is the same.
func (r *run) current(is rollout.Step, writes bool) *Step {
	passed, last := r.stage.model.Now().Sub(r.began), len(r.out.Steps)-1
	if last >= 0 {
		at := &r.out.Steps[last]
		at.Lasts = passed - at.Begins
		another := writes && len(at.Writes) > 0 && at.Reason != is.Reason
		if at.Name == is.Name && !another {
			return at
		}
	}
	r.out.Steps = append(r.out.Steps, Step{Name: is.Name, Begins: passed})
	return &r.out.Steps[last+1]
}

// record adds a turn to the step that it belongs to.
func (r *run) record(turn pool.Turn, writes []string) {
	now := r.stage.model.Now()
	if said := turn.Step.Name + strings.Join(turn.WaitingFor, "\n"); said != r.last || turn.Changes > 0 {
		r.last, r.since = said, now
	}
	racked := r.stage.racked
	at := r.current(turn.Step, len(writes)+len(racked) > 0)
	if len(at.Writes) == 0 {
		at.Reason = turn.Step.Reason
	}
	if len(at.Guard) == 0 && len(turn.WaitingFor) > 0 {
		at.Guard, at.GuardFirst = turn.WaitingFor, len(at.Writes)+len(writes) == 0
	}
	at.Writes = append(at.Writes, writes...)
	for _, what := range slices.Sorted(maps.Keys(racked)) {
		at.tell(what, racked[what])
	}
	at.Asked += r.stage.asked
}
