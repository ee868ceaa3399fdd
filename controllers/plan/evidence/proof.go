package evidence

import (
	"fmt"
	"slices"
	"time"

	"github.com/rrpool/rrpool/controllers/plan"
)

// Proof is what is missing until a claim is proven.
type Proof struct {
	// Missing says in words what is waited for.
	Missing []string
	// Refresh names nodes whose report has to be requested again: it is still cleared, or it says that all is well but is too old to prove that.
	Refresh []string
	// Watch are the reports that the proof needs, whether it is complete or not.
	Watch []plan.StatusRequest
	// Proven names the nodes whose mesh sessions were seen Established.
	Proven []string
	// Due is after how long looking again makes sense, 0 for not known.
	Due time.Duration
	// Least is how long the sessions must have been Established.
	Least time.Duration
	// Unlisted says why prefixes are not compared, "" if they are.
	Unlisted string

	// unproven counts the entries of Missing that wait only for time or fresh reports, and for no session.
	unproven int
}

// IsComplete reports whether nothing is missing.
func (p *Proof) IsComplete() bool { return len(p.Missing) == 0 }

// AreSessionsUp reports whether every session is Established, proven or not.
func (p *Proof) AreSessionsUp() bool { return len(p.Missing) == p.unproven }

// Lack adds something that is missing.
func (p *Proof) Lack(format string, args ...any) {
	p.Missing = append(p.Missing, fmt.Sprintf(format, args...))
}

// In makes looking again due after d at the latest.
func (p *Proof) In(d time.Duration) { p.Due = plan.Sooner(p.Due, d) }

// LackTime adds that the nodes need the time left until they have rendered rrpool's last change; all is the whole time that they get.
func (p *Proof) LackTime(all, left time.Duration) {
	p.Lack("the nodes to take over the last change (%s)", all)
	p.In(left)
}

// With adds what another proof needs.
func (p *Proof) With(other *Proof) {
	p.Missing, p.Refresh = append(p.Missing, other.Missing...), append(p.Refresh, other.Refresh...)
	p.Watch, p.Proven = append(p.Watch, other.Watch...), append(p.Proven, other.Proven...)
	p.In(other.Due)
	p.Least, p.Unlisted, p.unproven = max(p.Least, other.Least), p.Unlisted+other.Unlisted, p.unproven+other.unproven
}

// lackReport adds that a node's report is missing. If the report exists but is still
// cleared, it is requested again, as the reporter may have missed the request.
func (p *Proof) lackReport(node string, exists bool) {
	p.Lack("a status report from %s", node)
	if exists {
		p.unproven++
		p.Refresh = append(p.Refresh, node)
	}
}

// inReport checks a node's report with look, which adds what is missing and returns when the sessions
// have settled. If nothing is missing, the report must also be recent enough to prove that; see provenBy.
func (e *Evidence) inReport(p *Proof, node string, after time.Time, look func(plan.Status) (settled time.Time)) {
	st, ok := e.cluster.Statuses[node]
	if !ok || cleared(st) {
		p.lackReport(node, ok)
		return
	}
	missing := len(p.Missing)
	if len(st.Unread) > 0 {
		p.Lack("%s", unreadable(node, st.Unread))
	}
	settled := look(st)
	if st.Waiting > 0 {
		p.Lack("BIRD on %s to pass on its routes: some of its sessions are Established and wait", node)
	}
	if len(p.Missing) == missing {
		e.provenBy(p, st, settled, after)
	}
}

// provenBy demands that a report was received no earlier than after, that it is fresh, and that its sessions have settled by now.
func (e *Evidence) provenBy(p *Proof, st plan.Status, settled, after time.Time) {
	missing, now := len(p.Missing), e.clock.now
	defer func() { p.unproven += len(p.Missing) - missing }()
	switch {
	case after.After(now):
		p.LackTime(e.Quiet, after.Sub(now))
	case st.Updated.IsZero(), st.Updated.Before(after), now.Sub(st.Updated) > freshFor && !settled.After(now):
		p.Lack("a fresh status report from %s", st.Node)
		p.Refresh = append(p.Refresh, st.Node)
	case settled.After(now):
		p.Lack("the sessions of %s to settle (%s)", st.Node, e.Settle)
		p.In(settled.Sub(now))
	}
}

// sessionName names a session by its two nodes: a reflector comes before another node, and two nodes that are no reflectors are sorted by name.
func sessionName(a, b plan.Node) string {
	if !a.IsOurs() && (b.IsOurs() || b.Name < a.Name) {
		a, b = b, a
	}
	return a.Name + " ↔ " + b.Name
}

// Sorted returns what is missing, sorted, each once.
func (p *Proof) Sorted() []string {
	slices.Sort(p.Missing)
	return slices.Compact(p.Missing)
}
