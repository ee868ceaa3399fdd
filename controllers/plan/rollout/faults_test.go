package rollout_test

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/controllers/plan"
)

// faults go further than the disturbances: routing that dies where Kubernetes sees
// nothing, nodes that come back as others, and what the manager leans on failing.
var faults = map[string]func(w *world, i int){
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
	"kubelet dies": func(w *world, i int) {
		all := w.sorted()
		if m := all[i%len(all)]; m.Ready && m.alive && w.intact() {
			m.Ready, m.ReadyChanged, w.nextLook = false, w.now, w.now
		}
	},
	"candidate dies": func(w *world, _ int) {
		for _, m := range w.sorted() {
			if m.Pooled && !m.RoleLabel && w.intact() {
				w.setAlive(false, m)
				return
			}
		}
	},
	"replaced, new IP":  func(w *world, i int) { w.replace(i, false) },
	"replaced, same IP": func(w *world, i int) { w.replace(i, true) },
	"pair deleted": func(w *world, _ int) {
		for _, n := range slices.Sorted(maps.Keys(w.peers)) {
			if p := w.peers[n]; p.PeerIP != "" && w.intact() {
				delete(w.peers, n)
				for _, m := range w.all() {
					if m.Addresses[0].String() == p.PeerIP {
						w.excused[pair(p.Node, m.Name)] = w.byThen()
					}
				}
				w.changed()
				return
			}
		}
	},
	"all cordoned": set(func(w *world, _ int) {
		for _, m := range w.sorted() {
			m.Cordoned = true
		}
	}),
	"min serving":  set(func(w *world, i int) { w.d.MinServing = []int{1, 5, 2, 3}[i%4] }),
	"size":         set(func(w *world, i int) { w.d.Pool.SizePerZone = 1 + i%3 }),
	"immediate":    set(func(w *world, _ int) { w.d.Promotion = v1alpha1.PromotionImmediate }),
	"pdb":          set(func(w *world, _ int) { w.pdb, w.d.Promotion = true, v1alpha1.PromotionDrain }),
	"no pdb":       set(func(w *world, _ int) { w.pdb = false }),
	"pods unknown": set(func(w *world, _ int) { w.blind = true }),
	"pods known":   set(func(w *world, _ int) { w.blind = false }),
	"problem": set(func(w *world, _ int) {
		if !w.robbed { // else what was taken would stay away for as long as the problem lasts
			w.problems = []plan.Problem{{Reason: "X", Message: "x"}}
		}
	}),
	"no problem": set(func(w *world, _ int) { w.problems = nil }),
	"zone goes": set(func(w *world, _ int) {
		if z := w.d.Pool.Zones; len(z) > 1 {
			w.d.Pool.Zones = z[:len(z)-1]
		}
	}),
	"zone comes": func(w *world, i int) {
		z := fmt.Sprintf("zone-%d", len(w.d.Pool.Zones)+1)
		w.d.Pool.Zones = append(slices.Clone(w.d.Pool.Zones), z)
		w.addNode(fmt.Sprintf("zoned-%02d-%d", i, w.sequence), z, false)
	},
	"manager sleeps": func(w *world, i int) { w.asleep = w.now.Add(time.Duration(i*40) * time.Second) },
	"crash in a longer step": func(w *world, i int) {
		for range 40 {
			w.tick()
			w.nextLook = w.now
			if s := w.manage(i % 4); s != nil && len(s.Actions) > i%4 {
				return
			}
		}
	},
}

// set is an event that is noticed at once.
func set(change func(*world, int)) func(*world, int) {
	return func(w *world, i int) {
		change(w, i)
		w.nextLook = w.now
	}
}

// birdDies kills calico-node on a node that Kubernetes goes on calling Ready.
func (w *world) birdDies(name string) { w.nodes[name].alive, w.nextLook = false, w.now }

func (w *world) birdBack(name string) {
	if m := w.nodes[name]; !m.alive && m.Ready {
		m.alive, m.joined = true, w.now
	}
}

// replace sets a node up anew under its name: another machine, with nothing on it.
func (w *world) replace(i int, sameIP bool) {
	all := w.sorted()
	m := all[i%len(all)]
	if !w.intact() || len(w.nodes) < 5 {
		return
	}
	w.removeNode(m.Name)
	w.tick()
	n := w.addNode(m.Name, m.Zone, false)
	n.pods = 10
	if sameIP {
		n.Addresses = m.Addresses
	}
}
