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
func (r *Reconciler) report(ctx context.Context, t *turn, failure error) error {
	status := r.status(t, failure)
	r.Metrics.looked(t, &r.supply, status, r.now)
	return r.patchStatus(ctx, t.object, status)
}

// status is what there is to report.
func (r *Reconciler) status(t *turn, failure error) v1alpha1.RouteReflectorPoolStatus {
	status := t.object.Status.DeepCopy()
	status.ObservedGeneration = t.object.Generation
	status.Provider = providerName(t.origin.kind)
	status.Nodes = int32(countReady(clientsOf(t))) //nolint:gosec // a number of nodes
	status.Pool = poolName(status.Pool, t, &r.supply)
	status.Zones = zones(t, r.supply.last)
	status.Reflectors = reflectors(t)
	status.Step = r.stepStatus(t)
	status.Cost = costOf(t)
	setConditions(status, conditions(t, &r.supply, late(t, r.waiting(t)), failure), t)
	return *status
}

// reportUnknown says that nothing is known at the moment; all else stays as it was.
func (r *Reconciler) reportUnknown(ctx context.Context, t *turn, failure error) error {
	status := t.object.Status.DeepCopy()
	status.ObservedGeneration = t.object.Generation
	setConditions(status, unknown(failure), t)
	r.Metrics.blind(t, *status, r.now)
	return r.patchStatus(ctx, t.object, *status)
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

func (r *Reconciler) stepStatus(t *turn) v1alpha1.StepStatus {
	step := v1alpha1.StepStatus{
		Name:       t.step.Name,
		Reason:     short(t.step.Reason),
		Since:      t.since,
		WaitingFor: capped(r.waiting(t)),
	}
	if t.paused() && len(t.step.Actions) > 0 {
		step.WaitingFor = capped(intentions(t))
	}
	return step
}

// poolName is the name of the pool that exists and is ours. While the provider
// gives no news, it is what it was: before is read as the report that it is.
func poolName(before string, t *turn, s *supply) string {
	switch {
	case t.busy() && anyPooled(t.cluster.Nodes):
		return ExistingPool
	case t.busy():
		return ""
	case s.provider == nil || s.last == nil || s.observing.err() != nil:
		return before
	case s.last.Exists && s.last.Owned:
		return s.last.Name
	}
	return ""
}

func providerName(kind v1alpha1.ProviderType) string {
	if kind == v1alpha1.ProviderExistingNodes {
		return "existing"
	}
	return strings.ToLower(string(kind))
}

// intentions are what a paused object would do next.
func intentions(t *turn) []string {
	out := []string{"spec.mode other than Paused"}
	for _, action := range t.step.Actions {
		out = append(out, "would "+action.String())
	}
	return out
}

func ordersPool(t *turn) bool {
	return slices.ContainsFunc(t.step.Actions, func(a plan.Action) bool {
		_, ok := a.(plan.EnsurePool)
		return ok
	})
}

// zones reports the pool per zone: as wanted, and as it serves.
func zones(t *turn, known *cloud.Pool) []v1alpha1.ZoneStatus {
	desired, names := t.desired.Pool.SizePerZone, zoneNames(t, known)
	if known != nil && known.Owned && !t.reflecting() {
		desired = known.SizePerZone
	}
	ready := map[string]int32{}
	for _, name := range names {
		ready[name] = 0
	}
	for _, node := range t.cluster.Nodes {
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
func zoneNames(t *turn, known *cloud.Pool) []string {
	names := t.desired.Pool.Zones
	if known == nil {
		return names
	}
	if len(names) == 0 {
		names = known.Zones
	}
	if len(names) == 0 && t.reflecting() {
		names = known.ClusterZones
	}
	return names
}

func reflectors(t *turn) []v1alpha1.ReflectorStatus {
	var out []v1alpha1.ReflectorStatus
	for _, r := range t.step.Reflectors {
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
func setConditions(status *v1alpha1.RouteReflectorPoolStatus, fresh []metav1.Condition, t *turn) {
	for i := range fresh {
		fresh[i].ObservedGeneration = t.object.Generation
		fresh[i].LastTransitionTime = metav1.NewTime(t.now.Truncate(1e9))
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
