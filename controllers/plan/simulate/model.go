package simulate

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/rrpool/rrpool/controllers/plan"
)

// How long things take in the model: what is usual. Nodes take over a change after Lag, a session that starts anew
// is up after Connect, a reporter that is asked answers after Answer.
const (
	Lag     = 2 * time.Second
	Connect = 4 * time.Second
	Answer  = 2 * time.Second
)

// Model is a cluster in which nothing fails, unless it is told to: see Stop, Cut, Mute and Recover. It is not safe for concurrent use.
type Model struct {
	faults
	scope plan.DatastoreOptions
	now   time.Time
	// given is the cluster as it was observed. Whatever is not simulated stays as it is there.
	given plan.Cluster
	nodes []plan.Node // sorted by name
	index map[string]int
	bgp   plan.BGPConfig
	peers map[string]plan.Peer
	// because is why the datastore is changed at the moment.
	because string

	versions []version
	watches  map[string]watch
	// unread: the last version is yet to be made.
	unread bool
	// latest is what was last computed, nil when something has changed since.
	latest *moment
}

// version is what the nodes have configured from a moment on. Where they do not all take
// it over at once, taken is when each does.
type version struct {
	from  time.Time
	taken map[string]time.Time
	*Configuration
	// because is why.
	because string
	// reports of nodes that were asked, while this version holds.
	reports map[string][]reported
}

// watch is a reporter that is asked: for the first time, and for the last.
type watch struct {
	plan.StatusRequest
	since, asked time.Time
}

// New makes a model of a cluster as it was observed. All its sessions count as long
// Established, and all nodes that are not Ready as dead.
func New(c plan.Cluster, scope plan.DatastoreOptions, now time.Time) *Model {
	m := &Model{faults: newFaults(), scope: scope, now: now, watches: map[string]watch{}}
	for node, st := range c.Statuses {
		m.watches[node] = watch{plan.StatusRequest{Node: node, Period: 10 * time.Second, Routes: st.HasRoutes}, now.Add(-time.Hour), now.Add(-time.Hour)}
	}
	m.Reset(c)
	m.versions[0].from = time.Time{}
	return m
}

// Reset makes the cluster another one: all nodes have taken over already what is observed
// there, and those that are not Ready are dead.
func (m *Model) Reset(c plan.Cluster) {
	m.Replace(c, m.scope)
	m.versions[len(m.versions)-1].from = m.now
	for _, n := range m.nodes {
		m.found(n)
	}
	m.read()
}

// Replace makes the cluster another one, which nodes take over as they do any other change.
func (m *Model) Replace(c plan.Cluster, scope plan.DatastoreOptions) {
	m.scope, m.given, m.nodes, m.bgp, m.peers = scope, c, slices.Clone(c.Nodes), c.BGP, map[string]plan.Peer{}
	for _, p := range c.Peers {
		m.peers[p.Name] = p
	}
	m.sort()
	m.changed()
}

// Now is the model's time.
func (m *Model) Now() time.Time { return m.now }

// Advance lets time pass.
func (m *Model) Advance(d time.Duration) {
	m.read()
	m.now = m.now.Add(d)
}

func (m *Model) sort() {
	slices.SortFunc(m.nodes, func(a, b plan.Node) int { return strings.Compare(a.Name, b.Name) })
	m.index = make(map[string]int, len(m.nodes))
	for i, n := range m.nodes {
		m.index[n.Name] = i
	}
}

// changed lets all nodes take over what the datastore says once this moment is over.
func (m *Model) changed() {
	m.latest, m.unread = nil, true
	v := version{from: m.now.Add(Lag), because: m.because}
	if last := len(m.versions) - 1; last >= 0 && m.versions[last].from.Equal(v.from) {
		m.versions[last] = v
		return
	}
	m.versions = append(m.versions, v)
	m.forget()
}

// read makes the last version of what the datastore says. It is not needed before time
// passes, so thousands of changes at one moment cost as much as one.
func (m *Model) read() {
	if !m.unread {
		return
	}
	m.unread = false
	v := &m.versions[len(m.versions)-1]
	v.Configuration = NewConfiguration(m.scope.RoleLabel, m.nodes, m.bgp, m.sortedPeers())
	v.reports = map[string][]reported{}
	if m.delays.Lag != nil {
		v.taken = make(map[string]time.Time, len(m.nodes))
		for _, n := range m.nodes {
			v.taken[n.Name] = v.from.Add(m.delays.Lag(n.Name) - Lag)
		}
	}
}

// memory is how long the model remembers what was configured: nothing waits longer for sessions to be old.
const memory = time.Hour

// forget drops what is not asked for any more.
func (m *Model) forget() {
	for len(m.versions) > 2 && m.now.Sub(m.versions[1].from) > memory {
		m.versions = m.versions[1:]
	}
	for i := range m.versions[:m.current("")] {
		m.versions[i].reports = nil
	}
}

func (m *Model) sortedPeers() []plan.Peer {
	return slices.SortedFunc(maps.Values(m.peers), func(a, b plan.Peer) int { return strings.Compare(a.Name, b.Name) })
}

// SetCause says why the datastore is changed from now on, for Cause.
func (m *Model) SetCause(why string) { m.because = why }

// Cause is why the nodes have configured what they have now.
func (m *Model) Cause() string { return m.versions[m.current("")].because }

// Join adds a node, unless there is one of that name.
func (m *Model) Join(n plan.Node) {
	if _, known := m.index[n.Name]; known {
		return
	}
	m.nodes = append(m.nodes, n)
	m.found(n)
	m.sort()
	m.changed()
}

// Leave takes a node away.
func (m *Model) Leave(name string) {
	m.nodes = slices.DeleteFunc(m.nodes, func(n plan.Node) bool { return n.Name == name })
	delete(m.watches, name)
	delete(m.outages, pairOf(name, ""))
	m.sort()
	m.changed()
}

// Nodes are all nodes as they are now, sorted by name.
func (m *Model) Nodes() []plan.Node { return slices.Clone(m.nodes) }

// Edit changes a node in what no session depends on.
func (m *Model) Edit(name string, edit func(*plan.Node)) {
	if i, ok := m.index[name]; ok {
		n := m.nodes[i]
		n.Labels = maps.Clone(n.Labels)
		edit(&n)
		m.nodes[i] = n
	}
}

// Watch makes exactly these nodes report, and gives the names of those that are asked for the first time.
func (m *Model) Watch(want []plan.StatusRequest) (asked []string, changed bool) {
	next := make(map[string]watch, len(want))
	for _, w := range want {
		old, known := m.watches[w.Node]
		changed = changed || !known || old.StatusRequest != w
		if old.StatusRequest = w; !known {
			asked, old.since, old.asked = append(asked, w.Node), m.now, m.now
		}
		next[w.Node] = old
	}
	changed = changed || len(next) != len(m.watches)
	m.watches = next
	return asked, changed
}

// Apply makes a change and says whether there was anything to change. What concerns
// the pool or pods is not its business.
func (m *Model) Apply(action plan.Action) (bool, error) {
	switch a := action.(type) {
	case plan.CordonNode:
		m.Edit(a.Node, func(n *plan.Node) { n.Cordoned, n.CordonedByUs, n.CordonMark = true, true, true })
		return true, nil
	case plan.UncordonNode:
		m.Edit(a.Node, func(n *plan.Node) {
			n.Cordoned, n.CordonedByUs, n.CordonMark = n.CordonedByOthers(), false, false
		})
		return true, nil
	case plan.RefreshStatus:
		if w, ok := m.watches[a.Node]; ok && m.now.Sub(w.asked) > Answer {
			w.asked = m.now
			m.watches[a.Node] = w
		}
		return true, nil
	}
	if err := m.configure(action); err != nil {
		return false, err
	}
	m.changed()
	return true, nil
}

// configure makes a change that nodes take over.
func (m *Model) configure(action plan.Action) error {
	switch a := action.(type) {
	case plan.SetReflector:
		m.Edit(a.Node, func(n *plan.Node) {
			n.HasRoleLabel, n.Slot, n.ClusterID, n.Marked, n.RoleSince, n.Relabel = true, cmp.Or(a.Slot, anySlot), a.ClusterID, true, m.now, false
			label(n, m.scope.RoleLabel, n.Slot)
		})
	case plan.ClearReflector:
		m.Edit(a.Node, func(n *plan.Node) {
			n.HasRoleLabel, n.Slot, n.ClusterID, n.Marked, n.RoleSince = false, "", "", false, time.Time{}
			label(n, m.scope.RoleLabel, "")
		})
	case plan.SetRack:
		m.Edit(a.Node, func(n *plan.Node) {
			n.Rack = a.Rack
			label(n, plan.RackLabel, a.Rack)
		})
	case plan.PutPeer:
		p := a.Peer
		p.Owned, p.Written = true, m.now
		m.peers[p.Name] = p
	case plan.DeletePeer:
		delete(m.peers, a.Name)
	case plan.DisableMesh:
		off, saved := false, a.Saved
		m.bgp = plan.BGPConfig{Exists: true, Mesh: plan.Mesh{Enabled: &off}, ASN: m.bgp.ASN, Services: m.bgp.Services, Saved: &saved, SavedAbsent: a.SavedAbsent}
	case plan.RestoreMesh:
		on := true
		m.bgp.Mesh.Enabled = &on
		if m.bgp.Saved != nil {
			m.bgp.Mesh = *m.bgp.Saved
		}
		m.bgp.Restored = m.now
	case plan.NoteMesh:
		m.bgp.Saved, m.bgp.SavedUnread = &a.Saved, ""
	case plan.ForgetMesh:
		m.bgp.Exists = !m.bgp.SavedAbsent
		m.bgp.Saved, m.bgp.SavedAbsent, m.bgp.SavedUnread, m.bgp.Restored = nil, false, "", time.Time{}
	default:
		return fmt.Errorf("applying %T: the model does not know it", action)
	}
	return nil
}

// label sets a label, or takes it away.
func label(n *plan.Node, key, value string) {
	if value == "" {
		delete(n.Labels, key)
		return
	}
	if n.Labels == nil {
		n.Labels = map[string]string{}
	}
	n.Labels[key] = value
}
