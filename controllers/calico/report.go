package calico

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"math"
	"net/netip"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	apiv3 "github.com/projectcalico/api/pkg/apis/projectcalico/v3"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/controllers/plan"
)

// maxName is the length of the longest object name that the API allows, in bytes.
const maxName = 253

// statusName returns the name of our CalicoNodeStatus for a node. A name that would be too long ends in a hash.
func statusName(node string) string {
	const prefix = "rrpool-"
	if len(prefix)+len(node) <= maxName {
		return prefix + node
	}
	hash := fmt.Sprintf("%x", sha256.Sum256([]byte(node)))[:16]
	head := strings.TrimRight(node[:maxName-len(prefix)-len(hash)-1], "-.")
	return prefix + head + "-" + hash
}

// reportLabel marks our reports in addition to ManagedByLabel: in GroupV1, the reporter
// of Calico before 3.28 removes all labels whose keys lack projectcalico.org/.
const reportLabel = "rrpool.projectcalico.org/report"

// isReport reports whether a CalicoNodeStatus is ours: by its labels, or by its name and node.
func isReport(o *apiv3.CalicoNodeStatus) bool {
	return isLabelled(o) || o.Spec.Node != "" && o.Name == statusName(o.Spec.Node)
}

func isLabelled(o *apiv3.CalicoNodeStatus) bool { return isOurs(o) || o.Labels[reportLabel] != "" }

func reportLabels() map[string]string {
	return map[string]string{v1alpha1.ManagedByLabel: v1alpha1.ManagedByValue, reportLabel: "true"}
}

// sessionKey identifies a session of a node.
type sessionKey struct {
	peer netip.Addr
	kind plan.SessionKind
}

// sessionMemory is what successive reports have shown of one session.
type sessionMemory struct {
	established bool
	// since is when the state began by our clock, zero while that is not proven. bird is the same time as BIRD writes it.
	since time.Time
	bird  string
}

// report is a CalicoNodeStatus with what earlier versions of the object have shown. A report is never changed once it is made.
type report struct {
	object *apiv3.CalicoNodeStatus
	// updated is when the report was received, zero if that is not proven or the report is cleared.
	updated time.Time
	// cleared is when the report was cleared, zero while it is filled in. requested is when the reporter was last asked to fill it in.
	cleared, requested time.Time
	// regular is true after the reporter wrote although nothing had changed.
	regular bool
	// unlisted is the result of cannotListRoutes.
	unlisted bool
	sessions map[sessionKey]sessionMemory
	unread   []string
}

// next returns a new report after version o of the object. For the first version, r is nil. An unproven version was not observed as it was
// written, and may have been written at any time.
func (r *report) next(o *apiv3.CalicoNodeStatus, now time.Time, unproven bool) *report {
	first := r == nil
	if first {
		r = &report{object: &apiv3.CalicoNodeStatus{}}
	}
	out := &report{object: o, updated: r.updated, sessions: r.sessions, unread: r.unread, unlisted: r.cannotListRoutes(o, now)}
	switch {
	case isCleared(o): // by us: what was seen stays known, but proves nothing now
		out.updated = time.Time{}
		out.cleared, out.requested = cmp.Or(r.cleared, clearedAt(o, now, unproven)), cmp.Or(r.requested, now)
	case reflect.DeepEqual(r.object.Status, o.Status): // only spec or metadata have changed
		out.regular = r.regular
	case unproven:
		out.updated = time.Time{}
		out.remember(o, time.Time{})
	default:
		out.updated = now
		out.regular = !first && r.cleared.IsZero() && (r.regular || sameButForTime(r.object.Status, o.Status))
		out.remember(o, now)
	}
	return out
}

// cannotListRoutes reports whether the reporter did not answer a request for routes before plan.RoutesTimeout, and routes were then no longer
// requested. It stays true until the reporter fills in a version with routes.
func (r *report) cannotListRoutes(o *apiv3.CalicoNodeStatus, now time.Time) bool {
	unanswered := !r.cleared.IsZero() && now.Sub(r.cleared) >= plan.RoutesTimeout && listsRoutes(r.object) && !listsRoutes(o)
	return unanswered || r.unlisted && (isCleared(o) || !listsRoutes(o))
}

// listsRoutes reports whether routes are requested.
func listsRoutes(o *apiv3.CalicoNodeStatus) bool {
	return slices.Contains(o.Spec.Classes, apiv3.NodeStatusClassTypeRoutes)
}

// sameButForTime reports whether two statuses differ in their time only.
func sameButForTime(before, after apiv3.CalicoNodeStatusStatus) bool {
	after.LastUpdated = before.LastUpdated
	return reflect.DeepEqual(before, after)
}

// isCleared reports whether the reporter has yet to fill in the status.
func isCleared(o *apiv3.CalicoNodeStatus) bool { return o.Status.LastUpdated.IsZero() }

// clearedAnnotation has the time when we cleared a report, in RFC 3339. It is used in GroupV3, where the apiserver sets generations.
const clearedAnnotation = "rrpool.io/cleared"

// clearedAt returns when a report was cleared. If we did not observe that, it is the time that writeReport noted in the object.
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

// states maps the states of sessions to true if the session is up. BIRD's Down and Passive are reported as "".
var states = map[apiv3.BGPSessionState]bool{
	"": false, apiv3.BGPSessionStateIdle: false, apiv3.BGPSessionStateConnect: false, apiv3.BGPSessionStateActive: false,
	apiv3.BGPSessionStateOpenSent: false, apiv3.BGPSessionStateOpenConfirm: false, apiv3.BGPSessionStateClose: false,
	apiv3.BGPSessionStateEstablished: true,
}

// kinds maps Calico's types of sessions to ours.
var kinds = map[apiv3.BGPPeerType]plan.SessionKind{
	apiv3.BGPPeerTypeNodeMesh: plan.SessionMesh, apiv3.BGPPeerTypeNodePeer: plan.SessionNode, apiv3.BGPPeerTypeGlobalPeer: plan.SessionGlobal,
}

// sessionsOf returns the sessions of a report, without their age, and the text of sessions that cannot be parsed.
func sessionsOf(o *apiv3.CalicoNodeStatus) (out map[sessionKey]sessionMemory, unread []string) {
	out = map[sessionKey]sessionMemory{}
	for _, p := range slices.Concat(o.Status.BGP.PeersV4, o.Status.BGP.PeersV6) {
		addr, ok := peerAddress(p.PeerIP)
		kind, known := kinds[p.Type]
		up, is := states[p.State]
		if !ok || !known || !is {
			unread = append(unread, plan.Plain(fmt.Sprintf("session with %q of type %q in state %q", p.PeerIP, p.Type, p.State), maxUnread))
			continue
		}
		key := sessionKey{peer: addr, kind: kind}
		out[key] = sessionMemory{established: up || out[key].established, bird: p.Since}
	}
	return out, sorted(unread)
}

// maxUnread limits the text about a value that cannot be parsed, in bytes.
const maxUnread = 160

func sorted(texts []string) []string {
	slices.Sort(texts)
	return slices.Compact(texts)
}

// peerAddress parses a peer as Calico's reporter writes it: for sessions its address, for routes confd's name of the session with a dot or colon
// in place of each underscore. If listenPort is set, or peerIP has a port, the name ends in the port: 10.0.0.1.port.178, fd00::1:port:178.
func peerAddress(text string) (netip.Addr, bool) {
	for _, before := range []string{".port.", ":port:"} {
		if address, port, found := strings.Cut(text, before); found {
			if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 || strings.Contains(address, ":") != (before[0] == ':') {
				return netip.Addr{}, false
			}
			text = address
		}
	}
	addr, err := netip.ParseAddr(text)
	return addr.Unmap().WithZone(""), err == nil
}

// remember takes over the sessions of a version that was received at the given time, zero
// if the version proves no age. Sessions whose state has not changed keep their age.
func (r *report) remember(o *apiv3.CalicoNodeStatus, at time.Time) {
	seen, unread := sessionsOf(o)
	for key, m := range seen {
		m.since = at
		old, known := r.sessions[key]
		if known && old.established == m.established && !restarted(old.bird, m.bird) && !old.since.IsZero() {
			m.since = old.since
		}
		seen[key] = m
	}
	r.sessions, r.unread = seen, unread
}

// restarted reports whether two times of a session's last state change, as BIRD writes them, mean two different changes. At first BIRD writes the
// time of day, and only later the date, so a date after a time of day is no restart. BIRD computes the time of day from two clocks whose seconds
// begin at different moments, so for one change it may differ by a second. A session takes longer to come back.
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

// status converts the report. v4 and v6 are whether the node has addresses of that family. If not, routes of that family are not required.
func (r *report) status(v4, v6 bool) plan.Status {
	o := r.object
	out := plan.Status{Node: o.Spec.Node, Updated: r.updated, Written: o.Status.LastUpdated.Time, Cleared: r.cleared, Regular: r.regular, RoutesUnanswered: r.unlisted}
	for key, m := range r.sessions {
		out.Sessions = append(out.Sessions, plan.Session{
			Peer: key.peer, Kind: key.kind, Established: m.established, Since: m.since,
		})
		if m.established {
			out.Waiting++
		}
	}
	// Calico counts the sessions that BIRD calls up, without those in wait (recovering) and feed (not all routes are sent yet).
	out.Waiting = max(0, out.Waiting-o.Status.BGP.NumberEstablishedV4-o.Status.BGP.NumberEstablishedV6)
	slices.SortFunc(out.Sessions, func(a, b plan.Session) int { return cmp.Or(a.Peer.Compare(b.Peer), cmp.Compare(a.Kind, b.Kind)) })
	out.Unread = r.unread
	if routed(o, v4, v6) {
		out.Routes, out.UnreadRoutes = routesOf(o)
		out.HasRoutes = len(out.UnreadRoutes) == 0
	}
	return out
}

// routed reports whether a report has the routes. A node always has some routes of
// its own. If BIRD of one family does not answer, Calico reports no routes at all.
func routed(o *apiv3.CalicoNodeStatus, v4, v6 bool) bool {
	four, six := len(o.Status.Routes.RoutesV4) > 0, len(o.Status.Routes.RoutesV6) > 0
	return listsRoutes(o) && (four || six) && (four || !v4) && (six || !v6)
}

// routesOf returns the routes of a report. If some routes cannot be parsed, it returns only the text of these.
func routesOf(o *apiv3.CalicoNodeStatus) (out []plan.Route, unread []string) {
	for _, r := range slices.Concat(o.Status.Routes.RoutesV4, o.Status.Routes.RoutesV6) {
		prefix, err := netip.ParsePrefix(r.Destination)
		from, ok := senderOf(r.LearnedFrom)
		if err != nil || !ok {
			unread = append(unread, plan.Plain(fmt.Sprintf("route to %q from %s %q", r.Destination, cmp.Or(r.LearnedFrom.SourceType, "nowhere"), r.LearnedFrom.PeerIP), maxUnread))
			continue
		}
		out = append(out, plan.Route{Prefix: prefix.Masked(), From: from})
	}
	if len(unread) > 0 {
		return nil, sorted(unread)
	}
	return out, nil
}

// senderOf returns the BGP peer that a route was learned from, the zero address
// if it was learned from none, and false if the sender cannot be parsed.
func senderOf(from apiv3.CalicoNodeRouteLearnedFrom) (netip.Addr, bool) {
	switch from.SourceType {
	case apiv3.RouteSourceTypeKernel, apiv3.RouteSourceTypeStatic, apiv3.RouteSourceTypeDirect:
		return netip.Addr{}, true
	case apiv3.RouteSourceTypeNodeMesh, apiv3.RouteSourceTypeBGPPeer:
		return peerAddress(from.PeerIP)
	}
	return netip.Addr{}, false
}

// maxPeriod is the longest time between reports that Calico allows.
const maxPeriod = 24 * time.Hour

// Watch creates the wanted reports that are missing, corrects reports that differ, and deletes our reports that are not wanted. It leaves reports
// of others alone. If the API has no CalicoNodeStatus, it does nothing.
func (a *Adapter) Watch(ctx context.Context, want []plan.StatusRequest) (bool, error) {
	if err := errors.Join(a.store.ready(), a.store.writable()); err != nil {
		return false, err
	}
	if a.store.watchStatus(apiv3.KindCalicoNodeStatus).missing {
		return false, nil
	}
	j, err := a.joinNow(ctx)
	if err != nil {
		return false, err
	}
	wanted := map[string]plan.StatusRequest{}
	for _, w := range want {
		if w.Node = j.calicoName(w.Node); w.Node != "" {
			wanted[statusName(w.Node)] = w
		}
	}
	var did bool
	var errs []error
	count := func(changed bool, err error) {
		did = did || changed
		errs = append(errs, err)
	}
	for _, r := range a.store.reports() {
		name := r.object.Name
		w, ok := wanted[name]
		switch {
		case !ok:
			count(a.deleteReport(ctx, r.object))
		case !sameRequest(r.object.Spec, reportSpec(w)):
			count(a.putReport(ctx, name, w))
		}
		delete(wanted, name)
	}
	for _, name := range slices.Sorted(maps.Keys(wanted)) {
		count(a.putReport(ctx, name, wanted[name]))
	}
	return did, errors.Join(errs...)
}

// reportSpec returns the spec of a report. The period is rounded up to seconds, and limited to maxPeriod.
func reportSpec(w plan.StatusRequest) apiv3.CalicoNodeStatusSpec {
	period := min(max(w.Period, time.Second), maxPeriod)
	spec := apiv3.CalicoNodeStatusSpec{
		Node:                w.Node,
		Classes:             []apiv3.NodeStatusClassType{apiv3.NodeStatusClassTypeAgent, apiv3.NodeStatusClassTypeBGP},
		UpdatePeriodSeconds: ptr.To(uint32(math.Ceil(period.Seconds()))),
	}
	if w.Routes {
		spec.Classes = append(spec.Classes, apiv3.NodeStatusClassTypeRoutes)
	}
	return spec
}

// sameRequest reports whether two specs request the same. The order of the classes does not matter: see writeReport.
func sameRequest(a, b apiv3.CalicoNodeStatusSpec) bool {
	return a.Node == b.Node && ptr.Equal(a.UpdatePeriodSeconds, b.UpdatePeriodSeconds) && sameClasses(a, b)
}

func sameClasses(a, b apiv3.CalicoNodeStatusSpec) bool {
	return slices.Equal(slices.Sorted(slices.Values(a.Classes)), slices.Sorted(slices.Values(b.Classes)))
}

// putReport creates the requested report, or corrects its spec and labels.
func (a *Adapter) putReport(ctx context.Context, name string, w plan.StatusRequest) (bool, error) {
	have, err := a.liveReport(ctx, name)
	if err != nil {
		return false, err
	}
	if have == nil {
		o := apiv3.NewCalicoNodeStatus()
		o.Name, o.Spec = name, reportSpec(w)
		o.Labels = reportLabels()
		return a.writeReport(ctx, o, true)
	}
	a.store.put(have.DeepCopy()) // an answer that has not arrived must be stored before it is overwritten
	spec := reportSpec(w)
	if sameRequest(have.Spec, spec) && isLabelled(have) {
		return false, nil
	}
	have.SetLabels(labels.Merge(have.GetLabels(), reportLabels()))
	// The reporter never removes what is no longer requested, so the status is cleared.
	clears := !isCleared(have) && (have.Spec.Node != spec.Node || !sameClasses(have.Spec, spec))
	if clears {
		have.Status = apiv3.CalicoNodeStatusStatus{}
	}
	have.Spec = spec
	return a.writeReport(ctx, have, clears)
}

// writeReport writes a report so that the reporter processes it. The reporter ignores a version whose generation it has
// seen, or, before Calico 3.31, whose spec it has seen. So renew changes both: the generation, and the order of the
// classes in the spec. In GroupV1 the generation is stored as written. A write that clears the report sets the generation
// to the Unix time at least, which clearedAt reads: the time grows even when the object is deleted and created again. In
// GroupV3 the apiserver increments the generation when the spec changes, and the time is in clearedAnnotation.
func (a *Adapter) writeReport(ctx context.Context, o *apiv3.CalicoNodeStatus, clears bool) (bool, error) {
	err := a.cfg.Permit(ctx)
	if err == nil && clears && o.ResourceVersion != "" {
		err = a.clearStatus(ctx, o)
	}
	if err != nil {
		return false, err
	}
	a.renew(o, clears)
	out, err := a.calico.reports.write(ctx, o)
	if err != nil {
		return false, err
	}
	a.store.put(out)
	if clears && !isCleared(out) && !a.statusSubresource.Swap(true) {
		return a.writeReport(ctx, out.DeepCopy(), true) // the CRD has a status subresource, as from Calico 3.33 on
	}
	return true, nil
}

// renew makes a report a version that the reporter has not seen.
func (a *Adapter) renew(o *apiv3.CalicoNodeStatus, clears bool) {
	o.Generation++
	if clears {
		o.Generation = max(o.Generation, a.cfg.Now().Unix())
	}
	if o.ResourceVersion != "" {
		slices.Reverse(o.Spec.Classes)
	}
	if clears && a.group == GroupV3 {
		metav1.SetMetaDataAnnotation(&o.ObjectMeta, clearedAnnotation, rfc3339(a.cfg.Now()))
	}
}

// clearStatus clears the status if the CRD has a status subresource, because a write of the whole object then does not change the status. It is
// called before that write shows the reporter a new version.
func (a *Adapter) clearStatus(ctx context.Context, o *apiv3.CalicoNodeStatus) error {
	if !a.statusSubresource.Load() {
		return nil
	}
	raw := a.custom(apiv3.KindCalicoNodeStatus, o.Name)
	body := fmt.Sprintf(`{"metadata":{"resourceVersion":%q},"status":null}`, o.ResourceVersion)
	err := a.calico.client.Status().Patch(ctx, raw, client.RawPatch(types.MergePatchType, []byte(body)))
	if apierrors.IsNotFound(err) {
		a.statusSubresource.Store(false)
		return nil
	}
	if err != nil {
		return fmt.Errorf("clearing the status of CalicoNodeStatus %q: %w", o.Name, err)
	}
	o.ResourceVersion, o.Status = raw.GetResourceVersion(), apiv3.CalicoNodeStatusStatus{}
	return nil
}

func (a *Adapter) deleteReport(ctx context.Context, o *apiv3.CalicoNodeStatus) (bool, error) {
	if err := a.cfg.Permit(ctx); err != nil {
		return false, err
	}
	return a.delete(ctx, o, client.Preconditions{UID: ptr.To(o.UID)})
}

// refreshRetry is how long a report may stay cleared before it is requested again: the reporter may have missed the request.
const refreshRetry = 15 * time.Second

// refreshStatus clears a report, so that a running reporter fills it in at
// once: the reporter writes whenever its status differs from the stored one.
func (a *Adapter) refreshStatus(ctx context.Context, node string) (bool, error) {
	have, err := a.liveReport(ctx, statusName(node))
	if err != nil || have == nil {
		return false, err
	}
	if isCleared(have) {
		a.store.put(have.DeepCopy())
	}
	if !a.store.mayRequest(have) {
		return false, nil
	}
	clears := !isCleared(have) || have.Annotations[unreadAnnotation] != ""
	have.Status = apiv3.CalicoNodeStatusStatus{}
	return a.writeReport(ctx, have, clears)
}

// liveReport reads a report past any cache, nil where there is none.
func (a *Adapter) liveReport(ctx context.Context, name string) (*apiv3.CalicoNodeStatus, error) {
	o, err := a.calico.reports.get(ctx, name)
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("reading CalicoNodeStatus %q: %w", name, err)
	case !isReport(o):
		return nil, &NameTakenError{Kind: apiv3.KindCalicoNodeStatus, Name: name}
	}
	return o, nil
}
