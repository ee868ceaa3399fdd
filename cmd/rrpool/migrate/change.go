package migrate

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/rrpool/rrpool/cmd/rrpool/cluster"
	"github.com/rrpool/rrpool/config/api/v1alpha1"
)

const (
	resource = "routereflectorpools.rrpool.io"
	// owner is who sets the mode, in the object's managed fields.
	owner = client.FieldOwner("rrpool")
)

// change creates the RouteReflectorPool, or sets the mode of the one that is stored.
type change struct {
	*cluster.Connection
	// stored is nil when there is none.
	stored *v1alpha1.RouteReflectorPool
	want   *v1alpha1.RouteReflectorPool
}

// dryRun lets the apiserver check the change without making it, so that a missing right
// or a refusal is known before the question.
func (c change) dryRun(ctx context.Context) error {
	var err error
	if c.stored == nil {
		err = c.create(ctx, client.DryRunAll)
	} else {
		_, err = c.patch(ctx, client.DryRunAll)
	}
	if err != nil && apierrors.IsBadRequest(err) && strings.Contains(err.Error(), "dry run") {
		return nil // a webhook without support for it
	}
	return c.explain(err)
}

// do makes the change and gives the object as it is then.
func (c change) do(ctx context.Context) (*v1alpha1.RouteReflectorPool, error) {
	out := c.want
	var err error
	if c.stored == nil {
		err = c.create(ctx)
	} else {
		out, err = c.patch(ctx)
	}
	if err == nil || err == errOvertaken || apierrors.ReasonForError(err) != metav1.StatusReasonUnknown { //nolint:errorlint // it is never wrapped
		return out, c.explain(err)
	}
	return c.lookAgain(ctx, err)
}

// lookAgain says what came of a write whose answer was lost.
func (c change) lookAgain(ctx context.Context, lost error) (*v1alpha1.RouteReflectorPool, error) {
	now, err := c.Pool(context.WithoutCancel(ctx))
	switch {
	case err != nil:
		return nil, fmt.Errorf("whether spec.mode was set is not known, as the answer was lost (%w): rrpool status says it", c.explain(lost))
	case now == nil || now.Spec.Mode != c.want.Spec.Mode:
		return nil, c.explain(lost)
	case ctx.Err() != nil:
		return nil, errors.New("interrupted, and spec.mode is set all the same: rrpool status --watch shows what comes of it")
	}
	return now, nil
}

func (c change) create(ctx context.Context, options ...client.CreateOption) error {
	ctx, cancel := context.WithTimeout(ctx, c.Timeout)
	defer cancel()
	object := c.want.DeepCopy()
	if err := c.Create(ctx, object, append(options, owner)...); err != nil {
		return err //nolint:wrapcheck // explain does
	}
	*c.want = *object
	return nil
}

// attempts to write while the manager writes its status.
const attempts = 10

// patch sets the mode and nothing else. If another client has changed the object since it
// was shown, it fails: what was confirmed was about another object.
func (c change) patch(ctx context.Context, options ...client.PatchOption) (*v1alpha1.RouteReflectorPool, error) {
	version := c.stored.ResourceVersion
	for attempt := 1; ; attempt++ {
		object, err := c.patchOnce(ctx, version, options...)
		if !apierrors.IsConflict(err) || attempt == attempts {
			return object, err
		}
		now, err := c.Pool(ctx)
		if err != nil {
			return nil, err
		}
		if now == nil || now.UID != c.stored.UID || now.Generation != c.stored.Generation || now.DeletionTimestamp != nil {
			return nil, errOvertaken
		}
		version = now.ResourceVersion
	}
}

func (c change) patchOnce(ctx context.Context, version string, options ...client.PatchOption) (*v1alpha1.RouteReflectorPool, error) {
	ctx, cancel := context.WithTimeout(ctx, c.Timeout)
	defer cancel()
	data, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"resourceVersion": version},
		"spec":     map[string]any{"mode": c.want.Spec.Mode},
	})
	if err != nil {
		return nil, fmt.Errorf("rendering the patch: %w", err)
	}
	object := &v1alpha1.RouteReflectorPool{}
	object.Name = v1alpha1.SingletonName
	err = c.Patch(ctx, object, client.RawPatch(types.MergePatchType, data), append(options, owner)...)
	return object, err //nolint:wrapcheck // explain does
}

// errOvertaken: another client changed the object meanwhile.
var errOvertaken = errors.New("another client has changed the RouteReflectorPool meanwhile: nothing was changed by this command; look at it (kubectl get rrp default --output yaml), then call this again")

// explain says what the write failed of, and which role helps.
func (c change) explain(err error) error {
	verb := "patch"
	if c.stored == nil {
		verb = "create"
	}
	switch {
	case err == nil, err == errOvertaken: //nolint:errorlint // it is never wrapped
		return err
	case apierrors.IsForbidden(err) && !strings.Contains(err.Error(), "cannot "+verb+" resource"):
		return fmt.Errorf("the cluster of context %q refuses to %s %s: %w", c.Name, verb, resource, err) // admission
	case apierrors.IsForbidden(err):
		return fmt.Errorf("%w; docs/migrate.md has the ClusterRole", c.Explain(err, verb, resource))
	case apierrors.IsAlreadyExists(err), c.stored != nil && cluster.IsMissing(err):
		return errOvertaken
	}
	return c.Explain(err, verb, resource)
}
