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
	hash := fmt.Sprintf("%x", sha256.Sum256([]byte(node)))[:16]
	head := strings.TrimRight(node[:maxName-len(prefix)-len(hash)-1], "-.")
	return prefix + head + "-" + hash
}

// reportLabel marks ours as well: of the labels in the first group the reporter of Calico before 3.28 keeps those with projectcalico.org/ only.
const reportLabel = "rrpool.projectcalico.org/report"

// isReport reports whether a status object is one of ours. What has the name and the node of one is, also without labels.
func isReport(o *apiv3.CalicoNodeStatus) bool {
	return isLabelled(o) || o.Spec.Node != "" && o.Name == statusName(o.Spec.Node)
}

func isLabelled(o *apiv3.CalicoNodeStatus) bool { return isOurs(o) || o.Labels[reportLabel] != "" }

func reportLabels() map[string]string {
	return map[string]string{managedByLabel: managedByValue, reportLabel: "true"}
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
	regular bool
	// unlisted: it did not answer while it was asked for routes.
	unlisted bool
	sessions map[sessionKey]sessionMemory
	unread   []string
}

// next is the report after another version of the object. An unproven one may
// have been written at any time: it was there before we watched. r may be nil.
func (r *report) next(o *apiv3.CalicoNodeStatus, now time.Time, unproven bool) *report {
	out := &report{object: o}
	if r != nil {
		out.updated, out.sessions, out.unread = r.updated, r.sessions, r.unread
		starved := !r.cleared.IsZero() && now.Sub(r.cleared) >= plan.RoutesTimeout && listsRoutes(r.object) && !listsRoutes(o)
		out.unlisted = starved || r.unlisted && (isCleared(o) || !listsRoutes(o))
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
		out.remember(o, time.Time{})
	default:
		out.updated = now
		out.regular = r != nil && r.cleared.IsZero() && (r.regular || sameButForTime(r.object.Status, o.Status))
		out.remember(o, now)
	}
	return out
}

// listsRoutes: routes are asked for.
func listsRoutes(o *apiv3.CalicoNodeStatus) bool {
	return slices.Contains(o.Spec.Classes, apiv3.NodeStatusClassTypeRoutes)
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

// states are those that a session may have, and whether it is up. BIRD's Down and Passive come as none.
var states = map[apiv3.BGPSessionState]bool{
	"": false, apiv3.BGPSessionStateIdle: false, apiv3.BGPSessionStateConnect: false, apiv3.BGPSessionStateActive: false,
	apiv3.BGPSessionStateOpenSent: false, apiv3.BGPSessionStateOpenConfirm: false, apiv3.BGPSessionStateClose: false,
	apiv3.BGPSessionStateEstablished: true,
}

// kinds are those of sessions.
var kinds = map[apiv3.BGPPeerType]plan.SessionKind{
	apiv3.BGPPeerTypeNodeMesh: plan.SessionMesh, apiv3.BGPPeerTypeNodePeer: plan.SessionNode, apiv3.BGPPeerTypeGlobalPeer: plan.SessionGlobal,
}

// sessionsOf gives the sessions of a report, without their age, and those that cannot be read.
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

// maxUnread bounds a text that cannot be read.
const maxUnread = 160

func sorted(texts []string) []string {
	slices.Sort(texts)
	return slices.Compact(texts)
}

// peerAddress reads a peer as Calico's reporter writes it: its address, or for routes what confd has named the session, with a
// dot or colon for each underscore. Where listenPort is set, and for a peerIP with a port, that ends in the port:
// 10.0.0.1.port.178, fd00::1:port:178.
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

// remember takes the sessions of a report received at the given time, zero for one that proves no age, and carries
// over their age.
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
	out := plan.Status{Node: o.Spec.Node, Updated: r.updated, Written: o.Status.LastUpdated.Time, Cleared: r.cleared, Regular: r.regular, RoutesUnanswered: r.unlisted}
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
	out.Unread = r.unread
	if routed(o, v4, v6) {
		out.Routes, out.UnreadRoutes = routesOf(o)
		out.HasRoutes = len(out.UnreadRoutes) == 0
	}
	return out
}

// routed reports whether a report says what the routes are. A node has some of
// its own: Calico gives none at all where the BIRD of one family does not answer.
func routed(o *apiv3.CalicoNodeStatus, v4, v6 bool) bool {
	four, six := len(o.Status.Routes.RoutesV4) > 0, len(o.Status.Routes.RoutesV6) > 0
	return listsRoutes(o) && (four || six) && (four || !v4) && (six || !v6)
}

// routesOf gives the routes of a report, none where some cannot be read: these then.
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

// senderOf gives the BGP peer that a route is from, invalid for none, and whether that can be read.
func senderOf(from apiv3.CalicoNodeRouteLearnedFrom) (netip.Addr, bool) {
	switch from.SourceType {
	case apiv3.RouteSourceTypeKernel, apiv3.RouteSourceTypeStatic, apiv3.RouteSourceTypeDirect:
		return netip.Addr{}, true
	case apiv3.RouteSourceTypeNodeMesh, apiv3.RouteSourceTypeBGPPeer:
		return peerAddress(from.PeerIP)
	}
	return netip.Addr{}, false
}

// maxPeriod is the longest time between reports that Calico takes.
const maxPeriod = 24 * time.Hour

// Watch makes exactly the wanted node status reports exist: it creates what is
// missing, corrects what differs and deletes our own that are not wanted. Those of
// others are left alone. Where the API has no such reports, it does nothing.
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

// reportSpec is the spec that asks for what is wanted.
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

// sameRequest: the order of the classes says nothing, see writeReport.
func sameRequest(a, b apiv3.CalicoNodeStatusSpec) bool {
	return a.Node == b.Node && ptr.Equal(a.UpdatePeriodSeconds, b.UpdatePeriodSeconds) && sameClasses(a, b)
}

func sameClasses(a, b apiv3.CalicoNodeStatusSpec) bool {
	return slices.Equal(slices.Sorted(slices.Values(a.Classes)), slices.Sorted(slices.Values(b.Classes)))
}

// putReport creates a status object of ours, or corrects it.
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
	a.store.put(have.DeepCopy()) // an answer that has not arrived yet must be known before it is overwritten
	spec := reportSpec(w)
	if sameRequest(have.Spec, spec) && isLabelled(have) {
		return false, nil
	}
	have.SetLabels(labels.Merge(have.GetLabels(), reportLabels()))
	// The reporter never removes what it is no longer asked for.
	clears := !isCleared(have) && (have.Spec.Node != spec.Node || !sameClasses(have.Spec, spec))
	if clears {
		have.Status = apiv3.CalicoNodeStatusStatus{}
	}
	have.Spec = spec
	return a.writeReport(ctx, have, clears)
}

// writeReport writes a status object so that the reporter looks at it. It ignores every version of an object whose
// generation it has seen, or before Calico 3.31 whose spec it has seen, so the classes change their order. In the
// first group generations are not counted: the number that is written is stored. The clock keeps the number growing when an object
// is deleted and created again. It is taken by writes that leave the report blank and find it otherwise: see clearedAt.
// In the second group the apiserver counts, but only what changes the spec, and the time is an annotation.
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
		return a.writeReport(ctx, out.DeepCopy(), true) // the CRD is of Calico 3.33 or newer
	}
	return true, nil
}

// renew makes a version of a status object that the reporter has not seen.
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

// clearStatus clears the status alone, before the reporter is made to look, where the CRD has a subresource for it. A
// write of the whole object leaves the status as it is there.
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

// refreshAgain is how long a cleared report may stay blank before the reporter is
// asked again: it may have missed the question.
const refreshAgain = 15 * time.Second

// refreshStatus clears a report. The reporter writes only what has changed, so
// it fills a cleared one in again at once, if it is alive.
func (a *Adapter) refreshStatus(ctx context.Context, node string) (bool, error) {
	have, err := a.liveReport(ctx, statusName(node))
	if err != nil || have == nil {
		return false, err
	}
	if isCleared(have) {
		a.store.put(have.DeepCopy())
	}
	if !a.store.mayAsk(have) {
		return false, nil
	}
	clears := !isCleared(have) || have.Annotations[unreadAnnotation] != ""
	have.Status = apiv3.CalicoNodeStatusStatus{}
	return a.writeReport(ctx, have, clears)
}

// liveReport reads a status object past any cache, nil when there is none.
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
