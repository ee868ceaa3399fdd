package rollout_test

import (
	"cmp"
	"flag"
	"fmt"
	"maps"
	"os"
	"runtime/debug"
	"slices"
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

// TestMain makes the properties try 25 cases each, and the same ones each time, where nobody asks
// for another number with -rapid.checks or for others with -rapid.seed: what passed yesterday fails
// today because of a change, and of nothing else. make soak draws two hundred new ones. The model
// keeps little memory and throws much away: collected seldom, a third less time goes into it.
func TestMain(m *testing.M) {
	debug.SetGCPercent(1600)
	flag.Parse()
	asked := false
	flag.Visit(func(f *flag.Flag) { asked = asked || strings.HasPrefix(f.Name, "rapid.") })
	if !asked {
		for name, value := range map[string]string{"rapid.checks": "25", "rapid.seed": "1"} {
			if err := flag.Set(name, value); err != nil {
				panic(err)
			}
		}
	}
	os.Exit(m.Run())
}

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
	if v := cmp.Or(w.atOdds(), w.multiplied()); v != "" {
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
	before, noticed := w.apartSince, 5*time.Minute
	if slices.ContainsFunc(w.reflectors(), func(m *machine) bool { return m.hung || m.unmade || m.garbled }) {
		noticed = 20 * time.Minute
	}
	w.apartSince = map[[2]*machine]time.Time{}
	for _, p := range w.apart(waits) {
		if w.apartSince[p] = before[p]; before[p].IsZero() {
			w.apartSince[p] = w.now
		}
		if a, b := p[0], p[1]; !w.announced(a, b) {
			return fmt.Sprintf("1: %s has no route to %s", a.Name, b.Name)
		} else if w.last == rollout.Steady && !w.d.Timer && w.now.Sub(w.apartSince[p]) > noticed {
			return fmt.Sprintf("6: it is Steady, and %s has no route to %s", a.Name, b.Name)
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
		if w.old(r) && w.now.Sub(r.roleAt) > joinTime {
			alive++
		}
	}
	for _, c := range w.clients() {
		if c.HasRoleLabel || w.now.Before(w.excused[c.Name]) {
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
		if rest%5 == 0 { // look often, so that rest is rest
			w.nextLook = w.now
		}
		w.manage(-1)
		if v := w.violation(); v != "" {
			return v
		}
		if rest++; w.writes != before || w.last != rollout.Steady {
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
		w.drawFamilies(t)
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
	w.repair()
	for _, m := range w.all() {
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
	routed := func(m *machine) bool { return m.pods > 0 && m.alive && m.joined.Before(w.now.Add(-time.Second)) }
	for _, p := range w.apart(routed) {
		if a, b := p[0], p[1]; !w.announced(a, b) && !slices.Contains(before, p) {
			return fmt.Sprintf("%s has lost its route to %s\n%s", a.Name, b.Name, w.story())
		}
	}
	return ""
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
			w.d.RemovalDelay = 20 * time.Second // roles rest for ten times that
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

// Whatever is broken for good, after forty minutes nothing is written any more but
// what asks for reports and evicts pods.
func TestNothingIsWrittenForEver(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		w := drawInPlaceWorld(t, rapid.IntRange(3, 8), rapid.IntRange(0, 1))
		w.d.Timer = rapid.IntRange(0, 5).Draw(t, "timer") == 0
		w.d.Promotion = promotions.Draw(t, "promotion")
		w.suffer(t, inPlaceEvents(true), func(seconds int) string {
			w.runUnchecked(seconds)
			return ""
		})
		w.runUnchecked(2400)
		w.narrative = append(w.narrative, "##### at rest?")
		if wrote := w.writesIn(1800); len(wrote) > 0 {
			t.Fatalf("%v\n%s", wrote, strings.Join(w.narrative[max(0, len(w.narrative)-60):], "\n"))
		}
	})
}

// writesIn counts what the manager writes meanwhile, by what it is.
func (w *world) writesIn(seconds int) map[string]int {
	wrote := map[string]int{}
	for range seconds {
		w.tick()
		s := w.manage(-1)
		if s == nil || s.Problem != nil {
			continue
		}
		for _, a := range s.Actions {
			switch a.(type) {
			case plan.RefreshStatus, plan.DrainNode:
			default:
				wrote[a.String()]++
			}
		}
	}
	return wrote
}

// The control: at rest nothing is counted, and what is written is.
func TestWritesAreCounted(t *testing.T) {
	w := atRest(t, newInPlaceWorld(1, 7, 1, 3))
	require.Empty(t, w.writesIn(600))
	w.nodes["node-02"].HasRoleLabel = false
	w.changed()
	require.Equal(t, map[string]int{plan.SetReflector{Node: "node-02", ClusterID: w.d.ClusterID}.String(): 1}, w.writesIn(600))
}

// specChanges are a change of each field of the spec that a Desired comes of.
var specChanges = map[string]func(*world){
	"nodeLabel":         func(w *world) { w.relabel("rrpool.io/other") },
	"passwordSecretRef": func(w *world) { w.d.Password = &plan.SecretRef{Name: "new", Key: "password"} },
	"clusterID":         func(w *world) { w.d.ClusterID, w.d.Topology.ClusterID = "10.9.0.1", "10.9.0.1" },
	"redundancy":        func(w *world) { w.d.Topology.Redundancy = 3 },
	"maxClients":        func(w *world) { w.d.Topology.MaxClients = 9 },
	"maxPaths":          func(w *world) { w.d.Topology.MaxPaths = 32 },
	"rackLabel":         func(w *world) { w.d.Topology.RackLabel = "rack" },
	"racks called like other zones": func(w *world) {
		for i, m := range w.all() {
			m.Labels["rack"] = w.d.Pool.Zones[2-i%3]
		}
		w.d.Topology.RackLabel = "rack"
		w.changed()
	},
	"nodeLabel and back to the mesh": func(w *world) { w.relabel("rrpool.io/other"); w.d.Mode = v1alpha1.ModeFullMesh },
	"zoneLabel": func(w *world) {
		for _, m := range w.all() { // a dedicated node is where its provider says
			if w.d.Topology.ZoneLabel = "rack"; !w.d.Dedicated {
				m.Zone, w.d.Pool.Zones = m.Labels["rack"], []string{"a", "b", "c"}
			}
		}
	},
	"larger":         func(w *world) { w.d.Pool.SizePerZone++ },
	"smaller":        func(w *world) { w.d.Pool.SizePerZone-- },
	"another zone":   func(w *world) { w.d.Pool.Zones = append(slices.Clone(w.d.Pool.Zones[1:]), "zone-4") },
	"gate":           func(w *world) { w.d.Timer = !w.d.Timer },
	"promotion":      func(w *world) { w.d.Promotion = v1alpha1.PromotionDrain },
	"preferred":      func(w *world) { w.d.Preferred = labels.SelectorFromSet(labels.Set{"rack": "a"}) },
	"excluded":       func(w *world) { w.d.Excluded = labels.SelectorFromSet(labels.Set{"rack": "a"}) },
	"sessionTimeout": func(w *world) { w.d.SessionTimeout = time.Second },
	"notReadyGrace":  func(w *world) { w.d.NotReadyGrace = 0 },
	"removalDelay":   func(w *world) { w.d.RemovalDelay = 0 },
	"minServing":     func(w *world) { w.d.MinServing = 9 },
	"after":          func(w *world) { w.d.NetAfter = 0 },
}

// relabel makes another label that of the role. The one before stays on the nodes.
func (w *world) relabel(key string) {
	for _, m := range w.all() {
		if m.Labels = maps.Clone(m.Labels); m.HasRoleLabel && !m.Relabel {
			m.Labels[w.d.RoleLabel] = m.Slot
		}
		if slot, labelled := m.Labels[key]; labelled {
			m.HasRoleLabel, m.Slot, m.Relabel = true, slot, false
			delete(m.Labels, key) // Slot says it
		} else {
			m.HasRoleLabel = m.HasRoleLabel && m.Marked
			m.Relabel = m.HasRoleLabel
		}
	}
	w.d.RoleLabel, w.d.Topology.RoleLabel, w.nextLook = key, key, w.now
	w.changed()
}

// A change of the spec costs a cluster at rest no packet, but for what a step announces.
func TestAChangeOfAnyFieldOfTheSpecLosesNothing(t *testing.T) {
	t.Parallel()
	for _, kind := range append(slices.Clone(kinds), "existing nodes") {
		for name, change := range specChanges {
			t.Run(string(kind)+", "+name, func(t *testing.T) {
				t.Parallel()
				w := newInPlaceWorld(7, 8, 0, 3)
				if kind != "existing nodes" {
					w = newWorld(7, 9, 3)
					require.Empty(t, w.want(kind, 2, 3))
				}
				for i, m := range w.all() {
					m.Labels["rack"] = string(rune('a' + i%3))
				}
				w.atLeast = 1
				require.Empty(t, w.settle(), w.story())
				w.narrative, w.restores = nil, 0
				if change(w); w.d.Dedicated && w.arrange(w.d.Topology, w.d.Pool.SizePerZone*len(w.d.Pool.Zones)) != "" {
					return // it is refused
				}
				require.Empty(t, w.settle(), w.story())
				require.False(t, strings.HasPrefix(name, "nodeLabel") && w.d.Mode == v1alpha1.ModeRouteReflector && w.restores > 0, w.story())
			})
		}
	}
}
