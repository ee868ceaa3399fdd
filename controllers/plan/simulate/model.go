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

// The usual delays of the model. Nodes apply a change after Lag, a session that restarts is Established after Connect, and a reporter answers a
// request after Answer.
const (
	Lag     = 2 * time.Second
	Connect = 4 * time.Second
	Answer  = 2 * time.Second
)

// Model is a simulated cluster. Faults occur in it only by calls such as Stop, Fail and Recover. It is not safe for concurrent use.
type Model struct {
	faults
	scope plan.DatastoreOptions
	now   time.Time
	// given is the cluster as it was observed. What is not simulated keeps its value from given.
	given plan.Cluster
	nodes []plan.Node // sorted by name
	index map[string]int
	bgp   plan.BGPConfig
	peers map[string]plan.Peer
	// cause is the cause of the changes that are made now, see SetCause.
	cause string

	versions []version
	watches  map[string]watch
	// pending: the Configuration of the last version is not computed yet.
	pending bool
	// cached is the result of snapshot, nil after a change.
	cached *snapshot
}

// version is a configuration that nodes use from a time on. appliedAt is when each node applies it; if nil, all do so at the time from.
type version struct {
	from      time.Time
	appliedAt map[string]time.Time
	*Configuration
	cause string
	// reports caches the reported sessions by node, while this version is the current one.
	reports map[string][]reportedSession
}

// watch is a node whose status is requested. since is when that began, asked when a new report was last requested.
type watch struct {
	plan.StatusRequest
	since, asked time.Time
}

// New returns a model of an observed cluster. All sessions have been Established
// for a long time. calico-node does not run on nodes that are not Ready.
func New(c plan.Cluster, scope plan.DatastoreOptions, now time.Time) *Model {
	m := &Model{faults: newFaults(), scope: scope, now: now, watches: map[string]watch{}}
	for node, st := range c.Statuses {
		m.watches[node] = watch{plan.StatusRequest{Node: node, Period: 10 * time.Second, Routes: st.HasRoutes}, now.Add(-time.Hour), now.Add(-time.Hour)}
	}
	m.Reset(c)
	m.versions[0].from = time.Time{}
	return m
}

// Reset replaces the cluster by an observed one whose nodes have already applied
// what the datastore holds. calico-node does not run on nodes that are not Ready.
func (m *Model) Reset(c plan.Cluster) {
	m.Replace(c, m.scope)
	m.versions[len(m.versions)-1].from = m.now
	for _, n := range m.nodes {
		m.setRunning(n)
	}
	m.configurePending()
}

// Replace replaces the content of the datastore. Nodes apply it as they do any other change.
func (m *Model) Replace(c plan.Cluster, scope plan.DatastoreOptions) {
	m.scope, m.given, m.nodes, m.bgp, m.peers = scope, c, slices.Clone(c.Nodes), c.BGP, map[string]plan.Peer{}
	for _, p := range c.Peers {
		m.peers[p.Name] = p
	}
	m.sort()
	m.addVersion()
}

// Now is the model's time.
func (m *Model) Now() time.Time { return m.now }

// Advance lets time pass.
func (m *Model) Advance(d time.Duration) {
	m.configurePending()
	m.now = m.now.Add(d)
}

func (m *Model) sort() {
	slices.SortFunc(m.nodes, func(a, b plan.Node) int { return strings.Compare(a.Name, b.Name) })
	m.index = make(map[string]int, len(m.nodes))
	for i, n := range m.nodes {
		m.index[n.Name] = i
	}
}

// addVersion adds a version, or replaces the last one if that is from the same time.
func (m *Model) addVersion() {
	m.cached, m.pending = nil, true
	v := version{from: m.now.Add(Lag), cause: m.cause}
	if last := len(m.versions) - 1; last >= 0 && m.versions[last].from.Equal(v.from) {
		m.versions[last] = v
		return
	}
	m.versions = append(m.versions, v)
	m.dropOld()
}

// configurePending computes the Configuration of the last version. It is called
// before time passes, so that many changes at one time cost no more than one.
func (m *Model) configurePending() {
	if !m.pending {
		return
	}
	m.pending = false
	v := &m.versions[len(m.versions)-1]
	v.Configuration = NewConfiguration(m.scope.RoleLabel, m.nodes, m.bgp, m.sortedPeers())
	v.reports = map[string][]reportedSession{}
	if m.delays.Lag != nil {
		v.appliedAt = make(map[string]time.Time, len(m.nodes))
		for _, n := range m.nodes {
			v.appliedAt[n.Name] = v.from.Add(m.delays.Lag(n.Name) - Lag)
		}
	}
}

// versionsKept is how long versions are kept. Older changes do not matter: no decision depends on whether a session is older than that.
const versionsKept = time.Hour

// dropOld drops versions and cached reports that are not needed any more.
func (m *Model) dropOld() {
	for len(m.versions) > 2 && m.now.Sub(m.versions[1].from) > versionsKept {
		m.versions = m.versions[1:]
	}
	for i := range m.versions[:m.versionOf("")] {
		m.versions[i].reports = nil
	}
}

func (m *Model) sortedPeers() []plan.Peer {
	return slices.SortedFunc(maps.Values(m.peers), func(a, b plan.Peer) int { return strings.Compare(a.Name, b.Name) })
}

// SetCause sets the cause of the changes that follow, which Cause returns later.
func (m *Model) SetCause(why string) { m.cause = why }

// Cause returns the cause of the configuration that nodes have now.
func (m *Model) Cause() string { return m.versions[m.versionOf("")].cause }

// Join adds a node, unless there is one of that name.
func (m *Model) Join(n plan.Node) {
	if _, known := m.index[n.Name]; known {
		return
	}
	m.nodes = append(m.nodes, n)
	m.setRunning(n)
	m.sort()
	m.addVersion()
}

// Leave removes a node.
func (m *Model) Leave(name string) {
	m.nodes = slices.DeleteFunc(m.nodes, func(n plan.Node) bool { return n.Name == name })
	delete(m.watches, name)
	delete(m.outages, pairOf(name, ""))
	m.sort()
	m.addVersion()
}

// Nodes returns all nodes, sorted by name.
func (m *Model) Nodes() []plan.Node { return slices.Clone(m.nodes) }

// Edit changes a node without a new version: for fields that sessions depend on, use Apply.
func (m *Model) Edit(name string, edit func(*plan.Node)) {
	if i, ok := m.index[name]; ok {
		n := m.nodes[i]
		n.Labels = maps.Clone(n.Labels)
		edit(&n)
		m.nodes[i] = n
	}
}

// Watch sets which nodes report their status. It returns the nodes that did not report before, and whether any request has changed.
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

// Apply carries out an action on the datastore and reports whether it changed anything. Actions on the pool or on pods are errors.
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
	m.addVersion()
	return true, nil
}

// configure carries out an action that changes what nodes configure.
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

// label sets a label, or removes it if value is "".
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
