package rollout_test

import (
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
	"github.com/rrpool/rrpool/controllers/plan/simulate"
)

// migrated is the observation of a cluster at rest on its reflectors.
func migrated(t *testing.T) (*world, rollout.Observed) {
	t.Helper()
	w := atRest(t, newWorld(1, 6, 3))
	return w, w.observe()
}

// atRest lets a world get where it should be.
func atRest(t *testing.T, w *world) *world {
	t.Helper()
	require.Empty(t, w.settle(), w.story())
	return w
}

func (w *world) next(o rollout.Observed) rollout.Step { return rollout.Next(o, w.d, w.clock()) }

func TestRefusalsTouchNothing(t *testing.T) {
	client := func(o *rollout.Observed) *plan.Node { return &o.Nodes[0] }
	t.Run("where Calico takes in no BGPPeer, what is written on Nodes is still healed, and the mesh comes back", func(t *testing.T) {
		for problem, want := range map[string]string{reason.ObjectUnreadable: "HealReflectors", "NodesStale": rollout.UnsupportedCluster} {
			w, o := migrated(t)
			o.Problems = []plan.Problem{{Reason: problem, Message: "correct it"}}
			require.Equal(t, rollout.UnsupportedCluster, w.next(o).Name)
			o.Nodes[len(o.Nodes)-1].ClusterID = ""
			require.Equal(t, want, w.next(o).Name)
			kill(w, &o, 3, time.Hour)
			require.True(t, w.next(o).Urgent)
		}
	})
	t.Run("a selector of any length keeps no mesh from coming back, and is not shown whole", func(t *testing.T) {
		w, o := migrated(t)
		var labels strings.Builder
		for i := range 100_000 {
			fmt.Fprintf(&labels, "has(a%d)||", i)
		}
		o.Peers = append(o.Peers, plan.Peer{Name: "theirs", NodeSelector: labels.String() + "all()", PeerIP: "192.0.2.1"})
		for i := range o.Nodes {
			if o.Nodes[i].HasRoleLabel {
				o.Nodes[i].Ready, o.Nodes[i].ReadyChanged = false, w.clock().Add(-time.Hour)
			}
		}
		require.True(t, w.next(o).Urgent)
		o.Peers = append(o.Peers[:len(o.Peers)-1], plan.Peer{Name: "theirs", PeerSelector: "has(" + strings.Repeat("a", simulate.LongestSelector-5) + ")"})
		o.BGP.Mesh.Enabled = nil
		p := w.next(o).Problem
		require.Equal(t, "ForeignInClusterPeer", p.Reason)
		require.Less(t, len(p.Message), 1000)
	})
	t.Run("one of ours is written anew", func(t *testing.T) {
		w, o := migrated(t)
		o.Peers[0].NodeSelector = strings.Repeat("(", 1_000_000)
		s := w.next(o)
		require.Nil(t, s.Problem)
		require.Contains(t, s.Actions, plan.Action(plan.RestoreMesh{}), "its sessions are gone: the mesh takes over, then it is written")
	})
	t.Run("a label of the user's choice that is in use", func(t *testing.T) {
		w, o := migrated(t)
		w.d.RoleLabel, client(&o).HasRoleLabel = "route-reflector", true
		s := w.next(o)
		require.Equal(t, "ForeignLabel", s.Problem.Reason)
		require.Empty(t, s.Actions)
	})
	t.Run("a label of the user's choice is left on nodes that are not ours, on the way back too", func(t *testing.T) {
		w, o := migrated(t)
		w.d.RoleLabel, w.d.Mode = "node-role.kubernetes.io/infra", v1alpha1.ModeFullMesh
		client(&o).HasRoleLabel = true
		require.NotContains(t, w.next(o).Actions, plan.ClearReflector{Node: client(&o).Name})
	})
	t.Run("a peer outside the cluster is nobody's problem", func(t *testing.T) {
		w, o := migrated(t)
		o.Peers = append(o.Peers, plan.Peer{Name: "rack-switch", PeerIP: "172.16.0.1:179", ASN: 65000})
		require.Equal(t, rollout.Steady, w.next(o).Name)
	})
	t.Run("one given by the address of a node is", func(t *testing.T) {
		w, o := migrated(t)
		o.Peers = append(o.Peers, plan.Peer{Name: "theirs", PeerIP: o.Nodes[1].Addresses[0].String() + ":179"})
		require.Equal(t, rollout.UnsupportedCluster, w.next(o).Name)
	})
}

// With the mesh off by rrpool nothing of others carries the routes, so nobody is told to switch the mesh on, or to delete the
// object. A BGPPeer with an address of a machine that was there all the time holds nothing up.
func TestAdviceOnReflectorsOfOurs(t *testing.T) {
	for name, c := range map[string]struct {
		edit         func(*rollout.Observed)
		reason, says string
	}{
		"Calico is not there": {func(o *rollout.Observed) {
			o.Problems = []plan.Problem{{Reason: "CalicoNotInstalled", Message: "install it"}}
		}, "CalicoNotInstalled", "install it"},
		"a BGPPeer with one of our names": {func(o *rollout.Observed) { o.Peers[0].Owned = false }, "NameTaken", "rename or delete it"},
		"a selector that is too long": {func(o *rollout.Observed) {
			o.Peers = append(o.Peers, plan.Peer{Name: "theirs", NodeSelector: strings.Repeat("(", 1_000_000), PeerIP: "192.0.2.1"})
		}, "SelectorTooLong", "shorten it"},
		"an AS of its own":     {func(o *rollout.Observed) { o.Nodes[0].ASN = 65001 }, "MixedASNumbers", "remove the nodes' own AS numbers or keep the mesh"},
		"and the note is lost": {func(o *rollout.Observed) { o.Nodes[0].ASN, o.BGP.Saved = 65001, nil }, "MixedASNumbers", "or keep the mesh"},
		"a foreign reflector":  {func(o *rollout.Observed) { o.Nodes[0].ClusterID = "1.1.1.1" }, "ForeignReflector", "did not make: remove its routeReflectorClusterID and the BGPPeers that belong to it first"},
		"a peer by selector":   {func(o *rollout.Observed) { o.Peers = append(o.Peers, plan.Peer{Name: "p", PeerSelector: "all()"}) }, "ForeignInClusterPeer", "made by rrpool: delete it"},
		"a peer by BGP address": {func(o *rollout.Observed) {
			o.Peers = append(o.Peers, plan.Peer{Name: "p", PeerIP: o.Nodes[0].Addresses[0].String()})
		}, "ForeignInClusterPeer", "made by rrpool: delete it"},
		"another address of a machine": {func(o *rollout.Observed) {
			o.Nodes[0].MachineAddresses = []netip.Addr{netip.MustParseAddr("172.16.0.1")}
			o.Peers = append(o.Peers, plan.Peer{Name: "tor", PeerIP: "172.16.0.1", ASN: 64512})
		}, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			w, o := migrated(t)
			c.edit(&o)
			s, reason := w.next(o), ""
			if s.Problem != nil {
				reason = s.Problem.Reason
				require.Empty(t, s.Actions)
			}
			require.Equal(t, c.reason, reason, s.Reason)
			require.Contains(t, s.Reason, c.says)
		})
	}
}

// What is advised depends on where routes come from now: with the mesh off, what would be removed may carry them.
func TestAdviceDependsOnWhereRoutesComeFrom(t *testing.T) {
	const firstTheMesh = "switch the mesh on first and wait until its sessions are Established; then "
	tor := plan.Peer{Name: "tor", PeerIP: "172.16.0.1", ASN: 64512}
	hand := []plan.Peer{{Name: "clients", NodeSelector: "all()", PeerSelector: "role == 'rr'"}}
	byHand := func(o *rollout.Observed) {
		o.Nodes[0].ClusterID, o.Nodes[0].Labels = "1.0.0.1", map[string]string{"role": "rr"}
		o.Peers = hand
	}
	racks := func(o *rollout.Observed) {
		for i := range o.Nodes {
			o.Nodes[i].ASN = uint32(65001 + i/2)
		}
	}
	for name, c := range map[string]struct {
		on           bool
		edit         func(*rollout.Observed)
		reason, says string
		never        string
	}{
		"routers outside": {edit: func(o *rollout.Observed) { o.Peers = []plan.Peer{tor} }, reason: "RoutesFromRouters", says: "6 nodes have their routes from routers outside of the cluster (BGPPeer tor of node client-01): ", never: "switch"},
		"a router for each node": {edit: func(o *rollout.Observed) {
			for _, n := range o.Nodes[1:] {
				o.Peers = append(o.Peers, plan.Peer{Name: "tor-" + n.Name, Node: n.Name, PeerIP: "172.16.0.1", ASN: 65000})
			}
		}, reason: "RoutesFromRouters", says: "(BGPPeer tor-client-02 of node client-02; without one: client-01)", never: "switch"},
		"a router with the mesh on": {on: true, edit: func(o *rollout.Observed) { o.Peers = []plan.Peer{tor} }},
		"an AS for each rack, routers outside": {
			edit: func(o *rollout.Observed) { racks(o); o.Peers = []plan.Peer{tor} }, reason: "MixedASNumbers",
			says: "routers outside of the cluster: leave them as they are, and delete this object", never: "keep the mesh",
		},
		"an AS for each rack, with the mesh": {on: true, edit: racks, reason: "MixedASNumbers", says: "or keep the mesh"},
		"reflectors by hand":                 {edit: byHand, reason: "ForeignReflector", says: "route reflectors among them, so " + firstTheMesh + "remove its routeReflectorClusterID"},
		"reflectors by hand, with the mesh":  {on: true, edit: byHand, reason: "ForeignReflector", says: "belong to it first", never: "switch"},
		"reflectors by hand, and routers":    {edit: func(o *rollout.Observed) { byHand(o); o.Peers = slices.Concat(hand, []plan.Peer{tor}) }, reason: "ForeignReflector", says: firstTheMesh},
		"BGPPeers by hand":                   {edit: func(o *rollout.Observed) { o.Peers = []plan.Peer{{Name: "all", PeerSelector: "all()"}} }, reason: "ForeignInClusterPeer", says: "by BGPPeers with each other, so " + firstTheMesh + "delete it"},
		"our name, taken":                    {edit: func(o *rollout.Observed) { o.Peers = []plan.Peer{{Name: "rrpool-clients", PeerSelector: "all()"}} }, reason: "NameTaken", says: firstTheMesh + "rename"},
		"a peerSelector of no node":          {on: true, edit: func(o *rollout.Observed) { o.Peers = hand }, reason: "ForeignInClusterPeer", says: "makes no sessions now, as no node is selected by its peerSelector role == 'rr', and would between nodes of this cluster as soon as one is", never: "clients makes sessions"},
		"a nodeSelector of no node": {on: true, edit: func(o *rollout.Observed) {
			o.Peers = []plan.Peer{{Name: "p", NodeSelector: "has(x)", PeerSelector: "all()"}}
		}, reason: "ForeignInClusterPeer", says: "selected by its nodeSelector has(x)"},
		"sessions by hand": {on: true, edit: func(o *rollout.Observed) { o.Peers = []plan.Peer{{Name: "p", PeerSelector: "all()"}} }, reason: "ForeignInClusterPeer", says: "BGPPeer p makes sessions between nodes of this cluster"},
		"nothing at all":   {edit: func(*rollout.Observed) {}, says: "switch it on"},
		"a BGPPeer of no node": {edit: func(o *rollout.Observed) {
			o.Peers = []plan.Peer{{Name: "p", NodeSelector: "has(x)", PeerIP: "172.16.0.1"}}
		}, says: "switch it on"},
		"another address of a machine": {on: true, edit: func(o *rollout.Observed) {
			o.Nodes[0].MachineAddresses, o.Peers = []netip.Addr{netip.MustParseAddr(tor.PeerIP)}, []plan.Peer{tor}
		}, reason: "ForeignInClusterPeer", says: "BGPPeer tor makes sessions"},
		"another address of a machine, meshless": {edit: func(o *rollout.Observed) {
			o.Nodes[0].MachineAddresses, o.Peers = []netip.Addr{netip.MustParseAddr(tor.PeerIP)}, []plan.Peer{tor}
		}, reason: "ForeignInClusterPeer", says: firstTheMesh},
		"the router's address on each machine": {on: true, edit: func(o *rollout.Observed) {
			for i := range o.Nodes {
				o.Nodes[i].MachineAddresses = []netip.Addr{netip.MustParseAddr(tor.PeerIP)}
			}
			o.Peers = []plan.Peer{tor}
		}},
		"a ClusterPeering":           {edit: func(o *rollout.Observed) { tor := tor; tor.Peering = "b"; o.Peers = []plan.Peer{tor} }, says: "switch it on"},
		"Felix, which needs no mesh": {edit: func(o *rollout.Observed) { o.Routes.Pools = []plan.PoolRoutes{{CIDR: "10.0.0.0/16", Felix: true}} }, reason: "NoRoutesOverBGP", says: "the mesh, which is off, would not either", never: "keep the mesh"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(1, 6, 3)
			o := w.observe()
			o.BGP.Mesh.Enabled = &c.on
			c.edit(&o)
			s := w.next(o)
			reason := ""
			if s.Problem != nil {
				reason = s.Problem.Reason
				require.Empty(t, s.Actions)
			}
			require.Equal(t, c.reason, reason, s.Reason)
			require.Contains(t, s.Reason, c.says)
			if c.never != "" {
				require.NotContains(t, s.Reason, c.never)
			}
		})
	}
}

// Before the first step, what is written first is known: the BGPPeers between reflectors too, which have AS numbers.
func TestWhatIsWrittenFirstIsKnownBefore(t *testing.T) {
	w := newInPlaceWorld(1, 5, 0, 3)
	s := w.next(w.observe())
	kinds := map[string]int{}
	asn := false
	for _, a := range s.Ahead {
		kinds[fmt.Sprintf("%T", a)]++
		if p, ok := a.(plan.PutPeer); ok && p.Peer.PeerIP != "" {
			asn = p.Peer.ASN == 64512
		}
	}
	require.Subset(t, kinds, map[string]int{"plan.SetReflector": 1, "plan.DisableMesh": 1})
	require.NotZero(t, kinds["plan.PutPeer"])
	require.True(t, asn, s.Ahead)
	dedicated := newWorld(1, 6, 3)
	require.Contains(t, dedicated.next(dedicated.observe()).Ahead, plan.SetReflector{Node: "client-01", ClusterID: dedicated.d.ClusterID, StandIn: true},
		"no worker is ordered that cannot get its role")

	w = atRest(t, w)
	require.Empty(t, w.next(w.observe()).Ahead, "what is there needs no trial")
	w.d.Mode = v1alpha1.ModeFullMesh
	require.Empty(t, w.next(w.observe()).Ahead, "the way back is never held up")
}

func TestNothingIsOrderedWhereBGPCarriesNoRoutesToPods(t *testing.T) {
	w := newWorld(1, 6, 3)
	o := w.observe()
	felix := plan.PoolRoutes{CIDR: "10.0.0.0/16", Encapsulation: "IP-in-IP CrossSubnet", Felix: true}
	bird := plan.PoolRoutes{CIDR: "10.1.0.0/16", Encapsulation: "not encapsulated", BIRD: true}
	off := false
	for name, c := range map[string]struct {
		routes plan.Routes
		reason string
	}{
		"some of them":     {plan.Routes{Pools: []plan.PoolRoutes{felix, bird}}, ""},
		"no pool at all":   {plan.Routes{}, ""},
		"none":             {plan.Routes{Pools: []plan.PoolRoutes{felix}}, "NoRoutesOverBGP"},
		"that is not seen": {plan.Routes{Unknown: "listing ippools: forbidden"}, "RoutesUnknown"},
	} {
		t.Run(name, func(t *testing.T) {
			o.Routes = c.routes
			s := w.next(o)
			if c.reason == "" {
				require.Nil(t, s.Problem)
				require.NotEmpty(t, s.Actions)
				return
			}
			require.Equal(t, c.reason, s.Problem.Reason)
			require.Empty(t, s.Actions)
			there, at := migrated(t)
			at.Routes = c.routes
			require.Equal(t, rollout.Steady, there.next(at).Name, "reflectors that serve stay")
			back := o
			back.BGP.Mesh.Enabled = &off
			require.Equal(t, c.reason, w.next(back).Problem.Reason, "nobody is told to switch on a mesh that no pod needs")
			require.NotContains(t, w.next(back).Reason, "keep the mesh")
		})
	}
}

// A reflector that holds the only session with another cluster keeps its role, and its worker, until others hold one.
func TestAReflectorGoesAfterItsSessionsWithAnotherCluster(t *testing.T) {
	w := newWorld(1, 6, 3)
	w.d.Pool.SizePerZone = 2
	atRest(t, w).d.Pool.SizePerZone = 1
	there := netip.MustParseAddr("10.9.0.7")
	var leaving, stays string
	with := func(o rollout.Observed, established map[string]bool) rollout.Observed {
		o.Peers, o.Statuses = slices.Clone(o.Peers), maps.Clone(o.Statuses)
		for node, up := range established {
			o.Peers = append(o.Peers, plan.Peer{Name: "rrpool-peering-b-" + node, Peering: "b", Node: node, PeerIP: there.String(), ASN: 64513})
			editStatus(&o, node, func(st *plan.Status) {
				st.Sessions = append(st.Sessions, plan.Session{Peer: there, Kind: plan.SessionNode, Established: up})
			})
		}
		return o
	}
	o := w.until(t, "RemoveReflector")
	leaving = w.next(o).Actions[0].(plan.ClearReflector).Node
	for _, n := range o.Nodes {
		if n.HasRoleLabel && n.Name != leaving {
			stays = n.Name
		}
	}
	for name, tc := range map[string]struct {
		established map[string]bool
		goes        bool
	}{
		"it has the only one":               {map[string]bool{leaving: true, stays: false}, false},
		"nobody else has one":               {map[string]bool{leaving: true}, false},
		"another has one as well":           {map[string]bool{leaving: true, stays: true}, true},
		"its own is not Established anyway": {map[string]bool{leaving: false}, true},
	} {
		t.Run(name, func(t *testing.T) {
			s := w.next(with(o, tc.established))
			require.Equal(t, tc.goes, len(s.Actions) > 0, "%s %v", s.Reason, s.WaitingFor)
			if !tc.goes {
				require.Contains(t, s.WaitingFor, "ClusterPeering b to have an Established session of another route reflector than "+leaving)
			}
		})
	}
	o = w.until(t, "RetireWorker")
	both := map[string]bool{leaving: true, stays: true}
	s := w.next(with(o, both))
	require.Empty(t, s.Actions)
	require.Equal(t, []string{"ClusterPeering b to have no BGPPeer on " + leaving + " any more"}, s.WaitingFor)
	require.Equal(t, []any{rollout.AwaitsPeering, rollout.WorkersTimeout}, []any{s.Awaits, s.Timeout})
	require.Len(t, ensured(w.next(with(o, map[string]bool{leaving: false, stays: false}))).Retire, 1, "with the other cluster gone nothing is lost")
	nodeOf(&o, leaving).Ready = false
	require.Len(t, ensured(w.next(with(o, both))).Retire, 1, "no packet goes through a node that is down")
}

func TestOfSurplusReflectorsTheOneThatIsNotReadyGoesFirst(t *testing.T) {
	w := newWorld(1, 6, 3)
	w.d.Pool.SizePerZone = 2
	atRest(t, w).d.Pool.SizePerZone = 1
	o := w.until(t, "RemoveReflector")
	first := w.next(o).Actions[0].(plan.ClearReflector).Node
	for i := range o.Nodes {
		if n := &o.Nodes[i]; n.HasRoleLabel && n.Name != first {
			n.Ready = false
			require.Contains(t, w.next(o).Reason, "route reflector "+n.Name+" is more than the 3 wanted")
			n.Ready = true
		}
	}
}

// Calico's objects are being moved, or have been: what is written to them reaches no node, but what is written to Nodes does.
func TestALockedDatastoreStopsTheSafetyNetToo(t *testing.T) {
	for _, mode := range []v1alpha1.Mode{v1alpha1.ModeRouteReflector, v1alpha1.ModeFullMesh} {
		w, o := migrated(t)
		w.d.Mode = mode
		for i := range o.Nodes {
			o.Nodes[i].Ready = o.Nodes[i].Ready && !o.Nodes[i].Marked
		}
		require.Contains(t, w.next(o).Actions, plan.Action(plan.RestoreMesh{}))
		o.Locked = &plan.Problem{Reason: "DatastoreLocked", Message: "wait"}
		s := w.next(o)
		require.Equal(t, "DatastoreLocked", s.Problem.Reason)
		require.Empty(t, s.Actions)
		require.Empty(t, s.Watch)
	}
}

// forget takes the session with a peer out of a node's report.
func forget(o *rollout.Observed, node string, peer netip.Addr) {
	editStatus(o, node, func(s *plan.Status) {
		s.Sessions = slices.DeleteFunc(s.Sessions, func(x plan.Session) bool { return x.Peer == peer })
	})
}

// meshOn is the cluster a moment before the mesh goes: all gates are open.
func meshOn(t *testing.T) (*world, rollout.Observed) {
	t.Helper()
	w, _ := migrated(t)
	disturbances["mesh switched on"](w, 0)
	return w, w.until(t, "DisableMesh")
}

// Each gate before the mesh goes, closed by itself.
func TestTheMeshStaysOnWhile(t *testing.T) {
	reflector := func(o *rollout.Observed) string { return o.Nodes[len(o.Nodes)-1].Name }
	for name, edit := range map[string]func(*world, *rollout.Observed){
		"a session is down": func(_ *world, o *rollout.Observed) {
			editStatus(o, reflector(o), func(s *plan.Status) { s.Sessions[0].Established = false })
		},
		"a session is missing": func(_ *world, o *rollout.Observed) {
			editStatus(o, reflector(o), func(s *plan.Status) { s.Sessions = s.Sessions[1:] })
		},
		"a session has just come up": func(w *world, o *rollout.Observed) {
			editStatus(o, reflector(o), func(s *plan.Status) { s.Sessions[0].Since = w.now })
		},
		"a report is old": func(w *world, o *rollout.Observed) {
			editStatus(o, reflector(o), func(s *plan.Status) { s.Updated = w.now.Add(-31 * time.Second) })
		},
		"a report is unproven": func(_ *world, o *rollout.Observed) {
			editStatus(o, reflector(o), func(s *plan.Status) { s.Updated = time.Time{} })
		},
		"a report is missing": func(_ *world, o *rollout.Observed) { delete(o.Statuses, reflector(o)) },
		"a reflector has a mesh session": func(_ *world, o *rollout.Observed) {
			editStatus(o, reflector(o), func(s *plan.Status) {
				s.Sessions = append(s.Sessions, plan.Session{Peer: netip.MustParseAddr("10.9.9.9"), Kind: plan.SessionMesh})
			})
		},
		"a BGPPeer was written a moment ago":     func(w *world, o *rollout.Observed) { o.Peers[0].Written = w.now },
		"a role was given a moment ago":          func(w *world, o *rollout.Observed) { o.Nodes[len(o.Nodes)-1].RoleSince = w.now },
		"a reflector is not Ready":               func(w *world, o *rollout.Observed) { kill(w, o, 1, 0) },
		"a reflector is missing":                 func(_ *world, o *rollout.Observed) { o.Nodes = o.Nodes[:len(o.Nodes)-1] },
		"a second address family has no session": func(_ *world, o *rollout.Observed) { addIPv6(o, 1, len(o.Nodes)) },
		"no node is Ready": func(w *world, o *rollout.Observed) {
			for i := range 6 {
				o.Nodes[i].Ready, o.Nodes[i].ReadyChanged = false, w.now
			}
		},
		"a node that is not Ready has lost one of its reflectors": func(_ *world, o *rollout.Observed) {
			o.Nodes[1].Ready = false
			forget(o, reflector(o), o.Nodes[1].Addresses[0])
		},
		"a node that is not Ready has lost one of its reflectors, and its mesh session with another": func(w *world, o *rollout.Observed) {
			o.Nodes[1].Ready = false
			forget(o, reflector(o), o.Nodes[1].Addresses[0])
			editStatus(o, o.Nodes[len(o.Nodes)-2].Name, func(s *plan.Status) {
				s.Sessions = append(s.Sessions, plan.Session{Peer: o.Nodes[1].Addresses[0], Kind: plan.SessionMesh, Since: w.now.Add(-time.Hour)})
			})
		},
		"a node that is not Ready is reached by the mesh alone": func(_ *world, o *rollout.Observed) {
			o.Nodes[1].Ready = false
			for _, n := range o.Nodes[6:] {
				forget(o, n.Name, o.Nodes[1].Addresses[0])
			}
			editStatus(o, o.Nodes[0].Name, func(s *plan.Status) {
				s.Sessions = append(s.Sessions, plan.Session{Peer: o.Nodes[1].Addresses[0], Kind: plan.SessionMesh, Established: true})
			})
		},
		"a client shares no address family": func(_ *world, o *rollout.Observed) {
			o.Nodes[0].Addresses = []netip.Addr{netip.MustParseAddr("fd00::1")}
		},
		"a sampled client lacks a route": func(_ *world, o *rollout.Observed) {
			from := o.Nodes[len(o.Nodes)-1].Addresses[0]
			editStatus(o, o.Nodes[0].Name, func(s *plan.Status) {
				s.Routes = slices.DeleteFunc(s.Routes, func(r plan.Route) bool { return r.From == from })
			})
		},
		"the sampled routes are unknown": func(_ *world, o *rollout.Observed) {
			editStatus(o, o.Nodes[0].Name, func(s *plan.Status) { s.HasRoutes = false })
		},
		"the sampled routes cannot be read": func(_ *world, o *rollout.Observed) {
			editStatus(o, o.Nodes[0].Name, func(s *plan.Status) { s.UnreadRoutes = []string{"route to x"} })
		},
		"a session of a reflector cannot be read": func(w *world, o *rollout.Observed) {
			editStatus(o, w.reflectors()[0].Name, func(s *plan.Status) { s.Unread = []string{"session with x"} })
		},
	} {
		t.Run(name, func(t *testing.T) {
			w, o := meshOn(t)
			edit(w, &o)
			s := w.next(o)
			require.NotEqual(t, "DisableMesh", s.Name)
			require.False(t, does(s, plan.DisableMesh{}))
			require.NotEmpty(t, s.WaitingFor, s.Name)
		})
	}
	t.Run("a node that is down for good holds nothing up", func(t *testing.T) {
		w, o := meshOn(t)
		o.Nodes[1].Ready = false
		for name := range o.Statuses {
			forget(&o, name, o.Nodes[1].Addresses[0])
		}
		require.Equal(t, "DisableMesh", w.next(o).Name)
	})
	t.Run("nothing is missing: then it goes", func(t *testing.T) {
		w, o := meshOn(t)
		require.Equal(t, "DisableMesh", w.next(o).Name)
	})
}

// Calico's route reflectors do not pass on each address of services: see TestWhatRoutersOutsideLearn of the lab.
func TestAnAddressOfServicesIsNotDemandedFromReflectors(t *testing.T) {
	offer := func(t *testing.T, services, address string, edit func(*rollout.Observed)) rollout.Step {
		t.Helper()
		w, o := meshOn(t)
		o.BGP.Services = []netip.Prefix{netip.MustParsePrefix(services)}
		editStatus(&o, o.Nodes[0].Name, func(s *plan.Status) {
			s.Routes = append(s.Routes, plan.Route{Prefix: netip.MustParsePrefix(address), From: o.Nodes[len(o.Nodes)-1].Addresses[0]})
		})
		edit(&o)
		return w.next(o)
	}
	some := func(*rollout.Observed) {}
	s := offer(t, "198.51.100.200/32", "198.51.100.200/32", some)
	require.Equal(t, "DisableMesh", s.Name)
	s = offer(t, "198.51.101.0/24", "198.51.100.200/32", some)
	require.Equal(t, "AwaitRoutes", s.Name, "no address of services")
	require.Contains(t, s.WaitingFor[0], "to learn 198.51.100.200/32")
	s = offer(t, "0.0.0.0/0", "198.51.100.200/32", func(o *rollout.Observed) {
		o.Nodes[1].Blocks = []netip.Prefix{netip.MustParsePrefix("198.51.100.192/26")}
	})
	require.Equal(t, "AwaitRoutes", s.Name, "a pod may have it")
	require.Equal(t, "DisableMesh", offer(t, "10.0.0.0/8", "10.0.0.0/8", some).Name)
	require.Equal(t, "AwaitRoutes", offer(t, "10.0.0.0/8", "10.244.7.0/24", some).Name, "services are announced as ranges and single addresses: this may be a pod's")
}

// Where every node announces a prefix, a client has as many paths to it from each reflector.
func TestPathsThatEveryNodeAnnouncesAreCounted(t *testing.T) {
	const unlisted = "prefixes are not compared"
	for name, c := range map[string]struct {
		services, blocks int
		direct           bool
		want             string
	}{
		"some ranges of services":                     {services: 90},
		"many ranges of services":                     {services: 120, want: unlisted},
		"many blocks":                                 {blocks: 120, want: "to learn"},
		"many blocks that Felix has direct routes to": {blocks: 120, direct: true, want: unlisted},
	} {
		t.Run(name, func(t *testing.T) {
			w, o := meshOn(t)
			for i := range c.services {
				o.BGP.Services = append(o.BGP.Services, netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(i), 0, 0}), 24))
			}
			for i := range c.blocks {
				o.Nodes[1].Blocks = append(o.Nodes[1].Blocks, netip.PrefixFrom(netip.AddrFrom4([4]byte{172, 30, byte(i), 0}), 26))
			}
			bird := plan.PoolRoutes{CIDR: "192.168.0.0/16", BIRD: true}
			o.Routes = plan.Routes{Pools: []plan.PoolRoutes{bird, {CIDR: "172.30.0.0/16", BIRD: !c.direct, Felix: c.direct, Direct: c.direct}}}
			s := w.next(o)
			require.Contains(t, fmt.Sprint(s.Reason, s.WaitingFor), c.want)
			require.Equal(t, c.want == unlisted, strings.Contains(s.Reason, unlisted))
		})
	}
}

// Blocks in no IPPool are announced to the mesh and passed on by no route reflector: nothing begins, the mesh does not go, and nothing is called steady.
func TestTheMeshStaysForBlocksThatReflectorsDoNotPassOn(t *testing.T) {
	const block = "192.168.10.0/26"
	outside := func(o *rollout.Observed, ranges ...netip.Prefix) {
		o.Routes.Ranges = append([]netip.Prefix{}, ranges...)
		o.Nodes[0].Blocks = []netip.Prefix{netip.MustParsePrefix(block)}
		for i := range o.Nodes[1:] {
			o.Nodes[1+i].Blocks = nil
		}
	}
	for name, ranges := range map[string][]netip.Prefix{
		"no IPPool": nil, "another IPPool": {netip.MustParsePrefix("10.0.0.0/8")}, "an IPPool within": {netip.MustParsePrefix("192.168.10.0/27")},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(1, 6, 3)
			o := w.observe()
			outside(&o, ranges...)
			s := w.next(o)
			require.NotNil(t, s.Problem, s)
			require.Equal(t, "BlocksOutsideIPPools", s.Problem.Reason)
			require.Contains(t, s.Reason, block+" of "+o.Nodes[0].Name)
			require.Empty(t, s.Actions)

			for _, timer := range []bool{false, true} {
				w, o = meshOn(t)
				w.d.Timer = timer
				outside(&o, ranges...)
				o.Nodes[0].Blocks = append(o.Nodes[0].Blocks, slices.Repeat(o.Nodes[0].Blocks, 2000)...) // too many to compare them in reports
				s = w.next(o)
				require.Equal(t, "AwaitRoutes", s.Name, s)
				require.Contains(t, s.WaitingFor, "an IPPool that contains "+block+" of "+o.Nodes[0].Name)
			}
			w, o = migrated(t)
			outside(&o, ranges...)
			s = w.next(o)
			require.Equal(t, "AwaitRoutes", s.Name, "what serves goes on, and it is said")
			require.Nil(t, s.Problem)
		})
	}
	w, o := meshOn(t)
	outside(&o, netip.MustParsePrefix("192.168.0.0/16"))
	w.d.Timer = true
	require.Equal(t, "DisableMesh", w.next(o).Name)
}

// Blocks with the community NO_ADVERTISE go from node to node on the mesh, and through no route reflector.
func TestTheMeshStaysForBlocksThatNodesMark(t *testing.T) {
	all, block := netip.MustParsePrefix("192.168.0.0/16"), netip.MustParsePrefix("192.168.10.0/26")
	for name, c := range map[string]struct {
		marks map[string][]plan.Mark
		stays bool
	}{
		"of all":                            {map[string][]plan.Mark{"": {{Range: all, Text: "it"}}}, true},
		"of the block":                      {map[string][]plan.Mark{"": {{Range: block, Text: "it"}}}, true},
		"of a part of the block":            {map[string][]plan.Mark{"": {{Range: netip.MustParsePrefix("192.168.10.0/27")}}}, false},
		"of other blocks":                   {map[string][]plan.Mark{"": {{Range: netip.MustParsePrefix("10.0.0.0/8")}}}, false},
		"of no range that can be read":      {map[string][]plan.Mark{"": {{Text: "it"}}}, true},
		"of the node":                       {map[string][]plan.Mark{"the node": {{Range: all, Text: "it"}}}, true},
		"of another node":                   {map[string][]plan.Mark{"another": {{Range: all}}}, false},
		"of all but the node, with its own": {map[string][]plan.Mark{"": {{Range: all}}, "the node": {}}, false},
	} {
		t.Run(name, func(t *testing.T) {
			mark := func(o *rollout.Observed) string {
				for i := range o.Nodes {
					o.Nodes[i].Blocks = nil
				}
				o.Nodes[0].Blocks, o.Routes.Marks = []netip.Prefix{block}, maps.Clone(c.marks)
				if of, own := c.marks["the node"]; own {
					o.Routes.Marks[o.Nodes[0].Name] = of
				}
				return block.String() + " of " + o.Nodes[0].Name + " (it)"
			}
			w := newWorld(1, 6, 3)
			o := w.observe()
			says := mark(&o)
			s := w.next(o)
			require.Equal(t, c.stays, s.Problem != nil, s)
			if c.stays {
				require.Equal(t, "BlocksMarkedNoAdvertise", s.Problem.Reason)
				require.Contains(t, s.Reason, says)
				require.Empty(t, s.Actions)
			}
			w, o = meshOn(t)
			w.d.Timer = true
			says = mark(&o)
			if s = w.next(o); c.stays {
				require.Equal(t, "AwaitRoutes", s.Name, s)
				require.Contains(t, s.WaitingFor, "no community NO_ADVERTISE on "+says)
			} else {
				require.Equal(t, "DisableMesh", s.Name, s)
			}
			_, o = migrated(t)
			mark(&o)
			s = w.next(o)
			require.Equal(t, c.stays, s.Name == "AwaitRoutes", s)
			require.Nil(t, s.Problem)
		})
	}
}

// With the mesh off, advice is not to be an outage: beside the mesh sessions by address end. What Calico leaves out is not refused, and no router.
func TestBGPPeersByAddressAndTheMesh(t *testing.T) {
	w := newWorld(1, 6, 3)
	off := false
	with := func(p plan.Peer) rollout.Step {
		o := w.observe()
		o.BGP.Mesh.Enabled, o.Peers = &off, []plan.Peer{p}
		return w.next(o)
	}
	o := w.observe()
	one, two := o.Nodes[0], o.Nodes[1]
	s := with(plan.Peer{Name: "star", Node: one.Name, PeerIP: two.Addresses[0].String(), ASN: 64512})
	require.Equal(t, "ForeignInClusterPeer", s.Problem.Reason)
	require.Contains(t, s.Reason, "replace BGPPeer star and others with a peerIP of nodes by some with a peerSelector")
	s = with(plan.Peer{Name: "star", NodeSelector: "all()", PeerSelector: "all()", ASN: 64512})
	require.Contains(t, s.Reason, "switch the mesh on first")
	require.NotContains(t, s.Reason, "peerIP of nodes")

	for name, p := range map[string]plan.Peer{
		"of the node itself": {Name: "own", Node: one.Name, PeerIP: one.Addresses[0].String(), ASN: 64512},
		"of its loopback":    {Name: "speaker", PeerIP: "127.0.0.1", ASN: 64513},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, "AwaitMesh", with(p).Name)
			o := w.observe()
			o.Peers = []plan.Peer{p}
			require.Nil(t, w.next(o).Problem, "with the mesh on it begins")
		})
	}
	p := plan.Peer{Name: "own", NodeSelector: "all()", PeerIP: one.Addresses[0].String(), ASN: 64512}
	require.Equal(t, "ForeignInClusterPeer", with(p).Problem.Reason, "of others as well")

	o.BGP.Mesh.Enabled, o.Peers = &off, []plan.Peer{{Name: "tor", PeerIP: "192.0.2.1", ASN: 64513}}
	require.Equal(t, "RoutesFromRouters", w.next(o).Problem.Reason)
	o.Routes.Pools = []plan.PoolRoutes{{CIDR: "10.0.0.0/16", Felix: true}}
	require.Equal(t, "NoRoutesOverBGP", w.next(o).Problem.Reason, "no pod has its routes from the router")
}

// A reporter that fails over routes reports nothing at all. It is asked for its sessions then, another for its routes, and where three
// cannot, the sessions decide, which is said.
func TestReportersThatCannotListRoutesDoNotKeepTheMesh(t *testing.T) {
	w, o := meshOn(t)
	one := o.Nodes[0].Name
	starved := func(since time.Duration) map[string]bool {
		editStatus(&o, one, func(st *plan.Status) {
			st.Cleared, st.Updated, st.HasRoutes, st.Routes = w.now.Add(-since), time.Time{}, false, nil
		})
		return routesAsked(w.next(o))
	}
	require.True(t, starved(29 * time.Second)[one])
	require.Equal(t, "AwaitRoutes", w.next(o).Name)
	asked, is := starved(30 * time.Second)[one]
	require.True(t, is && !asked, "without its routes it may answer")

	unlisted := func(names ...string) rollout.Step {
		for _, name := range names {
			editStatus(&o, name, func(st *plan.Status) {
				st.Cleared, st.Updated, st.HasRoutes, st.Routes, st.RoutesUnanswered = time.Time{}, w.now, false, nil, true
			})
		}
		return w.next(o)
	}
	s := unlisted(one)
	require.Equal(t, "AwaitRoutes", s.Name)
	asks := routesAsked(s)
	require.True(t, asks[o.Nodes[1].Name], "another is asked")
	asked, is = asks[one]
	require.True(t, is && !asked, "it stays known")
	s = unlisted(o.Nodes[1].Name, o.Nodes[2].Name)
	require.Contains(t, s.Reason, "prefixes are not compared, as calico-node cannot report them on "+one)
	for _, asked := range routesAsked(s) {
		require.False(t, asked)
	}
}

// How many paths other clusters and routers bring is not known. Where reports cannot hold them, no gate waits for ever: the mesh goes, and
// reflectors that are surplus.
func TestMorePathsFromOutsideThanReportsHold(t *testing.T) {
	w := newWorld(1, 6, 3)
	w.brimful = true
	atRest(t, w)
	require.False(t, w.bgp.MeshOn())
	require.Contains(t, w.story(), "prefixes are not compared, as calico-node cannot report them on client-01 and others")
	w.d.Pool.Zones, w.nextLook = w.d.Pool.Zones[:2], w.now
	atRest(t, w)
	require.False(t, slices.ContainsFunc(w.reflectors(), func(m *machine) bool { return m.Zone == "zone-3" }))
}

func routesAsked(s rollout.Step) map[string]bool {
	out := map[string]bool{}
	for _, w := range s.Watch {
		out[w.Node] = w.Routes
	}
	return out
}

func TestTimerGateWaitsAndAsksForNoReports(t *testing.T) {
	w, o := meshOn(t)
	w.d.Timer = true
	o.Statuses = nil
	o.Peers[0].Written = w.now.Add(-89 * time.Second)
	s := w.next(o)
	require.Equal(t, "AwaitSessions", s.Name)
	require.Empty(t, s.Watch)
	o.Peers[0].Written = w.now.Add(-90 * time.Second)
	require.Equal(t, "DisableMesh", w.next(o).Name)
	o.Nodes[0].Created = w.now.Add(-44 * time.Second)
	require.Equal(t, []string{"client-01 to have been Ready for 45s, as not all sessions can be seen"}, w.next(o).WaitingFor, "it may have no session yet")
	o.Nodes[0].Created = w.now.Add(-45 * time.Second)
	require.Equal(t, "DisableMesh", w.next(o).Name)
}

func TestHowLongAStepMayWait(t *testing.T) {
	dedicated, inPlace := func() *world { return newWorld(1, 6, 3) }, func() *world { return newInPlaceWorld(1, 7, 2, 3) }
	for name, tc := range map[string]struct {
		new    func() *world
		change func(*world)
		expect map[string]time.Duration
	}{
		"dedicated nodes": {dedicated, func(*world) {}, map[string]time.Duration{
			"EnsurePool": time.Hour, "AwaitSessions": 5 * time.Minute, "AwaitRoutes": 5 * time.Minute, "AwaitMesh": 5 * time.Minute,
			"RemoveReflector": 6 * time.Minute, "RetireWorker": time.Hour, "DisableMesh": 0, rollout.Steady: 0,
		}},
		"dedicated nodes, Timer": {dedicated, func(w *world) { w.d.Timer = true }, map[string]time.Duration{
			"EnsurePool": time.Hour, "AwaitSessions": 0, "AwaitMesh": 0, "RemoveReflector": 0,
		}},
		"no limit": {dedicated, func(w *world) { w.d.SessionTimeout = 0 }, map[string]time.Duration{
			"EnsurePool": time.Hour, "AwaitSessions": 0, "RemoveReflector": 0,
		}},
		"existing nodes": {inPlace, func(w *world) { w.d.Promotion = v1alpha1.PromotionDrain }, map[string]time.Duration{
			"DrainNode": 5 * time.Minute, "PromoteReflectors": 5 * time.Minute, "EnsurePool": time.Hour,
		}},
		"existing nodes, Timer": {inPlace, func(w *world) { w.d.Promotion, w.d.Timer = v1alpha1.PromotionDrain, true }, map[string]time.Duration{
			"DrainNode": 5 * time.Minute, "PromoteReflectors": 0,
		}},
	} {
		t.Run(name, func(t *testing.T) {
			w := tc.new()
			tc.change(w)
			longest := map[string]time.Duration{}
			follow := func() {
				for range 900 {
					w.tick()
					w.deploy()
					if s := w.manage(-1); s != nil {
						longest[s.Name] = max(longest[s.Name], s.Timeout)
					}
				}
			}
			follow()
			w.d.Pool.Zones, w.nextLook = w.d.Pool.Zones[:2], w.now
			follow()
			w.d.Mode, w.nextLook = v1alpha1.ModeFullMesh, w.now
			follow()
			for step, expected := range tc.expect {
				got, taken := longest[step]
				require.True(t, taken, step)
				require.Equal(t, expected, got, step)
			}
		})
	}
}

// A large cluster goes back to the mesh in batches: never more than 64 reports at a time, and every node once. One that is replaced under its
// old name has proven nothing.
func TestLargeClustersAreLookedAtInBatches(t *testing.T) {
	t.Parallel()
	w := newWorld(3, 70, 3)
	require.Empty(t, w.run(300))
	require.False(t, w.bgp.MeshOn())
	w.d.Mode = v1alpha1.ModeFullMesh
	w.nextLook = w.now
	looked, most, proven := map[string]bool{}, 0, false
	for i := 0; len(w.reflectors()) > 0 && i < 900; i++ {
		w.step()
		require.Empty(t, w.violation())
		most = max(most, len(w.watches))
		for name := range w.watches {
			looked[name] = true
		}
		if len(w.memory.Proven) == 70 && len(w.reflectors()) == 3 {
			proven = true
			o := w.observe()
			o.Nodes[0].UID, o.Nodes[0].Created, o.Nodes[0].ReadyChanged = "another", w.now, w.now
			require.False(t, does(w.next(o), plan.ClearReflector{}))
			for age, counts := range map[time.Duration]bool{29 * time.Minute: true, 31 * time.Minute: false} {
				o = w.observe()
				o.BGP.Restored, o.MeshSince, o.Proven = w.now.Add(-50*time.Minute), w.now.Add(-50*time.Minute), map[string]time.Time{}
				for i := range o.Nodes {
					o.Nodes[i].Created, o.Nodes[i].ReadyChanged = time.Time{}, time.Time{}
					o.Proven[o.Nodes[i].Name] = w.now.Add(-age)
				}
				require.Equal(t, counts, does(w.next(o), plan.ClearReflector{}), "what was seen %s ago counts", age)
			}
		}
	}
	require.Empty(t, w.reflectors())
	require.True(t, proven, "the control")
	require.Len(t, looked, 70+3)
	require.Equal(t, 64+3, most, "as many at once as a batch has")
}
