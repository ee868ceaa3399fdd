package calico

import (
	"context"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/rrpool/rrpool/controllers/plan"
)

// Try makes a change as a dry run of the apiserver: nothing is written, and the answer is not stored. If Refuses(err), the apiserver would refuse
// the change. After any other error, it is not known whether it would. With Calico's own etcd, Try does nothing, because etcd refuses no value.
func (a *Adapter) Try(ctx context.Context, scope plan.DatastoreOptions, action plan.Action) error {
	if a.etcd != nil {
		return nil
	}
	trial := &Adapter{cfg: a.cfg, group: a.group, calico: objectsOf(dryRun{client.NewDryRunClient(a.calico.client), a.calico.client}, a.group), store: newStore(a.cfg.Now)}
	trial.cfg.Writer = dryWriter{a.cfg.Writer}
	_, err := trial.Apply(ctx, scope, action)
	return err
}

// Refuses reports whether err means that the apiserver, or an admission policy or webhook, does not allow the value that would be written. It is
// false for a missing right or a conflict.
func Refuses(err error) bool {
	denied := apierrors.IsForbidden(err) && !lacksRight(err.Error())
	return !IsConflict(err) && !Untriable(err) && (denied || apierrors.IsInvalid(err) || apierrors.IsBadRequest(err))
}

// lacksRight reports whether an answer comes from the authorizer: it names the user after "is forbidden: ". An answer from admission may quote
// such a text, but " denied " comes before the quote.
func lacksRight(answer string) bool {
	before, of, found := strings.Cut(answer, `is forbidden: User "`)
	return found && strings.Contains(of, `" cannot `) && !strings.Contains(before, " denied ")
}

// Untriable reports whether err means that a webhook of the cluster does not
// support dry runs: then only the write itself shows whether it is allowed.
func Untriable(err error) bool {
	return apierrors.IsBadRequest(err) && strings.Contains(err.Error(), `" does not support dry run`)
}

// dryRun is a client whose writes are dry runs.
type dryRun struct {
	client.Client
	real client.WithWatch
}

func (d dryRun) Watch(ctx context.Context, list client.ObjectList, opts ...client.ListOption) (watch.Interface, error) {
	return d.real.Watch(ctx, list, opts...) //nolint:wrapcheck // callers wrap
}

// Delete does nothing: a deletion has no value that could be refused.
func (dryRun) Delete(context.Context, client.Object, ...client.DeleteOption) error { return nil }

// dryWriter is a writer of Nodes whose writes are dry runs.
type dryWriter struct{ client.Writer }

func (d dryWriter) Patch(ctx context.Context, o client.Object, p client.Patch, opts ...client.PatchOption) error {
	return d.Writer.Patch(ctx, o, p, append(opts, client.DryRunAll)...) //nolint:wrapcheck // callers wrap
}
