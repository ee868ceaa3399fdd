package calico

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"time"

	apiv3 "github.com/projectcalico/api/pkg/apis/projectcalico/v3"

	"github.com/rrpool/rrpool/controllers/plan"
)

// maxName is the longest name that the API takes.
const maxName = 253

// statusName is the name of our status object for a node.
func statusName(node string) string {
	const prefix = "rrpool-"
	if len(prefix)+len(node) <= maxName {
		return prefix + node
	}
	sum := sha256.Sum256([]byte(node))
	hash := hex.EncodeToString(sum[:])[:16]
	head := strings.TrimRight(node[:maxName-len(prefix)-len(hash)-1], "-.")
	return prefix + head + "-" + hash
}

// reportLabel marks ours as well: of the labels in the first group the reporter of Calico before 3.28 keeps those with projectcalico.org/ only.
const reportLabel = "rrpool.projectcalico.org/report"

// isReport reports whether a status object is one of ours.
func isReport(o *apiv3.CalicoNodeStatus) bool {
	return isOurs(o) || o.Labels[reportLabel] != ""
}

// sessionKey identifies a session of a node.
type sessionKey struct {
	peer netip.Addr
	kind plan.SessionKind
}

// sessionMemory is what successive reports have shown of one session.
type sessionMemory struct {
	established bool
	// since is by our clock, zero while unproven; bird is BIRD's own word for it.
	since time.Time
	bird  string
}

// report is a status object with what earlier versions of it have shown. It is never changed once made.
type report struct {
	object *apiv3.CalicoNodeStatus
	// updated is when the report was received, zero when unproven or blank.
	updated time.Time
	// cleared is when we first saw it blank, zero while it is not; asked is when the
	// reporter was last asked to fill it in.
	cleared, asked time.Time
	// regular: the reporter wrote although nothing had changed.
	regular  bool
	sessions map[sessionKey]sessionMemory
}

// next is the report after another version of the object. An unproven one may
// have been written at any time: it was there before we watched. r may be nil.
func (r *report) next(o *apiv3.CalicoNodeStatus, now time.Time, unproven bool) *report {
	out := &report{object: o}
	if r != nil {
		out.updated, out.sessions = r.updated, r.sessions
	}
	switch {
	case isCleared(o):
		// Cleared, by us: what was seen stays true, but proves nothing now.
		out.updated, out.cleared, out.asked = time.Time{}, clearedAt(o, now, unproven), now
		if r != nil && !r.cleared.IsZero() {
			out.cleared, out.asked = r.cleared, r.asked
		}
	case r != nil && reflect.DeepEqual(r.object.Status, o.Status):
		// Only spec or metadata have changed.
		out.regular = r.regular
	case unproven:
		out.updated = time.Time{}
		out.sessions = out.remember(sessionsOf(o), time.Time{})
	default:
		out.updated = now
		out.regular = r != nil && r.cleared.IsZero() && (r.regular || sameButForTime(r.object.Status, o.Status))
		out.sessions = out.remember(sessionsOf(o), now)
	}
	return out
}

// sameButForTime reports whether the later status says nothing new.
func sameButForTime(before, after apiv3.CalicoNodeStatusStatus) bool {
	after.LastUpdated = before.LastUpdated
	return reflect.DeepEqual(before, after)
}

// isCleared reports whether the reporter has yet to fill in the status.
func isCleared(o *apiv3.CalicoNodeStatus) bool { return o.Status.LastUpdated.IsZero() }

// clearedAnnotation says when we cleared a report, in RFC 3339, where the apiserver counts generations.
const clearedAnnotation = "rrpool.io/cleared"

// clearedAt is when a blank report was cleared. If that was before we watched, the object
// keeps it: see writeReport.
func clearedAt(o *apiv3.CalicoNodeStatus, now time.Time, unproven bool) time.Time {
	at := time.Unix(o.Generation, 0)
	if text, ok := o.Annotations[clearedAnnotation]; ok {
		at = timeOf(text)
	}
	if !unproven || at.Before(o.CreationTimestamp.Time) || at.After(now) {
		return now
	}
	return at
}

// sessionsOf gives the sessions of a report, without their age.
func sessionsOf(o *apiv3.CalicoNodeStatus) map[sessionKey]sessionMemory {
	out := map[sessionKey]sessionMemory{}
	for _, p := range slices.Concat(o.Status.BGP.PeersV4, o.Status.BGP.PeersV6) {
		if addr, err := netip.ParseAddr(p.PeerIP); err == nil {
			key := sessionKey{peer: addr.Unmap().WithZone(""), kind: plan.SessionKind(p.Type)}
			out[key] = sessionMemory{established: p.State == apiv3.BGPSessionStateEstablished, bird: p.Since}
		}
	}
	return out
}

// remember carries the age of sessions over to a report received at the given
// time, zero for one that proves no age.
func (r *report) remember(seen map[sessionKey]sessionMemory, at time.Time) map[sessionKey]sessionMemory {
	for key, m := range seen {
		m.since = at
		old, known := r.sessions[key]
		if known && old.established == m.established && !restarted(old.bird, m.bird) && !old.since.IsZero() {
			m.since = old.since
		}
		seen[key] = m
	}
	return seen
}

// restarted compares two of BIRD's times of the last state change. BIRD gives the time of day at first and only the
// date later: a date is old age, not a restart. It counts from two clocks whose seconds begin at different moments,
// so the same change may be reported with a second's difference. A session takes longer than that to come back.
func restarted(before, after string) bool {
	if before == after {
		return false
	}
	if !strings.Contains(after, ":") {
		return !strings.Contains(before, ":")
	}
	a, errA := time.Parse(time.TimeOnly, before)
	b, errB := time.Parse(time.TimeOnly, after)
	apart := b.Sub(a).Abs()
	return errA != nil || errB != nil || min(apart, 24*time.Hour-apart) > time.Second
}

// status is the report as the plan takes it. Routes of an address family that the node does
// not have are not missed.
func (r *report) status(v4, v6 bool) plan.Status {
	o := r.object
	out := plan.Status{Node: o.Spec.Node, Updated: r.updated, Written: o.Status.LastUpdated.Time, Cleared: r.cleared, Regular: r.regular}
	for key, m := range r.sessions {
		out.Sessions = append(out.Sessions, plan.Session{
			Peer: key.peer, Kind: key.kind, Established: m.established, Since: m.since,
		})
		if m.established {
			out.Waiting++
		}
	}
	// Calico counts those alone that BIRD calls up, not wait (it recovers) or feed (not all routes are passed on yet).
	out.Waiting = max(0, out.Waiting-o.Status.BGP.NumberEstablishedV4-o.Status.BGP.NumberEstablishedV6)
	slices.SortFunc(out.Sessions, func(a, b plan.Session) int { return cmp.Or(a.Peer.Compare(b.Peer), cmp.Compare(a.Kind, b.Kind)) })
	if routed(o, v4, v6) {
		out.HasRoutes, out.Routes = true, routesOf(o)
	}
	return out
}

// routed reports whether a report says what the routes are. A node has some of
// its own: Calico gives none at all where the BIRD of one family does not answer.
func routed(o *apiv3.CalicoNodeStatus, v4, v6 bool) bool {
	four, six := len(o.Status.Routes.RoutesV4) > 0, len(o.Status.Routes.RoutesV6) > 0
	return slices.Contains(o.Spec.Classes, apiv3.NodeStatusClassTypeRoutes) &&
		(four || six) && (four || !v4) && (six || !v6)
}

func routesOf(o *apiv3.CalicoNodeStatus) []plan.Route {
	var out []plan.Route
	for _, r := range slices.Concat(o.Status.Routes.RoutesV4, o.Status.Routes.RoutesV6) {
		prefix, err := netip.ParsePrefix(r.Destination)
		if err != nil {
			continue
		}
		route := plan.Route{Prefix: prefix.Masked()}
		if from := r.LearnedFrom; from.SourceType == apiv3.RouteSourceTypeNodeMesh || from.SourceType == apiv3.RouteSourceTypeBGPPeer {
			addr, err := netip.ParseAddr(from.PeerIP)
			if err != nil {
				continue
			}
			route.From = addr.Unmap().WithZone("")
		}
		out = append(out, route)
	}
	return out
}
