package modelcheck

import (
	"cmp"
	"slices"
	"strings"

	"github.com/rrpool/rrpool/controllers/plan"
	"github.com/rrpool/rrpool/controllers/plan/rollout"
	"github.com/rrpool/rrpool/controllers/plan/selection"
	"github.com/rrpool/rrpool/controllers/plan/topology"
)

// step is what rollout says, once for all states that look the same to it.
type step struct {
	rollout.Step
	// watch is 1 for a node to report, 2 for one to report routes as well.
	watch [maxNodes]uint8
}

// next asks rollout what to do.
func (m *model) next(s *state) *step {
	v := s.visible()
	return m.steps.get(hash(&v), func() *step {
		out := &step{Step: rollout.Next(m.observe(&v), m.desired[bit(s.back)], today)}
		for _, w := range out.Watch {
			out.watch[m.indexOf(w.Node)] = 1 + bit(w.Routes)
		}
		return out
	})
}

func bit(b bool) uint8 {
	if b {
		return 1
	}
	return 0
}

// reconcile dies after so many actions; with all of them it does not.
func (m *model) reconcile(s *state, actions int) {
	st := m.next(s)
	s.meshSince = sinceWhen(s.meshSince, m.bgp(s).MeshOn())
	s.shortSince = sinceWhen(s.shortSince, st.Short)
	s.straySince = sinceWhen(s.straySince, st.Stray)
	if st.Problem != nil {
		return
	}
	m.watch(s, st)
	for _, a := range st.Actions[:min(actions, len(st.Actions))] {
		m.apply(s, a)
		m.excuse(s, st)
	}
	if actions < len(st.Actions) {
		s.crash()
	}
}

// crash loses what only the manager's memory holds.
func (s *state) crash() {
	s.meshSince, s.shortSince, s.straySince = never, never, never
	for i := range s.reports {
		r := &s.reports[i]
		r.updated = never
		if r.cleared != never {
			r.cleared = justNow
		}
		for j, x := range r.sess {
			if x&kindBits != unseen {
				r.sess[j] = x&^(7<<sinceShift) | uint8(never)<<sinceShift
			}
		}
	}
}

func (m *model) watch(s *state, st *step) {
	for i := range m.size() {
		r := &s.reports[i]
		want := st.watch[i] != 0 && s.nodes[i].is(exists)
		switch {
		case !want:
			*r = report{updated: never, cleared: never}
		case !r.watched:
			*r = report{watched: true, updated: never, cleared: justNow}
		}
		r.wants = want && st.watch[i] == 2
	}
}

// apply carries out one action.
func (m *model) apply(s *state, a plan.Action) {
	switch a := a.(type) {
	case plan.SetReflector:
		m.setReflector(s, a)
	case plan.ClearReflector:
		n := &s.nodes[m.indexOf(a.Node)]
		n.set(labelled|marked, false)
		n.slot, n.id, n.roleAge = 0, 0, never
		s.rankRoles()
	case plan.SetRack:
		s.nodes[m.indexOf(a.Node)].rack = m.value(a.Rack)
	case plan.PutPeer:
		m.putPeer(s, a.Peer)
	case plan.DeletePeer:
		m.deletePeer(s, a.Name)
	case plan.RefreshStatus:
		if r := &s.reports[m.indexOf(a.Node)]; r.watched && r.cleared == never {
			r.cleared, r.updated = justNow, never
		}
	case plan.DisableMesh, plan.RestoreMesh, plan.ForgetMesh:
		m.applyMesh(s, a)
	default:
		m.applyAside(s, a)
	}
}

func (m *model) setReflector(s *state, a plan.SetReflector) {
	i := m.indexOf(a.Node)
	n := &s.nodes[i]
	if !n.inRole() {
		s.fresh |= 1 << i
	}
	n.set(labelled|marked, true)
	n.slot, n.id, n.roleAge, n.rank = m.value(cmp.Or(a.Slot, topology.SlotSingle)), m.value(a.ClusterID), justNow, maxNodes
	s.rankRoles()
}

// rankRoles keeps the order of those in the role dense: only the order counts.
func (s *state) rankRoles() {
	var in []int
	for i := range s.nodes {
		if s.nodes[i].is(exists | marked) {
			in = append(in, i)
		} else {
			s.nodes[i].rank = 0
		}
	}
	slices.SortStableFunc(in, func(a, b int) int { return cmp.Compare(s.nodes[a].rank, s.nodes[b].rank) })
	for rank, i := range in {
		s.nodes[i].rank = uint8(rank)
	}
}

func (m *model) putPeer(s *state, p plan.Peer) {
	p.Owned = true
	m.deletePeer(s, p.Name)
	m.addPeer(s, p, justNow)
}

func (m *model) deletePeer(s *state, name string) {
	for i := range s.peers {
		if s.peers[i].spec != 0 && m.spec(s.peers[i].spec).Name == name {
			s.peers[i] = written{at: never}
		}
	}
	m.sortPeers(s)
}

// sortPeers gives the same BGPPeers the same order, whoever came first.
func (m *model) sortPeers(s *state) {
	slices.SortFunc(s.peers[:], func(a, b written) int {
		return cmp.Or(plan.TrueFirst(a.spec != 0, b.spec != 0), strings.Compare(m.spec(a.spec).Name, m.spec(b.spec).Name))
	})
}

func (m *model) applyMesh(s *state, a plan.Action) {
	switch a := a.(type) {
	case plan.DisableMesh:
		off := false
		s.mesh = mesh{exists: true, is: m.meshOf(plan.Mesh{Enabled: &off}), saved: m.meshOf(a.Saved), savedAbsent: a.SavedAbsent, restored: never}
	case plan.RestoreMesh:
		on := true
		is := m.meshOf(plan.Mesh{Enabled: &on})
		if s.mesh.saved != 0 {
			is = s.mesh.saved
		}
		s.mesh.is, s.mesh.restored = is, justNow
	case plan.ForgetMesh:
		s.mesh.exists = !s.mesh.savedAbsent
		s.mesh.saved, s.mesh.savedAbsent, s.mesh.restored = 0, false, never
	}
}

// applyAside carries out what no node renders.
func (m *model) applyAside(s *state, a plan.Action) {
	switch a := a.(type) {
	case plan.EnsurePool:
		m.ensure(s, a.Want)
	case plan.CordonNode:
		s.nodes[m.indexOf(a.Node)].set(cordoned|cordonedByUs, true)
	case plan.UncordonNode:
		s.nodes[m.indexOf(a.Node)].set(cordoned|cordonedByUs, false)
	case plan.DrainNode:
		s.nodes[m.indexOf(a.Node)].set(pods, false)
	case plan.ReleasePool:
		for i := range s.nodes {
			if s.nodes[i].is(pooled) {
				s.nodes[i].set(pooled, false)
				return
			}
		}
	}
}

// ensure is the provider, which makes one change a call.
func (m *model) ensure(s *state, want plan.PoolSpec) {
	if !m.Dedicated {
		m.joinPool(s, want)
		return
	}
	if len(want.Retire) > 0 {
		m.remove(s, m.indexOf(want.Retire[0]))
		return
	}
	if len(want.Replace) > 0 {
		m.remove(s, m.indexOf(want.Replace[0]))
	}
	s.pool = small(want.SizePerZone)
	for _, zone := range m.Zones {
		m.fill(s, zone, want.SizePerZone)
	}
}

// fill orders workers where a zone has too few.
func (m *model) fill(s *state, zone string, size int) {
	var free []int
	for i := m.Clients; i < m.size(); i++ {
		switch {
		case m.zone(i) != zone:
		case s.nodes[i].flags&(exists|ordered) != 0:
			size--
		default:
			free = append(free, i)
		}
	}
	for _, i := range free[:min(max(size, 0), len(free))] {
		s.nodes[i].flags = ordered
	}
}

func (m *model) joinPool(s *state, want plan.PoolSpec) {
	for _, name := range want.Retire {
		if n := &s.nodes[m.indexOf(name)]; n.is(pooled) {
			n.set(pooled, false)
			return
		}
	}
	d := m.desired[0]
	n, ok := selection.Next(m.nodes(s), selection.Rules{
		PerZone: want.SizePerZone, Zones: want.Zones, Preferred: d.Preferred, Excluded: d.Excluded,
		Lost: func(n plan.Node) bool { return !n.Ready && today.Sub(n.ReadyChanged) > d.NotReadyGrace },
	})
	if ok {
		s.nodes[m.indexOf(n.Name)].set(pooled, true)
	}
}

// excuse notes whom a step says that it cuts off: nothing else may be.
func (m *model) excuse(s *state, st *step) {
	for _, d := range st.Disrupts {
		if i := m.indexOf(d.Node); d.From == "" {
			m.excuseNode(s, i)
		} else {
			s.excused |= 1 << pairOf(i, m.indexOf(d.From))
		}
	}
}

// excuseNode lets a node be cut off until it is reached by what stays.
func (m *model) excuseNode(s *state, i int) {
	for j := range m.size() {
		if j != i {
			s.excused |= 1 << pairOf(i, j)
		}
	}
}
