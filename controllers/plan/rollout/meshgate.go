package rollout

import (
	"time"

	"github.com/rrpool/rrpool/controllers/plan"
)

const (
	// meshBatch is how many nodes' mesh sessions are looked at together.
	meshBatch = 64
	// provenFor is how long a look at a batch counts while the others follow.
	provenFor = 30 * time.Minute
	// meshSettle is how long mesh sessions must be up: each carries one node's routes only.
	meshSettle = 3 * time.Second
	// gatePeriod is the time between reports while a step waits for them, restPeriod otherwise, and less in a small
	// cluster. Where one address family has no sessions, Calico's reporter writes every period, changed or not, and
	// about 90 bytes a session; from bigCluster nodes on that is asked for less often.
	gatePeriod    = 2 * time.Second
	smallPeriod   = 10 * time.Second
	restPeriod    = 30 * time.Second
	smallCluster  = 200
	bigCluster    = 1000
	bigGatePeriod = 30 * time.Second
	bigRestPeriod = 5 * time.Minute
)

// meshGate opens when the mesh carries the cluster by itself: every pair of Ready nodes that are not reflectors has
// its mesh session Established. It needs the status of all that can report, in batches where there are many. Where
// two cannot, nothing shows the session between them: it gets a fixed time.
func (v *view) meshGate() *gate {
	g := &gate{}
	if !v.BGP.MeshOn() {
		g.wait("the node-to-node mesh to be switched on")
		return g
	}
	if v.d.Timer || len(v.clients)-len(v.reporting()) > 1 {
		if v.MeshSince.IsZero() {
			v.MeshSince = v.now
		}
		v.timerGate(g, latest(v.BGP.Restored, v.MeshSince), 0)
	}
	if v.d.Timer {
		return g
	}
	if len(v.clients) == 0 && len(v.unready) > 0 {
		g.wait("a Ready node: its sessions show whether the mesh carries the others")
	}
	batch := v.unproven()
	v.proveBatch(g, batch)
	if g.open() && len(v.reporting()) > meshBatch && len(batch) > 0 {
		g.wait("the mesh sessions of the next nodes to be looked at")
		g.in(time.Second)
	}
	return g
}

// proveBatch looks at the mesh sessions of these nodes. Those that have them all are proven.
func (v *view) proveBatch(g *gate, batch []plan.Node) {
	for _, n := range batch {
		g.watch = append(g.watch, plan.StatusRequest{Node: n.Name, Period: v.period("")})
		before := len(g.waiting)
		v.meshSessions(g, n, isMesh)
		if len(g.waiting) == before {
			g.proven = append(g.proven, n.Name)
		}
	}
}

// unproven gives the nodes to look at now: all in a small cluster, else the
// first batch that no earlier look has covered.
func (v *view) unproven() []plan.Node {
	reporting := v.reporting()
	if len(reporting) <= meshBatch {
		return reporting
	}
	var batch []plan.Node
	for _, n := range reporting {
		seen := v.Proven[n.Name]
		if seen.After(latest(v.BGP.Restored, v.MeshSince, n.Created, n.ReadyChanged, v.ClockSet)) && v.now.Sub(seen) < provenFor {
			continue
		}
		if batch = append(batch, n); len(batch) == meshBatch {
			break
		}
	}
	return batch
}

func (v *view) meshSessions(g *gate, n plan.Node, kind func(plan.SessionKind) bool) {
	v.inReport(g, n.Name, latest(v.BGP.Restored, v.ClockSet).Add(v.quiet), func(st plan.Status) time.Time {
		return latest(append(v.sessionsUp(g, st, n, others(v.served(), n), kind), time.Time{})...).Add(meshSettle)
	})
}
