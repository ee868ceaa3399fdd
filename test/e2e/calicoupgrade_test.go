//go:build linux

package e2e_test

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/projectcalico/calico/libcalico-go/lib/options"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/utils/ptr"

	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/test/controlplane"
	"github.com/rrpool/rrpool/test/e2e/site"
	"github.com/rrpool/rrpool/test/lab"
)

// Calico is upgraded to 3.33 under a cluster on reflectors: first its CRDs, whose reports have a status subresource, to which reporters of v3.31
// do not write; then calico-node, node by node. Where that takes long no reflector is heard, and the mesh comes on. Nothing is lost.
func TestCalicoIsUpgraded(t *testing.T) {
	lab.SkipLong(t)
	for name, late := range map[string]bool{"calico-node follows at once": false, "calico-node follows late": true} {
		t.Run(name, func(t *testing.T) {
			ctx, s := start(t, site.Options{})
			require.NoError(t, s.StartManager())
			require.NoError(t, s.CreatePool(ctx, nil))
			require.NoError(t, s.WaitReady(within(t, ctx)))
			requireMigrated(t, ctx, s, 3)
			sessions := established(t, s)
			time.Sleep(15 * time.Second) // the reports settle into their long period

			s.Lab.Checkpoint("upgrade")
			seen := record(t, ctx, s)
			definitions := t.TempDir()
			require.NoError(t, controlplane.NewerCRDs(ctx, definitions, false))
			require.NoError(t, controlplane.InstallCRDs(s.Lab.AdminConfig(), definitions))
			if late {
				require.NoError(t, s.WaitFor(within(t, ctx), "the mesh to be requested", func(*v1alpha1.RouteReflectorPool) bool { return meshOn(t, ctx, s) }))
				among := len(s.Workers) * (len(s.Workers) - 1)
				soon(t, func(c *assert.CollectT) { require.Len(c, established(c, s), len(sessions)+among) })
			}
			kubeconfig := through(t, s, func(*http.Request) {}, nil)
			for _, node := range s.Lab.Nodes() {
				require.NoError(t, s.Lab.ReplaceCalicoNode(ctx, node, kubeconfig))
				soon(t, func(c *assert.CollectT) { require.Subset(c, established(c, s), sessions) })
			}
			replaced := time.Now()
			soon(t, func(c *assert.CollectT) {
				reports, err := s.Lab.Calico().CalicoNodeStatus().List(ctx, options.ListOptions{})
				require.NoError(c, err)
				for _, report := range reports.Items {
					require.True(c, report.Status.LastUpdated.After(replaced), "%s is not heard", report.Name)
				}
			})
			require.NoError(t, s.WaitFor(within(t, ctx), "the end of the upgrade", func(o *v1alpha1.RouteReflectorPool) bool {
				if late { // nothing but time is missing: so long the mesh stays on, in case it is needed again
					waits := o.Status.Step.WaitingFor
					return len(waits) > 0 && !slices.ContainsFunc(waits, func(w string) bool { return !strings.Contains(w, "for 5m0s") })
				}
				return isReady(o)
			}))
			if !late {
				requireMigrated(t, ctx, s, 3)
			}
			for _, at := range seen() {
				require.NotContains(t, at.degraded, "True")
				require.False(t, at.mesh && (!late || at.after < time.Minute), "the mesh is on, and the reports were unheard for less than a minute")
			}
			require.NoError(t, s.Lab.Report().Only(s.Workers...).ZeroLoss())
		})
	}
}

// moment is from when on the mesh and the conditions were as they were.
type moment struct {
	after           time.Duration
	mesh            bool
	ready, degraded string
}

// record notes every change until the function that it returns is called. The test logs them.
func record(t *testing.T, ctx context.Context, s *site.Site) func() []moment { //nolint:revive // t comes first in tests
	t.Helper()
	ctx, cancel := context.WithCancel(ctx)
	begun, seen := time.Now(), []moment{{}}
	var done sync.WaitGroup
	done.Go(func() {
		for ; ctx.Err() == nil; time.Sleep(50 * time.Millisecond) {
			o, err := s.Pool(ctx)
			config, failed := s.Lab.Calico().BGPConfigurations().Get(ctx, "default", options.GetOptions{})
			if err != nil || failed != nil {
				continue
			}
			last, condition := seen[len(seen)-1], func(name string) string {
				c := meta.FindStatusCondition(o.Status.Conditions, name)
				return string(c.Status) + " " + c.Reason
			}
			now := moment{last.after, ptr.Deref(config.Spec.NodeToNodeMeshEnabled, true), condition(v1alpha1.ConditionReady), condition(v1alpha1.ConditionDegraded)}
			if now != last {
				now.after = time.Since(begun)
				seen = append(seen, now)
			}
		}
	})
	stop := func() []moment {
		cancel()
		done.Wait()
		return seen[1:]
	}
	t.Cleanup(func() {
		for _, at := range stop() {
			t.Logf("%5.1f s: mesh %t, Ready %s, Degraded %s", at.after.Seconds(), at.mesh, at.ready, at.degraded)
		}
	})
	return stop
}
