package status

import (
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

// watched calls the command with --watch while the cluster changes, and gives the waits as well.
func watched(t *testing.T, changes []func(*api), args ...string) (cli.Answer, []time.Duration) {
	t.Helper()
	a := migrating()
	t.Setenv("KUBECONFIG", cli.Serve(t, a))
	return cli.Play(t, iostreams.Streams{}, cli.Root(New), a, changes, append([]string{"status", "--watch"}, args...)...)
}

func nothing(*api) {}

// complete ends the migration.
func complete(a *api) { a.pool = object(nil) }

func fail(a *api) {
	a.refusing("/", http.StatusInternalServerError, metav1.StatusReasonInternalError, "etcd has no leader")
}

func answerAgain(a *api) { a.refuse = nil }

func TestAWatchShowsChangesOnly(t *testing.T) {
	got, waits := watched(t, []func(*api){nothing, nothing, complete, nothing, fail, nothing, answerAgain, nothing})
	require.Zero(t, got.Code, got.Err)
	require.Equal(t, 1, strings.Count(got.Out, "… Progressing"), got.Out)
	require.Equal(t, 1, strings.Count(got.Out, "√ Ready"), got.Out)
	require.Equal(t, 2, strings.Count(got.Out, "Route reflectors of cluster"), "nothing else is shown twice")
	require.Regexp(t, `^‼ what is shown is old: asking \S+ of context "rrpool" to get routereflectorpools.rrpool.io: etcd has no leader; trying again every 2s\n$`, got.Err, "once")
	require.Equal(t, 2*time.Second, waits[0])

	got, _ = watched(t, []func(*api){nothing, complete}, "-o", "json")
	require.Zero(t, got.Code)
	require.Equal(t, 2, strings.Count(got.Out, `"schemaVersion"`))
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
		"the lease is not renewed":      {func(a *api) { a.lease = cli.Lease(time.Hour) }, Stale},
		"nothing is known of a manager": {func(a *api) { a.lease = nil }, Stale},
		"the manager has observed it":   {func(a *api) { a.pool.Generation = 3 }, Ready},
	} {
		t.Run(name, func(t *testing.T) {
			a := atRest(func(o *v1alpha1.RouteReflectorPool) { o.Generation = 4 })
			tc.edit(a)
			got, err := Take(t.Context(), cli.Connect(t, a), Phrase{namespace: "rrpool-system"}, cli.Now)
			require.NoError(t, err)
			require.Equal(t, tc.want, got.State, got.Summary)
			require.Equal(t, tc.want != Ready, strings.Contains(got.Summary, "has not yet observed the RouteReflectorPool as it is (generation 4, observed 3)"))
		})
	}
}
