package rollout

import (
	"fmt"
	"net/netip"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/rrpool/rrpool/controllers/plan"
)

const (
	// maxSampledPaths bounds the size of a sampled client's status: about 190 bytes a path, far from
	// etcd's 1.5 MB. Calico's reporter lists every path of BIRD's table, or none.
	maxSampledPaths = 4000
	// recoveryTime is more than the 240 s for which a BIRD that has started passes on nothing when
	// a neighbour does not come back. Its peers' reports show an Established session meanwhile.
	recoveryTime = 250 * time.Second
)

// disableMesh switches the mesh off once every node has what it needs from the
// reflectors: sessions, settled, and on sampled clients every route as well.
func disableMesh(v *view) *Step {
	if !v.BGP.MeshOn() {
		return nil
	}
	if s := v.reversed(); s != nil {
		return s
	}
	stays := "the mesh stays on until every node has its routes from every route reflector"
	g := v.reflectorGate(v.wanted, 0)
	if len(v.clients) == 0 {
		g.wait("a Ready node to serve")
	}
	if !v.complete() {
		g.wait("%d route reflectors, there are %d", v.total, len(filter(v.wanted, func(n plan.Node) bool { return usable(n) && v.inRole(n) })))
	}
	v.steadyGate(g)
	v.pathsGate(g)
	if !g.sessions() {
		return g.step("AwaitSessions", stays)
	}
	unlisted, listed := "", v.d.Timer || v.listed()
	if !listed {
		unlisted = fmt.Sprintf("; prefixes are not compared, as %s: BIRD's count shows that it passes on routes by every session", v.whyUnlisted())
	}
	v.poolsGate(g)
	if v.sampleGate(g, listed); !g.open() {
		return g.step("AwaitRoutes", stays+unlisted)
	}
	saved, absent := v.meshBefore()
	whose := fmt.Sprintf("all %d route reflectors", len(v.wanted))
	if v.arranged() {
		whose = fmt.Sprintf("their route reflectors, of %d in topology %s", len(v.wanted), v.arrangement.Kind)
	}
	reason := fmt.Sprintf("all %d nodes have Established sessions with %s%s", len(v.clients), whose, unlisted)
	s := do("DisableMesh", reason, plan.DisableMesh{Saved: saved, SavedAbsent: absent})
	s.Watch = g.watch
	return s
}

// pathsGate keeps the mesh while the BGPPeers and roles, as they are, multiply the paths: BIRD would hold them all.
func (v *view) pathsGate(g *gate) {
	if !v.arranged() {
		return
	}
	if paths := v.multiplied(); paths > 0 {
		g.wait("at most %d paths to each prefix: with the BGPPeers and roles as they are, a node has %d", v.mostPaths(), paths)
	}
}

// steadyTime is how long reflectors must have been Ready again, and clients have had sessions again,
// after the mesh had to take over from them, so that what flaps does not make the mesh flap.
const steadyTime = 5 * time.Minute

// flapTime is how long after the mesh had to take over clients that flap can keep it on.
const flapTime = time.Hour

func (v *view) steadyGate(g *gate) {
	if v.BGP.Restored.IsZero() {
		return
	}
	unsteady := func(back time.Time) bool {
		left := back.Add(steadyTime).Sub(v.now)
		if left <= 0 || !back.After(v.BGP.Restored) {
			return false
		}
		g.in(left)
		g.least = max(g.least, steadyTime)
		return true
	}
	clients := v.beforeRestored()
	for _, n := range v.wanted {
		if unsteady(latest(n.ReadyChanged, v.sessionsBack(n, clients))) {
			g.wait("route reflector %s to stay up for %s", n.Name, steadyTime)
		}
	}
	if v.passed(v.BGP.Restored, flapTime) {
		return
	}
	var flapping []string
	first := v.firstSessions(v.wanted...)
	for _, c := range clients {
		if unsteady(lastOf(first, c)) {
			flapping = append(flapping, c.Name)
		}
	}
	if len(flapping) > 0 {
		g.least = max(g.least, flapTime)
		g.wait("nodes that had no session to keep theirs for %s: %d: %s", steadyTime, len(flapping), plan.Few(flapping))
	}
}

// beforeRestored are the clients that were there when the mesh had to take over. None where a change of
// ours has restarted sessions since: their age says nothing then.
func (v *view) beforeRestored() []plan.Node {
	if v.lastWrite().After(v.BGP.Restored) {
		return nil
	}
	return filter(v.clients, func(n plan.Node) bool { return !latest(n.Created, n.ReadyChanged).After(v.BGP.Restored) })
}

// sessionsBack is when a reflector had most of its sessions with these clients back by themselves after
// the mesh had to take over, zero when it did not: those that came later change nothing.
func (v *view) sessionsBack(n plan.Node, clients []plan.Node) time.Time {
	var back []time.Time
	first := v.firstSessions(n)
	for _, c := range clients {
		if since := lastOf(first, c); since.After(v.BGP.Restored) {
			back = append(back, since)
		}
	}
	if 2*len(back) <= len(clients) {
		return time.Time{}
	}
	slices.SortFunc(back, time.Time.Compare)
	return back[len(clients)/2]
}

// firstSessions gives, by address, since when a peer has had a session with one of these reflectors.
func (v *view) firstSessions(rs ...plan.Node) map[netip.Addr]time.Time {
	out := map[netip.Addr]time.Time{}
	for _, r := range rs {
		for _, s := range v.Statuses[r.Name].Sessions {
			if first, known := out[s.Peer]; s.Established && isPeer(s.Kind) && (!known || s.Since.Before(first)) {
				out[s.Peer] = s.Since
			}
		}
	}
	return out
}

// lastOf gives the last of a node's addresses to have got a session, zero where none has one.
func lastOf(first map[netip.Addr]time.Time, n plan.Node) time.Time {
	var last time.Time
	for _, a := range n.Addresses {
		last = latest(last, first[a])
	}
	return last
}

// meshBefore is what a return to the mesh has to restore. What was saved the first time stays: a mesh that was
// switched on meanwhile is not what was there before, save for a password that it brings along.
func (v *view) meshBefore() (plan.Mesh, bool) {
	if v.BGP.Saved == nil {
		return v.BGP.Mesh, !v.BGP.Exists
	}
	saved, absent := *v.BGP.Saved, v.BGP.SavedAbsent
	if p := v.BGP.Mesh.Password; p != nil {
		saved.Password, absent = p, false
	}
	return saved, absent
}

// sampleGate looks at the routes of sampled clients: the first and the last by name, so that each one's own routes
// are checked on the other. Where reports of routes would be too large it looks at their sessions, and at those of
// each client whose BIRD may have started too recently to pass on its own routes.
func (v *view) sampleGate(g *gate, routes bool) {
	if v.d.Timer || len(v.clients) == 0 || len(v.clients)+len(v.unready) < 2 {
		return
	}
	sampled := v.samples()
	if !routes {
		recent := filter(v.recent(), func(n plan.Node) bool { return !named(sampled, n) })
		if len(recent) > meshBatch {
			g.wait("all but %d nodes to have had a session for %s, as long as their BIRDs may hold routes back", meshBatch, recoveryTime)
			return
		}
		sampled = append(sampled, recent...)
	}
	for _, c := range sampled {
		st, ok := v.Statuses[c.Name]
		lists := routes && (!ok || !cleared(st) || !v.passed(st.Cleared, plan.RoutesTimeout)) // else it is asked for its sessions alone
		g.watch = append(g.watch, plan.StatusRequest{Node: c.Name, Period: v.period(""), Routes: lists})
		v.routesGate(g, c, routes)
	}
	for _, c := range v.unlisted() { // asked on, so that it stays known
		if !named(sampled, c) {
			g.watch = append(g.watch, plan.StatusRequest{Node: c.Name, Period: v.period("")})
		}
	}
}

// listed reports whether a client's report can list all paths that it holds, about, and lists routes at all.
func (v *view) listed() bool {
	unlisted := len(v.unlisted())
	return v.fits() && (unlisted == 0 || unlisted < min(maxUnlisted, len(v.reporting())))
}

func (v *view) fits() bool { return v.announced()*(v.paths()+1) <= maxSampledPaths }

// maxUnlisted is how many clients may fail to report their routes until no other is tried.
const maxUnlisted = 3

// unlisted are the clients that report their sessions, and not when they are asked for routes as well.
func (v *view) unlisted() []plan.Node {
	return filter(v.clients, func(n plan.Node) bool { return v.Statuses[n.Name].RoutesUnanswered })
}

func (v *view) whyUnlisted() string {
	if v.fits() {
		return "calico-node cannot report them on " + v.unlisted()[0].Name + " and others"
	}
	return fmt.Sprintf("a node has more than the %d paths that a report can list", maxSampledPaths)
}

// recent are the clients that have not had any session with a reflector for recoveryTime, in each address family.
func (v *view) recent() []plan.Node {
	old := sets.Set[netip.Addr]{}
	for _, rr := range v.wanted {
		for _, s := range v.Statuses[rr.Name].Sessions {
			if s.Established && !s.Since.IsZero() && v.now.Sub(s.Since) >= recoveryTime {
				old.Insert(s.Peer)
			}
		}
	}
	return filter(v.reporting(), func(n plan.Node) bool { return !old.HasAll(n.Addresses...) })
}

// samples are the first and the last client that reports, and where they have different reflectors one of each group.
func (v *view) samples() []plan.Node {
	clients := filter(v.reporting(), func(n plan.Node) bool { return !v.Statuses[n.Name].RoutesUnanswered })
	if len(clients) == 0 {
		clients = v.reporting()
	}
	if len(clients) < 2 {
		return clients
	}
	out := []plan.Node{clients[0], clients[len(clients)-1]}
	if !v.arranged() {
		return out
	}
	for _, class := range v.goal().Classes() {
		i := slices.IndexFunc(clients, func(n plan.Node) bool { _, in := slices.BinarySearch(class.Nodes, n.Name); return in })
		if i >= 0 && !named(out, clients[i]) && len(out) < maxSamples {
			out = append(out, clients[i])
		}
	}
	return out
}

// maxSamples bounds the number of clients that are looked at.
const maxSamples = 16

// paths is how many a client holds to a prefix, about.
func (v *view) paths() int {
	if !v.arranged() {
		return len(v.wanted)
	}
	most := 0
	for _, c := range v.samples() {
		held := v.goal().RIB(c.Name)
		most = max(most, int(min(held.Paths, 1<<20))/max(len(v.clients), 1))
	}
	return most + 1
}

// routesGate demands that a client has from every reflector each prefix that it has from the mesh or from any other
// reflector. A session can be Established and exchange nothing.
func (v *view) routesGate(g *gate, c plan.Node, routes bool) {
	v.inReport(g, c.Name, v.lastWrite().Add(v.quiet), func(st plan.Status) time.Time {
		if routes && len(st.UnreadRoutes) > 0 {
			g.wait("%s", legible(c.Name, st.UnreadRoutes))
			return v.now
		}
		if st.HasRoutes != routes {
			g.report(c.Name, true)
			return v.now
		}
		v.unreadyGate(g, st, v.wanted)
		if routes {
			v.learned(g, st, c)
		}
		return v.now
	})
}

// learned demands every prefix from every reflector.
func (v *view) learned(g *gate, st plan.Status, c plan.Node) {
	for prefix, senders := range v.senders(st, c) {
		for _, rr := range v.passing(prefix, c) {
			if !senders.HasAny(plan.Common(c, rr)...) && !v.ofServices(prefix) {
				g.wait("%s to learn %s from %s", c.Name, prefix, rr.Name)
			}
		}
	}
}

// ofServices reports whether a prefix is a range or a single address of services and of no pod: no node needs it from
// BGP, and Calico's route reflectors do not pass on each (Calico issue 13341).
func (v *view) ofServices(prefix netip.Prefix) bool {
	holds := func(r netip.Prefix) bool { return r.Bits() <= prefix.Bits() && r.Contains(prefix.Addr()) }
	return (prefix.IsSingleIP() && slices.ContainsFunc(v.BGP.Services, holds) || slices.Contains(v.BGP.Services, prefix)) &&
		!slices.ContainsFunc(v.Nodes, func(n plan.Node) bool { return slices.ContainsFunc(n.Blocks, holds) })
}

// passing are the reflectors that are to pass a prefix on to c.
func (v *view) passing(prefix netip.Prefix, c plan.Node) []plan.Node {
	if !v.arranged() {
		return v.announcing(prefix)
	}
	owner, known := v.arrangement.owners[prefix]
	if !known {
		return nil // not a node's block: whatever passes on the others passes it on
	}
	from := v.goal().Senders(owner, c.Name)
	return filter(v.wanted, func(n plan.Node) bool { return slices.Contains(from, n.Name) })
}

// announcing are the reflectors without a block of which the prefix is a part, all if each has one: from its own block a reflector announces no part,
// such as an address that has moved to another node.
func (v *view) announcing(prefix netip.Prefix) []plan.Node {
	others := filter(v.wanted, func(rr plan.Node) bool {
		return !slices.ContainsFunc(rr.Blocks, func(b netip.Prefix) bool { return b.Bits() < prefix.Bits() && b.Contains(prefix.Addr()) })
	})
	if len(others) == 0 {
		return v.wanted
	}
	return others
}

// unreadyGate demands that a node which is not Ready, and which the mesh still reaches from where st comes from,
// has its sessions with these reflectors before the mesh goes there.
func (v *view) unreadyGate(g *gate, st plan.Status, rs []plan.Node) {
	alive := v.unreadyWith(established(st, isMesh))
	for _, rr := range rs {
		v.sessionsUp(g, v.Statuses[rr.Name], rr, v.peersOf(v.goal(), rr, alive), isPeer)
	}
}

// senders gives, for each prefix that a client has from the mesh or a reflector, who sent it.
func (v *view) senders(st plan.Status, c plan.Node) map[netip.Prefix]sets.Set[netip.Addr] {
	inCluster := established(st, isMesh)
	for _, rr := range v.wanted {
		inCluster.Insert(plan.Common(c, rr)...)
	}
	from := map[netip.Prefix]sets.Set[netip.Addr]{}
	for _, r := range st.Routes {
		if !inCluster.Has(r.From) {
			continue
		}
		if from[r.Prefix] == nil {
			from[r.Prefix] = sets.Set[netip.Addr]{}
		}
		from[r.Prefix].Insert(r.From)
	}
	for _, b := range v.unheard(st, c, from) {
		from[b] = nil
	}
	return from
}

// unheard are the blocks of other nodes that c has from no peer. One whose node c has a mesh session with, while
// the mesh brings other routes, is not announced at all. Neither is one that BGP does not export, or a single address until a pod has it.
func (v *view) unheard(st plan.Status, c plan.Node, from map[netip.Prefix]sets.Set[netip.Addr]) []netip.Prefix {
	mesh := established(st, isMesh)
	brings := slices.ContainsFunc(st.Routes, func(r plan.Route) bool { return mesh.Has(r.From) })
	var out []netip.Prefix
	for _, n := range others(v.clients, c) {
		if brings && mesh.HasAny(n.Addresses...) {
			continue
		}
		for _, b := range n.Blocks {
			if from[b] == nil && !b.IsSingleIP() && !v.Routes.Withheld(b) {
				out = append(out, b)
			}
		}
	}
	return out
}
