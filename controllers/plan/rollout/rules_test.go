package rollout_test

import (
	"cmp"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/controllers/plan"
	"github.com/rrpool/rrpool/controllers/plan/reason"
	"github.com/rrpool/rrpool/controllers/plan/rollout"
	"github.com/rrpool/rrpool/controllers/plan/topology"
)

// The clusters that examples begin with. Dedicated nodes: six nodes with pods, client-01 to client-06, in three zones, and one route
// reflector a zone on a worker of its own, worker-07 to worker-09. In place: seven nodes with pods, node-01 to node-07, of which three
// are route reflectors. A fresh cluster is on the mesh and has no reflector yet; a migrated one has been at rest since.
const (
	fresh           = "a fresh cluster"
	migratedCluster = "a migrated cluster"
	freshInPlace    = "a fresh cluster, in place"
	migratedInPlace = "a migrated cluster, in place"
)

// example shows a rule at work.
type example struct {
	rule string
	// from is the state before, and given what has changed since, "" and nil for nothing. The manager then goes on until the rule proposes
	// this step; other rules may speak before.
	from  string
	given func(*world)
	// step is its name, and what it does, waits for, or names as the problem.
	step string
	// after is what has changed in the cluster with the step, "" for nothing.
	after string
}

var examples = map[string]example{
	"while Calico's datastore is locked, nothing is written, not even to get routes back": {
		"Locked", migratedCluster, func(w *world) {
			w.setAlive(false, w.reflectors()...)
			w.sees = func(o *rollout.Observed) { o.Locked = &plan.Problem{Reason: "DatastoreLocked", Message: "wait"} }
		},
		"UnsupportedCluster: DatastoreLocked", "",
	},
	"all reflectors die: the mesh comes on": {
		"SafetyNet", migratedCluster, func(w *world) { w.setAlive(false, w.reflectors()...) },
		"RestoreMesh: switch the node-to-node mesh on", "mesh: off, now on",
	},
	"the packets between one node and all reflectors get lost: the mesh comes on": {
		"Reconnect", migratedCluster, func(w *world) { w.cutOff(true, w.nodes["client-01"]) },
		"RestoreMesh: switch the node-to-node mesh on", "mesh: off, now on",
	},
	"a BGPPeer between two reflectors with pods is deleted: it is written again": {
		"Connect", migratedInPlace, func(w *world) {
			maps.DeleteFunc(w.peers, func(_ string, p plan.Peer) bool { return p.PeerIP == w.nodes["node-03"].Addresses[0].String() })
		},
		"WritePeers: write BGPPeer rrpool.node-01.node-03.v4; write BGPPeer rrpool.node-02.node-03.v4", "+ BGPPeer rrpool.node-01.node-03.v4; + BGPPeer rrpool.node-02.node-03.v4",
	},
	"a spec that cannot be carried out is named": {
		"RefuseSpec", migratedCluster, func(w *world) {
			w.d.Invalid = &plan.Problem{Reason: "TooManyZones", Message: "x"}
		},
		"InvalidSpec: TooManyZones", "",
	},
	"spec.mode is FullMesh: first the mesh comes on": {
		"RestoreMesh", migratedCluster, back,
		"RestoreMesh: switch the node-to-node mesh on", "mesh: off, now on",
	},
	"a node that was cordoned for its promotion is uncordoned once it serves": {
		"UndoCordon", freshInPlace, func(w *world) { w.d.Promotion = v1alpha1.PromotionCordon },
		"UncordonNode: uncordon node node-01", "- cordon of node-01",
	},
	"a person has uncordoned a node that rrpool had cordoned: its mark goes": {
		"UndoCordon", migratedInPlace, func(w *world) { w.nodes["node-05"].CordonMark = true },
		"UncordonNode: uncordon node node-05", "",
	},
	"Calico cannot read an object, and a reflector has lost its cluster ID: that is put back": {
		"HealUnread", migratedCluster, func(w *world) {
			w.problems = []plan.Problem{{Reason: reason.ObjectUnreadable, Message: "x"}}
			w.nodes["worker-07"].ClusterID = ""
		},
		"HealReflectors: make node worker-07 a route reflector with cluster ID 244.0.0.1", "reflector worker-07: no cluster ID, now 244.0.0.1",
	},
	"the datastore reports a problem: nothing goes on": {
		"Hold", fresh, func(w *world) {
			w.problems = []plan.Problem{{Reason: "CalicoNotInstalled", Message: "x"}}
		},
		"UnsupportedCluster: CalicoNotInstalled", "",
	},
	"a route reflector that rrpool did not make is named": {
		"Refuse", fresh, func(w *world) { w.nodes["client-01"].ClusterID = "1.1.1.1" },
		"UnsupportedCluster: ForeignReflector", "",
	},
	"the mesh was off before rrpool came: a person has to switch it on": {
		"AwaitMesh", fresh, func(w *world) { w.bgp.Mesh.Enabled = new(bool) },
		"AwaitMesh: awaits nodeToNodeMeshEnabled of the default BGPConfiguration to be true", "",
	},
	"no pod of calico-node is seen: nothing is ordered before nodes report a session": {
		"AwaitBGP", fresh, func(w *world) {
			w.sees = func(o *rollout.Observed) { o.BGPUnknown = "no pod of calico-node is seen" }
		},
		"AwaitBGP: awaits a status report from client-01, 2 more", "",
	},
	"the annotation that says how the mesh was is deleted: it is written again": {
		"NoteMesh", migratedCluster, func(w *world) { w.bgp.Saved = nil },
		"NoteMesh: note on the BGPConfiguration how the mesh is to come back", "+ annotation of how the mesh was",
	},
	"a person puts the role label on a client: it is removed at once, as without the mesh that restarts no session": {
		"StrayLabels", migratedCluster, func(w *world) {
			w.nodes["client-01"].HasRoleLabel = true
			w.model.Cut("client-02", "worker-09", true)
		},
		"RemoveStrayLabel: take the route reflector role from node client-01", "- role label of client-01",
	},
	"a person removes the role label of a reflector: it is put back": {
		"HealRoles", migratedCluster, func(w *world) { w.nodes["worker-07"].HasRoleLabel = false },
		"HealReflectors: make node worker-07 a route reflector with cluster ID 244.0.0.1", "reflector worker-07: 244.0.0.1 without the label, now 244.0.0.1",
	},
	"spec.bgp.nodeLabel is another: the reflectors get it beside the former": {
		"Relabel", migratedCluster, func(w *world) { w.relabel("rrpool.io/other") },
		"HealReflectors: make node worker-07 a route reflector with cluster ID 244.0.0.1 in slot true; 2 more", "reflector worker-07: 244.0.0.1 with the former label alone, now 244.0.0.1; 2 more",
	},
	"spec.bgp.nodeLabel is another and spec.mode FullMesh: the BGPPeers select by the new label first": {
		"Reselect", migratedInPlace, func(w *world) { w.relabel("rrpool.io/other"); back(w) },
		"RepairPeers: write BGPPeer rrpool-clients", "BGPPeer rrpool-clients: has(rrpool.io/route-reflector), now has(rrpool.io/other)",
	},
	"a Hierarchy in one zone: the clients are divided into racks of five": {
		"PutInRacks", fresh, racksOfFive,
		"LabelRacks: put node client-01 into rack 1; 11 more", "+ rack of client-01; 11 more",
	},
	"before the first reflector come the BGPPeers": {
		"WritePeers", fresh, nil,
		"WritePeers: write BGPPeer rrpool-clients; write BGPPeer rrpool-reflectors", "+ BGPPeer rrpool-clients; + BGPPeer rrpool-reflectors",
	},
	"a BGPPeer that is not wanted gives nodes too many paths while the mesh is on: it goes": {
		"ClearPaths", fresh, func(w *world) {
			becomes(v1alpha1.TopologyHierarchy, 15)(w)
			_ = w.settle()
			disturbances["mesh switched on"](w, 0)
			p := w.peers[topology.PeerSpines]
			p.Name, p.NodeSelector, p.PeerSelector = topology.PeerQuorumReflectors, "has("+label+")", "has("+label+")"
			w.peers[p.Name] = p
		},
		"DeletePeers: delete BGPPeer rrpool-quorum-reflectors", "- BGPPeer rrpool-quorum-reflectors",
	},
	"on the way back a reflector has given its role back: the BGPPeers between it and the others go": {
		"StrayPeerings", migratedInPlace, back,
		"DeletePeers: delete BGPPeer rrpool.node-01.node-03.v4; delete BGPPeer rrpool.node-02.node-03.v4", "- BGPPeer rrpool.node-01.node-03.v4; - BGPPeer rrpool.node-02.node-03.v4",
	},
	"the dedicated nodes are Ready: they get the role": {
		"Promote", fresh, nil,
		"PromoteReflectors: make node worker-07 a route reflector with cluster ID 244.0.0.1; 2 more", "+ reflector worker-07; 2 more",
	},
	"a node with pods gets the role once the other reflectors carry its routes": {
		"PromoteInPlace", freshInPlace, nil,
		"PromoteReflectors: make node node-02 a route reflector with cluster ID 244.0.0.1", "+ reflector node-02",
	},
	"the cloud does not answer: nothing is ordered": {
		"AwaitProvider", fresh, func(w *world) { w.cloudSilent = true },
		"AwaitProvider: awaits the provider to answer", "",
	},
	"zones are replaced by others: those are emptied before the cloud would refill them": {
		"EmptyZones", migratedCluster, func(w *world) {
			w.d.Pool.Zones, w.d.Pool.SizePerZone = w.d.Pool.Zones[:2], 2
		},
		"RemoveReflector: take the route reflector role from node worker-09", "- reflector worker-09",
	},
	"there is no worker pool yet: it is ordered": {
		"GrowPool", fresh, nil,
		"EnsurePool: bring the pool to 1 per zone", "+ pool",
	},
	"a zone has lost a worker: it gets another": {
		"GrowPool", migratedCluster, func(w *world) { w.dropWorker("worker-07") },
		"EnsurePool: bring the pool to 1 per zone", "+ worker worker-13",
	},
	"a reflector is cordoned while another is NotReady: a substitute is ordered": {
		"OrderSubstitutes", migratedCluster, func(w *world) {
			w.nodes["worker-07"].Cordoned = true
			w.setAlive(false, w.nodes["worker-08"])
		},
		"EnsurePool: bring the pool to 2 per zone", "pool: 1 per zone, 3 zones, now 2 per zone, 3 zones; 3 more",
	},
	"the workers are ordered: their nodes are waited for": {
		"AwaitWorkers", fresh, nil,
		"EnsurePool: awaits worker worker-07 in zone zone-1: deploying, 2 more", "",
	},
	"the next node with pods is chosen": {
		"JoinPool", freshInPlace, nil,
		"EnsurePool: bring the pool to 1 per zone", "+ choice of node-01",
	},
	"spec.bgp.clusterID is another: the reflectors get it one at a time": {
		"ChangeID", migratedCluster, func(w *world) { w.d.ClusterID = "244.0.0.2" },
		"ChangeClusterID: make node worker-07 a route reflector with cluster ID 244.0.0.2", "reflector worker-07: 244.0.0.1, now 244.0.0.2",
	},
	"the topology is another: reflectors move to their slots": {
		"Reassign", migratedCluster, becomes(v1alpha1.TopologyQuorum, 3),
		"MoveReflectors: make node worker-07 a route reflector with cluster ID 244.0.0.1 in slot quorum-zone-1-1; 2 more", "reflector worker-07: 244.0.0.1, now 244.0.0.1 quorum-zone-1-1; 2 more",
	},
	"a reflector with pods was cordoned and replaced: the BGPPeers between it and the others go": {
		"StrayPeeringsOffMesh", migratedInPlace, func(w *world) { w.nodes["node-02"].Cordoned = true },
		"DeletePeers: delete BGPPeer rrpool.node-01.node-02.v4; 2 more", "- BGPPeer rrpool.node-01.node-02.v4; 2 more",
	},
	"the mesh is on and there is one reflector with pods too many: it gives the role back before the mesh goes": {
		"Trim", migratedInPlace, func(w *world) {
			disturbances["mesh switched on"](w, 0)
			w.nodes["node-02"].Cordoned = true
		},
		"RemoveReflector: take the route reflector role from node node-02", "- reflector node-02",
	},
	"others have switched the mesh on three times: it stays on": {
		"AwaitMeshOwner", migratedCluster, func(w *world) {
			w.remembers = true
			disturbances["mesh switched on"](w, 0)
			w.memory.Reversed = []time.Time{w.now, w.now, w.now}
		},
		"AwaitMeshOwner: awaits nodeToNodeMeshEnabled of BGPConfiguration default to be left to rrpool", "",
	},
	"every node has its sessions and routes from all reflectors: the mesh goes off": {
		"DisableMesh", fresh, nil,
		"DisableMesh: switch the node-to-node mesh off", "mesh: on, now off; + annotation of how the mesh was",
	},
	"the worker of a reflector that gave its role back is removed": {
		"RetireWorkers", migratedCluster, twoZones,
		"RetireWorker: bring the pool to 1 per zone, retiring [worker-09]", "- worker worker-09",
	},
	"a worker of the former flavor has become no node: it is removed": {
		"RetireWorkers", migratedCluster, func(w *world) {
			w.pool.Workers = append(w.pool.Workers, rollout.ObservedWorker{ID: "without-node", Zone: "zone-1", Former: true})
		},
		"RetireWorker: bring the pool to 1 per zone, retiring [without-node]", "- worker without-node",
	},
	"one reflector more than wanted gives its role back while the others serve": {
		"RemoveSurplus", migratedCluster, twoZones,
		"RemoveReflector: take the route reflector role from node worker-09", "- reflector worker-09",
	},
	"a reflector with pods is cordoned soon after roles have moved: they stay for a while": {
		"AwaitRoleRest", migratedInPlace, func(w *world) { w.d.RemovalDelay, w.nodes["node-02"].Cordoned = time.Minute, true },
		"RemoveReflector: awaits 10m0s to have passed since node node-02 became a route reflector (ten times spec.rollout.removalDelay)", "",
	},
	"a reflector with pods is cordoned: another takes its place, then it gives its role back": {
		"RemoveInPlace", migratedInPlace, func(w *world) { w.nodes["node-02"].Cordoned = true },
		"RemoveReflector: take the route reflector role from node node-02", "- reflector node-02",
	},
	"the surplus workers are gone: the cloud is told of the smaller pool": {
		"ShrinkPool", migratedCluster, twoZones,
		"ShrinkPool: bring the pool to 1 per zone", "pool: 1 per zone, 3 zones, now 1 per zone, 2 zones",
	},
	"a node with pods that gave its role back leaves the pool": {
		"LeavePool", migratedInPlace, func(w *world) { w.nodes["node-02"].Cordoned = true },
		"ReleasePool: bring the pool to 1 per zone, retiring [node-02]", "- choice of node-02",
	},
	"a Quorum gets more reflectors, each for fewer clients: a BGPPeer selects fewer nodes once all serve": {
		"Narrow", fresh, func(w *world) {
			*w = *newWorld(1, 9, 3)
			becomes(v1alpha1.TopologyQuorum, 6)(w)
			_ = w.settle()
			becomes(v1alpha1.TopologyQuorum, 9)(w)
		},
		"NarrowPeers: write BGPPeer rrpool-quorum.zone-1", "BGPPeer rrpool-quorum.zone-1 changed",
	},
	"the topology is another: a BGPPeer of the former one goes": {
		"StrayPeers", migratedCluster, becomes(v1alpha1.TopologyQuorum, 3),
		"DeletePeers: delete BGPPeer rrpool-clients", "- BGPPeer rrpool-clients",
	},
	"the mesh carries every pair of nodes: a reflector gives its role back": {
		"Demote", migratedCluster, back,
		"DemoteReflectors: take the route reflector role from node worker-07", "- reflector worker-07",
	},
	"no reflector is left: the BGPPeers go": {
		"DeletePeers", migratedCluster, back,
		"DeletePeers: delete BGPPeer rrpool-clients; delete BGPPeer rrpool-reflectors", "- BGPPeer rrpool-clients; - BGPPeer rrpool-reflectors",
	},
	"no BGPPeer selects by racks any more: their labels go": {
		"ClearRacks", fresh, func(w *world) { racksOfFive(w); _ = w.settle(); back(w) },
		"ClearRacks: take node client-01 out of its rack; 11 more", "- rack of client-01; 11 more",
	},
	"a reflector is cordoned: a substitute is ordered before it gives its role back": {
		"Substitute", migratedCluster, func(w *world) { w.nodes["worker-07"].Cordoned = true },
		"EnsurePool: bring the pool to 2 per zone", "pool: 1 per zone, 3 zones, now 2 per zone, 3 zones; 3 more",
	},
	"the status reporter of a reflector hangs: its report is waited for": {
		"AwaitReports", migratedCluster, func(w *world) { w.nodes["worker-07"].hung = true },
		"AskReflectors: awaits a status report from calico-node on worker-07", "",
	},
	"a reflector with pods is cordoned and no other node can take its place: it is said why": {
		"AwaitNodes", migratedInPlace, func(w *world) {
			for _, m := range w.all() {
				m.Cordoned = m.Name == "node-01" || !m.HasRoleLabel
			}
		},
		"AwaitNodes: awaits node node-01: it is cordoned, 4 more", "",
	},
	"all nodes but one are cordoned before the migration: it is said why they cannot be reflectors": {
		"AwaitNodesUnderMesh", freshInPlace, func(w *world) {
			for _, m := range w.all() {
				m.Cordoned = m.Name != "node-01"
			}
		},
		"AwaitNodes: awaits node node-02: it is cordoned, 5 more", "",
	},
	"a worker pool that has given way to another is deleted": {
		"DeleteEmptied", migratedCluster, func(w *world) { w.pool.Emptied = "former" },
		"EnsurePool: bring the pool to 1 per zone", "",
	},
	"pods have addresses of no IPPool, which reflectors do not pass on: nothing is called steady": {
		"AwaitRoutes", migratedCluster, func(w *world) {
			w.sees = func(o *rollout.Observed) { o.Routes.Ranges = []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")} }
		},
		"AwaitRoutes: awaits an IPPool that contains 192.168.1.0/26 of client-01, 8 more", "",
	},
	"the way back is over: the annotation that says how the mesh was goes": {
		"ForgetMesh", migratedCluster, back,
		"ForgetMesh: remove what was kept on the BGPConfiguration", "- annotation of how the mesh was",
	},
	"the way back is over: the chosen nodes leave the pool": {
		"ReleasePool", migratedInPlace, back,
		"ReleasePool: release the nodes of the pool", "- choice of node-01",
	},
	"a person has changed the mesh and no reflector could carry the routes while that is undone: the annotation stays": {
		"KeepNote", migratedCluster, func(w *world) {
			w.bgp.Saved.Password, w.cloudSilent = &plan.SecretRef{Name: "bgp", Key: "password"}, true
			disturbances["mesh switched on"](w, 0)
			w.setAlive(false, w.reflectors()...)
			back(w)
		},
		"ForgetMesh: awaits the default BGPConfiguration to have nodeMeshPassword of Secret bgp, key password, as before rrpool", "",
	},
	"all is as wanted": {
		"Steady", migratedCluster, nil,
		"Steady", "",
	},
}

// back sets spec.mode to FullMesh.
func back(w *world) { w.d.Mode = v1alpha1.ModeFullMesh }

// twoZones gives up the third of three zones.
func twoZones(w *world) { w.d.Pool.Zones = w.d.Pool.Zones[:2] }

// racksOfFive asks for a Hierarchy of racks of at most five clients, in one zone.
func racksOfFive(w *world) {
	*w = *newWorld(3, 12, 1)
	w.d.Topology.MaxClients = 5
	becomes(v1alpha1.TopologyHierarchy, 3)(w)
}

// becomes asks for another topology, in which each node has two of so many reflectors.
func becomes(kind v1alpha1.TopologyType, reflectors int) func(*world) {
	return func(w *world) {
		if problem := w.want(kind, 2, reflectors); problem != "" {
			panic(problem)
		}
	}
}

func (x example) begin(t *testing.T) *world {
	t.Helper()
	w := newWorld(1, 6, 3)
	if strings.HasSuffix(x.from, "in place") {
		w = newInPlaceWorld(1, 7, 0, 3)
	}
	if strings.HasPrefix(x.from, migratedCluster) {
		atRest(t, w)
	}
	if x.given != nil {
		x.given(w)
		w.changed()
	}
	return w
}

// Each rule of the table has an example.
func TestRules(t *testing.T) {
	shown := map[string]bool{}
	for sentence, x := range examples {
		shown[x.rule] = true
		t.Run(x.rule+": "+sentence, func(t *testing.T) {
			t.Parallel()
			w, told := x.begin(t), []string{}
			for range 3600 {
				w.tick()
				w.deploy()
				before := w.facts()
				s := w.manage(-1)
				if s == nil || s.Rule != x.rule {
					continue
				}
				step, after := describe(*s), difference(before, w.facts())
				if step == x.step {
					require.Equal(t, x.after, after)
					return
				}
				if other := fmt.Sprintf("%q, %q", step, after); !slices.Contains(told, other) {
					told = append(told, other)
				}
			}
			require.Fail(t, "the rule does not propose this step", "%s proposes:\n%s\n%s", x.rule, strings.Join(told, "\n"), w.story())
		})
	}
	for _, name := range rollout.RuleNames() {
		require.True(t, shown[name], "rule %s has no example: add one to the table above", name)
	}
}

// describe returns a step in a line.
func describe(s rollout.Step) string {
	var does []string
	for _, a := range s.Actions {
		if _, asks := a.(plan.RefreshStatus); !asks {
			does = append(does, a.String())
		}
	}
	switch {
	case len(does) > 0:
		return s.Name + ": " + few(does, "; ")
	case s.Problem != nil:
		return s.Name + ": " + s.Problem.Reason
	case len(s.WaitingFor) > 0:
		return s.Name + ": awaits " + few(s.WaitingFor, ", ")
	}
	return s.Name
}

// few joins two, or the first and how many more there are.
func few(all []string, by string) string {
	if len(all) > 2 {
		all = []string{all[0], fmt.Sprintf("%d more", len(all)-1)}
	}
	return strings.Join(all, by)
}

// facts are what the API and the cloud say of the cluster, in words.
func (w *world) facts() map[string]string {
	out := map[string]string{"mesh": map[bool]string{true: "on", false: "off"}[w.bgp.MeshOn()]}
	if w.bgp.Saved != nil {
		out["annotation of how the mesh was"] = ""
	}
	for _, m := range w.all() {
		switch {
		case m.Marked:
			out["reflector "+m.Name] = m.role()
		case m.HasRoleLabel:
			out["role label of "+m.Name] = ""
		}
		if m.Cordoned {
			out["cordon of "+m.Name] = ""
		}
		if m.Pooled && !w.d.Dedicated {
			out["choice of "+m.Name] = ""
		}
		if m.Rack != "" {
			out["rack of "+m.Name] = m.Rack
		}
	}
	for name, p := range w.peers {
		out["BGPPeer "+name] = cmp.Or(p.PeerSelector, p.Node+" to "+p.PeerIP)
	}
	if w.pool.Exists {
		out["pool"] = fmt.Sprintf("%d per zone, %d zones", w.pool.SizePerZone, len(w.pool.Zones))
	}
	for _, x := range w.pool.Workers {
		out["worker "+x.ID] = ""
	}
	return out
}

// role returns what makes a node a reflector.
func (m *machine) role() string {
	out := cmp.Or(m.ClusterID, "no cluster ID")
	switch {
	case !m.HasRoleLabel:
		out += " without the label"
	case m.Relabel:
		out += " with the former label alone"
	case topology.KindOf(m.Slot) != v1alpha1.TopologySingle:
		out += " " + m.Slot
	}
	return out
}

// difference returns what has come, gone or changed.
func difference(before, after map[string]string) string {
	var out []string
	for _, name := range slices.Sorted(maps.Keys(before)) {
		was := before[name]
		switch is, there := after[name]; {
		case !there:
			out = append(out, "- "+name)
		case is != was && len(is)+len(was) > 100:
			out = append(out, name+" changed")
		case is != was:
			out = append(out, fmt.Sprintf("%s: %s, now %s", name, was, is))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(after)) {
		if _, there := before[name]; !there {
			out = append(out, "+ "+name)
		}
	}
	return few(out, "; ")
}
