package rollout_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/labels"
	"pgregory.net/rapid"

	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/controllers/plan"
	"github.com/rrpool/rrpool/controllers/plan/rollout"
)

// announced: a step has said that these two would lose each other.
func (w *world) announced(a, b *machine) bool {
	for name, until := range w.excused {
		pair := strings.HasPrefix(name, "rrpool.") && strings.Contains(name, a.Name) && strings.Contains(name, b.Name)
		if (name == a.Name || name == b.Name || pair) && w.now.Before(until) {
			return true
		}
	}
	return false
}

func TestBusyNodesMigrateAndReturnWithoutLosingARoute(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newBusyWorld(rapid.Uint64().Draw(t, "seed"), rapid.IntRange(5, 9).Draw(t, "nodes"), rapid.IntRange(0, 2).Draw(t, "idle"),
			rapid.IntRange(1, 3).Draw(t, "zones"))
		w.d.Promotion = rapid.SampledFrom([]v1alpha1.Promotion{
			v1alpha1.PromotionStaged, v1alpha1.PromotionCordon, v1alpha1.PromotionDrain, v1alpha1.PromotionImmediate,
		}).Draw(t, "promotion")
		if v := w.settle(); v != "" {
			t.Fatalf("%s\n%s", v, strings.Join(w.narrative, "\n"))
		}
		require.False(t, w.bgp.MeshOn())
		require.Len(t, w.reflectors(), w.d.Pool.SizePerZone*len(w.d.Pool.Zones))
		require.Len(t, w.watches, len(w.reflectors()), "one status a reflector, whatever the cluster's size")

		w.d.Mode = rollout.Mesh
		if v := w.settle(); v != "" {
			t.Fatalf("%s\n%s", v, strings.Join(w.narrative, "\n"))
		}
		require.Empty(t, w.reflectors())
		require.Empty(t, w.peers)
		for _, m := range w.nodes {
			require.False(t, m.Cordoned || m.Pooled, m.Name)
		}
	})
}

// The same with anything happening in between.
func TestBusyNodesHoldTheInvariantsInAnyOrderOfDisturbances(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newBusyWorld(rapid.Uint64().Draw(t, "seed"), rapid.IntRange(5, 8).Draw(t, "nodes"), rapid.IntRange(0, 1).Draw(t, "idle"),
			rapid.IntRange(1, 3).Draw(t, "zones"))
		w.regular = rapid.Bool().Draw(t, "regular")
		for i := range rapid.IntRange(1, 8).Draw(t, "events") {
			name := rapid.SampledFrom(busyDisturbanceNames).Draw(t, "event")
			busyDisturbances[name](w, i)
			if v := w.run(rapid.IntRange(0, 300).Draw(t, "pause")); v != "" {
				t.Fatalf("after %q: %s\n%s", name, v, strings.Join(w.narrative, "\n"))
			}
		}
		busyDisturbances["everything returns"](w, 0)
		if v := w.run(60); v != "" {
			t.Fatalf("%s\n%s", v, strings.Join(w.narrative, "\n"))
		}
		if v := w.settle(); v != "" {
			t.Fatalf("%s\n%s", v, strings.Join(w.narrative, "\n"))
		}
		require.Equal(t, w.d.Mode == rollout.Mesh, w.bgp.MeshOn())
		for _, m := range w.nodes {
			require.False(t, m.CordonedByUs, m.Name)
		}
	})
}

var busyDisturbanceNames = []string{
	"crash", "crash in a step", "mesh switched on", "label removed", "reflector dies", "dead return", "node joins", "node leaves",
	"grow", "shrink", "back to the mesh", "onto reflectors", "reflector cordoned", "uncordon", "promotion changes",
	"reflector deleted", "zone cut", "all marks removed", "ID removed", "pool label removed", "excluded", "included", "leaving",
}

var busyDisturbances = map[string]func(w *world, i int){
	"crash":            disturbances["crash"],
	"crash in a step":  disturbances["crash in a step"],
	"mesh switched on": disturbances["mesh switched on"],
	"label removed":    byHand(func(m *machine) { m.RoleLabel = false }),
	"ID removed":       byHand(func(m *machine) { m.ClusterID = "" }),
	"reflector dies":   disturbances["reflector dies"],
	"dead return":      disturbances["dead return"],
	"node joins":       func(w *world, i int) { w.addNode(fmt.Sprintf("new-%02d", i), w.d.Pool.Zones[0], false) },
	"node leaves": func(w *world, _ int) {
		for _, m := range w.sorted() {
			if len(w.nodes) > 5 && !m.RoleLabel {
				w.removeNode(m.Name)
				return
			}
		}
	},
	"grow":             disturbances["grow"],
	"shrink":           disturbances["shrink"],
	"back to the mesh": disturbances["back to the mesh"],
	"onto reflectors":  disturbances["onto reflectors"],
	"reflector cordoned": func(w *world, i int) {
		if rs := w.reflectors(); len(rs) > 0 {
			m := rs[i%len(rs)]
			m.Cordoned = true
			w.nextLook = w.now
		}
	},
	"uncordon": func(w *world, _ int) {
		for _, m := range w.nodes {
			if !m.CordonedByUs {
				m.Cordoned = false
			}
		}
		w.nextLook = w.now
	},
	"promotion changes": func(w *world, i int) {
		w.d.Promotion = []v1alpha1.Promotion{v1alpha1.PromotionDrain, v1alpha1.PromotionCordon, v1alpha1.PromotionStaged}[i%3]
		w.nextLook = w.now
	},
	"reflector deleted": func(w *world, i int) {
		if rs := w.reflectors(); len(rs) > 2 && w.intact() && len(w.nodes) > 5 {
			w.removeNode(rs[i%len(rs)].Name)
		}
	},
	"zone cut": func(w *world, i int) {
		zone, left := w.d.Pool.Zones[i%len(w.d.Pool.Zones)], 0
		for _, r := range w.reflectors() {
			if r.Zone != zone {
				left++
			}
		}
		if left < 2 || !w.intact() {
			return
		}
		for _, m := range w.sorted() {
			if m.Zone == zone {
				w.setAlive(m.Name, false)
			}
		}
	},
	"all marks removed": byHand(func(m *machine) {
		m.RoleLabel, m.ClusterID, m.Marked, m.RoleSince = false, "", false, time.Time{}
	}),
	"pool label removed": func(w *world, i int) {
		if rs := w.reflectors(); len(rs) > 0 {
			rs[i%len(rs)].Pooled = false
			w.nextLook = w.now
		}
	},
	"excluded": func(w *world, i int) {
		all := w.sorted()
		all[i%len(all)].Labels = map[string]string{"excluded": "yes"}
		w.d.Excluded = labels.SelectorFromSet(labels.Set{"excluded": "yes"})
		w.nextLook = w.now
	},
	"included": func(w *world, _ int) { w.d.Excluded, w.nextLook = nil, w.now },
	"leaving": func(w *world, i int) {
		if rs := w.reflectors(); len(rs) > 0 {
			rs[i%len(rs)].Leaving = true
			w.nextLook = w.now
		}
	},
	"everything returns": func(w *world, i int) {
		disturbances["dead return"](w, i)
		for _, m := range w.sorted() {
			m.Cordoned, m.Leaving = m.Cordoned && m.CordonedByUs, false
		}
		w.d.Excluded = nil
		for len(w.nodes) < w.d.Pool.SizePerZone*len(w.d.Pool.Zones)+2 {
			w.addNode(fmt.Sprintf("late-%02d", len(w.nodes)), w.d.Pool.Zones[len(w.nodes)%len(w.d.Pool.Zones)], false)
		}
		w.nextLook = w.now
	},
}

// byHand takes something from a reflector. Others carry its routes if they are
// senior to it; where nobody is, its own pods pay, and nobody else's.
func byHand(edit func(*machine)) func(*world, int) {
	return func(w *world, i int) {
		rs := w.reflectors()
		if len(rs) < 3 || !w.intact() {
			return
		}
		m := rs[i%len(rs)]
		seniors := 0
		for _, p := range w.peers {
			if p.PeerIP == m.Addresses[0].String() {
				seniors++
			}
		}
		if seniors == 0 {
			w.excused[m.Name] = w.now.Add(3 * joinTime)
		}
		edit(m)
		w.lostAt = w.now // with fewer sessions than it should have, until that is put right
		w.changed()
	}
}

// The order that everybody uses: role and cluster ID at once, nothing prepared.
func TestAnImmediatePromotionCutsTheNodeOffInTheModelToo(t *testing.T) {
	w := newBusyWorld(1, 6, 1, 3)
	require.Empty(t, w.settle())
	w.apply(plan.SetReflector{Node: "node-05", ClusterID: w.d.ClusterID})
	lost := ""
	for range 60 {
		w.tick()
		if v := w.unreachable(); v != "" && lost == "" {
			lost = v
		}
	}
	require.Contains(t, lost, "node-05")
}
