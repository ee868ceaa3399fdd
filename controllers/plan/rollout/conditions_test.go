package rollout_test

import (
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/controllers/plan"
	"github.com/rrpool/rrpool/controllers/plan/rollout"
	"github.com/rrpool/rrpool/controllers/plan/topology"
)

// dead makes the node of a reflector one that has been away for hours, and that no other has a session with.
func dead(w *world, o *rollout.Observed, reflector int) string {
	r := seen(w, o, reflector)
	r.Ready, r.ReadyChanged = false, w.now.Add(-6*time.Hour)
	for name := range o.Statuses {
		withPeer(o, name, r.Addresses[0], func(s *plan.Session) { s.Established = false })
	}
	return r.WorkerID
}

// unready makes the node of a reflector one that has just failed.
func unready(w *world, o *rollout.Observed, reflector int) {
	r := seen(w, o, reflector)
	r.Ready, r.ReadyChanged = false, w.now.Add(-time.Second)
}

// seen is a reflector as it was observed.
func seen(w *world, o *rollout.Observed, reflector int) *plan.Node {
	return nodeOf(o, w.reflectors()[reflector].Name)
}

func nodeOf(o *rollout.Observed, name string) *plan.Node {
	return &o.Nodes[slices.IndexFunc(o.Nodes, func(n plan.Node) bool { return n.Name == name })]
}

// Ready nodes with one BGP address, or one that no other node can reach, are refused before anything is written; a cluster that relies
// on its reflectors goes on healing.
func TestAddressesThatNodesShare(t *testing.T) {
	docker := netip.MustParseAddr("172.17.0.1")
	for name, tc := range map[string]struct {
		edit         func(*rollout.Observed)
		reason, says string
	}{
		"three have docker0's": {func(o *rollout.Observed) {
			for i := range 3 {
				o.Nodes[i].Addresses = []netip.Addr{docker}
			}
		}, "SharedBGPAddress", "172.17.0.1: client-01, client-02, client-03"},
		"IPv6 only": {func(o *rollout.Observed) {
			for i := range 2 {
				o.Nodes[i].Addresses = append(o.Nodes[i].Addresses, netip.MustParseAddr("fd00::1"))
			}
		}, "SharedBGPAddress", "fd00::1: client-01, client-02"},
		"loopback":     {func(o *rollout.Observed) { o.Nodes[1].Addresses = []netip.Addr{netip.MustParseAddr("127.0.0.1")} }, "UnusableBGPAddress", "client-02"},
		"link-local":   {func(o *rollout.Observed) { o.Nodes[1].Addresses = []netip.Addr{netip.MustParseAddr("fe80::1")} }, "UnusableBGPAddress", "fe80::1"},
		"unspecified":  {func(o *rollout.Observed) { o.Nodes[1].Addresses = []netip.Addr{netip.IPv6Unspecified()} }, "UnusableBGPAddress", "::"},
		"multicast":    {func(o *rollout.Observed) { o.Nodes[1].Addresses = []netip.Addr{netip.MustParseAddr("224.0.0.5")} }, "UnusableBGPAddress", "224.0.0.5"},
		"one of a pod": {func(o *rollout.Observed) { o.Nodes[1].Addresses = []netip.Addr{o.Nodes[2].Blocks[0].Addr().Next()} }, "UnusableBGPAddress", "range of pods"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(1, 5, 3)
			w.runUnchecked(5) // the pool grows
			o := w.observe()
			tc.edit(&o)
			s := w.next(o)
			require.NotNil(t, s.Problem, s.Reason)
			require.Equal(t, tc.reason, s.Problem.Reason)
			require.Contains(t, s.Problem.Message, tc.says)
			require.Contains(t, s.Problem.Message, "IP_AUTODETECTION_METHOD")
			require.Empty(t, s.Actions)

			w = atRest(t, newWorld(1, 5, 3))
			o = w.observe()
			tc.edit(&o)
			require.Nil(t, w.next(o).Problem, "with the mesh off the others are healed all the same")
			o.BGP.Mesh.Enabled, o.BGP.Restored = nil, w.now.Add(-time.Hour)
			require.NotNil(t, o.BGP.Saved)
			id := dead(w, &o, 0)
			require.Equal(t, []string{id}, ensured(w.next(o)).Replace, "and while it is back: %s", w.next(o).Reason)
		})
	}
}

// A client has an address that a reflector has as well: no session with it is missed on that reflector, as none is ever configured.
func TestNoReflectorMissesASessionWithItself(t *testing.T) {
	w, o := migrated(t)
	o.BGP.Mesh.Enabled, o.BGP.Restored, w.now = nil, w.now.Add(time.Hour), w.now.Add(2*time.Hour)
	reported(w, &o)
	for address, missed := range map[netip.Addr]bool{w.reflectors()[0].Addresses[0]: false, netip.MustParseAddr("10.9.9.9"): true} {
		nodeOf(&o, "client-01").Addresses = []netip.Addr{address}
		s := w.next(o)
		require.Equal(t, missed, slices.Contains(s.WaitingFor, w.reflectors()[0].Name+" ↔ client-01 to be Established"), "%s: %s", s.Name, s.WaitingFor)
	}
}

// A host bears another name: its old Node is not Ready and has the same address. Nothing waits for the old Node, and what is
// heard from the address does not let the new one, of which two peers would be configured, become a reflector.
func TestTheNodeOfAFormerName(t *testing.T) {
	for _, kind := range []string{"dedicated", "in place"} {
		for _, mode := range []v1alpha1.Mode{v1alpha1.ModeRouteReflector, v1alpha1.ModeFullMesh} {
			t.Run(kind+" "+string(mode), func(t *testing.T) {
				w, host := newWorld(1, 6, 3), "client-01"
				if kind == "in place" {
					w, host = newInPlaceWorld(1, 8, 1, 3), "node-01"
				}
				if mode == v1alpha1.ModeFullMesh {
					w = atRest(t, w)
					host = w.clients()[3].Name // no reflector, in place
				}
				old := w.addNode("old-name", w.d.Pool.Zones[0], false)
				old.Addresses, old.Ready, old.alive, old.pods = w.nodes[host].Addresses, false, false, 0
				w.d.Mode = mode
				w.changed()
				for i := 0; i < 3600 && w.bgp.MeshOn() == (mode != v1alpha1.ModeFullMesh) || len(w.reflectors()) > 0 && mode == v1alpha1.ModeFullMesh; i++ {
					require.Less(t, i, 3599, w.story())
					w.runUnchecked(1)
				}
				require.Equal(t, mode == v1alpha1.ModeFullMesh, w.bgp.MeshOn(), w.story())
				require.NotContains(t, strings.Join(w.narrative, "\n"), "old-name", w.story())
				if kind == "in place" {
					require.False(t, w.nodes[host].IsOurs(), w.story())
				}
			})
		}
	}
}

// ensured is what a step asks of the pool, if it does.
func ensured(s rollout.Step) (want plan.PoolTarget) {
	for _, a := range s.Actions {
		if e, ok := a.(plan.EnsurePool); ok {
			want = e.Want
		}
	}
	return want
}

// reported makes all reports ones that have just come.
func reported(w *world, o *rollout.Observed) {
	for name := range o.Statuses {
		editStatus(o, name, func(s *plan.Status) { s.Updated = w.now })
	}
}

func TestWhichWorkersAreReplaced(t *testing.T) {
	for name, tc := range map[string]struct {
		do   func(*world, *rollout.Observed)
		want int
	}{
		"one whose node is dead":                  {func(*world, *rollout.Observed) {}, 1},
		"none while another one is being deleted": {func(_ *world, o *rollout.Observed) { o.Pool.Workers[1].Deleting = true }, 0},
		"one while another one's deletion does not end": {func(w *world, o *rollout.Observed) {
			o.Pool.Workers[1].Deleting, o.Pool.Workers[1].LeavingSince = true, w.now.Add(-rollout.LeavingLimit)
		}, 1},
		"none while another one's deletion may still end": {func(w *world, o *rollout.Observed) {
			o.Pool.Workers[1].Deleting, o.Pool.Workers[1].LeavingSince = true, w.now.Add(time.Second-rollout.LeavingLimit)
		}, 0},
		"none that the cloud reloads": {func(_ *world, o *rollout.Observed) {
			for i := range o.Pool.Workers {
				o.Pool.Workers[i].Pending = true
			}
		}, 0},
		"none while too few others serve": {func(w *world, o *rollout.Observed) { unready(w, o, 1) }, 0},
		"any while the mesh is on": {func(w *world, o *rollout.Observed) {
			o.BGP.Mesh.Enabled, o.BGP.Restored = nil, w.now.Add(-time.Hour)
			unready(w, o, 1)
		}, 1},
		"both of two, as the provider may not be able to replace the first": {func(w *world, o *rollout.Observed) {
			o.BGP.Mesh.Enabled, o.BGP.Restored = nil, w.now.Add(-time.Hour)
			dead(w, o, 1)
		}, 2},
	} {
		t.Run(name, func(t *testing.T) {
			w, o := migrated(t)
			id := dead(w, &o, 0)
			tc.do(w, &o)
			replaced := ensured(w.next(o)).Replace
			require.Len(t, replaced, tc.want)
			require.True(t, tc.want == 0 || slices.Contains(replaced, id), replaced)
		})
	}
}

// The password that the mesh had is that of our BGPPeers, wherever it is still written.
func TestThePasswordOfTheMeshIsThatOfTheBGPPeers(t *testing.T) {
	saved, asked := &plan.SecretRef{Name: "mesh", Key: "password"}, &plan.SecretRef{Name: "spec", Key: "password"}
	for name, do := range map[string]func(*world, *rollout.Observed) *plan.SecretRef{
		"what was saved": func(_ *world, o *rollout.Observed) *plan.SecretRef { o.BGP.Saved.Password = saved; return saved },
		"what our BGPPeers have": func(_ *world, o *rollout.Observed) *plan.SecretRef {
			for i := range o.Peers {
				o.Peers[i].Password = saved
			}
			return saved
		},
		"what the spec says": func(w *world, o *rollout.Observed) *plan.SecretRef {
			o.BGP.Saved.Password, w.d.Password = saved, asked
			return asked
		},
	} {
		t.Run(name, func(t *testing.T) {
			w, o := migrated(t)
			want := do(w, &o)
			o.Peers = o.Peers[1:] // so that it is written
			s := w.next(o)
			require.Equal(t, "WritePeers", s.Name)
			for _, a := range s.Actions {
				if p, ok := a.(plan.PutPeer); ok {
					require.Equal(t, want, p.Peer.Password)
				}
			}
		})
	}
}

// On the way back, a mesh that a person has switched on with another password is put right only while the reflectors
// carry the cluster.
func TestAnotherPasswordOfTheMeshIsPutRightWhileReflectorsServe(t *testing.T) {
	for _, kind := range kinds {
		for name, breaks := range map[string]func(*world, *rollout.Observed){
			"": func(*world, *rollout.Observed) {},
			"a session is missing": func(w *world, o *rollout.Observed) {
				editStatus(o, w.reflectors()[0].Name, func(s *plan.Status) { s.Sessions[0].Established = false })
			},
			"all cluster IDs are missing": func(w *world, o *rollout.Observed) {
				for i := range w.reflectors() {
					seen(w, o, i).ClusterID = ""
				}
			},
		} {
			t.Run(string(kind)+", "+name, func(t *testing.T) {
				w := arrangedAs(t, newWorld(1, 9, 3), kind, 2, 3)
				w.d.Mode = v1alpha1.ModeFullMesh
				o := w.observe()
				o.BGP.Mesh = *o.BGP.Saved
				require.True(t, does(w.next(o), plan.RestoreMesh{}), "with the same password nothing is lost by it")
				o.BGP.Mesh = plan.Mesh{Password: &plan.SecretRef{Name: "foreign", Key: "password"}}
				reported(w, &o)
				breaks(w, &o)
				require.Equal(t, name == "", does(w.next(o), plan.RestoreMesh{}), w.next(o).Reason)
			})
		}
	}
}

// On the way back the mesh comes on as long as anything of ours is left. One that is off without that is not ours.
func TestWhateverIsLeftOfUsBringsTheMeshBack(t *testing.T) {
	for _, left := range []string{"reflectors", "the note", "BGPPeers", "nothing"} {
		t.Run(left, func(t *testing.T) {
			w, o := migrated(t)
			w.d.Mode = v1alpha1.ModeFullMesh
			for i := range o.Nodes {
				if n := &o.Nodes[i]; left != "reflectors" {
					n.HasRoleLabel, n.ClusterID, n.Marked = false, "", false
				}
			}
			if left != "the note" {
				o.BGP.Saved = nil
			}
			if left != "BGPPeers" {
				o.Peers = nil
			}
			require.Equal(t, left != "nothing", does(w.next(o), plan.RestoreMesh{}))
		})
	}
}

// A client that had no session holds the mesh for five minutes after it has one again, and never for longer than an hour.
func TestHowLongAClientThatFlapsKeepsTheMesh(t *testing.T) {
	for name, tc := range map[string]struct {
		restored, back time.Duration // how long ago
		kept           int           // so many of the sessions it has kept
		holds          bool
	}{
		"its sessions are back for four minutes": {10 * time.Minute, 4 * time.Minute, 0, true},
		"all but one of them":                    {10 * time.Minute, 4 * time.Minute, 1, false},
		"for five":                               {10 * time.Minute, 5 * time.Minute, 0, false},
		"they never went":                        {10 * time.Minute, 11 * time.Minute, 0, false},
		"again and again for almost an hour":     {59 * time.Minute, time.Minute, 0, true},
		"for an hour":                            {time.Hour, time.Minute, 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			w, o := meshOn(t)
			w.now = w.now.Add(2 * time.Hour)
			o.BGP.Restored = w.now.Add(-tc.restored)
			reported(w, &o)
			for _, r := range w.reflectors()[tc.kept:] {
				withPeer(&o, r.Name, o.Nodes[1].Addresses[0], func(s *plan.Session) { s.Since = w.now.Add(-tc.back) })
			}
			require.Equal(t, !tc.holds, does(w.next(o), plan.DisableMesh{}), w.next(o).WaitingFor)
		})
	}
}

// A reflector is waited for that was asked for a report. One that is not Ready is not asked, and is no reason to wait.
func TestWhoseReportIsAwaited(t *testing.T) {
	for name, tc := range map[string]struct {
		do     func(*world, *rollout.Observed, *plan.Node)
		awaits bool
	}{
		"it does not answer": {func(*world, *rollout.Observed, *plan.Node) {}, true},
		"it is not Ready": {func(w *world, _ *rollout.Observed, n *plan.Node) {
			n.Ready, n.ReadyChanged = false, w.now.Add(-30*time.Second)
		}, false},
		"it has never reported, and its pod fails": {func(w *world, o *rollout.Observed, n *plan.Node) {
			delete(o.Statuses, n.Name)
			n.CalicoNode = plan.CalicoNode{State: plan.CalicoNodeNotReady, Since: w.now.Add(-30 * time.Second)}
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			w, o := migrated(t)
			w.now = w.now.Add(time.Hour)
			reported(w, &o)
			n := &o.Nodes[len(o.Nodes)-1]
			editStatus(&o, n.Name, func(s *plan.Status) { s.Cleared = w.now.Add(-30 * time.Second) })
			tc.do(w, &o, n)
			require.Equal(t, tc.awaits, w.next(o).Name == "AskReflectors", w.next(o).Name)
		})
	}
}

// What a report says of sessions counts for nothing once the reflector's calico-node has failed, or its node has.
func TestWhichReportsAreOutlived(t *testing.T) {
	for name, tc := range map[string]struct {
		do      func(*world, *rollout.Observed, *plan.Node)
		counted bool
	}{
		"nothing is wrong":         {func(*world, *rollout.Observed, *plan.Node) {}, true},
		"its node failed after it": {func(w *world, _ *rollout.Observed, n *plan.Node) { n.Ready, n.ReadyChanged = false, w.now }, false},
		"its node failed before it": {func(w *world, _ *rollout.Observed, n *plan.Node) {
			n.Ready, n.ReadyChanged = false, w.now.Add(-time.Minute)
		}, true},
		"its calico-node failed after it":  {func(w *world, _ *rollout.Observed, n *plan.Node) { n.CalicoNode = failing(w.now) }, false},
		"its calico-node failed before it": {func(w *world, _ *rollout.Observed, n *plan.Node) { n.CalicoNode = failing(w.now.Add(-time.Minute)) }, true},
		"it was asked for another for a minute in vain": {func(w *world, o *rollout.Observed, n *plan.Node) {
			editStatus(o, n.Name, func(s *plan.Status) { s.Cleared = w.now.Add(-time.Minute) })
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			w, o := migrated(t)
			w.now = w.now.Add(time.Hour)
			n := &o.Nodes[len(o.Nodes)-1]
			editStatus(&o, n.Name, func(s *plan.Status) { s.Updated = w.now.Add(-10 * time.Second) })
			tc.do(w, &o, n)
			for _, r := range w.next(o).Reflectors {
				require.True(t, r.Node != n.Name || tc.counted == (r.Established > 0), "%+v", r)
			}
		})
	}
}

func failing(since time.Time) plan.CalicoNode {
	return plan.CalicoNode{State: plan.CalicoNodeNotReady, Since: since}
}

// A dedicated node that workloads may run on does not get the role, whether the cloud answers or not.
func TestANodeWithoutTheTaintGetsNoRole(t *testing.T) {
	for name, tc := range map[string]struct {
		taints   []string
		promoted bool
	}{
		"it has the taint":         {[]string{"node:NoSchedule", "rrpool.io/dedicated=rr:NoExecute"}, true},
		"it has another one":       {[]string{"rrpool.io/dedicated=rr:NoSchedule"}, false},
		"it has none":              {[]string{}, false},
		"its taints were not read": {nil, true},
	} {
		for _, silent := range []bool{false, true} {
			w, o := migrated(t)
			w.d.Taint = "rrpool.io/dedicated=rr:NoExecute"
			n := &o.Nodes[len(o.Nodes)-1]
			n.HasRoleLabel, n.ClusterID, n.Marked, n.Taints = false, "", false, tc.taints
			if silent {
				o.Pool = nil
			}
			reported(w, &o)
			require.Equal(t, tc.promoted, does(w.next(o), plan.SetReflector{}), "%s, the cloud is silent: %t", name, silent)
		}
	}
}

// The first reflector costs something, and that is said; also where it is the first one again, and where the mesh was off before.
func TestTheFirstReflectorIsAnnounced(t *testing.T) {
	w := newInPlaceWorld(1, 7, 0, 3)
	w.nodes["node-02"].pods = 1 // the cheapest of those that are chosen
	for w.next(w.observe()).Name != "WritePeers" {
		w.step()
	}
	o := w.observe()
	for _, saved := range []*plan.Mesh{nil, {}} {
		o.BGP.Saved, o.Peers = saved, nil
		s := w.next(o)
		require.Equal(t, "WritePeers", s.Name)
		require.Contains(t, s.Reason, "node node-02 will be the first route reflector: its ")
	}
}

// In the middle of a move to racks the nodes still need the BGPPeers of Single: where one was deleted, the mesh takes over at once.
func TestABGPPeerOfSingleThatIsDeletedDuringAMoveIsMissed(t *testing.T) {
	w := arrangedAs(t, newWorld(1, 12, 3), v1alpha1.TopologySingle, 2, 9)
	require.Empty(t, w.want(v1alpha1.TopologyHierarchy, 2, 9))
	for !slices.ContainsFunc(w.reflectors(), func(r *machine) bool { return topology.KindOf(r.Slot) != v1alpha1.TopologySingle }) {
		w.step()
	}
	o := w.observe()
	o.Peers = slices.DeleteFunc(o.Peers, func(p plan.Peer) bool { return p.Name == topology.PeerClients })
	require.Equal(t, "RestoreMesh", w.next(o).Name)
}

// A session of the mesh that is down says nothing of a reflector.
func TestOnlyPeersDenyAReflector(t *testing.T) {
	for kind, denied := range map[plan.SessionKind]bool{plan.SessionMesh: false, plan.SessionNode: true} {
		w, o := migrated(t)
		w.now = w.now.Add(time.Hour)
		of, by := w.reflectors()[0], w.reflectors()[1]
		withPeer(&o, by.Name, of.Addresses[0], func(s *plan.Session) { s.Established, s.Kind, s.Since = false, kind, w.now.Add(-2*time.Minute) })
		require.Equal(t, !denied, w.next(o).Reflectors[0].Serving, kind)
	}
}

// A label that a person has changed to one of Single's does not bring the BGPPeers of Single back.
func TestAnEditedSlotBringsNoOtherTopologyBack(t *testing.T) {
	w := arrangedAs(t, newWorld(1, 12, 3), v1alpha1.TopologyHierarchy, 2, 9)
	w.reflectors()[0].Slot = topology.SlotSingle
	for _, a := range w.next(w.observe()).Actions {
		p, _ := a.(plan.PutPeer)
		require.NotEqual(t, topology.PeerClients, p.Peer.Name)
	}
}

// Of the nodes that are chosen, one that is not Ready does not become a reflector.
func TestTheNextReflectorIsReady(t *testing.T) {
	w := newInPlaceWorld(1, 7, 0, 3)
	for w.next(w.observe()).Name != "StagePeers" {
		w.step()
	}
	o := w.observe()
	next := func() string { // the address of the node that the reflectors get a BGPPeer for
		for _, a := range w.next(o).Actions {
			if p, ok := a.(plan.PutPeer); ok {
				return p.Peer.PeerIP
			}
		}
		return ""
	}
	first := next()
	i := slices.IndexFunc(o.Nodes, func(n plan.Node) bool { return n.Addresses[0].String() == first })
	require.GreaterOrEqual(t, i, 0, first)
	o.Nodes[i].Ready, o.Nodes[i].ReadyChanged = false, w.now
	require.NotEqual(t, first, next())
}

// The pods of all reflectors fail. While they report all the same nothing is short; and a node that is not Ready
// does not come back because its pod has.
func TestWhatPodsThatFailMean(t *testing.T) {
	w, o := migrated(t)
	w.now = w.now.Add(time.Hour)
	for i := range 3 {
		seen(w, &o, i).CalicoNode = failing(w.now.Add(-time.Minute))
	}
	reported(w, &o)
	require.False(t, w.next(o).Short)
	editStatus(&o, seen(w, &o, 0).Name, func(s *plan.Status) { s.Cleared = w.now.Add(-40 * time.Second) })
	for i := range 2 {
		n := seen(w, &o, i+1)
		n.Ready, n.ReadyChanged = false, w.now.Add(-time.Second)
		n.CalicoNode = plan.CalicoNode{State: plan.CalicoNodeReady, Since: w.now.Add(-10 * time.Second)}
	}
	require.Equal(t, "RestoreMesh", w.next(o).Name)
}

// A manager that has just started does not know since when the mesh is on: under the Timer gate it waits once more.
func TestAMeshOfUnknownAgeIsYoung(t *testing.T) {
	for since, demotes := range map[time.Duration]bool{0: false, time.Hour: true} {
		w, o := migrated(t)
		w.d.Timer, w.d.Mode = true, v1alpha1.ModeFullMesh
		w.now = w.now.Add(2 * time.Hour)
		o.BGP.Mesh, o.BGP.Restored, o.MeshSince = plan.Mesh{}, w.now.Add(-time.Hour), time.Time{}
		if since > 0 {
			o.MeshSince = w.now.Add(-since)
		}
		require.Equal(t, demotes, does(w.next(o), plan.ClearReflector{}), since)
	}
}

// Each address family needs its own session before the mesh goes.
func TestTheMeshStaysForASecondAddressFamily(t *testing.T) {
	for name, established := range map[string]bool{"its sessions are there": true, "one of them is down": false} {
		w, o := meshOn(t)
		addIPv6(&o, 1, 7, 8, 9)
		for i, r := range []int{7, 8, 9} {
			editStatus(&o, o.Nodes[r-1].Name, func(s *plan.Status) {
				for _, peer := range []int{1, 7, 8, 9} {
					if peer != r {
						up := plan.Session{Peer: o.Nodes[peer-1].Addresses[1], Kind: plan.SessionNode, Established: true, Since: w.now.Add(-time.Hour)}
						up.Established = up.Established && (established || i > 0 || peer != 1)
						s.Sessions = append(s.Sessions, up)
					}
				}
			})
		}
		require.Equal(t, established, does(w.next(o), plan.DisableMesh{}), "%s: %v", name, w.next(o).WaitingFor)
	}
}

// Nodes take a while to render a mesh that was switched on. Sessions that their reports show before may be about to end.
func TestAMeshThatHasJustBeenRestoredProvesNothing(t *testing.T) {
	for ago, demotes := range map[time.Duration]bool{5 * time.Second: false, time.Hour: true} {
		w, o := migrated(t)
		w.d.Mode = v1alpha1.ModeFullMesh
		w.now = w.now.Add(2 * time.Hour)
		o.BGP.Mesh, o.BGP.Restored, o.MeshSince = plan.Mesh{}, w.now.Add(-ago), w.now.Add(-ago)
		for _, c := range w.clients() {
			st := plan.Status{Node: c.Name, Updated: w.now}
			for _, p := range w.clients() {
				if p != c {
					st.Sessions = append(st.Sessions, plan.Session{Peer: p.Addresses[0], Kind: plan.SessionMesh, Established: true, Since: w.now.Add(-time.Hour)})
				}
			}
			o.Statuses[c.Name] = st
		}
		require.Equal(t, demotes, does(w.next(o), plan.ClearReflector{}), "%s: %v", ago, w.next(o).WaitingFor)
	}
}

// What is kept for the way back is the mesh as rrpool found it, not as a person has switched it on since.
func TestTheMeshAsItWasFoundIsKept(t *testing.T) {
	w, o := meshOn(t)
	minutes := time.Minute
	o.BGP.Saved, o.BGP.SavedAbsent = &plan.Mesh{MaxRestartTime: &minutes}, false
	for i := range o.Peers {
		o.Peers[i].MaxRestartTime = &minutes
	}
	i := slices.IndexFunc(w.next(o).Actions, func(a plan.Action) bool { _, is := a.(plan.DisableMesh); return is })
	require.GreaterOrEqual(t, i, 0, w.next(o).Reason)
	require.Equal(t, *o.BGP.Saved, w.next(o).Actions[i].(plan.DisableMesh).Saved)
}

// Of two cluster IDs that as many in-place reflectors have, the spec's stays.
func TestATieOfClusterIDsIsDecidedByTheSpec(t *testing.T) {
	w := atRest(t, newInPlaceWorld(1, 7, 1, 2))
	rs := w.reflectors()
	rs[1].ClusterID, rs[3].ClusterID = "244.0.0.9", "244.0.0.9"
	for range 20 { // what goes by a map's order shows itself
		require.Contains(t, w.next(w.observe()).Reason, rs[1].Name+" has cluster ID 244.0.0.9 instead of 244.0.0.1")
	}
}

// Dedicated reflectors run no workloads, so a change of all sessions costs no pods, also where they have not been counted.
func TestAChangeOfAllSessionsCostsDedicatedNodesNothing(t *testing.T) {
	w, o := meshOn(t)
	w.d.Password = &plan.SecretRef{Name: "new", Key: "password"}
	for i := range o.Nodes {
		o.Nodes[i].Pods = nil
	}
	s := w.next(o)
	require.Contains(t, s.Reason, "is not as it should be")
	require.NotContains(t, s.Reason, "cannot be reached")
	require.Empty(t, s.Disrupts)
}

// Where sessions are not observed no report is missed.
func TestTimerMissesNoReports(t *testing.T) {
	w, o := migrated(t)
	o.Nodes[6].CalicoNode = plan.CalicoNode{State: plan.CalicoNodeAbsent, Since: w.now.Add(-time.Hour)}
	editStatus(&o, o.Nodes[6].Name, func(st *plan.Status) { st.Cleared, st.Updated = w.now.Add(-time.Hour), time.Time{} })
	require.Equal(t, "AskReflectors", w.next(o).Name, "the control")
	w.d.Timer = true
	require.NotEqual(t, "AskReflectors", w.next(o).Name)
}
