package status

import (
	"context"
	"fmt"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/rrpool/rrpool/cmd/rrpool/cluster"
	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/controllers/plan"
	"github.com/rrpool/rrpool/controllers/plan/reason"
	"github.com/rrpool/rrpool/controllers/plan/rollout"
)

// State is where the cluster is, in one word.
type State string

// The states.
const (
	NoPool      State = "NoPool"      // the cluster has no RouteReflectorPool
	Stale       State = "Stale"       // the manager does not run, so what is shown may be old
	Unknown     State = "Unknown"     // the manager cannot observe the cluster
	Degraded    State = "Degraded"    // there is a problem
	Deleting    State = "Deleting"    // the object is being deleted, and the cluster goes back to the mesh first
	Paused      State = "Paused"      // the manager changes nothing
	Ready       State = "Ready"       // the cluster is as spec.mode wants it
	Progressing State = "Progressing" // a step is taken or waited for, or the object was changed seconds ago
)

// Observed reports whether the manager has reported on the object's present generation.
func Observed(object *v1alpha1.RouteReflectorPool) bool {
	return object.Status.ObservedGeneration > 0 && object.Status.ObservedGeneration >= object.Generation
}

// Reached reports whether the cluster is as the object's present generation wants it.
func Reached(object *v1alpha1.RouteReflectorPool) bool {
	c := condition(object, v1alpha1.ConditionReady)
	return Observed(object) && c.Status == metav1.ConditionTrue && c.ObservedGeneration >= object.Generation
}

// condition returns the condition of that type, the zero value for none.
func condition(object *v1alpha1.RouteReflectorPool, kind string) metav1.Condition {
	if c := meta.FindStatusCondition(object.Status.Conditions, kind); c != nil {
		return *c
	}
	return metav1.Condition{}
}

// PeeringReady returns the condition Ready of a ClusterPeering. If the condition is missing or about an older generation, its status is Unknown.
func PeeringReady(o *v1alpha1.ClusterPeering) metav1.Condition {
	if c := meta.FindStatusCondition(o.Status.Conditions, v1alpha1.ConditionReady); c != nil && c.ObservedGeneration >= o.Generation {
		return *c
	}
	return metav1.Condition{Status: metav1.ConditionUnknown, Reason: "NotReported", Message: "the manager has not yet observed it as it is"}
}

// Judge returns the state, and a sentence about it.
func (s *Status) Judge() (State, string) {
	o := s.Object
	switch {
	case o == nil:
		return NoPool, "no RouteReflectorPool exists"
	case !Observed(o):
		return s.unobserved()
	case s.Manager.Status == Stopped:
		return Stale, fmt.Sprintf("the manager does not run: %s; what follows may be old, and no step is taken, not even by the safety net", s.Manager.Message)
	}
	ready, degraded := condition(o, v1alpha1.ConditionReady), condition(o, v1alpha1.ConditionDegraded)
	switch {
	case ready.Status == metav1.ConditionUnknown:
		return Unknown, message(ready)
	case degraded.Status == metav1.ConditionTrue:
		return Degraded, message(degraded)
	case o.DeletionTimestamp != nil:
		return Deleting, "the RouteReflectorPool is being deleted; before, the cluster goes back to the node-to-node mesh: " + message(ready)
	case o.Spec.Mode == v1alpha1.ModePaused:
		return Paused, "nothing is changed, not even by the safety net; " + message(ready)
	case ready.Status == metav1.ConditionTrue:
		return Ready, message(ready)
	}
	return Progressing, message(ready)
}

// unobserved returns the state if the manager has not observed the object's present generation. The manager takes a moment after a change.
func (s *Status) unobserved() (State, string) {
	what := fmt.Sprintf("the manager has not yet observed the RouteReflectorPool as it is (generation %d, observed %d): %s",
		s.Object.Generation, s.Object.Status.ObservedGeneration, s.Manager.Message)
	switch {
	case s.Manager.Status != Running:
		return Stale, what
	case s.Object.DeletionTimestamp != nil:
		return Deleting, what
	}
	return Progressing, what
}

// Problems returns the bad conditions of an object, one for each reason. If several have the same reason, it returns
// Degraded, whose message says most. The messages do not contain the address of their page, which Streams.Page returns.
func Problems(object *v1alpha1.RouteReflectorPool) []metav1.Condition {
	out := []metav1.Condition{}
	for _, c := range slices.Backward(object.Status.Conditions) { // Degraded is the last condition
		known := slices.ContainsFunc(out, func(p metav1.Condition) bool { return p.Reason == c.Reason })
		if !known && bad(object, c) {
			c.Message = message(c)
			out = append(out, c)
		}
	}
	return out
}

// message returns the message of a condition, without the address of its page.
func message(c metav1.Condition) string { return plan.Unlinked(c.Message, c.Reason) }

// bad reports whether a condition is a problem, and not expected during a migration.
func bad(object *v1alpha1.RouteReflectorPool, c metav1.Condition) bool {
	reflecting := object.Spec.Mode != v1alpha1.ModeFullMesh && object.DeletionTimestamp == nil
	switch c.Type {
	case v1alpha1.ConditionDegraded:
		return c.Status != metav1.ConditionFalse
	case v1alpha1.ConditionProviderReady:
		return reflecting && reason.Of(c.Reason).Severity != reason.State
	case v1alpha1.ConditionReflectorsEstablished:
		// During a migration it is normal that sessions are missing; afterwards none should be.
		resting := object.Status.Step.Name == rollout.Steady
		return c.Reason == reason.ObservationFailed || resting && reflecting && c.Reason == reason.SessionsMissing
	case v1alpha1.ConditionReady, v1alpha1.ConditionMeshDisabled, v1alpha1.ConditionProgressing:
		return c.Status == metav1.ConditionUnknown
	}
	return false
}

// Counts are the numbers that change during a migration.
type Counts struct {
	// PoolReady is the number of the pool's Ready nodes, and PoolWanted the number that the pool should have.
	PoolReady, PoolWanted, Reflectors int
	// SessionsEstablished and SessionsExpected are sums over all reflectors.
	SessionsEstablished, SessionsExpected int
}

// CountsOf returns the sums of what a status reports, for the cluster and for each zone.
func CountsOf(status v1alpha1.RouteReflectorPoolStatus) (all Counts, zones map[string]Counts) {
	zones = map[string]Counts{}
	add := func(zone string, more Counts) {
		in := zones[zone]
		for _, c := range []*Counts{&in, &all} {
			c.PoolReady += more.PoolReady
			c.PoolWanted += more.PoolWanted
			c.Reflectors += more.Reflectors
			c.SessionsEstablished += more.SessionsEstablished
			c.SessionsExpected += more.SessionsExpected
		}
		zones[zone] = in
	}
	for _, z := range status.Zones {
		add(z.Name, Counts{PoolReady: int(z.Ready), PoolWanted: int(z.Desired)})
	}
	for _, r := range status.Reflectors {
		add(r.Zone, Counts{Reflectors: 1, SessionsEstablished: int(r.SessionsEstablished), SessionsExpected: int(r.SessionsExpected)})
	}
	return all, zones
}

// ManagerName is the name of the manager's Deployment and of its lease in config/manager.
const ManagerName = "rrpool-manager"

// skew is how much this computer's clock may differ from the cluster's.
const skew = time.Minute

// ManagerStatus is whether the manager runs.
type ManagerStatus string

// The manager statuses.
const (
	Running        ManagerStatus = "Running" // the lease is renewed, or a replica is available
	Stopped        ManagerStatus = "Stopped" // the lease is not renewed, and no replica is available
	ManagerUnknown ManagerStatus = "Unknown" // neither the lease nor the Deployment can be read
)

// Manager is what is known of the manager.
type Manager struct {
	Status ManagerStatus `json:"status"`
	// Message says on what Status is based.
	Message string `json:"message"`
}

// FindManager finds out whether a manager runs. It reads the lease, which the active replica renews every
// few seconds. If that fails, it reads the Deployment. If neither can be read, the status is Unknown.
func FindManager(ctx context.Context, c *cluster.Connection, namespace string, now time.Time) Manager {
	out, leaseErr := findHolder(ctx, c, namespace, now)
	if leaseErr == nil {
		return out
	}
	var d appsv1.Deployment
	err := c.Get(ctx, client.ObjectKey{Namespace: namespace, Name: ManagerName}, &d)
	switch {
	case err == nil:
		out.Message = fmt.Sprintf("%d of %d replicas of the Deployment %s in namespace %s are available", d.Status.AvailableReplicas, ptr.Deref(d.Spec.Replicas, 1), d.Name, d.Namespace)
		if out.Status = Stopped; d.Status.AvailableReplicas > 0 {
			out.Status = Running
		}
	case apierrors.IsNotFound(err) && apierrors.IsNotFound(leaseErr):
		out.Message = fmt.Sprintf("there is neither a lease nor a Deployment %s in namespace %s", ManagerName, namespace)
	default:
		out.Message = fmt.Sprintf("neither the lease nor the Deployment %s in namespace %s can be read", ManagerName, namespace)
	}
	return out
}

// findHolder finds out whether a manager renews the lease, even one without a Deployment. It returns an error of the apiserver unchanged.
func findHolder(ctx context.Context, c *cluster.Connection, namespace string, now time.Time) (Manager, error) {
	var lease coordinationv1.Lease
	if err := c.Get(ctx, client.ObjectKey{Namespace: namespace, Name: ManagerName}, &lease); err != nil {
		return Manager{Status: ManagerUnknown}, err //nolint:wrapcheck // callers look at the error's type
	}
	name := fmt.Sprintf("the lease %s in namespace %s", ManagerName, namespace)
	holder, renewed := ptr.Deref(lease.Spec.HolderIdentity, ""), ptr.Deref(lease.Spec.RenewTime, metav1.MicroTime{}).Time
	valid := time.Duration(ptr.Deref(lease.Spec.LeaseDurationSeconds, 15)) * time.Second
	switch {
	case holder == "" || renewed.IsZero():
		return Manager{Status: Stopped, Message: name + " has no holder"}, nil
	case now.Sub(renewed) > valid+skew:
		return Manager{Status: Stopped, Message: fmt.Sprintf("%s has not renewed %s since %s, too long ago by this computer's clock",
			holder, name, renewed.UTC().Format(timeLayout))}, nil
	}
	return Manager{Status: Running, Message: holder + " holds " + name}, nil
}
