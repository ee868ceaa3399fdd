package simulate

import (
	"encoding/binary"
	"net/netip"
	"slices"
	"time"

	"github.com/rrpool/rrpool/controllers/plan"
)

// session is one between two nodes at a moment.
type session struct {
	sides
	// since is when it came up, or will.
	since time.Time
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
	began := m.current()
	is, ok := m.versions[began].session(a, b)
	if !ok {
		return session{}, false
	}
	for began > 0 {
		if was, ok := m.versions[began-1].session(a, b); !ok || was != is {
			break
		}
		began--
	}
	s := session{is, m.versions[began].from}
	if began > 0 {
		s.since = s.since.Add(Connect)
	}
	return s, true
}

func (v version) session(a, b string) (sides, bool) {
	if a == b || !v.alive[a] || !v.alive[b] {
		return sides{}, false
	}
	return v.Configuration.session(a, b)
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
	st := plan.Status{Node: w.Node}
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
	now := m.moment()
	at := now.find(to)
	if at < 0 {
		return nil
	}
	var out []plan.Route
	add := func(origin, via string) {
		for _, block := range m.nodes[m.index[origin]].Blocks {
			out = append(out, plan.Route{Prefix: block, From: m.nodes[m.index[via]].Addresses[0]})
		}
	}
	for class, c := range now.classes {
		itself, senders := now.graph.senders(class, at)
		for _, origin := range c.Nodes {
			if origin == to {
				continue
			}
			if itself {
				add(origin, origin)
			}
			for _, sender := range senders {
				for _, via := range now.classes[sender].Nodes {
					if via != origin && via != to {
						add(origin, via)
					}
				}
			}
		}
	}
	return out
}

// moment is what the sessions that are up at one moment make of the nodes that are up.
type moment struct {
	// Of the versions that matter the first and the last, and the model's changes.
	first, last, changes int
	*Network
}

// moment gives that of now.
func (m *Model) moment() *moment {
	last := m.current()
	// A session is up if nothing has changed about it since it had the time to come up.
	first := last
	for first > 0 && m.versions[first].from.Add(Connect).After(m.now) {
		first--
	}
	if o := m.latest; o != nil && o.first == first && o.last == last && o.changes == m.changes {
		return o
	}
	var names []string
	v := m.versions[last]
	for _, n := range m.nodes {
		if v.alive[n.Name] {
			names = append(names, n.Name)
		}
	}
	m.latest = &moment{first, last, m.changes, newNetwork(
		names,
		func(name string) string { return m.kind(name, first, last) },
		func(name string) string { return v.kinds[v.nodes[name]].clusterID },
		func(a, b string) (sides, bool) {
			s, ok := m.session(a, b)
			return s.sides, ok && !s.since.After(m.now)
		},
	)}
	return m.latest
}

// Connected reports whether two nodes have a session that is Established.
func (m *Model) Connected(a, b string) bool { return m.moment().Connected(a, b) }

// kind is what the sessions of a node depend on, in those versions.
func (m *Model) kind(name string, first, last int) string {
	var key []byte
	for _, v := range m.versions[first : last+1] {
		kind, known := v.nodes[name]
		if !known || !v.alive[name] {
			kind = -1
		}
		key = binary.AppendVarint(key, int64(kind))
	}
	return string(key)
}

// Alike are the nodes that cannot be told apart from a node, itself among them.
func (m *Model) Alike(name string) []string {
	now := m.moment()
	if class := now.find(name); class >= 0 {
		return now.classes[class].Nodes
	}
	return []string{name}
}

// Unreached gives pairs of nodes without a route from one to the other, sorted; none is
// the rule. Of nodes that cannot be told apart two stand for all. want leaves nodes out.
func (m *Model) Unreached(want func(plan.Node) bool) []Pair {
	return m.moment().Unreached(func(name string) bool { return want(m.nodes[m.index[name]]) })
}

// Sessions counts the Established sessions of the cluster, and the most that a node
// has: one in the role, and one that is not.
func (m *Model) Sessions() (all, perReflector, perClient int) {
	now := m.moment()
	for class, c := range now.classes {
		degree := now.graph.degree(class)
		all += degree * len(c.Nodes)
		for _, name := range c.Nodes {
			if n := &m.nodes[m.index[name]]; n.RoleLabel && n.ClusterID != "" {
				perReflector = max(perReflector, degree)
			} else {
				perClient = max(perClient, degree)
			}
		}
	}
	return all / 2, perReflector, perClient
}

// Quiet reports whether everything has settled: all nodes have taken over the last
// change, and all sessions that come of it had the time to come up.
func (m *Model) Quiet() bool {
	return !m.versions[len(m.versions)-1].from.Add(Connect).After(m.now)
}

// Moments are when something may change from now until d later, in order: a node takes
// over a change, or a session comes up.
func (m *Model) Moments(d time.Duration) []time.Time {
	var out []time.Time
	for _, v := range m.versions[1:] {
		for _, at := range []time.Time{v.from, v.from.Add(Connect)} {
			if at.After(m.now) && !at.After(m.now.Add(d)) {
				out = append(out, at)
			}
		}
	}
	slices.SortFunc(out, time.Time.Compare)
	return slices.CompactFunc(out, time.Time.Equal)
}
