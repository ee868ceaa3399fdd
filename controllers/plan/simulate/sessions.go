package simulate

import (
	"encoding/binary"
	"net/netip"
	"slices"
	"time"

	"github.com/rrpool/rrpool/controllers/plan"
)

// session is a session of two nodes, as of one point in time.
type session struct {
	sides
	// since is when the session was or will be Established.
	since time.Time
	// dropped: an outage has removed its routes. gone: nodes do not report it as Established any more.
	dropped, gone bool
}

// versionOf returns the index of the version that a node has applied. For "" it is the version of nodes without a delay of their own.
func (m *Model) versionOf(node string) int {
	return m.versionBefore(node, len(m.versions), m.now.Add(1))
}

// versionBefore returns the index of the last version before the i-th that a node had applied before a time.
func (m *Model) versionBefore(node string, i int, before time.Time) int {
	for i--; i > 0 && !m.versions[i].appliedBy(node).Before(before); {
		i--
	}
	return i
}

// appliedBy returns when a node applies the version.
func (v *version) appliedBy(node string) time.Time {
	if at, known := v.appliedAt[node]; known {
		return at
	}
	return v.from
}

// session returns the session of nodes a and b, and whether both have it configured. It ignores changes of the session before the time back.
func (m *Model) session(a, b string, back time.Time) (session, bool) {
	i, j := m.versionOf(a), m.versionOf(b)
	is, ok := m.sides(a, b, i, j)
	if !ok {
		return session{}, false
	}
	began := m.lastOutageEnd(a, b)
	for i > 0 || j > 0 {
		at := m.versions[i].appliedBy(a)
		if other := m.versions[j].appliedBy(b); other.After(at) {
			at = other
		}
		if !at.After(began) || at.Before(back) {
			break
		}
		i, j = m.versionBefore(a, i+1, at), m.versionBefore(b, j+1, at)
		if was, ok := m.sides(a, b, i, j); !ok || was != is {
			began = at
			break
		}
	}
	out := session{sides: is, since: m.versions[0].from}
	if !began.IsZero() {
		out.since = began.Add(m.connect(a, b, began))
	}
	out.dropped, out.gone = m.lost(a, b, out.since)
	return out, true
}

// sides returns the sides of the session if a has applied the i-th version and b the j-th, and whether it can be Established.
func (m *Model) sides(a, b string, i, j int) (sides, bool) {
	mine, here := m.versions[i].Side(a, b)
	yours, there := m.versions[j].Side(b, a)
	return sides{mine: mine, yours: yours}, here && there && mine.Fits(yours)
}

// up reports whether a node exists, and either its BIRD runs or others keep its routes. A new node counts
// once it has applied a configuration, or as soon as it speaks BGP if nodes are simulated one by one.
func (m *Model) up(node string) bool {
	i, there := m.index[node]
	_, configured := m.versions[m.versionOf(node)].nodes[node]
	o, out := m.outages[pairOf(node, "")]
	return there && (!out || m.now.Before(o.at.Add(o.Kept))) && (configured || m.perNode && m.nodes[i].SpeaksBGP())
}

// clusterID returns the cluster ID that a node has applied.
func (m *Model) clusterID(node string) string {
	v := m.versions[m.versionOf(node)]
	if kind, known := v.nodes[node]; known {
		return v.kinds[kind].clusterID
	}
	return ""
}

// Observe returns the cluster as the datastore shows it.
func (m *Model) Observe() plan.Cluster {
	out := m.given
	out.Nodes, out.BGP, out.Peers, out.Statuses = m.Nodes(), m.bgp, m.sortedPeers(), map[string]plan.Status{}
	for name, w := range m.watches {
		if m.up(name) && m.running(name) {
			st := m.status(w)
			out.Statuses[name] = st
			if slices.ContainsFunc(st.Sessions, func(s plan.Session) bool { return s.Established }) {
				m.given.BGPUnknown, out.BGPUnknown = "", "" // as the datastore's adapter does
			}
		}
	}
	return out
}

// status returns the last report of a node.
func (m *Model) status(w watch) plan.Status {
	first, last := w.since.Add(Answer), w.asked.Add(Answer)
	if first.After(m.now) {
		return plan.Status{Node: w.Node, Cleared: w.asked}
	}
	st := m.Report(w.Node, w.Routes)
	st.Regular, st.Updated = true, last
	if last.After(m.now) {
		st.Cleared, st.Updated = w.asked, time.Time{}
	} else if period := w.Period; period > 0 {
		st.Updated = last.Add(m.now.Sub(last).Truncate(period))
	}
	for i, s := range st.Sessions {
		if !s.Established || s.Since.Before(first) {
			st.Sessions[i].Since = first
		}
	}
	return st
}

// Report returns what a node would report now. Unlike in Observe, sessions have their true ages.
func (m *Model) Report(node string, routes bool) plan.Status {
	st := plan.Status{Node: node}
	for _, r := range m.reportedSessions(node) {
		up := r.mutual && !r.since.After(m.now)
		st.Sessions = append(st.Sessions, plan.Session{Peer: r.peer, Kind: r.kind, Established: up, Since: r.since})
		if up && m.silent(node, r.since) {
			st.Waiting++
		}
	}
	if routes {
		st.HasRoutes, st.Routes = true, m.routes(node)
	}
	return st
}

// reportedSession is a session as a node reports it.
type reportedSession struct {
	peer netip.Addr
	kind plan.SessionKind
	// mutual: the peer has the session configured as well. since is when it was or will be Established.
	mutual bool
	since  time.Time
}

// reportedSessions returns the sessions of a node, one for each peer and common address family. They are cached until nodes apply another
// version, or a fault begins or ends.
func (m *Model) reportedSessions(node string) []reportedSession {
	v := &m.versions[m.versionOf(node)]
	cache, back := v.reports, time.Time{}
	if m.perNode {
		cache, back = m.snapshot().reports, m.oldestChange()
	}
	if cached, ok := cache[node]; ok {
		return cached
	}
	self, shared := m.nodes[m.index[node]], plan.SharedAddresses(m.nodes, plan.Node.SpeaksBGP)
	var out []reportedSession
	for _, n := range m.nodes {
		side, ok := v.Side(node, n.Name)
		if !ok {
			continue
		}
		found, mutual := m.session(node, n.Name, back)
		r := reportedSession{kind: plan.SessionNode, mutual: mutual && !found.gone, since: found.since}
		if side.Mesh {
			r.kind = plan.SessionMesh
		}
		for _, address := range plan.Common(self, n) {
			if r.peer = address; len(shared[address]) > 0 {
				out = addShared(out, r, self)
				continue
			}
			out = append(out, r)
		}
	}
	cache[node] = out
	return out
}

// addShared adds a session with an address that several nodes share. Calico
// configures only one session with such an address, and none if it is the node's own.
func addShared(out []reportedSession, r reportedSession, self plan.Node) []reportedSession {
	i := slices.IndexFunc(out, func(o reportedSession) bool { return o.peer == r.peer && o.kind == r.kind })
	switch {
	case slices.Contains(self.Addresses, r.peer) || i >= 0 && !r.mutual:
	case i >= 0:
		out[i] = r
	default:
		out = append(out, r)
	}
	return out
}

// routes returns the routes of a node, one for each neighbour that sends it.
func (m *Model) routes(to string) []plan.Route {
	now := m.snapshot()
	var out []plan.Route
	for _, origin := range m.nodes {
		for _, via := range now.Senders(origin.Name, to) {
			for _, block := range origin.Blocks {
				if via != origin.Name && !m.given.Routes.Passed(origin.Name, block) {
					continue
				}
				out = append(out, plan.Route{Prefix: block, From: m.nodes[m.index[via]].Addresses[0]})
			}
		}
	}
	return out
}

// snapshot is the network of the sessions that are Established at a time. It is valid until
// the next time at which a session may come up, a node may apply a version or a fault may end.
type snapshot struct {
	at, until time.Time
	reports   map[string][]reportedSession
	*Network
}

// snapshot returns the network of now.
func (m *Model) snapshot() *snapshot {
	if o := m.cached; o != nil && !m.now.Before(o.at) && m.now.Before(o.until) {
		return o
	}
	last, back := m.versionOf(""), m.oldestChange()
	first := m.versionBefore("", last+1, back.Add(1)) // sessions that have not changed since then are Established
	out := &snapshot{at: m.now, until: m.now.Add(versionsKept), reports: map[string][]reportedSession{}}
	changes := func(at time.Time) bool {
		later := at.After(m.now)
		if later && at.Before(out.until) {
			out.until = at
		}
		return later
	}
	m.visitChanges(changes)
	var names []string
	for _, n := range m.nodes {
		if m.up(n.Name) {
			names = append(names, n.Name)
		}
	}
	out.Network = newNetwork(
		names,
		func(name string) string { return m.classKey(name, first, last) },
		m.clusterID,
		func(a, b string) (sides, bool) {
			s, ok := m.session(a, b, back)
			return m.withFaults(a, b, s), ok && !s.dropped && !changes(s.since)
		},
	)
	m.cached = out
	return out
}

// Connected reports whether two nodes have a session that is Established.
func (m *Model) Connected(a, b string) bool {
	_, gone := m.lost(a, b, time.Time{})
	return !gone && m.snapshot().Connected(a, b)
}

// classKey returns a key that nodes share if they have the same kind in all
// versions from first to last. If nodes are simulated one by one, it is the name.
func (m *Model) classKey(name string, first, last int) string {
	if m.perNode {
		return name
	}
	var key []byte
	for _, v := range m.versions[first : last+1] {
		kind, known := v.nodes[name]
		if !known {
			kind = -1
		}
		key = binary.AppendVarint(key, int64(kind))
	}
	return string(key)
}

// SameClass returns the nodes that have the same cluster ID and sessions as a node, and the node itself.
func (m *Model) SameClass(name string) []string {
	now := m.snapshot()
	if class := now.ClassOf(name); class >= 0 {
		return now.classes[class].Nodes
	}
	return []string{name}
}

// Unreached returns Network.Unreached for the network of now.
func (m *Model) Unreached(want func(plan.Node) bool) []Pair {
	return m.snapshot().Unreached(func(name string) bool { return want(m.nodes[m.index[name]]) })
}

// Sessions counts the Established sessions of the cluster, and returns the most that any reflector and any client have.
func (m *Model) Sessions() (all, perReflector, perClient int) {
	now := m.snapshot()
	for class, c := range now.classes {
		degree := now.graph.degree(class)
		all += degree * len(c.Nodes)
		for _, name := range c.Nodes {
			if n := &m.nodes[m.index[name]]; n.HasRoleLabel && n.ClusterID != "" {
				perReflector = max(perReflector, degree)
			} else {
				perClient = max(perClient, degree)
			}
		}
	}
	return all / 2, perReflector, perClient
}

// Settled reports whether all nodes have applied the last change, and all sessions have had the time to be Established.
func (m *Model) Settled() bool {
	return !m.versions[len(m.versions)-1].from.Add(Connect).After(m.now)
}

// ChangeTimes returns the times within d from now at which nodes apply a change or sessions come up, sorted.
func (m *Model) ChangeTimes(d time.Duration) []time.Time {
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
