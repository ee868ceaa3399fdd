//go:build linux

package e2e_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/projectcalico/calico/libcalico-go/lib/options"
	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/test/e2e/site"
	"github.com/rrpool/rrpool/test/lab"
)

// netTime is how soon the mesh has to carry the cluster after calico-node was killed on all reflectors: BIRD keeps a killed neighbour's
// routes for 120 s.
const netTime = 75 * time.Second

// calico-node goes from all reflectors at once while their nodes stay Ready, and the manager is killed a second later, before it can act.
// The next one, which waits for the lease, knows nothing of what was before.
func TestCalicoNodeGoesFromAllReflectorsAndTheManagerToo(t *testing.T) {
	lab.SkipLong(t)
	ctx, s := start(t, site.Options{})
	gone := loseCalicoNode(t, ctx, s, true, func() {
		time.Sleep(time.Second)
		s.KillManager()
		require.NoError(t, s.StartManager())
	})
	requireMeshInTime(t, ctx, s, gone)
	require.NoError(t, s.WaitFor(within(t, ctx), "the names of the reflectors", func(o *v1alpha1.RouteReflectorPool) bool {
		c := meta.FindStatusCondition(o.Status.Conditions, v1alpha1.ConditionDegraded)
		ready := meta.FindStatusCondition(o.Status.Conditions, v1alpha1.ConditionReady)
		return c.Reason == "CalicoNodeNotRunning" && ready.Reason == c.Reason && strings.HasPrefix(c.Message, "calico-node is not running on 3 of 3 route reflectors: ") &&
			!slices.ContainsFunc(s.Reflectors(), func(name string) bool { return !strings.Contains(c.Message, name) })
	}))
}

// The same while the manager runs, with pods that stay and are not Ready; and until long after BIRD forgets the routes.
func TestCalicoNodeGoesFromAllReflectors(t *testing.T) {
	lab.SkipLong(t)
	ctx, s := start(t, site.Options{})
	gone := loseCalicoNode(t, ctx, s, false, func() {})
	requireMeshInTime(t, ctx, s, gone)
	time.Sleep(time.Until(gone.Add(130 * time.Second)))
	require.NoError(t, s.Lab.Report().Only(s.Workers...).ZeroLoss())
}

// A manager that may not watch pods has only the reports to go by, and asks for them: that takes longer, and is in time.
func TestWithoutTheRightToWatchPodsTheReportsTell(t *testing.T) {
	lab.SkipLong(t)
	ctx, s := start(t, site.Options{})
	role := &rbacv1.ClusterRole{}
	require.NoError(t, s.Client.Get(ctx, client.ObjectKey{Name: "rrpool-manager"}, role))
	role.Rules = slices.DeleteFunc(role.Rules, func(r rbacv1.PolicyRule) bool { return slices.Equal(r.Resources, []string{"pods"}) })
	require.NoError(t, s.Client.Update(ctx, role))
	requireMeshInTime(t, ctx, s, loseCalicoNode(t, ctx, s, true, func() {}))
}

// loseCalicoNode moves the cluster onto reflectors and kills calico-node on all of them, within a moment, before it does what else happens.
func loseCalicoNode(t *testing.T, ctx context.Context, s *site.Site, evicted bool, meanwhile func()) time.Time { //nolint:revive // t comes first in tests
	t.Helper()
	require.NoError(t, s.StartManager())
	require.NoError(t, s.CreatePool(ctx, nil))
	require.NoError(t, s.WaitReady(within(t, ctx)))
	requireMigrated(t, ctx, s, 3)
	s.Lab.Checkpoint("calico-node is gone")
	gone := time.Now()
	for _, name := range s.Reflectors() {
		require.NoError(t, s.Lab.KillCalicoNode(ctx, name, evicted))
	}
	meanwhile()
	return gone
}

// requireMeshInTime: the mesh is requested and carries the workers in time, and none of them loses a packet.
func requireMeshInTime(t *testing.T, ctx context.Context, s *site.Site, gone time.Time) { //nolint:revive // t comes first in tests
	t.Helper()
	soon, cancel := context.WithDeadline(ctx, gone.Add(netTime))
	defer cancel()
	require.NoError(t, s.WaitFor(soon, "the mesh to be requested", func(*v1alpha1.RouteReflectorPool) bool { return meshOn(t, ctx, s) }))
	requested := time.Since(gone)
	require.NoError(t, s.Lab.WaitMesh(within(t, ctx)))
	t.Logf("the mesh was requested after %s and carried the cluster after %s", requested.Round(time.Second), time.Since(gone).Round(time.Second))
	require.NoError(t, s.Lab.Report().Only(s.Workers...).ZeroLoss())
}

func meshOn(t *testing.T, ctx context.Context, s *site.Site) bool { //nolint:revive // t comes first in tests
	t.Helper()
	c, err := s.Lab.Calico().BGPConfigurations().Get(ctx, "default", options.GetOptions{})
	require.NoError(t, err)
	return c.Spec.NodeToNodeMeshEnabled == nil || *c.Spec.NodeToNodeMeshEnabled
}
