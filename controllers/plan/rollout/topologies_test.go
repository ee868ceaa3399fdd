package rollout_test

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/controllers/plan"
	"github.com/rrpool/rrpool/controllers/plan/rollout"
	"github.com/rrpool/rrpool/controllers/plan/topology"
)

var kinds = []v1alpha1.TopologyType{
	v1alpha1.TopologySingle, v1alpha1.TopologyQuorum, v1alpha1.TopologyHierarchy, v1alpha1.TopologyMultiCluster,
}

// want asks for a topology, with the number of reflectors that it takes. It returns why that is refused, "" for not.
func (w *world) want(kind v1alpha1.TopologyType, redundancy, sized int) string {
	return w.arrange(topology.Spec{
		Kind: kind, ClusterID: w.d.ClusterID, Redundancy: redundancy, MaxClients: cmp.Or(w.d.Topology.MaxClients, 500), MaxPaths: 64,
		RoleLabel: w.d.RoleLabel, ZoneLabel: "zone",
	}, sized)
}

// arrangedAs is a world at rest in a topology.
func arrangedAs(t *testing.T, w *world, kind v1alpha1.TopologyType, redundancy, sized int) *world {
	t.Helper()
	require.Empty(t, w.want(kind, redundancy, sized))
	return atRest(t, w)
}

func (w *world) arrange(spec topology.Spec, sized int) string {
	var nodes []plan.Node
	for _, m := range w.clients() {
		nodes = append(nodes, m.Node)
	}
	spec, total, problem := topology.Size(spec.WithCurrent(w.observe().Nodes, w.observe().Peers), nodes, w.d.Pool.Zones, sized, "")
	if problem != nil {
		return problem.Message
	}
	w.d.Topology = spec
	w.d.Pool.SizePerZone = (total + len(w.d.Pool.Zones) - 1) / len(w.d.Pool.Zones)
	w.nextLook = w.now
	return ""
}

// arrived: everybody sits where the topology says, and nothing else of ours is left.
func (w *world) arrived(t require.TestingT) {
	require.False(t, w.bgp.MeshOn())
	require.Len(t, w.reflectors(), w.d.Pool.SizePerZone*len(w.d.Pool.Zones))
	for _, r := range w.reflectors() {
		require.Equal(t, w.d.Topology.Kind, topology.KindOf(r.Slot), r.Name)
	}
	for _, p := range w.peers {
		single := slices.Contains([]string{topology.PeerClients, topology.PeerReflectors}, p.Name)
		require.Equal(t, w.d.Topology.Kind == v1alpha1.TopologySingle, single, p.Name)
	}
}

// tight: in this MultiCluster two reflectors serve each node, and none of the three can
// be done without. With more nodes in the pool it would be otherwise.
func tight(from, to v1alpha1.TopologyType) bool {
	const multi = v1alpha1.TopologyMultiCluster
	return from == multi || to == multi
}

// From any topology to any other, there and back to the mesh, without a packet lost, and
// without the mesh in between.
func TestFromEveryTopologyToEveryOther(t *testing.T) {
	t.Parallel()
	for _, from := range kinds {
		for _, to := range kinds {
			if from == to {
				continue
			}
			t.Run(string(from)+" to "+string(to), func(t *testing.T) {
				t.Parallel()
				w := arrangedAs(t, newWorld(7, 12, 3), from, 2, 3)
				w.arrived(t)
				before := w.restores
				require.Empty(t, w.want(to, 2, 3))
				require.Empty(t, w.settle(), w.story())
				w.arrived(t)
				require.Equal(t, tight(from, to), w.restores > before, "whether the mesh was needed:\n%s", w.story())
				w.d.Mode, w.nextLook = v1alpha1.ModeFullMesh, w.now
				require.Empty(t, w.settle(), w.story())
				require.Empty(t, w.reflectors())
				require.Empty(t, w.peers)
			})
		}
	}
}

// In every topology the disturbances that Single survives cost nothing either, and the
// topology may change at any moment.
func TestAnyOrderOfDisturbancesInAnyTopology(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(rapid.Uint64().Draw(t, "seed"), rapid.IntRange(3, 6).Draw(t, "clients"), rapid.IntRange(2, 3).Draw(t, "zones"))
		w.regular = rapid.Bool().Draw(t, "regular")
		w.drawFamilies(t)
		redundancy := rapid.IntRange(2, 3).Draw(t, "redundancy")
		w.atLeast = redundancy - 1 // a rack has no more reflectors than that, and a person takes one
		change := func(w *world, _ int) { w.want(rapid.SampledFrom(kinds).Draw(t, "kind"), redundancy, 3) }
		change(w, 0)
		w.hold(t, w.settle())
		// What resizes the pool without regard to the topology is left out, and the role label on a client: in other
		// topologies than Single it costs that client its sessions until it is taken away again.
		e := dedicatedEvents()
		e.names = slices.DeleteFunc(e.names, func(name string) bool { return name == "grow" || name == "shrink" || name == "stray label" })
		e.happen["topology changes"] = change
		e.names = append(e.names, "topology changes", "topology changes", "topology changes")
		w.suffer(t, e, w.run)
		w.mend(t)
	})
}

// Where no label makes racks, rrpool labels the clients, and takes the labels away when
// nothing asks for them any more. Nobody loses a route, also not those who join.
func TestRacksBySize(t *testing.T) {
	t.Parallel()
	for name, leave := range map[string]func(*world){
		"and on to Single":     func(w *world) { w.d.Topology.MaxClients = 500; require.Empty(t, w.want(v1alpha1.TopologySingle, 2, 3)) },
		"and back to the mesh": func(w *world) { w.d.Mode, w.nextLook = v1alpha1.ModeFullMesh, w.now },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(3, 12, 1)
			w.d.Topology.MaxClients = 5
			require.Empty(t, w.want(v1alpha1.TopologyHierarchy, 2, 3))
			require.Empty(t, w.settle(), w.story())
			w.arrived(t)
			require.Equal(t, map[string]int{"1": 4, "2": 4, "3": 4}, w.racks())
			for i := range 4 {
				w.addNode(fmt.Sprintf("new-%d", i), "zone-1", false)
				require.Empty(t, w.run(100), w.story())
			}
			w.d.Topology.MaxClients = 5
			require.Empty(t, w.want(v1alpha1.TopologyHierarchy, 2, 3))
			require.Empty(t, w.settle(), w.story())
			require.Equal(t, 16, w.racks()["1"]+w.racks()["2"]+w.racks()["3"]+w.racks()["4"], "%v", w.racks())
			leave(w)
			require.Empty(t, w.settle(), w.story())
			require.Empty(t, w.racks())
		})
	}
}

// racks counts the clients in each rack of ours.
func (w *world) racks() map[string]int {
	out := map[string]int{}
	for _, m := range w.nodes {
		if m.Rack != "" {
			out[m.Rack]++
		}
	}
	return out
}

// A spec that changes again before the first move is over.
func TestATopologyThatChangesInTheMiddleOfAMove(t *testing.T) {
	t.Parallel()
	for _, to := range kinds {
		for after := range 6 {
			w := newWorld(11, 6, 3)
			require.Empty(t, w.settle())
			require.Empty(t, w.want(v1alpha1.TopologyQuorum, 2, 3))
			require.Empty(t, w.run(4*after), w.story())
			require.Empty(t, w.want(to, 2, 3))
			if after%2 == 0 {
				w.d.Password = &plan.SecretRef{Name: "another", Key: "password"}
			}
			require.Empty(t, w.settle(), w.story())
			w.arrived(t)
		}
	}
}

// A password that comes in the middle of a move reaches the BGPPeers of the topology that
// is left as well, also when their reflectors have been given other slots already.
func TestAPasswordInTheMiddleOfAMoveToSingle(t *testing.T) {
	t.Parallel()
	for _, from := range kinds[1:] {
		for after := 0; after < 24; after += 2 {
			w := arrangedAs(t, newWorld(11, 6, 3), from, 2, 3)
			require.Empty(t, w.want(v1alpha1.TopologySingle, 2, 3))
			require.Empty(t, w.run(after), w.story())
			disturbances["password added"](w, 0)
			require.Empty(t, w.settle(), "%s, %d s after the move began:\n%s", from, after, w.story())
			w.arrived(t)
		}
	}
}

// What a person or a failure does to one rack is put right without the mesh, which would
// be there for all the others as well.
func TestOneRackIsNoReasonForTheMesh(t *testing.T) {
	t.Parallel()
	for name, do := range map[string]func(w *world, rack *machine){
		"a reflector's cluster ID is edited": func(_ *world, m *machine) { m.ClusterID = "244.0.0.99" },
		"a reflector's slot is edited":       func(_ *world, m *machine) { m.Slot = "rack-nowhere-7" },
		"the role label on a client":         func(w *world, _ *machine) { w.clients()[0].HasRoleLabel = true },
		"a rack's BGPPeer is deleted":        func(w *world, _ *machine) { delete(w.peers, topology.PeerRack+".zone-1") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := arrangedAs(t, newWorld(5, 12, 3), v1alpha1.TopologyHierarchy, 2, 3)
			i := slices.IndexFunc(w.reflectors(), func(m *machine) bool { return m.Slot == "rack-zone-1-1" })
			fellow := slices.IndexFunc(w.reflectors(), func(m *machine) bool { return m.Slot == "rack-zone-1-2" })
			before, restores := w.reflectors()[fellow].ClusterID, w.restores
			do(w, w.reflectors()[i])
			w.changed()
			w.atLeast = 0
			for _, m := range w.nodes {
				w.excused[m.Name] = w.now.Add(joinTime)
			}
			require.Empty(t, w.settle(), w.story())
			w.arrived(t)
			require.Equal(t, before, w.reflectors()[fellow].ClusterID, "nobody else has to move")
			require.Equal(t, restores, w.restores, w.story())
		})
	}
}

// A calico-node that restarts on the only node of a rack condemns no reflector.
func TestOneClientCondemnsNoRack(t *testing.T) {
	t.Parallel()
	w := newWorld(5, 12, 3)
	for i, m := range w.clients() {
		if i%3 == 0 && i > 0 {
			w.removeNode(m.Name)
		}
	}
	require.Empty(t, w.want(v1alpha1.TopologyHierarchy, 2, 3))
	require.Empty(t, w.settle())
	restores := w.restores
	w.birdDies("client-01")
	w.excused["client-01"] = w.now.Add(5 * time.Minute)
	w.atLeast = 0
	require.Empty(t, w.run(100), w.story())
	require.Equal(t, restores, w.restores, w.story())
}

// Reflectors that grow in number take no session from a client before the one that follows is up.
func TestGrowingTakesNoSessionBeforeTheNextIsUp(t *testing.T) {
	t.Parallel()
	w := arrangedAs(t, newWorld(9, 12, 3), v1alpha1.TopologyQuorum, 2, 6)
	each := w.servedBy(w.clients()[0], w.reflectors())
	w.atLeast = each
	require.Empty(t, w.want(v1alpha1.TopologyQuorum, 2, 9))
	for range 600 {
		require.Empty(t, w.run(1), w.story())
		for _, c := range w.clients() {
			require.GreaterOrEqual(t, w.servedBy(c, w.reflectors()), each, "%s at %s:\n%s", c.Name, w.now.Format("04:05"), w.story())
		}
	}
	w.arrived(t)
}

// A rack whose reflectors have lost all spines reaches nobody else, although each of its
// clients has its sessions: the mesh takes over.
func TestARackWithoutSpinesIsNotServed(t *testing.T) {
	t.Parallel()
	w := arrangedAs(t, newWorld(5, 12, 3), v1alpha1.TopologyHierarchy, 2, 3)
	for _, r := range w.reflectors() {
		for _, s := range w.reflectors() {
			if strings.HasPrefix(r.Slot, "rack-zone-1-") && strings.HasPrefix(s.Slot, topology.SlotSpine) {
				w.model.Cut(r.Name, s.Name, true)
			}
		}
	}
	for _, m := range w.nodes {
		w.excused[m.Name] = w.now.Add(3 * time.Minute)
	}
	w.atLeast = 0
	require.Empty(t, w.run(600), w.story())
	require.True(t, w.bgp.MeshOn())
}

// BenchmarkNext measures one decision of a large cluster at rest.
func BenchmarkNext(b *testing.B) {
	for kind, reflectors := range map[v1alpha1.TopologyType]int{v1alpha1.TopologySingle: 24, v1alpha1.TopologyQuorum: 24, v1alpha1.TopologyHierarchy: 12} {
		w := newWorld(1, 12, 3)
		require.Empty(b, w.want(kind, 3, reflectors))
		require.Empty(b, w.settle(), w.story())
		w.now, w.d.Topology.MaxClients = w.now.Add(time.Hour), 50_000
		for _, nodes := range []int{1000, 5000, 50_000} {
			w.crowd = nodes - 12
			o := w.observe()
			slices.SortFunc(o.Nodes, func(a, b plan.Node) int { return cmp.Compare(a.Name, b.Name) })
			b.Run(fmt.Sprintf("%s-%d", kind, nodes), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					require.Equal(b, rollout.Steady, rollout.Next(o, w.d, w.clock()).Name)
				}
			})
		}
	}
}

// The reflectors are lost, or have yet to come, and another topology is wanted: what is left of Single, or put back by a person, selects
// reflectors that are yet to come. Neither the roles nor the mesh's end may make the paths multiply.
func TestBGPPeersOfSingleNeverMeetAnotherTopology(t *testing.T) {
	t.Parallel()
	lost := func(w *world) {
		for _, r := range w.reflectors() {
			w.dropWorker(r.WorkerID)
		}
		w.runUnchecked(120)
	}
	for name, before := range map[string]func(*world){
		"before the first reflector": func(w *world) {
			w.d.Mode = v1alpha1.ModeFullMesh
			w.runUnchecked(900)
			w.d.Mode = v1alpha1.ModeRouteReflector
			w.runUnchecked(4)
		},
		"once all reflectors are lost":         lost,
		"one of the two BGPPeers is deleted":   func(w *world) { lost(w); delete(w.peers, topology.PeerClients); w.changed() },
		"a former label, and the mesh by hand": func(w *world) { w.relabel("rrpool.io/other"); disturbances["mesh switched on"](w, 0); lost(w) },
	} {
		for _, kind := range []v1alpha1.TopologyType{v1alpha1.TopologyHierarchy, v1alpha1.TopologyMultiCluster} {
			t.Run(name+", "+string(kind), func(t *testing.T) {
				t.Parallel()
				w := arrangedAs(t, newWorld(1, 8, 2), v1alpha1.TopologySingle, 2, 4)
				before(w)
				require.Empty(t, w.want(kind, 2, 4))
				for range 1500 {
					w.runUnchecked(1)
					require.Empty(t, w.multiplied()+w.atOdds(), w.story())
				}
				w.arrived(t)
			})
		}
	}
}

// BGPPeers of Single that a person adds beside tiers give each reflector more sessions to have than it has: by those none serves. All go on
// carrying routes, so nothing that restarts sessions comes before the mesh carries them, and no role moves for it.
func TestBGPPeersOfSingleBesideTiersCostNothing(t *testing.T) {
	t.Parallel()
	for _, kind := range []v1alpha1.TopologyType{v1alpha1.TopologyQuorum, v1alpha1.TopologyHierarchy} {
		for name, edit := range map[string]func(*world){
			"alone":                nil,
			"beside a password":    func(w *world) { w.d.Password = &plan.SecretRef{Name: "new", Key: "password"} },
			"beside a cluster ID":  func(w *world) { w.d.ClusterID, w.d.Topology.ClusterID = "244.9.0.1", "244.9.0.1" },
			"beside another order": func(w *world) { _ = w.want(kinds[3-slices.Index(kinds, kind)], 2, 6) },
		} {
			t.Run(string(kind)+", "+name, func(t *testing.T) {
				t.Parallel()
				w := arrangedAs(t, newWorld(1, 12, 3), kind, 2, 6)
				for _, p := range topology.Single(label, topology.Session{}) {
					p.Written = w.now.Add(-time.Hour)
					w.peers[p.Name] = p
				}
				w.changed()
				if edit != nil {
					edit(w)
				}
				for range 1500 {
					w.tick()
					w.deploy()
					w.manage(-1)
					require.Empty(t, w.unreachable()+w.underserved(), w.story())
				}
				require.Equal(t, rollout.Steady, w.last, w.story())
				w.arrived(t)
			})
		}
	}
}

// Nor does the cluster ID change while each reflector carries a few nodes and none most of them.
func TestAClusterIDDoesNotChangeWhileReflectorsCarryAFewNodes(t *testing.T) {
	for sessions, want := range map[int]int{0: 1, 1: 0} {
		w, o := migrated(t)
		on := true
		o.BGP.Mesh.Enabled, w.d.ClusterID = &on, "244.9.0.1"
		for _, r := range w.reflectors() {
			editStatus(&o, r.Name, func(st *plan.Status) {
				for i := range st.Sessions {
					st.Sessions[i].Established = i < sessions
				}
			})
		}
		s := w.next(o)
		require.Equal(t, "ChangeClusterID", s.Name)
		require.Len(t, s.Actions, want, s.Reason)
	}
}

// BGPPeers of ours that select too many, by a person's hand, keep the mesh until they are put right.
func TestTheMeshStaysWhilePathsMultiply(t *testing.T) {
	t.Parallel()
	for name, edit := range map[string]func(*world){
		"those of Single are back": func(w *world) {
			for _, p := range topology.Single(label, topology.Session{}) {
				p.Written = w.now.Add(-time.Hour)
				w.peers[p.Name] = p
			}
		},
		"the spines' select all reflectors": func(w *world) {
			p := w.peers[topology.PeerSpines]
			p.NodeSelector, p.PeerSelector = "has("+label+")", "has("+label+")"
			w.peers[p.Name] = p
		},
		"one that is not wanted selects all reflectors": func(w *world) {
			p := w.peers[topology.PeerSpines]
			p.Name, p.NodeSelector, p.PeerSelector = topology.PeerQuorumReflectors, "has("+label+")", "has("+label+")"
			w.peers[p.Name] = p
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := arrangedAs(t, newWorld(1, 12, 3), v1alpha1.TopologyHierarchy, 2, 15)
			disturbances["mesh switched on"](w, 0)
			edit(w)
			w.changed()
			require.NotEmpty(t, w.multiplied(), "the control")
			for range 1500 {
				w.tick()
				w.manage(-1)
				require.True(t, w.bgp.MeshOn() || w.multiplied() == "", w.story())
			}
			require.False(t, w.bgp.MeshOn(), w.story())
		})
	}
}

// A reflector that takes another's place has its cluster ID also while both are there: two of a slot pass on nothing to each other.
func TestASubstituteHasTheClusterIDOfItsSlot(t *testing.T) {
	t.Parallel()
	for _, kind := range []v1alpha1.TopologyType{v1alpha1.TopologyHierarchy, v1alpha1.TopologyMultiCluster} {
		w := arrangedAs(t, newWorld(1, 8, 2), kind, 2, 4)
		ids := map[string]string{}
		for _, r := range w.reflectors() {
			ids[r.Slot] = r.ClusterID
		}
		disturbances["workers outdated"](w, 0)
		for range 3600 {
			w.tick()
			w.deploy()
			w.manage(-1)
			for _, r := range w.reflectors() {
				require.Equal(t, ids[r.Slot], r.ClusterID, "%s in slot %s\n%s", r.Name, r.Slot, w.story())
			}
		}
		w.arrived(t)
	}
}

// The BGPPeer of a rack is deleted or edited, and a refusal keeps it so: the sessions that its reflectors had are still expected.
func TestWhatABGPPeerGaveIsMissed(t *testing.T) {
	t.Parallel()
	names := map[v1alpha1.TopologyType]string{
		v1alpha1.TopologyHierarchy: topology.PeerRack + ".zone-1", v1alpha1.TopologyMultiCluster: topology.PeerMulti + ".zone-1",
		v1alpha1.TopologyQuorum: topology.PeerQuorum, v1alpha1.TopologySingle: topology.PeerClients,
	}
	for what, edit := range map[string]func(*world, string){
		"deleted":   func(w *world, name string) { delete(w.peers, name) },
		"no client": func(w *world, name string) { p := w.peers[name]; p.NodeSelector = "has(nobody)"; w.peers[name] = p },
		"one client": func(w *world, name string) {
			p := w.peers[name]
			p.NodeSelector, p.Node = "", w.clients()[0].Name
			w.peers[name] = p
		},
		"no reflectors": func(w *world, name string) { p := w.peers[name]; p.PeerSelector = "has(nobody)"; w.peers[name] = p },
	} {
		for kind, name := range names {
			w := arrangedAs(t, newWorld(5, 12, 3), kind, 2, 3)
			before := w.next(w.observe())
			require.Contains(t, w.peers, name)
			edit(w, name)
			w.refuse()
			w.changed()
			w.runUnchecked(60)
			lacking := 0
			for i, r := range w.next(w.observe()).Reflectors {
				require.Equal(t, before.Reflectors[i].Expected, r.Expected, "%s, %s: %s", what, kind, r.Node)
				lacking += r.Lacking
			}
			require.Positive(t, lacking, kind)
		}
	}
}

// The labels by which clients belong to racks of ours are taken away, and a refusal keeps it so.
func TestWhatARacksLabelGaveIsMissed(t *testing.T) {
	t.Parallel()
	w := newWorld(3, 12, 1)
	w.d.Topology.MaxClients = 5
	require.Empty(t, w.want(v1alpha1.TopologyHierarchy, 2, 3))
	before := w.next(atRest(t, w).observe())
	for _, m := range w.all() {
		m.Rack = "" // all are of the one that is not full then
	}
	w.refuse()
	w.changed()
	w.runUnchecked(60)
	lacking := 0
	for i, r := range w.next(w.observe()).Reflectors {
		require.GreaterOrEqual(t, r.Expected, before.Reflectors[i].Expected, r.Node)
		lacking += r.Lacking
	}
	require.Positive(t, lacking)
}

// While BGPPeers wait for a mesh that lacks a session, the worker of a reflector that is dead is replaced.
func TestADeadReflectorIsReplacedWhileBGPPeersWaitForTheMesh(t *testing.T) {
	t.Parallel()
	w := arrangedAs(t, newWorld(1, 12, 3), v1alpha1.TopologyHierarchy, 2, 15)
	disturbances["mesh switched on"](w, 0)
	for _, p := range topology.Single(label, topology.Session{}) {
		p.Written = w.now.Add(-time.Hour)
		w.peers[p.Name] = p
	}
	w.model.Cut("client-01", "client-02", true)
	dead := w.reflectors()[0]
	w.setAlive(false, dead)
	i := slices.IndexFunc(w.pool.Workers, func(x rollout.ObservedWorker) bool { return x.Node == dead.Name })
	w.pool.Workers[i].Failed = true
	w.changed()
	w.asleep = w.now.Add(time.Minute) // until the sessions are up that come of it
	w.runUnchecked(600)
	s := w.next(w.observe())
	require.Equal(t, "AwaitMesh", s.Name, w.story())
	require.Contains(t, s.WaitingFor[0], "client-01 ↔ client-02", "%v", s.WaitingFor)
	require.Nil(t, w.nodes[dead.Name], w.story())
	require.Len(t, w.pool.Workers, 9)
	require.False(t, does(s, plan.EnsurePool{}), "it is asked for once")
	w.model.Cut("client-01", "client-02", false)
	w.runUnchecked(900)
	w.arrived(t)
}
