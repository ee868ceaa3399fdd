// Package v1alpha1 holds the RouteReflectorPool API, group rrpool.io.
//
// One object per cluster, named "default", says how the cluster's BGP routes
// are distributed: by the node-to-node mesh or by a pool of route reflectors.
//
// +kubebuilder:object:generate=true
// +groupName=rrpool.io
package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupVersion is the API group and version of everything in this package.
var GroupVersion = schema.GroupVersion{Group: "rrpool.io", Version: "v1alpha1"}

// AddToScheme registers the types of this package with a scheme.
func AddToScheme(s *runtime.Scheme) error {
	s.AddKnownTypes(GroupVersion, &RouteReflectorPool{}, &RouteReflectorPoolList{}, &ClusterPeering{}, &ClusterPeeringList{})
	metav1.AddToGroupVersion(s, GroupVersion)
	return nil
}
