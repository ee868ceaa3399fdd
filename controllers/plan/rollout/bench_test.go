package rollout_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/controllers/plan"
	"github.com/rrpool/rrpool/controllers/plan/rollout"
	"github.com/rrpool/rrpool/controllers/plan/simulate"
)

// BenchmarkNext is one turn of a cluster at rest, whose reflectors report all their
// sessions. What counts is how it grows.
func BenchmarkNext(b *testing.B) {
	for _, kind := range []v1alpha1.TopologyType{v1alpha1.TopologySingle, v1alpha1.TopologyQuorum, v1alpha1.TopologyHierarchy} {
		for _, nodes := range []int{500, 5000} {
			b.Run(fmt.Sprintf("%s of %d", kind, nodes), func(b *testing.B) {
				o, d := settled(b, kind, nodes)
				now := o.Nodes[0].Created.Add(time.Hour)
				first := rollout.Next(o, d, now)
				require.Equal(b, rollout.Steady, first.Name, "%s %v", first.Reason, first.WaitingFor[:min(len(first.WaitingFor), 3)])
				for b.Loop() {
					rollout.Next(o, d, now)
				}
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
