// Package modelcheck looks at every state that a small cluster can get into under rollout.Next. Rollout's own tests are random; this one
// is exhaustive.
//
// A state is what is in the datastore (nodes, BGPPeers, BGPConfiguration, the pool), what each node has rendered, the sessions, the
// reports as the manager knows them, and what it remembers. From each state every move is made that the Scenario allows: the manager
// reconciles, or dies after any of its actions and forgets; a node renders; sessions come up, and their routes arrive; a report falls
// behind, and catches up; time passes; a disturbance happens. Nodes render by Calico's rules (simulate.Configuration.Side), a session
// restarts when what either side has rendered about the other changes, and routes spread by BIRD's rules of reflection, written here a
// second time.
//
// # What is checked
//
// In every state: (1) any two Ready nodes with pods reach each other; (2) while the mesh is off, each client has sessions with
// min(2, reflectors) reflectors. Of every reconcile: (3) it removes at most one reflector, and in mode RouteReflector only when the reports
// show the others Established with every client for the removal delay; (5) it writes nothing while the cluster is unsupported or a problem
// is reported, orders and removes nothing while the pool is unknown, and leaves foreign BGPPeers alone. From every state: (4) the fair
// run, without disturbances and delays, settles in Steady, without a circle; where something is broken that no manager can repair (a dead
// node, a foreign BGPPeer), it settles in a step that says what it waits for, and that writes nothing but requests for reports.
//
// # What is excused
//
// A disturbance may cut off the pairs that no unchanged session joins at that moment, and take from a client the reflector sessions that it
// restarts; both until they are there again. A step may cut off the node, or the pair, that it Disrupts. A node that
// returns is excused until it is Ready and joined, an in-place node with a person's role label until the label is gone. New reflectors
// count for (2) when they have their sessions.
//
// # Time
//
// Dates are ages: now, or one, two, three and more ticks ago, for rollout 0 s, 25 s, 100 s and 20 minutes. A tick begins when every node
// has rendered, every session that could start has (in a Late scenario: has been starting for no longer than a tick), and every route has
// arrived. So one tick is longer than quiet (15 s) and than a session's start (2 to 18 s), and shorter than a report is fresh or the
// safety net waits (30 s); two are longer than the removal delay, the grace, and the timer gate.
//
// Not seen are waits that are wrong by less than that, rules that compare two dates of one age, more disturbances than the Budget, and more
// than one report behind at a time. A report keeps, for all sessions of a kind, the date of the youngest; BGPPeers and dedicated roles, the
// date of the latest. Nodes have one address family, BIRD dies with its node only, the cloud does what it is asked, and the sessions of a
// node come up together.
package modelcheck

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/rrpool/rrpool/controllers/plan"
	"github.com/rrpool/rrpool/controllers/plan/rollout"
	"github.com/rrpool/rrpool/controllers/plan/simulate"
)

const label = "rrpool.io/route-reflector"

// model gives the numbers in a state their meaning, for one scenario.
type model struct {
	Scenario
	desired [2]rollout.Desired // by state.back
	begin   mesh

	values *names[string]        // slots, cluster IDs, racks
	ids    *names[string]        // cluster IDs that are rendered, from 1
	specs  *names[plan.Peer]     // without Written
	meshes *names[plan.Mesh]     // from 1
	sides  *names[simulate.Side] // from 1
	rows   *names[row]

	configs memo[configured, [maxNodes]uint16]
	nets    memo[network, *routes]
	steps   memo[key, *step]
}

// row is what one node has configured about each other one: indices of sides.
type row [maxNodes]uint8

func newModel(sc Scenario) *model {
	m := &model{
		Scenario: sc, values: newNames("", ""), ids: newNames("", ""), specs: newNames(plan.Peer{}, ""), meshes: newNames(plan.Mesh{}, "none"),
		sides: newNames(simulate.Side{}, "none"), rows: newNames(row{}, "none"),
	}
	m.setUp()
	return m
}

func rowKey(r row) string {
	if r == (row{}) {
		return "none"
	}
	return string(r[:])
}

func small(i int) uint8 {
	if i > 255 {
		panic("modelcheck: too many different values for a state")
	}
	return uint8(i) //nolint:gosec // G115: checked above
}

func (m *model) value(s string) uint8 { return small(m.values.of(s, s)) }

func (m *model) meshOf(x plan.Mesh) uint8 { return small(m.meshes.of(text(x), x)) }

func (m *model) specOf(p plan.Peer) uint16 {
	undated := p
	undated.Written = today.AddDate(-100, 0, 0) // the zero time is no JSON that one can compare by eye
	return uint16(m.specs.of(text(undated), p)) //nolint:gosec // G115: a few dozen
}

func (m *model) spec(i uint16) plan.Peer { return m.specs.get(int(i)) }

func text(x any) string {
	b, err := json.Marshal(x)
	if err != nil {
		panic(fmt.Sprintf("modelcheck: %v", err))
	}
	return string(b)
}

// name of a node: clients first, then the pool.
func (m *model) name(i int) string {
	if i < m.Clients {
		return fmt.Sprintf("node-%d", i+1)
	}
	return fmt.Sprintf("pool-%d", i-m.Clients+1)
}

func (m *model) indexOf(name string) int {
	for i := range m.size() {
		if m.name(i) == name {
			return i
		}
	}
	return -1
}

// size is how many nodes there can be.
func (m *model) size() int { return m.Clients + m.Pool + m.Spare }

func address(i int) netip.Addr { return netip.AddrFrom4([4]byte{10, 0, 0, byte(i + 1)}) } //nolint:gosec // G115: at most eight

func block(i int) netip.Prefix {
	return netip.PrefixFrom(netip.AddrFrom4([4]byte{192, 168, byte(i + 1), 0}), 26) //nolint:gosec // G115: at most eight
}

// zone of a node.
func (m *model) zone(i int) string {
	if i < m.Clients {
		return m.Zones[i%len(m.Zones)]
	}
	return m.Zones[(i-m.Clients)%len(m.Zones)]
}

// node as the manager sees it.
func (m *model) node(s *state, i int) plan.Node {
	x := &s.nodes[i]
	count := 0
	if x.is(pods) {
		count = 10 + i
	}
	n := plan.Node{
		Name: m.name(i), UID: m.name(i), Zone: m.zone(i), Labels: map[string]string{"zone": m.zone(i)},
		Created: x.born.moment(), Ready: x.is(ready), ReadyChanged: x.readyAge.moment(),
		Cordoned: x.is(cordoned), CordonedByUs: x.is(cordonedByUs), CordonMark: x.is(cordonedByUs),
		Pods: &count, Pooled: x.is(pooled), Addresses: []netip.Addr{address(i)}, Blocks: []netip.Prefix{block(i)},
		RoleLabel: x.is(labelled), Slot: m.values.get(int(x.slot)), Rack: m.values.get(int(x.rack)),
		ClusterID: m.values.get(int(x.id)), Marked: x.is(marked),
		CalicoNode: plan.CalicoNode{State: plan.CalicoNodeReady},
	}
	if n.Rack != "" {
		n.Labels[plan.RackLabel] = n.Rack
	}
	if m.Dedicated && i >= m.Clients {
		n.WorkerID = n.Name
	}
	if x.is(marked) {
		n.RoleSince = x.roleAge.moment().Add(time.Duration(int(x.rank)-maxNodes) * time.Millisecond) // never in the future
	}
	return n
}

func (m *model) nodes(s *state) []plan.Node {
	out := make([]plan.Node, 0, maxNodes)
	for i := range m.size() {
		if s.nodes[i].is(exists) {
			out = append(out, m.node(s, i))
		}
	}
	return out
}

func (m *model) peersOf(s *state) []plan.Peer {
	var out []plan.Peer
	for _, w := range s.peers {
		if w.spec != 0 {
			p := m.spec(w.spec)
			p.Written = w.at.moment()
			out = append(out, p)
		}
	}
	slices.SortFunc(out, func(a, b plan.Peer) int { return strings.Compare(a.Name, b.Name) })
	return out
}

func (m *model) bgp(s *state) plan.BGPConfig {
	b := plan.BGPConfig{ASN: 64512, Exists: s.mesh.exists, Mesh: m.meshes.get(int(s.mesh.is)), SavedAbsent: s.mesh.savedAbsent, Restored: s.mesh.restored.moment()}
	if s.mesh.saved != 0 {
		saved := m.meshes.get(int(s.mesh.saved))
		b.Saved = &saved
	}
	return b
}

// observe is what the manager sees and remembers.
func (m *model) observe(s *state) rollout.Observed {
	o := rollout.Observed{
		Cluster:    plan.Cluster{Nodes: m.nodes(s), BGP: m.bgp(s), Peers: m.peersOf(s), Statuses: map[string]plan.Status{}},
		ShortSince: s.shortSince.moment(), StraySince: s.straySince.moment(), Evictable: map[string][]string{},
	}
	if s.meshSince = sinceWhen(s.meshSince, o.BGP.MeshOn()); s.meshSince != never {
		o.MeshSince = s.meshSince.moment()
	}
	if s.problem {
		o.Problems = []plan.Problem{{Reason: "Unreadable", Message: "the datastore cannot be read"}}
	}
	for i := range m.size() {
		if s.reports[i].watched {
			o.Statuses[m.name(i)] = m.status(&s.reports[i], i)
		}
		if s.nodes[i].is(exists | pods) {
			o.Evictable[m.name(i)] = []string{"default/web"}
		} else {
			o.Evictable[m.name(i)] = nil
		}
	}
	if !s.unknown {
		o.Pool = m.poolOf(s)
	}
	return o
}

func sinceWhen(a age, so bool) age {
	switch {
	case !so:
		return never
	case a == never:
		return justNow
	}
	return a
}

func (m *model) poolOf(s *state) *rollout.Pool {
	p := &rollout.Pool{Exists: s.pool > 0, SizePerZone: int(s.pool)}
	if !m.Dedicated {
		return &rollout.Pool{}
	}
	if p.Exists {
		p.Zones = m.Zones
	}
	for i := m.Clients; i < m.size(); i++ {
		if n := &s.nodes[i]; n.is(exists) || n.is(ordered) {
			p.Workers = append(p.Workers, rollout.Worker{ID: m.name(i), Node: m.name(i), Zone: m.zone(i), Message: "deploying"})
		}
	}
	return p
}

// status is a report in the manager's words.
func (m *model) status(r *report, i int) plan.Status {
	st := plan.Status{Node: m.name(i), Updated: r.updated.moment(), Cleared: r.cleared.moment(), HasRoutes: r.has}
	for j, x := range r.sess {
		if x&kindBits == unseen {
			continue
		}
		one := plan.Session{Peer: address(j), Kind: plan.SessionNode, Since: age(x >> sinceShift & 7).moment()}
		switch x & kindBits {
		case meshDown, meshUp:
			one.Kind = plan.SessionMesh
		}
		one.Established = x&kindBits == meshUp || x&kindBits == nodeUp
		st.Sessions = append(st.Sessions, one)
	}
	for origin := range m.size() {
		for from := range m.size() {
			if r.learned>>(origin*maxNodes+from)&1 == 1 {
				st.Routes = append(st.Routes, plan.Route{Prefix: block(origin), From: address(from)})
			}
		}
	}
	return st
}
