package evidence

import (
	"cmp"
	"time"

	"github.com/rrpool/rrpool/controllers/plan"
)

const (
	// meshBatch is how many nodes' mesh sessions are looked at together.
	meshBatch = 64
	// provenFor is how long the result for one batch stays valid while the other batches are looked at.
	provenFor = 30 * time.Minute
	// meshSettle is how long mesh sessions must be Established. It is short, as each carries the routes of one node only.
	meshSettle = 3 * time.Second
	// bgpAsked is how many nodes are asked at the same time whether they run BIRD. After
	// bgpTurn the next ones are asked, as calico-node may be missing on some nodes.
	bgpAsked = 3
	bgpTurn  = 2 * time.Minute
)

// ProveMesh returns what is missing until the mesh provably carries the cluster by itself: every pair of Ready nodes that
// are not reflectors has its mesh session Established. It needs the reports of all nodes that can report, in batches if
// there are many. If two or more nodes cannot report, nothing shows the sessions between them: these get a fixed time.
func (e *Evidence) ProveMesh() *Proof {
	p, reporting := &Proof{}, e.reporting()
	if !e.cluster.BGP.MeshOn() {
		p.Lack("the node-to-node mesh to be switched on")
		return p
	}
	if e.opts.Timer || len(e.Clients)-len(reporting) > 1 {
		e.proveByTime(p, plan.Latest(e.cluster.BGP.Restored, cmp.Or(e.opts.MeshSince, e.clock.now)), 0)
	}
	if e.opts.Timer {
		return p
	}
	if len(e.Clients) == 0 && len(e.Unready) > 0 {
		p.Lack("a Ready node: its sessions show whether the mesh carries the others")
	}
	batch := e.unproven(reporting)
	e.proveBatch(p, batch)
	if p.IsComplete() && len(reporting) > meshBatch && len(batch) > 0 {
		p.Lack("the mesh sessions of the next nodes to be looked at")
		p.In(time.Second)
	}
	return p
}

// proveBatch looks at the mesh sessions of these nodes, and adds the nodes that have all of theirs to p.Proven.
func (e *Evidence) proveBatch(p *Proof, batch []plan.Node) {
	for _, n := range batch {
		p.Watch = append(p.Watch, e.request(n, false))
		missing := len(p.Missing)
		e.meshSessions(p, n, isMesh)
		if len(p.Missing) == missing {
			p.Proven = append(p.Proven, n.Name)
		}
	}
}

// CountSilent returns how many clients cannot report their sessions.
func (e *Evidence) CountSilent() int { return len(e.Clients) - len(e.reporting()) }

// unproven returns the nodes to look at now: all nodes if they fit into one batch, else a batch of nodes without a valid earlier result.
func (e *Evidence) unproven(reporting []plan.Node) []plan.Node {
	if len(reporting) <= meshBatch {
		return reporting
	}
	var batch []plan.Node
	for _, n := range reporting {
		seen := e.opts.Proven[n.Name]
		after := plan.Latest(e.cluster.BGP.Restored, e.opts.MeshSince, n.Created, n.ReadyChanged, e.opts.ClockSet)
		if seen.After(after) && e.clock.Since(seen) < provenFor {
			continue
		}
		if batch = append(batch, n); len(batch) == meshBatch {
			break
		}
	}
	return batch
}

func (e *Evidence) meshSessions(p *Proof, n plan.Node, kind func(plan.SessionKind) bool) {
	e.inReport(p, n.Name, plan.Latest(e.cluster.BGP.Restored, e.opts.ClockSet).Add(e.Quiet), func(st plan.Status) time.Time {
		return plan.Latest(append(sessionsUp(p, st, n, plan.Others(e.served(), n), kind), time.Time{})...).Add(meshSettle)
	})
}

// ProveConnected returns what is missing until n provably has a session of any kind with every other node.
func (e *Evidence) ProveConnected(n plan.Node) *Proof {
	p := &Proof{}
	if !e.opts.Timer {
		e.meshSessions(p, n, isAny)
	}
	return p
}

// IsDisconnected reports whether a node's report shows that at least one session is missing, or whether no report has come within
// Silence. Either way nothing shows that the node could have its sessions as a reflector.
func (e *Evidence) IsDisconnected(n plan.Node) bool {
	st, asked := e.cluster.Statuses[n.Name]
	if !asked || e.opts.Timer {
		return false
	}
	if cleared(st) {
		return e.clock.Passed(st.Cleared, Silence)
	}
	p := &Proof{}
	sessionsUp(p, st, n, plan.Others(e.served(), n), isAny)
	return !p.IsComplete()
}

// ProveBIRD asks some nodes in turn for a report of an Established session. One such report shows that calico-node runs BIRD.
func (e *Evidence) ProveBIRD() *Proof {
	p := &Proof{}
	for _, n := range inTurn(e.clock, e.reporting(), bgpAsked, bgpTurn) {
		if st, ok := e.cluster.Statuses[n.Name]; !ok || cleared(st) {
			p.lackReport(n.Name, ok)
		} else {
			p.Lack("a session of %s to be Established", n.Name)
		}
		p.Watch = append(p.Watch, e.request(n, false))
	}
	if p.IsComplete() {
		p.Lack("a Ready node that can report BGP sessions")
	}
	return p
}
