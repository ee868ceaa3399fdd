package migrate

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/rrpool/rrpool/cmd/rrpool/cluster"
	"github.com/rrpool/rrpool/cmd/rrpool/iostreams"
	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/controllers/plan"
	"github.com/rrpool/rrpool/test/cli"
)

// What is in the way is said once, with what to do about it, and so is that it is over.
func TestProblems(t *testing.T) {
	way := theWay()
	problem := func(reason, message string) func(*api) {
		return by(func(o *v1alpha1.RouteReflectorPool) {
			condition(o, "Degraded", "True", reason, message)
			condition(o, "Ready", "False", reason, message)
		})
	}
	fine := by(func(o *v1alpha1.RouteReflectorPool) {
		condition(o, "Degraded", "False", "AsExpected", "nothing is wrong")
	})
	s := &scenario{api: &api{pool: object(v1alpha1.ModeFullMesh)}, happens: []func(*api){
		way[1], problem("CloudQuotaExceeded", "the account may not have more workers: raise the quota."), nothing, nothing,
		problem("CloudUnavailable", "the cloud does not answer"), nothing, fine, way[4], way[7],
	}}
	got := s.play(t, person("yes\n"), "migrate")
	require.Zero(t, got.Code, got.Err)
	cli.Golden(t, "problems.stderr.golden", got.Err)
}

// A manager that does not act is not waited for in silence.
func TestTheManagerIsGone(t *testing.T) {
	a := &api{pool: object(v1alpha1.ModeFullMesh), lease: cli.Lease(time.Hour)}
	wake := func(a *api) { a.lease = cli.Lease(-time.Minute) }
	way := theWay()
	s := &scenario{api: a, happens: slices.Concat(idle(9), []func(*api){wake}, idle(8), []func(*api){way[1]}, idle(7), []func(*api){way[7]})}
	got := s.play(t, person("yes\n"), "migrate")
	require.Zero(t, got.Code, got.Err)
	cli.Golden(t, "manager.stderr.golden", got.Err)
	require.Contains(t, got.Out, "‼ the manager does not run, and nothing will happen until it does: m1 has not renewed the lease", "before the question")
	require.Contains(t, got.Out, "(without it: docs/back-by-hand.md)")
	require.FileExists(t, "../../../docs/back-by-hand.md", "where it leads")
}

// Others have the last word.
func TestOtherClients(t *testing.T) {
	way := theWay()
	for name, tc := range map[string]struct {
		does func(*api)
		says []string
	}{
		"pauses it": {
			by(func(o *v1alpha1.RouteReflectorPool) { o.Spec.Mode = v1alpha1.ModePaused; o.Generation++ }),
			[]string{"spec.mode was set to Paused meanwhile", "rrpool status shows the cluster"},
		},
		"deletes it": {
			by(func(o *v1alpha1.RouteReflectorPool) { o.DeletionTimestamp = &metav1.Time{Time: cli.Now} }),
			[]string{"the RouteReflectorPool is being deleted", "rrpool status --watch shows it"},
		},
		"has deleted it": {func(a *api) { a.pool = nil }, []string{"the RouteReflectorPool was deleted meanwhile", "rrpool status"}},
	} {
		t.Run(name, func(t *testing.T) {
			s := &scenario{api: &api{pool: object(v1alpha1.ModeFullMesh)}, happens: []func(*api){way[1], tc.does}}
			got := s.play(t, person("yes\n"), "migrate")
			require.Equal(t, 1, got.Code)
			last := got.Err[strings.LastIndex(strings.TrimSpace(got.Err), "\n")+1:]
			cli.RequireSentence(t, last, tc.says...)
		})
	}
}

// The manager writes its status all the time, and that is no reason to give up. A change of the spec is.
func TestRaces(t *testing.T) {
	races := 3
	s := &scenario{api: &api{pool: object(v1alpha1.ModeFullMesh)}}
	s.before = func(a *api) {
		if races--; races >= 0 {
			a.act(func(*v1alpha1.RouteReflectorPool) {})
		}
	}
	got := s.play(t, iostreams.Streams{}, "migrate", "--yes", "--wait=false")
	require.Zero(t, got.Code, got.Err)
	requireMode(t, s.api, v1alpha1.ModeRouteReflector)
	require.Len(t, s.writes, 5)

	for name, change := range map[string]func(*v1alpha1.RouteReflectorPool){
		"another spec":   func(o *v1alpha1.RouteReflectorPool) { o.Generation++ },
		"another object": func(o *v1alpha1.RouteReflectorPool) { o.UID = "u2" },
		"a deletion":     func(o *v1alpha1.RouteReflectorPool) { o.DeletionTimestamp = &metav1.Time{Time: cli.Now} },
	} {
		t.Run(name, func(t *testing.T) {
			s := &scenario{api: &api{pool: object(v1alpha1.ModeFullMesh)}}
			s.before = func(a *api) { a.act(change) }
			got := s.play(t, iostreams.Streams{}, "migrate", "--yes")
			require.Equal(t, 1, got.Code)
			cli.RequireSentence(t, got.Err, "another client has changed the RouteReflectorPool meanwhile", "nothing was changed by this command")
			requireMode(t, s.api, v1alpha1.ModeFullMesh)
		})
	}
}

// What the manager would refuse is not asked of it; only the way back is asked for all the same.
func TestPlannedProblems(t *testing.T) {
	refusing := func(context.Context, iostreams.Streams, *cluster.Connection, string, *v1alpha1.RouteReflectorPool) (*plan.Problem, error) {
		return &plan.Problem{Reason: "ForeignReflector", Message: "node a is a reflector already: remove it"}, nil
	}
	s := &scenario{api: &api{pool: object(v1alpha1.ModePaused)}, planner: refusing}
	got := s.play(t, iostreams.Streams{}, "migrate", "--yes", "--wait=false")
	require.Equal(t, 1, got.Code)
	require.Empty(t, got.Out)
	cli.RequireSentence(t, got.Err, "the manager would refuse, so nothing was changed", "ForeignReflector: node a is a reflector already", plan.Docs+"runbook/conditions.md#foreignreflector")
	requireMode(t, s.api, v1alpha1.ModePaused)
	got = s.play(t, iostreams.Streams{}, "rollback", "--yes", "--wait=false")
	require.Zero(t, got.Code)
	require.Contains(t, got.Out, "‼ the manager says ForeignReflector: node a")
	requireMode(t, s.api, v1alpha1.ModeFullMesh)

	t.Run("there is no plan", func(t *testing.T) {
		blind := func(context.Context, iostreams.Streams, *cluster.Connection, string, *v1alpha1.RouteReflectorPool) (*plan.Problem, error) {
			return nil, errors.New("pods may not be listed")
		}
		s := &scenario{api: &api{pool: object(v1alpha1.ModePaused)}, planner: blind}
		got := s.play(t, person("yes\n"), "migrate", "--wait=false")
		require.Zero(t, got.Code)
		require.Contains(t, got.Out, "‼ there is no plan of what the manager will do: pods may not be listed")
		require.Contains(t, got.Err, "Type yes: ", "asked all the same")
	})
}
