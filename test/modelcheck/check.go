package modelcheck

import (
	"fmt"
	"reflect"
	"slices"

	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/controllers/plan"
	"github.com/rrpool/rrpool/controllers/plan/rollout"
	"github.com/rrpool/rrpool/controllers/plan/topology"
)

// workload: a node whose pods may not be cut off.
func (m *model) workload(s *state, i int) bool {
	n := m.cluster(s).at[i]
	return pods(n) && n.Ready && s.alive.has(i)
}

// endExcuses ends the excuses of pairs that are joined by sessions that stay, and of reflectors that have all their sessions. A client
// that has got reflector sessions again is owed them again.
func (m *model) endExcuses(s *state) {
	if s.excused != 0 {
		s.excused &^= m.stable(s)
	}
	c := m.cluster(s)
	for i := range m.names {
		m.excuseSome(s, i)
		if s.alive.has(i) && m.complete(s, c, i) {
			s.fresh.set(i, false)
		}
		s.owed[i] = max(s.owed[i], min(2, m.left(s, i)))
	}
	runs := func(i int) bool { return s.alive.has(i) && pods(c.at[i]) }
	s.excused &= m.pairs(func(i, j int) bool { return runs(i) && runs(j) })
}

// excuseSome excuses a node while a person's label or a return explains what it loses. Changes of our BGPPeers restart the sessions of an
// in-place node that a person has labelled, and so does the label's removal. A node that runs again may not be Ready yet.
func (m *model) excuseSome(s *state, i int) {
	n := m.cluster(s).at[i]
	if n != nil && (!m.Dedicated && n.HasRoleLabel && !n.Marked || s.alive.has(i) && !n.Ready) {
		m.excuseNode(s, i)
	}
}

// complete: the node has rendered everything, and has all its sessions with nodes that run.
func (m *model) complete(s *state, c *cluster, i int) bool {
	if s.rows[i] != c.rows[i] {
		return false
	}
	for j, e := range m.row(s, i) {
		if e.There && s.alive.has(j) && s.up[pairOf(i, j)] < upFromHere {
			return false
		}
	}
	return true
}

// oweLess lowers what clients are owed to the reflector sessions that they are left with.
func (m *model) oweLess(s *state) {
	for i := range m.names {
		s.owed[i] = min(s.owed[i], m.left(s, i))
	}
}

// left counts a node's sessions with reflectors that stay as they are.
func (m *model) left(s *state, i int) (left uint8) {
	c := m.cluster(s)
	for j := range m.names {
		if j != i && reflects(c.at[j]) && s.up[pairOf(i, j)] >= upFromHere && m.settled(s, c, i, j) {
			left++
		}
	}
	return left
}

// broken names the first invariant that does not hold, "" when all do.
func (m *model) broken(s *state) string {
	if i, j, cut := m.cut(s, m.routes(s).joined|s.excused); cut {
		return fmt.Sprintf("1: %s and %s have no route to each other", m.names[i], m.names[j])
	}
	c := m.cluster(s)
	if c.paths > m.mostPaths() {
		return fmt.Sprintf("5: nodes get %d paths to a prefix", c.paths)
	}
	if c.BGP.MeshOn() {
		return ""
	}
	if why := c.unscoped(); why != "" {
		return why
	}
	for i, n := range c.at {
		if m.workload(s, i) && !n.HasRoleLabel && n.ClusterID == "" {
			if up, least := m.served(s, i); up < least {
				return fmt.Sprintf("2: the mesh is off and %s has %d reflector sessions, fewer than %d", n.Name, up, least)
			}
		}
	}
	return ""
}

// mostPaths to a prefix: those of two topologies of four reflectors side by side, and the mesh's. MultiCluster makes more.
func (m *model) mostPaths() uint64 {
	if m.Kind == v1alpha1.TopologyMultiCluster {
		return 2*21 + 1
	}
	return 2*8 + 1
}

// cut gives two Ready nodes with pods that are not among these pairs.
func (m *model) cut(s *state, joined pairSet) (a, b int, ok bool) {
	for i := range m.names {
		for j := range i {
			if !joined.has(i, j) && m.workload(s, i) && m.workload(s, j) {
				return j, i, true
			}
		}
	}
	return 0, 0, false
}

// unscoped: Single's BGPPeers select every reflector. Beside reflectors with other cluster IDs, paths would multiply.
func (c *cluster) unscoped() string {
	tiered := slices.ContainsFunc(c.Nodes, func(n plan.Node) bool {
		kind := topology.KindOf(n.Slot)
		return reflects(&n) && (kind == v1alpha1.TopologyMultiCluster || kind == v1alpha1.TopologyHierarchy)
	})
	for _, p := range c.Peers {
		if tiered && p.PeerSelector == "has("+label+")" {
			return fmt.Sprintf("5: BGPPeer %s selects reflectors of another topology", p.Name)
		}
	}
	return ""
}

// served counts the reflectors that a client has sessions with, and those it must have.
func (m *model) served(s *state, i int) (up, least int) {
	c := m.cluster(s)
	r := m.rows.get(c.rows[i])
	for j, n := range c.at {
		if !reflects(n) || !s.alive.has(j) {
			continue
		}
		up += bit(s.up[pairOf(i, j)] >= upFromHere)
		if !s.fresh.has(j) && (!m.arranged() || r[j].There) {
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
		removed += bit(m.removes(s, a))
		if why := m.forbidden(s, st, a); why != "" {
			return why
		}
	}
	if removed > 1 {
		return fmt.Sprintf("3: one step removes %d reflectors", removed)
	}
	return ""
}

// removes: the action takes a reflector from nodes that depend on it.
func (m *model) removes(s *state, a plan.Action) bool {
	c := m.cluster(s)
	switch a := a.(type) {
	case plan.ClearReflector:
		return reflects(c.find(a.Node))
	case plan.SetReflector:
		n := c.find(a.Node)
		return reflects(n) && n.ClusterID != a.ClusterID && !c.BGP.MeshOn()
	}
	return false
}

// forbidden is what no step may do.
func (m *model) forbidden(s *state, st *step, a plan.Action) string {
	if _, asks := a.(plan.RefreshStatus); asks {
		return ""
	}
	if (s.problem || len(m.cluster(s).foreign()) > 0) && !st.Urgent && !s.back {
		return fmt.Sprintf("5: %s, although the cluster is unsupported or a problem is reported", a)
	}
	return m.forbiddenAction(s, a)
}

func (m *model) forbiddenAction(s *state, a plan.Action) string {
	c := m.cluster(s)
	switch a := a.(type) {
	case plan.SetReflector:
		if m.Dedicated && c.untouched() && c.waiting() < m.total() {
			return fmt.Sprintf("5: %s, before the pool is complete", a)
		}
	case plan.EnsurePool:
		if m.Dedicated && s.unknown {
			return fmt.Sprintf("5: %s, although the pool is unknown", a)
		}
	case plan.ClearReflector:
		return m.forbiddenRemoval(s, m.indexOf(a.Node))
	case plan.PutPeer:
		return c.notOurs(a.Peer.Name)
	case plan.DeletePeer:
		return c.notOurs(a.Name)
	}
	return ""
}

// untouched: no node has a part of the role, and the mesh is as it was.
func (c *cluster) untouched() bool {
	return c.BGP.Saved == nil &&
		!slices.ContainsFunc(c.Nodes, func(n plan.Node) bool { return n.Marked || n.HasRoleLabel || n.ClusterID != "" })
}

// waiting counts the Ready nodes of the pool.
func (c *cluster) waiting() (n int) {
	for _, x := range c.Nodes {
		n += bit(x.Ready && x.Pooled)
	}
	return n
}

func (c *cluster) notOurs(name string) string {
	if slices.ContainsFunc(c.foreign(), func(p plan.Peer) bool { return p.Name == name }) {
		return fmt.Sprintf("5: BGPPeer %s is not ours", name)
	}
	return ""
}

// forbiddenRemoval: where the cluster stays on reflectors, one goes only when the reports show each of the others Established with every
// client for the removal delay, and not while the pool is unknown.
func (m *model) forbiddenRemoval(s *state, i int) string {
	n := m.cluster(s).at[i]
	switch {
	case s.back || !reflects(n) || !n.Marked:
		return ""
	case s.unknown && m.Dedicated:
		return "5: a reflector is removed although the pool is unknown"
	case m.Timer:
		return ""
	}
	for j := range m.names {
		if c := m.unproven(s, j); j != i && c >= 0 {
			return fmt.Sprintf("3: %s is removed before %s has been Established with %s for the removal delay", n.Name, m.names[j], m.names[c])
		}
	}
	return ""
}

// unproven gives a client that a Ready reflector has not reported as Established for the removal delay, or -1.
func (m *model) unproven(s *state, j int) int {
	c := m.cluster(s)
	if !reflects(c.at[j]) || !c.at[j].Ready {
		return -1
	}
	for i, e := range m.rows.get(c.rows[j]) {
		proof := func(x plan.Session) bool {
			return x.Peer == address(i) && x.Kind == plan.SessionNode && x.Established && today.Sub(x.Since) >= earlier
		}
		if e.There && m.workload(s, i) && !reflects(c.at[i]) && !slices.ContainsFunc(m.reports.get(s.reports[j]).Sessions, proof) {
			return i
		}
	}
	return -1
}

// atRest says what is wrong with a state that a fair run ends in, "" for nothing.
func (m *model) atRest(s *state) string {
	st, c := m.next(s), m.cluster(s)
	if n := m.running(s); !s.back && !c.BGP.MeshOn() && c.BGP.Saved != nil && n < min(2, m.total()) {
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
	c := m.cluster(s)
	if s.unknown || s.problem || s.muted != 0 || len(c.foreign()) > 0 || c.BGP.Saved == nil && !c.BGP.MeshOn() {
		return true
	}
	return slices.ContainsFunc(c.Nodes, func(n plan.Node) bool {
		return !s.alive.has(m.indexOf(n.Name)) || n.Cordoned && !n.CordonedByUs
	})
}

// arrived says what is missing although the manager is at rest.
func (m *model) arrived(s *state) string {
	c := m.cluster(s)
	half := func(n plan.Node) bool { return n.HasRoleLabel != (n.ClusterID != "") || n.CordonedByUs }
	if i := slices.IndexFunc(c.Nodes, half); i >= 0 {
		return fmt.Sprintf("4: at rest %s has half a role, or a cordon of ours", c.Nodes[i].Name)
	}
	reflectors := m.running(s)
	if !s.back {
		return m.arrivedWith(s, reflectors)
	}
	if reflectors > 0 || s.spent == 0 && !reflect.DeepEqual(c.BGP, untouched) {
		return fmt.Sprintf("4: at rest on the mesh, %d reflectors are left, or the BGPConfiguration is not what it was", reflectors)
	}
	return ""
}

// arrivedWith is the same for a cluster on that many reflectors.
func (m *model) arrivedWith(s *state, reflectors int) string {
	switch {
	case m.cluster(s).BGP.MeshOn():
		return "4: at rest, and the mesh is on"
	case reflectors == 0, !m.faulty(s) && reflectors != m.total():
		return fmt.Sprintf("4: at rest with %d reflectors, not %d", reflectors, m.total())
	}
	if _, _, cut := m.cut(s, ^s.excused); cut && s.muted == 0 {
		return "4: at rest, and two nodes are still cut off from each other"
	}
	return ""
}

// running counts the reflectors that are alive.
func (m *model) running(s *state) (n int) {
	for i, x := range m.cluster(s).at {
		n += bit(reflects(x) && s.alive.has(i))
	}
	return n
}
