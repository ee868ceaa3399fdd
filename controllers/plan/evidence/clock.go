package evidence

import (
	"time"

	"github.com/rrpool/rrpool/controllers/plan"
)

// Clock is the time of a decision. It also records when time alone will first change
// one of its answers. No event announces that moment, so the next look is due then.
type Clock struct {
	now time.Time
	due time.Duration
}

// NewClock returns a clock that stands at now.
func NewClock(now time.Time) *Clock { return &Clock{now: now} }

// Now returns the time of the decision.
func (c *Clock) Now() time.Time { return c.now }

// Since returns how long ago a time was.
func (c *Clock) Since(t time.Time) time.Duration { return c.now.Sub(t) }

// Passed reports whether the duration long has passed since a time. If not, the next look is due when long has passed.
func (c *Clock) Passed(since time.Time, long time.Duration) bool {
	left := since.Add(long).Sub(c.now)
	if left > 0 {
		c.In(left)
	}
	return left <= 0
}

// In makes the next look due after d at the latest.
func (c *Clock) In(d time.Duration) { c.due = plan.Sooner(c.due, d) }

// Due returns after how long the next look is due, 0 for never.
func (c *Clock) Due() time.Duration { return c.due }
