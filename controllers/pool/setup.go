package pool

import (
	"context"
	"fmt"
	"maps"
	"reflect"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/rrpool/rrpool/config/api/v1alpha1"
)

// The shortest and longest delay before a failing reconciliation is retried. The longest is short, as the mesh may have to come back.
const (
	retryFirst = 200 * time.Millisecond
	retryMax   = 30 * time.Second
)

// singleton is the request for the only RouteReflectorPool.
var singleton = reconcile.Request{NamespacedName: types.NamespacedName{Name: v1alpha1.SingletonName}}

// firstLook is how long the controller waits at its start for the datastore's
// first answer. After that, it reconciles and reports that there is none.
const firstLook = 15 * time.Second

// burst is how long changes are collected before a reconciliation: a migration makes thousands.
const burst = 100 * time.Millisecond

// Signals report that the datastore has changed.
type Signals interface {
	// Changes carries a value after a change; values may be merged.
	Changes() <-chan struct{}
	// WaitSynced returns once every object has been listed.
	WaitSynced(ctx context.Context) error
}

// SetupWithManager makes changes of the RouteReflectorPool, of Nodes, of the manager's Secrets and of the datastore trigger the reconciler.
func SetupWithManager(mgr ctrl.Manager, r *Reconciler, datastore Signals) error {
	toSingleton := handler.EnqueueRequestsFromMapFunc(func(context.Context, client.Object) []reconcile.Request {
		return []reconcile.Request{singleton}
	})
	inNamespace := predicate.NewPredicateFuncs(func(o client.Object) bool { return o.GetNamespace() == r.Namespace })
	err := ctrl.NewControllerManagedBy(mgr).
		Named("routereflectorpool").
		For(&v1alpha1.RouteReflectorPool{}, builder.WithPredicates(specChanged())).
		Watches(&corev1.Node{}, toSingleton, builder.WithPredicates(nodeChanged())).
		Watches(&corev1.Secret{}, toSingleton, builder.WithPredicates(inNamespace, predicate.ResourceVersionChangedPredicate{})).
		WatchesRawSource(signaled(datastore)).
		WithOptions(controller.Options{
			MaxConcurrentReconciles: 1,
			RateLimiter:             workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](retryFirst, retryMax),
		}).
		Complete(r)
	if err != nil {
		return fmt.Errorf("building the controller: %w", err)
	}
	return nil
}

// signaled requests a reconciliation for every signal. It begins once everything has been listed, or after firstLook.
func signaled(by Signals) source.Func {
	return func(ctx context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
		bounded, cancel := context.WithTimeout(ctx, firstLook)
		defer cancel()
		if err := by.WaitSynced(bounded); err != nil && ctx.Err() != nil {
			return fmt.Errorf("waiting for the datastore: %w", err)
		}
		go func() {
			for {
				select {
				case <-ctx.Done():
					return
				case <-by.Changes():
					queue.AddAfter(singleton, burst)
				}
			}
		}()
		return nil
	}
}

// specChanged passes changes of the spec, of the finalizers and of the deletion timestamp, not of the status.
func specChanged() predicate.Predicate {
	return predicate.Or(predicate.GenerationChangedPredicate{}, predicate.Funcs{
		UpdateFunc: func(e event.UpdateEvent) bool {
			return !reflect.DeepEqual(e.ObjectOld.GetFinalizers(), e.ObjectNew.GetFinalizers()) ||
				!e.ObjectOld.GetDeletionTimestamp().Equal(e.ObjectNew.GetDeletionTimestamp())
		},
	})
}

// nodeChanged passes changes that a step may depend on, not heartbeats or images.
func nodeChanged() predicate.Predicate {
	return predicate.Funcs{
		UpdateFunc: func(e event.UpdateEvent) bool {
			before, ok := e.ObjectOld.(*corev1.Node)
			after, okToo := e.ObjectNew.(*corev1.Node)
			return !ok || !okToo || !reflect.DeepEqual(relevantFields(before), relevantFields(after))
		},
	}
}

// relevantFields returns a node with only the fields that decisions depend on.
func relevantFields(node *corev1.Node) *corev1.Node {
	out := &corev1.Node{}
	out.Name, out.UID = node.Name, node.UID
	out.Labels = node.Labels
	out.Annotations = maps.Clone(node.Annotations)
	maps.DeleteFunc(out.Annotations, func(key, _ string) bool {
		return !strings.HasPrefix(key, "projectcalico.org/") && !strings.HasPrefix(key, "rrpool.io/")
	})
	out.CreationTimestamp, out.DeletionTimestamp = node.CreationTimestamp, node.DeletionTimestamp
	out.Spec.ProviderID = node.Spec.ProviderID
	out.Spec.Unschedulable = node.Spec.Unschedulable
	out.Spec.Taints = node.Spec.Taints
	out.Spec.PodCIDRs = node.Spec.PodCIDRs
	for _, condition := range node.Status.Conditions {
		if condition.Type == corev1.NodeReady {
			out.Status.Conditions = []corev1.NodeCondition{{
				Type: condition.Type, Status: condition.Status, LastTransitionTime: condition.LastTransitionTime,
			}}
		}
	}
	return out
}

// SlimNode is a cache transform that drops the fields of nodes that are not needed.
func SlimNode(in any) (any, error) {
	node, ok := in.(*corev1.Node)
	if !ok {
		return in, nil
	}
	slim := relevantFields(node)
	slim.TypeMeta, slim.ResourceVersion = node.TypeMeta, node.ResourceVersion
	slim.Status.Addresses = node.Status.Addresses // these addresses match Calico's Nodes with Kubernetes' Nodes
	return slim, nil
}

// What the manager may do, and nothing else: `make manifests` turns the markers into config/rbac/role.yaml. The
// demonstration and the e2e tests run with exactly these rights.
//
// The object itself. Its name is fixed, and with it everything but list and watch.
// +kubebuilder:rbac:groups=rrpool.io,resources=routereflectorpools,verbs=list;watch
// +kubebuilder:rbac:groups=rrpool.io,resources=routereflectorpools,resourceNames=default,verbs=get;patch
// +kubebuilder:rbac:groups=rrpool.io,resources=routereflectorpools/status,resourceNames=default,verbs=patch
//
// Nodes: role label and cluster ID are set in one merge patch, and so are the pool
// label of existing nodes, the rack of a client, and a cordon. Never nodes/status.
// +kubebuilder:rbac:groups="",resources=nodes,verbs=list;watch;patch
//
// Pods, where existing nodes reflect: how many run on a node, and eviction from one that is to become a reflector
// (promotion: Drain). PodDisruptionBudgets hold. Of calico-node's pods, in kube-system and calico-system, a watch
// shows which are Ready: the second namespace may not exist, so no Role in it could be made.
// +kubebuilder:rbac:groups="",resources=pods,verbs=list;watch
// +kubebuilder:rbac:groups="",resources=pods/eviction,verbs=create
//
// Calico, in either API group. Of the BGPConfigurations, only the default one is ever written.
// +kubebuilder:rbac:groups=crd.projectcalico.org;projectcalico.org,resources=bgppeers,verbs=get;list;watch;create;update;delete
// +kubebuilder:rbac:groups=crd.projectcalico.org;projectcalico.org,resources=bgpconfigurations,verbs=list;watch;create
// +kubebuilder:rbac:groups=crd.projectcalico.org;projectcalico.org,resources=bgpconfigurations,resourceNames=default,verbs=get;update;delete
// +kubebuilder:rbac:groups=crd.projectcalico.org;projectcalico.org,resources=caliconodestatuses,verbs=get;list;watch;create;update;delete
// +kubebuilder:rbac:groups=crd.projectcalico.org;projectcalico.org,resources=caliconodestatuses/status,verbs=patch
// +kubebuilder:rbac:groups=crd.projectcalico.org;projectcalico.org,resources=blockaffinities;clusterinformations,verbs=list;watch
// +kubebuilder:rbac:groups=crd.projectcalico.org;projectcalico.org,resources=ippools;felixconfigurations,verbs=list
//
// Which of them it is: whether Calico's objects are being moved, and whether the second group is of CRDs.
// +kubebuilder:rbac:groups=migration.projectcalico.org,resources=datastoremigrations,verbs=list
// +kubebuilder:rbac:groups=apiextensions.k8s.io,resources=customresourcedefinitions,resourceNames=bgppeers.projectcalico.org,verbs=get
//
// The cluster's own id on IKS, and whether calico-node runs BIRD where Calico's manifests installed it.
// +kubebuilder:rbac:groups="",namespace=kube-system,resources=configmaps,resourceNames=cluster-info;calico-config,verbs=get
//
// Credentials and the lease, in the manager's own namespace.
// +kubebuilder:rbac:groups="",namespace=rrpool-system,resources=secrets,verbs=list;watch
// +kubebuilder:rbac:groups=coordination.k8s.io,namespace=rrpool-system,resources=leases,verbs=create
// +kubebuilder:rbac:groups=coordination.k8s.io,namespace=rrpool-system,resources=leases,resourceNames=rrpool-manager,verbs=get;update
//
// Events: those about the object, which has no namespace, are kept in default; those about the lease in its own.
// +kubebuilder:rbac:groups=events.k8s.io,namespace=default,resources=events,verbs=create;patch
//
// Who may read the metrics is for the apiserver to say.
// +kubebuilder:rbac:groups=authentication.k8s.io,resources=tokenreviews,verbs=create
// +kubebuilder:rbac:groups=authorization.k8s.io,resources=subjectaccessreviews,verbs=create
