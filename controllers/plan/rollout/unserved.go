package rollout

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/rrpool/rrpool/controllers/plan"
)

// maxAsked bounds how many nodes without sessions are asked at a time for a report of their own, askTurn is how long
// each has where there are more.
const (
	maxAsked = 16
	askTurn  = 30 * time.Second
)

// unserved is a client that no reflector has a session with, at one of its addresses.
// Its calico-node pod does not tell why: Calico's readiness probe fails where no session is
// Established, whether BIRD is dead or its packets get lost. Its own report does.
type unserved struct {
	plan.Node
	addr  netip.Addr
	since time.Time
}

// findUnserved goes by the reports of the reflectors that may be alive: while there is none, or none answers, nothing is known.
func (v *view) findUnserved() {
	unread := func(n plan.Node) bool { _, ok := v.Statuses[n.Name]; return !ok }
	witnesses := slices.DeleteFunc(v.witnesses(), unread)
	if v.d.Timer || len(witnesses) == 0 {
		return
	}
	v.unserved = []string{}
	reports, down := v.seenBy(witnesses)
	all, silent := !slices.ContainsFunc(v.current, func(n plan.Node) bool {
		return usable(n) && (unread(n) || len(v.Statuses[n.Name].Unread) > 0)
	}), []unserved{}
	workloads := v.clients
	if len(v.unready) > 0 { // nodes are large, and mostly all are Ready
		workloads = slices.Concat(v.clients, v.unready)
	}
	for _, c := range workloads {
		i := slices.IndexFunc(c.Addresses, func(a netip.Addr) bool {
			unseen := !slices.ContainsFunc(reports, func(r *report) bool { return r.has(v.numbers[a]) })
			return unseen && (v.common(a) || slices.ContainsFunc(witnesses, func(r plan.Node) bool { return r.HasFamily(a) }))
		})
		if i < 0 {
			continue
		}
		since, listed := down[c.Addresses[i]]
		if !listed {
			since = v.lastWrite() // no reflector is to peer with it, until a repair is rendered
		}
		due := latest(since.Add(v.d.NetAfter), c.Created.Add(timerWait), c.ReadyChanged.Add(timerWait))
		if !v.passed(due, 0) || !usable(c) && v.passed(due, deadTime) && !v.hasReported(c) {
			continue // not yet; or dead, as far as can be told
		}
		one := unserved{c, c.Addresses[i], since}
		silent = append(silent, one)
		v.judge(one, due, all)
	}
	if !all && len(v.unserved) == 0 {
		v.unserved = nil
	}
	v.ask(silent)
}

// common: two nodes or more that may run pods have an address of that family, and are to reach each other in it.
func (v *view) common(a netip.Addr) bool {
	if a.Is4() {
		return v.families[0] > 1
	}
	return v.families[1] > 1
}

// seenBy are the reports of reflectors, and since when each address lacks a session with one.
func (v *view) seenBy(witnesses []plan.Node) (reports []*report, down map[netip.Addr]time.Time) {
	down = map[netip.Addr]time.Time{}
	for _, r := range witnesses {
		seen := v.report(r.Name)
		reports = append(reports, seen)
		for _, s := range seen.down {
			down[s.Peer] = latest(down[s.Peer], cmp.Or(s.Since, v.reportedAt(v.Statuses[r.Name])))
		}
	}
	return reports, down
}

// ask chooses whose reports are asked for: all, or where they are many, some of them in turn. None stays unseen because
// others, whose BIRD is dead, do not answer.
func (v *view) ask(silent []unserved) {
	if v.BGP.MeshOn() || !v.relied() {
		return
	}
	v.asked = inTurn(v, silent, maxAsked, askTurn)
}

// inTurn are at most so many of all, each for a time.
func inTurn[T any](v *view, all []T, most int, long time.Duration) []T {
	if len(all) <= most {
		return all
	}
	turn := v.now.Truncate(long)
	v.lookIn(turn.Add(long).Sub(v.now))
	from := int(turn.Unix()/int64(long/time.Second)) * most % len(all)
	return slices.Concat(all[from:], all[:from])[:most]
}

// judge goes by the client's own report, which may be younger than those of the reflectors:
// these come every 5 minutes in a large cluster. Without an answer it counts as unserved, but for one that is not
// Ready, and where not all reflectors have reported in words that are known.
func (v *view) judge(c unserved, due time.Time, all bool) {
	up, down := v.reportedBy(c)
	if down && !up && c.ClusterID == "" && v.passed(c.CalicoNode.Since, returnTime) {
		v.cutOff = append(v.cutOff, c.Name) // its BIRD runs, has not just started, and the mesh would reach it
	}
	if usable(c.Node) && !up && (down || all && v.passed(due, answerTime)) {
		v.unserved = append(v.unserved, c.Name)
	}
}

// reportedBy says whether a client has sessions with reflectors that are Established, or may be, and some that are not.
func (v *view) reportedBy(c unserved) (up, down bool) {
	if !v.answers(c) {
		return false, false
	}
	up = len(v.Statuses[c.Name].Unread) > 0
	others := false
	for _, s := range v.Statuses[c.Name].Sessions {
		if isPeer(s.Kind) && s.Peer.Is4() == c.addr.Is4() {
			up, down = up || s.Established, down || !s.Established
		}
		others = others || s.Established && s.Peer.Is4() != c.addr.Is4()
	}
	return up, down || !up && others // no reflector has an address of the family any more
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
	whose := Unserved(v.cutOff)
	if slices.ContainsFunc(v.cutOff, func(name string) bool { return !slices.Contains(v.unserved, name) }) {
		whose = strings.TrimPrefix(whose, "Ready ") // the kubelets of some are down
	}
	s := do("RestoreMesh", whose+", and BIRD runs there: the mesh takes over until they have", plan.RestoreMesh{})
	s.Urgent = true
	return s
}

// Unserved says which nodes have no session.
func Unserved(names []string) string {
	return fmt.Sprintf("Ready nodes without an Established session with any route reflector: %d: %s", len(names), plan.Few(names))
}
