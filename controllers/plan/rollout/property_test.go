package rollout_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/rrpool/rrpool/controllers/plan"
	"github.com/rrpool/rrpool/controllers/plan/rollout"
)

// joinTime is how long a node that has just come may be without its sessions:
// rendering on both sides and the longest session start of the model.
const joinTime = 40 * time.Second

// violation names the first broken invariant, "" when all hold.
func (w *world) violation() string {
	if v := w.unreachable(); v != "" {
		return v
	}
	if v := w.underserved(); v != "" {
		return v
	}
	if w.cleared > 1 {
		return fmt.Sprintf("3: %d reflectors removed in one step", w.cleared)
	}
	return ""
}

// unreachable: no two ready workload nodes are ever without a route to each other.
func (w *world) unreachable() string {
	clients := slices.DeleteFunc(w.clients(), func(m *machine) bool { return !w.old(m) })
	for _, a := range clients {
		for _, b := range clients {
			if a != b && !w.reaches(b, a) && !w.announced(a, b) {
				return fmt.Sprintf("1: %s has no route to %s", a.Name, b.Name)
			}
		}
	}
	return ""
}

// underserved: the mesh is never off while a ready client has fewer than
// min(2, reflectors) Established reflector sessions.
func (w *world) underserved() string {
	if w.bgp.MeshOn() || w.now.Sub(w.lostAt) < recovery {
		return ""
	}
	alive := 0
	for _, r := range w.reflectors() {
		if w.old(r) && w.now.Sub(r.RoleSince) > joinTime {
			alive++
		}
	}
	for _, c := range w.clients() {
		if c.RoleLabel || w.now.Before(w.excused[c.Name]) {
			continue // it reflects, and is reached directly
		}
		up := w.servedBy(c)
		if w.old(c) && up < min(2, alive) {
			return fmt.Sprintf("2: the mesh is off and %s has %d reflector sessions of %d", c.Name, up, alive)
		}
	}
	return ""
}

// servedBy counts the reflectors that a node has a session with.
func (w *world) servedBy(c *machine) int {
	up := 0
	for _, r := range w.reflectors() {
		if w.session(c.Name, r.Name).up {
			up++
		}
	}
	return up
}

func (w *world) old(m *machine) bool { return m.alive && w.now.Sub(m.joined) > joinTime }

// run lets seconds pass and stops at the first violation.
func (w *world) run(seconds int) string {
	for range seconds {
		w.tick()
		w.deploy()
		w.manage(-1)
		if v := w.violation(); v != "" {
			return v
		}
	}
	return ""
}

// settle runs until the manager has been at rest for two minutes.
func (w *world) settle() string {
	rest := 0
	for range 3600 {
		w.tick()
		w.deploy()
		before := w.writes
		w.nextLook = w.now // look every second, so that rest is rest
		s := w.manage(-1)
		if v := w.violation(); v != "" {
			return v
		}
		if rest++; w.writes != before || s.Name != rollout.Steady {
			rest = 0
		}
		if rest == 120 {
			return ""
		}
	}
	return "does not settle:\n" + strings.Join(w.narrative[max(0, len(w.narrative)-5):], "\n")
}

func TestMigrationAndReturnHoldTheInvariants(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(rapid.Uint64().Draw(t, "seed"), rapid.IntRange(2, 9).Draw(t, "clients"), rapid.IntRange(1, 3).Draw(t, "zones"))
		if rapid.Bool().Draw(t, "password") {
			w.bgp = plan.BGPConfig{Exists: true, ASN: 64512, Mesh: plan.Mesh{Password: &plan.SecretRef{Name: "bgp", Key: "password"}}}
			w.changed()
			for range 60 {
				w.tick() // the sessions restart with the password before the story begins
			}
		}
		before := w.bgp
		w.nextLook = w.now
		require.Empty(t, w.settle())
		require.False(t, w.bgp.MeshOn())
		require.Len(t, w.reflectors(), w.d.Pool.SizePerZone*len(w.d.Pool.Zones))
		require.Len(t, w.watches, len(w.reflectors()), "one status a reflector, whatever the cluster's size")

		w.d.Mode = rollout.Mesh
		require.Empty(t, w.settle())
		require.Equal(t, before, w.bgp, "the BGPConfiguration is exactly what it was")
		require.Empty(t, w.reflectors())
		require.Empty(t, w.peers)
		require.Empty(t, w.watches)
	})
}

// Drift, failures of one reflector, joining and leaving nodes, resizing, changes
// of mode and crashes in the middle of a step, in any order.
func TestAnyOrderOfDisturbancesHoldsTheInvariants(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(rapid.Uint64().Draw(t, "seed"), rapid.IntRange(3, 6).Draw(t, "clients"), rapid.IntRange(1, 3).Draw(t, "zones"))
		w.regular = rapid.Bool().Draw(t, "regular")
		for i := range rapid.IntRange(1, 8).Draw(t, "events") {
			name := rapid.SampledFrom(disturbanceNames).Draw(t, "event")
			disturbances[name](w, i)
			if v := w.run(rapid.IntRange(0, 240).Draw(t, "pause")); v != "" {
				t.Fatalf("after %q: %s\n%s", name, v, strings.Join(w.narrative, "\n"))
			}
		}
		for _, m := range w.sorted() {
			w.setAlive(m.Name, true)
		}
		if v := w.run(60); v != "" {
			t.Fatalf("%s\n%s", v, strings.Join(w.narrative, "\n"))
		}
		if v := w.settle(); v != "" {
			t.Fatalf("%s\n%s", v, strings.Join(w.narrative, "\n"))
		}
		require.Equal(t, w.d.Mode == rollout.Mesh, w.bgp.MeshOn())
	})
}

var disturbanceNames = []string{
	"crash", "crash in a step", "mesh switched on", "label removed", "cluster ID removed", "cluster ID changed",
	"both removed", "peer edited", "peer deleted", "reflector dies", "dead return", "client joins", "client leaves",
	"grow", "shrink", "back to the mesh", "onto reflectors", "password added", "stray label",
}

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
		if p, ok := w.peers["rrpool-reflectors"]; ok && w.intact() {
			p.PeerSelector = "has(nothing)"
			w.peers[p.Name] = p
			w.changed()
		}
	},
	"peer deleted": func(w *world, _ int) {
		if w.intact() {
			delete(w.peers, "rrpool-reflectors")
			w.changed()
		}
	},
	"reflector dies": func(w *world, _ int) {
		if rs := w.reflectors(); len(rs) > 2 && w.intact() {
			w.setAlive(rs[0].Name, false)
		}
	},
	"dead return": func(w *world, _ int) {
		for _, m := range w.sorted() {
			w.setAlive(m.Name, true)
		}
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
	"back to the mesh": func(w *world, _ int) { w.d.Mode = rollout.Mesh; w.nextLook = w.now },
	"onto reflectors":  func(w *world, _ int) { w.d.Mode = rollout.Reflect; w.nextLook = w.now },
	"password added": func(w *world, i int) {
		w.d.Password = &plan.SecretRef{Name: fmt.Sprintf("secret-%d", i), Key: "password"}
		w.nextLook = w.now
	},
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
			w.changed()
		}
	}
}

// intact: nobody has a disturbance to recover from.
func (w *world) intact() bool {
	if w.now.Sub(w.roleAt) < joinTime {
		return false
	}
	for _, r := range w.reflectors() {
		if !r.Marked || w.now.Sub(r.RoleSince) < joinTime || r.ClusterID != w.d.ClusterID {
			return false
		}
	}
	return w.peersIntact() && w.allAlive() && !w.strayLabel() && (len(w.peers) != 1 || !w.d.Dedicated)
}

func (w *world) peersIntact() bool {
	for _, p := range w.peers {
		if w.now.Sub(p.Written) < joinTime || p.PeerIP == "" && p.PeerSelector != "has("+label+")" {
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
