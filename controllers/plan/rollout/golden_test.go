package rollout_test

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rrpool/rrpool/config/api/v1alpha1"
)

var update = flag.Bool("update", false, "write the golden narratives anew")

// Each story is told from a migrated cluster, unless it is about getting there: of six nodes in three zones, and in place of seven that
// run pods, the first of which none.
func TestNarratives(t *testing.T) {
	nothing := func(*world) {}
	disturbance := func(name string) func(*world) { return func(w *world) { disturbances[name](w, 0) } }
	first := func(w *world) *machine { return w.nodes["node-01"] }
	for name, tc := range map[string]struct {
		fresh bool
		event func(*world)
	}{
		"migrate":            {true, nothing},
		"back-to-the-mesh":   {false, disturbance("back to the mesh")},
		"mesh-switched-on":   {false, disturbance("mesh switched on")},
		"cluster-id-changed": {false, func(w *world) { w.d.ClusterID = "244.0.0.2" }},
		"bgppeer-edited":     {false, disturbance("peer edited")},
		"bgppeer-deleted":    {false, disturbance("peer deleted")},
		"password-added":     {false, disturbance("password added")},
		"grow":               {false, disturbance("grow")},
		"reflector-cordoned": {false, disturbance("reflector cordoned")},
		"workers-outdated":   {false, disturbance("workers outdated")},
		"shrink": {false, func(w *world) {
			disturbances["grow"](w, 0)
			_ = w.settle()
			w.narrative = nil
			disturbances["shrink"](w, 0)
		}},
		"all-reflectors-lost":            {false, func(w *world) { w.setAlive(false, w.reflectors()...) }},
		"in-place-migrate":               {true, nothing},
		"in-place-migrate-all-with-pods": {true, func(w *world) { first(w).pods, first(w).ControlPlane = 3, false }},
		"in-place-migrate-draining": {true, func(w *world) {
			for _, m := range w.all() {
				m.pods = 2
			}
			w.d.Promotion = v1alpha1.PromotionDrain
		}},
		"in-place-back-to-the-mesh":  {false, disturbance("back to the mesh")},
		"in-place-first-cordoned":    {false, func(w *world) { first(w).Cordoned = true }},
		"in-place-second-cordoned":   {false, func(w *world) { w.nodes["node-02"].Cordoned = true }},
		"in-place-reflector-dies":    {false, func(w *world) { w.setAlive(false, w.nodes["node-02"]) }},
		"in-place-reflector-deleted": {false, func(w *world) { w.removeNode("node-02") }},
		"in-place-label-removed":     {false, func(w *world) { w.nodes["node-02"].HasRoleLabel = false; w.changed() }},
		"in-place-grow":              {false, disturbance("grow")},
		"to-quorum":                  {false, becomes(v1alpha1.TopologyQuorum, 3)},
		"to-hierarchy":               {false, becomes(v1alpha1.TopologyHierarchy, 3)},
		"to-multicluster":            {false, becomes(v1alpha1.TopologyMultiCluster, 3)},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(1, 6, 3)
			if strings.HasPrefix(name, "in-place-") {
				w = newInPlaceWorld(1, 7, 1, 3)
			}
			if w.unstamped = true; !tc.fresh {
				require.Empty(t, w.settle())
				w.narrative = nil
			}
			tc.event(w)
			w.nextLook = w.now
			if name == "all-reflectors-lost" {
				w.runUnchecked(600) // what happens to routes meanwhile is the point of the story
			} else {
				require.Empty(t, w.settle())
			}
			got := strings.Join(w.narrative, "\n") + "\n"
			path := filepath.Join("testdata", name+".log.golden")
			if *update {
				require.NoError(t, os.MkdirAll("testdata", 0o755))
				require.NoError(t, os.WriteFile(path, []byte(got), 0o600))
			}
			want, err := os.ReadFile(path)
			require.NoError(t, err)
			require.Equal(t, string(want), got)
		})
	}
}

// runUnchecked lets the story go on without holding it to the invariants.
func (w *world) runUnchecked(seconds int) {
	w.nextLook = w.now
	for range seconds {
		w.tick()
		w.deploy()
		w.manage(-1)
	}
}
