package migrate

import (
	"context"
	"net/http"
	"os"
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

// The whole way, for a person who says yes.
func TestMigrate(t *testing.T) {
	s := &scenario{api: &api{pool: object(v1alpha1.ModeFullMesh)}, happens: theWay()}
	got := s.play(t, person("yes\n"), "migrate")
	require.Zero(t, got.Code, got.Err)
	require.Contains(t, got.Out, "√ The cluster is on route reflectors: 6 route reflectors serve 60 nodes; the node-to-node mesh is off. This took 16s.\n", "docs/migrate.md keeps all of it")
	require.Contains(t, got.Err, "Shall the migration of cluster rrpool begin? Type yes: √ spec.mode is RouteReflector\n")
	require.Equal(t, []string{"PATCH dryRun=true map[mode:RouteReflector]", "PATCH dryRun=false map[mode:RouteReflector]"}, s.writes, "the mode and nothing else")

	t.Run("and back", func(t *testing.T) {
		s := &scenario{api: &api{pool: reflecting()}, happens: theWayBack()}
		got := s.play(t, person("yes\n"), "rollback")
		require.Zero(t, got.Code, got.Err)
		cli.Golden(t, "rollback.stdout.golden", got.Out)
		cli.Golden(t, "rollback.stderr.golden", got.Err)
	})
}

func TestTheQuestion(t *testing.T) {
	for answer, begins := range map[string]bool{"yes\n": true, " Yes \n": true, "yes": true, "y\n": false, "no\n": false, "\n": false, "": false, "yes please\n": false} {
		s := &scenario{api: &api{pool: object(v1alpha1.ModeFullMesh)}}
		got := s.play(t, person(answer), "migrate", "--wait=false")
		if begins {
			require.Zero(t, got.Code, answer)
			requireMode(t, s.api, v1alpha1.ModeRouteReflector)
			continue
		}
		require.Equal(t, 1, got.Code, answer)
		require.True(t, strings.HasSuffix(got.Err, "rrpool: not confirmed: nothing was changed\n"), got.Err)
		requireMode(t, s.api, v1alpha1.ModeFullMesh)
	}
	t.Run("no terminal to answer on", func(t *testing.T) {
		s := &scenario{api: &api{pool: object(v1alpha1.ModePaused)}}
		got := s.play(t, iostreams.Streams{}, "migrate")
		require.Equal(t, 1, got.Code)
		require.Empty(t, got.Out)
		cli.RequireSentence(t, got.Err, "--yes: missing", "no terminal to ask on", "rrpool plan shows what will be done")
		require.Empty(t, s.writes)
	})
	t.Run("Ctrl-C instead of an answer", func(t *testing.T) {
		s := &scenario{api: &api{pool: object(v1alpha1.ModeFullMesh)}}
		ctx, stop := context.WithCancel(t.Context())
		in, _, err := os.Pipe() // no answer ever comes
		require.NoError(t, err)
		defer func() { _ = in.Close() }()
		stop()
		m := &migration{Streams: cli.Defaults(iostreams.Streams{In: in, Err: &strings.Builder{}}), Connection: &cluster.Connection{}, flags: &flags{direction: forth}}
		err = m.confirm(ctx)
		require.Equal(t, errUnconfirmed, err)
		require.Empty(t, s.writes)
	})
}

func TestWithoutWaiting(t *testing.T) {
	s := &scenario{api: &api{pool: object(v1alpha1.ModePaused)}}
	got := s.play(t, iostreams.Streams{}, "migrate", "--yes", "--wait=false")
	require.Zero(t, got.Code, got.Err)
	require.Empty(t, s.waits)
	require.Contains(t, got.Out, "spec.mode of the RouteReflectorPool is Paused and becomes RouteReflector")
	require.True(t, strings.HasSuffix(got.Out, "The migration goes on by itself.\n\nNext: rrpool status --watch\n"), got.Out)
	require.Equal(t, "√ spec.mode is RouteReflector\n", got.Err)
}

// Where there is no object, migrate makes one and says which.
func TestCreate(t *testing.T) {
	s := &scenario{api: &api{}}
	got := s.play(t, iostreams.Streams{}, "migrate", "--yes", "--wait=false")
	require.Zero(t, got.Code, got.Err)
	require.Contains(t, got.Out, "the RouteReflectorPool is created with all defaults")
	require.Equal(t, []string{"POST dryRun=true", "POST dryRun=false"}, s.writes)
	requireMode(t, s.api, v1alpha1.ModeRouteReflector)
	require.EqualValues(t, 3, s.pool.Spec.Sizing.Min, "the defaults are written out")

	file := cli.PoolFile(t, "{sizing: {min: 5}}")
	s = &scenario{api: &api{}}
	got = s.play(t, iostreams.Streams{}, "migrate", "--yes", "--wait=false", "-f", file)
	require.Zero(t, got.Code, got.Err)
	require.Contains(t, got.Out, "the RouteReflectorPool is created as in "+file)
	require.EqualValues(t, 5, s.pool.Spec.Sizing.Min)

	t.Run("one that is there already may be given again", func(t *testing.T) {
		s.pool.Spec.Mode = v1alpha1.ModeFullMesh
		require.Zero(t, s.play(t, iostreams.Streams{}, "migrate", "--yes", "--wait=false", "-f", file).Code)
		requireMode(t, s.api, v1alpha1.ModeRouteReflector)
		s.pool.Spec.Sizing.Min = 4
		got := s.play(t, iostreams.Streams{}, "migrate", "--yes", "--wait=false", "-f", file)
		require.Equal(t, 1, got.Code)
		cli.RequireSentence(t, got.Err, "--filename", "not as in "+file, "kubectl apply -f "+file)
	})
}

// Called again, it asks nothing and goes on watching.
func TestAgain(t *testing.T) {
	under := object(v1alpha1.ModeRouteReflector)
	step(under, "EnsurePool", "the pool is to have 6 workers")
	s := &scenario{api: &api{pool: under}, happens: theWay()}
	got := s.play(t, iostreams.Streams{}, "migrate")
	require.Zero(t, got.Code, got.Err)
	require.Empty(t, s.writes)
	require.Contains(t, got.Err, "√ the migration is already under way: spec.mode is RouteReflector\n")
	require.Contains(t, got.Out, "√ The cluster is on route reflectors")

	t.Run("arrived, as a manager said that is gone", func(t *testing.T) {
		s := &scenario{api: &api{pool: reflecting(), lease: cli.Lease(time.Hour)}}
		got := s.play(t, iostreams.Streams{}, "migrate")
		require.Equal(t, 1, got.Code)
		cli.RequireSentence(t, got.Err, "does not run", "kubectl --namespace rrpool-system get deployment,pod")
	})
}

// Where the cluster is there already, one line says so: nothing was done, and nothing took any time.
func TestAlreadyThere(t *testing.T) {
	meshed := object(v1alpha1.ModeFullMesh)
	numbers(meshed, 2, 0, 0)
	for name, tc := range map[string]struct {
		pool *v1alpha1.RouteReflectorPool
		says string
	}{
		"migrate": {reflecting(), "√ The cluster is already on route reflectors: 6 route reflectors serve 60 nodes; the node-to-node mesh is off.\n"},
		"rollback": {meshed, "√ The cluster is already on the node-to-node mesh: the node-to-node mesh carries 60 nodes. " +
			"The worker pool route-reflectors stays, and costs until it is deleted (docs/operations.md#delete).\n"},
	} {
		t.Run(name, func(t *testing.T) {
			s := &scenario{api: &api{pool: tc.pool, lease: cli.Lease(0)}}
			got := s.play(t, iostreams.Streams{}, name)
			require.Zero(t, got.Code, got.Err)
			require.Equal(t, tc.says, got.Out)
			require.Empty(t, got.Err, "there is no progress")
			require.Empty(t, s.waits)
			require.Empty(t, s.writes)
		})
	}
	t.Run("what is wrong there is shown", func(t *testing.T) {
		degraded := reflecting()
		condition(degraded, "Degraded", "True", "CloudUnauthorized", "the key is not accepted: store another one.")
		s := &scenario{api: &api{pool: degraded, lease: cli.Lease(0)}}
		got := s.play(t, iostreams.Streams{}, "migrate", "--yes")
		require.Zero(t, got.Code)
		require.Contains(t, got.Out, "already on route reflectors")
		require.Equal(t, "‼ CloudUnauthorized: the key is not accepted: store another one ("+plan.Docs+"runbook/conditions.md#cloudunauthorized)\n", got.Err)
	})
	t.Run("a change that the manager has not observed is under way", func(t *testing.T) {
		behind := reflecting()
		behind.Generation++
		s := &scenario{api: &api{pool: behind, lease: cli.Lease(0)}, happens: []func(*api){by(func(o *v1alpha1.RouteReflectorPool) { settle(o, "done") })}}
		got := s.play(t, iostreams.Streams{}, "migrate", "--yes")
		require.Zero(t, got.Code, got.Err)
		require.Contains(t, got.Err, "√ the migration is already under way")
		require.Equal(t, "√ The cluster is on route reflectors: done. This took 2s.\n", got.Out)
	})
}

func TestCtrlC(t *testing.T) {
	s := &scenario{api: &api{pool: object(v1alpha1.ModeFullMesh)}, happens: theWay()[:4]}
	got := s.play(t, person("yes\n"), "migrate")
	require.Equal(t, 1, got.Code)
	require.True(t, strings.HasSuffix(got.Err, "rrpool: stopped watching: the migration goes on without this command: "+
		"rrpool status --watch shows it, rrpool migrate watches it again\n"), got.Err)
	requireMode(t, s.api, v1alpha1.ModeRouteReflector)
}

func TestTimeout(t *testing.T) {
	s := &scenario{api: &api{pool: object(v1alpha1.ModeFullMesh), lease: cli.Lease(0)}, happens: slices.Concat(theWay()[:4], idle(3))}
	got := s.play(t, person("yes\n"), "migrate", "--timeout", "9s")
	require.Equal(t, 1, got.Code)
	require.Equal(t, time.Second, s.waits[len(s.waits)-1], "not longer than the flag says")
	require.Contains(t, got.Out, "… Progressing: the pool is to have 6 workers", "the last known state")
	require.Contains(t, got.Err, "rrpool: --timeout: the cluster is not on route reflectors after 9s: the migration goes on without this command: rrpool status --watch shows it")
	requireMode(t, s.api, v1alpha1.ModeRouteReflector)

	t.Run("and the cluster does not answer", func(t *testing.T) {
		cut := func(a *api) {
			a.refuse = func(*http.Request) *metav1.Status {
				return &metav1.Status{Code: 500, Reason: metav1.StatusReasonInternalError, Message: "etcd has no leader"}
			}
		}
		s := &scenario{api: &api{pool: object(v1alpha1.ModeFullMesh)}, happens: slices.Concat(theWay()[:4], []func(*api){cut}, idle(2))}
		got := s.play(t, person("yes\n"), "migrate", "--timeout", "12s")
		require.Equal(t, 1, got.Code)
		require.Equal(t, 1, strings.Count(got.Err, "‼ the cluster cannot be looked at"))
	})
}
