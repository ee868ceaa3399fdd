package poolplan

import (
	"maps"
	"time"
)

// Memory is when requests were last made. The zero value remembers nothing.
type Memory struct {
	settles time.Time
	size    int
	asked   map[string]time.Time
}

// subject is what a step is remembered by: a step of the same subject would
// repeat it, as long as the cloud does not show what it did.
func (s Step) subject() string {
	switch s.Kind {
	case Remove:
		return string(s.Kind) + " " + s.Worker
	case Replace, AddZone, RemoveZone:
		return string(s.Kind) + " " + s.Zone
	case None, Create, SetLabels, SetTaints, Resize, DeletePool:
	}
	return string(s.Kind)
}

// Note remembers that s has been asked for. Substitutes says that the cloud sees
// to a replaced worker's substitute by itself.
func (m *Memory) Note(s Step, substitutes bool, now time.Time) {
	switch s.Kind {
	case Create, DeletePool:
		*m = Memory{} // of a pool that is no more
	case Resize:
		m.settles, m.size = now, s.Size
	case AddZone:
		m.settles = now
		delete(m.asked, Step{Kind: RemoveZone, Zone: s.Zone}.subject())
	case RemoveZone:
		delete(m.asked, Step{Kind: AddZone, Zone: s.Zone}.subject())
	case Replace:
		if substitutes {
			m.settles = now
		}
	case None, SetLabels, SetTaints, Remove:
	}
	maps.DeleteFunc(m.asked, func(_ string, at time.Time) bool { return now.Sub(at) > QuotaPause })
	if m.asked == nil {
		m.asked = map[string]time.Time{}
	}
	m.asked[s.subject()] = now
}

// barred gives how long s has still to wait for pause since it was last asked for.
func (m Memory) barred(s Step, pause time.Duration, now time.Time) time.Duration {
	at, ok := m.asked[s.subject()]
	if !ok {
		return 0
	}
	return max(0, pause-now.Sub(at))
}

// settling: the cloud may not list yet what it was asked for.
func (m Memory) settling(now time.Time) bool {
	return !m.settles.IsZero() && now.Sub(m.settles) < SettlePause
}

// sized: this size was asked for a moment ago.
func (m Memory) sized(size int, now time.Time) bool {
	return m.size == size && m.settling(now)
}

// unlessAsked gives s, or a wait for what when s was asked for a moment ago and
// does not show yet.
func (m Memory) unlessAsked(s Step, what string, now time.Time) Step {
	if m.barred(s, SettlePause, now) > 0 {
		return waiting(what)
	}
	return s
}
