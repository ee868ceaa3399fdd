package peering

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/rrpool/rrpool/config/api/v1alpha1"
)

// The shortest and longest delay before a failing reconciliation is retried.
const (
	retryFirst = 200 * time.Millisecond
	retryMax   = 30 * time.Second
)

// SetupWithManager makes the manager reconcile every ClusterPeering each pollPeriod.
//
// ClusterPeerings are listed and not watched. The manager ends if a watch cannot begin, and the RouteReflectorPool must be
// reconciled even if ClusterPeerings are not installed or may not be read. Remote clusters have to be polled in any case.
func SetupWithManager(mgr ctrl.Manager, r *Reconciler) error {
	err := ctrl.NewControllerManagedBy(mgr).
		Named("clusterpeering").
		WatchesRawSource(source.Func(r.poll)).
		WithOptions(controller.Options{
			MaxConcurrentReconciles: 4, // reading a remote cluster may take 150 MiB of the manager's limit of 1 GiB
			RateLimiter:             workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](retryFirst, retryMax),
		}).
		Complete(r)
	if err != nil {
		return fmt.Errorf("building the controller: %w", err)
	}
	return nil
}

// poll requests the reconciliation of all ClusterPeerings each pollPeriod. It logs an error only if the previous poll had another one.
func (r *Reconciler) poll(ctx context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
	go func() {
		logged := ""
		for {
			requests, err := r.requests(ctx)
			for _, request := range requests {
				queue.Add(request)
			}
			text := fmt.Sprint(err)
			if err != nil && text != logged && ctx.Err() == nil {
				log.FromContext(ctx).Error(err, "no ClusterPeering is reconciled")
			}
			logged = text
			select {
			case <-ctx.Done():
				return
			case <-time.After(r.wait(pollPeriod)):
			}
		}
	}()
	return nil
}

// requests returns one request for each ClusterPeering, none if the kind is not installed.
func (r *Reconciler) requests(ctx context.Context) ([]reconcile.Request, error) {
	var found v1alpha1.ClusterPeeringList
	err := r.Live.List(ctx, &found)
	if meta.IsNoMatchError(err) || apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("listing ClusterPeerings: %w", err)
	}
	var out []reconcile.Request
	for i := range found.Items {
		out = append(out, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&found.Items[i])})
	}
	return out, nil
}

// The rights that the manager needs for ClusterPeerings alone.
//
// Calico's objects. config/policy restricts this to names that begin with rrpool-.
// +kubebuilder:rbac:groups=crd.projectcalico.org;projectcalico.org,resources=bgpfilters;ippools,verbs=get;list;create;update;delete
//
// ClusterPeerings, and the ranges of services for them.
// +kubebuilder:rbac:groups=rrpool.io,resources=clusterpeerings,verbs=get;list;patch
// +kubebuilder:rbac:groups=rrpool.io,resources=clusterpeerings/status,verbs=patch
// +kubebuilder:rbac:groups=networking.k8s.io,resources=servicecidrs,verbs=list
//
// The addresses of this cluster's apiserver, which must not be in the ranges of a remote cluster.
// +kubebuilder:rbac:groups=discovery.k8s.io,namespace=default,resources=endpointslices,resourceNames=kubernetes,verbs=get
