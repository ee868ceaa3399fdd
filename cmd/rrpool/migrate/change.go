package migrate

import (
	"context"
	"errors"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/rrpool/rrpool/cmd/rrpool/cluster"
	"github.com/rrpool/rrpool/cmd/rrpool/iostreams"
	"github.com/rrpool/rrpool/config/api/v1alpha1"
)

// change creates the RouteReflectorPool, or sets the mode of the one that is stored.
type change struct {
	*cluster.Connection
	// stored is nil when there is none.
	stored, want *v1alpha1.RouteReflectorPool
}

// attempts to write while the manager writes its status.
const attempts = 10

// write creates the object, or patches its mode and nothing else, and gives it as it is then. In a dry run the apiserver
// only checks it, so that a missing right or a refusal is known before the question. If another client has changed the
// object since it was shown, it fails: what was confirmed was about another object.
func (c change) write(ctx context.Context, dryRun bool) (*v1alpha1.RouteReflectorPool, error) {
	to := client.WithFieldOwner(c.Client, iostreams.Program)
	if dryRun {
		to = client.NewDryRunClient(to)
	}
	if c.stored == nil {
		out := c.want.DeepCopy()
		return out, c.explain(to.Create(ctx, out), dryRun)
	}
	for attempt := 1; ; attempt++ {
		now, err := c.Pool(ctx)
		switch {
		case err != nil:
			return nil, err
		case now == nil || now.UID != c.stored.UID || now.Generation != c.stored.Generation || now.DeletionTimestamp != nil:
			return nil, errOvertaken
		}
		out := withMode(now, c.want.Spec.Mode)
		err = to.Patch(ctx, out, client.MergeFromWithOptions(now, client.MergeFromWithOptimisticLock{}))
		if !apierrors.IsConflict(err) || attempt == attempts {
			return out, c.explain(err, dryRun)
		}
	}
}

// errOvertaken: another client changed the object meanwhile.
var errOvertaken = errors.New("another client has changed the RouteReflectorPool meanwhile: nothing was changed by this command; look at it (kubectl get rrp default --output yaml), then call this again")

// explain says what the write failed of, and which role helps.
func (c change) explain(err error, dryRun bool) error {
	const resource = "routereflectorpools.rrpool.io"
	verb := "patch"
	if c.stored == nil {
		verb = "create"
	}
	switch {
	case err == nil:
		return nil
	case apierrors.IsForbidden(err) && !strings.Contains(err.Error(), "cannot "+verb+" resource"):
		return fmt.Errorf("the cluster of context %q refuses to %s %s: %w", c.Name, verb, resource, err) // admission
	case apierrors.IsForbidden(err):
		return fmt.Errorf("%w; docs/migrate.md has the ClusterRole", c.Explain(err, verb, resource))
	case apierrors.IsAlreadyExists(err), c.stored != nil && cluster.IsMissing(err):
		return errOvertaken
	case !dryRun && apierrors.ReasonForError(err) == metav1.StatusReasonUnknown:
		return fmt.Errorf("whether spec.mode was set is not known, as the answer was lost (%w): rrpool status says it", c.Explain(err, verb, resource))
	}
	return c.Explain(err, verb, resource)
}
