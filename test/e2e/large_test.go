//go:build linux

package e2e_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	apiv3 "github.com/projectcalico/api/pkg/apis/projectcalico/v3"
	"github.com/projectcalico/calico/libcalico-go/lib/options"
	"github.com/stretchr/testify/require"
	"k8s.io/utils/ptr"

	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/test/e2e/expect"
	"github.com/rrpool/rrpool/test/e2e/site"
	"github.com/rrpool/rrpool/test/lab"
)

// Sixty nodes with a confd and a BIRD each, three of them route reflectors: there, calico-node goes from all reflectors, and back. The time is
// compared with that of a person who takes each step at the first moment at which it costs nothing.
func TestSixtyNodesThereAndBack(t *testing.T) {
	lab.SkipLong(t)
	ctx, s := site.ForTest(t, site.Options{Workers: 57, Lab: lab.Options{ProbeNeighbours: 1}})
	s.Lab.Checkpoint("there")
	require.NoError(t, s.StartManager("--leader-elect=false"))
	require.NoError(t, s.CreatePool(ctx, nil))
	await(t, func() bool { return len(current(t, ctx, s)) == 3 })
	began := time.Now()
	require.NoError(t, s.Lab.WaitReflected(within(t, ctx), s.Reflectors()...))
	awaitPaths(t, s)
	ready := time.Now()
	await(t, func() bool { return !meshOn(t, ctx, s) })
	acted := time.Now()
	awaitNone(t, s, "Mesh_")
	require.Less(t, ratio(t, "onto route reflectors", time.Since(began), acted.Sub(ready)), 2.0)
	require.NoError(t, s.WaitReady(within(t, ctx)))
	requireMigrated(t, s, 3)

	s.Lab.Checkpoint("calico-node is gone")
	gone := time.Now()
	for _, name := range s.Reflectors() {
		require.NoError(t, s.Lab.KillCalicoNode(ctx, name, false))
	}
	requireMeshInTime(t, ctx, s, gone)
	for _, name := range s.Reflectors() {
		require.NoError(t, s.Lab.ReplaceCalicoNode(ctx, name, s.Lab.Kubeconfig()))
	}
	require.NoError(t, s.WaitFor(ctx, "the mesh to go again", func(o *v1alpha1.RouteReflectorPool) bool { return isReady(o) && !meshOn(t, ctx, s) }))
	requireMigrated(t, s, 3)

	s.Lab.Checkpoint("back")
	began = time.Now()
	require.NoError(t, s.SetMode(ctx, v1alpha1.ModeFullMesh))
	require.NoError(t, s.Lab.WaitMesh(within(t, ctx), s.Workers...))
	ready = time.Now()
	await(t, func() bool { return len(current(t, ctx, s)) < 3 })
	acted = time.Now()
	awaitNone(t, s, "Node_")
	ratio(t, "back to the mesh", time.Since(began), acted.Sub(ready))
	require.NoError(t, s.WaitReady(within(t, ctx)))
	expect.Meshed(t, s, nil)
	report := s.Lab.Report().Only(s.Workers...)
	require.NoError(t, report.ZeroLoss())
	require.Len(t, report.Pairs, 2*56)
	sent, lost := report.Totals()
	t.Logf("%d of %d probes lost", lost, sent)

	s.KillManager()
	s.Lab.Checkpoint("neither mesh nor route reflectors")
	config := apiv3.NewBGPConfiguration()
	config.Name, config.Spec.NodeToNodeMeshEnabled = "default", ptr.To(false)
	_, err := s.Lab.Calico().BGPConfigurations().Create(ctx, config, options.SetOptions{})
	require.NoError(t, err)
	awaitNone(t, s, "Mesh_")
	time.Sleep(time.Second)
	require.Len(t, s.Lab.Report().Phase("neither mesh nor route reflectors").Lossy(), 2*56, "what is lost is seen")
}

// ratio is how much longer the manager took than a person would have who had not waited as long as it did once all was ready.
func ratio(t *testing.T, what string, manager, waited time.Duration) float64 {
	t.Helper()
	person := manager - waited
	times := manager.Seconds() / person.Seconds()
	t.Logf("%s: %.1f s, %.2f times the %.1f s of a person with perfect timing", what, manager.Seconds(), times, person.Seconds())
	return times
}

func await(t *testing.T, is func() bool) {
	t.Helper()
	require.Eventually(t, is, limit, 100*time.Millisecond)
}

// awaitPaths waits until each worker has a path to the pods of every other from each reflector.
func awaitPaths(t *testing.T, s *site.Site) {
	t.Helper()
	await(t, func() bool {
		for _, on := range s.Workers {
			paths, err := s.Lab.Paths(on)
			require.NoError(t, err)
			for _, to := range s.Workers {
				for _, from := range s.Reflectors() {
					if on != to && paths[s.Lab.Block(to)][s.Lab.Address(from)] == 0 {
						return false
					}
				}
			}
		}
		return true
	})
}

// awaitNone waits until no worker has a session of a kind.
func awaitNone(t *testing.T, s *site.Site, prefix string) {
	t.Helper()
	await(t, func() bool {
		return !slices.ContainsFunc(s.Workers, func(name string) bool {
			sessions, err := s.Lab.Sessions(name)
			require.NoError(t, err)
			return slices.ContainsFunc(sessions, func(x lab.Session) bool { return strings.HasPrefix(x.Name, prefix) })
		})
	})
}
