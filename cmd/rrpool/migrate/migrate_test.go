package migrate

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"syscall"
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
		s := &scenario{api: &api{pool: reflecting()}, happens: []func(*api){
			by(func(o *v1alpha1.RouteReflectorPool) {
				step(o, "AwaitMesh", "the mesh is to carry every pair of nodes", "10.1.0.1 ↔ 10.2.0.7 to be Established")
				condition(o, "MeshDisabled", "False", "MeshOn", "the node-to-node mesh is on")
			}),
			by(func(o *v1alpha1.RouteReflectorPool) {
				step(o, "DemoteReflectors", "one after the other")
				numbers(o, 2, 4, 65)
			}),
			by(func(o *v1alpha1.RouteReflectorPool) {
				settle(o, "the node-to-node mesh carries 60 nodes")
				numbers(o, 2, 0, 0)
			}),
		}}
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
		cli.RequireRefused(t, got, "--yes: missing", "no terminal to ask on", "rrpool plan shows what will be done")
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
	cli.RequireRefused(t, got, "the manager would refuse, so nothing was changed", "ForeignReflector: node a is a reflector already", plan.Docs+"runbook/conditions.md#foreignreflector")
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

// lost makes the write, and never answers.
type lost struct {
	*api
	then func()
}

// ServeHTTP implements http.Handler.
func (l lost) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPatch || r.URL.Query().Get("dryRun") != "" {
		l.api.ServeHTTP(w, r)
		return
	}
	l.api.ServeHTTP(httptest.NewRecorder(), r)
	l.then()
	<-r.Context().Done()
}

// A write whose answer is lost may have happened, and the command says so: whoever reads that nothing
// was changed walks away from a migration that runs.
func TestAWriteWhoseAnswerIsLost(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	a := &api{pool: object(v1alpha1.ModeFullMesh)}
	kubeconfig := cli.Serve(t, lost{a, stop}) // Ctrl-C, or no answer in time
	got := cli.Run(ctx, iostreams.Streams{}, (&scenario{}).root, "migrate", "--yes", "--wait=false", "--kubeconfig", kubeconfig)
	require.Equal(t, 1, got.Code)
	require.Equal(t, v1alpha1.ModeRouteReflector, a.pool.Spec.Mode)
	require.Contains(t, got.Err, "whether spec.mode was set is not known, as the answer was lost (interrupted): rrpool status says it")
}

// Bad input gets one sentence that names the field, the value and the remedy.
func TestBadInput(t *testing.T) {
	got := cli.Ask(t, New, "migrate", "--yes", "-f", cli.PoolFile(t, "{mode: FullMesh}"))
	cli.RequireRefused(t, got, "--filename", "spec.mode", `"FullMesh"`, "leave it out")
}

func TestClustersThatRefuse(t *testing.T) {
	admission := func(r *http.Request) *metav1.Status {
		if r.Method != http.MethodPatch {
			return nil
		}
		return &metav1.Status{Code: http.StatusForbidden, Reason: metav1.StatusReasonForbidden, Message: `admission webhook "freeze" denied the request: not before Monday`}
	}
	deleting := object(v1alpha1.ModeFullMesh)
	deleting.DeletionTimestamp = &metav1.Time{Time: cli.Now}
	for name, tc := range map[string]struct {
		kubeconfig string
		command    string
		says       []string
	}{
		"a webhook": {
			cli.Serve(t, &api{pool: object(v1alpha1.ModePaused), refuse: admission}), "migrate",
			[]string{"refuses to patch", `admission webhook "freeze" denied the request: not before Monday`},
		},
		"the object is being deleted": {
			cli.Serve(t, &api{pool: deleting}), "migrate",
			[]string{"is being deleted", "rrpool status --watch", "then call this again"},
		},
		"nothing to take back": {cli.Serve(t, &api{}), "rollback", []string{"there is no RouteReflectorPool", "rrpool status"}},
	} {
		t.Run(name, func(t *testing.T) {
			command := New
			if tc.command == "rollback" {
				command = NewRollback
			}
			got := cli.Ask(t, command, tc.command, "--yes", "--kubeconfig", tc.kubeconfig, "--request-timeout", "2s")
			cli.RequireRefused(t, got, tc.says...)
		})
	}
}

// No one reads the output: who has said yes before gets what was asked for, and no other user is
// asked to agree to what cannot be seen.
func TestAReaderThatIsGone(t *testing.T) {
	s := &scenario{api: &api{pool: object(v1alpha1.ModePaused)}, happens: theWay()}
	got := s.play(t, iostreams.Streams{Out: cli.Broken{Err: syscall.EPIPE}}, "migrate", "--yes")
	require.Zero(t, got.Code, got.Err)
	requireMode(t, s.api, v1alpha1.ModeRouteReflector)
	s = &scenario{api: &api{pool: object(v1alpha1.ModePaused)}}
	asked := person("yes\n")
	asked.Out = cli.Broken{Err: syscall.EPIPE}
	got = s.play(t, asked, "migrate")
	require.Equal(t, 1, got.Code)
	cli.RequireSentence(t, got.Err, "the plan cannot be written, so nothing was changed")
	requireMode(t, s.api, v1alpha1.ModePaused)
}

func TestTheExampleOfTheDocs(t *testing.T) {
	cli.RequireExamples(t, "migrate", func(args ...string) cli.Answer {
		s := &scenario{api: &api{pool: object(v1alpha1.ModeFullMesh)}, happens: theWay()}
		got := s.play(t, iostreams.Streams{}, args...)
		require.Equal(t, cli.Blocks(t, "migrate", "text")[0], got.Err)
		return got
	})
}
