package pool

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/rrpool/rrpool/config/api/v1alpha1"
)

// How fast a failing reconciliation is tried again. A datastore that comes back
// may mean a mesh that has to come back: the longest wait is short.
const (
	retryFirst = 200 * time.Millisecond
	retryMax   = 30 * time.Second
)

// singleton is the only request there is.
var singleton = reconcile.Request{NamespacedName: types.NamespacedName{Name: v1alpha1.SingletonName}}

// SetupWithManager makes everything that matters trigger the reconciler. changed
// carries a value whenever the datastore has changed.
func SetupWithManager[T any](mgr ctrl.Manager, r *Reconciler, changed <-chan T) error {
	toSingleton := handler.EnqueueRequestsFromMapFunc(func(context.Context, client.Object) []reconcile.Request {
		return []reconcile.Request{singleton}
	})
	inNamespace := predicate.NewPredicateFuncs(func(o client.Object) bool { return o.GetNamespace() == r.Namespace })
	return ctrl.NewControllerManagedBy(mgr).
		Named("routereflectorpool").
		For(&v1alpha1.RouteReflectorPool{}, builder.WithPredicates(wishChanged())).
		Watches(&corev1.Node{}, toSingleton, builder.WithPredicates(nodeChanged())).
		Watches(&corev1.Secret{}, toSingleton, builder.WithPredicates(inNamespace, predicate.ResourceVersionChangedPredicate{})).
		WatchesRawSource(signals(changed)).
		WithOptions(controller.Options{
			MaxConcurrentReconciles: 1,
			RateLimiter: workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](
				retryFirst, retryMax),
		}).
		Complete(r)
}

// signals requests a reconciliation for every value of a channel.
func signals[T any](changed <-chan T) source.Source {
	return source.Func(func(ctx context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
		go func() {
			for {
				select {
				case <-ctx.Done():
					return
				case _, open := <-changed:
					if !open {
						return
					}
					queue.Add(singleton)
				}
			}
		}()
		return nil
	})
}
