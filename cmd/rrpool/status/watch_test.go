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

// story is a cluster that changes while somebody watches: after each wait the next
// thing happens, and after the last one somebody presses Ctrl-C.
type story struct {
	*api
	happens []func(*api)
	clock   time.Time
	waits   []time.Duration
}

// watch calls the command and lets the story happen, in no time.
func (s *story) watch(t *testing.T, streams iostreams.Streams, args ...string) cli.Answer {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	s.clock = cli.Now
	streams.Now = func() time.Time { return s.clock }
	streams.Sleep = func(d time.Duration, _ <-chan struct{}) {
		s.waits = append(s.waits, d)
		s.clock = s.clock.Add(d)
		if len(s.happens) == 0 {
			stop()
			return
		}
		s.Lock()
		defer s.Unlock()
		s.happens[0](s.api)
		s.happens = s.happens[1:]
	}
	var out, err bytes.Buffer
	streams.Out, streams.Err = &out, &err
	streams = cli.Defaults(streams)
	t.Setenv("KUBECONFIG", cli.Serve(t, s))
	code := iostreams.Run(ctx, cli.Root(New(streams)), append([]string{"status"}, args...), streams)
	return cli.Answer{Out: out.String(), Err: err.String(), Code: code}
}

func nothing(*api) {}

// arrive lets the migration end.
func arrive(a *api) { a.pool = object(nil) }

func wobble(a *api) {
	a.refusing("/", http.StatusInternalServerError, metav1.StatusReasonInternalError, "etcd has no leader")
}

func regain(a *api) { a.refuse = nil }

func TestAWatchShowsChangesOnly(t *testing.T) {
	s := &story{api: migrating(), happens: []func(*api){nothing, nothing, arrive, nothing, wobble, nothing, regain, nothing}}
	got := s.watch(t, iostreams.Streams{}, "--watch")
	require.Zero(t, got.Code, got.Err)
	require.Equal(t, 1, strings.Count(got.Out, "… Progressing"), got.Out)
	require.Equal(t, 1, strings.Count(got.Out, "√ Ready"), got.Out)
	require.Equal(t, 2, strings.Count(got.Out, "Route reflectors of cluster"), "nothing else is shown twice")
	require.Equal(t, "‼ what is shown is old: asking "+between(got.Err, "asking ", " of context")+
		` of context "rrpool" to get routereflectorpools.rrpool.io: etcd has no leader; trying again every 2s`+"\n", got.Err, "once")
	require.Equal(t, 2*time.Second, s.waits[0])

	s = &story{api: migrating(), happens: []func(*api){nothing, arrive}}
	got = s.watch(t, iostreams.Streams{}, "--watch", "-o", "json", "--interval", "30s")
	require.Zero(t, got.Code)
	require.Equal(t, 2, strings.Count(got.Out, `"schemaVersion"`))
	require.Equal(t, 30*time.Second, s.waits[0])
}

func between(text, begin, end string) string {
	_, text, _ = strings.Cut(text, begin)
	text, _, _ = strings.Cut(text, end)
	return text
}

// On a terminal each look is put over the last one.
func TestAWatchOnATerminal(t *testing.T) {
	s := &story{api: migrating(), happens: []func(*api){nothing, wobble, regain, arrive}}
	got := s.watch(t, iostreams.Streams{Terminal: true, Width: 60, Getenv: cli.Environment("NO_COLOR", "1")}, "--watch")
	require.Zero(t, got.Code)
	require.Empty(t, got.Err)
	require.Equal(t, 1, strings.Count(got.Out, clearScreen))
	screens := strings.Split(got.Out, home)[1:]
	require.Len(t, screens, 5, "one for each look")
	for _, screen := range screens {
		require.True(t, strings.HasSuffix(screen, restBelow) || strings.HasSuffix(screen, restBelow+clearScreen))
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
	cli.Golden(t, "screen.golden", strings.ReplaceAll(screens[4], "\x1b", "␛"))
}

func TestWait(t *testing.T) {
	s := &story{api: migrating(), happens: []func(*api){nothing, wobble, regain, func(a *api) { a.pool = ordering().pool }, arrive}}
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
		s := &story{api: atRest(nil)}
		require.Zero(t, s.watch(t, iostreams.Streams{}, "--wait").Code)
		require.Empty(t, s.waits)
	})
	t.Run("what was reported before the last change does not count", func(t *testing.T) {
		s := &story{api: atRest(func(o *v1alpha1.RouteReflectorPool) { o.Generation = 4 }), happens: []func(*api){nothing, func(a *api) {
			a.pool.Status.ObservedGeneration = 4
			for i := range a.pool.Status.Conditions {
				a.pool.Status.Conditions[i].ObservedGeneration = 4
			}
		}}}
		require.Zero(t, s.watch(t, iostreams.Streams{}, "--wait").Code)
		require.Len(t, s.waits, 2)
	})
	t.Run("a time-out shows the last known state", func(t *testing.T) {
		s := &story{api: migrating(), happens: slices.Repeat([]func(*api){nothing}, 100)}
		got := s.watch(t, iostreams.Streams{}, "--wait", "--timeout", "5s")
		require.Equal(t, 1, got.Code)
		require.Equal(t, []time.Duration{2 * time.Second, 2 * time.Second, time.Second}, s.waits)
		require.Contains(t, got.Out, "… Progressing")
		require.Contains(t, got.Err, "rrpool: --timeout: the cluster is Progressing, not Ready, after 5s: rrpool status --watch\n")
	})
	t.Run("Ctrl-C is no success", func(t *testing.T) {
		s := &story{api: migrating(), happens: []func(*api){nothing}}
		got := s.watch(t, iostreams.Streams{}, "--wait")
		require.Equal(t, 1, got.Code)
		require.Equal(t, "waiting: Progressing, step AwaitSessions\nrrpool: interrupted\n", got.Err)
	})
	t.Run("with --watch it shows the way as well", func(t *testing.T) {
		s := &story{api: migrating(), happens: []func(*api){nothing, arrive}}
		got := s.watch(t, iostreams.Streams{}, "--wait", "--watch")
		require.Zero(t, got.Code)
		require.Equal(t, 2, strings.Count(got.Out, "Route reflectors of cluster"))
		require.Empty(t, got.Err)
	})
}
