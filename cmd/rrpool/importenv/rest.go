package importenv

import (
	"context"
	"errors"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/rrpool/rrpool/cmd/rrpool/iostreams"
)

// Objects that are of no use without their operator.
var leftovers = []struct {
	resource schema.GroupVersionResource
	word     string
}{
	{schema.GroupVersionResource{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "clusterroles"}, "clusterrole"},
	{schema.GroupVersionResource{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "clusterrolebindings"}, "clusterrolebinding"},
	{schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}, "crd"},
}

// readRest reads what no step depends on.
func (l *looker) readRest(ctx context.Context) error {
	for _, kind := range leftovers {
		objects, err := l.list(ctx, kind.resource)
		if err != nil {
			l.miss(ctx, kind.word+"s of the operator", err)
			continue
		}
		for i := range objects {
			if name := objects[i].GetName(); isLeftover(name) {
				l.found.Leftovers = append(l.found.Leftovers, kind.word+" "+name)
			}
		}
	}
	l.readStatuses(ctx)
	if pool, err := l.c.Pool(ctx); err == nil && pool != nil {
		l.found.RRPool = pool.Spec.Mode
	}
	return interrupted(ctx)
}

func isLeftover(name string) bool {
	return strings.Contains(name, operatorName) || name == ibmName || strings.HasSuffix(name, ".route-reflector.ibm.com")
}

// readStatuses: who may not list them may still be told to create them, so only a kind
// that is not there counts as missing.
func (l *looker) readStatuses(ctx context.Context) {
	statuses, err := l.list(ctx, calico("caliconodestatuses"))
	l.found.Statuses = !errors.Is(err, errUnknownKind)
	for i := range statuses {
		if name := statuses[i].GetName(); strings.HasPrefix(name, watchPrefix) {
			l.found.Watches = append(l.found.Watches, name)
		}
	}
}

func (l *looker) miss(ctx context.Context, what string, err error) {
	if ctx.Err() == nil {
		l.found.Unread = append(l.found.Unread, fmt.Sprintf("%s: %v", what, err))
	}
}

func interrupted(ctx context.Context) error {
	if ctx.Err() != nil {
		return iostreams.ErrInterrupted
	}
	return nil
}

// errUnknownKind: the cluster does not have Calico's kinds.
var errUnknownKind = errors.New("there is no Calico with the Kubernetes datastore")

// explain says why a kind cannot be read. Calico's are not ours to install.
func (l *looker) explain(err error, verb string, resource schema.GroupVersionResource) error {
	if apierrors.IsNotFound(err) {
		return fmt.Errorf("the cluster of context %q does not know %s: %w: choose another --context", l.c.Name, resource.GroupResource(), errUnknownKind)
	}
	return l.c.Explain(err, verb, resource.GroupResource().String())
}
