package modelcheck

import (
	"fmt"
	"slices"

	"github.com/rrpool/rrpool/controllers/plan"
)

// Disturbance is what a failure or a person does to a cluster.
type Disturbance string

// The disturbances.
const (
	NodeFails       Disturbance = "a node fails"
	ClientFails     Disturbance = "a client fails"
	LabelRemoved    Disturbance = "a person removes the role label"
	IDRemoved       Disturbance = "a person removes the cluster ID"
	IDChanged       Disturbance = "a person changes the cluster ID"
	RoleRemoved     Disturbance = "a person removes label, cluster ID and our mark"
	StrayLabel      Disturbance = "a person puts the role label on a client"
	MeshOn          Disturbance = "a person switches the mesh on"
	MeshOff         Disturbance = "a person switches the mesh off"
	PeerDeleted     Disturbance = "a person deletes a BGPPeer of ours"
	PeerEdited      Disturbance = "a person edits a BGPPeer of ours"
	ForeignPeer     Disturbance = "a person creates a BGPPeer between nodes"
	Cordoned        Disturbance = "a person cordons a reflector"
	NodeDeleted     Disturbance = "a node of the pool is deleted"
	ProviderSilent  Disturbance = "the provider does not answer any more"
	ProblemReported Disturbance = "the datastore reports a problem"
	Mute            Disturbance = "a reflector keeps its sessions and passes nothing on"
	ModeChanges     Disturbance = "spec.mode changes"
	Restart         Disturbance = "the manager restarts"
)

const otherID = "244.0.0.99"

// disturbances adds those that may happen now.
func (m *model) disturbances(s *state, out []move) []move {
	for k, d := range m.Disturbances {
		free := d == ModeChanges && m.Flip
		if int(s.spent) >= m.Budget && !free || free && s.flipped {
			continue
		}
		for i := range maxPeers {
			if m.fits(s, d, i) {
				out = append(out, move{kind: disturbance, a: small(k), b: small(i)})
			}
		}
	}
	return out
}

// plain: a node that runs pods and has nothing of ours.
func (n *node) plain() bool { return n.is(exists|pods) && !n.is(labelled) && n.id == 0 }

func (n *node) client() bool { return n.workload() && !n.inRole() }

func (n *node) uncordonedReflector() bool { return n.inRole() && !n.is(cordoned) }

// fits: the disturbance can happen to the i-th node, or BGPPeer; one of the whole cluster, to the first.
func (m *model) fits(s *state, d Disturbance, i int) bool {
	var n node
	if i < maxNodes {
		n = s.nodes[i]
	}
	switch d {
	case NodeFails:
		return n.is(exists | alive | ready)
	case ClientFails:
		return n.client()
	case StrayLabel:
		return n.plain()
	case NodeDeleted:
		return n.is(exists | pooled)
	case PeerDeleted, PeerEdited:
		return m.owned(s, i)
	case Cordoned:
		return n.uncordonedReflector()
	case LabelRemoved, IDRemoved, IDChanged, RoleRemoved, Mute:
		return n.inRole()
	default:
		return i == 0 && m.applies(s, d)
	}
}

// owned: the i-th BGPPeer is there and ours.
func (m *model) owned(s *state, i int) bool {
	return s.peers[i].spec != 0 && m.spec(s.peers[i].spec).Owned
}

func (m *model) applies(s *state, d Disturbance) bool {
	switch d {
	case MeshOn:
		return !m.bgp(s).MeshOn()
	case MeshOff:
		return m.bgp(s).MeshOn()
	case ProviderSilent:
		return !s.unknown
	case ProblemReported:
		return !s.problem
	case ForeignPeer:
		return !s.foreign
	default:
		return true
	}
}

// disturb does it. What it takes is excused: pairs that no unchanged session joins any more, and reflector sessions that it restarts.
func (m *model) disturb(s *state, mv move) {
	d := m.Disturbances[mv.a]
	if d == ModeChanges {
		s.back, s.flipped = !s.back, true
	}
	if d != ModeChanges || !m.Flip {
		s.spent++
	}
	switch d {
	case NodeFails, ClientFails, LabelRemoved, IDRemoved, IDChanged, RoleRemoved, StrayLabel, Cordoned, NodeDeleted, Mute:
		m.disturbNode(s, d, int(mv.b))
	case PeerDeleted, PeerEdited, ForeignPeer:
		m.disturbPeer(s, d, int(mv.b))
	case MeshOn, MeshOff:
		on := d == MeshOn
		is := m.meshes.get(int(s.mesh.is))
		is.Enabled = &on
		s.mesh.is, s.mesh.exists = m.meshOf(is), true
	case ProviderSilent:
		s.unknown, s.foreign = true, true
	case ProblemReported:
		s.problem, s.foreign = true, true
	case Restart:
		s.crash()
	case ModeChanges:
		return
	}
	s.excused |= ^m.stable(s) & (1<<maxPairs - 1)
	m.oweLess(s)
}

func (m *model) disturbNode(s *state, d Disturbance, i int) {
	n := &s.nodes[i]
	switch d {
	case NodeFails, ClientFails:
		n.set(alive, false)
		s.dead = small(i) + 1
		m.restartAll(s, i)
	case LabelRemoved:
		n.set(labelled, false)
		n.slot = 0
	case IDRemoved:
		n.id = 0
	case IDChanged:
		n.id = m.value(otherID)
	case RoleRemoved:
		n.set(labelled|marked, false)
		n.slot, n.id, n.roleAge = 0, 0, never
		s.rankRoles()
	case StrayLabel:
		n.set(labelled, true)
		n.slot = m.value("true")
	case Cordoned:
		n.set(cordoned, true)
	case NodeDeleted:
		m.remove(s, i)
	case Mute:
		s.muted |= 1 << i
	default:
	}
}

// remove takes a node away.
func (m *model) remove(s *state, i int) {
	if i < 0 {
		return
	}
	s.nodes[i] = node{readyAge: never, roleAge: never, born: never}
	s.reports[i] = report{updated: never, cleared: never}
	s.rows[i] = 0
	s.owed[i] = 0
	s.fresh &^= 1 << i
	if s.dead == small(i)+1 {
		s.dead = 0
	}
	m.restartAll(s, i)
	s.rankRoles()
}

func (m *model) disturbPeer(s *state, d Disturbance, b int) {
	if d == ForeignPeer {
		s.foreign = true
		m.addPeer(s, plan.Peer{Name: "foreign", NodeSelector: "has(foreign)", PeerSelector: "has(foreign)"}, never)
		return
	}
	p := m.spec(s.peers[b].spec)
	at := s.peers[b].at
	m.deletePeer(s, p.Name)
	if d == PeerEdited {
		p.NodeSelector, p.PeerSelector, p.Node, p.PeerIP = "has(nothing)", "has(nothing)", "", ""
		m.addPeer(s, p, at)
	}
}

func (m *model) addPeer(s *state, p plan.Peer, at age) {
	i := slices.IndexFunc(s.peers[:], func(w written) bool { return w.spec == 0 })
	if i < 0 {
		panic("modelcheck: too many BGPPeers for a state")
	}
	s.peers[i] = written{m.specOf(p), at}
	m.sortPeers(s)
}

func (m *model) describeDisturbance(s *state, mv move) string {
	d := m.Disturbances[mv.a]
	switch d {
	case PeerDeleted, PeerEdited:
		return fmt.Sprintf("%s: %s", d, m.spec(s.peers[mv.b].spec).Name)
	case MeshOn, MeshOff, ForeignPeer, ProviderSilent, ProblemReported, ModeChanges, Restart:
		return string(d)
	default:
		return fmt.Sprintf("%s: %s", d, m.name(int(mv.b)))
	}
}
