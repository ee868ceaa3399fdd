package rollout_test

import (
	"net/netip"
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
	"github.com/rrpool/rrpool/controllers/plan/topology"
)

// announced: a step has said that these two would lose each other.
func (w *world) announced(a, b *machine) bool {
	return slices.ContainsFunc([]string{a.Name, b.Name, pair(a.Name, b.Name)}, func(name string) bool { return w.now.Before(w.excused[name]) })
}

var promotions = rapid.SampledFrom([]v1alpha1.Promotion{
	v1alpha1.PromotionStaged, v1alpha1.PromotionCordon, v1alpha1.PromotionDrain, v1alpha1.PromotionImmediate,
})

func drawInPlaceWorld(t *rapid.T, nodes, idle *rapid.Generator[int]) *world {
	t.Helper()
	seed := rapid.Uint64().Draw(t, "seed")
	return newInPlaceWorld(seed, nodes.Draw(t, "nodes"), idle.Draw(t, "idle"), rapid.IntRange(1, 3).Draw(t, "zones"))
}

func TestInPlaceNodesMigrateAndReturnWithoutLosingARoute(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		w := drawInPlaceWorld(t, rapid.IntRange(5, 9), rapid.IntRange(0, 2))
		w.d.Promotion = promotions.Draw(t, "promotion")
		w.hold(t, w.settle())
		require.False(t, w.bgp.MeshOn())
		require.Len(t, w.reflectors(), w.d.Pool.SizePerZone*len(w.d.Pool.Zones))
		require.Len(t, w.watches, len(w.reflectors()), "one status a reflector, whatever the cluster's size")

		w.d.Mode = v1alpha1.ModeFullMesh
		w.hold(t, w.settle())
		require.Empty(t, w.reflectors())
		require.Empty(t, w.peers)
		for _, m := range w.nodes {
			require.False(t, m.Cordoned || m.Pooled, m.Name)
		}
	})
}

// The same with anything happening in between: drift, cordons, changes of the spec, failures that Kubernetes sees
// and others, refusals, and a manager that is killed or away.
func TestInPlaceNodesHoldTheInvariantsInAnyOrderOfDisturbances(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		w := drawInPlaceWorld(t, rapid.IntRange(4, 8), rapid.IntRange(0, 1))
		w.regular = rapid.Bool().Draw(t, "regular")
		w.drawFamilies(t)
		w.d.Timer = rapid.IntRange(0, 5).Draw(t, "timer") == 0
		if rapid.Bool().Draw(t, "settled") {
			if v := w.settle(); !strings.HasPrefix(v, unsettled) { // four nodes in three zones may wait for a fifth
				w.hold(t, v)
			}
		}
		w.suffer(t, inPlaceEvents(!w.d.Timer), w.run)
		w.narrative = append(w.narrative, "##### everything returns")
		w.everythingReturns()
		w.hold(t, w.run(60))
		w.hold(t, w.settle())
		// There is what the mode wants and nothing else.
		require.Equal(t, w.d.Mode == v1alpha1.ModeFullMesh, w.bgp.MeshOn())
		for _, m := range w.nodes {
			require.False(t, m.CordonedByUs, m.Name)
		}
		peers := 0
		if n := len(w.reflectors()); w.d.Mode != v1alpha1.ModeFullMesh {
			peers = 1 + n*(n-1)/2*len(w.birds())
		}
		require.Len(t, w.peers, peers)
	})
}

// until runs the world up to the moment before a step is carried out.
func (w *world) until(t *testing.T, step string) rollout.Observed {
	t.Helper()
	for range 3600 {
		w.tick()
		w.nextLook = w.now
		o := w.observe()
		if s := w.next(o); s.Name == step && len(s.Actions) > 0 && !onlyAsks(s) {
			return o
		}
		w.manage(-1)
	}
	t.Fatalf("never came to %s", step)
	return rollout.Observed{}
}

// onlyAsks: the step waits, and asks for reports meanwhile.
func onlyAsks(s rollout.Step) bool {
	for _, a := range s.Actions {
		if _, asks := a.(plan.RefreshStatus); !asks {
			return false
		}
	}
	return true
}

func editStatus(o *rollout.Observed, name string, edit func(*plan.Status)) {
	st := o.Statuses[name]
	st.Sessions, st.Routes = slices.Clone(st.Sessions), slices.Clone(st.Routes)
	edit(&st)
	o.Statuses[name] = st
}

// withPeer changes the session that a node reports with a peer.
func withPeer(o *rollout.Observed, node string, peer netip.Addr, edit func(*plan.Session)) {
	editStatus(o, node, func(st *plan.Status) {
		for i := range st.Sessions {
			if st.Sessions[i].Peer == peer {
				edit(&st.Sessions[i])
			}
		}
	})
}

func TestACordonOfAPersonIsNeverUndone(t *testing.T) {
	w := newInPlaceWorld(1, 7, 1, 3)
	w.d.Promotion = "Drain"
	w.nodes["node-04"].Cordoned = true
	require.Empty(t, w.settle())
	require.True(t, w.nodes["node-04"].Cordoned)
	require.False(t, w.nodes["node-04"].Pooled)
	w.d.Mode = v1alpha1.ModeFullMesh
	require.Empty(t, w.settle())
	require.True(t, w.nodes["node-04"].Cordoned)
}

// A cordon of ours ends when the node serves in its new role, or when it fails meanwhile.
func TestWhenACordonOfOursEnds(t *testing.T) {
	w := atRest(t, newInPlaceWorld(1, 7, 1, 3))
	o := w.observe()
	n, uncordon := &o.Nodes[1], plan.UncordonNode{Node: "node-02"}
	n.Cordoned, n.CordonedByUs, n.CordonMark = true, true, true
	require.Contains(t, w.next(o).Actions, uncordon, "it serves")
	editStatus(&o, "node-02", func(st *plan.Status) { st.Cleared = w.now })
	require.NotContains(t, w.next(o).Actions, uncordon, "its report is from before it was asked again")
	delete(o.Statuses, "node-02")
	require.NotContains(t, w.next(o).Actions, uncordon, "it has not been seen serving")
	n.Ready, n.ReadyChanged = false, w.now
	require.Contains(t, w.next(o).Actions, uncordon, "it is not Ready")
}

// Node-06 is not Ready. Whether its host is cut off, or only its kubelet is down,
// shows in its sessions, and only after a while.
func TestANodeThatIsNotReadyIsWaitedForWhileItMayBeAlive(t *testing.T) {
	const silent = "node-06"
	down := func(since time.Duration, reflectors ...string) func(*world, *rollout.Observed) {
		return func(w *world, o *rollout.Observed) {
			for _, r := range reflectors {
				withPeer(o, r, w.nodes[silent].Addresses[0], func(s *plan.Session) {
					s.Established, s.Since = false, w.now.Add(-since)
				})
			}
		}
	}
	for name, tc := range map[string]struct {
		edit func(*world, *rollout.Observed)
		goes bool
	}{
		"all have their session with it":              {edit: func(*world, *rollout.Observed) {}, goes: true},
		"one has lost it a moment ago":                {edit: down(10*time.Second, "node-05")},
		"one has not had it for longer than it takes": {edit: down(80*time.Second, "node-05"), goes: true},
		"only the one that goes has it":               {edit: down(80*time.Second, "node-01", "node-03", "node-05")},
		"nobody has it":                               {edit: down(80*time.Second, "node-01", "node-02", "node-03", "node-05"), goes: true},
	} {
		t.Run(name, func(t *testing.T) {
			w := atRest(t, newInPlaceWorld(1, 7, 1, 3))
			w.nodes["node-02"].Cordoned = true
			o := w.until(t, "RemoveReflector")
			n := nodeOf(&o, silent)
			n.Ready, n.ReadyChanged = false, w.now.Add(-2*time.Minute)
			tc.edit(w, &o)
			s := w.next(o)
			require.Equal(t, tc.goes, slices.Contains(s.Actions, plan.Action(plan.ClearReflector{Node: "node-02"})), "%s %v", s.Reason, s.WaitingFor)
		})
	}
}

// problems are what else may be going on while reflectors lack a session.
var problems = map[string]func(*world, *rollout.Observed){
	"nothing": func(*world, *rollout.Observed) {},
	"the way back to the mesh": func(w *world, o *rollout.Observed) {
		w.d.Mode = v1alpha1.ModeFullMesh
		if on := true; !o.BGP.MeshOn() {
			o.BGP.Mesh.Enabled, o.BGP.Restored = &on, w.now
		}
	},
	"a refusal": func(_ *world, o *rollout.Observed) { o.Problems = []plan.Problem{{Reason: "X", Message: "x"}} },
	"a peer of another client within the cluster": func(_ *world, o *rollout.Observed) {
		o.Peers = append(o.Peers, plan.Peer{Name: "theirs", PeerSelector: "all()"})
	},
	"a cordon on every node": func(_ *world, o *rollout.Observed) {
		for i := range o.Nodes {
			o.Nodes[i].Cordoned = true
		}
	},
}

// puts gives the BGPPeer of this name that a step writes.
func puts(s rollout.Step, name string) (plan.Peer, bool) {
	for _, a := range s.Actions {
		if p, ok := a.(plan.PutPeer); ok && p.Peer.Name == name {
			return p.Peer, true
		}
	}
	return plan.Peer{}, false
}

// Reflectors without a BGPPeer that they need have no session at all: it is written whatever else waits.
func TestReflectorsGetTheirBGPPeersWhateverElseWaits(t *testing.T) {
	const sessionName = "rrpool.node-01.node-02.v4"
	for name, hinder := range problems {
		t.Run(name, func(t *testing.T) {
			// The first reflector has the role and no other side yet: the manager was killed in between.
			w := newInPlaceWorld(1, 7, 0, 3)
			o := w.until(t, "PromoteReflectors")
			require.IsType(t, plan.Pause{}, w.next(o).Actions[1], "there is a pause to be killed in")
			w.nextLook = w.now
			w.manage(1)
			o = w.observe()
			hinder(w, &o)
			s := w.next(o)
			clients, found := puts(s, topology.PeerClients)
			require.True(t, found && !clients.Manual, "%s: %s", s.Name, s.Reason)

			w = atRest(t, newInPlaceWorld(1, 7, 1, 3))
			delete(w.peers, sessionName) // the one between two
			o = w.observe()
			hinder(w, &o)
			s = w.next(o)
			_, found = puts(s, sessionName)
			require.True(t, found, "%s: %s", s.Name, s.Reason)
		})
	}
}

// Killed in between, a role without its pair peers would have no session with the
// other reflectors; pair peers without the role render what is there anyway.
func TestAnImmediatePromotionWritesThePeersFirst(t *testing.T) {
	w := newInPlaceWorld(1, 7, 0, 3)
	w.d.Promotion = v1alpha1.PromotionImmediate
	w.until(t, "PromoteReflectors")
	w.nextLook = w.now
	w.manage(-1)
	s := w.next(w.until(t, "PromoteReflectors"))
	isPeer := func(a plan.Action) bool { _, ok := a.(plan.PutPeer); return ok }
	require.Greater(t, len(s.Actions), 1)
	require.True(t, isPeer(s.Actions[0]), "%v", s.Actions)
	require.Contains(t, s.Actions, plan.SetReflector{Node: "node-02", ClusterID: w.d.ClusterID})
}

// A drain that a disruption budget holds up keeps neither of these waiting.
func TestABlockedDrainDoesNotKeepSilentReflectorsFromBeingAsked(t *testing.T) {
	w := newInPlaceWorld(1, 8, 0, 3)
	w.regular = true
	require.Empty(t, w.settle())
	w.pdb, w.d.Promotion = true, v1alpha1.PromotionDrain
	w.setAlive(false, w.nodes["node-03"])
	require.Empty(t, w.run(300))
	require.Equal(t, "DrainNode", w.next(w.observe()).Name, "the control")
	for _, r := range w.reflectors() {
		w.birdDies(r.Name)
	}
	w.runUnchecked(600)
	require.True(t, w.bgp.MeshOn(), w.story())
}

// With the mesh on, two ordinary nodes with a peer left between them have their session twice, that is, not at all.
func TestABlockedDrainDoesNotKeepStrayPeerings(t *testing.T) {
	w := newInPlaceWorld(1, 8, 0, 3)
	w.d.Promotion = v1alpha1.PromotionDrain
	for i := 0; len(w.reflectors()) < 2; i++ {
		require.Less(t, i, 1200, w.story())
		w.runUnchecked(1)
	}
	w.pdb = true
	w.runUnchecked(60)
	for _, r := range w.reflectors() { // both are set up anew, under their old names and addresses
		w.removeNode(r.Name)
		w.addNode(r.Name, r.Zone, false).Addresses = r.Addresses
	}
	w.runUnchecked(600)
	require.True(t, w.bgp.MeshOn())
	require.True(t, w.reaches(w.nodes["node-01"], w.nodes["node-02"]), w.story())
}

// Nothing takes the place of a reflector before the grace is over, and the very second in which it ends is not one in which nobody looks.
func TestTheGraceForAReflectorEndsWhenItSaysSo(t *testing.T) {
	w := atRest(t, newInPlaceWorld(1, 7, 0, 3))
	w.setAlive(false, w.nodes["node-02"])
	early := rollout.Next(w.observe(), w.d, w.now.Add(w.d.NotReadyGrace-time.Second))
	require.Empty(t, early.Actions, early.Reason)
	require.LessOrEqual(t, early.Again, time.Second)
	require.Positive(t, early.Again)
	require.NotEmpty(t, rollout.Next(w.observe(), w.d, w.now.Add(w.d.NotReadyGrace)).Actions)
}

// closed lets no BGP pass between a node and others, or all of them.
func (w *world) closed(node string, to ...string) {
	for _, m := range w.all() {
		if m.Name != node && (len(to) == 0 || slices.Contains(to, m.Name)) {
			w.model.Cut(node, m.Name, true)
		}
	}
}

// Port 179 is closed between some nodes. A node becomes the first reflector only where the mesh shows that it can have sessions, and
// never does a second one become the first: each would lose the routes to its pods for good.
func TestTheFirstReflectorIsANodeThatTheMeshCarries(t *testing.T) {
	for name, tc := range map[string]struct {
		close            func(*world)
		firsts           int
		first, waits, to string
	}{
		"the cheapest has no session": {
			close: func(w *world) { w.closed("node-01") }, waits: "AwaitMesh", to: "node-01 ↔ node-02 to be Established",
		},
		"the cheapest lacks one session, so another comes first, and it is said": {
			close: func(w *world) { w.closed("node-01", "node-07") }, first: "node-02", firsts: 1, waits: "not node-01",
		},
		"two nodes in between have no session with each other": {
			close: func(w *world) { w.closed("node-02", "node-03") }, first: "node-01", firsts: 1, waits: "becomes the first",
		},
		"the port closes for sessions that are yet to start": {
			close: func(w *world) { w.runUntil(func() bool { return len(w.reflectors()) == 1 }); w.closed("node-01") },
			first: "node-01", firsts: 1, waits: "AwaitSessions", to: "route reflector node-01 to serve",
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newInPlaceWorld(1, 7, 1, 3)
			tc.close(w)
			for range 80 {
				w.tick() // BIRD's hold time is not the point here
			}
			w.runUnchecked(3600)
			story := strings.Join(w.narrative, "\n")
			if len(w.reflectors()) > 1 { // the others carry its routes
				require.Contains(t, story, "becomes a route reflector, once the others carry its routes")
			}
			firsts := slices.DeleteFunc(slices.Clone(w.narrative), func(entry string) bool {
				return !strings.Contains(entry, "the first route reflector: ") || !strings.Contains(entry, "do    make node")
			})
			require.Len(t, firsts, tc.firsts, story)
			require.Less(t, w.writes, 200, story)
			require.True(t, w.bgp.MeshOn(), story)
			if tc.firsts > 0 {
				require.Contains(t, firsts[0], "node "+tc.first+" becomes")
			}
			require.Contains(t, story, tc.waits)
			if s := w.next(w.observe()); tc.to != "" {
				require.Contains(t, s.WaitingFor, tc.to, story)
				require.Positive(t, s.Timeout, "it is a problem in the end")
			}
		})
	}
}

// A node that was cordoned to become the first reflector is not passed over, and its pods let back, as soon as one session of the mesh
// is missed: each node that joins would have it drained anew.
func TestANodeThatIsCordonedForTheFirstRoleIsNotPassedOver(t *testing.T) {
	w := newInPlaceWorld(1, 7, 0, 3)
	w.d.Promotion = v1alpha1.PromotionCordon
	cordoned := func() string {
		for _, m := range w.all() {
			if m.CordonedByUs {
				return m.Name
			}
		}
		return ""
	}
	w.runUntil(func() bool { return cordoned() != "" })
	first := cordoned()
	require.NotEmpty(t, first)
	w.closed(first)
	for range 300 {
		w.runUnchecked(1)
		require.Equal(t, first, cordoned(), strings.Join(w.narrative, "\n"))
	}
	require.Equal(t, "AwaitMesh", w.next(w.observe()).Name)
}

// runUntil lets time pass until something is so, for an hour at most.
func (w *world) runUntil(so func() bool) {
	for i := 0; i < 3600 && !so(); i++ {
		w.runUnchecked(1)
	}
}

// A worker of the pool whose port is closed never counts, from the start or in the place of another.
func TestADedicatedNodeWithoutSessionsNeverCounts(t *testing.T) {
	w := newWorld(1, 6, 3)
	w.runUntil(func() bool { return len(w.reflectors()) > 0 })
	bad := w.reflectors()[0].Name
	w.closed(bad)
	require.Empty(t, w.run(3600), w.story())
	require.True(t, w.bgp.MeshOn(), w.story())
	require.Contains(t, strings.Join(w.next(w.observe()).WaitingFor, "\n"), bad+" ↔ client-01 to be Established")

	w = atRest(t, newWorld(1, 6, 3))
	old := w.reflectors()[0]
	old.Cordoned = true
	w.runUntil(func() bool { return len(w.pool.Workers) > 3 })
	for _, x := range w.pool.Workers {
		if w.nodes[x.Node] == nil { // it is being set up
			w.closed(x.Node)
		}
	}
	require.Empty(t, w.run(3600), w.story())
	require.True(t, w.nodes[old.Name] != nil && old.IsOurs(), "the one that serves stays until its substitute does: %s", w.story())
}

// A chosen node whose calico-node does not run gives way to another before it gets the role; one that has the role stays.
func TestANodeWithoutCalicoNodeIsNotChosen(t *testing.T) {
	w := newInPlaceWorld(1, 8, 1, 3)
	w.nodes["node-01"].unready = true // the cheapest, and it is so from the start
	w.runUntil(func() bool { return w.nodes["node-02"].Pooled })
	w.nodes["node-02"].unready = true // fails when it has been chosen
	require.Empty(t, w.settle(), w.story())
	for _, name := range []string{"node-01", "node-02"} {
		require.False(t, w.nodes[name].IsOurs() || w.nodes[name].Pooled, "%s\n%s", name, w.story())
	}
	r := w.reflectors()[0]
	r.unready = true
	require.Empty(t, w.run(600), w.story())
	require.True(t, r.IsOurs(), w.story())
}

// A cause that comes and goes, of any kind and as often as it likes, moves few roles in two hours, whichever manager looks on; and a
// reflector that is dead is replaced as soon as ever.
func TestWhatFlapsDoesNotMoveTheRoleAllTheTime(t *testing.T) {
	cordon := func(_ *world, m *machine, on bool) { m.Cordoned = on }
	for name, tc := range map[string]struct {
		every, zones int
		flip         func(*world, *machine, bool)
	}{
		"a cordon, every 30 s":           {30, 3, cordon},
		"a cordon, every 90 s":           {90, 3, cordon},
		"a cordon, every 200 s":          {200, 3, cordon},
		"a cordon of the zone's only":    {200, 5, cordon},
		"a Node that is not Ready":       {90, 3, func(w *world, m *machine, on bool) { m.Ready, m.ReadyChanged = !on, w.now }},
		"a label that excludes the node": {90, 3, func(_ *world, m *machine, on bool) { m.Labels["excluded"] = map[bool]string{true: "yes"}[on] }},
		"a label that prefers another": {90, 3, func(w *world, _ *machine, on bool) {
			w.nodes["node-08"].Labels["preferred"] = map[bool]string{true: "yes"}[on]
		}},
		"a zone that is wanted and not": {90, 3, func(_ *world, m *machine, on bool) { m.Zone = map[bool]string{true: "zone-2", false: "zone-1"}[on] }},
		"pods that come and go":         {90, 3, func(_ *world, m *machine, on bool) { m.pods = map[bool]int{true: 100, false: 1}[on] }},
		"a size that changes":           {90, 3, func(w *world, _ *machine, on bool) { w.d.Pool.SizePerZone = map[bool]int{true: 2, false: 1}[on] }},
	} {
		t.Run(name, func(t *testing.T) {
			w := newInPlaceWorld(60, 9, 0, 3)
			if tc.zones == 5 {
				w = newInPlaceWorld(60, 5, 0, 3) // node-03 is alone in its zone
			}
			excluded, err := labels.Parse("excluded=yes")
			require.NoError(t, err)
			w.d.Excluded = excluded
			w.d.Preferred, err = labels.Parse("preferred=yes")
			require.NoError(t, err)
			w = atRest(t, w)
			m, taken := w.nodes[w.reflectors()[0].Name], 0
			if tc.zones == 5 {
				m = w.nodes["node-03"]
			}
			for i := range 7200 {
				if i%tc.every == 0 {
					tc.flip(w, m, i/tc.every%2 == 0)
					w.nextLook = w.now
				}
				if i%1000 == 999 {
					w.crash()
				}
				w.tick()
				if s := w.manage(-1); s != nil && does(*s, plan.ClearReflector{}) {
					taken++
				}
				require.Empty(t, w.violation(), w.story())
			}
			most := 12
			if strings.HasPrefix(name, "a size") {
				most *= 3
			}
			require.LessOrEqual(t, taken, most, "the role was taken so often in two hours: %s", w.story())
		})
	}
	w := atRest(t, newInPlaceWorld(1, 8, 0, 3))
	r := w.reflectors()[0]
	w.setAlive(false, r)
	w.runUntil(func() bool { return !r.IsOurs() })
	require.Less(t, w.now.Sub(r.ReadyChanged), 5*time.Minute, w.story())
}

// A session of two reflectors that changes direction costs their pods some seconds, unless a third serves, and reflects to both: it is
// announced where one of the three is not so.
func TestAThirdReflectorBridgesOnlyIfItServesBoth(t *testing.T) {
	reversed := func(one, other string) func(*world, *rollout.Observed) {
		return func(w *world, o *rollout.Observed) {
			for i := range o.Peers {
				if p := &o.Peers[i]; p.Name == "rrpool."+one+"."+other+".v4" {
					p.Node, p.PeerIP = other, w.nodes[one].Addresses[0].String()
				}
			}
		}
	}
	for name, tc := range map[string]struct {
		edit       func(*world, *rollout.Observed)
		back, cuts bool
	}{
		"it does":                  {edit: func(*world, *rollout.Observed) {}},
		"it does, on the way back": {back: true, edit: func(*world, *rollout.Observed) {}},
		"it serves nobody": {back: true, cuts: true, edit: func(w *world, o *rollout.Observed) {
			editStatus(o, "node-01", func(st *plan.Status) {
				for i := range st.Sessions {
					st.Sessions[i].Established, st.Sessions[i].Since = false, w.now.Add(-time.Hour)
				}
			})
		}},
		"the one that goes is no client of it": {cuts: true, edit: reversed("node-01", "node-02")},
		"the other is no client of it":         {cuts: true, edit: reversed("node-01", "node-03")},
	} {
		t.Run(name, func(t *testing.T) {
			w := atRest(t, newInPlaceWorld(1, 7, 0, 3))
			if n := w.nodes["node-02"]; tc.back {
				w.d.Mode, n.Ready, n.ReadyChanged = v1alpha1.ModeFullMesh, false, w.now
			} else {
				n.Cordoned = true
			}
			o := w.until(t, "StageDemotion")
			tc.edit(w, &o)
			s := w.next(o)
			require.Equal(t, "StageDemotion", s.Name, s.Reason)
			require.Equal(t, tc.cuts, len(s.Disrupts) > 0, "%s %v", s.Reason, s.WaitingFor)
		})
	}
}
