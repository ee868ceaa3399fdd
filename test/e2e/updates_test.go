//go:build linux

package e2e_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/test/e2e/site"
	"github.com/rrpool/rrpool/test/lab"
)

// The cluster's master gets a newer version: all reflectors are replaced one after the other, and nothing is lost. Then one is cordoned. At
// last a person replaces all workers at the same time: their routes are withdrawn together, and the safety net answers.
func TestTheWorkersOfThePoolAreUpdated(t *testing.T) {
	lab.SkipLong(t)
	ctx, s := start(t, site.Options{})
	require.NoError(t, s.StartManager())
	require.NoError(t, s.CreatePool(ctx, func(o *v1alpha1.RouteReflectorPool) {
		o.Spec.Provider.IKS.UpdateWorkers = v1alpha1.UpdateRolling
		o.Spec.Rollout.RemovalDelay = metav1.Duration{Duration: 10 * time.Second}
	}))
	// At rest the cloud is asked every 5 minutes. During the migration it is asked more often, so the version changes then.
	require.NoError(t, s.WaitFor(within(t, ctx), "three reflectors", func(*v1alpha1.RouteReflectorPool) bool { return len(current(t, ctx, s)) == 3 }))
	old, fewest := workers(s), 99
	s.Cloud.SetVersion(site.ClusterID, "1.32.1_1520")
	require.NoError(t, s.WaitFor(within(t, ctx), "all workers to be new ones", func(o *v1alpha1.RouteReflectorPool) bool {
		fewest = min(fewest, len(current(t, ctx, s)))
		now := workers(s)
		return isReady(o) && len(now) == 3 && !slices.ContainsFunc(now, func(w string) bool { return slices.Contains(old, w) })
	}))
	require.Equal(t, 3, fewest)
	requireMigrated(t, ctx, s, 3)
	require.NoError(t, s.Lab.Report().Only(s.Workers...).ZeroLoss())

	s.Lab.Checkpoint("cordoned")
	hit := current(t, ctx, s)[0]
	cordon(t, ctx, s, hit, "true")
	require.NoError(t, s.WaitFor(within(t, ctx), "another reflector in its place", func(o *v1alpha1.RouteReflectorPool) bool {
		return isReady(o) && !slices.Contains(current(t, ctx, s), hit) && len(current(t, ctx, s)) == 3
	}))
	require.Len(t, workers(s), 6)
	cordon(t, ctx, s, hit, "false")
	require.NoError(t, s.WaitFor(within(t, ctx), "the pool to be as small as before", func(o *v1alpha1.RouteReflectorPool) bool {
		return isReady(o) && len(workers(s)) == 3
	}))
	requireMigrated(t, ctx, s, 3)
	require.NoError(t, s.Lab.Report().Phase("cordoned").Only(s.Workers...).ZeroLoss())

	s.Lab.Checkpoint("replaced at once")
	old = workers(s)
	for _, w := range old {
		s.Cloud.ReplaceWorker(site.ClusterID, w)
	}
	require.NoError(t, s.WaitFor(within(t, ctx), "the mesh to be requested", func(*v1alpha1.RouteReflectorPool) bool { return meshOn(t, ctx, s) }))
	require.NoError(t, s.WaitFor(within(t, ctx), "reflectors on new workers", func(o *v1alpha1.RouteReflectorPool) bool {
		return isReady(o) && !meshOn(t, ctx, s) && len(current(t, ctx, s)) == 3 && !slices.ContainsFunc(workers(s), func(w string) bool { return slices.Contains(old, w) })
	}))
	requireMigrated(t, ctx, s, 3)
	report := s.Lab.Report().Phase("replaced at once").Only(s.Workers...)
	t.Logf("all workers replaced at once: pods could not reach each other for %s", report.LongestOutage().Round(time.Millisecond))
	require.Less(t, report.LongestOutage(), 10*time.Second)
}

// Another flavor is asked for: a second pool takes over from the first, reflector by reflector, and nothing is lost.
func TestThePoolGetsAnotherFlavor(t *testing.T) {
	lab.SkipLong(t)
	ctx, s := start(t, site.Options{})
	require.NoError(t, s.StartManager())
	require.NoError(t, s.CreatePool(ctx, func(o *v1alpha1.RouteReflectorPool) {
		o.Spec.Rollout.RemovalDelay = metav1.Duration{Duration: 10 * time.Second}
	}))
	require.NoError(t, s.WaitReady(within(t, ctx)))
	requireMigrated(t, ctx, s, 3)
	s.Lab.Checkpoint("another flavor")
	object, err := s.Pool(ctx)
	require.NoError(t, err)
	object.Spec.Provider.IKS.Flavor = "bx2.4x16"
	require.NoError(t, s.Client.Update(ctx, object))
	second, fewest := site.PoolName+"-b", 99
	require.NoError(t, s.WaitFor(within(t, ctx), "the second pool alone", func(o *v1alpha1.RouteReflectorPool) bool {
		fewest = min(fewest, len(current(t, ctx, s)))
		return isReady(o) && slices.Equal([]string{"default", second}, s.Cloud.Pools(site.ClusterID)) && len(current(t, ctx, s)) == 3
	}))
	require.Equal(t, 3, fewest)
	require.False(t, meshOn(t, ctx, s))
	for _, w := range s.Cloud.Workers(site.ClusterID, second) {
		require.Equal(t, "bx2.4x16", w.Flavor)
		require.Contains(t, current(t, ctx, s), w.IP)
	}
	require.NoError(t, s.Lab.Report().Only(s.Workers...).ZeroLoss())
}

// current are the nodes that reflect now.
func current(t *testing.T, ctx context.Context, s *site.Site) []string { //nolint:revive // t comes first in tests
	t.Helper()
	names, err := s.CurrentReflectors(ctx)
	require.NoError(t, err)
	return names
}

// workers are the ids of the pool's workers.
func workers(s *site.Site) []string {
	var out []string
	for _, w := range s.Cloud.Workers(site.ClusterID, site.PoolName) {
		out = append(out, w.ID)
	}
	return out
}

func cordon(t *testing.T, ctx context.Context, s *site.Site, node, unschedulable string) { //nolint:revive // t comes first in tests
	t.Helper()
	_, err := s.Lab.Kube().CoreV1().Nodes().Patch(ctx, node, types.MergePatchType, []byte(`{"spec":{"unschedulable":`+unschedulable+`}}`), metav1.PatchOptions{})
	require.NoError(t, err)
}
