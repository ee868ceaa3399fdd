package calico

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// custom is the custom resource behind an object of Calico's.
func custom(kind, name string) *unstructured.Unstructured {
	o := &unstructured.Unstructured{}
	o.SetGroupVersionKind(schema.GroupVersionKind{Group: "crd.projectcalico.org", Version: "v1", Kind: kind})
	o.SetName(name)
	return o
}

// deleteVersion deletes exactly the version that was looked at: the one after it
// may be somebody else's. libcalico-go cannot: with the Kubernetes datastore it
// ignores the version.
func (a *Adapter) deleteVersion(ctx context.Context, o client.Object) (bool, error) {
	kind, name, revision := o.GetObjectKind().GroupVersionKind().Kind, o.GetName(), o.GetResourceVersion()
	err := a.writer.Delete(ctx, custom(kind, name), client.Preconditions{ResourceVersion: &revision})
	if err != nil && !isMissing(err) {
		return false, fmt.Errorf("deleting %s %q: %w", kind, name, err)
	}
	a.store.forget(kind, name)
	return err == nil, nil
}
