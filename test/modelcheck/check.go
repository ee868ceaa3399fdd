package modelcheck

import (
	"fmt"
	"slices"

	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/controllers/plan"
	"github.com/rrpool/rrpool/controllers/plan/rollout"
	"github.com/rrpool/rrpool/controllers/plan/topology"
)

// workload: a node whose pods may not be cut off.
func (n *node) workload() bool { return n.is(exists | alive | ready | pods) }

// endExcuses ends the excuses of pairs that are joined by sessions that stay, and of reflectors that have all their sessions. A client
// that has got reflector sessions again is owed them again.
func (m *model) endExcuses(s *state) {
	if s.excused != 0 {
		s.excused &^= m.stable(s)
	}
	m.excuseSome(s)
	conf := m.configuration(s)
	for i := range m.size() {
		if n := &s.nodes[i]; n.is(exists|alive) && m.complete(s, &conf, i) {
			s.fresh &^= 1 << i
		}
		s.owed[i] = max(s.owed[i], min(2, m.left(s, &conf, i)))
	}
	for i := range maxNodes {
		for j := range i {
			if !s.nodes[i].is(exists|alive|pods) || !s.nodes[j].is(exists|alive|pods) {
				s.excused &^= 1 << pairOf(i, j)
			}
		}
	}
}

// excuseSome excuses nodes while a person's label or a return explains what they lose. Changes of our BGPPeers restart the sessions of an
// in-place node that a person has labelled, and so does the label's removal. A node that runs again may not be Ready yet.
func (m *model) excuseSome(s *state) {
	for i := range m.size() {
		n := &s.nodes[i]
		mislabelled := !m.Dedicated && n.is(exists|labelled) && !n.is(marked)
		if mislabelled || n.is(exists|alive) && !n.is(ready) {
			m.excuseNode(s, i)
		}
	}
}

// complete: the node has rendered everything, and has all its sessions with nodes that run.
func (m *model) complete(s *state, conf *[maxNodes]uint16, i int) bool {
	if s.rows[i] != conf[i] {
		return false
	}
	for j, side := range m.rows.get(int(conf[i])) {
		if side != 0 && s.nodes[j].is(alive) && s.up[pairOf(i, j)] < upFromHere {
			return false
		}
	}
	return true
}

// oweLess lowers what clients are owed to the reflector sessions that they are left with.
func (m *model) oweLess(s *state) {
	conf := m.configuration(s)
	for i := range m.size() {
		s.owed[i] = min(s.owed[i], m.left(s, &conf, i))
	}
}

// left counts a node's sessions with reflectors that stay as they are.
func (m *model) left(s *state, conf *[maxNodes]uint16, i int) (left uint8) {
	for j := range m.size() {
		if j != i && s.nodes[j].inRole() && s.up[pairOf(i, j)] >= upFromHere && m.settled(s, conf, i, j) {
			left++
		}
	}
	return left
}

// broken names the first invariant that does not hold, "" when all do.
func (m *model) broken(s *state) string {
	if i, j, ok := m.workloads(s, ^(m.routes(s).joined | s.excused)); ok {
		return fmt.Sprintf("1: %s and %s have no route to each other", m.name(i), m.name(j))
	}
	if m.bgp(s).MeshOn() {
		return ""
	}
	if why := m.unscoped(s); why != "" {
		return why
	}
	conf := m.configuration(s)
	for i := range m.size() {
		if n := &s.nodes[i]; n.workload() && !n.is(labelled) && n.id == 0 {
			if up, least := m.served(s, &conf, i); up < least {
				return fmt.Sprintf("2: the mesh is off and %s has %d reflector sessions, fewer than %d", m.name(i), up, least)
			}
		}
	}
	return ""
}

// workloads gives two Ready nodes with pods that are among these pairs.
func (m *model) workloads(s *state, pairs uint32) (a, b int, ok bool) {
	for i := range m.size() {
		for j := i + 1; j < m.size(); j++ {
			if s.nodes[i].workload() && s.nodes[j].workload() && pairs>>pairOf(i, j)&1 == 1 {
				return i, j, true
			}
		}
	}
	return 0, 0, false
}

// unscoped: Single's BGPPeers select every reflector. Beside reflectors with other cluster IDs, paths would multiply.
func (m *model) unscoped(s *state) string {
	const multi, tiers = v1alpha1.TopologyMultiCluster, v1alpha1.TopologyHierarchy
	tiered := false
	for i := range m.size() {
		kind := topology.KindOf(m.values.get(int(s.nodes[i].slot)))
		tiered = tiered || s.nodes[i].inRole() && (kind == multi || kind == tiers)
	}
	for _, w := range s.peers {
		if tiered && w.spec != 0 && m.spec(w.spec).PeerSelector == "has("+label+")" {
			return fmt.Sprintf("5: BGPPeer %s selects reflectors of another topology", m.spec(w.spec).Name)
		}
	}
	return ""
}

// served counts the reflectors that a client has sessions with, and those it must have.
func (m *model) served(s *state, conf *[maxNodes]uint16, i int) (up, least int) {
	r := m.rows.get(int(conf[i]))
	for j := range m.size() {
		if !s.nodes[j].inRole() || !s.nodes[j].is(alive) {
			continue
		}
		up += int(bit(s.up[pairOf(i, j)] >= upFromHere))
		if s.fresh>>j&1 == 0 && (!m.arranged() || r[j] != 0) {
			least++
		}
	}
	return up, min(least, 2, int(s.owed[i]))
}

// brokenStep names what a step does that it must not, whatever comes of it.
func (m *model) brokenStep(s *state, st *step) string {
	if st.Problem != nil {
		return ""
	}
	removed := 0
	for _, a := range st.Actions {
		removed += m.removes(s, a)
		if why := m.forbidden(s, st, a); why != "" {
			return why
		}
	}
	if removed > 1 {
		return fmt.Sprintf("3: one step removes %d reflectors", removed)
	}
	return ""
}

// removes counts the reflectors that an action takes from nodes that depend on them.
func (m *model) removes(s *state, a plan.Action) int {
	switch a := a.(type) {
	case plan.ClearReflector:
		return int(bit(s.nodes[m.indexOf(a.Node)].inRole()))
	case plan.SetReflector:
		n := &s.nodes[m.indexOf(a.Node)]
		return int(bit(n.inRole() && m.values.get(int(n.id)) != a.ClusterID && !m.bgp(s).MeshOn()))
	}
	return 0
}

// forbidden is what no step may do.
func (m *model) forbidden(s *state, st *step, a plan.Action) string {
	if _, asks := a.(plan.RefreshStatus); asks {
		return ""
	}
	if (s.problem || len(m.foreign(s)) > 0) && !st.Urgent && !s.back {
		return fmt.Sprintf("5: %s, although the cluster is unsupported or a problem is reported", a)
	}
	return m.forbiddenAction(s, a)
}

func (m *model) forbiddenAction(s *state, a plan.Action) string {
	switch a := a.(type) {
	case plan.SetReflector:
		if m.Dedicated && m.untouched(s) && m.waiting(s) < m.total() {
			return fmt.Sprintf("5: %s, before the pool is complete", a)
		}
	case plan.EnsurePool:
		if m.Dedicated && s.unknown {
			return fmt.Sprintf("5: %s, although the pool is unknown", a)
		}
	case plan.ClearReflector:
		return m.forbiddenRemoval(s, a)
	case plan.PutPeer:
		return m.notOurs(s, a.Peer.Name)
	case plan.DeletePeer:
		return m.notOurs(s, a.Name)
	}
	return ""
}

// untouched: no node has a part of the role, and the mesh is as it was.
func (m *model) untouched(s *state) bool {
	for i := range m.size() {
		if n := &s.nodes[i]; n.is(marked) || n.is(labelled) || n.id != 0 {
			return false
		}
	}
	return s.mesh.saved == 0
}

// waiting counts the Ready nodes of the pool.
func (m *model) waiting(s *state) (n int) {
	for i := range m.size() {
		n += int(bit(s.nodes[i].is(exists | ready | pooled)))
	}
	return n
}

// foreign names the BGPPeers that are not ours.
func (m *model) foreign(s *state) (names []string) {
	for _, w := range s.peers {
		if p := m.spec(w.spec); w.spec != 0 && !p.Owned {
			names = append(names, p.Name)
		}
	}
	return names
}

func (m *model) notOurs(s *state, name string) string {
	if slices.Contains(m.foreign(s), name) {
		return fmt.Sprintf("5: BGPPeer %s is not ours", name)
	}
	return ""
}

// forbiddenRemoval: where the cluster stays on reflectors, one goes only when the reports show each of the others Established with every
// client for the removal delay, and not while the pool is unknown.
func (m *model) forbiddenRemoval(s *state, a plan.ClearReflector) string {
	i := m.indexOf(a.Node)
	switch {
	case s.back || !s.nodes[i].inRole() || !s.nodes[i].is(marked):
		return ""
	case s.unknown && m.Dedicated:
		return "5: a reflector is removed although the pool is unknown"
	case m.Timer:
		return ""
	}
	for j := range m.size() {
		if c := m.unproven(s, j); j != i && c >= 0 {
			return fmt.Sprintf("3: %s is removed before %s has been Established with %s for the removal delay", a.Node, m.name(j), m.name(c))
		}
	}
	return ""
}

// unproven gives a client that a Ready reflector has not reported as Established for the removal delay, or -1.
func (m *model) unproven(s *state, j int) int {
	if !s.nodes[j].inRole() || !s.nodes[j].is(ready) {
		return -1
	}
	row := m.rows.get(int(m.configuration(s)[j]))
	for c, x := range s.reports[j].sess {
		if s.nodes[c].workload() && !s.nodes[c].inRole() && row[c] != 0 && (x&kindBits != nodeUp || age(x>>sinceShift&7) < earlier) {
			return c
		}
	}
	return -1
}

// atRest says what is wrong with a state that a fair run ends in, "" for nothing.
func (m *model) atRest(s *state) string {
	st := m.next(s)
	if n := m.running(s); !s.back && !m.bgp(s).MeshOn() && s.mesh.saved != 0 && n < min(2, m.total()) {
		return fmt.Sprintf("4: at rest in step %s, the mesh is off and %d reflectors run", st.Name, n)
	}
	if st.Name == rollout.Steady {
		return m.arrived(s)
	}
	if !m.faulty(s) {
		return fmt.Sprintf("4: it rests in step %s, not in %s", st.Name, rollout.Steady)
	}
	if st.Problem == nil && len(st.WaitingFor) == 0 {
		return fmt.Sprintf("4: it rests in step %s and does not say what it waits for", st.Name)
	}
	return ""
}

// faulty: something is broken that no manager can repair.
func (m *model) faulty(s *state) bool {
	if s.foreign || s.muted != 0 || s.mesh.saved == 0 && !m.bgp(s).MeshOn() {
		return true
	}
	for i := range m.size() {
		if n := &s.nodes[i]; n.is(exists) && !n.is(alive) || n.is(cordoned) && !n.is(cordonedByUs) {
			return true
		}
	}
	return false
}

// arrived says what is missing although the manager is at rest.
func (m *model) arrived(s *state) string {
	if i := m.half(s); i >= 0 {
		return fmt.Sprintf("4: at rest %s has half a role, or a cordon of ours", m.name(i))
	}
	reflectors := m.running(s)
	if s.back {
		if reflectors > 0 || s.mesh != m.begin && s.spent == 0 {
			return fmt.Sprintf("4: at rest on the mesh, %d reflectors are left, or the BGPConfiguration is not what it was", reflectors)
		}
		return ""
	}
	return m.arrivedWith(s, reflectors)
}

// arrivedWith is the same for a cluster on that many reflectors.
func (m *model) arrivedWith(s *state, reflectors int) string {
	switch {
	case m.bgp(s).MeshOn():
		return "4: at rest, and the mesh is on"
	case reflectors == 0, !m.faulty(s) && reflectors != m.total():
		return fmt.Sprintf("4: at rest with %d reflectors, not %d", reflectors, m.total())
	}
	if _, _, cut := m.workloads(s, s.excused); cut && s.muted == 0 {
		return "4: at rest, and two nodes are still cut off from each other"
	}
	return ""
}

// half gives a node with half a role, or a cordon of ours, or -1.
func (m *model) half(s *state) int {
	for i := range m.size() {
		if n := &s.nodes[i]; n.is(exists) && (n.is(labelled) != (n.id != 0) || n.is(cordonedByUs)) {
			return i
		}
	}
	return -1
}

// running counts the reflectors that are alive.
func (m *model) running(s *state) (n int) {
	for i := range m.size() {
		n += int(bit(s.nodes[i].inRole() && s.nodes[i].is(alive)))
	}
	return n
}
