package evidence

import (
	"net/netip"
	"slices"
	"time"

	"github.com/rrpool/rrpool/controllers/plan"
)

// Claim says that reflectors serve clients.
type Claim struct {
	// Reflectors serve every client, and each other.
	Reflectors []plan.Node
	// Clients are the nodes to be served; nil means all clients of the cluster.
	Clients []plan.Node
	// AsConfigured: the sessions that are configured now count, and a reflector may have
	// any slot and cluster ID. Otherwise the planned sessions, slots and cluster IDs count.
	AsConfigured bool
	// Least is how long most of the sessions must have been Established.
	Least time.Duration
	// Steady: since the mesh last had to take over, no reflector and no client has flapped.
	Steady bool
}

// Prove returns what is missing until reflectors provably serve. Each needs the role, and settled sessions with every client
// and every other reflector, most of them Established for c.Least. A fresh report must show that, received after nodes had the
// time to render rrpool's last write. Only the reflectors' reports are needed, as each session has a reflector at one end.
func (e *Evidence) Prove(c Claim) *Proof {
	if c.Clients != nil {
		e = e.withClients(c.Clients)
	}
	p, since := &Proof{Least: c.Least}, e.lastReady(c.Reflectors)
	if !c.AsConfigured {
		for _, r := range c.Reflectors {
			since = plan.Latest(since, r.CalicoNode.Since)
			if e.opts.Timer && r.CalicoNode.Failing() {
				p.Lack("calico-node to be Ready on %s", r.Name)
			}
		}
	}
	if len(c.Reflectors) == 0 {
		p.Lack("route reflectors: there are none")
	}
	if e.opts.Timer {
		e.proveByTime(p, since, c.Least)
	} else {
		e.proveSessions(p, c)
	}
	if c.Steady {
		e.proveSteady(p)
	}
	return p
}

func (e *Evidence) proveSessions(p *Proof, c Claim) {
	hasRole, network := e.network.InAssignedSlot, e.network.Goal
	if c.AsConfigured {
		hasRole, network = plan.Node.HasLabelAndID, e.present
	}
	for _, r := range c.Reflectors {
		if !plan.Usable(r) || !hasRole(r) {
			p.Lack("route reflector %s to be Ready and in its role", r.Name)
			continue
		}
		e.proveSessionsOf(p, r, peersOf(network(), r, slices.Concat(e.served(), plan.Others(c.Reflectors, r))), c.Least)
	}
}

// proveByTime demands fixed waits if sessions cannot be seen: one after since, and one after each client became Ready. The first contains three
// times the settle time, as routes take up to two and a half times that if all clients of a reflector come back at once (docs/capacity.md).
func (e *Evidence) proveByTime(p *Proof, since time.Time, least time.Duration) {
	wait := max(TimerWait+3*e.Settle, least)
	if left := since.Add(wait).Sub(e.clock.now); left > 0 {
		p.Lack("%s to have passed since the last change, as not all sessions can be seen", wait)
		p.In(left)
	}
	for _, c := range e.Clients {
		if left := plan.Latest(c.Created, c.ReadyChanged).Add(joinWait).Sub(e.clock.now); left > 0 {
			p.Lack("%s to have been Ready for %s, as not all sessions can be seen", c.Name, joinWait)
			p.In(left)
		}
	}
}

// proveSessionsOf looks for a reflector's sessions with these peers.
func (e *Evidence) proveSessionsOf(p *Proof, r plan.Node, peers []plan.Node, least time.Duration) {
	e.inReport(p, r.Name, e.rendered(), func(st plan.Status) time.Time {
		for _, n := range peers {
			if plan.Usable(n) && !n.IsOurs() && len(plan.Common(r, n)) < len(n.Addresses) {
				p.Lack("%s to have every address family of %s", r.Name, n.Name)
			}
		}
		for _, s := range st.Sessions {
			if s.Kind == plan.SessionMesh {
				p.Lack("%s to drop its mesh session with %s", r.Name, s.Peer)
			}
		}
		return e.settled(sessionsUp(p, st, r, peers, isPeer), len(peers), least)
	})
}

// sessionsUp adds to p the sessions with peers that self lacks, one for each address
// family that both nodes have. It returns since when each session has its state.
func sessionsUp(p *Proof, st plan.Status, self plan.Node, peers []plan.Node, kind func(plan.SessionKind) bool) []time.Time {
	byAddr := map[netip.Addr]plan.Session{}
	for _, s := range st.Sessions {
		if kind(s.Kind) {
			byAddr[s.Peer] = s
		}
	}
	var since []time.Time
	for _, peer := range peers {
		addrs := plan.Common(self, peer)
		if len(addrs) == 0 {
			p.Lack("%s and %s to have an address family in common", self.Name, peer.Name)
		}
		for _, a := range addrs {
			if slices.Contains(self.Addresses, a) {
				continue // another Node has self's address, for the same host or by mistake: no node has a session with itself
			}
			s, ok := byAddr[a]
			if !ok || !s.Established {
				p.Lack("%s to be Established", sessionName(self, peer))
			}
			since = append(since, s.Since)
		}
	}
	return since
}

// settled returns when sessions that came up at the times in since have exchanged their routes; the argument of
// is the number of all sessions of the reflector. Each session gets as long as BIRD takes for all that came up at
// the same time or later, so a single node that has just joined adds only a short wait. Routes between earlier
// sessions, the share earlier², have been exchanged already. The older half must also have been up for least.
func (e *Evidence) settled(since []time.Time, of int, least time.Duration) time.Time {
	slices.SortFunc(since, func(a, b time.Time) int { return b.Compare(a) })
	var last time.Time
	for i, up := range since {
		earlier := float64(max(of-i-1, 0)) / float64(max(of, 1))
		wait := SettleTime(0) + time.Duration((1-earlier*earlier)*float64(e.Settle-SettleTime(0)))
		if i >= len(since)/2 {
			wait = max(wait, least)
		}
		last = plan.Latest(last, up.Add(wait))
	}
	return last
}

// ProveCarried returns what is missing until carriers carry x's routes, even if x loses its own sessions with clients. While the mesh
// is on, x relies on the mesh, so the carriers have to serve all nodes. While it is off, x relies on the carriers already.
func (e *Evidence) ProveCarried(x plan.Node, carriers []plan.Node) *Proof {
	if e.opts.Timer || e.cluster.BGP.MeshOn() {
		p := e.ProveWith(x, carriers)
		if !e.opts.Timer && len(e.Unready) > 0 {
			e.proveUnready(p, x, carriers)
		}
		return p
	}
	p := &Proof{}
	for _, r := range carriers {
		e.inReport(p, r.Name, e.rendered(), func(st plan.Status) time.Time {
			return e.settled(sessionsUp(p, st, r, []plan.Node{x}, isPeer), len(e.Clients), 0)
		})
	}
	if len(carriers) == 0 {
		p.Lack("a route reflector that serves")
	}
	return p
}

// ProveWith returns what is missing until these reflectors serve all clients and x, which counts as a client too.
func (e *Evidence) ProveWith(x plan.Node, reflectors []plan.Node) *Proof {
	clients := e.Clients
	if !plan.Includes(clients, x) {
		clients = append(slices.Clone(clients), x)
	}
	return e.Prove(Claim{Reflectors: reflectors, Clients: clients})
}

// proveUnready demands that the reflectors have a session with each unready node that
// x still reaches through the mesh. The report of x shows which nodes these are.
func (e *Evidence) proveUnready(p *Proof, x plan.Node, reflectors []plan.Node) {
	p.Watch = append(p.Watch, e.request(x, false))
	e.inReport(p, x.Name, e.rendered(), func(st plan.Status) time.Time {
		e.unreadySessions(p, st, reflectors)
		return e.clock.now
	})
}

// unreadySessions demands that these reflectors have their sessions with each unready
// node that the mesh reaches according to the report st. The mesh must not go off before.
func (e *Evidence) unreadySessions(p *Proof, st plan.Status, reflectors []plan.Node) {
	alive := e.unreadyWith(established(st, isMesh))
	for _, r := range reflectors {
		sessionsUp(p, e.status(r), r, peersOf(e.network.Goal(), r, alive), isPeer)
	}
}
