package rollout

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/rrpool/rrpool/controllers/plan"
)

// maxAsked bounds how many nodes without sessions are asked for a report of their own.
const maxAsked = 16

// unserved is a Ready client that no reflector has a session with, at one of its addresses.
// Its calico-node pod does not tell why: Calico's readiness probe fails where no session is
// Established, whether BIRD is dead or its packets get lost. Its own report does.
type unserved struct {
	plan.Node
	addr  netip.Addr
	since time.Time
}

// findUnserved goes by the reports of all reflectors that may be alive: while one is missing, or none answers, nothing is known.
func (v *view) findUnserved() {
	reflectors := filter(v.current, usable)
	unknown := func(n plan.Node) bool { _, ok := v.Statuses[n.Name]; return !ok }
	if v.d.Timer || len(v.witnesses()) == 0 || slices.ContainsFunc(reflectors, unknown) {
		return
	}
	v.unserved = []string{}
	reports, down := v.seenByReflectors()
	for _, c := range v.clients {
		i := slices.IndexFunc(c.Addresses, func(a netip.Addr) bool {
			unseen := !slices.ContainsFunc(reports, func(r *report) bool { return r.has(v.numbers[a]) })
			return unseen && slices.ContainsFunc(reflectors, func(r plan.Node) bool { return r.HasFamily(a) })
		})
		if i < 0 {
			continue
		}
		since, listed := down[c.Addresses[i]]
		if !listed {
			since = v.lastWrite() // no reflector is to peer with it, until a repair is rendered
		}
		due := latest(since.Add(v.d.NetAfter), c.Created.Add(timerWait), c.ReadyChanged.Add(timerWait))
		if v.passed(due, 0) {
			v.judge(unserved{c, c.Addresses[i], since}, due)
		}
	}
}

// seenByReflectors are their reports, and since when each address lacks a session with one.
func (v *view) seenByReflectors() (reports []*report, down map[netip.Addr]time.Time) {
	down = map[netip.Addr]time.Time{}
	for _, r := range v.witnesses() {
		seen := v.report(r.Name)
		reports = append(reports, seen)
		for _, s := range seen.down {
			down[s.Peer] = latest(down[s.Peer], cmp.Or(s.Since, v.reportedAt(v.Statuses[r.Name])))
		}
	}
	return reports, down
}

// judge goes by the client's own report, which may be younger than those of the reflectors:
// these come every 5 minutes in a large cluster. Without an answer it counts as unserved.
func (v *view) judge(c unserved, due time.Time) {
	if !v.BGP.MeshOn() && v.relied() && len(v.asked) < maxAsked {
		v.asked = append(v.asked, c)
	}
	up, down := v.reportedBy(c)
	illegible := slices.ContainsFunc(v.witnesses(), func(r plan.Node) bool { return len(v.Statuses[r.Name].Unread) > 0 })
	if down && !up && c.ClusterID == "" && v.passed(c.CalicoNode.Since, returnTime) {
		v.cutOff = append(v.cutOff, c.Name) // its BIRD runs, has not just started, and the mesh would reach it
	}
	if !up && (down || !illegible && v.passed(due, answerTime)) {
		v.unserved = append(v.unserved, c.Name)
	}
}

// reportedBy says whether a client has sessions with reflectors that are Established, or may be, and some that are not.
func (v *view) reportedBy(c unserved) (up, down bool) {
	if !v.answers(c) {
		return false, false
	}
	up = len(v.Statuses[c.Name].Unread) > 0
	for _, s := range v.Statuses[c.Name].Sessions {
		if isPeer(s.Kind) && s.Peer.Is4() == c.addr.Is4() {
			up, down = up || s.Established, down || !s.Established
		}
	}
	return up, down
}

// answers reports whether a client has reported since the reflectors lost it.
func (v *view) answers(c unserved) bool {
	st := v.Statuses[c.Name]
	return !cleared(st) && st.Updated.After(c.since)
}

// askUnserved adds to a step the reports of clients that are needed, also to a refusal, which otherwise asks for none.
func (v *view) askUnserved(s *Step) {
	for _, c := range v.asked {
		if !slices.ContainsFunc(s.Watch, func(w plan.StatusRequest) bool { return w.Node == c.Name }) {
			s.Watch = append(s.Watch, plan.StatusRequest{Node: c.Name, Period: smallPeriod})
		}
		if st, ok := v.Statuses[c.Name]; ok && !cleared(st) && !v.answers(c) {
			s.Actions = append(s.Actions, plan.RefreshStatus{Node: c.Name})
			v.lookIn(poll)
		}
	}
}

// reconnect switches the mesh on for clients that are cut off from every reflector. The gate before the mesh goes off
// again waits for the sessions that they lack. In a big cluster a mesh costs the other nodes more than it helps these.
func (v *view) reconnect() *Step {
	if len(v.cutOff) == 0 || len(v.clients) >= bigCluster {
		return nil
	}
	s := do("RestoreMesh", Unserved(v.cutOff)+", and BIRD runs there: the mesh takes over until they have", plan.RestoreMesh{})
	s.Urgent = true
	return s
}

// Unserved says which nodes have no session.
func Unserved(names []string) string {
	return fmt.Sprintf("Ready nodes without an Established session with any route reflector: %d: %s", len(names), plan.Few(names))
}
