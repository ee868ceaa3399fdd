package rollout

import (
	"time"

	"github.com/rrpool/rrpool/controllers/plan"
)

// Times corrects times that are later than now: another clock has written them, or ours before it was set back.
// Such a time counts as the moment when it was first seen. Losing that costs another wait.
type Times struct {
	// firstSeen is by the time as written, in nanoseconds since 1970.
	firstSeen map[int64]time.Time
}

// Correct puts the times right in what was observed at now.
func (t *Times) Correct(c *plan.Cluster, now time.Time) {
	before := t.firstSeen
	t.firstSeen = map[int64]time.Time{}
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
		t.firstSeen[written], *at = first, first
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
