package status

import (
	"context"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/rrpool/rrpool/cmd/rrpool/cluster"
)

// ManagerName is the manager's Deployment and its lease, as config/manager names them.
const ManagerName = "rrpool-manager"

// skew is how far this computer's clock may be from the cluster's.
const skew = time.Minute

// ManagerStatus says whether the manager runs.
type ManagerStatus string

// The manager statuses.
const (
	// Running: the lease is renewed, or a replica is available.
	Running ManagerStatus = "Running"
	// Stopped: neither.
	Stopped ManagerStatus = "Stopped"
	// ManagerUnknown: neither can be read.
	ManagerUnknown ManagerStatus = "Unknown"
)

// Manager is what is known of the manager.
type Manager struct {
	Status ManagerStatus `json:"status"`
	// Message says how that is known.
	Message string `json:"message"`
}

// FindManager reads whether a manager runs: from its lease, which the active replica renews
// every few seconds, else from its Deployment. Without rights the result is Unknown.
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

// findHolder reads whether the manager's lease is renewed, whatever Deployment that
// is of, if any. Its error is the apiserver's.
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
