package rollout

import (
	"cmp"
	"slices"
	"time"

	"github.com/rrpool/rrpool/controllers/plan"
)

// A mesh that others switch on again as often as this is left on: what describes the BGPConfiguration elsewhere, as a Git repository, does so
// for ever. It is switched off again after a pause that doubles with each reversal, in case that has ended. A mesh that stays off for
// reversalForgotten begins anew.
const (
	mostReversals     = 3
	reversalPause     = time.Hour
	longestPause      = 16 * time.Hour
	reversalForgotten = 6 * time.Hour
	// A label that comes back as often stays for labelPause at first, and for longestLabelPause at most, so that what else is due is done.
	labelPause        = time.Minute
	longestLabelPause = time.Hour
)

// Memory is what an observation does not show and a manager remembers. It may be lost at any time: that costs another look, or a wait.
// Each time since something is so is reset only when it is observed not to be so.
type Memory struct {
	// Proven is when a step saw all mesh sessions of a node Established, by node. It lets a large cluster be looked at in batches.
	Proven map[string]time.Time
	// MeshSince is when the mesh was first seen on without interruption, ShortSince and LeavingSince the same of Step.Short and
	// Step.Leaving, StraySince of the last of Step.Stray; zero while not.
	MeshSince, ShortSince, StraySince, LeavingSince time.Time
	// Stray are the BGPPeers that StraySince is of.
	Stray []string
	// Reversed is when others switched the mesh on again that rrpool had switched off, as far as that followed each other;
	// Removed is when rrpool has removed stray labels, by node.
	Reversed []time.Time
	Removed  map[string][]time.Time
	// ClockSet is when the clock was last found set forth or back, zero for never: how long ago
	// something earlier happened is unknown then.
	ClockSet time.Time

	offSince time.Time
	// firstSeen is when a time that was later than now was first seen, by the time as written, in nanoseconds since 1970.
	firstSeen map[int64]time.Time
}

// Observe takes in what is observed at now. Times in it that are later than now, as another clock has written them, or ours before it was
// set back, become the moment when they were first seen.
func (m *Memory) Observe(c *plan.Cluster, now time.Time) {
	m.correct(c, now)
	m.MeshSince = sinceWhen(c.BGP.MeshOn(), m.MeshSince, now)
	switch on := c.BGP.MeshOn(); {
	case !on && c.Relied():
		if m.offSince = cmp.Or(m.offSince, now); now.Sub(m.offSince) >= reversalForgotten {
			m.Reversed = nil
		}
	case on && !m.offSince.IsZero():
		if m.offSince = (time.Time{}); c.BGP.Restored.IsZero() { // rrpool notes when it does so itself
			m.Reversed = append(slices.Clip(m.Reversed), now)
		}
	}
}

// ForgetReversals forgets that others have switched the mesh on: a person has changed the mode since.
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

// sinceWhen returns since when something is so, zero while it is not.
func sinceWhen(so bool, since, now time.Time) time.Time {
	if !so {
		return time.Time{}
	}
	return cmp.Or(since, now)
}

// doubled returns the pause after so many reversals, mostReversals or more.
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
