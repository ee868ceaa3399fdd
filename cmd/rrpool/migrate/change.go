package migrate

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/rrpool/rrpool/cmd/rrpool/cluster"
	"github.com/rrpool/rrpool/cmd/rrpool/iostreams"
	plancmd "github.com/rrpool/rrpool/cmd/rrpool/plan"
	"github.com/rrpool/rrpool/cmd/rrpool/snapshot"
	"github.com/rrpool/rrpool/cmd/rrpool/status"
	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/controllers/plan"
)

// change creates the RouteReflectorPool, or sets the mode of the one that is stored.
type change struct {
	*cluster.Connection
	// stored is nil if the cluster has no RouteReflectorPool.
	stored, want *v1alpha1.RouteReflectorPool
}

// attempts is the number of tries for a write that conflicts with the manager's writes of the status.
const attempts = 10

// write creates the object, or patches its mode, and returns the written object. In a dry run the apiserver
// only checks the request, so that a missing right or a refusal is known before the user is asked. write
// fails if another client has changed the object since it was shown: the user has confirmed something else.
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

// errOvertaken means that another client has changed the object.
var errOvertaken = errors.New("another client has changed the RouteReflectorPool meanwhile: nothing was changed by this command; look at it (kubectl get rrp default --output yaml), then call this again")

// explain says why the write failed, and which ClusterRole helps.
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
		return fmt.Errorf("the cluster of context %q refuses to %s %s: %w", c.Name, verb, resource, err) // admission control refuses
	case apierrors.IsForbidden(err):
		return fmt.Errorf("%w; docs/migrate.md has the ClusterRole", c.Explain(err, verb, resource))
	case apierrors.IsAlreadyExists(err), c.stored != nil && cluster.IsMissing(err):
		return errOvertaken
	case !dryRun && apierrors.ReasonForError(err) == metav1.StatusReasonUnknown:
		return fmt.Errorf("whether spec.mode was set is not known, as the answer was lost (%w): rrpool status says it", c.Explain(err, verb, resource))
	}
	return c.Explain(err, verb, resource)
}

// planner writes to s.Out what the manager will do for the wanted object, and returns
// the problem at which the manager would stop. The error says why there is no plan.
type planner func(ctx context.Context, s iostreams.Streams, c *cluster.Connection, namespace string, want *v1alpha1.RouteReflectorPool) (*plan.Problem, error)

// patience is the time limit for the plan. With thousands of nodes a plan takes minutes, and a rollback must not wait for that.
const patience = 20 * time.Second

// runPlan is the planner that shows what `rrpool plan` shows.
func runPlan(ctx context.Context, s iostreams.Streams, c *cluster.Connection, namespace string, want *v1alpha1.RouteReflectorPool) (*plan.Problem, error) {
	bounded, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	var planned *plancmd.Plan
	seen, err := snapshot.Take(bounded, c, namespace, want.DeepCopy(), true)
	if err == nil {
		planned, err = plancmd.Run(bounded, plancmd.Input{Snapshot: seen, Now: s.Now()})
	}
	switch {
	case bounded.Err() != nil && ctx.Err() == nil:
		return nil, fmt.Errorf("it takes longer than %s: rrpool plan has no such limit", patience)
	case err != nil:
		return nil, err
	}
	plancmd.Show(s, planned)
	return planned.Problem, nil
}

// show writes what this command changes, and what the manager will do then. If the
// manager would refuse, show fails for a migration, but only warns for a rollback.
func (m *migration) show(ctx context.Context, want *v1alpha1.RouteReflectorPool, what string) error {
	var page bytes.Buffer
	to := m.Streams
	to.Out = &page
	problem, err := m.planner(ctx, to, m.Connection, m.Namespace, want)
	manager := status.FindManager(ctx, m.Connection, m.Namespace, m.Now())
	warn := func(text string) { to.Say(iostreams.Yellow, "  ", "‼ "+text) }
	switch {
	case ctx.Err() != nil:
		return iostreams.ErrInterrupted
	case problem != nil && m.mode != v1alpha1.ModeFullMesh:
		return fmt.Errorf("the manager would refuse, so nothing was changed: %s: %s (%s)", problem.Reason, problem.Message, plancmd.Page(problem.Reason))
	case problem != nil:
		warn(fmt.Sprintf("the manager says %s: %s", problem.Reason, problem.Message))
	case err != nil:
		page.Reset()
		warn("there is no plan of what the manager will do: " + iostreams.Sentence(err))
	}
	if manager.Status == status.Stopped {
		warn("the manager does not run, and nothing will happen until it does: " + manager.Message + " (without it: docs/back-by-hand.md)")
	}
	head := m.Paint(iostreams.Bold, m.Fold(fmt.Sprintf("%s of cluster %s: %s", sentence(m.action), m.Name, what), ""))
	if _, err := fmt.Fprintf(m.Out, "%s\n\n%s\n", head, page.String()); err != nil && !m.yes {
		return fmt.Errorf("the plan cannot be written, so nothing was changed: %s", err.Error())
	}
	return nil
}

// errUnconfirmed means that the user did not answer yes.
var errUnconfirmed = errors.New("not confirmed: nothing was changed")

// confirm asks the user. Every answer other than yes is a no.
func (m *migration) confirm(ctx context.Context) error {
	_, _ = fmt.Fprintf(m.Err, "Shall %s of cluster %s begin? Type yes: ", m.action, m.Name)
	said := make(chan string, 1)
	go func() {
		line, _ := bufio.NewReader(m.In).ReadString('\n') // the end of the input is a no
		said <- line
	}()
	select {
	case answer := <-said:
		if strings.TrimSpace(strings.ToLower(answer)) == "yes" {
			return nil
		}
	case <-ctx.Done():
		_, _ = fmt.Fprintln(m.Err)
	}
	return errUnconfirmed
}

// sentence returns the words with a capital at the beginning.
func sentence(words string) string { return strings.ToUpper(words[:1]) + words[1:] }
