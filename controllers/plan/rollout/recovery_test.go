package rollout_test

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/controllers/plan"
	"github.com/rrpool/rrpool/controllers/plan/rollout"
	"github.com/rrpool/rrpool/controllers/plan/simulate"
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
		o, d := settled(t, v1alpha1.TopologySingle, nodes)
		now, on := o.Nodes[0].Created.Add(time.Hour), true
		o.BGP.Mesh.Enabled = &on
		for i := range o.Nodes {
			o.Nodes[i].Blocks = append(o.Nodes[i].Blocks, o.Nodes[i].Blocks[0])
		}
		edit := func(name string, change func(*plan.Status)) { editStatus(&o, name, change) }
		goes := func() bool { return does(rollout.Next(o, d, now), plan.DisableMesh{}) }
		first, second, last, reflector := o.Nodes[0].Name, o.Nodes[1].Name, o.Nodes[nodes-1].Name, o.Nodes[nodes].Name
		require.False(t, goes(), "%d nodes, no client reports", nodes)
		o.Statuses[first], o.Statuses[last] = plan.Status{Node: first, Updated: now}, plan.Status{Node: last, Updated: now}
		require.True(t, goes(), "%d nodes", nodes)
		require.Contains(t, rollout.Next(o, d, now).Reason, "prefixes are not compared")
		for _, name := range []string{first, reflector} {
			edit(name, func(st *plan.Status) { st.Waiting = 1 })
			require.False(t, goes(), "%d nodes, %s recovers", nodes, name)
			edit(name, func(st *plan.Status) { st.Waiting = 0 })
		}
		recent := func(clients int) rollout.Step {
			for _, r := range o.Nodes[nodes:] {
				edit(r.Name, func(st *plan.Status) {
					for i := range clients {
						st.Sessions[1+i].Since = now.Add(-4 * time.Minute)
					}
				})
			}
			return rollout.Next(o, d, now)
		}
		require.Equal(t, []string{"a status report from " + second}, recent(1).WaitingFor, "%d nodes", nodes)
		o.Statuses[second] = plan.Status{Node: second, Updated: now}
		require.True(t, goes(), "%d nodes", nodes)
		s := recent(65)
		require.Equal(t, "AwaitRoutes", s.Name)
		require.Len(t, s.Watch, len(o.Nodes)-nodes, "%d nodes: too many to look at", nodes)
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

// settled is a cluster of so many clients in three zones that is where it should be.
func settled(tb testing.TB, kind v1alpha1.TopologyType, nodes int) (rollout.Observed, rollout.Desired) {
	tb.Helper()
	w := newWorld(1, 3, 3)
	for _, m := range w.sorted() {
		w.removeNode(m.Name)
	}
	w.d.Topology.MaxClients = 1 << 20
	begin := w.now.Add(-2 * time.Hour)
	for i := range nodes {
		m := w.addNode(fmt.Sprintf("client-%05d", i), w.d.Pool.Zones[i%3], false)
		m.Created, m.ReadyChanged = begin, begin
	}
	require.Empty(tb, w.want(kind, 3, 9))
	w.pool = rollout.Pool{Exists: true, SizePerZone: w.d.Pool.SizePerZone, Zones: w.d.Pool.Zones}
	w.fillPool()
	for _, x := range w.pool.Workers {
		m := w.addNode(x.ID, x.Zone, true)
		m.Created, m.ReadyChanged = begin, begin
	}
	for range 10 { // until nothing is left to write; sessions are there at once
		o := w.reporting(begin)
		s := rollout.Next(o, w.d, begin.Add(time.Hour))
		if s.Name == rollout.Steady {
			break
		}
		for _, a := range s.Actions {
			w.apply(a)
		}
		for _, m := range w.sorted() {
			m.RoleSince = begin
		}
		for name, p := range w.peers {
			p.Written = begin
			w.peers[name] = p
		}
	}
	o := w.reporting(begin)
	for i := range o.Nodes {
		o.Nodes[i].Created = begin
	}
	return o, w.d
}

// reporting is what the manager sees when all sessions that are configured are up, and the mesh is off.
func (w *world) reporting(since time.Time) rollout.Observed {
	if len(w.reflectors()) == 0 {
		return w.observe()
	}
	off := false
	w.bgp = plan.BGPConfig{Exists: true, ASN: 64512, Mesh: plan.Mesh{Enabled: &off}, Saved: &plan.Mesh{}}
	c := w.cluster()
	net := simulate.NewConfiguration(w.d.RoleLabel, c.Nodes, c.BGP, c.Peers).Network(func(string) bool { return true })
	w.reports = map[string]*plan.Status{}
	for _, r := range w.reflectors() {
		st := &plan.Status{Node: r.Name, Updated: since.Add(time.Hour)}
		for _, m := range w.sorted() {
			if m != r && net.Connected(r.Name, m.Name) {
				st.Sessions = append(st.Sessions, plan.Session{Peer: m.Addresses[0], Kind: plan.SessionNode, Established: true, Since: since})
			}
		}
		w.reports[r.Name] = st
	}
	return w.observe()
}
