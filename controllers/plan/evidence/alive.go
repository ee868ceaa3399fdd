package evidence

import (
	"net/netip"
	"slices"

	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/rrpool/rrpool/controllers/plan"
)

// served returns the nodes that reflectors must serve, or the mesh must reach: all clients, and the unready nodes that are known to be alive.
func (e *Evidence) served() []plan.Node {
	if len(e.Unready) == 0 {
		return e.Clients
	}
	if e.alive == nil {
		e.alive = slices.Concat(e.Clients, e.heard())
	}
	return e.alive
}

// relying returns the nodes that have to stay connected: those that served returns.
// If these are fewer than least, it returns all clients and unready nodes.
func (e *Evidence) relying(least int) []plan.Node {
	if alive := e.served(); len(alive) >= least {
		return alive
	}
	return slices.Concat(e.Clients, e.Unready)
}

// heard returns the unready nodes that a reflector has a session with, or that have reported since they became unready. It leaves out a node that
// has an Established session with a reflector that is to stay, but lacks another session for longer than any takes to start: a host that is cut
// off looks like that until BIRD's hold time (240 s) ends. If such a node is alive after all, it keeps its session with the reflector that stays.
func (e *Evidence) heard() []plan.Node {
	witnesses := e.witnesses()
	down, wanted := e.longDown(witnesses), make([]bool, len(witnesses))
	for i, h := range witnesses {
		wanted[i] = plan.Includes(e.network.Wanted, h)
	}
	return plan.Filter(e.Unready, func(n plan.Node) bool {
		up, stays := false, false
		for _, a := range n.Addresses {
			for i, h := range witnesses {
				has := e.report(h.Name).has(e.numbers[a])
				up, stays = up || has, stays || has && wanted[i]
			}
		}
		if up {
			return !stays || !down.HasAny(n.Addresses...)
		}
		return e.hasReported(n)
	})
}

// longDown returns the addresses for which a witness has reported a session as down for longer than any session takes to start.
func (e *Evidence) longDown(witnesses []plan.Node) sets.Set[netip.Addr] {
	down := sets.Set[netip.Addr]{}
	for _, h := range witnesses {
		for _, s := range e.report(h.Name).down {
			if !s.Since.IsZero() && e.clock.Since(s.Since) > TimerWait {
				down.Insert(s.Peer)
			}
		}
	}
	return down
}

// hasReported reports whether a node has reported since it stopped being Ready.
func (e *Evidence) hasReported(n plan.Node) bool {
	st, ok := e.cluster.Statuses[n.Name]
	return ok && !cleared(st) && st.Updated.After(n.ReadyChanged)
}

// witnesses returns the reflectors whose reports show which nodes are alive. It leaves out
// reflectors that are dead or do not answer, because their last reports will never change.
func (e *Evidence) witnesses() []plan.Node {
	return plan.Filter(e.Current, func(n plan.Node) bool {
		st := e.status(n)
		return plan.Usable(n) && (!cleared(st) || e.clock.Since(st.Cleared) <= Silence)
	})
}

// unreadyWith returns the unready nodes that have one of these addresses.
func (e *Evidence) unreadyWith(addrs sets.Set[netip.Addr]) []plan.Node {
	return plan.Filter(e.Unready, func(n plan.Node) bool { return addrs.HasAny(n.Addresses...) })
}

// HasSession reports whether a reflector, other than n itself, reports an Established session with n.
func (e *Evidence) HasSession(n plan.Node) bool {
	return slices.ContainsFunc(plan.Others(e.witnesses(), n), func(h plan.Node) bool {
		return slices.ContainsFunc(e.status(h).Sessions, func(s plan.Session) bool {
			return s.Established && slices.Contains(n.Addresses, s.Peer)
		})
	})
}
