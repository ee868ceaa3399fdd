package migrate

import (
	"context"
	"errors"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/rrpool/rrpool/cmd/rrpool/cluster"
	"github.com/rrpool/rrpool/cmd/rrpool/terminal"
	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/controllers/plan"
	"github.com/rrpool/rrpool/test/cli"
)

// The whole way, as lines and as bars, for somebody who says yes.
func TestMigrate(t *testing.T) {
	s := &story{api: &api{pool: object(v1alpha1.ModeFullMesh)}, happens: theWay()}
	got := s.tell(t, person("yes\n"), "migrate")
	require.Zero(t, got.Code, got.Err)
	cli.Golden(t, "migrate.stdout.golden", got.Out)
	cli.Golden(t, "migrate.stderr.golden", got.Err)
	require.Equal(t, []string{"PATCH dryRun=true map[mode:RouteReflector]", "PATCH dryRun=false map[mode:RouteReflector]"}, s.writes, "the mode and nothing else")

	t.Run("on a terminal", func(t *testing.T) {
		s := &story{api: &api{pool: object(v1alpha1.ModeFullMesh)}, happens: theWay()}
		streams := person("YES\n")
		streams.Terminal, streams.Width, streams.Getenv = true, 60, cli.Environment("NO_COLOR", "1")
		got := s.tell(t, streams, "migrate")
		require.Zero(t, got.Code, got.Err)
		cli.RequireWidth(t, got.Out, 60)
		pictures := strings.Split(got.Err, "\x1b[J")
		for _, picture := range pictures[1:] {
			cli.RequireWidth(t, strings.NewReplacer("\x1b[K", "", "\x1b[4A", "").Replace(picture), 60)
		}
		require.NotContains(t, got.Err, "\x1b[1m", "NO_COLOR")
		cli.Golden(t, "picture.golden", readable(pictures[len(pictures)-2]))
		cli.Golden(t, "terminal.golden", readable(got.Err))
	})
	t.Run("and back", func(t *testing.T) {
		s := &story{api: &api{pool: reflecting()}, happens: theWayBack()}
		got := s.tell(t, person("yes\n"), "rollback")
		require.Zero(t, got.Code, got.Err)
		cli.Golden(t, "rollback.stdout.golden", got.Out)
		cli.Golden(t, "rollback.stderr.golden", got.Err)
		s = &story{api: &api{pool: reflecting()}, happens: theWayBack()}
		got = s.tell(t, terminal.Streams{Terminal: true, Width: 60}, "rollback", "--yes")
		require.Zero(t, got.Code, got.Err)
		cli.Golden(t, "rollback.terminal.golden", readable(got.Err))
	})
}

func readable(text string) string { return strings.ReplaceAll(text, "\x1b", "␛") }

func TestTheQuestion(t *testing.T) {
	for answer, begins := range map[string]bool{"yes\n": true, " Yes \n": true, "yes": true, "y\n": false, "no\n": false, "\n": false, "": false, "yes please\n": false} {
		s := &story{api: &api{pool: object(v1alpha1.ModeFullMesh)}}
		got := s.tell(t, person(answer), "migrate", "--wait=false")
		if begins {
			require.Zero(t, got.Code, answer)
			requireMode(t, s.api, v1alpha1.ModeRouteReflector)
			continue
		}
		require.Equal(t, 1, got.Code, answer)
		require.True(t, strings.HasSuffix(got.Err, "rrpool: not confirmed: nothing was changed\n"), got.Err)
		requireMode(t, s.api, v1alpha1.ModeFullMesh)
	}
	t.Run("nobody can answer", func(t *testing.T) {
		for _, name := range []string{"migrate", "rollback"} {
			mode := v1alpha1.ModePaused
			s := &story{api: &api{pool: object(mode)}}
			got := s.tell(t, terminal.Streams{}, name)
			require.Equal(t, 1, got.Code)
			require.Empty(t, got.Out)
			cli.RequireSentence(t, got.Err, "--yes: missing", "no terminal to ask on", "rrpool plan shows what will be done")
			require.Empty(t, s.writes)
		}
	})
	t.Run("Ctrl-C instead of an answer", func(t *testing.T) {
		s := &story{api: &api{pool: object(v1alpha1.ModeFullMesh)}}
		ctx, stop := context.WithCancel(t.Context())
		in, _, err := os.Pipe() // nobody ever answers
		require.NoError(t, err)
		defer func() { _ = in.Close() }()
		stop()
		err = confirm(ctx, cli.Defaults(terminal.Streams{In: in, Err: &strings.Builder{}}), "here", forth)
		require.Equal(t, errUnconfirmed, err)
		require.Empty(t, s.writes)
	})
}

func TestWithoutWaiting(t *testing.T) {
	s := &story{api: &api{pool: object(v1alpha1.ModePaused)}}
	got := s.tell(t, terminal.Streams{}, "migrate", "--yes", "--wait=false")
	require.Zero(t, got.Code, got.Err)
	require.Empty(t, s.waits)
	require.Contains(t, got.Out, "spec.mode of the RouteReflectorPool is Paused and becomes RouteReflector")
	require.True(t, strings.HasSuffix(got.Out, "The migration goes on by itself.\n\nNext: rrpool status --watch\n"), got.Out)
	require.Equal(t, "√ spec.mode is RouteReflector\n", got.Err)
}

// Where there is no object, migrate makes one and says which.
func TestCreate(t *testing.T) {
	s := &story{api: &api{}}
	got := s.tell(t, terminal.Streams{}, "migrate", "--yes", "--wait=false")
	require.Zero(t, got.Code, got.Err)
	require.Contains(t, got.Out, "the RouteReflectorPool is created with all defaults")
	require.Equal(t, []string{"POST dryRun=true", "POST dryRun=false"}, s.writes)
	requireMode(t, s.api, v1alpha1.ModeRouteReflector)
	require.EqualValues(t, 3, s.pool.Spec.Sizing.Min, "the defaults are written out")

	file := cli.File(t, "apiVersion: rrpool.io/v1alpha1\nkind: RouteReflectorPool\nmetadata: {name: default}\nspec: {sizing: {min: 5}}\n")
	s = &story{api: &api{}}
	got = s.tell(t, terminal.Streams{}, "migrate", "--yes", "--wait=false", "-f", file)
	require.Zero(t, got.Code, got.Err)
	require.Contains(t, got.Out, "the RouteReflectorPool is created as in "+file)
	require.EqualValues(t, 5, s.pool.Spec.Sizing.Min)

	t.Run("one that is there already may be given again", func(t *testing.T) {
		s.pool.Spec.Mode = v1alpha1.ModeFullMesh
		require.Zero(t, s.tell(t, terminal.Streams{}, "migrate", "--yes", "--wait=false", "-f", file).Code)
		requireMode(t, s.api, v1alpha1.ModeRouteReflector)
		s.pool.Spec.Sizing.Min = 4
		got := s.tell(t, terminal.Streams{}, "migrate", "--yes", "--wait=false", "-f", file)
		require.Equal(t, 1, got.Code)
		cli.RequireSentence(t, got.Err, "--filename", "not as in "+file, "kubectl apply -f "+file)
	})
}

// Called again, it asks nothing and goes on watching.
func TestAgain(t *testing.T) {
	under := object(v1alpha1.ModeRouteReflector)
	step(under, "EnsurePool", "the pool is to have 6 workers")
	s := &story{api: &api{pool: under}, happens: theWay()}
	got := s.tell(t, terminal.Streams{}, "migrate")
	require.Zero(t, got.Code, got.Err)
	require.Empty(t, s.writes)
	require.Contains(t, got.Err, "√ the migration is already under way: spec.mode is RouteReflector\n")
	require.Contains(t, got.Out, "√ The cluster is on route reflectors")

	t.Run("arrived", func(t *testing.T) {
		s := &story{api: &api{pool: reflecting()}}
		got := s.tell(t, terminal.Streams{}, "migrate")
		require.Zero(t, got.Code)
		require.Empty(t, s.waits)
		require.Equal(t, "√ The cluster is on route reflectors: 6 route reflectors serve 60 nodes; the node-to-node mesh is off.\n", got.Out)
	})
	t.Run("arrived, as a manager said that is gone", func(t *testing.T) {
		s := &story{api: &api{pool: reflecting(), lease: renewed(time.Hour)}}
		got := s.tell(t, terminal.Streams{}, "migrate")
		require.Equal(t, 1, got.Code)
		cli.RequireSentence(t, got.Err, "does not run", "kubectl --namespace rrpool-system get deployment,pod")
	})
}

func renewed(before time.Duration) *coordinationv1.Lease {
	holder, seconds, at := "m1", int32(15), metav1.NewMicroTime(cli.Now.Add(-before))
	return &coordinationv1.Lease{
		TypeMeta:   metav1.TypeMeta{Kind: "Lease", APIVersion: "coordination.k8s.io/v1"},
		ObjectMeta: metav1.ObjectMeta{Name: "rrpool-manager", Namespace: "rrpool-system"},
		Spec:       coordinationv1.LeaseSpec{HolderIdentity: &holder, LeaseDurationSeconds: &seconds, RenewTime: &at},
	}
}

func TestCtrlC(t *testing.T) {
	s := &story{api: &api{pool: object(v1alpha1.ModeFullMesh)}, happens: theWay()[:4]}
	got := s.tell(t, person("yes\n"), "migrate")
	require.Equal(t, 1, got.Code)
	require.True(t, strings.HasSuffix(got.Err, "rrpool: stopped watching: the migration goes on without this command: "+
		"rrpool status --watch shows it, rrpool migrate watches it again\n"), got.Err)
	requireMode(t, s.api, v1alpha1.ModeRouteReflector)
}

func TestTimeout(t *testing.T) {
	s := &story{api: &api{pool: object(v1alpha1.ModeFullMesh), lease: renewed(0)}, happens: slices.Concat(theWay()[:4], idle(3))}
	got := s.tell(t, person("yes\n"), "migrate", "--timeout", "9s")
	require.Equal(t, 1, got.Code)
	require.Equal(t, time.Second, s.waits[len(s.waits)-1], "not longer than it was told to")
	require.Contains(t, got.Out, "… Progressing: the pool is to have 6 workers", "the last known state")
	require.Contains(t, got.Err, "rrpool: --timeout: the cluster is not on route reflectors after 9s: the migration goes on without this command: rrpool status --watch shows it")
	requireMode(t, s.api, v1alpha1.ModeRouteReflector)

	t.Run("and the cluster does not answer", func(t *testing.T) {
		cut := func(a *api) {
			a.refuse = func(*http.Request) *metav1.Status {
				return &metav1.Status{Code: 500, Reason: metav1.StatusReasonInternalError, Message: "etcd has no leader"}
			}
		}
		s := &story{api: &api{pool: object(v1alpha1.ModeFullMesh)}, happens: slices.Concat(theWay()[:4], []func(*api){cut}, idle(2))}
		got := s.tell(t, person("yes\n"), "migrate", "--timeout", "12s")
		require.Equal(t, 1, got.Code)
		require.Contains(t, got.Out, "‼ what is shown is old: ")
		require.Equal(t, 1, strings.Count(got.Err, "‼ the cluster cannot be looked at"))
	})
}

// What is in the way is said once, with what to do about it, and so is that it is over.
func TestTrouble(t *testing.T) {
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
	s := &story{api: &api{pool: object(v1alpha1.ModeFullMesh)}, happens: []func(*api){
		way[1], problem("CloudQuotaExceeded", "the account may not have more workers: raise the quota."), nothing, nothing,
		problem("CloudUnavailable", "the cloud does not answer"), nothing, fine, way[4], way[7],
	}}
	got := s.tell(t, person("yes\n"), "migrate")
	require.Zero(t, got.Code, got.Err)
	cli.Golden(t, "trouble.stderr.golden", got.Err)

	s.pool, s.happens = object(v1alpha1.ModeFullMesh), []func(*api){way[1], problem("CloudUnavailable", "the cloud does not answer"), fine, way[7]}
	got = s.tell(t, terminal.Streams{Terminal: true, Width: 60, Getenv: cli.Environment("NO_COLOR", "1")}, "migrate", "--yes")
	require.Zero(t, got.Code, got.Err)
	cli.Golden(t, "trouble.terminal.golden", readable(got.Err))
}

// A manager that does not act is not waited for in silence.
func TestTheManagerIsGone(t *testing.T) {
	a := &api{pool: object(v1alpha1.ModeFullMesh), lease: renewed(time.Hour)}
	wake := func(a *api) { a.lease = renewed(-time.Minute) }
	way := theWay()
	s := &story{api: a, happens: []func(*api){
		nothing, nothing, nothing, nothing, nothing, nothing, nothing, nothing, nothing, wake, way[1], nothing, nothing, nothing, nothing, nothing, nothing, nothing, way[7],
	}}
	got := s.tell(t, person("yes\n"), "migrate")
	require.Zero(t, got.Code, got.Err)
	cli.Golden(t, "manager.stderr.golden", got.Err)
	require.Contains(t, got.Out, "‼ the manager does not run, and nothing will happen until it does: m1 has not renewed the lease", "before anybody says yes")
	page, err := os.ReadFile("../../../docs/operations.md")
	require.NoError(t, err)
	require.Contains(t, string(page), "\n## Back by hand, with kubectl only\n", "where it leads")

	t.Run("and nobody knows whether it runs", func(t *testing.T) {
		s := &story{api: &api{pool: object(v1alpha1.ModeFullMesh)}, happens: []func(*api){nothing, way[1], way[7]}}
		got := s.tell(t, person("yes\n"), "migrate", "--interval", "15s")
		require.Zero(t, got.Code, got.Err)
		require.Contains(t, got.Err, "‼ the manager has not taken note of spec.mode RouteReflector yet: there is neither a lease nor a Deployment rrpool-manager "+
			"in namespace rrpool-system; kubectl --namespace rrpool-system get deployment,pod shows more")
		require.Contains(t, got.Err, "√ the manager acts")
	})
}

// Others have the last word.
func TestSomebodyElse(t *testing.T) {
	way := theWay()
	for name, tc := range map[string]struct {
		does func(*api)
		says []string
	}{
		"pauses it": {
			by(func(o *v1alpha1.RouteReflectorPool) { o.Spec.Mode = v1alpha1.ModePaused; o.Generation++ }),
			[]string{"somebody has set spec.mode to Paused", "rrpool status says how things are"},
		},
		"deletes it": {
			by(func(o *v1alpha1.RouteReflectorPool) { o.DeletionTimestamp = &metav1.Time{Time: cli.Now} }),
			[]string{"somebody deletes the RouteReflectorPool", "rrpool status --watch shows it"},
		},
		"has deleted it": {func(a *api) { a.pool = nil }, []string{"somebody has deleted the RouteReflectorPool", "rrpool status"}},
	} {
		t.Run(name, func(t *testing.T) {
			s := &story{api: &api{pool: object(v1alpha1.ModeFullMesh)}, happens: []func(*api){way[1], tc.does}}
			got := s.tell(t, person("yes\n"), "migrate")
			require.Equal(t, 1, got.Code)
			last := got.Err[strings.LastIndex(strings.TrimSpace(got.Err), "\n")+1:]
			cli.RequireSentence(t, last, tc.says...)
		})
	}
}

// The manager writes its status all the time, and that is no reason to give up. A
// change of the spec is.
func TestRaces(t *testing.T) {
	races := 3
	s := &story{api: &api{pool: object(v1alpha1.ModeFullMesh)}}
	s.before = func(a *api) {
		if races--; races >= 0 {
			a.act(func(*v1alpha1.RouteReflectorPool) {})
		}
	}
	got := s.tell(t, terminal.Streams{}, "migrate", "--yes", "--wait=false")
	require.Zero(t, got.Code, got.Err)
	requireMode(t, s.api, v1alpha1.ModeRouteReflector)
	require.Len(t, s.writes, 6)

	for name, change := range map[string]func(*v1alpha1.RouteReflectorPool){
		"another spec":   func(o *v1alpha1.RouteReflectorPool) { o.Generation++ },
		"another object": func(o *v1alpha1.RouteReflectorPool) { o.UID = "u2" },
		"a deletion":     func(o *v1alpha1.RouteReflectorPool) { o.DeletionTimestamp = &metav1.Time{Time: cli.Now} },
	} {
		t.Run(name, func(t *testing.T) {
			s := &story{api: &api{pool: object(v1alpha1.ModeFullMesh)}}
			s.before = func(a *api) { a.act(change) }
			got := s.tell(t, terminal.Streams{}, "migrate", "--yes")
			require.Equal(t, 1, got.Code)
			cli.RequireSentence(t, got.Err, "somebody has changed the RouteReflectorPool meanwhile", "nothing was changed by this command")
			requireMode(t, s.api, v1alpha1.ModeFullMesh)
		})
	}
}

// What the manager would refuse is not asked of it; only the way back is asked for all
// the same.
func TestForetoldTrouble(t *testing.T) {
	refusing := func(context.Context, terminal.Streams, *cluster.Connection, string, *v1alpha1.RouteReflectorPool) (*plan.Problem, error) {
		return &plan.Problem{Reason: "ForeignReflector", Message: "node a is a reflector already: remove it"}, nil
	}
	s := &story{api: &api{pool: object(v1alpha1.ModePaused)}, planner: refusing}
	got := s.tell(t, terminal.Streams{}, "migrate", "--yes", "--wait=false")
	require.Equal(t, 1, got.Code)
	require.Empty(t, got.Out)
	cli.RequireSentence(t, got.Err, "the manager would refuse, so nothing was changed", "ForeignReflector: node a is a reflector already", "docs/conditions.md#foreignreflector")
	requireMode(t, s.api, v1alpha1.ModePaused)
	got = s.tell(t, terminal.Streams{}, "rollback", "--yes", "--wait=false")
	require.Zero(t, got.Code)
	require.Contains(t, got.Out, "‼ the manager says ForeignReflector: node a")
	requireMode(t, s.api, v1alpha1.ModeFullMesh)

	t.Run("nothing can be foretold", func(t *testing.T) {
		blind := func(context.Context, terminal.Streams, *cluster.Connection, string, *v1alpha1.RouteReflectorPool) (*plan.Problem, error) {
			return nil, errors.New("pods may not be listed")
		}
		s := &story{api: &api{pool: object(v1alpha1.ModePaused)}, planner: blind}
		got := s.tell(t, person("yes\n"), "migrate", "--wait=false")
		require.Zero(t, got.Code)
		require.Contains(t, got.Out, "‼ what the manager will do cannot be foretold: pods may not be listed")
		require.Contains(t, got.Err, "Type yes: ", "asked all the same")
	})
}
