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

// dryRun lets the apiserver check the change without making it, so that a missing right
// or a refusal is known before the question.
func (c change) dryRun(ctx context.Context) error {
	_, sent, err := c.write(ctx, client.NewDryRunClient(c.Client))
	if !sent {
		return err
	}
	return c.explain(err)
}

// do makes the change and gives the object as it is then.
func (c change) do(ctx context.Context) (*v1alpha1.RouteReflectorPool, error) {
	out, sent, err := c.write(ctx, c.Client)
	switch {
	case !sent:
		return out, err
	case err != nil && apierrors.ReasonForError(err) == metav1.StatusReasonUnknown:
		return nil, fmt.Errorf("whether spec.mode was set is not known, as the answer was lost (%w): rrpool status says it", c.explain(err))
	}
	return out, c.explain(err)
}

// attempts to write while the manager writes its status.
const attempts = 10

// write creates the object, or patches its mode and nothing else. If another client has changed
// the object since it was shown, it fails: what was confirmed was about another object. Where
// nothing was sent, the error is already explained.
func (c change) write(ctx context.Context, to client.Client) (out *v1alpha1.RouteReflectorPool, sent bool, err error) {
	to = client.WithFieldOwner(to, iostreams.Program)
	if c.stored == nil {
		out = c.want.DeepCopy()
		return out, true, to.Create(ctx, out) //nolint:wrapcheck // explain does
	}
	for attempt := 1; ; attempt++ {
		now, err := c.Pool(ctx)
		switch {
		case err != nil:
			return nil, false, err
		case now == nil || now.UID != c.stored.UID || now.Generation != c.stored.Generation || now.DeletionTimestamp != nil:
			return nil, false, errOvertaken
		}
		out, sent = withMode(now, c.want.Spec.Mode), true
		err = to.Patch(ctx, out, client.MergeFromWithOptions(now, client.MergeFromWithOptimisticLock{}))
		if !apierrors.IsConflict(err) || attempt == attempts {
			return out, sent, err //nolint:wrapcheck // explain does
		}
	}
}

// errOvertaken: another client changed the object meanwhile.
var errOvertaken = errors.New("another client has changed the RouteReflectorPool meanwhile: nothing was changed by this command; look at it (kubectl get rrp default --output yaml), then call this again")

// explain says what the write failed of, and which role helps.
func (c change) explain(err error) error {
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
	}
	return c.Explain(err, verb, resource)
}
