package simulate

import (
	"time"

	"k8s.io/apimachinery/pkg/util/sets"

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
	// down are the nodes whose BIRD is dead, cut the pairs whose packets get lost. ended is
	// when that was over, of nodes ("" beside them) and pairs.
	down       sets.Set[string]
	cut        sets.Set[pair]
	ended      map[pair]time.Time
	mute       map[string]time.Time // until when
	recovering map[string]time.Time // since when
}

type pair [2]string

func pairOf(a, b string) pair { return pair{min(a, b), max(a, b)} }

func newFaults() faults {
	return faults{
		delays: Delays{Longest: Connect}, down: sets.New[string](), cut: sets.New[pair](),
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

// Stop kills calico-node on a node: its sessions are gone at once, and it reports nothing.
func (m *Model) Stop(node string) {
	m.down.Insert(node)
	m.disturbed()
}

// Start starts calico-node, on a new machine of that name or again.
func (m *Model) Start(node string) {
	m.down.Delete(node)
	m.ended[pairOf(node, "")] = m.now
	m.disturbed()
}

// Cut lets the packets between two nodes get lost, or pass again.
func (m *Model) Cut(a, b string, lost bool) {
	p := pairOf(a, b)
	switch {
	case lost == m.cut.Has(p):
		return
	case lost:
		m.cut.Insert(p)
	default:
		m.cut.Delete(p)
		m.ended[p] = m.now
	}
	m.disturbed()
}

// Mute lets a node pass on no routes of others until then, sessions or not.
func (m *Model) Mute(node string, until time.Time) {
	m.mute[node] = until
	m.disturbed()
}

// Recover lets BIRD on a node begin its recovery: for four minutes it passes on nothing by
// sessions that come up from now on.
func (m *Model) Recover(node string) {
	m.recovering[node] = m.now
	m.disturbed()
}

// broken: the nodes cannot have a session.
func (m *Model) broken(a, b string) bool {
	return m.down.HasAny(a, b) || m.cut.Has(pairOf(a, b))
}

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
		m.down.Insert(n.Name)
	case m.down.Has(n.Name):
		m.Start(n.Name)
	}
}
