package modelcheck

import (
	"fmt"
	"slices"
	"strings"
	"time"

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
	SecondPool      Disturbance = "a second RouteReflectorPool comes, whatever checks its name"
)

// effect is what a disturbance does to the i-th node or BGPPeer, or, as the 0-th, to the whole cluster. It reports whether it can.
type effect func(m *model, s *state, d Disturbance, i int) bool

var effects = map[Disturbance]effect{
	NodeFails:    fails(func(n *plan.Node) bool { return n.Ready }),
	ClientFails:  fails(func(n *plan.Node) bool { return n.Ready && pods(n) && !reflects(n) }),
	LabelRemoved: toNode(reflects, unlabel),
	IDRemoved:    toNode(reflects, func(n *plan.Node) { n.ClusterID = "" }),
	IDChanged:    toNode(reflects, func(n *plan.Node) { n.ClusterID = "244.0.0.99" }),
	RoleRemoved: toNode(reflects, func(n *plan.Node) {
		unlabel(n)
		n.ClusterID, n.Marked, n.RoleSince = "", false, time.Time{}
	}),
	StrayLabel: toNode(
		func(n *plan.Node) bool { return pods(n) && !n.HasRoleLabel && n.ClusterID == "" },
		func(n *plan.Node) { n.HasRoleLabel, n.Slot, n.Labels[label] = true, "true", "true" },
	),
	Cordoned: toNode(
		func(n *plan.Node) bool { return reflects(n) && !n.Cordoned },
		func(n *plan.Node) { n.Cordoned = true },
	),
	MeshOn:      toCluster(func(c *cluster) bool { return !c.BGP.MeshOn() }, func(c *cluster) { c.setMesh(true) }),
	MeshOff:     toCluster(func(c *cluster) bool { return c.BGP.MeshOn() }, func(c *cluster) { c.setMesh(false) }),
	PeerDeleted: toPeer(func(c *cluster, i int) { c.Peers = slices.Delete(c.Peers, i, i+1) }),
	PeerEdited: toPeer(func(c *cluster, i int) {
		p := &c.Peers[i]
		p.NodeSelector, p.PeerSelector, p.Node, p.PeerIP = "has(nothing)", "has(nothing)", "", ""
	}),
	ForeignPeer: toCluster(
		func(c *cluster) bool { return len(c.foreign()) == 0 },
		func(c *cluster) {
			c.Peers = append(c.Peers, plan.Peer{Name: "foreign", NodeSelector: "has(foreign)", PeerSelector: "has(foreign)"})
			slices.SortFunc(c.Peers, func(a, b plan.Peer) int { return strings.Compare(a.Name, b.Name) })
		},
	),
	NodeDeleted: func(m *model, s *state, d Disturbance, i int) bool {
		n := m.node(s, i)
		if n == nil || !n.Pooled {
			return false
		}
		m.edit(s, fmt.Sprint(d, i), func(c *cluster) { c.remove(n.Name) })
		return true
	},
	Mute: func(m *model, s *state, _ Disturbance, i int) bool {
		can := reflects(m.node(s, i))
		s.muted.set(i, can || s.muted.has(i))
		return can
	},
	ProviderSilent:  toState(func(_ *model, s *state) { s.unknown = true }),
	ProblemReported: toState(func(_ *model, s *state) { s.problem = true }),
	ModeChanges:     toState(func(_ *model, s *state) { s.back, s.flipped = !s.back, true }),
	Restart:         toState((*model).crash),
	SecondPool:      toState(func(_ *model, s *state) { s.second = true }),
}

func unlabel(n *plan.Node) {
	n.HasRoleLabel, n.Slot = false, ""
	delete(n.Labels, label)
}

func (c *cluster) setMesh(on bool) { c.BGP.Mesh.Enabled, c.BGP.Exists = &on, true }

// node is the i-th, nil where there is none.
func (m *model) node(s *state, i int) *plan.Node {
	if i >= len(m.names) {
		return nil
	}
	return m.cluster(s).at[i]
}

func toNode(can func(*plan.Node) bool, do func(*plan.Node)) effect {
	return func(m *model, s *state, d Disturbance, i int) bool {
		if n := m.node(s, i); n == nil || !can(n) {
			return false
		}
		m.editNode(s, string(d), i, do)
		return true
	}
}

func fails(can func(*plan.Node) bool) effect {
	return func(m *model, s *state, _ Disturbance, i int) bool {
		if n := m.node(s, i); n == nil || !can(n) || !s.alive.has(i) {
			return false
		}
		s.alive.set(i, false)
		s.dead = uint8(i) + 1 //nolint:gosec // G115: at most eight
		m.restartAll(s, i)
		return true
	}
}

func toPeer(do func(c *cluster, i int)) effect {
	return func(m *model, s *state, d Disturbance, i int) bool {
		if c := m.cluster(s); i >= len(c.Peers) || !c.Peers[i].Owned {
			return false
		}
		m.edit(s, fmt.Sprint(d, i), func(c *cluster) { do(c, i) })
		return true
	}
}

func toCluster(can func(*cluster) bool, do func(*cluster)) effect {
	return func(m *model, s *state, d Disturbance, i int) bool {
		if i > 0 || !can(m.cluster(s)) {
			return false
		}
		m.edit(s, string(d), do)
		return true
	}
}

func toState(do func(*model, *state)) effect {
	return func(m *model, s *state, _ Disturbance, i int) bool {
		if i == 0 {
			do(m, s)
		}
		return i == 0
	}
}

// disturb does it. What it takes is excused: pairs that no unchanged session joins any more, and reflector sessions that it restarts.
func (m *model) disturb(s *state, mv move) {
	d := m.Disturbances[mv.a]
	free := d == ModeChanges && m.Flip
	if free && s.flipped || !free && int(s.spent) >= m.Budget || !effects[d](m, s, d, mv.b) {
		return
	}
	if !free {
		s.spent++
	}
	if d != ModeChanges {
		s.excused |= ^m.stable(s) & (1<<maxPairs - 1)
		m.oweLess(s)
	}
}
