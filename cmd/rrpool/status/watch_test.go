package status

import (
	"bytes"
	"context"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/rrpool/rrpool/cmd/rrpool/iostreams"
	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/test/cli"
)

// scenario is a cluster that changes during a watch: after each wait comes the next
// change, and after the last one Ctrl-C.
type scenario struct {
	*api
	changes []func(*api)
	clock   time.Time
	waits   []time.Duration
}

// watch calls the command and makes the changes, without waiting.
func (s *scenario) watch(t *testing.T, streams iostreams.Streams, args ...string) cli.Answer {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	s.clock = cli.Now
	streams.Now = func() time.Time { return s.clock }
	streams.Sleep = func(d time.Duration, _ <-chan struct{}) {
		s.waits = append(s.waits, d)
		s.clock = s.clock.Add(d)
		if len(s.changes) == 0 {
			stop()
			return
		}
		s.Lock()
		defer s.Unlock()
		s.changes[0](s.api)
		s.changes = s.changes[1:]
	}
	var out, err bytes.Buffer
	streams.Out, streams.Err = &out, &err
	streams = cli.Defaults(streams)
	t.Setenv("KUBECONFIG", cli.Serve(t, s))
	code := iostreams.Run(ctx, cli.Root(New(streams)), append([]string{"status"}, args...), streams)
	return cli.Answer{Out: out.String(), Err: err.String(), Code: code}
}

func nothing(*api) {}

// complete ends the migration.
func complete(a *api) { a.pool = object(nil) }

func fail(a *api) {
	a.refusing("/", http.StatusInternalServerError, metav1.StatusReasonInternalError, "etcd has no leader")
}

func answerAgain(a *api) { a.refuse = nil }

func TestAWatchShowsChangesOnly(t *testing.T) {
	s := &scenario{api: migrating(), changes: []func(*api){nothing, nothing, complete, nothing, fail, nothing, answerAgain, nothing}}
	got := s.watch(t, iostreams.Streams{}, "--watch")
	require.Zero(t, got.Code, got.Err)
	require.Equal(t, 1, strings.Count(got.Out, "… Progressing"), got.Out)
	require.Equal(t, 1, strings.Count(got.Out, "√ Ready"), got.Out)
	require.Equal(t, 2, strings.Count(got.Out, "Route reflectors of cluster"), "nothing else is shown twice")
	require.Regexp(t, `^‼ what is shown is old: asking \S+ of context "rrpool" to get routereflectorpools.rrpool.io: etcd has no leader; trying again every 2s\n$`, got.Err, "once")
	require.Equal(t, 2*time.Second, s.waits[0])

	s = &scenario{api: migrating(), changes: []func(*api){nothing, complete}}
	got = s.watch(t, iostreams.Streams{}, "--watch", "-o", "json", "--interval", "30s")
	require.Zero(t, got.Code)
	require.Equal(t, 2, strings.Count(got.Out, `"schemaVersion"`))
	require.Equal(t, 30*time.Second, s.waits[0])
}

// On a terminal each look is put over the last one.
func TestAWatchOnATerminal(t *testing.T) {
	s := &scenario{api: migrating(), changes: []func(*api){nothing, fail, answerAgain, complete}}
	got := s.watch(t, iostreams.Streams{Terminal: true, Width: 60, Getenv: cli.Environment("NO_COLOR", "1")}, "--watch")
	require.Zero(t, got.Code)
	require.Empty(t, got.Err)
	screens := strings.Split(got.Out, home)[1:]
	require.Len(t, screens, 5, "one for each look")
	for _, screen := range screens {
		require.True(t, strings.HasSuffix(screen, restBelow))
		for line := range strings.SplitSeq(strings.TrimSuffix(screen, restBelow), "\n") {
			require.True(t, line == "" || strings.HasSuffix(line, restOfLine), "what was there before is wiped: %q", line)
		}
		cli.RequireWidth(t, strings.NewReplacer(restOfLine, "", restBelow, "").Replace(screen), 60)
	}
	require.Contains(t, screens[1], "AwaitSessions, for 3m", "time goes by")
	require.Contains(t, screens[1], "09:00:02Z, every 2s; Ctrl-C ends")
	require.Contains(t, screens[2], "‼ what is shown is old")
	require.NotContains(t, screens[3], "is old")
	require.Contains(t, screens[4], "√ Ready")
}

func TestWait(t *testing.T) {
	s := &scenario{api: migrating(), changes: []func(*api){nothing, fail, answerAgain, func(a *api) { a.pool = ordering().pool }, complete}}
	got := s.watch(t, iostreams.Streams{}, "--wait")
	require.Zero(t, got.Code, got.Err)
	require.Equal(t, 1, strings.Count(got.Out, "Route reflectors of cluster"))
	require.Contains(t, got.Out, "√ Ready")
	lines := strings.Split(strings.TrimSpace(got.Err), "\n")
	require.Len(t, lines, 4, got.Err)
	require.Equal(t, "waiting: Progressing, step AwaitSessions", lines[0])
	require.Contains(t, lines[1], "trying again every 2s")
	require.Equal(t, []string{"waiting: Progressing, step EnsurePool", "waiting: Ready, step Steady"}, lines[2:])

	t.Run("at once when there is nothing to wait for", func(t *testing.T) {
		s := &scenario{api: atRest(nil)}
		require.Zero(t, s.watch(t, iostreams.Streams{}, "--wait").Code)
		require.Empty(t, s.waits)
	})
	t.Run("what was reported before the last change does not count", func(t *testing.T) {
		s := &scenario{api: atRest(func(o *v1alpha1.RouteReflectorPool) { o.Generation = 4 }), changes: []func(*api){nothing, func(a *api) {
			a.pool.Status.ObservedGeneration = 4
			for i := range a.pool.Status.Conditions {
				a.pool.Status.Conditions[i].ObservedGeneration = 4
			}
		}}}
		require.Zero(t, s.watch(t, iostreams.Streams{}, "--wait").Code)
		require.Len(t, s.waits, 2)
	})
	t.Run("a time-out shows the last known state", func(t *testing.T) {
		s := &scenario{api: migrating(), changes: slices.Repeat([]func(*api){nothing}, 100)}
		got := s.watch(t, iostreams.Streams{}, "--wait", "--timeout", "5s")
		require.Equal(t, 1, got.Code)
		require.Equal(t, []time.Duration{2 * time.Second, 2 * time.Second, time.Second}, s.waits)
		require.Contains(t, got.Out, "… Progressing")
		require.Contains(t, got.Err, "rrpool: --timeout: the cluster is Progressing, not Ready, after 5s: rrpool status --watch\n")
	})
	t.Run("Ctrl-C is no success", func(t *testing.T) {
		s := &scenario{api: migrating(), changes: []func(*api){nothing}}
		got := s.watch(t, iostreams.Streams{}, "--wait")
		require.Equal(t, 1, got.Code)
		require.Equal(t, "waiting: Progressing, step AwaitSessions\nrrpool: interrupted\n", got.Err)
	})
	t.Run("with --watch it shows the way as well", func(t *testing.T) {
		s := &scenario{api: migrating(), changes: []func(*api){nothing, complete}}
		got := s.watch(t, iostreams.Streams{}, "--wait", "--watch")
		require.Zero(t, got.Code)
		require.Equal(t, 2, strings.Count(got.Out, "Route reflectors of cluster"))
		require.Empty(t, got.Err)
	})
}

// A change that the manager cannot have observed yet is no alarm; one that it should have is.
func TestAChangeOfJustNow(t *testing.T) {
	const second = time.Second
	for name, tc := range map[string]struct {
		changed, renewed time.Duration // before now
		edit             func(*api)
		want             State
	}{
		"seconds ago":                              {3 * second, second, nil, Progressing},
		"a while ago":                              {20 * second, second, nil, Stale},
		"at the bound":                             {16 * second, second, nil, Stale},
		"by a manager's clock that is ahead":       {3 * second, -20 * second, nil, Stale},
		"by a clock here that is behind":           {-30 * second, -31 * second, nil, Progressing},
		"long ago, by a clock here that is behind": {-30 * second, -60 * second, nil, Stale},
		"and the lease is not renewed":             {3 * second, time.Hour, nil, Stale},
		"and there is no lease":                    {3 * second, 0, func(a *api) { a.lease = nil }, Stale},
		"and only a Deployment is seen":            {3 * second, 0, func(a *api) { a.lease, a.deployment = nil, replicas(1, 1) }, Stale},
		"a deletion": {time.Hour, second, func(a *api) {
			gone := ago(2 * second)
			a.pool.DeletionTimestamp = &gone
		}, Deleting},
		"a creation":             {time.Hour, second, func(a *api) { a.pool.ManagedFields, a.pool.CreationTimestamp = nil, ago(2*second) }, Progressing},
		"an unknown time":        {0, second, func(a *api) { a.pool.ManagedFields = nil }, Stale},
		"only the status":        {3 * second, second, func(a *api) { a.pool.ManagedFields[0].Subresource = "status" }, Stale},
		"only a label":           {3 * second, second, func(a *api) { a.pool.ManagedFields[0].FieldsV1 = metav1.NewFieldsV1(`{"f:metadata":{}}`) }, Stale},
		"one that was observed":  {3 * second, second, func(a *api) { a.pool.Generation = 3 }, Ready},
		"a second one that fits": {time.Hour, second, func(a *api) { changeSpec(a.pool, 2*second) }, Progressing},
	} {
		t.Run(name, func(t *testing.T) {
			a := atRest(func(o *v1alpha1.RouteReflectorPool) { o.Generation, o.CreationTimestamp = 4, ago(24*time.Hour) })
			changeSpec(a.pool, tc.changed)
			a.lease = held(tc.renewed)
			if tc.edit != nil {
				tc.edit(a)
			}
			got, err := Take(t.Context(), connect(t, a), Phrase{namespace: "rrpool-system"}, cli.Now)
			require.NoError(t, err)
			require.Equal(t, tc.want, got.State, got.Summary)
			require.Equal(t, tc.want == Progressing || tc.want == Deleting, strings.Contains(got.Summary, "has not yet observed"))
		})
	}
}
