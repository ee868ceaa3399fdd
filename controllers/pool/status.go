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
