//go:build linux

package site

import (
	"context"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
)

// finalizeNamespaces does for namespaces that are deleted what the namespace controller does: it deletes everything in them, and
// lets them go.
func (s *Site) finalizeNamespaces(ctx context.Context) error {
	list, err := s.Lab.Kube().CoreV1().Namespaces().List(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("listing the namespaces: %w", err)
	}
	var errs []error
	for i := range list.Items {
		n := &list.Items[i]
		if n.DeletionTimestamp == nil || !slices.Contains(n.Spec.Finalizers, corev1.FinalizerKubernetes) {
			continue
		}
		if err := s.empty(ctx, n.Name); err != nil {
			errs = append(errs, fmt.Errorf("emptying namespace %q: %w", n.Name, err))
			continue
		}
		n.Spec.Finalizers = nil
		if _, err := s.Lab.Kube().CoreV1().Namespaces().Finalize(ctx, n, metav1.UpdateOptions{}); err != nil && !apierrors.IsNotFound(err) {
			errs = append(errs, fmt.Errorf("letting namespace %q go: %w", n.Name, err))
		}
	}
	return errors.Join(errs...)
}

// empty deletes all objects of a namespace, of whatever kind.
func (s *Site) empty(ctx context.Context, namespace string) error {
	lists, err := s.Lab.Kube().Discovery().ServerPreferredResources()
	if err != nil {
		return fmt.Errorf("asking for the kinds: %w", err)
	}
	objects, err := dynamic.NewForConfig(s.Lab.AdminConfig())
	if err != nil {
		return fmt.Errorf("making a client: %w", err)
	}
	deletable := discovery.SupportsAllVerbs{Verbs: []string{"deletecollection"}}
	for _, list := range discovery.FilteredBy(deletable, lists) {
		group, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			return fmt.Errorf("reading a group: %w", err)
		}
		for _, kind := range list.APIResources {
			if !kind.Namespaced {
				continue
			}
			if err := objects.Resource(group.WithResource(kind.Name)).Namespace(namespace).DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{}); err != nil {
				return fmt.Errorf("deleting the %s: %w", kind.Name, err)
			}
		}
	}
	return nil
}
