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
	// dropped: an outage has taken the routes by it; gone: it does not look Established either.
	dropped, gone bool
}

// current is the index of the version that a node has taken over, or with "" all that take it over at once.
func (m *Model) current(node string) int { return m.had(node, len(m.versions), m.now.Add(1)) }

// had is the same of an earlier time, for a node that had the i-th version next.
func (m *Model) had(node string, i int, before time.Time) int {
	for i--; i > 0 && !m.versions[i].takenBy(node).Before(before); {
		i--
	}
	return i
}

func (v *version) takenBy(node string) time.Time {
	if at, known := v.taken[node]; known {
		return at
	}
	return v.from
}

// session gives the session of a with b, and whether both have one configured. A change that
// was before back is not looked for.
func (m *Model) session(a, b string, back time.Time) (session, bool) {
	i, j := m.current(a), m.current(b)
	is, ok := m.sides(a, b, i, j)
	if !ok {
		return session{}, false
	}
	began := m.mended(a, b)
	for i > 0 || j > 0 {
		at := m.versions[i].takenBy(a)
		if other := m.versions[j].takenBy(b); other.After(at) {
			at = other
		}
		if !at.After(began) || at.Before(back) {
			break
		}
		i, j = m.had(a, i+1, at), m.had(b, j+1, at)
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

// sides are those of a session between nodes of which one has the i-th version, and the other the j-th.
func (m *Model) sides(a, b string, i, j int) (sides, bool) {
	mine, here := m.versions[i].Side(a, b)
	yours, there := m.versions[j].Side(b, a)
	return sides{mine: mine, yours: yours}, here && there && mine.Fits(yours)
}

// up: the node is there, and its BIRD runs, or others keep its routes. One that has just come counts once it has
// configured something, unless each node is looked at by itself.
func (m *Model) up(node string) bool {
	i, there := m.index[node]
	_, configured := m.versions[m.current(node)].nodes[node]
	o, out := m.outages[pairOf(node, "")]
	return there && (!out || m.now.Before(o.at.Add(o.Kept))) && (configured || m.single && m.nodes[i].SpeaksBGP())
}

// clusterID is that which a node has configured.
func (m *Model) clusterID(node string) string {
	v := m.versions[m.current(node)]
	if kind, known := v.nodes[node]; known {
		return v.kinds[kind].clusterID
	}
	return ""
}

// Observe gives everything known, as the datastore would: the cluster as it was given, but for what is simulated.
func (m *Model) Observe() plan.Cluster {
	out := m.given
	out.Nodes, out.BGP, out.Peers, out.Statuses = m.Nodes(), m.bgp, m.sortedPeers(), map[string]plan.Status{}
	for name, w := range m.watches {
		if m.up(name) && m.running(name) {
			st := m.status(w)
			out.Statuses[name] = st
			if slices.ContainsFunc(st.Sessions, func(s plan.Session) bool { return s.Established }) {
				m.given.BGPUnknown, out.BGPUnknown = "", "" // as the datastore's adapter has it
			}
		}
	}
	return out
}

// status is the last report of a node.
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

// Report is what a node would report now, by its own dates.
func (m *Model) Report(node string, routes bool) plan.Status {
	st := plan.Status{Node: node}
	for _, r := range m.reported(node) {
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

// reported is a session as a node reports it.
type reported struct {
	peer netip.Addr
	kind plan.SessionKind
	// mutual: the peer has it configured as well. It is up since then, or will be.
	mutual bool
	since  time.Time
}

// reported are the sessions of a node, one for each peer and address family that both
// have. They stay the same until the nodes take over another version, or something is disturbed.
func (m *Model) reported(node string) []reported {
	v := &m.versions[m.current(node)]
	cache, back := v.reports, time.Time{}
	if m.single {
		cache, back = m.moment().reports, m.back()
	}
	if cached, ok := cache[node]; ok {
		return cached
	}
	self, shared := m.nodes[m.index[node]], plan.SharedAddresses(m.nodes, plan.Node.SpeaksBGP)
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
		found, mutual := m.session(node, n.Name, back)
		mutual = mutual && !found.gone
		r.mutual, r.since = mutual, found.since
		for _, address := range plan.Common(self, n) {
			r.peer = address
			if len(shared[address]) > 0 { // Calico configures an address once, and none of the node's own
				i := slices.IndexFunc(out, func(o reported) bool { return o.peer == address && o.kind == r.kind })
				if own := slices.Contains(self.Addresses, address); own || i >= 0 && !mutual {
					continue
				} else if i >= 0 {
					out[i] = r
					continue
				}
			}
			out = append(out, r)
		}
	}
	cache[node] = out
	return out
}

// routes are the paths that a node has: one for each neighbour that sends it any.
func (m *Model) routes(to string) []plan.Route {
	now := m.moment()
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

// moment is what the sessions that are up make of the nodes that are up, until something changes by itself.
type moment struct {
	at, until time.Time
	reports   map[string][]reported
	*Network
}

// moment gives that of now.
func (m *Model) moment() *moment {
	if o := m.latest; o != nil && !m.now.Before(o.at) && m.now.Before(o.until) {
		return o
	}
	last := m.current("")
	// A session is up if nothing has changed about it since it had the time to come up.
	first, back := last, m.back()
	for first > 0 && m.versions[first].from.After(back) {
		first--
	}
	out := &moment{at: m.now, until: m.now.Add(memory), reports: map[string][]reported{}}
	changes := func(at time.Time) bool {
		later := at.After(m.now)
		if later && at.Before(out.until) {
			out.until = at
		}
		return later
	}
	m.next(changes)
	var names []string
	for _, n := range m.nodes {
		if m.up(n.Name) {
			names = append(names, n.Name)
		}
	}
	out.Network = newNetwork(
		names,
		func(name string) string { return m.kind(name, first, last) },
		m.clusterID,
		func(a, b string) (sides, bool) {
			s, ok := m.session(a, b, back)
			return m.spoiled(a, b, s), ok && !s.dropped && !changes(s.since)
		},
	)
	m.latest = out
	return out
}

// Connected reports whether two nodes have a session that is Established.
func (m *Model) Connected(a, b string) bool {
	_, gone := m.lost(a, b, time.Time{})
	return !gone && m.moment().Connected(a, b)
}

// kind is what the sessions of a node depend on, in those versions.
func (m *Model) kind(name string, first, last int) string {
	if m.single {
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

// SameClass are the nodes that cannot be told apart from a node, itself among them.
func (m *Model) SameClass(name string) []string {
	now := m.moment()
	if class := now.ClassOf(name); class >= 0 {
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
			if n := &m.nodes[m.index[name]]; n.HasRoleLabel && n.ClusterID != "" {
				perReflector = max(perReflector, degree)
			} else {
				perClient = max(perClient, degree)
			}
		}
	}
	return all / 2, perReflector, perClient
}

// Settled reports whether everything has settled: all nodes have taken over the last
// change, and all sessions that come of it had the time to come up.
func (m *Model) Settled() bool {
	return !m.versions[len(m.versions)-1].from.Add(Connect).After(m.now)
}

// ChangeTimes are when something may change from now until d later, in order: a node takes
// over a change, or a session comes up.
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
