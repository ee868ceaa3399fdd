//go:build linux

package e2e_test

import (
	"context"
	"fmt"
	"net/netip"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/test/e2e/expect"
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
	ctx, s := site.ForTest(t, site.Options{})
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
	ctx, s := site.ForTest(t, site.Options{})
	gone := loseCalicoNode(t, ctx, s, false, func() {})
	requireMeshInTime(t, ctx, s, gone)
	time.Sleep(time.Until(gone.Add(130 * time.Second)))
	expect.NothingLost(t, s)
}

// A manager that may not watch pods has only the reports to go by, and asks for them: that takes longer, and is in time.
func TestWithoutTheRightToWatchPodsTheReportsTell(t *testing.T) {
	lab.SkipLong(t)
	ctx, s := site.ForTest(t, site.Options{})
	role := &rbacv1.ClusterRole{}
	require.NoError(t, s.Client.Get(ctx, client.ObjectKey{Name: "rrpool-manager"}, role))
	role.Rules = slices.DeleteFunc(role.Rules, func(r rbacv1.PolicyRule) bool { return slices.Equal(r.Resources, []string{"pods"}) })
	require.NoError(t, s.Client.Update(ctx, role))
	requireMeshInTime(t, ctx, s, loseCalicoNode(t, ctx, s, true, func() {}))
}

// loseCalicoNode moves the cluster onto reflectors and kills calico-node on all of them, within a moment, before it does what else happens.
func loseCalicoNode(t *testing.T, ctx context.Context, s *site.Site, evicted bool, meanwhile func()) time.Time { //nolint:revive // t comes first in tests
	t.Helper()
	migrate(t, ctx, s, nil)
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
	expect.NothingLost(t, s)
}

func meshOn(t *testing.T, ctx context.Context, s *site.Site) bool { //nolint:revive // t comes first in tests
	t.Helper()
	c := expect.BGPConfiguration(t, s)
	return c == nil || c.Spec.NodeToNodeMeshEnabled == nil || *c.Spec.NodeToNodeMeshEnabled
}

// A worker and the reflectors cannot reach each other, while everything else passes. BIRD notices when its hold time of 240 s ends, and
// takes the routes away. The mesh is requested spec.rollout.safetyNet.after later, and stays on until the sessions have lasted.
func TestTheMeshCarriesANodeThatIsCutOffFromTheReflectors(t *testing.T) {
	lab.SkipLong(t)
	ctx, s := site.ForTest(t, site.Options{})
	migrate(t, ctx, s, nil)

	hit := s.Workers[0]
	block := func(change string) {
		for _, r := range s.Reflectors() {
			for on, to := range map[string]netip.Addr{hit: s.Lab.Address(r), r: s.Lab.Address(hit)} {
				require.NoError(t, s.Lab.Enter(on, func() error {
					out, err := exec.CommandContext(ctx, "ip", "route", change, "blackhole", to.String()).CombinedOutput()
					if err != nil {
						return fmt.Errorf("ip route %s on %s: %w: %s", change, on, err, out)
					}
					return nil
				}))
			}
		}
	}
	s.Lab.Checkpoint("cut off")
	block("add")
	require.NoError(t, s.WaitFor(within(t, ctx), "the mesh to be requested", func(*v1alpha1.RouteReflectorPool) bool { return meshOn(t, ctx, s) }))
	require.Eventually(t, func() bool {
		sessions, err := s.Lab.Sessions(hit)
		require.NoError(t, err)
		up := slices.DeleteFunc(sessions, func(x lab.Session) bool { return !strings.HasPrefix(x.Name, "Mesh_") || !x.Established() })
		return len(up) == len(s.Workers)-1
	}, time.Minute, 100*time.Millisecond)
	time.Sleep(5 * time.Second) // for whatever else might be lost
	report := s.Lab.Report().Phase("cut off").Only(s.Workers...)
	require.NoError(t, report.Without(hit).ZeroLoss())
	require.NotEmpty(t, report.Lossy(), "without reflectors there are no routes, or nothing is measured")
	t.Logf("the pods of the node could not be reached for %s", report.LongestOutage().Round(time.Second))
	require.Less(t, report.LongestOutage(), netTime)

	s.Lab.Checkpoint("reachable again")
	block("del")
	require.NoError(t, s.WaitFor(within(t, ctx), "the sessions to be back", func(o *v1alpha1.RouteReflectorPool) bool {
		return meta.IsStatusConditionTrue(o.Status.Conditions, v1alpha1.ConditionReflectorsEstablished)
	}))
	require.NoError(t, s.WaitFor(within(t, ctx), "the mesh to stay on for the time being", func(o *v1alpha1.RouteReflectorPool) bool {
		return slices.ContainsFunc(o.Status.Step.WaitingFor, func(w string) bool { return w == "nodes that had no session to keep theirs for 5m0s: 1: "+hit })
	}))
	require.NoError(t, s.Lab.Report().Phase("reachable again").Only(s.Workers...).ZeroLoss())
}

// The cluster's master gets a newer version: all reflectors are replaced one after the other, and nothing is lost. Then one is cordoned. At
// last a person replaces all workers at the same time: their routes are withdrawn together, and the safety net answers.
func TestTheWorkersOfThePoolAreUpdated(t *testing.T) {
	lab.SkipLong(t)
	ctx, s := site.ForTest(t, site.Options{})
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
	requireMigrated(t, s, 3)
	expect.NothingLost(t, s)

	s.Lab.Checkpoint("cordoned")
	hit := current(t, ctx, s)[0]
	require.NoError(t, s.Lab.Cordon(ctx, hit))
	require.NoError(t, s.WaitFor(within(t, ctx), "another reflector in its place", func(o *v1alpha1.RouteReflectorPool) bool {
		return isReady(o) && !slices.Contains(current(t, ctx, s), hit) && len(current(t, ctx, s)) == 3
	}))
	require.Len(t, workers(s), 6)
	require.NoError(t, s.Lab.Uncordon(ctx, hit))
	require.NoError(t, s.WaitFor(within(t, ctx), "the pool to be as small as before", func(o *v1alpha1.RouteReflectorPool) bool {
		return isReady(o) && len(workers(s)) == 3
	}))
	requireMigrated(t, s, 3)
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
	requireMigrated(t, s, 3)
	report := s.Lab.Report().Phase("replaced at once").Only(s.Workers...)
	t.Logf("all workers replaced at once: pods could not reach each other for %s", report.LongestOutage().Round(time.Millisecond))
	require.Less(t, report.LongestOutage(), 10*time.Second)
}

func current(t *testing.T, ctx context.Context, s *site.Site) []string { //nolint:revive // t comes first in tests
	t.Helper()
	names, err := s.CurrentReflectors(ctx)
	require.NoError(t, err)
	return names
}

func workers(s *site.Site) []string {
	var out []string
	for _, w := range s.Cloud.Workers(site.ClusterID, site.PoolName) {
		out = append(out, w.ID)
	}
	return out
}
