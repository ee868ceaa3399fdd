package rollout_test

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/controllers/plan"
	"github.com/rrpool/rrpool/controllers/plan/rollout"
	"github.com/rrpool/rrpool/controllers/plan/topology"
)

// drive lets the world go on, whatever is lost.
func (w *world) drive(seconds int) {
	w.nextLook = w.now
	for range seconds {
		w.tick()
		w.manage(-1)
	}
}

func (w *world) story() string { return strings.Join(w.narrative[max(0, len(w.narrative)-12):], "\n") }

// A1: Calico before 3.30.3 has no reversePeering: the apiserver prunes it.
func TestA1OldCalicoWithoutReversePeeringMigrates(t *testing.T) {
	w := newBusyWorld(1, 7, 1, 3)
	w.oldCalico = true
	require.Empty(t, w.settle())
}

func manualLeft(t *testing.T) *world {
	w := newBusyWorld(1, 7, 0, 3)
	for range 600 {
		w.tick()
		w.nextLook = w.now
		s := w.next(w.observe())
		if len(s.Actions) == 3 && s.Name == "PromoteReflectors" {
			w.manage(1) // dies in the pause
			return w
		}
		w.manage(-1)
	}
	t.Fatal("never")
	return nil
}

func wantsAuto(s rollout.Step) bool {
	for _, a := range s.Actions {
		if p, ok := a.(plan.PutPeer); ok && p.Peer.Name == topology.PeerClients && !p.Peer.Manual {
			return true
		}
	}
	return false
}

// A2: killed in the pause of the first promotion; whatever comes next, the sides come.
func TestA2TheFirstReflectorGetsItsSides(t *testing.T) {
	for name, edit := range map[string]func(*world, *rollout.Observed){
		"control":          func(*world, *rollout.Observed) {},
		"back to the mesh": func(w *world, _ *rollout.Observed) { w.d.Mode = rollout.Mesh },
		"refused":          func(_ *world, o *rollout.Observed) { o.Problems = []plan.Problem{{Reason: "X", Message: "x"}} },
		"a foreign in-cluster peer": func(w *world, o *rollout.Observed) {
			o.Peers = append(o.Peers, plan.Peer{Name: "theirs", PeerSelector: "all()"})
		},
		"all are cordoned": func(_ *world, o *rollout.Observed) {
			for i := range o.Nodes {
				o.Nodes[i].Cordoned = true
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := manualLeft(t)
			o := w.observe()
			edit(w, &o)
			s := w.next(o)
			require.True(t, wantsAuto(s), "%s: %s", s.Name, s.Reason)
		})
	}
}

// A2b: and what it costs in the world when a client's BIRD is dead and the mode is FullMesh.
func TestA2bCutOffForEver(t *testing.T) {
	w := manualLeft(t)
	w.d.Mode = rollout.Mesh
	w.birdDies("node-07")
	w.drive(600)
	require.True(t, w.reaches(w.nodes["node-01"], w.nodes["node-02"]), "cut off for ten minutes: %s", w.story())
}

// A3: two reflectors without their pair peer have no session.
func TestA3AMissingPairIsPutBackWhateverElseWaits(t *testing.T) {
	for name, edit := range map[string]func(*world, *rollout.Observed){
		"control": func(*world, *rollout.Observed) {},
		"back to the mesh": func(w *world, o *rollout.Observed) {
			w.d.Mode = rollout.Mesh
			on := true
			o.BGP.Mesh.Enabled = &on
			o.BGP.Restored = w.now
		},
		"refused": func(_ *world, o *rollout.Observed) { o.Problems = []plan.Problem{{Reason: "X", Message: "x"}} },
		"all are cordoned": func(_ *world, o *rollout.Observed) {
			for i := range o.Nodes {
				o.Nodes[i].Cordoned = true
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newBusyWorld(1, 7, 1, 3)
			require.Empty(t, w.settle())
			delete(w.peers, "rrpool.node-01.node-02.v4")
			o := w.observe()
			edit(w, &o)
			s := w.next(o)
			found := false
			for _, a := range s.Actions {
				p, ok := a.(plan.PutPeer)
				found = found || ok && p.Peer.Name == "rrpool.node-01.node-02.v4"
			}
			require.True(t, found, "%s: %s", s.Name, s.Reason)
		})
	}
}

// A3b: the clients' peer deleted while all reflectors are cordoned.
func TestA3bTheClientsPeerComesBackWhenAllAreCordoned(t *testing.T) {
	w := newBusyWorld(1, 7, 1, 3)
	require.Empty(t, w.settle())
	for _, m := range w.sorted() {
		m.Cordoned = true
	}
	require.Empty(t, w.run(30))
	delete(w.peers, topology.PeerClients)
	w.changed()
	for range 300 {
		w.tick()
		w.manage(-1)
	}
	require.Contains(t, w.peers, topology.PeerClients, w.story())
}

// A4: a new password, mesh off: nobody has announced a loss.
func TestA4ANewPasswordLosesNothingUnannounced(t *testing.T) {
	w := newBusyWorld(1, 7, 0, 3)
	require.Empty(t, w.settle())
	w.d.Password = &plan.SecretRef{Name: "new", Key: "password"}
	w.nextLook = w.now
	v := w.run(300)
	require.Empty(t, v, w.story())
}

// A5: the way back, with a senior reflector whose BIRD is dead on a Ready node.
func TestA5BackToTheMeshPastADeadBird(t *testing.T) {
	w := newBusyWorld(1, 7, 0, 3)
	require.Empty(t, w.settle())
	w.birdDies("node-01")
	require.Empty(t, w.run(200))
	w.d.Mode = rollout.Mesh
	w.drive(1800)
	require.Empty(t, w.reflectors(), w.story())
}

// A5b: healing, when the only other holders have dead BIRDs on Ready nodes.
func TestA5bHealingPastADeadBird(t *testing.T) {
	w := newBusyWorld(1, 7, 0, 3)
	require.Empty(t, w.settle())
	w.birdDies("node-01")
	w.run(120)
	w.setAlive("node-02", false)
	w.setAlive("node-03", false)
	w.drive(1800)
	serving := 0
	for _, r := range w.reflectors() {
		if r.alive {
			serving++
		}
	}
	require.NotZero(t, serving, w.story())
}

// A6: three nodes, three reflectors: nobody would be left to serve, so nothing begins.
func TestA6ThreeNodes(t *testing.T) {
	w := newBusyWorld(1, 3, 0, 1)
	w.drive(600)
	require.Empty(t, w.reflectors(), w.story())
}

// A8: too few serve for ten minutes; one client's flapping keeps the net away.
func TestA8AFlappingClientDoesNotKeepTheNetAway(t *testing.T) {
	w := newBusyWorld(1, 7, 1, 3)
	require.Empty(t, w.settle())
	w.d.MinServing = 3
	o := w.observe()
	for _, c := range []string{"node-04", "node-05", "node-06"} {
		withPeer(&o, "node-03", w.nodes[c].Addresses[0], func(s *plan.Session) { s.Established, s.Since = false, w.now.Add(-10*time.Minute) })
	}
	o.ShortSince = w.now.Add(-10 * time.Minute)
	require.Equal(t, "RestoreMesh", w.next(o).Name, "the control")
	withPeer(&o, "node-03", w.nodes["node-06"].Addresses[0], func(s *plan.Session) { s.Since = w.now.Add(-time.Second) })
	require.Equal(t, "RestoreMesh", w.next(o).Name)
}

// A8b: a clock ahead on the node keeps the net away.
func TestA8bAClockAheadDoesNotKeepTheNetAway(t *testing.T) {
	w := newBusyWorld(1, 7, 1, 3)
	require.Empty(t, w.settle())
	o := w.observe()
	for i := range o.Nodes {
		if o.Nodes[i].Name == "node-02" || o.Nodes[i].Name == "node-03" {
			o.Nodes[i].Ready, o.Nodes[i].ReadyChanged = false, w.now.Add(-time.Hour)
		}
	}
	o.ShortSince = w.now.Add(-10 * time.Minute)
	require.Equal(t, "RestoreMesh", w.next(o).Name, "the control")
	for i := range o.Nodes {
		if !o.Nodes[i].Ready {
			o.Nodes[i].ReadyChanged = w.now.Add(time.Hour)
		}
	}
	require.Equal(t, "RestoreMesh", w.next(o).Name)
}

// A9: a person has uncordoned our node and cordons it later.
func TestA9AStaleMarkGoes(t *testing.T) {
	w := newBusyWorld(1, 7, 1, 3)
	require.Empty(t, w.settle())
	o := w.observe()
	o.Nodes[5].CordonMark = true
	s := w.next(o)
	require.Contains(t, s.Actions, plan.UncordonNode{Node: o.Nodes[5].Name}, s.Name)
}

// A10: two pairs, one name.
func TestA10PairNamesAreUnique(t *testing.T) {
	addr := func(s string) []netip.Addr { return []netip.Addr{netip.MustParseAddr(s)} }
	n := func(name, ip string) plan.Node { return plan.Node{Name: name, Addresses: addr(ip)} }
	one := topology.Over(n("a", "10.0.0.1"), n("b.c", "10.0.0.2"), 1, topology.Session{})
	two := topology.Over(n("a.b", "10.0.0.3"), n("c", "10.0.0.4"), 1, topology.Session{})
	require.NotEqual(t, one[0].Name, two[0].Name)
}

// A11: Immediate, killed between the role and the peers, then back to the mesh.
func TestA11ImmediatePutsThePeersFirst(t *testing.T) {
	w := newBusyWorld(1, 7, 0, 3)
	w.d.Promotion = v1alpha1.PromotionImmediate
	for range 1200 {
		w.tick()
		w.nextLook = w.now
		s := w.next(w.observe())
		if s.Name == "PromoteReflectors" && len(w.reflectors()) > 0 && len(s.Actions) > 1 && !onlyAsks(s) {
			_, peerFirst := s.Actions[0].(plan.PutPeer)
			require.True(t, peerFirst, "%v", s.Actions)
			return
		}
		w.manage(-1)
	}
	t.Fatal("never")
}

// A12: while a drain is held up, reflectors that have fallen silent are still asked.
func TestA12ABlockedDrainDoesNotBlindTheNet(t *testing.T) {
	w := newBusyWorld(1, 8, 0, 3)
	w.regular = true
	require.Empty(t, w.settle())
	w.pdb, w.d.Promotion = true, v1alpha1.PromotionDrain
	w.setAlive("node-03", false)
	require.Empty(t, w.run(300))
	require.Equal(t, "DrainNode", w.next(w.observe()).Name)
	for _, r := range w.reflectors() {
		w.birdDies(r.Name)
	}
	for range 600 {
		w.tick()
		w.manage(-1)
	}
	require.True(t, w.bgp.MeshOn(), w.story())
}

// A13: BIRDs that crash every two minutes on Ready nodes: does the mesh flap?
func TestA13AFlappingBirdDoesNotFlapTheMesh(t *testing.T) {
	w := newBusyWorld(1, 8, 0, 3)
	require.Empty(t, w.settle())
	rs := w.reflectors()
	switches, on := 0, false
	for i := range 3600 {
		if i%300 == 0 {
			w.birdDies(rs[0].Name)
			w.birdDies(rs[1].Name)
		}
		if i%300 == 100 {
			w.birdBack(rs[0].Name)
			w.birdBack(rs[1].Name)
		}
		w.tick()
		w.manage(-1)
		if w.bgp.MeshOn() != on {
			on = !on
			switches++
		}
	}
	require.LessOrEqual(t, switches, 4, w.story())
}

// A14: a node was cordoned for giving its role back; then nobody is there to replace
// it any more, and it serves on, cordoned and drained for ever.
func TestA14NoCordonIsLeftOnAServingReflector(t *testing.T) {
	w := newBusyWorld(1, 6, 0, 1)
	require.Empty(t, w.settle())
	w.d.Promotion, w.pdb = v1alpha1.PromotionDrain, true
	w.nodes["node-04"].pods = 0 // the substitute need not be drained
	w.nodes["node-01"].Leaving = true
	w.drive(1200)
	require.True(t, w.nodes["node-01"].CordonedByUs, w.story())
	for _, name := range []string{"node-02", "node-05", "node-06"} {
		w.removeNode(name) // gone for good
	}
	w.nodes["node-01"].Leaving = false
	w.d.Excluded = labels.SelectorFromSet(labels.Set{"old": "yes"})
	w.nodes["node-01"].Labels = map[string]string{"old": "yes"}
	w.drive(1800)
	require.False(t, w.nodes["node-01"].CordonedByUs, w.story())
}

// A16: a leftover pair peer between two ordinary nodes, mesh on, and a drain that is
// held up: their mesh session exists twice for as long.
func TestA16ABlockedDrainDoesNotKeepStrayPairs(t *testing.T) {
	w := newBusyWorld(1, 8, 0, 3)
	w.d.Promotion = v1alpha1.PromotionDrain
	for len(w.reflectors()) < 2 {
		w.drive(1)
	}
	w.pdb = true
	w.drive(60)
	for _, r := range w.reflectors() { // both are set up anew, with their old names and addresses
		ip, zone := r.Addresses, r.Zone
		w.removeNode(r.Name)
		w.addNode(r.Name, zone, false).Addresses = ip
	}
	w.drive(600)
	require.True(t, w.bgp.MeshOn())
	require.True(t, w.reaches(w.nodes["node-01"], w.nodes["node-02"]), w.story())
}

// A15: the cluster ID changed by hand and not put back at once.
func TestA15PuttingBackAClusterIDIsAnnounced(t *testing.T) {
	w := newBusyWorld(1, 7, 0, 3)
	require.Empty(t, w.settle())
	w.nodes["node-01"].ClusterID = "244.0.0.9"
	w.asleep = w.now.Add(100 * time.Second)
	w.excused["node-01"] = w.now.Add(60 * time.Second)
	w.lostAt = w.now
	w.changed()
	require.Empty(t, w.run(99), "the person's doing")
	require.Empty(t, w.run(200), w.story())
}

// A15b: the same with the ID removed from the most senior.
func TestA15bPuttingBackALostClusterID(t *testing.T) {
	for _, name := range []string{"node-01", "node-02", "node-03"} {
		w := newBusyWorld(1, 7, 0, 3)
		require.Empty(t, w.settle())
		w.nodes[name].ClusterID = ""
		w.asleep = w.now.Add(100 * time.Second)
		w.excused[name] = w.now.Add(60 * time.Second)
		w.lostAt = w.now
		w.changed()
		require.Empty(t, w.run(99), "the person's doing")
		require.Empty(t, w.run(200), w.story())
	}
}

// A17: the very second in which the grace ends.
func TestA17TheGraceEndsWhenItSaysSo(t *testing.T) {
	w := newBusyWorld(1, 7, 0, 3)
	require.Empty(t, w.settle())
	w.setAlive("node-02", false)
	o := w.observe()
	s := rollout.Next(o, w.d, w.now.Add(w.d.NotReadyGrace))
	require.True(t, s.Again > 0 || len(s.Actions) > 0, "%s, and nobody looks again", s.Name)
}

// A18: half a role on a cordoned node is put right as well.
func TestA18HalfARoleIsPutRightOnACordonedNodeToo(t *testing.T) {
	w := newBusyWorld(1, 7, 0, 3)
	require.Empty(t, w.settle())
	for _, m := range w.sorted() {
		m.Cordoned = true
	}
	w.nodes["node-01"].RoleLabel = false
	require.Contains(t, w.next(w.observe()).Actions, plan.SetReflector{Node: "node-01", ClusterID: w.d.ClusterID})
}

// A20: more new nodes at once than there were clients: the reflectors serve as before.
func TestA20ManyNewNodesAtOnceAreNoOutage(t *testing.T) {
	w := newBusyWorld(1, 7, 0, 3)
	require.Empty(t, w.settle())
	for _, name := range []string{"new-1", "new-2", "new-3", "new-4", "new-5"} {
		w.addNode(name, "zone-1", false)
	}
	for range 60 {
		w.tick()
		w.manage(-1)
		require.False(t, w.bgp.MeshOn(), w.story())
	}
}

// A20b: the same with dedicated reflectors.
func TestA20bManyNewNodesAtOnceAreNoOutage(t *testing.T) {
	w := newWorld(1, 4, 3)
	require.Empty(t, w.settle())
	for _, name := range []string{"new-1", "new-2", "new-3", "new-4", "new-5"} {
		w.addNode(name, "zone-1", false)
	}
	for range 60 {
		w.tick()
		w.manage(-1)
		require.False(t, w.bgp.MeshOn(), w.story())
	}
}

// A21: the kubelet of a reflector is down, its routing and its pods are not.
func TestA21ADeadKubeletIsNoReasonToLoseAPacket(t *testing.T) {
	for _, name := range []string{"node-01", "node-02", "node-03"} {
		t.Run(name, func(t *testing.T) {
			w := newBusyWorld(1, 7, 0, 3)
			require.Empty(t, w.settle())
			w.nodes[name].Ready, w.nodes[name].ReadyChanged = false, w.now
			w.nextLook = w.now
			require.Empty(t, w.run(900), w.story())
			require.False(t, w.nodes[name].RoleLabel, w.story())
		})
	}
}
