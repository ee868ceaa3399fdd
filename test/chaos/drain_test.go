//go:build linux

package chaos_test

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/test/e2e/site"
	"github.com/rrpool/rrpool/test/lab"
)

// replicated and bare are the nodes that a drained cluster prefers: a ReplicaSet
// has made the pods of the former, and those of the latter have no controller.
var replicated, bare = []string{"infra-0", "infra-1"}, "infra-2"

// byHand is a node that a person has cordoned.
const byHand = "worker-0"

// A cluster without zones gets its reflectors by draining them, and loses all of them together.
func TestDrainedReflectors(t *testing.T) {
	c := start(t, site.Options{Nodes: infraAndWorkers(5)})
	c.stages([]stage{
		{"promotion is Drain", migrateDraining},
		{"all reflectors are shut down in the same second", shutDownTogether},
	})
}

// infraAndWorkers describes a cluster without zones.
func infraAndWorkers(workers int) []lab.NodeSpec {
	infra := map[string]string{"node-role.kubernetes.io/infra": ""}
	specs := []lab.NodeSpec{
		{Name: replicated[0], Labels: infra, Pods: 1, Controlled: true},
		{Name: replicated[1], Labels: infra, Pods: 2, Controlled: true},
		{Name: bare, Labels: infra, Pods: 3},
	}
	for i := range workers {
		specs = append(specs, lab.NodeSpec{Name: fmt.Sprintf("worker-%d", i), Pods: 1})
	}
	return specs
}

// migrateDraining: what can be moved is evicted, what cannot stays, no pod loses anything while it runs, and every
// cordon of ours is undone.
func migrateDraining(c *cluster) {
	stay, err := c.Lab.Pods(c.ctx, bare)
	require.NoError(c.t, err)
	require.Len(c.t, stay, 3)
	require.NoError(c.t, c.Lab.Cordon(c.ctx, byHand))
	e := c.begin("onto drained nodes")
	require.NoError(c.t, c.CreatePool(c.ctx, func(o *v1alpha1.RouteReflectorPool) {
		hasty(o)
		o.Spec.Provider.ExistingNodes.Promotion = v1alpha1.PromotionDrain
		o.Spec.Provider.ExistingNodes.Preferred.MatchLabels = map[string]string{"node-role.kubernetes.io/infra": ""}
	}))
	reflectors := c.waitReflectors("three reflectors", func(h []string) bool { return len(h) == 3 })
	require.Equal(c.t, append(slices.Clone(replicated), bare), reflectors)
	c.requireMesh(false)
	require.Equal(c.t, []string{byHand}, c.cordoned(), "ours are undone, a person's is not")
	left, err := c.Lab.Pods(c.ctx, bare)
	require.NoError(c.t, err)
	require.Subset(c.t, left, stay, "pods without a controller stay")
	events := [][]string{{"PodsStay", bare, stay[0]}}
	for _, n := range replicated {
		events = append(events, []string{"NodeCordoned", n}, []string{"PodsEvicted", n}, []string{"NodeUncordoned", n})
	}
	c.requireEvents(e, events...)
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
