package rollout

import (
	"fmt"
	"net/netip"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/rrpool/rrpool/controllers/plan"
	"github.com/rrpool/rrpool/controllers/plan/simulate"
)

// gate collects what is missing before a step may be taken.
type gate struct {
	waiting []string
	// proofs counts those of waiting that ask for nothing but time and fresh reports: all sessions are there.
	proofs int
	// refresh are nodes whose report says all is well but is too old to prove it.
	refresh []string
	// again is the shortest wait after which looking makes sense.
	again time.Duration
	// least is how long the sessions must have been Established.
	least time.Duration
	// watch and proven are the step's, whether it waits for the gate or has passed it.
	watch  []plan.StatusRequest
	proven []string
}

func (g *gate) open() bool { return len(g.waiting) == 0 }

// sessions reports whether every session is there, proven or not.
func (g *gate) sessions() bool { return len(g.waiting) == g.proofs }

func (g *gate) wait(format string, args ...any) {
	g.waiting = append(g.waiting, fmt.Sprintf(format, args...))
}

// report waits for a report of a node. One that exists and stays cleared is asked
// for again: the question may have been missed.
func (g *gate) report(node string, exists bool) {
	g.wait("a status report from %s", node)
	if exists {
		g.proofs++
		g.refresh = append(g.refresh, node)
	}
}

// takeOver waits for what is left of the time that nodes may need to render our last change.
func (g *gate) takeOver(all, left time.Duration) {
	g.wait("the nodes to take over the last change (%s)", all)
	g.in(left)
}

// in asks to look again after d.
func (g *gate) in(d time.Duration) { g.again = sooner(g.again, d) }

// step turns a closed gate into the step that waits for it.
func (g *gate) step(name, reason string) *Step {
	slices.Sort(g.waiting)
	s := &Step{
		Name: name, Reason: reason, WaitingFor: slices.Compact(g.waiting), Again: sooner(poll, g.again), Watch: g.watch,
		Proven: g.proven, Awaits: AwaitsSessions, Timeout: g.least,
	}
	for _, n := range g.refresh {
		s.Actions = append(s.Actions, plan.RefreshStatus{Node: n})
	}
	return s
}

// awaitTakeOver is the step that waits until nodes have rendered our last change.
func awaitTakeOver(all, left time.Duration, name, reason string) *Step {
	g := &gate{}
	g.takeOver(all, left)
	return g.step(name, reason)
}

// reflectorGate opens when every reflector in rs is in its role and has settled sessions with every client and
// every other reflector, most of them up for at least this long, seen after our last write had time to be rendered,
// and proven by a fresh report. It looks from the reflectors' side only: a reflector has a session with everyone.
func (v *view) reflectorGate(rs []plan.Node, least time.Duration) *gate {
	g := &gate{least: least}
	since := v.lastReady(rs)
	for _, r := range rs {
		since = latest(since, r.CalicoNode.Since)
		if v.d.Timer && r.CalicoNode.Failing() {
			g.wait("calico-node to be Ready on %s", r.Name)
		}
	}
	v.serveGate(g, rs, since, least, v.inRole, v.goal)
	return g
}

// nowGate opens when these reflectors, whatever their slots and cluster IDs, have all the
// sessions that are configured for them.
func (v *view) nowGate(rs []plan.Node) *gate {
	g := &gate{}
	v.serveGate(g, rs, v.lastReady(rs), 0, hasRole, v.present)
	return g
}

func (v *view) serveGate(
	g *gate, rs []plan.Node, since time.Time, least time.Duration, inRole func(plan.Node) bool, network func() *simulate.Network,
) {
	if len(rs) == 0 {
		g.wait("route reflectors: there are none")
	}
	if v.d.Timer {
		v.timerGate(g, since, least)
		return
	}
	for _, r := range rs {
		if !usable(r) || !inRole(r) {
			g.wait("route reflector %s to be Ready and in its role", r.Name)
			continue
		}
		v.sessionsOf(g, r, v.peersOf(network(), r, slices.Concat(v.served(), others(rs, r))), least)
	}
}

// lastReady is when these reflectors became what they are: Ready, and rendered as last written.
func (v *view) lastReady(rs []plan.Node) time.Time {
	last := v.lastWrite()
	for _, r := range rs {
		last = latest(last, r.ReadyChanged)
	}
	return last
}

// timerGate waits a fixed time after since, and after a node has come, where sessions cannot be seen. When all clients of a reflector
// come back to it at once, their routes take up to two and a half times the settle time (docs/capacity.md).
func (v *view) timerGate(g *gate, since time.Time, least time.Duration) {
	wait := max(timerWait+3*v.settle, least)
	if left := since.Add(wait).Sub(v.now); left > 0 {
		g.wait("%s to have passed since the last change, as not all sessions can be seen", wait)
		g.in(left)
	}
	for _, c := range v.clients {
		if left := latest(c.Created, c.ReadyChanged).Add(joinWait).Sub(v.now); left > 0 {
			g.wait("%s to have been Ready for %s, as not all sessions can be seen", c.Name, joinWait)
			g.in(left)
		}
	}
}

// sessionsOf looks for a reflector's sessions with these peers.
func (v *view) sessionsOf(g *gate, r plan.Node, peers []plan.Node, least time.Duration) {
	v.inReport(g, r.Name, v.lastWrite().Add(v.quiet), func(st plan.Status) time.Time {
		for _, p := range peers {
			if usable(p) && !p.IsOurs() && len(plan.Common(r, p)) < len(p.Addresses) {
				g.wait("%s to have every address family of %s", r.Name, p.Name)
			}
		}
		for _, s := range st.Sessions {
			if s.Kind == plan.SessionMesh {
				g.wait("%s to drop its mesh session with %s", r.Name, s.Peer)
			}
		}
		return v.settled(v.sessionsUp(g, st, r, peers, isPeer), len(peers), least)
	})
}

// inReport looks for something in a node's report: look waits for what is missing, and gives the time when the rest
// has settled. Where nothing is missing, the report has to prove that: see prove.
func (v *view) inReport(g *gate, node string, after time.Time, look func(plan.Status) (settled time.Time)) {
	st, ok := v.Statuses[node]
	if !ok || cleared(st) {
		g.report(node, ok)
		return
	}
	missing := len(g.waiting)
	if len(st.Unread) > 0 {
		g.wait("%s", legible(node, st.Unread))
	}
	settled := look(st)
	if st.Waiting > 0 {
		g.wait("BIRD on %s to pass on its routes: some of its sessions are Established and wait", node)
	}
	if len(g.waiting) == missing {
		v.prove(g, st, settled, after)
	}
}

// legible names what is waited for where a report has texts that could not be read.
func legible(node string, unread []string) string {
	return fmt.Sprintf("a report of %s that rrpool can read: not known is %s", node, plan.Few(unread))
}

// cleared is a report that was cleared and not filled in again.
func cleared(st plan.Status) bool { return !st.Cleared.IsZero() }

func isPeer(k plan.SessionKind) bool { return k != plan.SessionMesh }
func isMesh(k plan.SessionKind) bool { return k == plan.SessionMesh }
func isAny(plan.SessionKind) bool    { return true }

// established gives the peers that a node has sessions of this kind with.
func established(st plan.Status, kind func(plan.SessionKind) bool) sets.Set[netip.Addr] {
	out := sets.Set[netip.Addr]{}
	for _, s := range st.Sessions {
		if s.Established && kind(s.Kind) {
			out.Insert(s.Peer)
		}
	}
	return out
}

// sessionsUp checks that self has an Established session with each peer in every
// address family that both have, and gives the times since when they are.
func (v *view) sessionsUp(
	g *gate, st plan.Status, self plan.Node, peers []plan.Node, kind func(plan.SessionKind) bool,
) []time.Time {
	byAddr := map[netip.Addr]plan.Session{}
	for _, s := range st.Sessions {
		if kind(s.Kind) {
			byAddr[s.Peer] = s
		}
	}
	var since []time.Time
	for _, p := range peers {
		addrs := plan.Common(self, p)
		if len(addrs) == 0 {
			g.wait("%s and %s to have an address family in common", self.Name, p.Name)
		}
		for _, a := range addrs {
			if slices.Contains(self.Addresses, a) {
				continue // of another Node for the same host, or of a clash of two: no node has a session with itself
			}
			s, ok := byAddr[a]
			if !ok || !s.Established {
				g.wait("%s to be Established", sessionName(self, p))
			}
			since = append(since, s.Since)
		}
	}
	return since
}

// settled is when sessions that are up since then, of so many that a reflector has, have exchanged their routes. Each
// waits as long as BIRD takes for all that came up as late or later: one of a node that has just come waits for
// itself, and holds nothing else back. Most must have been up for the least time.
func (v *view) settled(since []time.Time, of int, least time.Duration) time.Time {
	slices.SortFunc(since, func(a, b time.Time) int { return b.Compare(a) })
	var last time.Time
	for i, up := range since {
		earlier := float64(max(of-i-1, 0)) / float64(max(of, 1))
		wait := settleTime(0) + time.Duration((1-earlier*earlier)*float64(v.settle-settleTime(0)))
		if i >= len(since)/2 {
			wait = max(wait, least)
		}
		last = latest(last, up.Add(wait))
	}
	return last
}

// sessionName names a session. Reflectors come first, else the order is that of the names.
func sessionName(a, b plan.Node) string {
	if !a.IsOurs() && (b.IsOurs() || b.Name < a.Name) {
		a, b = b, a
	}
	return a.Name + " ↔ " + b.Name
}

// prove demands a report that was received not before after, is fresh, and whose sessions have settled by now.
func (v *view) prove(g *gate, st plan.Status, settled, after time.Time) {
	closed := len(g.waiting)
	defer func() { g.proofs += len(g.waiting) - closed }()
	switch {
	case after.After(v.now):
		g.takeOver(v.quiet, after.Sub(v.now))
	case st.Updated.IsZero(), st.Updated.Before(after), v.now.Sub(st.Updated) > freshFor && !settled.After(v.now):
		g.wait("a fresh status report from %s", st.Node)
		g.refresh = append(g.refresh, st.Node)
	case settled.After(v.now):
		g.wait("the sessions of %s to settle (%s)", st.Node, v.settle)
		g.in(settled.Sub(v.now))
	}
}

func latest(times ...time.Time) time.Time { return slices.MaxFunc(times, time.Time.Compare) }

// filter gives the nodes for which this holds, in a slice of their own.
func filter[T any](all []T, this func(T) bool) []T {
	return slices.DeleteFunc(slices.Clone(all), func(one T) bool { return !this(one) })
}

// first gives the first for which this holds, if there is one.
func first[T any](all []T, this func(T) bool) (one T, ok bool) {
	i := slices.IndexFunc(all, this)
	if i < 0 {
		return one, false
	}
	return all[i], true
}

func others(nodes []plan.Node, self plan.Node) []plan.Node {
	return filter(nodes, func(n plan.Node) bool { return n.Name != self.Name })
}
