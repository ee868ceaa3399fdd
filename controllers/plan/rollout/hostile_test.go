package rollout_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/controllers/plan"
	"github.com/rrpool/rrpool/controllers/plan/rollout"
)

// birdDies kills calico-node on a node that Kubernetes goes on calling Ready.
func (w *world) birdDies(name string) { w.nodes[name].alive = false; w.nextLook = w.now }
func (w *world) birdBack(name string) {
	m := w.nodes[name]
	if !m.alive && m.Ready {
		m.alive, m.joined = true, w.now
	}
}

var hostile = map[string]func(w *world, i int){
	"bird of a reflector dies": func(w *world, i int) {
		if rs := w.reflectors(); len(rs) > 2 && w.intact() {
			w.birdDies(rs[i%len(rs)].Name)
		}
	},
	"bird of a client dies": func(w *world, i int) {
		all := slices.DeleteFunc(w.sorted(), func(m *machine) bool { return m.RoleLabel })
		if len(all) > 0 {
			w.birdDies(all[i%len(all)].Name)
		}
	},
	"birds return": func(w *world, _ int) {
		for _, m := range w.sorted() {
			w.birdBack(m.Name)
		}
	},
	"replaced, new IP":  func(w *world, i int) { w.replace(i, false) },
	"replaced, same IP": func(w *world, i int) { w.replace(i, true) },
	"pair deleted": func(w *world, i int) {
		for _, n := range slices.Sorted(maps.Keys(w.peers)) {
			p := w.peers[n]
			if p.PeerIP != "" && w.intact() {
				delete(w.peers, n)
				w.excusePair(p)
				w.changed()
				return
			}
		}
	},
	"min serving":    func(w *world, i int) { w.d.MinServing = []int{1, 5, 2, 3}[i%4]; w.nextLook = w.now },
	"manager sleeps": func(w *world, i int) { w.asleep = w.now.Add(time.Duration(i*40) * time.Second) },
	"pdb":            func(w *world, i int) { w.pdb = true; w.d.Promotion = v1alpha1.PromotionDrain; w.nextLook = w.now },
	"no pdb":         func(w *world, i int) { w.pdb = false; w.nextLook = w.now },
	"pods unknown":   func(w *world, i int) { w.blind = true; w.nextLook = w.now },
	"pods known":     func(w *world, i int) { w.blind = false; w.nextLook = w.now },
	"immediate":      func(w *world, i int) { w.d.Promotion = v1alpha1.PromotionImmediate; w.nextLook = w.now },
	"problem":        func(w *world, i int) { w.problems = []plan.Problem{{Reason: "X", Message: "x"}}; w.nextLook = w.now },
	"no problem":     func(w *world, i int) { w.problems = nil; w.nextLook = w.now },
	"crash in a longer step": func(w *world, i int) {
		for range 40 {
			w.tick()
			w.nextLook = w.now
			if s := w.manage(i % 4); s != nil && len(s.Actions) > i%4 {
				return
			}
		}
	},
	"all cordoned": func(w *world, _ int) {
		for _, m := range w.sorted() {
			m.Cordoned = true
		}
		w.nextLook = w.now
	},
	"size": func(w *world, i int) { w.d.Pool.SizePerZone = 1 + i%3; w.nextLook = w.now },
	"zone goes": func(w *world, _ int) {
		if z := w.d.Pool.Zones; len(z) > 1 {
			w.d.Pool.Zones = z[:len(z)-1]
			w.nextLook = w.now
		}
	},
	"zone comes": func(w *world, i int) {
		z := fmt.Sprintf("zone-%d", len(w.d.Pool.Zones)+1)
		w.d.Pool.Zones = append(slices.Clone(w.d.Pool.Zones), z)
		w.addNode(fmt.Sprintf("zoned-%02d-%d", i, w.sequence), z, false)
	},
	"kubelet dies": func(w *world, i int) {
		all := w.sorted()
		if m := all[i%len(all)]; m.Ready && m.alive && w.intact() {
			m.Ready, m.ReadyChanged, w.nextLook = false, w.now, w.now
		}
	},
	"candidate dies": func(w *world, _ int) {
		for _, m := range w.sorted() {
			if m.Pooled && !m.RoleLabel && w.intact() {
				w.setAlive(m.Name, false)
				return
			}
		}
	},
}

func (w *world) excusePair(p plan.Peer) {
	w.excused[p.Name] = w.now.Add(3 * joinTime)
}

func (w *world) replace(i int, sameIP bool) {
	all := w.sorted()
	m := all[i%len(all)]
	if !w.intact() || len(w.nodes) < 5 {
		return
	}
	ip, zone := m.Addresses, m.Zone
	w.removeNode(m.Name)
	w.tick()
	n := w.addNode(m.Name, zone, false)
	n.pods = 10
	if sameIP {
		n.Addresses = ip
	}
}

var hostileNames = slices.Concat(slices.Sorted(maps.Keys(hostile)), busyDisturbanceNames, []string{"mesh switched on", "reflector dies", "back to the mesh", "onto reflectors", "crash in a step", "no problem", "no pdb", "pods known", "birds return"})

func TestHostile(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newBusyWorld(rapid.Uint64().Draw(t, "seed"), rapid.IntRange(4, 8).Draw(t, "nodes"), rapid.IntRange(0, 1).Draw(t, "idle"),
			rapid.IntRange(1, 3).Draw(t, "zones"))
		w.stamps = true
		w.regular = rapid.Bool().Draw(t, "regular")
		w.d.Timer = rapid.IntRange(0, 5).Draw(t, "timer") == 0
		if rapid.Bool().Draw(t, "settled") {
			if v := w.settle(); v != "" && !strings.HasPrefix(v, "does not settle") {
				t.Fatalf("%s\n%s", v, strings.Join(w.narrative, "\n"))
			}
		}
		for range rapid.IntRange(1, 8).Draw(t, "events") {
			i := rapid.IntRange(0, 7).Draw(t, "i")
			name := rapid.SampledFrom(hostileNames).Draw(t, "event")
			w.narrative = append(w.narrative, fmt.Sprintf("%s ##### %s %d", w.now.Format("04:05"), name, i))
			if w.d.Timer && strings.HasPrefix(name, "bird of") {
				continue // nobody can see that
			}
			if f := hostile[name]; f != nil {
				f(w, i)
			} else {
				busyDisturbances[name](w, i)
			}
			if v := w.run(rapid.IntRange(0, 300).Draw(t, "pause")); v != "" {
				t.Fatalf("after %q at %s: %s\n%s", name, w.now.Format("04:05"), v, strings.Join(w.narrative, "\n"))
			}
		}
		w.narrative = append(w.narrative, "##### everything returns")
		w.pdb, w.blind, w.problems = false, false, nil
		for _, m := range w.sorted() {
			w.birdBack(m.Name)
			if !m.Ready && m.alive {
				m.Ready, m.ReadyChanged = true, w.now
			}
		}
		busyDisturbances["everything returns"](w, 0)
		w.asleep = time.Time{}
		for _, v := range []string{w.run(60), w.settle()} {
			if v != "" {
				t.Fatalf("%s\n%s", v, strings.Join(w.narrative, "\n"))
			}
		}
		require.Equal(t, w.d.Mode == rollout.Mesh, w.bgp.MeshOn())
		for _, m := range w.nodes {
			require.False(t, m.CordonedByUs, m.Name)
		}
		n := len(w.reflectors())
		if w.d.Mode == rollout.Mesh {
			require.Empty(t, w.peers)
		} else {
			require.Len(t, w.peers, 1+n*(n-1)/2)
		}
	})
}

func TestHostileDedicated(t *testing.T) {
	names := slices.Concat(disturbanceNames, disturbanceNames, []string{"bird of a reflector dies", "bird of a client dies", "birds return", "min serving", "manager sleeps", "problem", "no problem"})
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(rapid.Uint64().Draw(t, "seed"), rapid.IntRange(3, 6).Draw(t, "clients"), rapid.IntRange(1, 3).Draw(t, "zones"))
		w.stamps = true
		w.regular = rapid.Bool().Draw(t, "regular")
		if rapid.Bool().Draw(t, "settled") {
			require.Empty(t, w.settle())
		}
		for range rapid.IntRange(1, 8).Draw(t, "events") {
			i := rapid.IntRange(0, 7).Draw(t, "i")
			name := rapid.SampledFrom(names).Draw(t, "event")
			w.narrative = append(w.narrative, fmt.Sprintf("%s ##### %s %d", w.now.Format("04:05"), name, i))
			if f := hostile[name]; f != nil {
				f(w, i)
			} else {
				disturbances[name](w, i)
			}
			if v := w.run(rapid.IntRange(0, 300).Draw(t, "pause")); v != "" {
				t.Fatalf("after %q at %s: %s\n%s", name, w.now.Format("04:05"), v, strings.Join(w.narrative, "\n"))
			}
		}
		w.problems, w.asleep = nil, time.Time{}
		for _, m := range w.sorted() {
			w.birdBack(m.Name)
			w.setAlive(m.Name, true)
		}
		for _, v := range []string{w.run(60), w.settle()} {
			if v != "" {
				t.Fatalf("%s\n%s", v, strings.Join(w.narrative, "\n"))
			}
		}
		require.Equal(t, w.d.Mode == rollout.Mesh, w.bgp.MeshOn())
	})
}
