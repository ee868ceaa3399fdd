package status

import (
	"bytes"
	"context"
	"net/http"
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

// A change that a running manager has not observed yet is no alarm.
func TestAChangeOfJustNow(t *testing.T) {
	deleted := func(a *api) {
		gone := ago(2 * time.Second)
		a.pool.DeletionTimestamp = &gone
	}
	for name, tc := range map[string]struct {
		edit func(*api)
		want State
	}{
		"the manager runs":              {nothing, Progressing},
		"and it is a deletion":          {deleted, Deleting},
		"the lease is not renewed":      {func(a *api) { a.lease = held(time.Hour) }, Stale},
		"nothing is known of a manager": {func(a *api) { a.lease = nil }, Stale},
		"the manager has observed it":   {func(a *api) { a.pool.Generation = 3 }, Ready},
	} {
		t.Run(name, func(t *testing.T) {
			a := atRest(func(o *v1alpha1.RouteReflectorPool) { o.Generation = 4 })
			tc.edit(a)
			got, err := Take(t.Context(), connect(t, a), Phrase{namespace: "rrpool-system"}, cli.Now)
			require.NoError(t, err)
			require.Equal(t, tc.want, got.State, got.Summary)
			require.Equal(t, tc.want != Ready, strings.Contains(got.Summary, "has not yet observed the RouteReflectorPool as it is (generation 4, observed 3)"))
		})
	}
}
