package topology

import (
	"net/netip"
	"slices"

	"github.com/rrpool/rrpool/controllers/plan"
)

// sessions of a reflector with a node, as the reflector reports them.
func (s *scene) sessions(reflector, node plan.Node, with families) Sessions {
	var out Sessions
	for _, addr := range node.Addresses {
		if with.has(addr) {
			out.add(count1(s.seen(reflector, addr)))
		}
	}
	return out
}

// between two reflectors both report: a session is up when nobody who knows denies it.
func (s *scene) between(a, b plan.Node, with families) Sessions {
	var out Sessions
	for _, addr := range b.Addresses {
		i := slices.IndexFunc(a.Addresses, func(x netip.Addr) bool { return x.Is4() == addr.Is4() })
		if i < 0 || !with.has(addr) {
			continue
		}
		here, there := s.seen(a, addr), s.seen(b, a.Addresses[i])
		if here == unknown || there == down0 {
			here = there
		}
		out.add(count1(here))
	}
	return out
}

func count1(s state) Sessions {
	switch s {
	case up:
		return Sessions{Expected: 1, Established: 1}
	case unknown:
		return Sessions{Expected: 1, Unknown: 1}
	default:
		return Sessions{Expected: 1}
	}
}

// seen is what a reflector reports about its session with an address. The last word of
// one that is not Ready may be long out of date, and a blank report says nothing.
func (s *scene) seen(reflector plan.Node, addr netip.Addr) state {
	if s.planned {
		return planned
	}
	report, ok := s.Statuses[reflector.Name]
	if !ok || !reflector.Ready || !report.Cleared.IsZero() && len(report.Sessions) == 0 {
		return unknown
	}
	i, found := slices.BinarySearchFunc(report.Sessions, addr, func(s plan.Session, a netip.Addr) int { return s.Peer.Compare(a) })
	for ; found && i < len(report.Sessions) && report.Sessions[i].Peer == addr; i++ {
		if report.Sessions[i].Established && report.Sessions[i].Kind != plan.SessionMesh {
			return up
		}
	}
	return down0
}
