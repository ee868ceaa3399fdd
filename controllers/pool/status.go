package pool

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/rrpool/rrpool/cloud"
	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/controllers/plan"
	"github.com/rrpool/rrpool/controllers/plan/rollout"
)

// maxWaiting is how many missing things the status names.
const maxWaiting = 10

// report writes the status, if it says anything new. The previous status is
// read for the pool's name and for two times only, which say since when
// something is so: they are reports themselves and decide nothing.
func (r *Reconciler) report(ctx context.Context, s *scope, failure error) error {
	status := r.status(s, failure)
	r.Metrics.observed(s, &r.poolClient, status, r.now)
	return r.patchStatus(ctx, s.object, status)
}

// status is what there is to report.
func (r *Reconciler) status(s *scope, failure error) v1alpha1.RouteReflectorPoolStatus {
	status := s.object.Status.DeepCopy()
	status.ObservedGeneration = s.object.Generation
	status.Provider = providerName(s.provider.kind)
	status.Nodes = int32(countReady(clientsOf(s))) //nolint:gosec // a number of nodes
	status.Pool = poolName(status.Pool, s, &r.poolClient)
	status.Zones = zones(s, r.poolClient.last)
	status.Reflectors = reflectors(s)
	status.Step = r.stepStatus(s)
	status.Cost = costOf(s)
	setConditions(status, conditions(s, &r.poolClient, waitProblem(s, r.waiting(s)), failure), s)
	return *status
}

// reportUnknown says that nothing is known at the moment; all else stays as it was.
func (r *Reconciler) reportUnknown(ctx context.Context, s *scope, failure error) error {
	status := s.object.Status.DeepCopy()
	status.ObservedGeneration = s.object.Generation
	setConditions(status, unknownConditions(failure), s)
	r.Metrics.unobserved(s, *status, r.now)
	return r.patchStatus(ctx, s.object, *status)
}

func (r *Reconciler) patchStatus(
	ctx context.Context, object *v1alpha1.RouteReflectorPool, status v1alpha1.RouteReflectorPoolStatus,
) error {
	if equality.Semantic.DeepEqual(object.Status, status) {
		return nil
	}
	if err := r.leading(ctx); err != nil {
		return err
	}
	before := object.DeepCopy()
	object.Status = status
	if err := r.Client.Status().Patch(ctx, object, client.MergeFrom(before)); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("writing the status: %w", err)
	}
	return nil
}

func (r *Reconciler) stepStatus(s *scope) v1alpha1.StepStatus {
	step := v1alpha1.StepStatus{
		Name:       s.step.Name,
		Reason:     short(s.step.Reason),
		Since:      s.since,
		WaitingFor: capped(r.waiting(s)),
	}
	if s.paused() && len(s.step.Actions) > 0 {
		step.WaitingFor = capped(plannedActions(s))
	}
	return step
}

// poolName is the name of the pool that exists and is ours. While the provider
// does not answer it stays what the status says.
func poolName(before string, s *scope, c *poolClient) string {
	switch {
	case s.inPlace() && anyPooled(s.cluster.Nodes):
		return ExistingPool
	case s.inPlace():
		return ""
	case c.provider == nil || c.last == nil || c.observing.err() != nil:
		return before
	case c.last.Exists && c.last.Owned:
		return c.last.Name
	}
	return ""
}

func providerName(kind v1alpha1.ProviderType) string {
	if kind == v1alpha1.ProviderExistingNodes {
		return "existing"
	}
	return strings.ToLower(string(kind))
}

// plannedActions are what a paused object would do next.
func plannedActions(s *scope) []string {
	out := []string{"spec.mode other than Paused"}
	for _, action := range s.step.Actions {
		out = append(out, "would "+action.String())
	}
	return out
}

func ordersPool(s *scope) bool {
	return slices.ContainsFunc(s.step.Actions, func(a plan.Action) bool {
		_, ok := a.(plan.EnsurePool)
		return ok
	})
}

// zones reports the pool per zone: as wanted, and as it serves.
func zones(s *scope, known *cloud.Pool) []v1alpha1.ZoneStatus {
	desired, names := s.desired.Pool.SizePerZone, zoneNames(s, known)
	if known != nil && known.Owned && !s.reflecting() {
		desired = known.SizePerZone
	}
	ready := map[string]int32{}
	for _, name := range names {
		ready[name] = 0
	}
	for _, node := range s.cluster.Nodes {
		if node.Pooled && node.Ready {
			ready[node.Zone]++
		}
	}
	var out []v1alpha1.ZoneStatus
	for name, count := range ready {
		out = append(out, v1alpha1.ZoneStatus{Name: name, Desired: int32(desired), Ready: count}) //nolint:gosec // a pool size
	}
	slices.SortFunc(out, func(a, b v1alpha1.ZoneStatus) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// zoneNames are the zones that are wanted, else those of the pool, else those
// that it would get.
func zoneNames(s *scope, known *cloud.Pool) []string {
	names := s.desired.Pool.Zones
	if known == nil {
		return names
	}
	if len(names) == 0 {
		names = known.Zones
	}
	if len(names) == 0 && s.reflecting() {
		names = known.ClusterZones
	}
	return names
}

func reflectors(s *scope) []v1alpha1.ReflectorStatus {
	var out []v1alpha1.ReflectorStatus
	for _, r := range s.step.Reflectors {
		out = append(out, v1alpha1.ReflectorStatus{
			Node: r.Node, Zone: r.Zone, ClusterID: r.ClusterID,
			SessionsEstablished: int32(r.Established), //nolint:gosec // a number of sessions
			SessionsExpected:    int32(r.Expected),    //nolint:gosec // a number of sessions
		})
	}
	return out
}

// setConditions replaces the conditions, in order, keeping the times of those
// whose status is as it was.
func setConditions(status *v1alpha1.RouteReflectorPoolStatus, fresh []metav1.Condition, s *scope) {
	for i := range fresh {
		fresh[i].ObservedGeneration = s.object.Generation
		fresh[i].LastTransitionTime = metav1.NewTime(s.now.Truncate(1e9))
		fresh[i].Message = short(fresh[i].Message)
		old := meta.FindStatusCondition(status.Conditions, fresh[i].Type)
		if old != nil && old.Status == fresh[i].Status {
			fresh[i].LastTransitionTime = old.LastTransitionTime
		}
	}
	status.Conditions = fresh
}

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
func conditions(s *scope, c *poolClient, overdue *plan.Problem, failure error) []metav1.Condition {
	provider := providerProblem(s, c)
	return []metav1.Condition{
		ready(s, provider),
		providerReady(s, c, provider),
		reflectorsEstablished(s),
		meshDisabled(s),
		progressing(s),
		degraded(s, worst(s, provider, overdue), failure),
	}
}

// unknownConditions is every condition while the cluster cannot be observed.
func unknownConditions(failure error) []metav1.Condition {
	out := make([]metav1.Condition, 0, len(conditionTypes))
	for _, kind := range conditionTypes {
		out = append(out, linkedCondition(kind, metav1.ConditionUnknown, ReasonObservationFailed, failure.Error()))
	}
	return out
}

func condition(kind string, status metav1.ConditionStatus, reason, message string) metav1.Condition {
	return metav1.Condition{Type: kind, Status: status, Reason: reason, Message: message}
}

// linkedCondition is a condition that may need a person, with a link to its page.
func linkedCondition(kind string, status metav1.ConditionStatus, reason, message string) metav1.Condition {
	return condition(kind, status, reason, plan.Linked(message, reason, maxNote))
}

// ready: the cluster is where it is wanted. A problem of the provider alone does
// not change that.
func ready(s *scope, provider *plan.Problem) metav1.Condition {
	kind, step := v1alpha1.ConditionReady, s.step
	stopped := notRunning(step.Reflectors)
	switch {
	case step.Problem != nil:
		return linkedCondition(kind, metav1.ConditionFalse, step.Problem.Reason, step.Problem.Message)
	case stopped != nil && s.reflecting():
		return linkedCondition(kind, metav1.ConditionFalse, stopped.Reason, stopped.Message)
	case step.Name == rollout.Steady && (!s.reflecting() || !s.cluster.BGP.MeshOn()):
		return condition(kind, metav1.ConditionTrue, rollout.Steady, step.Reason)
	case s.paused():
		return condition(kind, metav1.ConditionFalse, "Paused", fmt.Sprintf("spec.mode is Paused; the next step would be %s: %s",
			step.Name, step.Reason))
	case provider != nil && s.needsProvider():
		return linkedCondition(kind, metav1.ConditionFalse, provider.Reason, provider.Message)
	default:
		return condition(kind, metav1.ConditionFalse, step.Name, waitText(step))
	}
}

// providerProblem is what keeps the provider from being useful, nil for nothing.
func providerProblem(s *scope, c *poolClient) *plan.Problem {
	switch {
	case s.provider.problem != nil:
		return s.provider.problem
	case c.observing.worthReporting(c.last) != nil:
		return cloudProblem(c.observing.err())
	case c.last != nil && (c.foreign() || c.last.Autoscaled):
		return poolProblem(*c.last)
	case c.ensuring.worthReporting(c.last) != nil:
		return cloudProblem(c.ensuring.err())
	case c.last != nil:
		return poolProblem(*c.last)
	}
	return nil
}

func providerReady(s *scope, c *poolClient, problem *plan.Problem) metav1.Condition {
	kind := v1alpha1.ConditionProviderReady
	switch {
	case problem != nil:
		return linkedCondition(kind, metav1.ConditionFalse, problem.Reason, problem.Message)
	case c.last == nil:
		return condition(kind, metav1.ConditionUnknown, "NotObserved", "the provider has not been asked yet")
	case !c.last.Exists && s.inPlace():
		return condition(kind, metav1.ConditionFalse, "PoolMissing", "no node has been chosen for a route reflector")
	case !c.last.Exists:
		return condition(kind, metav1.ConditionFalse, "PoolMissing", "there is no worker pool for route reflectors")
	}
	return workersReady(s, c)
}

// workersReady says whether the pool has all its workers.
func workersReady(s *scope, c *poolClient) metav1.Condition {
	kind := v1alpha1.ConditionProviderReady
	want, deployed := workerCounts(s, c)
	message := fmt.Sprintf("worker pool %s: %d of %d workers deployed", c.last.Name, deployed, want)
	if s.inPlace() {
		message = fmt.Sprintf("%d of %d nodes are chosen and Ready", deployed, want)
	}
	if deployed < want || want == 0 {
		return condition(kind, metav1.ConditionFalse, "WorkersPending", message)
	}
	return condition(kind, metav1.ConditionTrue, "PoolReady", message)
}

func reflectorsEstablished(s *scope) metav1.Condition {
	kind := v1alpha1.ConditionReflectorsEstablished
	if len(s.step.Reflectors) == 0 {
		reason, message := "NoReflectors", "no node is a route reflector"
		if s.step.Problem != nil {
			reason, message = s.step.Problem.Reason, s.step.Problem.Message
		}
		return condition(kind, metav1.ConditionFalse, reason, message)
	}
	if s.desired.Timer {
		return condition(kind, metav1.ConditionUnknown, "TimerGate", "spec.rollout.gate is Timer: sessions are not observed")
	}
	var missing []string
	for _, r := range s.step.Reflectors {
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
		fmt.Sprintf("%d route reflectors have all their sessions", len(s.step.Reflectors)))
}

func meshDisabled(s *scope) metav1.Condition {
	kind := v1alpha1.ConditionMeshDisabled
	if !s.cluster.BGP.MeshOn() {
		return condition(kind, metav1.ConditionTrue, "MeshOff", "the node-to-node mesh is off")
	}
	if s.step.Problem != nil {
		return condition(kind, metav1.ConditionFalse, s.step.Problem.Reason, s.step.Problem.Message)
	}
	return condition(kind, metav1.ConditionFalse, "MeshOn", "the node-to-node mesh is on")
}

func progressing(s *scope) metav1.Condition {
	kind, step := v1alpha1.ConditionProgressing, s.step
	switch {
	case step.Problem != nil:
		return condition(kind, metav1.ConditionFalse, step.Problem.Reason, "nothing is changed: "+step.Problem.Message)
	case step.Name == rollout.Steady:
		return condition(kind, metav1.ConditionFalse, rollout.Steady, "there is nothing to do")
	case s.paused():
		return condition(kind, metav1.ConditionFalse, "Paused", "spec.mode is Paused")
	default:
		return condition(kind, metav1.ConditionTrue, step.Name, waitText(step))
	}
}

// worst is what a person should look at first, nil for nothing: a refusal, then a
// calico-node that does not run, then missing sessions or pods that do not go, then what the provider says itself, then
// that it takes long.
func worst(s *scope, provider, overdue *plan.Problem) *plan.Problem {
	stopped := notRunning(s.step.Reflectors)
	switch {
	case s.step.Problem != nil:
		return s.step.Problem
	case stopped != nil:
		return stopped
	case overdue != nil && overdue.Reason != ReasonWorkersLate:
		return overdue
	case provider != nil && s.needsProvider():
		return provider
	case overdue == nil:
		return s.warning
	}
	return overdue
}

func degraded(s *scope, problem *plan.Problem, failure error) metav1.Condition {
	kind := v1alpha1.ConditionDegraded
	switch {
	case s.step.Problem == nil && failure != nil:
		return linkedCondition(kind, metav1.ConditionTrue, ReasonStepFailed, failure.Error())
	case problem != nil:
		return linkedCondition(kind, metav1.ConditionTrue, problem.Reason, problem.Message)
	}
	return condition(kind, metav1.ConditionFalse, "AsExpected", "nothing is wrong")
}

func waitText(step rollout.Step) string {
	if len(step.WaitingFor) == 0 {
		return step.Reason
	}
	return fmt.Sprintf("%s; waiting for %s", step.Reason, few(step.WaitingFor))
}
