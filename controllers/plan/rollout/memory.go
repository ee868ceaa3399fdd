package rollout

import (
	"cmp"
	"slices"
	"time"

	"github.com/rrpool/rrpool/controllers/plan"
)

// If others switch the mesh on again mostReversals times, rrpool leaves it on: a BGPConfiguration that is described elsewhere, as in a Git
// repository, would be reset for ever. In case that has ended, rrpool tries again after reversalPause, which doubles with each reversal up to
// longestPause. Once the mesh has stayed off for reversalForgotten, the count begins anew.
const (
	mostReversals     = 3
	reversalPause     = time.Hour
	longestPause      = 16 * time.Hour
	reversalForgotten = 6 * time.Hour
	// A stray label that comes back mostReversals times is left for labelPause at first, and for longestLabelPause at most, so that other
	// rules have their turn.
	labelPause        = time.Minute
	longestLabelPause = time.Hour
)

// Memory is what a manager remembers because an observation does not show it. It may be lost at any time: that costs
// another look, or a wait. The start time of a condition is reset only when the condition is observed not to hold.
type Memory struct {
	// Proven is when a step saw all mesh sessions of a node Established, by node. It lets a large cluster be looked at in batches.
	Proven map[string]time.Time
	// MeshSince is since when the mesh has been seen on without interruption, zero while it is off. ShortSince and LeavingSince are
	// the same for Step.Short and Step.Leaving. StraySince is when the newest name in Step.Stray was added, zero while there is none.
	MeshSince, ShortSince, StraySince, LeavingSince time.Time
	// Stray are the BGPPeers to which StraySince refers.
	Stray []string
	// Reversed are the times at which others switched the mesh on again that rrpool had switched off, until
	// reversalForgotten ends the series. Removed are the times at which rrpool removed stray labels, by node.
	Reversed []time.Time
	Removed  map[string][]time.Time
	// ClockSet is when the clock was last found set forward or back, zero for never. How long ago anything earlier happened is unknown then.
	ClockSet time.Time

	offSince time.Time
	// firstSeen is, for each observed time that was later than now, when it was first seen. The key is that time in nanoseconds since 1970.
	firstSeen map[int64]time.Time
}

// Observe takes in what is observed at now. In c it replaces times that are later than now, which another
// clock has written, or ours before it was set back, with the moment at which they were first seen.
func (m *Memory) Observe(c *plan.Cluster, now time.Time) {
	m.correct(c, now)
	m.MeshSince = sinceWhen(c.BGP.MeshOn(), m.MeshSince, now)
	switch on := c.BGP.MeshOn(); {
	case !on && c.Relied():
		if m.offSince = cmp.Or(m.offSince, now); now.Sub(m.offSince) >= reversalForgotten {
			m.Reversed = nil
		}
	case on && !m.offSince.IsZero():
		if m.offSince = (time.Time{}); c.BGP.Restored.IsZero() { // if rrpool itself switches the mesh on, it sets Restored
			m.Reversed = append(slices.Clip(m.Reversed), now)
		}
	}
}

// ForgetReversals forgets how often others have undone rrpool's changes of the mesh and of labels: a person has changed the mode since.
func (m *Memory) ForgetReversals() { m.Reversed, m.offSince, m.Removed = nil, time.Time{}, nil }

// After takes in what was decided at now.
func (m *Memory) After(s Step, now time.Time) {
	m.ShortSince = sinceWhen(s.Short, m.ShortSince, now)
	isNew := func(name string) bool { return !slices.Contains(m.Stray, name) }
	if m.StraySince = sinceWhen(len(s.Stray) > 0, m.StraySince, now); slices.ContainsFunc(s.Stray, isNew) {
		m.StraySince = now
	}
	m.Stray = s.Stray
	m.LeavingSince = sinceWhen(s.Leaving, m.LeavingSince, now)
	if m.Proven == nil || s.Name == Steady {
		m.Proven = map[string]time.Time{}
	}
	for _, node := range s.Proven {
		m.Proven[node] = now
	}
	removed := map[string][]time.Time{}
	for node, times := range m.Removed {
		if now.Sub(times[len(times)-1]) < reversalForgotten {
			removed[node] = times
		}
	}
	for _, a := range s.Actions {
		if a, clears := a.(plan.ClearReflector); clears && s.Name == RemoveStrayLabel {
			removed[a.Node] = append(slices.Clip(removed[a.Node]), now)
		}
	}
	m.Removed = removed
}

// sinceWhen returns since when a condition holds, zero while it does not.
func sinceWhen(so bool, since, now time.Time) time.Time {
	if !so {
		return time.Time{}
	}
	return cmp.Or(since, now)
}

// doubled returns the pause after this many reversals, mostReversals or more: pause, doubled for each one beyond mostReversals, longest at most.
func doubled(reversals int, pause, longest time.Duration) time.Duration {
	return min(pause<<min(reversals-mostReversals, 8), longest)
}

func (m *Memory) correct(c *plan.Cluster, now time.Time) {
	before := m.firstSeen
	m.firstSeen = map[int64]time.Time{}
	correct := func(at *time.Time) {
		written := at.UnixNano()
		first, known := before[written]
		switch {
		case known:
		case at.After(now):
			first = now
		default:
			return
		}
		m.firstSeen[written], *at = first, first
	}
	for i := range c.Nodes {
		n := &c.Nodes[i]
		correct(&n.Created)
		correct(&n.ReadyChanged)
		correct(&n.RoleSince)
		correct(&n.CalicoNode.Since)
	}
	for name, st := range c.Statuses {
		correct(&st.Cleared)
		c.Statuses[name] = st
	}
	for i := range c.Peers {
		correct(&c.Peers[i].Written)
	}
	correct(&c.BGP.Restored)
}
