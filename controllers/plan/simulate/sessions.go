package simulate

import (
	"net/netip"
	"slices"
	"time"

	"github.com/rrpool/rrpool/controllers/plan"
)

// session is one between two nodes at a moment.
type session struct {
	up bool
	// since is when it came up, or will.
	since time.Time
	// of the node that asks, and of the other.
	mine, yours Side
}

// current is the index of the version that holds now.
func (m *Model) current() int {
	i := len(m.versions) - 1
	for i > 0 && m.versions[i].from.After(m.now) {
		i--
	}
	return i
}

// session gives the session of a with b, and whether both have one configured.
func (m *Model) session(a, b string) (session, bool) {
	i := m.current()
	mine, yours, ok := m.versions[i].sides(a, b)
	if !ok {
		return session{}, false
	}
	began := i
	for began > 0 {
		x, y, ok := m.versions[began-1].sides(a, b)
		if !ok || x != mine || y != yours {
			break
		}
		began--
	}
	s := session{mine: mine, yours: yours, since: m.versions[began].from}
	if began > 0 {
		s.since = s.since.Add(Connect)
	}
	s.up = !s.since.After(m.now)
	return s, true
}

func (v version) sides(a, b string) (mine, yours Side, ok bool) {
	if a == b || !v.alive[a] || !v.alive[b] {
		return Side{}, Side{}, false
	}
	mine, here := v.Side(a, b)
	yours, there := v.Side(b, a)
	return mine, yours, here && there && mine.Fits(yours)
}

// Observe gives everything known, as the datastore would.
func (m *Model) Observe() plan.Cluster {
	out := plan.Cluster{Nodes: m.Nodes(), BGP: m.bgp, Peers: m.sortedPeers(), Problems: m.problems, Statuses: map[string]plan.Status{}}
	current := m.versions[m.current()]
	for name, w := range m.watches {
		if current.alive[name] {
			out.Statuses[name] = m.status(current, w)
		}
	}
	return out
}

// status is the last report of a node.
func (m *Model) status(v version, w watch) plan.Status {
	first, last := w.since.Add(Answer), w.asked.Add(Answer)
	st := plan.Status{Node: w.Node, Agent: true}
	if first.After(m.now) {
		st.Cleared = w.asked
		return st
	}
	st.Regular, st.Updated = true, last
	if last.After(m.now) {
		st.Cleared, st.Updated = w.asked, time.Time{}
	} else if period := w.Period; period > 0 {
		st.Updated = last.Add(m.now.Sub(last).Truncate(period))
	}
	for _, r := range m.reported(v, w.Node) {
		s := plan.Session{Peer: r.peer, Kind: r.kind, Since: first}
		if r.mutual {
			s.Established = !r.since.After(m.now)
			if s.Established && r.since.After(first) {
				s.Since = r.since
			}
		}
		st.Sessions = append(st.Sessions, s)
	}
	if w.Routes {
		st.HasRoutes, st.Routes = true, m.routes(w.Node)
	}
	return st
}

// reported is a session as a node reports it.
type reported struct {
	peer netip.Addr
	kind plan.SessionKind
	// mutual: the peer has it configured as well. It is up since then, or will be.
	mutual bool
	since  time.Time
}

// reported are the sessions of a node, one for each peer and address family that both
// have. They stay the same until the nodes take over another version.
func (m *Model) reported(v version, node string) []reported {
	if cached, ok := v.reports[node]; ok {
		return cached
	}
	self := m.nodes[m.index[node]]
	var out []reported
	for _, n := range m.nodes {
		side, ok := v.Side(node, n.Name)
		if n.Name == node || !ok {
			continue
		}
		r := reported{kind: plan.SessionNode}
		if side.Mesh {
			r.kind = plan.SessionMesh
		}
		found, mutual := m.session(node, n.Name)
		r.mutual, r.since = mutual, found.since
		for _, address := range n.Addresses {
			if slices.ContainsFunc(self.Addresses, func(own netip.Addr) bool { return own.Is4() == address.Is4() }) {
				r.peer = address
				out = append(out, r)
			}
		}
	}
	v.reports[node] = out
	return out
}

// routes are the paths that a node has: one for each neighbour that sends it any.
func (m *Model) routes(to string) []plan.Route {
	now, self := m.moment(), m.index[to]
	if now.of[self] < 0 {
		return nil
	}
	type senders struct {
		known, itself bool
		classes       []int
	}
	byGroup := make([]senders, len(now.groups))
	var out []plan.Route
	for origin, group := range now.of {
		if group < 0 || origin == self {
			continue
		}
		from := &byGroup[group]
		if !from.known {
			from.known = true
			from.itself, from.classes = now.senders(group, now.of[self])
		}
		if from.itself {
			out = append(out, paths(m.nodes[origin], m.nodes[origin])...)
		}
		for _, class := range from.classes {
			for _, via := range now.groups[class] {
				if via != origin && via != self {
					out = append(out, paths(m.nodes[origin], m.nodes[via])...)
				}
			}
		}
	}
	return out
}

func paths(origin, via plan.Node) []plan.Route {
	var out []plan.Route
	for _, block := range origin.Blocks {
		out = append(out, plan.Route{Prefix: block, From: via.Addresses[0]})
	}
	return out
}
