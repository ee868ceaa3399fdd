package cluster

import (
	"errors"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/rrpool/rrpool/config/api/v1alpha1"
)

func newScheme() (*runtime.Scheme, error) {
	scheme := runtime.NewScheme()
	err := errors.Join(
		appsv1.AddToScheme(scheme), authorizationv1.AddToScheme(scheme), corev1.AddToScheme(scheme),
		eventsv1.AddToScheme(scheme), apiextensionsv1.AddToScheme(scheme), v1alpha1.AddToScheme(scheme),
	)
	if err != nil {
		return nil, fmt.Errorf("building the scheme: %w", err)
	}
	return scheme, nil
}

// calico are Calico's own objects as the Kubernetes datastore keeps them.
var calico = schema.GroupVersion{Group: "crd.projectcalico.org", Version: "v1"}

// mapper knows every kind that a command asks for.
func mapper() meta.RESTMapper {
	m := meta.NewDefaultRESTMapper(nil)
	m.Add(v1alpha1.GroupVersion.WithKind("RouteReflectorPool"), meta.RESTScopeRoot)
	for _, kind := range []string{"Node", "Namespace"} {
		m.Add(corev1.SchemeGroupVersion.WithKind(kind), meta.RESTScopeRoot)
	}
	for _, kind := range []string{"ConfigMap", "Pod", "Secret", "ServiceAccount"} {
		m.Add(corev1.SchemeGroupVersion.WithKind(kind), meta.RESTScopeNamespace)
	}
	for _, kind := range []string{"DaemonSet", "Deployment"} {
		m.Add(appsv1.SchemeGroupVersion.WithKind(kind), meta.RESTScopeNamespace)
	}
	m.Add(eventsv1.SchemeGroupVersion.WithKind("Event"), meta.RESTScopeNamespace)
	for _, kind := range []string{"SelfSubjectAccessReview", "SubjectAccessReview"} {
		m.Add(authorizationv1.SchemeGroupVersion.WithKind(kind), meta.RESTScopeRoot)
	}
	for _, kind := range []string{"BGPConfiguration", "CalicoNodeStatus", "ClusterInformation", "FelixConfiguration", "IPPool"} {
		m.Add(calico.WithKind(kind), meta.RESTScopeRoot)
	}
	m.Add(apiextensionsv1.SchemeGroupVersion.WithKind("CustomResourceDefinition"), meta.RESTScopeRoot)
	return m
}
