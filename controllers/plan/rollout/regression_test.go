package rollout_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/utils/ptr"

	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/controllers/plan"
	"github.com/rrpool/rrpool/controllers/plan/rollout"
)

// does reports whether a step contains an action of this type.
func does(s rollout.Step, kind plan.Action) bool {
	return slices.ContainsFunc(s.Actions, func(a plan.Action) bool { return fmt.Sprintf("%T", a) == fmt.Sprintf("%T", kind) })
}

// Sequences that once lost packets in this model: told from a migrated cluster, and run for as long as it took.
func TestSequencesThatOnceLostPackets(t *testing.T) {
	failAndReturn := func(w *world) {
		w.setAlive(false, w.reflectors()...)
		w.runUnchecked(300) // the loss here is the outage's
		w.setAlive(true, w.reflectors()...)
	}
	for name, tc := range map[string]struct {
		timer bool
		do    func(*world)
	}{
		"Timer: the reflectors come back after the net has caught them": {true, failAndReturn},
		"Sessions: the same": {false, failAndReturn},
		"Timer: the BGPConfiguration is deleted, then back to the mesh": {true, func(w *world) {
			w.bgp, w.d.Mode = plan.BGPConfig{ASN: 64512}, v1alpha1.ModeFullMesh
			w.changed()
		}},
		"Timer: the BGPConfiguration is deleted, then another password": {true, func(w *world) {
			w.bgp, w.d.Password = plan.BGPConfig{ASN: 64512}, &plan.SecretRef{Name: "new", Key: "password"}
			w.changed()
		}},
		"back to the mesh while no node is Ready, and all route": {false, func(w *world) {
			for _, c := range w.clients() {
				c.Ready, c.ReadyChanged = false, w.now
			}
			w.d.Mode, w.maxLag = v1alpha1.ModeFullMesh, 30
		}},
		"new zones, whose reflectors exchange nothing at first": {false, func(w *world) {
			w.d.Pool.Zones, w.d.Pool.SizePerZone = []string{"zone-4"}, 3
			for i := range 40 { // whatever they will be called
				w.model.StopReflecting(fmt.Sprintf("worker-%02d", 10+i), w.now.Add(10*time.Minute))
			}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(1, 6, 3)
			w.d.Timer = tc.timer
			require.Empty(t, w.settle())
			tc.do(w)
			w.nextLook = w.now
			require.Empty(t, w.run(900), strings.Join(w.narrative, "\n"))
		})
	}
}

// Single observations in which something must not, or must, be done.
func TestDecisionsThatWereWrongOnce(t *testing.T) {
	forbid := func(kind plan.Action) func(*testing.T, rollout.Step) {
		return func(t *testing.T, s rollout.Step) { t.Helper(); require.False(t, does(s, kind), s.Reason) }
	}
	demand := func(kind plan.Action) func(*testing.T, rollout.Step) {
		return func(t *testing.T, s rollout.Step) {
			t.Helper()
			require.True(t, does(s, kind), "%s: %s", s.Name, s.Reason)
		}
	}
	down := func(w *world, o *rollout.Observed, count int) {
		for _, r := range w.reflectors()[:count] {
			editStatus(o, r.Name, func(s *plan.Status) {
				for i := range s.Sessions {
					s.Sessions[i].Established, s.Sessions[i].Since = false, w.now.Add(-time.Hour)
				}
			})
		}
	}
	for name, tc := range map[string]struct {
		from  func(*testing.T) (*world, rollout.Observed)
		do    func(*world, *rollout.Observed)
		check func(*testing.T, rollout.Step)
	}{
		"the mesh goes without IPv6 on the reflectors": {meshOn, withoutIPv6, forbid(plan.DisableMesh{})},
		"the mesh goes though the sampled tables are empty": {meshOn, func(_ *world, o *rollout.Observed) {
			for name := range o.Statuses {
				editStatus(o, name, func(s *plan.Status) { s.Routes = nil })
			}
		}, forbid(plan.DisableMesh{})},
		"untainted nodes are promoted": {func(*testing.T) (*world, rollout.Observed) {
			w := newWorld(1, 6, 1)
			w.pool = rollout.ObservedPool{Exists: true, SizePerZone: 3, Zones: []string{"zone-1"}, Drifted: "taint missing"}
			for i := range 3 {
				w.addNode(fmt.Sprintf("worker-%d", i), "zone-1", true)
			}
			return w, w.observe()
		}, func(*world, *rollout.Observed) {}, forbid(plan.SetReflector{})},
		"a chatty report holds the net back": {migrated, func(w *world, o *rollout.Observed) {
			down(w, o, 2)
		}, demand(plan.RestoreMesh{})},
		"one client is enough to serve": {migrated, func(w *world, o *rollout.Observed) {
			down(w, o, 3)
			for _, r := range w.reflectors() {
				editStatus(o, r.Name, func(s *plan.Status) {
					for i := range s.Sessions {
						s.Sessions[i].Established = s.Sessions[i].Peer == o.Nodes[0].Addresses[0]
					}
				})
			}
		}, demand(plan.RestoreMesh{})},
		"a pool that grows sets off the net": {migrated, func(w *world, _ *rollout.Observed) {
			w.d.MinServing, w.d.NetAfter, w.d.Pool.SizePerZone = 5, time.Hour, 2
		}, forbid(plan.RestoreMesh{})},
		"a node object that is gone skips the wait of the net": {migrated, func(w *world, o *rollout.Observed) {
			w.d.MinServing, w.d.NetAfter = 3, time.Hour
			o.Nodes = o.Nodes[:len(o.Nodes)-1]
		}, forbid(plan.RestoreMesh{})},
		"a dropped zone stays in the pool": {migrated, func(_ *world, o *rollout.Observed) {
			o.Pool.Zones = append(slices.Clone(o.Pool.Zones), "zone-9")
		}, demand(plan.EnsurePool{})},
	} {
		t.Run(name, func(t *testing.T) {
			w, o := tc.from(t)
			tc.do(w, &o)
			tc.check(t, w.next(o))
		})
	}
}

// withoutIPv6 makes all clients dual-stack, with too many blocks to look at routes.
func withoutIPv6(_ *world, o *rollout.Observed) {
	addIPv6(o, 1, 2, 3, 4, 5, 6)
	for i := range 6 {
		o.Nodes[i].Blocks = slices.Repeat(o.Nodes[i].Blocks, 400)
	}
}

// Waits that once had no end.
func TestWaitsThatOnceHadNoEnd(t *testing.T) {
	for name, do := range map[string]func(*world){
		"a stray label and a dead reflector on the way back": func(w *world) {
			w.clients()[0].HasRoleLabel = true
			w.setAlive(false, w.reflectors()[0])
			w.bgp.Mesh, w.d.Mode = plan.Mesh{}, v1alpha1.ModeFullMesh
			w.changed()
		},
		"a stray label and another cluster ID on the way back": func(w *world) {
			w.clients()[0].HasRoleLabel = true
			w.d.Mode, w.d.ClusterID = v1alpha1.ModeFullMesh, "244.0.0.7"
			w.changed()
		},
		"another cluster ID for the only reflector": func(w *world) {
			w.d.Pool.Zones, w.d.Pool.SizePerZone, w.d.MinServing = w.d.Pool.Zones[:1], 1, 1
			w.runUnchecked(1200)
			w.d.ClusterID = "244.0.0.7"
		},
	} {
		t.Run(name, func(t *testing.T) {
			w, _ := migrated(t)
			do(w)
			w.nextLook = w.now
			w.runUnchecked(3600)
			s := w.next(w.observe())
			require.Equal(t, rollout.Steady, s.Name, "%s %v", s.Reason, s.WaitingFor)
		})
	}
}

// A wait for a route that never comes is one wait, however often reports are
// asked for, so that it can be seen to last too long.
func TestAWaitForARouteIsOneWait(t *testing.T) {
	w, _ := meshOn(t)
	missing := w.reflectors()[0].Addresses[0]
	names := map[string]bool{}
	for range 1200 {
		w.tick()
		for _, st := range w.reports {
			st.Routes = slices.DeleteFunc(slices.Clone(st.Routes), func(r plan.Route) bool { return r.From == missing })
		}
		if s := w.manage(-1); s != nil {
			names[s.Name] = true
		}
	}
	require.Equal(t, map[string]bool{"AwaitRoutes": true}, names)
}

// A single Ready client tells nothing of the pairs among clients, but it does of a node
// whose kubelet alone is down.
func TestTheMeshStaysForTheOnlyOtherNodeThatIsNotReady(t *testing.T) {
	w := atRest(t, newWorld(1, 2, 3))
	on := true
	w.bgp.Mesh.Enabled = &on
	w.changed()
	c := w.nodes["client-02"]
	for _, r := range w.reflectors() {
		w.model.Cut(c.Name, r.Name, true)
	}
	for i := range 600 {
		if i == 60 { // the mesh is up
			c.Ready, c.ReadyChanged, w.nextLook = false, w.now, w.now
		}
		w.step()
	}
	require.True(t, w.bgp.MeshOn(), w.story())
	require.True(t, w.reaches(c, w.nodes["client-01"]))
}

// Calico before 3.30.3 does not know reversePeering, and the apiserver drops it: a
// peer that never is as wanted was once written for ever, and nobody promoted.
func TestOldCalicoWithoutReversePeeringMigrates(t *testing.T) {
	w := newInPlaceWorld(1, 7, 1, 3)
	w.oldCalico = true
	require.Empty(t, w.settle())
	require.Len(t, w.reflectors(), 3)
}

// What a person breaks is theirs; what putting it back costs is announced.
func TestPuttingBackAClusterIDIsAnnounced(t *testing.T) {
	for name, tc := range map[string]struct{ node, id string }{
		"another one on the first in the order of peering": {"node-01", "244.0.0.9"},
		"a lower one on the last in the order of peering":  {"node-03", "10.0.0.1"},
		"none on the first in the order of peering":        {"node-01", ""},
		"none on the second":                               {"node-02", ""},
		"none on the last in the order of peering":         {"node-03", ""},
	} {
		t.Run(name, func(t *testing.T) {
			w := atRest(t, newInPlaceWorld(1, 7, 0, 3))
			w.nodes[tc.node].ClusterID = tc.id
			w.asleep = w.now.Add(100 * time.Second) // too late to put it back before anybody has rendered it
			w.excused[tc.node] = w.now.Add(60 * time.Second)
			w.lostAt = w.now
			w.changed()
			require.Empty(t, w.run(99), "the person's doing")
			require.Empty(t, w.run(200), w.story())
			require.Equal(t, w.d.ClusterID, w.nodes[tc.node].ClusterID)
		})
	}
}

func TestHalfARoleIsPutRightOnACordonedNodeToo(t *testing.T) {
	w := atRest(t, newInPlaceWorld(1, 7, 0, 3))
	for _, m := range w.all() {
		m.Cordoned = true
	}
	w.nodes["node-01"].HasRoleLabel = false
	require.Contains(t, w.next(w.observe()).Actions, plan.SetReflector{Node: "node-01", ClusterID: w.d.ClusterID})
}

// A BIRD that is dead on a Ready node serves nobody, and must hold up neither way.
func TestADeadBirdAmongTheReflectorsHoldsUp(t *testing.T) {
	dead := func(t *testing.T) *world {
		t.Helper()
		w := atRest(t, newInPlaceWorld(1, 7, 0, 3))
		w.birdDies("node-01")
		return w
	}
	t.Run("not the way back to the mesh", func(t *testing.T) {
		w := dead(t)
		require.Empty(t, w.run(200))
		w.d.Mode = v1alpha1.ModeFullMesh
		w.runUnchecked(1800)
		require.Empty(t, w.reflectors(), w.story())
	})
	t.Run("not those who replace the others", func(t *testing.T) {
		w := dead(t)
		w.runUnchecked(120)
		w.setAlive(false, w.nodes["node-02"])
		w.setAlive(false, w.nodes["node-03"])
		w.runUnchecked(1800)
		serving := 0
		for _, r := range w.reflectors() {
			if r.alive {
				serving++
			}
		}
		require.NotZero(t, serving, w.story())
	})
}

// With as many nodes as reflectors nobody would be left to serve: the first would
// be cut off for a moment, and for nothing.
func TestNothingBeginsWhereNobodyWouldBeLeftToServe(t *testing.T) {
	for nodes, want := range map[int]int{3: 0, 4: 3} {
		w := newInPlaceWorld(1, nodes, 0, 1)
		w.runUnchecked(1800)
		require.Len(t, w.reflectors(), want, "%d nodes: %s", nodes, w.story())
	}
	w, left := newInPlaceWorld(1, 4, 0, 1), []*machine{}
	for len(left) != 1 {
		w.step()
		left = slices.DeleteFunc(w.all(), func(m *machine) bool { return m.Pooled })
	}
	w.setAlive(false, left[0])
	w.runUnchecked(1800)
	require.Empty(t, w.reflectors(), "the fourth fails when the others have been chosen: %s", w.story())
}

// A node is cordoned to give its role back. Then nobody is left to replace it, so it
// serves on, and must not stay cordoned for that.
func TestNoCordonIsLeftOnAReflectorThatStays(t *testing.T) {
	w := atRest(t, newInPlaceWorld(1, 6, 0, 1))
	w.d.Promotion, w.pdb = v1alpha1.PromotionDrain, true
	w.nodes["node-04"].pods = 0 // the substitute need not be drained
	w.nodes["node-01"].Leaving = true
	w.runUnchecked(1200)
	require.True(t, w.nodes["node-01"].CordonedByUs, "the control: %s", w.story())
	for _, name := range []string{"node-02", "node-05", "node-06"} {
		w.removeNode(name)
	}
	w.nodes["node-01"].Leaving = false
	w.d.Excluded = labels.SelectorFromSet(labels.Set{"old": "yes"})
	w.nodes["node-01"].Labels = map[string]string{"old": "yes"}
	w.runUnchecked(1800)
	require.False(t, w.nodes["node-01"].CordonedByUs, w.story())
}

// Its routing and its pods go on, so its role is taken with all due care.
func TestADeadKubeletIsNoReasonToLoseAPacket(t *testing.T) {
	for _, timer := range []bool{false, true} {
		for _, name := range []string{"node-01", "node-02", "node-03"} {
			t.Run(fmt.Sprintf("%s, Timer %t", name, timer), func(t *testing.T) {
				w := newInPlaceWorld(1, 7, 0, 3)
				w.d.Timer = timer
				require.Empty(t, w.settle())
				w.nodes[name].Ready, w.nodes[name].ReadyChanged = false, w.now
				w.nextLook = w.now
				require.Empty(t, w.run(900), w.story())
				require.False(t, w.nodes[name].HasRoleLabel, w.story())
			})
		}
	}
}

// A zone that is cut off takes a reflector and clients with it. The last report of
// that reflector says for ever that it has sessions with these clients.
func TestAZoneThatStaysAwayHoldsNothingUp(t *testing.T) {
	for name, w := range map[string]*world{"existing nodes": newInPlaceWorld(1, 9, 0, 3), "dedicated nodes": newWorld(1, 9, 3)} {
		t.Run(name, func(t *testing.T) {
			require.Empty(t, w.settle())
			if w.d.Dedicated {
				w.d.Pool.SizePerZone = 2
				require.Empty(t, w.settle())
			}
			for _, m := range w.all() {
				if m.Zone == "zone-3" {
					w.setAlive(false, m)
				}
			}
			if w.d.Dedicated {
				w.d.Pool.SizePerZone = 1 // two are more than wanted: one of each zone has to go
			}
			w.runUnchecked(1200)
			for _, r := range w.reflectors() {
				require.True(t, r.alive || w.d.Dedicated, "%s still has the role\n%s", r.Name, w.story())
			}
			require.LessOrEqual(t, len(w.reflectors()), 3, w.story())
		})
	}
}

// With few clients, one that carries our label by mistake was once enough for no
// reflector to count as serving: the mesh came on, and the label stayed for ever.
func TestALabelOnOneOfTwoClientsIsTakenAway(t *testing.T) {
	for name, meshOn := range map[string]bool{"the mesh is off": false, "the mesh is on": true} {
		t.Run(name, func(t *testing.T) {
			w := atRest(t, newInPlaceWorld(1, 5, 0, 3))
			if meshOn {
				w.bgp.Mesh.Enabled = &meshOn
			}
			w.nodes["node-05"].HasRoleLabel = true
			w.asleep = w.now.Add(30 * time.Second) // everybody has rendered it
			w.changed()
			w.excused["node-05"] = w.now.Add(5 * time.Minute)
			w.lostAt = w.now
			require.Empty(t, w.run(240), w.story())
			require.False(t, w.nodes["node-05"].HasRoleLabel, w.story())
			require.Empty(t, w.settle(), w.story())
			require.False(t, w.bgp.MeshOn())
		})
	}
}

// A mesh that was off before rrpool came stays off, there and on the way back: nothing is
// written, no machine is ordered, and the user is told to switch it on.
func TestAMeshThatWasOffBeforeStaysOff(t *testing.T) {
	for name, w := range map[string]*world{"existing nodes": newInPlaceWorld(1, 5, 0, 3), "dedicated nodes": newWorld(1, 5, 3)} {
		for _, peers := range []map[string]plan.Peer{{}, {"tor": {Name: "tor", PeerIP: "172.16.0.1", ASN: 65000}}} {
			t.Run(fmt.Sprintf("%s, %d peers of others", name, len(peers)), func(t *testing.T) {
				w.d.Mode, w.bgp.Mesh.Enabled, w.peers, w.writes = v1alpha1.ModeRouteReflector, ptr.To(false), maps.Clone(peers), 0
				w.changed()
				before := w.bgp
				w.runUnchecked(600)
				if s := w.next(w.observe()); len(peers) > 0 { // routes come from there
					require.Equal(t, "RoutesFromRouters", s.Problem.Reason, w.story())
				} else {
					require.Equal(t, "AwaitMesh", s.Name, w.story())
					require.Contains(t, s.WaitingFor[0], "nodeToNodeMeshEnabled")
				}
				w.d.Mode, w.nextLook = v1alpha1.ModeFullMesh, w.now
				w.runUnchecked(600)
				require.Equal(t, before, w.bgp, w.story())
				require.Equal(t, peers, w.peers)
				require.Zero(t, w.writes, w.story())
			})
		}
		w.d.Mode, w.bgp.Mesh.Enabled = v1alpha1.ModeRouteReflector, nil
		w.changed()
		w.runUnchecked(60)
		require.Empty(t, w.settle(), w.story())
		require.Len(t, w.reflectors(), 3)
	}
}

// Where nothing tells that calico-node runs BIRD, some nodes are asked for a session before anything is ordered or changed, under the Timer
// gate too. Once reflectors are there, nothing is held up.
func TestNothingIsOrderedBeforeASignOfBGP(t *testing.T) {
	for name, w := range map[string]*world{"existing nodes": newInPlaceWorld(1, 5, 0, 3), "dedicated nodes": newWorld(1, 5, 3)} {
		t.Run(name, func(t *testing.T) {
			o := w.observe()
			require.Equal(t, "EnsurePool", w.next(o).Name)
			o.BGPUnknown = "no pod of calico-node is seen"
			s := w.next(o)
			require.Equal(t, "AwaitBGP", s.Name)
			require.Contains(t, s.Reason, "no pod of calico-node is seen")
			require.Empty(t, s.Actions)
			require.Len(t, s.WaitingFor, 3)
			require.Contains(t, s.WaitingFor[0], "a status report from ")
			require.Len(t, s.Watch, 3, "one of them may have no calico-node")
			require.Equal(t, time.Minute, s.Timeout)

			node := s.Watch[0].Node
			o.Statuses = map[string]plan.Status{node: {Node: node, Cleared: w.now}}
			require.Equal(t, []plan.Action{plan.RefreshStatus{Node: node}}, w.next(o).Actions)
			o.Statuses[node] = plan.Status{Node: node, Updated: w.now, Sessions: []plan.Session{{Kind: plan.SessionMesh}}}
			require.Contains(t, w.next(o).WaitingFor, "a session of "+node+" to be Established")

			asked := map[string]bool{}
			for range 2 * len(o.Nodes) { // those that can say it may be any
				for _, r := range w.next(o).Watch {
					asked[r.Node] = true
				}
				w.now = w.now.Add(time.Minute)
			}
			require.Len(t, asked, len(o.Nodes))

			saved := plan.Mesh{}
			o.BGP.Saved = &saved
			require.NotEqual(t, "AwaitBGP", w.next(o).Name)
			o.BGP.Saved, w.d.Timer = nil, true
			require.Equal(t, "EnsurePool", w.next(o).Name, "with the Timer gate no report could show it")
			w.d.Timer = false
		})
		o := w.observe()
		for i := range o.Nodes {
			o.Nodes[i].Labels = map[string]string{"kubernetes.io/os": "windows"}
		}
		o.BGPUnknown = "no pod"
		require.Equal(t, []string{"a Ready node that can report BGP sessions"}, w.next(o).WaitingFor)
	}
}

// The node without pods gives its role back last, whatever happened since it got it:
// the others are then reflected by it, and no pod loses a packet, announced or not.
func TestTheCheapestReflectorLeavesLast(t *testing.T) {
	for name, change := range map[string]func(*world){
		"its label was taken away and put back":   func(w *world) { w.nodes["node-01"].HasRoleLabel = false },
		"its cluster ID was taken and put back":   func(w *world) { w.nodes["node-01"].ClusterID = "" },
		"the one without pods is another than it": func(w *world) { w.nodes["node-01"].pods, w.nodes["node-03"].pods = 10, 0 },
	} {
		t.Run(name, func(t *testing.T) {
			w := atRest(t, newInPlaceWorld(1, 7, 1, 3))
			change(w)
			w.changed()
			w.runUnchecked(200)
			require.Empty(t, w.settle())
			w.d.Mode, w.nextLook = v1alpha1.ModeFullMesh, w.now
			for range 900 {
				w.runUnchecked(1)
				require.Empty(t, w.apart(hasPods), w.story())
			}
			require.Empty(t, w.reflectors(), w.story())
		})
	}
}

// The label alone, on a node that is chosen and has no role yet, changes no session. Our
// BGPPeers would, so it goes before they come.
func TestALabelOnTheNextToPromoteCostsNothing(t *testing.T) {
	w := newInPlaceWorld(1, 5, 0, 3)
	w.nodes["node-01"].Pooled = true
	w.nodes["node-01"].HasRoleLabel = true
	w.changed()
	for range 20 {
		require.Empty(t, w.run(1), w.story())
		if !w.nodes["node-01"].HasRoleLabel {
			break
		}
		require.Empty(t, w.peers, w.story())
	}
	require.False(t, w.nodes["node-01"].HasRoleLabel && !w.nodes["node-01"].Marked, w.story())
	require.Empty(t, w.settle(), w.story())
}
