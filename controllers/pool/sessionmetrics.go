package pool

import (
	"net/netip"
	"slices"
	"strconv"
	"time"

	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/rrpool/rrpool/controllers/plan"
)

// sessionDescs are the metrics of single reflectors and, counted, of their clients: a cluster has a few series for each
// reflector and each zone, not one for each session.
func sessionDescs(add func(name, help string, labels ...string)) {
	const absent = "; absent while it does not report, and with the Timer gate."
	add("reflector_sessions_established", "Established sessions of a route reflector with Ready nodes"+absent, "node", "zone")
	add("reflector_sessions_expected", "Sessions that a route reflector should have with Ready nodes"+absent, "node", "zone")
	add("reflector_session_age_seconds", "For how long the youngest Established session of a route reflector has been seen so; "+
		"absent until this manager has seen reports for itself.", "node", "zone")
	add("reflector_prefixes", "Different prefixes that a route reflector knows; absent while no step asks for routes.", "node", "zone")
	add("clients", "Ready nodes that are no route reflectors, by zone and by the number of route reflectors with which all their sessions are "+
		"Established. Route reflectors that do not serve are not counted; absent while none that serves reports, and with the Timer gate.", "zone", "sessions")
}

// addEachReflector adds what the reports of the reflectors say.
func (s *samples) addEachReflector(of *Scope, now func() time.Time) {
	var reports []plan.Status
	for _, r := range of.Step.Reflectors {
		report, reported := of.Cluster.Statuses[r.Node]
		if !reported || len(report.Sessions) == 0 && report.Written.IsZero() {
			continue
		}
		if r.Serving { // the report of one that does not may be old
			reports = append(reports, report)
		}
		s.add("reflector_sessions_established", r.Established, r.Node, r.Zone)
		s.add("reflector_sessions_expected", r.Expected, r.Node, r.Zone)
		if since := youngest(report); !since.IsZero() {
			*s = append(*s, sample{"reflector_session_age_seconds", []string{r.Node, r.Zone}, func() float64 { return max(0, now().Sub(since).Seconds()) }})
		}
		if report.HasRoutes {
			prefixes := sets.Set[netip.Prefix]{}
			for _, route := range report.Routes {
				prefixes.Insert(route.Prefix)
			}
			s.add("reflector_prefixes", prefixes.Len(), r.Node, r.Zone)
		}
	}
	if len(reports) > 0 {
		s.addClients(of.Cluster.Nodes, reports)
	}
}

// youngest is since when the youngest Established session with a peer has been seen, zero while that is not known of all.
func youngest(report plan.Status) time.Time {
	var out time.Time
	for _, session := range report.Sessions {
		switch {
		case session.Kind == plan.SessionMesh || !session.Established:
		case session.Since.IsZero():
			return time.Time{}
		case session.Since.After(out):
			out = session.Since
		}
	}
	return out
}

// addClients counts clients by zone and sessions.
func (s *samples) addClients(nodes []plan.Node, reports []plan.Status) {
	type group struct {
		zone     string
		sessions int
	}
	clients := map[group]int{}
	for _, n := range nodes {
		if n.Ready && n.SpeaksBGP() && !n.HoldsRole() {
			clients[group{n.Zone, count(reports, func(r plan.Status) bool { return serves(r, n) })}]++
		}
	}
	for g, n := range clients {
		s.add("clients", n, g.zone, strconv.Itoa(g.sessions))
	}
}

// serves reports whether a reflector has sessions with a node, and all of them are Established.
func serves(report plan.Status, n plan.Node) bool {
	with := func(s plan.Session) bool { return s.Kind != plan.SessionMesh && slices.Contains(n.Addresses, s.Peer) }
	return slices.ContainsFunc(report.Sessions, with) &&
		!slices.ContainsFunc(report.Sessions, func(s plan.Session) bool { return with(s) && !s.Established })
}
