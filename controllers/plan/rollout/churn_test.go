package rollout_test

import (
	"cmp"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/controllers/plan/rollout"
)

// calm runs a cluster whose nodes only come and go, and of which one flaps: who has had a route
// keeps it, young or old, and after some seconds the cluster is where it should be, and stays.
func (w *world) calm(seconds, within int) string {
	for i := range seconds {
		before := w.apart(func(*machine) bool { return true })
		// While nodes render a change, one that returns may lose what it has just got, and no manager can know it.
		if c := w.nodes["client-02"]; c != nil && w.churn > 0 && w.now.Unix()%45 == 0 && w.now.Sub(w.wroteAt) > 8*time.Second {
			w.setAlive(!c.alive, c)
		}
		w.tick()
		w.deploy()
		s := w.manage(-1)
		if v := cmp.Or(w.newlyApart(before), w.violation()); v != "" {
			return v
		}
		if i > within && !w.asWanted(s) {
			return fmt.Sprintf("after %d s: %d reflectors, %d workers, mesh %t\n%s", i, len(w.reflectors()), len(w.pool.Workers), w.bgp.MeshOn(), w.story())
		}
	}
	return ""
}

// newlyApart names a pair of nodes that had routes before, without an announcement that it loses them.
func (w *world) newlyApart(before [][2]*machine) string {
	for _, p := range w.apart(w.routed) {
		if a, b := p[0], p[1]; !w.announced(a, b) && !slices.Contains(before, p) {
			return fmt.Sprintf("%s has lost its route to %s\n%s", a.Name, b.Name, w.story())
		}
	}
	return ""
}

// routed: the node has pods, and may have had routes a second ago.
func (w *world) routed(m *machine) bool {
	return m.pods > 0 && m.alive && m.joined.Before(w.now.Add(-time.Second))
}

func (w *world) asWanted(s *rollout.Step) bool {
	total := w.d.Pool.SizePerZone * len(w.d.Pool.Zones)
	if w.d.Mode == v1alpha1.ModeFullMesh {
		total = 0
	} else if w.d.Dedicated && (len(w.pool.Workers) != total || w.pool.SizePerZone != w.d.Pool.SizePerZone) {
		return false
	}
	return w.bgp.MeshOn() == (w.d.Mode == v1alpha1.ModeFullMesh) && len(w.reflectors()) == total && (s == nil || s.Name == rollout.Steady)
}

// Nodes that have just come hold back what concerns them, and nothing else.
func TestWithNodesThatComeAndGoEveryStepIsTaken(t *testing.T) {
	netActed := func(w *world) {
		all := w.reflectors()
		w.setAlive(false, all...)
		w.runUnchecked(120)
		w.setAlive(true, all...)
		w.runUnchecked(60)
	}
	shrinks := func(w *world) { w.d.Pool.SizePerZone--; w.nextLook = w.now }
	for name, tc := range map[string]struct {
		clients, every, within int
		do                     func(*world)
	}{
		"the mesh goes after the net has acted":   {6, 290, 900, netActed},
		"the same, a node a minute":               {6, 60, 900, netActed},
		"the same, most nodes are young":          {3, 60, 900, netActed},
		"surplus reflectors leave":                {6, 60, 1500, shrinks},
		"the cluster goes back to the mesh":       {6, 60, 600, func(w *world) { w.d.Mode, w.nextLook = v1alpha1.ModeFullMesh, w.now }},
		"the reflectors change their cluster IDs": {6, 60, 900, func(w *world) { w.d.ClusterID, w.nextLook = "244.0.0.7", w.now }},
	} {
		for _, timer := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, Timer %t", name, timer), func(t *testing.T) {
				t.Parallel()
				w := newWorld(1, tc.clients, 3)
				w.d.Timer, w.d.Pool.SizePerZone = timer, 2
				require.Empty(t, w.settle())
				w.churn = time.Duration(tc.every) * time.Second
				w.runUnchecked(300)
				tc.do(w)
				require.Empty(t, w.calm(tc.within+600, tc.within))
			})
		}
	}
}

// With a disturbance every ten minutes, and nodes that come and go all the time, the cluster gets where it should be, and stays.
func TestBetweenTwoDisturbancesTheClusterGetsWhereItShouldBe(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		seed, nodes := rapid.Uint64().Draw(t, "seed"), rapid.IntRange(4, 6).Draw(t, "clients")
		w, e := newWorld(seed, nodes, 3), dedicatedEvents()
		if rapid.Bool().Draw(t, "in place") {
			w, e = newInPlaceWorld(seed, nodes+9, 0, 3), inPlaceEvents(true)
			// A new zone would get reflectors that leave with their nodes, again and again.
			e.names = slices.DeleteFunc(e.names, func(name string) bool { return name == "zone comes" })
		}
		w.hold(t, w.settle())
		w.churn = time.Duration(rapid.SampledFrom([]int{60, 120, 290}).Draw(t, "churn")) * time.Second
		w.suffer(t, e, func(int) string {
			w.runUnchecked(60)
			w.problems, w.asleep = nil, time.Time{}
			w.everythingReturns()
			w.runUnchecked(540)
			return w.calm(120, 0)
		})
	})
}
