package evidence

import (
	"net/netip"
	"slices"
	"time"

	"github.com/rrpool/rrpool/controllers/plan"
)

const (
	// SteadyTime is how long, after the mesh had to take over, reflectors must have been Ready again and clients
	// have had sessions again before the mesh goes off, so that flapping nodes do not make the mesh flap.
	SteadyTime = 5 * time.Minute
	// flapTime is how long flapping clients can keep the mesh on after it had to take over.
	flapTime = time.Hour
)

// proveSteady demands that reflectors and clients have kept their sessions for SteadyTime since the mesh had to take over.
func (e *Evidence) proveSteady(p *Proof) {
	restored := e.cluster.BGP.Restored
	if restored.IsZero() {
		return
	}
	isUnsteady := func(back time.Time) bool {
		left := back.Add(SteadyTime).Sub(e.clock.now)
		if left <= 0 || !back.After(restored) {
			return false
		}
		p.In(left)
		p.Least = max(p.Least, SteadyTime)
		return true
	}
	clients := e.beforeRestored()
	for _, n := range e.network.Wanted {
		if isUnsteady(plan.Latest(n.ReadyChanged, e.sessionsBack(n, clients))) {
			p.Lack("route reflector %s to stay up for %s", n.Name, SteadyTime)
		}
	}
	if e.clock.Passed(restored, flapTime) {
		return
	}
	var flapping []string
	first := e.firstSessions(e.network.Wanted...)
	for _, c := range clients {
		if isUnsteady(lastOf(first, c)) {
			flapping = append(flapping, c.Name)
		}
	}
	if len(flapping) > 0 {
		p.Least = max(p.Least, flapTime)
		p.Lack("nodes that had no session to keep theirs for %s: %d: %s", SteadyTime, len(flapping), plan.Few(flapping))
	}
}

// beforeRestored returns the clients that were there when the mesh had to take over. It returns
// none if a write of rrpool has restarted sessions since: then the age of sessions shows nothing.
func (e *Evidence) beforeRestored() []plan.Node {
	restored := e.cluster.BGP.Restored
	if e.LastWrite().After(restored) {
		return nil
	}
	return plan.Filter(e.Clients, func(n plan.Node) bool { return !plan.Latest(n.Created, n.ReadyChanged).After(restored) })
}

// sessionsBack returns when more than half of a reflector's sessions with these clients were back after
// the mesh had to take over, zero if they are not. Sessions that come back later do not change the result.
func (e *Evidence) sessionsBack(n plan.Node, clients []plan.Node) time.Time {
	var back []time.Time
	first := e.firstSessions(n)
	for _, c := range clients {
		if since := lastOf(first, c); since.After(e.cluster.BGP.Restored) {
			back = append(back, since)
		}
	}
	if 2*len(back) <= len(clients) {
		return time.Time{}
	}
	slices.SortFunc(back, time.Time.Compare)
	return back[len(clients)/2]
}

// firstSessions returns, by peer address, since when the oldest Established session with any of these reflectors has been up.
func (e *Evidence) firstSessions(rs ...plan.Node) map[netip.Addr]time.Time {
	out := map[netip.Addr]time.Time{}
	for _, r := range rs {
		for _, s := range e.status(r).Sessions {
			if first, known := out[s.Peer]; s.Established && isPeer(s.Kind) && (!known || s.Since.Before(first)) {
				out[s.Peer] = s.Since
			}
		}
	}
	return out
}

// lastOf returns when the last of a node's addresses got a session, zero if none has one.
func lastOf(first map[netip.Addr]time.Time, n plan.Node) time.Time {
	var last time.Time
	for _, a := range n.Addresses {
		last = plan.Latest(last, first[a])
	}
	return last
}
