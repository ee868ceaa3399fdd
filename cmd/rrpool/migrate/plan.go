package migrate

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/rrpool/rrpool/cmd/rrpool/cluster"
	"github.com/rrpool/rrpool/cmd/rrpool/iostreams"
	plancmd "github.com/rrpool/rrpool/cmd/rrpool/plan"
	"github.com/rrpool/rrpool/cmd/rrpool/snapshot"
	"github.com/rrpool/rrpool/cmd/rrpool/status"
	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/controllers/plan"
)

// planner writes to s.Out what the manager will do for the wanted object, and gives the
// problem that it would stop at. An error says why there is no plan.
type planner func(ctx context.Context, s iostreams.Streams, c *cluster.Connection, namespace string, want *v1alpha1.RouteReflectorPool) (*plan.Problem, error)

// patience is how long the plan may take: in a cluster of thousands of nodes it takes
// minutes, and the way back must not wait for it.
const patience = 20 * time.Second

// runPlan lets the manager's own decisions run forward on a model of the cluster.
func runPlan(ctx context.Context, s iostreams.Streams, c *cluster.Connection, namespace string, want *v1alpha1.RouteReflectorPool) (*plan.Problem, error) {
	bounded, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	late := func(what string) error {
		return fmt.Errorf("%s takes longer than %s: rrpool plan has no such limit", what, patience)
	}
	seen, err := snapshot.Take(bounded, c, namespace, want.DeepCopy(), true)
	switch {
	case bounded.Err() != nil && ctx.Err() == nil:
		return nil, late("reading the cluster")
	case err != nil:
		return nil, err
	}
	planned, err := plancmd.Run(bounded, plancmd.Input{Snapshot: seen, Now: s.Now()})
	switch {
	case bounded.Err() != nil && ctx.Err() == nil:
		return nil, late(fmt.Sprintf("planning for a cluster of %d nodes", len(seen.Cluster.Nodes)))
	case err != nil:
		return nil, fmt.Errorf("running the manager's decisions forward: %w", err)
	}
	if err := plancmd.Show(s, planned); err != nil {
		return nil, fmt.Errorf("rendering the plan: %w", err)
	}
	return planned.Problem, nil
}

// show says what is changed and what the manager will do then. What the manager would
// refuse is not asked of it, unless it is urgent.
func (f *flags) show(ctx context.Context, s iostreams.Streams, c *cluster.Connection, want *v1alpha1.RouteReflectorPool, what string) error {
	var page bytes.Buffer
	to := s
	to.Out = &page
	problem, err := f.planner(ctx, to, c, f.Namespace, want)
	manager := status.FindManager(ctx, c, f.Namespace, s.Now())
	switch {
	case ctx.Err() != nil:
		return iostreams.ErrInterrupted
	case problem != nil && !f.urgent:
		return fmt.Errorf("the manager would refuse, so nothing was changed: %s: %s (%s)", problem.Reason, problem.Message, plancmd.Page(problem.Reason))
	case err != nil:
		page.Reset()
	}
	warn := func(text string) { _, _ = fmt.Fprintln(&page, s.Paint(iostreams.Yellow, s.Fold("‼ "+text, "  "))) }
	if err != nil {
		warn("there is no plan of what the manager will do: " + iostreams.Sentence(err))
	}
	if problem != nil {
		warn(fmt.Sprintf("the manager says %s: %s", problem.Reason, problem.Message))
	}
	if manager.Status == status.Stopped {
		warn("the manager does not run, and nothing will happen until it does: " + manager.Message + " (without it: docs/back-by-hand.md)")
	}
	head := s.Paint(iostreams.Bold, s.Fold(fmt.Sprintf("%s of cluster %s: %s", sentence(f.action), c.Name, what), ""))
	if _, err := fmt.Fprintf(s.Out, "%s\n\n%s\n", head, page.String()); err != nil && !f.yes {
		return fmt.Errorf("the plan cannot be written, so nothing was changed: %s", err.Error())
	}
	return nil
}

// confirm asks on the terminal. Only yes is yes.
func confirm(ctx context.Context, s iostreams.Streams, name string, d direction) error {
	_, _ = fmt.Fprintf(s.Err, "Shall %s of cluster %s begin? Type yes: ", d.action, name)
	said := make(chan string, 1)
	go func() {
		line, _ := bufio.NewReader(s.In).ReadString('\n') // an end without an answer is an answer
		said <- line
	}()
	select {
	case answer := <-said:
		if strings.TrimSpace(strings.ToLower(answer)) == "yes" {
			return nil
		}
		return errUnconfirmed
	case <-ctx.Done():
		_, _ = fmt.Fprintln(s.Err)
		return errUnconfirmed
	}
}

// sentence begins with a capital.
func sentence(words string) string { return strings.ToUpper(words[:1]) + words[1:] }
