package simulate

import (
	"time"

	"github.com/rrpool/rrpool/controllers/plan"
)

// Delays are delays that differ between nodes. A nil function means the usual delay.
type Delays struct {
	// Lag is how long a node takes to apply a change. It is called once for each change and node.
	Lag func(node string) time.Duration
	// Connect is how long a session that restarts at began takes to be Established. It must depend on its arguments only.
	Connect func(a, b string, began time.Time) time.Duration
	// Longest is the upper bound of both.
	Longest time.Duration
}

// recovery is how long BIRD passes on nothing after its start, if a neighbour is down.
const recovery = 4 * time.Minute

// faults are the faults of a Model.
type faults struct {
	delays Delays
	// perNode: each node is computed by itself, because nodes of one kind may differ after a fault.
	perNode bool
	// outages are the current outages of nodes (a node paired with "") and of links between two nodes. ended is when the last one ended.
	outages       map[pair]outage
	ended         map[pair]time.Time
	notReflecting map[string]time.Time // until when a node passes on nothing
	recovering    map[string]time.Time // since when BIRD is in graceful restart recovery
}

// Outage says for how long after the end of a BIRD other nodes see its sessions as Established (Seen), and keep its routes (Kept).
type Outage struct{ Seen, Kept time.Duration }

// The kinds of outages of a BIRD or of a link. ShutDown: BIRD withdraws its routes. Killed: graceful restart keeps the
// routes. Silent: a host is off, BIRD hangs or a link loses packets, which other nodes notice only after BIRD's hold time.
var (
	ShutDown = Outage{}
	Killed   = Outage{Kept: 2 * time.Minute}
	Silent   = Outage{Seen: 4 * time.Minute, Kept: 4 * time.Minute}
)

type outage struct {
	Outage
	at time.Time
}

type pair [2]string

func pairOf(a, b string) pair { return pair{min(a, b), max(a, b)} }

func newFaults() faults {
	return faults{
		delays: Delays{Longest: Connect}, outages: map[pair]outage{},
		ended: map[pair]time.Time{}, notReflecting: map[string]time.Time{}, recovering: map[string]time.Time{},
	}
}

// Delay sets the delays of changes from now on.
func (m *Model) Delay(d Delays) {
	m.delays = d
	m.invalidate()
}

// invalidate drops cached results. From then on, nodes are simulated one by one.
func (m *Model) invalidate() {
	m.cached, m.perNode = nil, true
}

// Stop shuts calico-node down on a node: its sessions and routes end at once, and it reports nothing.
func (m *Model) Stop(node string) { m.Fail(node, "", ShutDown) }

// Start starts calico-node on a node.
func (m *Model) Start(node string) { m.endOutage(pairOf(node, "")) }

// Cut ends the session of two nodes and prevents new ones if lost is true. Otherwise it permits the session again.
func (m *Model) Cut(a, b string, lost bool) {
	if p := pairOf(a, b); lost {
		m.Fail(a, b, ShutDown)
	} else if _, out := m.outages[p]; out {
		m.endOutage(p)
	}
}

// Fail begins an outage of BIRD on node a, or of the link between a and b if b
// is not "". It has no effect during another outage of the same node or link.
func (m *Model) Fail(a, b string, as Outage) {
	if p := pairOf(a, b); m.outages[p].at.IsZero() {
		m.outages[p] = outage{as, m.now}
		m.invalidate()
	}
}

func (m *Model) endOutage(p pair) {
	delete(m.outages, p)
	m.ended[p] = m.now
	m.invalidate()
}

// StopReflecting makes a node pass on no routes of others until a time. Its sessions stay.
func (m *Model) StopReflecting(node string, until time.Time) {
	m.notReflecting[node] = until
	m.invalidate()
}

// Recover begins graceful restart recovery of BIRD on a node: for four minutes it passes on nothing by sessions that are Established from now on.
func (m *Model) Recover(node string) {
	m.recovering[node] = m.now
	m.invalidate()
}

// lost reports whether outages have ended the routes of a session that is Established since a time, and whether they have ended the session.
func (m *Model) lost(a, b string, since time.Time) (routes, session bool) {
	if len(m.outages) == 0 {
		return false, false
	}
	for _, p := range []pair{pairOf(a, ""), pairOf(b, ""), pairOf(a, b)} {
		if o, out := m.outages[p]; out {
			routes = routes || since.After(o.at) || !m.now.Before(o.at.Add(o.Kept))
			session = session || since.After(o.at) || !m.now.Before(o.at.Add(o.Seen))
		}
	}
	return routes, session
}

// oldestChange returns the time before which no change matters. Sessions that changed earlier are
// Established now, and were Established when the oldest outage began whose routes are still kept.
func (m *Model) oldestChange() time.Time {
	at := m.now
	for _, o := range m.outages {
		if o.at.Before(at) && m.now.Before(o.at.Add(o.Kept)) {
			at = o.at
		}
	}
	return at.Add(-m.delays.Longest)
}

// running reports whether BIRD runs on a node.
func (m *Model) running(node string) bool { return m.outages[pairOf(node, "")].at.IsZero() }

// lastOutageEnd returns when the last outage of a, b or their link ended, zero if there was none.
func (m *Model) lastOutageEnd(a, b string) (last time.Time) {
	for _, p := range []pair{pairOf(a, ""), pairOf(b, ""), pairOf(a, b)} {
		if at := m.ended[p]; at.After(last) {
			last = at
		}
	}
	return last
}

func (m *Model) connect(a, b string, began time.Time) time.Duration {
	if m.delays.Connect == nil {
		return Connect
	}
	return m.delays.Connect(a, b, began)
}

// silent reports whether a node passes on nothing by a session that is Established since a time.
func (m *Model) silent(node string, since time.Time) bool {
	began, recovers := m.recovering[node]
	return recovers && m.now.Sub(began) < recovery && since.After(began)
}

// withFaults returns the sides of a session as faults change them. A node in notReflecting has no clients, so it passes nothing on.
func (m *Model) withFaults(a, b string, s session) sides {
	s.mine.Client = s.mine.Client && !m.now.Before(m.notReflecting[a])
	s.yours.Client = s.yours.Client && !m.now.Before(m.notReflecting[b])
	s.mineSilent, s.yoursSilent = m.silent(a, s.since), m.silent(b, s.since)
	return s.sides
}

// visitChanges calls visit with the times at which nodes apply a version, and at which faults end.
func (m *Model) visitChanges(visit func(time.Time) bool) {
	for i := len(m.versions) - 1; i >= 0 && m.versions[i].from.Add(m.delays.Longest).After(m.now); i-- {
		visit(m.versions[i].from)
		for _, at := range m.versions[i].appliedAt {
			visit(at)
		}
	}
	for _, o := range m.outages {
		visit(o.at.Add(o.Seen))
		visit(o.at.Add(o.Kept))
	}
	for _, until := range m.notReflecting {
		visit(until)
	}
	for _, began := range m.recovering {
		visit(began.Add(recovery))
	}
}

// setRunning begins an outage of a node that is not Ready. If the node is Ready, it ends the node's outage.
func (m *Model) setRunning(n plan.Node) {
	switch {
	case !n.Ready:
		m.outages[pairOf(n.Name, "")] = outage{at: m.now}
	case !m.running(n.Name):
		m.Start(n.Name)
	}
}
