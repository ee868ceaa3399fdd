//go:build linux

package e2e_test

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/test/e2e/site"
	"github.com/rrpool/rrpool/test/lab"
	"github.com/rrpool/rrpool/test/programs"
)

func TestMain(m *testing.M) {
	if err := programs.Build(context.Background(), os.Stderr, "manager"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	lab.Main(m)
}

// limit is how long any one wait may take on a slow machine.
const limit = 6 * time.Minute

// start builds a site for one test.
func start(t *testing.T, options site.Options) (context.Context, *site.Site) {
	t.Helper()
	return site.ForTest(t, options)
}

// within gives ctx a time limit.
func within(t *testing.T, ctx context.Context) context.Context { //nolint:revive // t comes first in tests
	t.Helper()
	ctx, cancel := context.WithTimeout(ctx, limit)
	t.Cleanup(cancel)
	return ctx
}

func isReady(o *v1alpha1.RouteReflectorPool) bool {
	return o.Status.ObservedGeneration == o.Generation && meta.IsStatusConditionTrue(o.Status.Conditions, v1alpha1.ConditionReady)
}

// A migrated cluster at rest costs nothing: no write to the apiserver but the lease, no change in the cloud, and at
// most one read of it a minute.
func TestRest(t *testing.T) {
	lab.SkipLong(t)
	const duration = time.Minute
	ctx, s := start(t, site.Options{})
	require.NoError(t, s.StartManager())
	require.NoError(t, s.CreatePool(ctx, nil))
	require.NoError(t, s.WaitReady(within(t, ctx)))
	migrating, err := s.Lab.ControlPlane().Writes(site.User(), time.Time{})
	require.NoError(t, err)
	require.Greater(t, len(migrating), 5, "the audit log sees the manager's writes")
	require.NoError(t, s.Lab.Report().Only(s.Workers...).ZeroLoss())
	time.Sleep(15 * time.Second) // the reports settle into their long period

	since := time.Now()
	reads, mutations, _ := s.Cloud.Counts()
	t.Logf("at rest for %s", duration)
	time.Sleep(duration)
	writes, err := s.Lab.ControlPlane().Writes(site.User(), since)
	require.NoError(t, err)
	leases := 0
	for _, w := range writes {
		if w.Lease() {
			leases++
			continue
		}
		t.Errorf("written at rest: %s", w)
	}
	require.NotZero(t, leases, "the manager is alive")
	nowReads, nowMutations, _ := s.Cloud.Counts()
	require.Equal(t, mutations, nowMutations)
	require.LessOrEqual(t, nowReads-reads, 2, "reads of the cloud in %s", duration)
}
