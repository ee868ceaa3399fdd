package pool

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/rrpool/rrpool/cloud"
	"github.com/rrpool/rrpool/cloud/cost"
	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/controllers/plan"
	"github.com/rrpool/rrpool/controllers/plan/reason"
	"github.com/rrpool/rrpool/controllers/plan/rollout"
)

// report writes the status if it has changed. From the previous status it takes the pool's name while the
// provider does not answer, and the times when the step and the conditions began. No decision depends on these.
func (r *Reconciler) report(ctx context.Context, s *Scope, failure error) error {
	status := r.status(s, failure)
	r.Metrics.observed(s, &r.poolClient, status, r.Now)
	return r.patchStatus(ctx, s.object, status)
}

// reportUnknown sets all conditions to Unknown, and leaves all else in the status as it was.
func (r *Reconciler) reportUnknown(ctx context.Context, s *Scope, failure error) error {
	status := s.object.Status.DeepCopy()
	unknown := linked(metav1.ConditionUnknown, plan.Problemf(reason.ObservationFailed, "%v", failure))
	setConditions(status, s, slices.Repeat([]metav1.Condition{unknown}, len(conditionTypes))...)
	r.Metrics.cluster.publish(s, *status, "unknown", nil)
	return r.patchStatus(ctx, s.object, *status)
}

// status returns the status to report, made from the previous one.
func (r *Reconciler) status(s *Scope, failure error) v1alpha1.RouteReflectorPoolStatus {
	status := s.object.Status.DeepCopy()
	status.Provider = strings.ToLower(string(s.Provider))
	if s.inPlace() {
		status.Provider = "existing"
	}
	if s.Cluster.Locked == nil {
		status.CalicoAPI = s.Cluster.CalicoAPI
	}
	status.Nodes = int32(countReady(clientsOf(s))) //nolint:gosec // a number of nodes
	status.Pool = poolName(status.Pool, s, &r.poolClient)
	status.Zones = zones(s, r.poolClient.last)
	status.Reflectors = reflectors(s)
	status.Step = r.stepStatus(s)
	status.Cost = costOf(s)
	provider := providerProblem(s, &r.poolClient)
	setConditions(status, s, ready(s, provider), providerReady(s, &r.poolClient, provider),
		reflectorsEstablished(s), meshDisabled(s), progressing(s), degraded(s, r.worstProblem(s), failure))
	return *status
}

func (r *Reconciler) patchStatus(
	ctx context.Context, object *v1alpha1.RouteReflectorPool, status v1alpha1.RouteReflectorPoolStatus,
) error {
	if equality.Semantic.DeepEqual(object.Status, status) {
		return nil
	}
	if err := r.Leading(ctx); err != nil {
		return err
	}
	before := object.DeepCopy()
	object.Status = status
	if err := r.Client.Status().Patch(ctx, object, client.MergeFrom(before)); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("writing the status: %w", err)
	}
	return nil
}

func (r *Reconciler) stepStatus(s *Scope) v1alpha1.StepStatus {
	waiting := r.waiting(s)
	if s.paused() && len(s.Step.Actions) > 0 {
		waiting = []string{"spec.mode other than Paused"}
		for _, action := range s.Step.Actions {
			waiting = append(waiting, "would "+action.String())
		}
	}
	return v1alpha1.StepStatus{Name: s.Step.Name, Rule: s.Step.Rule, Reason: apiText(s.Step.Reason), Since: s.since, WaitingFor: capped(waiting, 10)}
}

// poolName returns the name of rrpool's pool, "" for none. While the provider does
// not answer, it returns the argument before, the name in the previous status.
func poolName(before string, s *Scope, c *poolClient) string {
	switch {
	case s.inPlace() && anyPooled(s.Cluster.Nodes):
		return ExistingPool
	case s.inPlace():
		return ""
	case c.provider == nil || c.last == nil || c.observing.err != nil:
		return before
	case c.lost(s) != "": // the pool may have another name than in the spec
		return before
	case c.last.Exists && c.last.Owned:
		return c.last.Name
	}
	return ""
}

// zones returns how many workers of the pool each zone should have, and how many Ready
// nodes it has. It reports the zones of zonesOf, and others with Ready nodes of the pool.
func zones(s *Scope, known *cloud.Pool) []v1alpha1.ZoneStatus {
	desired, names := zonesOf(s, known)
	ready := map[string]int32{}
	for _, name := range names {
		ready[name] = 0
	}
	for _, node := range s.Cluster.Nodes {
		if node.Pooled && node.Ready {
			ready[node.Zone]++
		}
	}
	var out []v1alpha1.ZoneStatus
	for _, name := range slices.Sorted(maps.Keys(ready)) {
		out = append(out, v1alpha1.ZoneStatus{Name: name, Desired: int32(desired), Ready: ready[name]}) //nolint:gosec // a pool size
	}
	return out
}

// zonesOf returns the wanted size per zone and the wanted zones. If reflectors are not wanted, the size is that of
// rrpool's present pool. If no zones are wanted, it returns the pool's, or else those that a new pool would get.
func zonesOf(s *Scope, known *cloud.Pool) (size int, names []string) {
	size, names = s.Desired.Pool.SizePerZone, s.Desired.Pool.Zones
	if known == nil {
		return size, names
	}
	if known.Owned && !s.reflecting() {
		size = known.SizePerZone
	}
	if len(names) == 0 {
		names = known.Zones
	}
	if len(names) == 0 && s.reflecting() {
		names = known.ClusterZones
	}
	return size, names
}

func reflectors(s *Scope) []v1alpha1.ReflectorStatus {
	var out []v1alpha1.ReflectorStatus
	for _, r := range s.Step.Reflectors {
		out = append(out, v1alpha1.ReflectorStatus{
			Node: r.Node, Zone: r.Zone, ClusterID: r.ClusterID,
			SessionsEstablished: int32(r.Established), //nolint:gosec // a number of sessions
			SessionsExpected:    int32(r.Expected),    //nolint:gosec // a number of sessions
		})
	}
	return out
}

// costOf returns the cost of the dedicated pool in every mode, as workers cost until they are deleted.
// It needs no cloud: like `rrpool cost`, it goes by the labels of nodes, so workers that are not nodes
// yet do not count. It is nil without workers, and for existing nodes, which cost nothing extra.
func costOf(s *Scope) *v1alpha1.CostStatus {
	if s.inPlace() {
		return nil
	}
	var workers []cost.Machine
	for _, node := range s.Cluster.Nodes {
		if node.Labels[v1alpha1.PoolLabel] == s.object.Spec.Provider.IKS.PoolName {
			workers = append(workers, cost.MachineOf(node.Labels, "")) // prices do not depend on the zone within a region
		}
	}
	return cost.Builtin().Status(workers)
}

// conditionTypes are the types of setConditions' arguments, in order.
var conditionTypes = []string{
	v1alpha1.ConditionReady,
	v1alpha1.ConditionProviderReady,
	v1alpha1.ConditionReflectorsEstablished,
	v1alpha1.ConditionMeshDisabled,
	v1alpha1.ConditionProgressing,
	v1alpha1.ConditionDegraded,
}

// setConditions replaces the conditions by fresh, one of each type in order. A condition whose status is unchanged keeps its transition time.
func setConditions(status *v1alpha1.RouteReflectorPoolStatus, s *Scope, fresh ...metav1.Condition) {
	status.ObservedGeneration = s.object.Generation
	for i := range fresh {
		fresh[i].Type = conditionTypes[i]
		fresh[i].ObservedGeneration = s.object.Generation
		fresh[i].LastTransitionTime = metav1.NewTime(s.now.Truncate(time.Second))
		fresh[i].Message = apiText(fresh[i].Message)
		old := meta.FindStatusCondition(status.Conditions, fresh[i].Type)
		if old != nil && old.Status == fresh[i].Status {
			fresh[i].LastTransitionTime = old.LastTransitionTime
		}
	}
	status.Conditions = fresh
}

func condition(status metav1.ConditionStatus, reason, message string) metav1.Condition {
	return metav1.Condition{Status: status, Reason: reason, Message: message}
}

// linked returns a condition that may need a person, with a link to the documentation of its reason.
func linked(status metav1.ConditionStatus, p *plan.Problem) metav1.Condition {
	return condition(status, p.Reason, plan.Linked(p.Message, p.Reason, maxNote))
}

// ready returns condition Ready: whether the cluster is where it is wanted. If it is, a problem of the provider does not change that.
func ready(s *Scope, provider *plan.Problem) metav1.Condition {
	step := s.Step
	unrouted := unrouted(s)
	switch {
	case step.Problem != nil:
		return linked(metav1.ConditionFalse, step.Problem)
	case unrouted != nil && s.reflecting():
		return linked(metav1.ConditionFalse, unrouted)
	case step.Name == rollout.Steady && (!s.reflecting() || !s.Cluster.BGP.MeshOn()):
		return condition(metav1.ConditionTrue, rollout.Steady, step.Reason)
	case s.paused():
		return condition(metav1.ConditionFalse, reason.Paused, fmt.Sprintf("spec.mode is Paused; the next step would be %s: %s",
			step.Name, step.Reason))
	case provider != nil && s.needsProvider():
		return linked(metav1.ConditionFalse, provider)
	default:
		return condition(metav1.ConditionFalse, step.Name, waitText(step))
	}
}

// providerProblem returns why the provider is of no use now, nil if it is of use.
func providerProblem(s *Scope, c *poolClient) *plan.Problem {
	switch {
	case s.disconnected != nil:
		return s.disconnected
	case c.observing.worthReporting(c.last) != nil:
		return cloudProblem(c.observing.err)
	case c.lost(s) != "":
		return plan.Problemf(reason.PoolConflict, "%s", c.lost(s))
	case c.last != nil && (c.foreign() || c.last.Autoscaled):
		return poolProblem(*c.last)
	case c.ensuring.worthReporting(c.last) != nil:
		return cloudProblem(c.ensuring.err)
	case c.last != nil:
		return poolProblem(*c.last)
	}
	return nil
}

func providerReady(s *Scope, c *poolClient, problem *plan.Problem) metav1.Condition {
	switch {
	case problem != nil:
		return linked(metav1.ConditionFalse, problem)
	case c.last == nil:
		return condition(metav1.ConditionUnknown, reason.NotObserved, "the provider has not been asked yet")
	case !c.last.Exists && s.inPlace():
		return condition(metav1.ConditionFalse, reason.PoolMissing, "no node has been chosen for a route reflector")
	case !c.last.Exists:
		return condition(metav1.ConditionFalse, reason.PoolMissing, "there is no worker pool for route reflectors")
	}
	want, deployed := workerCounts(s, c)
	message := fmt.Sprintf("worker pool %s: %d of %d workers deployed", c.last.Name, deployed, want)
	if s.inPlace() {
		message = fmt.Sprintf("%d of %d nodes are chosen and Ready", deployed, want)
	}
	message += outdated(s, c.last.Workers)
	if deployed < want || want == 0 {
		return condition(metav1.ConditionFalse, reason.WorkersPending, message)
	}
	return condition(metav1.ConditionTrue, reason.PoolReady, message)
}

// outdated names the workers that rrpool replaces because they differ from the spec, and those with
// an outdated version, for which spec.provider.iks.updateWorkers says who replaces them; "" for none.
func outdated(s *Scope, workers []cloud.Worker) string {
	names := map[bool][]string{}
	for _, w := range workers {
		if w.Outdated != "" {
			names[w.Former] = append(names[w.Former], fmt.Sprintf("%s (%s)", w.ID, w.Outdated))
		}
	}
	text := ""
	if former := names[true]; len(former) > 0 {
		text = "; giving way one by one to workers as the spec wants them: " + few(former)
	}
	if old := names[false]; len(old) > 0 {
		text += fmt.Sprintf("; outdated, with spec.provider.iks.updateWorkers %s: %s", cmp.Or(s.object.Spec.Provider.IKS.UpdateWorkers, v1alpha1.UpdateManual), few(old))
	}
	return text
}

func reflectorsEstablished(s *Scope) metav1.Condition {
	if len(s.Step.Reflectors) == 0 {
		if s.Step.Problem != nil {
			return condition(metav1.ConditionFalse, s.Step.Problem.Reason, s.Step.Problem.Message)
		}
		return condition(metav1.ConditionFalse, reason.NoReflectors, "no node is a route reflector")
	}
	if s.Desired.Timer {
		return condition(metav1.ConditionUnknown, reason.TimerGate, "spec.rollout.gate is Timer: sessions are not observed")
	}
	var missing []string
	for _, r := range s.Step.Reflectors {
		if r.NotRunning {
			missing = append(missing, "calico-node is not running on "+r.Node)
		} else if r.Established < r.Expected || !r.Serving {
			missing = append(missing, fmt.Sprintf("%s has %d of %d sessions", r.Node, r.Established, r.Expected))
		}
	}
	if len(missing) > 0 {
		return condition(metav1.ConditionFalse, reason.SessionsMissing, few(missing))
	}
	return condition(metav1.ConditionTrue, reason.AllEstablished,
		fmt.Sprintf("%d route reflectors have all their sessions", len(s.Step.Reflectors)))
}

func meshDisabled(s *Scope) metav1.Condition {
	if !s.Cluster.BGP.MeshOn() {
		return condition(metav1.ConditionTrue, reason.MeshOff, "the node-to-node mesh is off")
	}
	if s.Step.Problem != nil {
		return condition(metav1.ConditionFalse, s.Step.Problem.Reason, s.Step.Problem.Message)
	}
	return condition(metav1.ConditionFalse, reason.MeshOn, "the node-to-node mesh is on")
}

func progressing(s *Scope) metav1.Condition {
	step := s.Step
	switch {
	case step.Problem != nil:
		return condition(metav1.ConditionFalse, step.Problem.Reason, "nothing is changed: "+step.Problem.Message)
	case step.Name == rollout.Steady:
		return condition(metav1.ConditionFalse, rollout.Steady, "there is nothing to do")
	case s.paused():
		return condition(metav1.ConditionFalse, reason.Paused, "spec.mode is Paused")
	default:
		return condition(metav1.ConditionTrue, step.Name, waitText(step))
	}
}

// worstProblem returns what a person should look at first, nil for nothing. In this order: a refusal; a calico-node that does not run or
// a node without a reflector; an overdue wait for anything but workers; a problem of the provider; late workers; stray labels; a warning.
func (r *Reconciler) worstProblem(s *Scope) *plan.Problem {
	overdue := waitProblem(s, r.waiting(s))
	if s.Step.Problem != nil {
		return s.Step.Problem
	}
	if unrouted := unrouted(s); unrouted != nil {
		return unrouted
	}
	if overdue != nil && overdue.Reason != reason.WorkersLate {
		return overdue
	}
	if provider := providerProblem(s, &r.poolClient); provider != nil && s.needsProvider() {
		return provider
	}
	return cmp.Or(overdue, strayLabelProblem(s), s.warning)
}

func degraded(s *Scope, problem *plan.Problem, failure error) metav1.Condition {
	switch {
	case s.Step.Problem == nil && failure != nil:
		return linked(metav1.ConditionTrue, plan.Problemf(reason.StepFailed, "%v", failure))
	case problem != nil:
		return linked(metav1.ConditionTrue, problem)
	}
	return condition(metav1.ConditionFalse, reason.AsExpected, "nothing is wrong")
}

func waitText(step rollout.Step) string {
	if len(step.WaitingFor) == 0 {
		return step.Reason
	}
	return fmt.Sprintf("%s; waiting for %s", step.Reason, few(step.WaitingFor))
}
