package rollout_test

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/rrpool/rrpool/config/api/v1alpha1"
)

// inPlaceDisturbances are the same where reflectors are ordinary nodes, with cordons,
// selectors and all else that makes them eligible or not.
var inPlaceDisturbances = map[string]func(w *world, i int){
	"label removed": byHand(func(m *machine) { m.RoleLabel = false }),
	"ID removed":    byHand(func(m *machine) { m.ClusterID = "" }),
	"node joins":    func(w *world, i int) { w.addNode(fmt.Sprintf("new-%02d", i), w.d.Pool.Zones[0], false) },
	"node leaves": func(w *world, _ int) {
		for _, m := range w.sorted() {
			if len(w.nodes) > 5 && !m.RoleLabel {
				w.removeNode(m.Name)
				return
			}
		}
	},
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
	"promotion changes": set(func(w *world, i int) {
		w.d.Promotion = []v1alpha1.Promotion{v1alpha1.PromotionDrain, v1alpha1.PromotionCordon, v1alpha1.PromotionStaged}[i%3]
	}),
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
				w.setAlive(false, m)
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
}

func init() {
	for _, name := range []string{
		"crash", "crash in a step", "mesh switched on", "reflector dies", "dead return",
		"grow", "shrink", "back to the mesh", "node label", "onto reflectors",
	} {
		inPlaceDisturbances[name] = disturbances[name]
	}
}

// byHand takes something from a reflector. Others carry its routes if it
// is their client; where there are none, its own pods pay, and no others.
func byHand(edit func(*machine)) func(*world, int) {
	return func(w *world, i int) {
		rs := w.reflectors()
		if len(rs) < 3 || !w.intact() || len(w.problems) > 0 {
			return
		}
		w.robbed = true
		m := rs[i%len(rs)]
		reflectors := 0
		for _, p := range w.peers {
			if p.PeerIP == m.Addresses[0].String() {
				reflectors++
			}
		}
		if reflectors == 0 {
			w.excused[m.Name] = w.byThen()
		}
		edit(m)
		w.lostAt = w.now // with fewer sessions than it should have, until that is put right
		w.changed()
	}
}

// everythingReturns ends what holds the cluster or the manager up, so that it can come to rest.
func (w *world) everythingReturns() {
	w.pdb, w.blind, w.problems, w.asleep = false, false, nil, time.Time{}
	for _, m := range w.sorted() {
		w.birdBack(m.Name)
		if m.alive && !m.Ready {
			m.Ready, m.ReadyChanged = true, w.now
		}
	}
	disturbances["dead return"](w, 0)
	for _, m := range w.sorted() {
		m.Cordoned, m.Leaving = m.Cordoned && m.CordonedByUs, false
	}
	w.d.Excluded = nil
	for len(w.nodes) < w.d.Pool.SizePerZone*len(w.d.Pool.Zones)+2 {
		w.addNode(fmt.Sprintf("late-%02d", len(w.nodes)), w.d.Pool.Zones[len(w.nodes)%len(w.d.Pool.Zones)], false)
	}
	w.nextLook = w.now
}

// byThen is when the manager has put right what is taken now, however long it is away.
func (w *world) byThen() time.Time {
	if w.asleep.After(w.now) {
		return w.asleep.Add(3 * joinTime)
	}
	return w.now.Add(3 * joinTime)
}
