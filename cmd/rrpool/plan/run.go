package plan

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/rrpool/rrpool/cloud"
	"github.com/rrpool/rrpool/cmd/rrpool/snapshot"
	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/controllers/plan"
	"github.com/rrpool/rrpool/controllers/plan/rollout"
	"github.com/rrpool/rrpool/controllers/plan/simulate"
	"github.com/rrpool/rrpool/controllers/pool"
)

const (
	// patience is how long a step may wait for the same thing before the plan ends.
	patience = 3 * time.Hour
	// mostReconciles limits the reconciliations of a plan.
	mostReconciles = 50_000
	// reasonWaits is the reason of the problem that a step has waited longer than patience.
	reasonWaits = "Waits"
)

// Input is a cluster and its RouteReflectorPool. An invented cluster has no Name.
type Input struct {
	*snapshot.Snapshot
	Now time.Time
}

func (in Input) paused() bool {
	return in.Object.Spec.Mode == v1alpha1.ModePaused && in.Object.DeletionTimestamp == nil
}

// Run lets the manager reconcile a model of the cluster until nothing is left to do, the manager stops, or ctx ends. In the model nothing
// fails.
func Run(ctx context.Context, in Input) (*Plan, error) {
	e := newEnvironment(in)
	e.plan.Before = e.shape()
	lost := e.unreached()
	e.cut.Insert(lost...)
	e.plan.LostAlready = e.modelled(lost)
	for e.plan.Problem == nil && !e.plan.Settled && !in.paused() {
		if err := e.reconcile(ctx); err != nil {
			return nil, err
		}
	}
	e.plan.After = e.shape()
	return e.plan, nil
}

// modelled drops the nodes whose routes come from peers outside the model. It
// drops all nodes if BGP carries no routes to pods, or if that is unknown.
func (e *environment) modelled(nodes []string) []string {
	seen := e.plan.in.Cluster
	if seen.Routes.BGPUnused() || seen.Routes.Unknown != "" {
		return nil
	}
	sources := simulate.Sources(e.object.Spec.BGP.NodeLabel, seen)
	return slices.DeleteFunc(nodes, func(node string) bool {
		return sources[node] == simulate.SourceRouters || sources[node] == simulate.SourceMachines
	})
}

// Page returns the address of the docs about the reason of a plan's problem.
func Page(reason string) string {
	if reason == reasonWaits {
		return plan.Docs + "plan.md#how-far-to-trust-it"
	}
	return plan.Docs + plan.Page(reason)
}

// strayZones returns the problem that spec.provider.iks.zones names a zone which the cluster does not have, or nil.
func strayZones(in Input) *plan.Problem {
	if in.Provider != v1alpha1.ProviderIKS || in.Pool == nil || len(in.Pool.ClusterZones) == 0 || in.Object.Spec.Mode != v1alpha1.ModeRouteReflector {
		return nil
	}
	there := slices.Concat(in.Pool.ClusterZones, in.Pool.Zones)
	for _, zone := range in.Object.Spec.Provider.IKS.Zones {
		if !slices.Contains(there, zone) {
			return plan.Problemf("Cloud"+string(cloud.InvalidInput), "spec.provider.iks.zones: the cluster has no zone %s, it has %s: name some of these",
				zone, strings.Join(in.Pool.ClusterZones, ", "))
		}
	}
	return nil
}

// reconcile lets the manager reconcile once, and advances the clock to its next reconciliation.
func (e *environment) reconcile(ctx context.Context) error {
	if ctx.Err() != nil {
		return context.Cause(ctx) //nolint:wrapcheck // the caller checks ctx itself
	}
	e.writes, e.asked = nil, 0
	scope, err := e.manager.Rehearse(ctx, e.object)
	if err != nil {
		return fmt.Errorf("rehearsing step %s on a model of the cluster: %w", scope.Step.Name, err)
	}
	if e.reconciles++; e.reconciles > mostReconciles {
		return fmt.Errorf("in the model the manager is not done after %d reconciliations; it is at step %s: please report it (rrpool report)", mostReconciles, scope.Step.Name)
	}
	e.plan.final, e.object.Status = scope, scope.Status
	e.plan.settle = max(e.plan.settle, scope.Step.Settle)
	if scope.Step.Problem != nil && len(scope.Step.Actions) == 0 {
		e.plan.Problem = scope.Step.Problem
		return nil
	}
	e.record(scope)
	if scope.Step.Name == rollout.Steady && scope.Changes == 0 && e.model.Settled() {
		e.plan.Settled = true
		return nil
	}
	if e.plan.Problem = e.stuck(scope); e.plan.Problem == nil {
		e.pass(scope.Again)
	}
	return nil
}

// stuck returns why the plan ends here, nil if it goes on. It ends at a problem of the provider, or if a step has waited longer than patience.
func (e *environment) stuck(scope pool.Scope) *plan.Problem {
	waited, problem := e.model.Now().Sub(e.since), scope.ProviderProblem
	switch {
	case problem != nil && scope.Step.Name == "AwaitProvider" && scope.Changes == 0, problem != nil && scope.Step.Name == "EnsurePool" && waited > patience:
		return problem
	case waited > patience:
		return plan.Problemf(reasonWaits, "step %s waits for %s, and nothing more happens until that is so",
			scope.Step.Name, strings.Join(few(scope.WaitingFor), "; "))
	}
	return nil
}

// record adds a reconciliation to its planned step, unless its step is Steady.
func (e *environment) record(scope pool.Scope) {
	if waits := scope.Step.Name + strings.Join(scope.WaitingFor, "\n"); waits != e.waits || scope.Changes > 0 {
		e.waits, e.since = waits, e.model.Now()
	}
	passed := int(e.model.Now().Sub(e.plan.in.Now).Round(time.Second) / time.Second)
	if len(e.plan.Steps) > 0 && e.stepName != rollout.Steady {
		e.plan.LastsSeconds = passed
	}
	if e.stepName = scope.Step.Name; e.stepName == rollout.Steady {
		return
	}
	at := e.step(scope.Step, passed)
	if len(at.Writes) == 0 {
		at.Reason = scope.Step.Reason
	}
	at.wait(scope.WaitingFor, len(at.Writes)+len(e.writes) == 0)
	for _, w := range e.writes {
		at.Writes = append(at.Writes, strings.TrimSuffix(w, ": "+at.Reason)) // the step shows this reason only once
	}
	at.ReportsAsked += e.asked
}

// wait sets what a step waits for. Before its first write, a longer list replaces a shorter one.
func (s *PlannedStep) wait(what []string, before bool) {
	if s.waits == 0 || before && len(what) > s.waits {
		s.Guard, s.GuardFirst, s.waits = few(what), len(what) > 0 && before, len(what)
	}
}

// step returns the planned step that a reconciliation belongs to. A write with another reason begins a new step,
// even if the name is the same. If steps that only wait alternate, there is one planned step for each name.
func (e *environment) step(is rollout.Step, passed int) *PlannedStep {
	last := len(e.plan.Steps) - 1
	for i := last; i >= 0; i-- {
		at := &e.plan.Steps[i]
		waits := len(at.Writes) == 0
		if at.Name == is.Name && (waits && len(e.writes) == 0 || i == last && (waits || len(e.writes) == 0 || at.Reason == is.Reason)) {
			return at
		}
		if !waits {
			break
		}
	}
	e.plan.Steps = append(e.plan.Steps, PlannedStep{Name: is.Name, BeginsSeconds: passed, Guard: []string{}, Writes: []string{}})
	return &e.plan.Steps[last+1]
}

// few returns the first two conditions of waits, and how many more there are.
func few(waits []string) []string {
	if more := len(waits) - 2; more > 0 {
		return []string{waits[0], waits[1], fmt.Sprintf("and %d more", more)}
	}
	return append([]string{}, waits...)
}
