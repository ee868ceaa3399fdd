package rollout_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/labels"
	"pgregory.net/rapid"

	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/controllers/plan"
	"github.com/rrpool/rrpool/controllers/plan/simulate"
	"github.com/rrpool/rrpool/controllers/plan/topology"
)

// disturbances are what one person or one failure does to a cluster.
var disturbances = map[string]func(w *world, i int){
	"crash":           func(w *world, _ int) { w.crash() },
	"crash in a step": func(w *world, i int) { w.tick(); w.nextLook = w.now; w.manage(i % 3) },
	"mesh switched on": func(w *world, _ int) {
		on := true
		w.bgp.Mesh.Enabled = &on
		w.changed()
	},
	"label removed":      onReflector(func(m *machine) { m.HasRoleLabel = false }),
	"cluster ID removed": onReflector(func(m *machine) { m.ClusterID = "" }),
	"cluster ID changed": onReflector(func(m *machine) { m.ClusterID = "244.0.0.9" }),
	"both removed": onReflector(func(m *machine) {
		m.HasRoleLabel, m.ClusterID, m.Marked, m.RoleSince = false, "", false, time.Time{}
	}),
	"peer edited": func(w *world, _ int) {
		if p, ok := w.peers[w.anyPeer()]; ok && w.intact() {
			p.PeerSelector = "has(nothing)"
			w.peers[p.Name] = p
			w.changed()
		}
	},
	"peer deleted": func(w *world, _ int) {
		if w.intact() {
			delete(w.peers, w.anyPeer())
			w.changed()
		}
	},
	"reflector dies": func(w *world, _ int) {
		if rs := w.reflectors(); len(rs) > 2 && w.intact() {
			w.setAlive(false, rs[0])
		}
	},
	"dead return": func(w *world, _ int) {
		w.setAlive(true, w.all()...)
	},
	"client joins": func(w *world, i int) { w.addNode(fmt.Sprintf("new-%02d", i), w.d.Pool.Zones[0], false) },
	"client leaves": func(w *world, _ int) {
		if c := w.clients(); len(c) > 2 {
			w.removeNode(c[0].Name)
		}
	},
	"grow": func(w *world, _ int) { w.d.Pool.SizePerZone++; w.nextLook = w.now },
	"shrink": func(w *world, _ int) {
		if (w.d.Pool.SizePerZone-1)*len(w.d.Pool.Zones) >= 3 {
			w.d.Pool.SizePerZone--
			w.nextLook = w.now
		}
	},
	"reflector cordoned": onReflector(func(m *machine) { m.Cordoned = true }),
	"uncordoned": func(w *world, _ int) {
		for _, m := range w.all() {
			m.Cordoned = m.Cordoned && m.CordonedByUs
		}
	},
	"cordoned go": func(w *world, _ int) {
		for _, m := range w.all() {
			if m.Cordoned && m.Pooled && !m.IsOurs() {
				w.dropWorker(m.WorkerID)
			}
		}
	},
	"workers outdated": set(func(w *world, _ int) {
		for i := range w.pool.Workers {
			w.pool.Workers[i].Outdated = true
		}
	}),
	"another flavor": set(func(w *world, _ int) {
		for i := range w.pool.Workers {
			w.pool.Workers[i].Outdated, w.pool.Workers[i].Former = true, true
		}
	}),
	"back to the mesh": func(w *world, _ int) { w.d.Mode = v1alpha1.ModeFullMesh; w.nextLook = w.now },
	"onto reflectors":  func(w *world, _ int) { w.d.Mode = v1alpha1.ModeRouteReflector; w.nextLook = w.now },
	"password added": set(func(w *world, i int) {
		w.d.Password = &plan.SecretRef{Name: fmt.Sprintf("secret-%d", i), Key: "password"}
	}),
	"node label": func(w *world, i int) { w.relabel([]string{label, "rrpool.io/other"}[i%2]) },
	// With the mesh on, the label alone restarts the node's sessions: the person's
	// doing, before anybody could prevent it.
	"stray label": func(w *world, _ int) {
		if !w.bgp.MeshOn() && w.intact() {
			w.clients()[0].HasRoleLabel = true
			w.changed()
		}
	},
}

// onReflector disturbs one reflector of an intact cluster: what one person does
// to one object must cost nothing; taking two away is the safety net's matter.
func onReflector(edit func(*machine)) func(*world, int) {
	return func(w *world, _ int) {
		if rs := w.reflectors(); len(rs) >= 3 && w.intact() {
			edit(rs[0])
			w.robbed = true
			w.changed()
		}
	}
}

// intact reports whether nothing has happened that the cluster has yet to recover from.
func (w *world) intact() bool {
	young := func(at time.Time) bool { return w.now.Sub(at) < joinTime }
	if w.robbed || young(w.roleAt) || w.d.Dedicated && len(w.peers) == 1 {
		return false
	}
	for _, m := range w.nodes {
		reflects := m.HasRoleLabel && m.ClusterID != ""
		if !m.alive || young(m.joined) || m.HasRoleLabel && !m.Marked || reflects && (young(m.roleAt) || !w.assigned(m)) {
			return false
		}
	}
	for _, p := range w.peers {
		if young(w.wroteAt) || p.PeerIP == "" && !strings.Contains(p.PeerSelector, w.d.RoleLabel) {
			return false
		}
	}
	return true
}

// assigned reports whether a reflector is one of the topology that is wanted. Where cluster IDs differ, a route may be reflected more than once.
func (w *world) assigned(r *machine) bool {
	kind, ids := w.d.Topology.Kind, map[string]bool{"": true}
	for _, m := range w.nodes {
		ids[m.ClusterID] = true
	}
	return (r.ClusterID == w.d.ClusterID || len(ids) > 2) && (kind == "" || topology.KindOf(r.Slot) == kind)
}

// anyPeer is the BGPPeer between reflectors whose loss costs nobody anything: of the
// topologies that need theirs there is none.
func (w *world) anyPeer() string {
	if _, ok := w.peers[topology.PeerQuorumReflectors]; ok {
		return topology.PeerQuorumReflectors
	}
	return topology.PeerReflectors
}

// inPlaceDisturbances are the same where reflectors are ordinary nodes, with cordons,
// selectors and all else that makes them eligible or not.
var inPlaceDisturbances = map[string]func(w *world, i int){
	"label removed": byHand(func(m *machine) { m.HasRoleLabel = false }),
	"ID removed":    byHand(func(m *machine) { m.ClusterID = "" }),
	"node joins":    func(w *world, i int) { w.addNode(fmt.Sprintf("new-%02d", i), w.d.Pool.Zones[0], false) },
	"node leaves": func(w *world, _ int) {
		for _, m := range w.all() {
			if len(w.nodes) > 5 && !m.HasRoleLabel {
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
		for _, m := range w.all() {
			if m.Zone == zone {
				w.setAlive(false, m)
			}
		}
	},
	"all marks removed": byHand(func(m *machine) {
		m.HasRoleLabel, m.ClusterID, m.Marked, m.RoleSince = false, "", false, time.Time{}
	}),
	"pool label removed": func(w *world, i int) {
		if rs := w.reflectors(); len(rs) > 0 {
			rs[i%len(rs)].Pooled = false
			w.nextLook = w.now
		}
	},
	"excluded": func(w *world, i int) {
		all := w.all()
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
	w.repair()
	for _, m := range w.all() {
		w.birdBack(m.Name)
		if m.alive && !m.Ready {
			m.Ready, m.ReadyChanged = true, w.now
		}
	}
	disturbances["dead return"](w, 0)
	for _, m := range w.all() {
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

// events are what may happen; a name that is listed twice is twice as likely.
type events struct {
	happen map[string]func(*world, int)
	names  []string
}

func eventsOf(these map[string]func(*world, int)) events {
	e := events{happen: maps.Clone(these), names: slices.Sorted(maps.Keys(these))}
	maps.Copy(e.happen, faults)
	maps.Copy(e.happen, blindness)
	return e
}

// dedicatedEvents leaves out the faults that only nodes with pods have.
func dedicatedEvents() events {
	e := eventsOf(disturbances)
	e.names = slices.Concat(e.names, e.names, []string{
		"bird of a reflector dies", "bird of a client dies", "birds return", "min serving", "manager sleeps", "problem", "no problem",
	}, slices.Sorted(maps.Keys(blindness)))
	return e
}

// busyEvents are all there are. Where nobody asks for reports, nobody can see that a BIRD is dead.
func inPlaceEvents(reports bool) events {
	e := eventsOf(inPlaceDisturbances)
	e.names = slices.Concat(e.names, slices.Sorted(maps.Keys(faults)), slices.Sorted(maps.Keys(blindness)), []string{
		"mesh switched on", "reflector dies", "back to the mesh", "onto reflectors", "crash in a step",
		"no problem", "no pdb", "pods known", "birds return",
	})
	e.names = slices.DeleteFunc(e.names, func(name string) bool {
		return !reports && (strings.HasPrefix(name, "bird of") || name == "packets get lost" || name == "bird6 dies")
	})
	return e
}

// suffer lets some events happen, one after the other, and time pass after each.
func (w *world) suffer(t *rapid.T, e events, pass func(seconds int) string) {
	t.Helper()
	w.dies = rapid.SampledFrom([]simulate.Outage{simulate.ShutDown, simulate.Killed, simulate.Silent}).Draw(t, "dies")
	for range rapid.IntRange(1, 8).Draw(t, "events") {
		i := rapid.IntRange(0, 7).Draw(t, "i")
		name := rapid.SampledFrom(e.names).Draw(t, "event")
		w.narrative = append(w.narrative, fmt.Sprintf("%s ##### %s %d", w.now.Format("04:05"), name, i))
		e.happen[name](w, i)
		w.hold(t, pass(rapid.IntRange(0, 300).Draw(t, "pause")))
	}
}
