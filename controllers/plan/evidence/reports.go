package evidence

import (
	"fmt"
	"net/netip"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/rrpool/rrpool/controllers/plan"
)

const (
	// gatePeriod is the time between reports while a step waits for them. At other times it is restPeriod, or
	// smallPeriod up to smallCluster clients. From BigCluster clients on it is bigGatePeriod and bigRestPeriod: if one
	// address family has no sessions, Calico's reporter writes every period, changed or not, about 90 bytes a session.
	gatePeriod    = 2 * time.Second
	smallPeriod   = 10 * time.Second
	restPeriod    = 30 * time.Second
	smallCluster  = 200
	bigGatePeriod = 30 * time.Second
	bigRestPeriod = 5 * time.Minute
	// hungTime is how old a report may get before it is requested again, if the reporter writes only changes and its pod is Ready.
	hungTime = 15 * time.Minute
)

// report is what a node's status report says of the sessions configured by BGPPeers. In a large cluster every
// reflector has a session with every node, so addresses are numbered, and each report is read only once.
type report struct {
	// up tells, by the number of an address, whether there is an Established session with that address.
	up []bool
	// down are the sessions that are not Established.
	down []*plan.Session
}

// report returns the report of a node. If the node has none, the result has no sessions.
func (e *Evidence) report(node string) *report {
	r, known := e.reports[node]
	if known {
		return r
	}
	r = &report{up: make([]bool, len(e.numbers)+1)}
	sessions := e.cluster.Statuses[node].Sessions
	for i := range sessions {
		switch s := &sessions[i]; {
		case !isPeer(s.Kind):
		case s.Established:
			r.up[e.numbers[s.Peer]] = true
		default:
			r.down = append(r.down, s)
		}
	}
	r.up[0] = false // 0 is the number of every address that no node has
	e.reports[node] = r
	return r
}

// member is a node with the numbers of its addresses.
type member struct {
	*plan.Node
	numbers []int32
	// class is the node's class in the present network, if the reflectors are not all alike.
	class int
}

func (e *Evidence) members(nodes []plan.Node) []*member {
	out, numbers := make([]*member, len(nodes)), make([]int32, 0, 2*len(nodes))
	for i := range nodes {
		from := len(numbers)
		for _, a := range nodes[i].Addresses {
			numbers = append(numbers, e.numbers[a])
		}
		out[i] = &member{Node: &nodes[i], numbers: numbers[from:len(numbers):len(numbers)]}
	}
	return out
}

// has reports whether there is an Established session with the address of this number.
func (r *report) has(number int32) bool { return int(number) < len(r.up) && r.up[number] }

// isUp reports whether a node has an Established session at any address of m.
func (r *report) isUp(m *member) bool {
	return slices.ContainsFunc(m.numbers, r.has)
}

// number gives each address of a node a number, from 1.
func number(nodes []plan.Node) map[netip.Addr]int32 {
	out := make(map[netip.Addr]int32, len(nodes))
	for i := range nodes {
		for _, a := range nodes[i].Addresses {
			if _, known := out[a]; !known {
				out[a] = int32(len(out) + 1) //nolint:gosec // G115: as many as there are nodes
			}
		}
	}
	return out
}

// cleared reports whether a report was cleared and not filled in again.
func cleared(st plan.Status) bool { return !st.Cleared.IsZero() }

func isPeer(k plan.SessionKind) bool { return k != plan.SessionMesh }
func isMesh(k plan.SessionKind) bool { return k == plan.SessionMesh }
func isAny(plan.SessionKind) bool    { return true }

// established returns the addresses with which a node has Established sessions of this kind.
func established(st plan.Status, kind func(plan.SessionKind) bool) sets.Set[netip.Addr] {
	out := sets.Set[netip.Addr]{}
	for _, s := range st.Sessions {
		if s.Established && kind(s.Kind) {
			out.Insert(s.Peer)
		}
	}
	return out
}

// IsEstablished reports whether p, a BGPPeer of a ClusterPeering, has an Established session according to its node's report.
func (e *Evidence) IsEstablished(p plan.Peer) bool {
	n, ok := plan.First(e.cluster.Nodes, func(n plan.Node) bool { return n.Name == p.Node })
	there, err := netip.ParseAddr(p.PeerIP)
	return ok && err == nil && plan.Usable(n) && established(e.status(n), isPeer).Has(there)
}

// Stale returns the reflectors whose reports have to be requested again. Otherwise the
// safety net would not see that calico-node is gone from a node that is still Ready.
func (e *Evidence) Stale() []plan.Node { return plan.Filter(e.Current, e.isStale) }

// isStale reports whether the report of a reflector has to be requested again: it is cleared, or too old. A reporter writes
// when something has changed, and every period if one address family has no sessions. Any other silence is normal. The pods
// then show whether the reporter runs, but not whether it hangs. If the pods cannot be seen, every old report is stale.
func (e *Evidence) isStale(n plan.Node) bool {
	st, ok := e.cluster.Statuses[n.Name]
	switch {
	case !ok || !n.Ready || e.opts.Timer:
		return false
	case cleared(st):
		return true
	}
	switch {
	case n.CalicoNode.Failing():
		return st.Updated.Before(n.CalicoNode.Since) || e.clock.Passed(st.Updated, askAfter(n.CalicoNode, st.Updated))
	case n.CalicoNode.State == plan.CalicoNodeReady:
		return e.isStaleOfReady(n, st)
	}
	return e.clock.Passed(e.reportedAt(st), max(e.Period(true), freshFor)+Poll)
}

// isStaleOfReady is isStale for a reflector whose calico-node is Ready.
func (e *Evidence) isStaleOfReady(n plan.Node, st plan.Status) bool {
	switch {
	case e.reportedAt(st).Before(n.CalicoNode.Since):
		return true // pods came or went since, and anyone may have made the pod that is Ready
	case st.Regular && !st.Updated.IsZero():
		return e.clock.Passed(st.Updated, 3*e.Period(true))
	}
	return e.clock.Passed(e.reportedAt(st), hungTime) && !e.isVouchedFor(n)
}

// isVouchedFor reports whether n's old report need not be requested again, because another reflector's report shows that
// it is still true. Each request costs a write. If a younger report shows no session with a client as down, no old report
// is requested. If all reports are old, only the oldest is requested. If a reflector does not answer, all old reports are.
func (e *Evidence) isVouchedFor(n plan.Node) bool {
	oldest, mine := true, e.reportedAt(e.status(n))
	for _, o := range plan.Others(e.Current, n) {
		st, ok := e.cluster.Statuses[o.Name]
		switch at := e.reportedAt(st); {
		case !ok || !plan.Usable(o):
		case cleared(st) && e.isUnanswered(o, Silence):
			return false
		case cleared(st), !e.clock.Passed(at, hungTime):
			return !slices.ContainsFunc(e.report(o.Name).down, func(s *plan.Session) bool { return e.clientAddresses().Has(s.Peer) })
		default:
			oldest = oldest && (mine.Before(at) || mine.Equal(at) && n.Name < o.Name)
		}
	}
	return !oldest
}

// askAfter returns after how long to ask a reporter again that has answered although its pod fails. If there is a pod,
// the interval grows with the time since the failure, because the pod's state would change if the reporter stopped.
func askAfter(c plan.CalicoNode, answered time.Time) time.Duration {
	if c.State == plan.CalicoNodeNotReady {
		return max(freshFor, answered.Sub(c.Since)/2)
	}
	return freshFor
}

// reportedAt returns when a report arrived, or if it arrived before this process started, when it was written.
func (e *Evidence) reportedAt(st plan.Status) time.Time {
	if st.Updated.IsZero() && !st.Written.After(e.clock.now) {
		return st.Written
	}
	return st.Updated
}

// Period returns the time between a node's reports: at rest it is longer than while a step waits for them.
func (e *Evidence) Period(rest bool) time.Duration {
	big := len(e.Clients) >= BigCluster
	switch {
	case big && rest:
		return bigRestPeriod
	case big:
		return bigGatePeriod
	case rest && len(e.Clients) <= smallCluster:
		return smallPeriod
	case rest:
		return restPeriod
	}
	return gatePeriod
}

// request returns the request for the report of a node that a step waits for.
func (e *Evidence) request(n plan.Node, routes bool) plan.StatusRequest {
	return plan.StatusRequest{Node: n.Name, Period: e.Period(false), Routes: routes}
}

// unreadable returns what is waited for if parts of a node's report could not be parsed.
func unreadable(node string, unread []string) string {
	return fmt.Sprintf("a report of %s that rrpool can read: not known is %s", node, plan.Few(unread))
}

// Unreported returns which reports of reflectors are missing or unreadable while no step waits for them,
// and why. A reflector whose calico-node pod fails has more time to report, as the pod may restart.
func (e *Evidence) Unreported() (why string, missing []string) {
	why = "route reflectors have stopped reporting"
	for _, n := range e.Current {
		limit := Poll
		if n.CalicoNode.Failing() {
			limit = answerTime
		}
		st, reports := e.cluster.Statuses[n.Name]
		if reports && n.Ready && !e.opts.Timer && e.isUnanswered(n, limit) {
			missing = append(missing, "a status report from calico-node on "+n.Name)
		} else if len(st.Unread) > 0 {
			why, missing = "what route reflectors report cannot be read", append(missing, unreadable(n.Name, st.Unread))
		}
	}
	return why, missing
}

// inTurn returns no more than `most` elements of all. If there are more, others have their turn whenever the time long has passed.
func inTurn[T any](c *Clock, all []T, most int, long time.Duration) []T {
	if len(all) <= most {
		return all
	}
	turn := c.now.Truncate(long)
	c.In(turn.Add(long).Sub(c.now))
	from := int(turn.Unix()/int64(long/time.Second)) * most % len(all)
	return slices.Concat(all[from:], all[:from])[:most]
}
