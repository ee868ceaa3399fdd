package rollout_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/rrpool/rrpool/config/api/v1alpha1"
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
	if v := w.atOdds(); v != "" {
		return v
	}
	if w.cleared > 1 {
		return fmt.Sprintf("3: %d reflectors removed in one step", w.cleared)
	}
	return ""
}

// unreachable: no two ready workload nodes are ever without a route to each other.
func (w *world) unreachable() string {
	waits := func(m *machine) bool { return m.pods > 0 && w.old(m) }
	for _, p := range w.apart(waits) {
		if a, b := p[0], p[1]; !w.announced(a, b) {
			return fmt.Sprintf("1: %s has no route to %s", a.Name, b.Name)
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
	alive, reflectors := 0, w.reflectors()
	for _, r := range reflectors {
		if w.old(r) && w.now.Sub(r.RoleSince) > joinTime {
			alive++
		}
	}
	for _, c := range w.clients() {
		if c.RoleLabel || w.now.Before(w.excused[c.Name]) {
			continue // it reflects, and is reached directly
		}
		up := w.servedBy(c, reflectors)
		if w.old(c) && up < min(2, alive, w.atLeast) {
			return fmt.Sprintf("2: the mesh is off and %s has %d reflector sessions of %d", c.Name, up, alive)
		}
	}
	return ""
}

// servedBy counts those of the reflectors that a node has a session with.
func (w *world) servedBy(c *machine, reflectors []*machine) int {
	up := 0
	for _, r := range reflectors {
		if w.connected(c, r) {
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

const unsettled = "does not settle"

// settle runs until the manager has been at rest for two minutes.
func (w *world) settle() string {
	rest := 0
	for range 3600 { // an hour
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
	return unsettled + ":\n" + strings.Join(w.narrative[max(0, len(w.narrative)-5):], "\n")
}

func TestMigrationAndReturnHoldTheInvariants(t *testing.T) {
	t.Parallel()
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

		w.d.Mode = v1alpha1.ModeFullMesh
		require.Empty(t, w.settle())
		require.Equal(t, before, w.bgp, "the BGPConfiguration is exactly what it was")
		require.Empty(t, w.reflectors())
		require.Empty(t, w.peers)
		require.Empty(t, w.watches)
	})
}

// Drift, failures of one reflector, joining and leaving nodes, resizing, changes of
// mode, BIRDs that die unnoticed and crashes in the middle of a step, in any order.
func TestAnyOrderOfDisturbancesHoldsTheInvariants(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(rapid.Uint64().Draw(t, "seed"), rapid.IntRange(3, 6).Draw(t, "clients"), rapid.IntRange(1, 3).Draw(t, "zones"))
		w.regular = rapid.Bool().Draw(t, "regular")
		if rapid.Bool().Draw(t, "settled") {
			w.hold(t, w.settle())
		}
		w.suffer(t, dedicatedEvents(), w.run)
		w.mend(t)
	})
}

// mend ends all failures, and demands that the cluster gets where it should be.
func (w *world) mend(t *rapid.T) {
	w.problems, w.asleep = nil, time.Time{}
	for _, m := range w.sorted() {
		w.birdBack(m.Name)
		w.setAlive(true, m)
	}
	w.hold(t, w.run(60))
	w.hold(t, w.settle())
	require.Equal(t, w.d.Mode == v1alpha1.ModeFullMesh, w.bgp.MeshOn())
}

// hold tells the whole story of a broken invariant.
func (w *world) hold(t *rapid.T, violation string) {
	t.Helper()
	if violation != "" {
		t.Fatalf("at %s: %s\n%s", w.now.Format("04:05"), violation, strings.Join(w.narrative, "\n"))
	}
}
