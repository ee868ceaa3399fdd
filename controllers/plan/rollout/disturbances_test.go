package rollout_test

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/controllers/plan"
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
	"label removed":      onReflector(func(m *machine) { m.RoleLabel = false }),
	"cluster ID removed": onReflector(func(m *machine) { m.ClusterID = "" }),
	"cluster ID changed": onReflector(func(m *machine) { m.ClusterID = "244.0.0.9" }),
	"both removed": onReflector(func(m *machine) {
		m.RoleLabel, m.ClusterID, m.Marked, m.RoleSince = false, "", false, time.Time{}
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
		w.setAlive(true, w.sorted()...)
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
		for _, m := range w.sorted() {
			m.Cordoned = m.Cordoned && m.CordonedByUs
		}
	},
	"cordoned go": func(w *world, _ int) {
		for _, m := range w.sorted() {
			if m.Cordoned && m.Pooled && !m.HoldsRole() {
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
			w.clients()[0].RoleLabel = true
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

// intact: nobody has a disturbance to recover from.
func (w *world) intact() bool {
	if w.robbed || w.now.Sub(w.roleAt) < joinTime {
		return false
	}
	for _, r := range w.reflectors() {
		if !r.Marked || w.now.Sub(r.RoleSince) < joinTime || !w.assigned(r) {
			return false
		}
	}
	return w.peersIntact() && w.allAlive() && !w.strayLabel() && (len(w.peers) != 1 || !w.d.Dedicated)
}

func (w *world) peersIntact() bool {
	for _, p := range w.peers {
		if w.now.Sub(p.Written) < joinTime || p.PeerIP == "" && !strings.Contains(p.PeerSelector, w.d.RoleLabel) {
			return false
		}
	}
	return true
}

func (w *world) strayLabel() bool {
	return slices.ContainsFunc(w.sorted(), func(m *machine) bool { return m.RoleLabel && !m.Marked })
}

func (w *world) allAlive() bool {
	for _, m := range w.nodes {
		if !m.alive || w.now.Sub(m.joined) < joinTime {
			return false
		}
	}
	return true
}

// assigned: the reflector is one of the topology that is wanted.
func (w *world) assigned(r *machine) bool {
	kind := w.d.Topology.Kind
	return (r.ClusterID == w.d.ClusterID || w.tiered()) && (kind == "" || topology.KindOf(r.Slot) == kind)
}

// anyPeer is the BGPPeer between reflectors whose loss costs nobody anything: of the
// topologies that need theirs there is none.
func (w *world) anyPeer() string {
	if _, ok := w.peers[topology.PeerQuorumReflectors]; ok {
		return topology.PeerQuorumReflectors
	}
	return topology.PeerReflectors
}
