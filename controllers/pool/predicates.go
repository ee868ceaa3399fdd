package pool

import (
	"maps"
	"reflect"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
)

// Annotations of nodes that decisions depend on.
const (
	calicoAnnotations = "projectcalico.org/"
	rrpoolAnnotations = "rrpool.io/"
)

// wishChanged passes changes of the spec, of the finalizers, and the wish to be
// deleted; not our own status.
func wishChanged() predicate.Predicate {
	return predicate.Or(predicate.GenerationChangedPredicate{}, predicate.Funcs{
		UpdateFunc: func(e event.UpdateEvent) bool {
			return !reflect.DeepEqual(e.ObjectOld.GetFinalizers(), e.ObjectNew.GetFinalizers()) ||
				!e.ObjectOld.GetDeletionTimestamp().Equal(e.ObjectNew.GetDeletionTimestamp())
		},
	})
}

// nodeChanged drops heartbeats, images and everything else that no step depends on.
func nodeChanged() predicate.Predicate {
	return predicate.Funcs{
		UpdateFunc: func(e event.UpdateEvent) bool {
			before, ok := e.ObjectOld.(*corev1.Node)
			after, okToo := e.ObjectNew.(*corev1.Node)
			return !ok || !okToo || !reflect.DeepEqual(essence(before), essence(after))
		},
	}
}

// essence is what decisions depend on in a node.
func essence(node *corev1.Node) *corev1.Node {
	out := &corev1.Node{}
	out.Name, out.UID = node.Name, node.UID
	out.Labels = node.Labels
	out.Annotations = maps.Clone(node.Annotations)
	maps.DeleteFunc(out.Annotations, func(key, _ string) bool {
		return !strings.HasPrefix(key, calicoAnnotations) && !strings.HasPrefix(key, rrpoolAnnotations)
	})
	out.CreationTimestamp, out.DeletionTimestamp = node.CreationTimestamp, node.DeletionTimestamp
	out.Spec.ProviderID = node.Spec.ProviderID
	out.Spec.Unschedulable = node.Spec.Unschedulable
	out.Spec.Taints = node.Spec.Taints
	for _, condition := range node.Status.Conditions {
		if condition.Type == corev1.NodeReady {
			out.Status.Conditions = []corev1.NodeCondition{{
				Type: condition.Type, Status: condition.Status, LastTransitionTime: condition.LastTransitionTime,
			}}
		}
	}
	return out
}

// SlimNode is a cache transform: of 5,000 nodes only what matters is kept.
func SlimNode(in any) (any, error) {
	node, ok := in.(*corev1.Node)
	if !ok {
		return in, nil
	}
	slim := essence(node)
	slim.TypeMeta, slim.ResourceVersion = node.TypeMeta, node.ResourceVersion
	return slim, nil
}
