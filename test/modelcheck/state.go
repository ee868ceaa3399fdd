package modelcheck

import (
	"math"
	"slices"
	"time"

	"github.com/rrpool/rrpool/controllers/plan"
)

const (
	maxNodes = 8
	maxPairs = maxNodes * (maxNodes - 1) / 2
)

// ticks are how long ago something counts as having happened: now, or one, two, three and more ticks ago. See the package's documentation
// for what a tick is. lately is more than a node needs to render (quiet, 15 s) and less than a report is fresh (30 s); earlier is more than a
// session takes to start (timerWait, the timer gate's 90 s, removalDelay, the grace); longAgo is more than anything.
var ticks = [...]time.Duration{0, lately, earlier, longAgo}

const (
	lately  = 25 * time.Second
	earlier = 100 * time.Second
	longAgo = 20 * time.Minute
)

// today is when the manager reconciles.
var today = time.Date(2026, 1, 2, 0, 0, 0, 0, time.UTC)

// never is longer ago than anything.
const never = time.Duration(math.MaxInt64)

// howLong is how long ago a date was, never for zero.
func howLong(t time.Time) time.Duration {
	if t.IsZero() {
		return never
	}
	return today.Sub(t)
}

// ago is the date of what happened so long ago, zero for never.
func ago(d time.Duration) time.Time {
	if d == never {
		return time.Time{}
	}
	return today.Add(-d)
}

// older is how long ago something is a tick later. It may be up to a second more than a tick.
func older(d time.Duration) time.Duration {
	for i, tick := range ticks[:len(ticks)-1] {
		if d < tick+time.Second {
			return d - tick + ticks[i+1]
		}
	}
	return d
}

// pass makes a date a tick older. The zero date stays.
func pass(date *time.Time) {
	if !date.IsZero() {
		*date = ago(older(today.Sub(*date)))
	}
}

// States of a session, by pair.
const (
	down       uint8 = iota // not configured by both, or a side is dead
	starting                // since this tick
	late                    // for longer: up before the next tick
	quietUp                 // Established, and the routes are on their way
	carrying                // Established, and every route has arrived
	upFromHere = quietUp
)

// nodeSet is a set of nodes, one bit each.
type nodeSet uint8

func (s nodeSet) has(i int) bool { return s>>i&1 == 1 }

func (s *nodeSet) set(i int, in bool) {
	if *s &^= 1 << i; in {
		*s |= 1 << i
	}
}

// pairSet is a set of pairs of nodes.
type pairSet uint32

func (s pairSet) has(a, b int) bool { return s>>pairOf(a, b)&1 == 1 }

func (s *pairSet) add(a, b int) { *s |= 1 << pairOf(a, b) }

// pairOf is the index of a pair.
func pairOf(a, b int) int {
	if a > b {
		a, b = b, a
	}
	return a*(2*maxNodes-a-1)/2 + b - a - 1
}

// state is everything: the cluster, its BGP, what the manager knows and remembers.
type state struct {
	visible
	// rows are what each node has rendered.
	rows [maxNodes]uint32
	up   [maxPairs]uint8
	// alive: BIRD, confd and the reporter of the node run. muted reflectors pass nothing on.
	alive, muted nodeSet
	// restarted are the sessions of each node that have restarted since its report. routed nodes are asked for routes.
	restarted [maxNodes]nodeSet
	routed    nodeSet
	// spent counts disturbances, lagged reports that fell behind; dead is a node that a disturbance took, plus one.
	spent, lagged, dead uint8
	flipped             bool
	// excused pairs may be cut off; owed is how many reflector sessions a client is owed; fresh are reflectors whose first sessions are
	// still starting.
	excused pairSet
	owed    [maxNodes]uint8
	fresh   nodeSet
}

// visible is what the manager sees and remembers.
type visible struct {
	cluster uint32
	reports [maxNodes]uint32
	// how long ago, lost in a crash; no dates: the garbage collector would follow their pointers in each state
	meshSince, shortSince, straySince time.Duration

	back    bool // mode FullMesh
	second  bool // there is a second RouteReflectorPool
	unknown bool // the provider does not answer
	problem bool // the datastore reports a problem
}

// tick makes everything older.
func (m *model) tick(s *state) {
	m.edit(s, "tick", func(c *cluster) { c.dates(pass) })
	m.editReports(s, "tick", func(r *plan.Status) {
		pass(&r.Updated)
		pass(&r.Cleared)
		for i := range r.Sessions {
			pass(&r.Sessions[i].Since)
		}
	})
	s.meshSince, s.shortSince, s.straySince = older(s.meshSince), older(s.shortSince), older(s.straySince)
	for p, u := range s.up {
		if u == starting {
			s.up[p] = late
		}
	}
}

// crash loses what only the manager's memory holds.
func (m *model) crash(s *state) {
	s.meshSince, s.shortSince, s.straySince = never, never, never
	m.editReports(s, "crash", func(r *plan.Status) {
		r.Updated = time.Time{}
		if !r.Cleared.IsZero() {
			r.Cleared = today
		}
		for i := range r.Sessions {
			r.Sessions[i].Since = time.Time{}
		}
	})
}

// undate: what has been Established since an unknown time counts as long so.
func (m *model) undate(s *state) {
	m.editReports(s, "undate", func(r *plan.Status) {
		for i := range r.Sessions {
			if x := &r.Sessions[i]; x.Established && x.Since.IsZero() {
				x.Since = ago(longAgo)
			}
		}
	})
}

// editReports changes all reports. The name tells the change from all others.
func (m *model) editReports(s *state, name string, do func(r *plan.Status)) {
	for i, r := range s.reports {
		s.reports[i] = m.reports.edit(r, name, func(r *plan.Status) {
			r.Sessions = slices.Clone(r.Sessions)
			do(r)
		})
	}
}
