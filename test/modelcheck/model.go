// Package modelcheck looks at every state that a small cluster can get into under rollout.Next. Rollout's own tests are random; this one
// is exhaustive.
//
// A state is what is in the datastore (nodes, BGPPeers, BGPConfiguration, the pool), what each node has rendered, the sessions, the
// reports as the manager knows them, and what it remembers. From each state every move is made that the Scenario allows: the manager
// reconciles, or dies after any of its actions and forgets; a node renders; sessions come up, and their routes arrive; a report falls
// behind, and catches up; time passes; a disturbance happens. Package simulate says what an action changes (Model), what nodes render
// (Configuration) and who gets whose routes over the sessions that are up (Network). A session restarts when what either side has rendered
// about the other changes. simulate.Model itself moves sessions by the clock, and the explorer in any order.
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

	"github.com/rrpool/rrpool/controllers/plan"
	"github.com/rrpool/rrpool/controllers/plan/rollout"
)

const label = "rrpool.io/route-reflector"

// model is a scenario, and what has been computed for it.
type model struct {
	Scenario
	names    []string           // of all nodes that there can be: clients first, then the pool
	desired  [2]rollout.Desired // by visible.back
	rounds   [][]move           // of a fair run
	clusters *table[cluster]
	reports  *table[plan.Status] // the zero value stands for a node that is not asked
	rows     *table[row]

	steps memo[visible, *step]
	looks memo[view, look]
	nets  memo[network, *routes]
}

func newModel(sc Scenario) *model {
	m := &model{Scenario: sc.complete(), steps: memo[visible, *step]{}, looks: memo[view, look]{}, nets: memo[network, *routes]{}}
	for i := range m.Clients {
		m.names = append(m.names, fmt.Sprintf("node-%d", i+1))
	}
	for i := range m.Pool + m.Spare {
		m.names = append(m.names, fmt.Sprintf("pool-%d", i+1))
	}
	m.desired = m.Scenario.desired()
	m.rounds = [][]move{m.each(renders), m.each(comesUp, carries), m.each(joins, noticed), m.each(reports), {{kind: manages}}, {{kind: timePasses}}}
	m.rows, m.reports, m.clusters = newTable[row](), newTable[plan.Status](), newTable[cluster]()
	return m
}

// table gives numbers to values, so that a state is small, from 0 for the zero value. What it holds is not changed any more.
type table[V any] struct {
	index  map[string]uint32
	values []*V
	edits  memo[edit, uint32]
}

// edit is a change of a value, named so that no other change has the same name.
type edit struct {
	value uint32
	name  string
}

func newTable[V any]() *table[V] {
	t := &table[V]{index: map[string]uint32{}, edits: memo[edit, uint32]{}}
	t.of(*new(V))
	return t
}

func (t *table[V]) of(value V) uint32 {
	key := text(value)
	i, ok := t.index[key]
	if !ok {
		i = uint32(len(t.values)) //nolint:gosec // G115: some thousands
		t.index[key] = i
		t.values = append(t.values, &value)
	}
	return i
}

func (t *table[V]) get(i uint32) *V { return t.values[i] }

// edit gives the number of a changed value. do gets a copy, and changes nothing that it shares with the original.
func (t *table[V]) edit(i uint32, name string, do func(*V)) uint32 {
	return t.edits.get(edit{i, name}, func() uint32 {
		value := *t.get(i)
		do(&value)
		return t.of(value)
	})
}

func text(x any) string {
	b, err := json.Marshal(x)
	if err != nil {
		panic(fmt.Sprintf("modelcheck: %v", err))
	}
	return string(b)
}

// memo remembers what has been computed.
type memo[K comparable, V any] map[K]V

func (m memo[K, V]) get(k K, compute func() V) V {
	v, ok := m[k]
	if !ok {
		v = compute()
		m[k] = v
	}
	return v
}
