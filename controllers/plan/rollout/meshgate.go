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
	// gatePeriod is the time between reports while a step waits for them, restPeriod
	// otherwise, and less in a small cluster. Where one address family has no sessions,
	// Calico's reporter writes every period, changed or not, and about 90 bytes a
	// session; from bigCluster nodes on that is asked for less often.
	gatePeriod    = 2 * time.Second
	smallPeriod   = 10 * time.Second
	restPeriod    = 30 * time.Second
	smallCluster  = 200
	bigCluster    = 1000
	bigGatePeriod = 30 * time.Second
	bigRestPeriod = 5 * time.Minute
)

// meshGate opens when the mesh carries the cluster by itself: every pair of
// Ready nodes that are not reflectors has its mesh session Established. It needs
// the status of all of them, in batches where there are many.
func (v *view) meshGate() (*gate, []plan.StatusRequest, []string) {
	g := &gate{}
	if !v.BGP.MeshOn() {
		g.wait("the node-to-node mesh to be switched on")
		return g, nil, nil
	}
	if v.d.Timer {
		if v.MeshSince.IsZero() {
			v.MeshSince = v.now
		}
		v.timerGate(g, latest(v.BGP.Restored, v.MeshSince), 0)
		return g, nil, nil
	}
	if len(v.clients) == 0 && len(v.unready) > 0 {
		g.wait("a Ready node: its sessions show whether the mesh carries the others")
	}
	batch := v.unproven()
	proven := v.proveBatch(g, batch)
	if g.open() && len(v.clients) > meshBatch && len(batch) > 0 {
		g.wait("the mesh sessions of the next nodes to be looked at")
		g.in(time.Second)
	}
	var watches []plan.StatusRequest
	for _, n := range batch {
		watches = append(watches, plan.StatusRequest{Node: n.Name, Period: v.period("")})
	}
	return g, watches, proven
}

// proveBatch looks at the mesh sessions of these nodes and names those that have
// them all.
func (v *view) proveBatch(g *gate, batch []plan.Node) []string {
	var proven []string
	for _, n := range batch {
		before := len(g.waiting)
		v.meshSessions(g, n)
		if len(g.waiting) == before {
			proven = append(proven, n.Name)
		}
	}
	return proven
}

// unproven gives the nodes to look at now: all in a small cluster, else the
// first batch that no earlier look has covered.
func (v *view) unproven() []plan.Node {
	if len(v.clients) <= meshBatch {
		return v.clients
	}
	var batch []plan.Node
	for _, n := range v.clients {
		seen := v.Proven[n.Name]
		if seen.After(latest(latest(v.BGP.Restored, v.MeshSince), latest(n.Created, n.ReadyChanged))) && v.now.Sub(seen) < provenFor {
			continue
		}
		if batch = append(batch, n); len(batch) == meshBatch {
			break
		}
	}
	return batch
}

func (v *view) meshSessions(g *gate, n plan.Node) {
	st, ok := v.Statuses[n.Name]
	if !ok || cleared(st) {
		g.report(n.Name, ok)
		return
	}
	before := len(g.waiting)
	up := v.sessionsUp(g, st, n, others(v.served(), n), isMesh)
	if len(g.waiting) == before {
		v.prove(g, st, up.Add(meshSettle), v.BGP.Restored.Add(v.quiet))
	}
}
