package status

import (
	"context"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
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
	Status ManagerStatus `json:"pulse"`
	// Message says how that is known.
	Message string `json:"message"`
	// Namespace in which it was looked for.
	Namespace string `json:"namespace"`

	// renewed is when the lease was, zero where it is not held or was not read.
	renewed time.Time
}

// FindManager reads whether a manager runs: from its lease, which the active replica renews
// every few seconds, else from its Deployment. Without rights the result is Unknown.
func FindManager(ctx context.Context, c *cluster.Connection, namespace string, now time.Time) Manager {
	out, leaseErr := FindHolder(ctx, c, namespace, now)
	if leaseErr == nil {
		return out
	}
	ctx, cancel := context.WithTimeout(ctx, c.Timeout)
	defer cancel()
	var deployment appsv1.Deployment
	err := c.Get(ctx, client.ObjectKey{Namespace: namespace, Name: ManagerName}, &deployment)
	switch {
	case err == nil:
		out.Status, out.Message = deploymentStatus(&deployment)
	case apierrors.IsNotFound(err) && apierrors.IsNotFound(leaseErr):
		out.Message = fmt.Sprintf("there is neither a lease nor a Deployment %s in namespace %s", ManagerName, namespace)
	default:
		out.Message = fmt.Sprintf("neither the lease nor the Deployment %s in namespace %s can be read", ManagerName, namespace)
	}
	return out
}

// FindHolder reads whether the manager's lease is renewed, whatever Deployment that
// is of, if any. Its error is the apiserver's.
func FindHolder(ctx context.Context, c *cluster.Connection, namespace string, now time.Time) (Manager, error) {
	ctx, cancel := context.WithTimeout(ctx, c.Timeout)
	defer cancel()
	out := Manager{Status: ManagerUnknown, Namespace: namespace}
	var lease coordinationv1.Lease
	if err := c.Get(ctx, client.ObjectKey{Namespace: namespace, Name: ManagerName}, &lease); err != nil {
		return out, err //nolint:wrapcheck // callers look at the error's type
	}
	spec, valid := lease.Spec, 15*time.Second
	if spec.LeaseDurationSeconds != nil {
		valid = time.Duration(*spec.LeaseDurationSeconds) * time.Second
	}
	switch {
	case spec.HolderIdentity == nil || *spec.HolderIdentity == "" || spec.RenewTime == nil:
		out.Status, out.Message = Stopped, fmt.Sprintf("the lease %s in namespace %s has no holder", ManagerName, namespace)
	case now.Sub(spec.RenewTime.Time) > valid+skew:
		out.Status, out.Message = Stopped, fmt.Sprintf("%s has not renewed the lease %s in namespace %s since %s, too long ago by this computer's clock",
			*spec.HolderIdentity, ManagerName, namespace, spec.RenewTime.UTC().Format("2006-01-02 15:04:05Z"))
	default:
		out.Status, out.renewed = Running, spec.RenewTime.Time
		out.Message = fmt.Sprintf("%s holds the lease %s in namespace %s", *spec.HolderIdentity, ManagerName, namespace)
	}
	return out, nil
}

func deploymentStatus(d *appsv1.Deployment) (ManagerStatus, string) {
	wanted := int32(1)
	if d.Spec.Replicas != nil {
		wanted = *d.Spec.Replicas
	}
	switch {
	case d.Status.AvailableReplicas > 0:
		return Running, fmt.Sprintf("%d of %d replicas of the Deployment %s in namespace %s are available", d.Status.AvailableReplicas, wanted, d.Name, d.Namespace)
	case wanted == 0:
		return Stopped, fmt.Sprintf("the Deployment %s in namespace %s is scaled to 0", d.Name, d.Namespace)
	}
	return Stopped, fmt.Sprintf("none of the %d replicas of the Deployment %s in namespace %s is available", wanted, d.Name, d.Namespace)
}
