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
				for _, m := range w.sorted()[:silent] {
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
