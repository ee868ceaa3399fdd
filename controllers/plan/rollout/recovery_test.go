package rollout_test

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/controllers/plan"
	"github.com/rrpool/rrpool/controllers/plan/rollout"
)

// A BIRD that has just started holds back all routes while a neighbour of its is down, for
// up to 240 s, with sessions that look Established: on its own node, and on the other side.
func TestTheMeshAndTheReflectorsWaitForABIRDThatRecovers(t *testing.T) {
	t.Parallel()
	for name, who := range map[string]int{"a client": 3, "a reflector": 8} {
		for _, blocks := range []int{1, 200} {
			t.Run(fmt.Sprintf("%s, %d blocks a node, on the way to the reflectors", name, blocks), func(t *testing.T) {
				t.Parallel()
				w := newWorld(5, 8, 3)
				for i := range 8 * (blocks - 1) { // so many that no report can list the routes
					m := w.all()[i%8]
					m.Blocks = append(m.Blocks, netip.PrefixFrom(netip.AddrFrom4([4]byte{172, byte(i % 8), byte(i / 8), 0}), 26))
				}
				for len(w.reflectors()) == 0 {
					require.Empty(t, w.run(1))
				}
				w.model.Recover(w.all()[who].Name)
				require.Empty(t, w.run(220), w.story())
				require.True(t, w.bgp.MeshOn(), w.story())
				require.Empty(t, w.run(120), w.story())
				require.False(t, w.bgp.MeshOn(), w.story())
			})
		}
	}
	t.Run("a client, on the way back", func(t *testing.T) {
		t.Parallel()
		w, _ := migrated(t)
		w.d.Mode, w.nextLook = v1alpha1.ModeFullMesh, w.now
		require.Empty(t, w.run(2))
		w.model.Recover("client-04")
		require.Empty(t, w.run(230), w.story())
		require.Len(t, w.reflectors(), 3)
		require.Empty(t, w.settle(), w.story())
		require.Empty(t, w.reflectors())
	})
}

// Where no report can list the routes, BIRD's own count of sessions and the age of those proves
// that every node passes on its routes, in a cluster of any size.
func TestTheMeshGoesFromALargeClusterOnceEveryBIRDPassesOnItsRoutes(t *testing.T) {
	t.Parallel()
	for _, nodes := range []int{300, 1000, 5000} {
		w := atRest(t, newWorld(1, 3, 3))
		w.crowd, w.now = nodes-3, w.now.Add(time.Hour)
		o, on := w.observe(), true
		o.BGP.Mesh.Enabled = &on
		for i := range o.Nodes {
			o.Nodes[i].Blocks = slices.Repeat(o.Nodes[0].Blocks, 4)
		}
		up := func(st *plan.Status) {
			st.Updated = w.now
			for i := range st.Sessions {
				st.Sessions[i].Since = w.now.Add(-time.Hour)
			}
		}
		for _, r := range w.reflectors() {
			editStatus(&o, r.Name, up)
		}
		goes := func() bool { return does(w.next(o), plan.DisableMesh{}) }
		first, last, crowd, reflector := o.Nodes[0].Name, o.Nodes[nodes+2].Name, o.Nodes[6:], w.reflectors()[0].Name
		require.False(t, goes(), "%d nodes, no client reports", nodes)
		o.Statuses[first], o.Statuses[last] = plan.Status{Node: first, Updated: w.now}, plan.Status{Node: last, Updated: w.now}
		require.True(t, goes(), "%d nodes", nodes)
		require.Contains(t, w.next(o).Reason, "prefixes are not compared")
		for _, name := range []string{first, reflector} {
			editStatus(&o, name, func(st *plan.Status) { st.Waiting = 1 })
			require.False(t, goes(), "%d nodes, %s recovers", nodes, name)
			editStatus(&o, name, func(st *plan.Status) { st.Waiting = 0 })
		}
		recent := func(clients int) rollout.Step {
			for _, r := range w.reflectors() {
				for _, c := range crowd[:clients] {
					withPeer(&o, r.Name, c.Addresses[0], func(s *plan.Session) { s.Since = w.now.Add(-4 * time.Minute) })
				}
			}
			return w.next(o)
		}
		require.Equal(t, []string{"a status report from " + crowd[0].Name}, recent(1).WaitingFor, "%d nodes", nodes)
		o.Statuses[crowd[0].Name] = plan.Status{Node: crowd[0].Name, Updated: w.now}
		require.True(t, goes(), "%d nodes", nodes)
		s := recent(65)
		require.Equal(t, "AwaitRoutes", s.Name)
		require.Len(t, s.Watch, 3, "%d nodes: too many to look at", nodes)
	}
}

// Calico for Windows has no status reporter.
func TestNodesThatNeverReportHoldUpNeitherDirection(t *testing.T) {
	t.Parallel()
	for silent := 1; silent <= 6; silent++ {
		for name, w := range map[string]*world{"dedicated nodes": newWorld(5, 6, 3), "existing nodes": newInPlaceWorld(5, 12, 6, 3)} {
			t.Run(fmt.Sprintf("%d of them, %s", silent, name), func(t *testing.T) {
				t.Parallel()
				for _, m := range w.all()[:silent] {
					m.Labels["kubernetes.io/os"] = "windows"
				}
				require.Empty(t, w.settle(), w.story())
				require.False(t, w.bgp.MeshOn(), w.story())
				for _, r := range w.reflectors() {
					require.True(t, r.Reports(), r.Name)
				}
				w.d.Mode, w.nextLook = v1alpha1.ModeFullMesh, w.now
				require.Empty(t, w.settle(), w.story())
				require.Empty(t, w.reflectors(), w.story())
				require.Contains(t, strings.Join(w.narrative, "\n"), "Windows report no sessions")
			})
		}
	}
}

// cutOff lets the packets between these clients and every reflector get lost, or pass again.
func (w *world) cutOff(lost bool, clients ...*machine) {
	for _, c := range clients {
		for _, r := range w.reflectors() {
			w.model.Cut(c.Name, r.Name, lost)
		}
	}
}

// A minority is cut off from every reflector, which still serve most. The mesh reaches
// them, and stays on until the reflectors have their sessions again.
func TestTheMeshComesBackForAMinorityThatIsCutOff(t *testing.T) {
	for name, change := range meanwhile {
		for _, lost := range []int{1, 4} {
			t.Run(fmt.Sprintf("%d of 10, %s", lost, name), func(t *testing.T) {
				w := atRest(t, newWorld(1, 10, 3))
				w.step()
				clients := w.clients()
				change(w, func() { w.cutOff(true, clients[:lost]...) })
				seconds, on := w.meshComesOn(120)
				require.Equal(t, !w.d.Timer, on, w.story())
				if w.d.Timer {
					return
				}
				require.Less(t, seconds, 75)
				w.problems, w.d.Mode, w.cloudSilent = nil, v1alpha1.ModeRouteReflector, false
				for i := range 900 {
					w.step()
					require.True(t, w.bgp.MeshOn(), "the reflectors lack the sessions")
					require.True(t, i < 40 || w.reaches(clients[0], clients[9]))
				}
				w.cutOff(false, clients...)
				require.Empty(t, w.settle())
			})
		}
	}
}

// The mesh does not reach a node whose BIRD is dead, and is not needed for one whose sessions come by themselves.
func TestTheMeshStaysOffForNodesThatItDoesNotHelp(t *testing.T) {
	for name, tc := range map[string]struct {
		each func(*world, int)
		want []string
	}{
		"BIRD is dead on four of ten": {func(w *world, i int) {
			for _, c := range w.clients()[:4] {
				if i == 0 {
					w.stopCalicoNode(c.Name, c.Name == "client-02")
				}
			}
		}, []string{"client-01", "client-02", "client-03", "client-04"}},
		"one flaps": {func(w *world, i int) { w.cutOff(i%60 < 20, w.clients()[0]) }, []string{}},
		"a node comes every 20 s": {func(w *world, i int) {
			if i%20 == 0 {
				w.addNode(fmt.Sprintf("new-%03d", i), "zone-1", false)
			}
		}, []string{}},
	} {
		t.Run(name, func(t *testing.T) {
			w := atRest(t, newWorld(1, 10, 3))
			watched := len(w.watches) + len(tc.want)
			for i := range 601 {
				tc.each(w, i)
				w.step()
				require.False(t, w.bgp.MeshOn(), w.story())
			}
			s := w.next(w.observe())
			require.Equal(t, tc.want, s.Unserved)
			require.Len(t, s.Watch, watched)
			writes := w.writes
			w.step()
			require.Equal(t, writes, w.writes)
		})
	}
}

// An upgrade of Calico restarts calico-node on one client after the other. The first report of each shows sessions that start.
func TestAnUpgradeOfTheClientsLeavesTheMeshOff(t *testing.T) {
	for _, seconds := range [][2]int{{20, 60}, {45, 30}, {60, 240}} {
		down, pause := seconds[0], seconds[1]
		w := atRest(t, newWorld(1, 12, 3))
		clients := w.clients()
		for i := range 24 * (down + pause) {
			c := clients[i/(down+pause)%12]
			switch i % (down + pause) {
			case 0:
				w.birdDies(c.Name)
			case down:
				w.birdBack(c.Name)
			}
			w.step()
			require.False(t, w.bgp.MeshOn(), "down for %d s, every %d s\n%s", down, down+pause, w.story())
		}
	}
}

func TestWhoIsUnserved(t *testing.T) {
	const long = time.Hour
	for name, tc := range map[string]struct {
		ago  time.Duration // when the reflectors have seen the first client's sessions go, 0 for not
		do   func(*world, *rollout.Observed)
		want []string
	}{
		"all have sessions":        {0, nil, []string{}},
		"a client has none":        {long, nil, []string{"client-01"}},
		"it has just lost them":    {29 * time.Second, nil, []string{}},
		"it may not have answered": {49 * time.Second, nil, []string{}},
		"it answers that it has one": {long, func(w *world, o *rollout.Observed) {
			o.Statuses["client-01"] = plan.Status{Updated: w.now, Sessions: []plan.Session{{Peer: w.reflectors()[0].Addresses[0], Kind: plan.SessionNode, Established: true}}}
		}, []string{}},
		"its report is as old as the loss": {long, func(w *world, o *rollout.Observed) {
			o.Statuses["client-01"] = plan.Status{Updated: w.now.Add(-long), Sessions: []plan.Session{{Peer: w.reflectors()[0].Addresses[0], Kind: plan.SessionNode, Established: true}}}
		}, []string{"client-01"}},
		"it has just come":                           {long, func(w *world, o *rollout.Observed) { o.Nodes[0].Created = w.now.Add(-94 * time.Second) }, []string{}},
		"it is Ready again":                          {long, func(w *world, o *rollout.Observed) { o.Nodes[0].ReadyChanged = w.now.Add(-94 * time.Second) }, []string{}},
		"no reflector has its second address family": {0, func(_ *world, o *rollout.Observed) { addIPv6(o, 1) }, []string{}},
		"it has no session in the second one":        {0, func(_ *world, o *rollout.Observed) { addIPv6(o, 1, 7, 8, 9) }, []string{"client-01"}},
		"a reflector has no report":                  {0, func(w *world, o *rollout.Observed) { delete(o.Statuses, w.reflectors()[0].Name) }, nil},
		"no reflector answers": {0, func(w *world, o *rollout.Observed) {
			for _, r := range w.reflectors() {
				editStatus(o, r.Name, func(st *plan.Status) { st.Cleared = w.now.Add(-61 * time.Second) })
			}
		}, nil},
		"sessions cannot be observed": {0, func(w *world, _ *rollout.Observed) { w.d.Timer = true }, nil},
	} {
		t.Run(name, func(t *testing.T) {
			w, o := migrated(t)
			for i := 0; tc.ago > 0 && i < 3; i++ {
				withPeer(&o, w.reflectors()[i].Name, o.Nodes[0].Addresses[0], func(s *plan.Session) { s.Established, s.Since = false, w.now.Add(-tc.ago) })
			}
			if tc.do != nil {
				tc.do(w, &o)
			}
			require.Equal(t, tc.want, w.next(o).Unserved)
		})
	}
}

// A mesh of many nodes costs the others more than it helps a few.
func TestABigClusterKeepsTheMeshOffForAMinority(t *testing.T) {
	w, o := migrated(t)
	for _, r := range w.reflectors() {
		withPeer(&o, r.Name, o.Nodes[0].Addresses[0], func(s *plan.Session) { s.Established, s.Since = false, w.now.Add(-time.Hour) })
	}
	o.Statuses["client-01"] = plan.Status{Node: "client-01", Updated: w.now, Sessions: []plan.Session{{Peer: w.reflectors()[0].Addresses[0], Kind: plan.SessionNode}}}
	require.Contains(t, w.next(o).Actions, plan.RestoreMesh{})
	for i := range 1000 {
		n := o.Nodes[0]
		n.Name, n.Addresses, n.Created = fmt.Sprint("new-", i), []netip.Addr{netip.AddrFrom4([4]byte{10, 9, byte(i >> 8), byte(i)})}, w.now
		o.Nodes = append(o.Nodes, n)
	}
	s := w.next(o)
	require.NotContains(t, s.Actions, plan.RestoreMesh{})
	require.Equal(t, []string{"client-01"}, s.Unserved)
}

// addIPv6 gives the nodes of these numbers a second address.
func addIPv6(o *rollout.Observed, numbers ...int) {
	for _, i := range numbers {
		n := &o.Nodes[i-1]
		n.Addresses = append(n.Addresses[:1:1], netip.MustParseAddr(fmt.Sprintf("fd00::%d", i)))
	}
}
