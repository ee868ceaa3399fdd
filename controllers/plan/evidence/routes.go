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
	// maxSampledPaths bounds the size of a sampled client's status. A path takes about 190 bytes, so the status
	// reaches half of etcd's limit of 1.5 MB. Calico's reporter lists every path in BIRD's table, or none.
	maxSampledPaths = 4000
	// recoveryTime is more than the 240 s for which BIRD, after its start, passes on no routes if one
	// of its neighbours does not come back. Its other peers report an Established session meanwhile.
	recoveryTime = 250 * time.Second
	// maxUnlisted is how many clients may fail to report their routes before no other client is asked for routes.
	maxUnlisted = 3
	// maxSamples bounds the number of sampled clients.
	maxSamples = 16
)

// ProveRoutes looks at the routes of sampled clients: at least the first and the last by name, so that each one's
// own routes are checked on the other. If clients cannot list their routes in reports, it looks at sessions: those
// of the sampled clients, and of each client whose BIRD may have started too recently to pass on its own routes.
func (e *Evidence) ProveRoutes() *Proof {
	p := &Proof{}
	if e.opts.Timer || len(e.Clients) == 0 || len(e.Clients)+len(e.Unready) < 2 {
		return p
	}
	sampled, listed := e.samples(), e.isListed()
	if !listed {
		p.Unlisted = fmt.Sprintf("; prefixes are not compared, as %s: BIRD's count shows that it passes on routes by every session", e.whyUnlisted())
		recent := plan.Filter(e.recent(), func(n plan.Node) bool { return !plan.Includes(sampled, n) })
		if len(recent) > meshBatch {
			p.Lack("all but %d nodes to have had a session for %s, as long as their BIRDs may hold routes back", meshBatch, recoveryTime)
			return p
		}
		sampled = append(sampled, recent...)
	}
	for _, c := range sampled {
		e.proveRoutesOf(p, c, listed)
	}
	for _, c := range e.unlisted() { // keep asking, so that it stays known that they list none
		if !plan.Includes(sampled, c) {
			p.Watch = append(p.Watch, e.request(c, false))
		}
	}
	return p
}

// MostPaths returns the most paths to one prefix that a sampled client holds in the present network.
func (e *Evidence) MostPaths() (paths int) {
	for _, c := range e.samples() {
		most, _ := e.network.Present.HeldPaths(c.Name, func(string) bool { return true })
		paths = max(paths, int(min(most.Paths, 1<<30)))
	}
	return paths
}

// isListed reports whether clients list routes in their reports: about all their paths fit, and not too many clients have failed to list theirs.
func (e *Evidence) isListed() bool {
	unlisted := len(e.unlisted())
	return e.pathsFit() && (unlisted == 0 || unlisted < min(maxUnlisted, len(e.reporting())))
}

func (e *Evidence) pathsFit() bool { return e.announced()*(e.paths()+1) <= maxSampledPaths }

// unlisted returns the clients that answer requests for sessions, but have not answered a request for routes.
func (e *Evidence) unlisted() []plan.Node {
	return plan.Filter(e.Clients, func(n plan.Node) bool { return e.status(n).RoutesUnanswered })
}

func (e *Evidence) whyUnlisted() string {
	if e.pathsFit() {
		return "calico-node cannot report them on " + e.unlisted()[0].Name + " and others"
	}
	return fmt.Sprintf("a node has more than the %d paths that a report can list", maxSampledPaths)
}

// recent returns the clients with an address for which no session with a reflector has been Established for recoveryTime.
func (e *Evidence) recent() []plan.Node {
	old := sets.Set[netip.Addr]{}
	for _, rr := range e.network.Wanted {
		for _, s := range e.status(rr).Sessions {
			if s.Established && !s.Since.IsZero() && e.clock.Since(s.Since) >= recoveryTime {
				old.Insert(s.Peer)
			}
		}
	}
	return plan.Filter(e.reporting(), func(n plan.Node) bool { return !old.HasAll(n.Addresses...) })
}

// samples returns the first and the last client that reports. If clients have different
// reflectors, it also returns one client of each group that has the same reflectors.
func (e *Evidence) samples() []plan.Node {
	clients := plan.Filter(e.reporting(), func(n plan.Node) bool { return !e.status(n).RoutesUnanswered })
	if len(clients) == 0 {
		clients = e.reporting()
	}
	if len(clients) < 2 {
		return clients
	}
	out := []plan.Node{clients[0], clients[len(clients)-1]}
	if !e.arranged() {
		return out
	}
	for _, class := range e.network.Goal().Classes() {
		i := slices.IndexFunc(clients, func(n plan.Node) bool { _, in := slices.BinarySearch(class.Nodes, n.Name); return in })
		if i >= 0 && !plan.Includes(out, clients[i]) && len(out) < maxSamples {
			out = append(out, clients[i])
		}
	}
	return out
}

// paths returns about how many paths a client holds to a prefix.
func (e *Evidence) paths() int {
	if !e.arranged() {
		return len(e.network.Wanted)
	}
	most := 0
	for _, c := range e.samples() {
		held := e.network.Goal().RIB(c.Name)
		most = max(most, int(min(held.Paths, 1<<20))/max(len(e.Clients), 1))
	}
	return most + 1
}

// proveRoutesOf demands that a client has each prefix from every one of its reflectors if it has
// the prefix from any of them or from the mesh. A session can be Established and exchange nothing.
func (e *Evidence) proveRoutesOf(p *Proof, c plan.Node, listed bool) {
	st, ok := e.cluster.Statuses[c.Name]
	lists := listed && (!ok || !cleared(st) || !e.clock.Passed(st.Cleared, plan.RoutesTimeout)) // if not, only its sessions are requested
	p.Watch = append(p.Watch, e.request(c, lists))
	e.inReport(p, c.Name, e.rendered(), func(st plan.Status) time.Time {
		if listed && len(st.UnreadRoutes) > 0 {
			p.Lack("%s", unreadable(c.Name, st.UnreadRoutes))
			return e.clock.now
		}
		if st.HasRoutes != listed {
			p.lackReport(c.Name, true)
			return e.clock.now
		}
		e.unreadySessions(p, st, e.network.Wanted)
		if listed {
			e.learned(p, st, c)
		}
		return e.clock.now
	})
}

// learned demands that c has each prefix from every reflector that is to pass it on to c.
func (e *Evidence) learned(p *Proof, st plan.Status, c plan.Node) {
	for prefix, senders := range e.senders(st, c) {
		for _, rr := range e.passing(prefix, c) {
			if !senders.HasAny(plan.Common(c, rr)...) && !e.ofServices(prefix) {
				p.Lack("%s to learn %s from %s", c.Name, prefix, rr.Name)
			}
		}
	}
}

// ofServices reports whether a prefix is a range or a single address of services and of no pod. No node needs
// such a prefix from BGP, and Calico's route reflectors do not pass on all of them (Calico issue 13341).
func (e *Evidence) ofServices(prefix netip.Prefix) bool {
	holds := func(r netip.Prefix) bool { return r.Bits() <= prefix.Bits() && r.Contains(prefix.Addr()) }
	return (prefix.IsSingleIP() && slices.ContainsFunc(e.cluster.BGP.Services, holds) || slices.Contains(e.cluster.BGP.Services, prefix)) &&
		!slices.ContainsFunc(e.cluster.Nodes, func(n plan.Node) bool { return slices.ContainsFunc(n.Blocks, holds) })
}

// passing returns the reflectors that are to pass a prefix on to c.
func (e *Evidence) passing(prefix netip.Prefix, c plan.Node) []plan.Node {
	if !e.arranged() {
		return e.announcing(prefix)
	}
	owner, known := e.blockOwners()[prefix]
	if !known {
		return nil // not a client's block: what passes on the blocks passes it on too
	}
	from := e.network.Goal().Senders(owner, c.Name)
	return plan.Filter(e.network.Wanted, func(n plan.Node) bool { return slices.Contains(from, n.Name) })
}

// blockOwners returns the name of the client that owns each block.
func (e *Evidence) blockOwners() map[netip.Prefix]string {
	if e.owners == nil {
		e.owners = map[netip.Prefix]string{}
		for _, n := range e.Clients {
			for _, b := range n.Blocks {
				e.owners[b] = n.Name
			}
		}
	}
	return e.owners
}

// announcing returns the reflectors that have no larger block containing the prefix: a reflector announces no part
// of its own block, such as an address that has moved to another node. If each has such a block, it returns all.
func (e *Evidence) announcing(prefix netip.Prefix) []plan.Node {
	others := plan.Filter(e.network.Wanted, func(rr plan.Node) bool {
		return !slices.ContainsFunc(rr.Blocks, func(b netip.Prefix) bool { return b.Bits() < prefix.Bits() && b.Contains(prefix.Addr()) })
	})
	if len(others) == 0 {
		return e.network.Wanted
	}
	return others
}

// senders returns, for each prefix that a client has from the mesh or a reflector, the addresses that sent it. Unheard blocks have no sender.
func (e *Evidence) senders(st plan.Status, c plan.Node) map[netip.Prefix]sets.Set[netip.Addr] {
	inCluster := established(st, isMesh)
	for _, rr := range e.network.Wanted {
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
	for _, b := range e.unheard(st, c, from) {
		from[b] = nil
	}
	return from
}

// unheard returns the blocks of other clients that c has from no peer. It leaves out blocks that their node
// does not announce: a block of a node with which c has a mesh session, while the mesh brings other routes;
// a block that BGP does not export; and a single address, which is announced only once a pod has it.
func (e *Evidence) unheard(st plan.Status, c plan.Node, from map[netip.Prefix]sets.Set[netip.Addr]) []netip.Prefix {
	mesh := established(st, isMesh)
	brings := slices.ContainsFunc(st.Routes, func(r plan.Route) bool { return mesh.Has(r.From) })
	var out []netip.Prefix
	for _, n := range plan.Others(e.Clients, c) {
		if brings && mesh.HasAny(n.Addresses...) {
			continue
		}
		for _, b := range n.Blocks {
			if from[b] == nil && !b.IsSingleIP() && !e.cluster.Routes.Withheld(b) {
				out = append(out, b)
			}
		}
	}
	return out
}
