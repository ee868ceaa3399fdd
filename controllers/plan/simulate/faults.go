package simulate

import (
	"time"

	"github.com/rrpool/rrpool/controllers/plan"
)

// Delays are how long things take where that differs from node to node. Functions that are nil stand for what is usual.
type Delays struct {
	// Lag is how long a node takes to take over a change. It is asked once for each change and node.
	Lag func(node string) time.Duration
	// Connect is how long a session takes that starts anew then: always the same for the same arguments.
	Connect func(a, b string, began time.Time) time.Duration
	// Longest is the most that any of both takes.
	Longest time.Duration
}

// recovery is how long a BIRD that has just started passes on nothing while a neighbour of its is down.
const recovery = 4 * time.Minute

// faults are what goes wrong in a Model.
type faults struct {
	delays Delays
	// single: nodes of one kind may differ.
	single bool
	// outages are of nodes whose BIRD is dead ("" beside them) and of pairs whose packets get lost, ended is when one was over.
	outages    map[pair]outage
	ended      map[pair]time.Time
	mute       map[string]time.Time // until when
	recovering map[string]time.Time // since when
}

// Outage says what the others have of a BIRD that is gone: for how long its sessions look Established, and its routes are kept.
type Outage struct{ Seen, Kept time.Duration }

// How a BIRD may end, or the packets between two. One that is shut down withdraws its routes. Those of one that is killed are kept as
// Calico's graceful restart says, and nobody notices before BIRD's hold time that a host is off, that BIRD hangs, or that packets get lost.
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
		ended: map[pair]time.Time{}, mute: map[string]time.Time{}, recovering: map[string]time.Time{},
	}
}

// Delay lets things take so long from now on.
func (m *Model) Delay(d Delays) {
	m.delays = d
	m.disturbed()
}

// disturbed forgets what was computed. From then on each node is looked at by itself.
func (m *Model) disturbed() {
	m.latest, m.single = nil, true
}

// Stop ends calico-node on a node: its sessions and routes are gone at once, and it reports nothing.
func (m *Model) Stop(node string) { m.Fail(node, "", ShutDown) }

// Start starts calico-node, on a new machine of that name or again.
func (m *Model) Start(node string) { m.over(pairOf(node, "")) }

// Cut lets two nodes lose their session at once, and get no other, or get one again.
func (m *Model) Cut(a, b string, lost bool) {
	if p := pairOf(a, b); lost {
		m.Fail(a, b, ShutDown)
	} else if _, out := m.outages[p]; out {
		m.over(p)
	}
}

// Fail ends BIRD on a node, or with b the packets between two. What was so before stays.
func (m *Model) Fail(a, b string, as Outage) {
	if p := pairOf(a, b); m.outages[p].at.IsZero() {
		m.outages[p] = outage{as, m.now}
		m.disturbed()
	}
}

func (m *Model) over(p pair) {
	delete(m.outages, p)
	m.ended[p] = m.now
	m.disturbed()
}

// StopReflecting lets a node pass on no routes of others until then, sessions or not.
func (m *Model) StopReflecting(node string, until time.Time) {
	m.mute[node] = until
	m.disturbed()
}

// Recover lets BIRD on a node begin its recovery: for four minutes it passes on nothing by
// sessions that come up from now on.
func (m *Model) Recover(node string) {
	m.recovering[node] = m.now
	m.disturbed()
}

// lost says for a session that is up since then whether routes by it, or it, are gone.
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

// back is how far back changes of sessions count: those that may be on their way up, also when an outage began of which routes are left.
func (m *Model) back() time.Time {
	at := m.now
	for _, o := range m.outages {
		if o.at.Before(at) && m.now.Before(o.at.Add(o.Kept)) {
			at = o.at
		}
	}
	return at.Add(-m.delays.Longest)
}

// running: BIRD runs on the node.
func (m *Model) running(node string) bool { return m.outages[pairOf(node, "")].at.IsZero() }

// mended is when they could again, zero when they always could.
func (m *Model) mended(a, b string) (last time.Time) {
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

// silent: a node passes on nothing by a session that is up since then.
func (m *Model) silent(node string, since time.Time) bool {
	began, recovers := m.recovering[node]
	return recovers && m.now.Sub(began) < recovery && since.After(began)
}

// spoiled is what faults make of a session. A mute node has no clients, and so passes nothing on.
func (m *Model) spoiled(a, b string, s session) sides {
	s.mine.Client = s.mine.Client && !m.now.Before(m.mute[a])
	s.yours.Client = s.yours.Client && !m.now.Before(m.mute[b])
	s.silent, s.unheard = m.silent(a, s.since), m.silent(b, s.since)
	return s.sides
}

// next visits when nodes take over something, and faults end.
func (m *Model) next(visit func(time.Time) bool) {
	for i := len(m.versions) - 1; i >= 0 && m.versions[i].from.Add(m.delays.Longest).After(m.now); i-- {
		visit(m.versions[i].from)
		for _, at := range m.versions[i].taken {
			visit(at)
		}
	}
	for _, o := range m.outages {
		visit(o.at.Add(o.Seen))
		visit(o.at.Add(o.Kept))
	}
	for _, until := range m.mute {
		visit(until)
	}
	for _, began := range m.recovering {
		visit(began.Add(recovery))
	}
}

// found takes the BIRD of a node that is not Ready for dead.
func (m *Model) found(n plan.Node) {
	switch {
	case !n.Ready:
		m.outages[pairOf(n.Name, "")] = outage{at: m.now}
	case !m.running(n.Name):
		m.Start(n.Name)
	}
}
