//go:build linux

package chaos_test

import (
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/test/e2e/site"
)

// The safety net catches a cluster with a dedicated pool as well, when all its
// workers are updated one after the other.
func TestDedicatedReflectors(t *testing.T) {
	c := start(t, site.Options{MeshPassword: "s3cret"})
	c.stages([]stage{
		{"dedicated nodes", migrateDedicated},
		{"all reflectors are shut down, one after the other", shutDownInTurn},
	})
}

func migrateDedicated(c *cluster) {
	e := c.begin("onto dedicated nodes")
	require.NoError(c.t, c.CreatePool(c.ctx, hasty))
	c.waitReflectors("three reflectors", func(h []string) bool { return len(h) == 3 })
	c.requireMesh(false)
	c.requireLostNothing(e)
}

// shutDownTogether: no reflector is left, and every route is withdrawn. The mesh is switched on without a wait, and
// carries everyone within seconds. The grace is as it is by default, so that nothing else happens meanwhile.
func shutDownTogether(c *cluster) {
	c.edit(func(spec *v1alpha1.RouteReflectorPoolSpec) {
		spec.Rollout.NotReadyGrace = metav1.Duration{Duration: time.Minute}
	})
	going := c.reflectors()
	e := c.begin("all reflectors shut down together")
	var all sync.WaitGroup
	errs := make([]error, len(going))
	for i, n := range going {
		all.Go(func() { errs[i] = c.Lab.Shutdown(c.ctx, n) })
	}
	all.Wait()
	known := time.Now()
	for _, err := range errs {
		require.NoError(c.t, err)
	}
	require.Less(c.t, known.Sub(e.from), 2*time.Second, "they go together")
	require.Eventually(c.t, func() bool { return len(c.meshWrites(e)) > 0 }, limit, 100*time.Millisecond)
	time.Sleep(15 * time.Second) // for whatever else might be lost
	c.requireMesh(true)
	c.requireEvents(e, []string{"MeshRestored", "only 0 route reflectors serve, at least 2 should: the mesh takes over until they are back"})

	report := c.lost(e, going...)
	decided := c.meshWrites(e)[0].Time
	from, until := bounds(report)
	require.NotEmpty(c.t, report.Lossy(), "without reflectors there are no routes, or nothing is measured")
	c.t.Logf("lost from %s after the first went to %s; decided %s after the API knew of all; routes back %s after that",
		from.Sub(e.from).Round(time.Millisecond), until.Sub(e.from).Round(time.Millisecond),
		decided.Sub(known).Round(time.Millisecond), until.Sub(decided).Round(time.Millisecond))
	require.Less(c.t, decided.Sub(known), 2*time.Second, "the mesh is switched on as soon as the API knows")
	require.Less(c.t, until.Sub(decided), 5*time.Second, "the mesh carries everyone")
}
