package pool

import (
	"net/netip"
	"slices"
	"time"

	"github.com/rrpool/rrpool/controllers/plan"
)

const (
	// youth is how long a node may take to get its first session.
	youth = 75 * time.Second
	// silence is how long a reporter that was asked may say nothing before its report counts no more.
	silence = time.Minute
)

// unserved counts the Ready clients that have no Established session with any reflector,
// and says whether that can be told.
func unserved(t *turn) (count int, told bool) {
	served, told := reached(t)
	for _, n := range clientsOf(t) {
		if settledIn(n, t.now) && !n.HoldsRole() && !slices.ContainsFunc(n.Addresses, func(a netip.Addr) bool { return served[a] }) {
			count++
		}
	}
	return count, told && !t.desired.Timer
}

// reached are the addresses that reflectors have sessions with; of each Ready reflector
// there has to be a report.
func reached(t *turn) (served map[netip.Addr]bool, told bool) {
	served = map[netip.Addr]bool{}
	for _, n := range t.cluster.Nodes {
		if !n.HoldsRole() || !n.Ready {
			continue
		}
		report, ok := t.cluster.Statuses[n.Name]
		if !ok {
			return nil, false
		}
		told = true
		if report.Cleared.IsZero() || t.now.Sub(report.Cleared) <= silence {
			addPeers(served, report)
		}
	}
	return served, told
}

func addPeers(served map[netip.Addr]bool, report plan.Status) {
	for _, s := range report.Sessions {
		if s.Established && s.Kind != plan.SessionMesh {
			served[s.Peer] = true
		}
	}
}

// settledIn: the node is Ready and has been for long enough to have sessions.
func settledIn(n plan.Node, now time.Time) bool {
	return n.Ready && !n.Deleting && now.Sub(n.Created) >= youth && now.Sub(n.ReadyChanged) >= youth
}

// netDue: the mesh is off, and fewer reflectors serve than should. On the way back to the
// mesh the plan does not count them: restoring it is the first step of all.
func netDue(t *turn) bool {
	if t.step.Short || t.reflecting() || t.cluster.BGP.MeshOn() {
		return t.step.Short
	}
	count, serving := 0, 0
	for _, n := range t.cluster.Nodes {
		if n.HoldsRole() {
			count++
		}
	}
	if count == 0 && t.cluster.BGP.Saved == nil && !restores(t.step) {
		return false // somebody else keeps it off, and rrpool has no part in it
	}
	for _, r := range t.step.Reflectors {
		if r.Serving {
			serving++
		}
	}
	return serving < max(1, min(count, t.desired.MinServing))
}
