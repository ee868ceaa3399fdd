package evidence

import (
	"cmp"
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
	// bgpAsked is how many nodes are asked at a time whether they run BIRD, each for bgpTurn: calico-node may be missing on some.
	bgpAsked = 3
	bgpTurn  = 2 * time.Minute
)

// ProveMesh returns what is missing until the mesh provably carries the cluster by itself: every pair of Ready nodes that are not reflectors
// has its mesh session Established. It needs the reports of all that can report, in batches where there are many. Where
// two cannot, nothing shows the session between them: it gets a fixed time.
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

// proveBatch looks at the mesh sessions of these nodes. Those that have them all are proven.
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

// unproven returns the nodes to look at now: all in a small cluster, else the first batch that no earlier look has covered.
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

// ProveConnected returns what is missing until a node provably has a session with every other one, of whatever kind.
func (e *Evidence) ProveConnected(n plan.Node) *Proof {
	p := &Proof{}
	if !e.opts.Timer {
		e.meshSessions(p, n, isAny)
	}
	return p
}

// IsDisconnected reports whether a node's report shows that it lacks sessions, or does not come. Nothing shows then that
// the node could have sessions as a reflector.
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
