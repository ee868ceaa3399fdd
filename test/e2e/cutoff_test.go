//go:build linux

package e2e_test

import (
	"fmt"
	"net/netip"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/test/e2e/site"
	"github.com/rrpool/rrpool/test/lab"
)

// A worker and the reflectors cannot reach each other, while everything else passes. BIRD notices when its hold time of 240 s ends, and
// takes the routes away. The mesh is requested spec.rollout.safetyNet.after later, and stays on until the sessions have lasted.
func TestTheMeshCarriesANodeThatIsCutOffFromTheReflectors(t *testing.T) {
	lab.SkipLong(t)
	ctx, s := start(t, site.Options{})
	require.NoError(t, s.StartManager())
	require.NoError(t, s.CreatePool(ctx, nil))
	require.NoError(t, s.WaitReady(within(t, ctx)))
	requireMigrated(t, ctx, s, 3)

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
