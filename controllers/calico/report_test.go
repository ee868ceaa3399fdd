package calico

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	apiv3 "github.com/projectcalico/api/pkg/apis/projectcalico/v3"
	"github.com/projectcalico/calico/libcalico-go/lib/backend/api"
	"github.com/projectcalico/calico/libcalico-go/lib/backend/model"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/rrpool/rrpool/controllers/plan"
)

// reportOf is a report, of the given second, in which BIRD has one session.
func reportOf(second int, state apiv3.BGPSessionState, since string) *apiv3.CalicoNodeStatus {
	o := apiv3.NewCalicoNodeStatus()
	o.Spec.Node = "n"
	o.Status.LastUpdated = metav1.NewTime(time.Unix(int64(second), 0))
	o.Status.Agent.BIRDV4.State = apiv3.BGPDaemonStateReady
	o.Status.BGP.PeersV4 = []apiv3.CalicoNodePeer{{PeerIP: "10.0.0.2", Type: apiv3.BGPPeerTypeNodePeer, State: state, Since: since}}
	return o
}

func blankReport() *apiv3.CalicoNodeStatus {
	o := apiv3.NewCalicoNodeStatus()
	o.Spec.Node = "n"
	return o
}

func TestTheAgeOfSessionsIsWhatReportsHaveShown(t *testing.T) {
	const up, down = apiv3.BGPSessionStateEstablished, apiv3.BGPSessionStateActive
	start := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	at := func(seconds int) time.Time { return start.Add(time.Duration(seconds) * time.Second) }
	type version struct {
		object   *apiv3.CalicoNodeStatus
		unproven bool
	}
	respec := func(o *apiv3.CalicoNodeStatus) *apiv3.CalicoNodeStatus {
		o.Generation++
		return o
	}
	// Each version is received ten seconds after the one before.
	for name, c := range map[string]struct {
		versions       []version
		updated, since time.Time
	}{
		"a report that was already there proves nothing":    {[]version{{reportOf(1, up, "12:00:00"), true}}, time.Time{}, time.Time{}},
		"a report that comes is as old as its arrival":      {[]version{{reportOf(1, up, "12:00:00"), false}}, at(0), at(0)},
		"the first proof after an old report starts an age": {[]version{{reportOf(1, up, "12:00:00"), true}, {reportOf(2, up, "12:00:00"), false}}, at(10), at(10)},
		"a session that stays up keeps its age":             {[]version{{reportOf(1, up, "12:00:00"), false}, {reportOf(2, up, "12:00:00"), false}}, at(10), at(0)},
		"a session that comes up is young":                  {[]version{{reportOf(1, down, "12:00:00"), false}, {reportOf(2, up, "12:00:05"), false}}, at(10), at(10)},
		"a session that restarted between reports is young": {[]version{{reportOf(1, up, "12:00:00"), false}, {reportOf(2, up, "12:00:05"), false}}, at(10), at(10)},
		"a session that BIRD now gives the date of is old":  {[]version{{reportOf(1, up, "12:00:00"), false}, {reportOf(2, up, "2026-05-01"), false}}, at(10), at(0)},
		"a second of difference is BIRD's rounding": {
			[]version{{reportOf(1, up, "12:00:00"), false}, {reportOf(2, up, "11:59:59"), false}, {reportOf(3, up, "12:00:00"), false}}, at(20), at(0),
		},
		"so it is at midnight":             {[]version{{reportOf(1, up, "23:59:59"), false}, {reportOf(2, up, "00:00:00"), false}}, at(10), at(0)},
		"two seconds are a restart":        {[]version{{reportOf(1, up, "12:00:00"), false}, {reportOf(2, up, "12:00:02"), false}}, at(10), at(10)},
		"another date is a restart":        {[]version{{reportOf(1, up, "2026-05-01"), false}, {reportOf(2, up, "2026-05-02"), false}}, at(10), at(10)},
		"a time after a date is too":       {[]version{{reportOf(1, up, "2026-05-01"), false}, {reportOf(2, up, "11:00:00"), false}}, at(10), at(10)},
		"clearing makes a report unproven": {[]version{{reportOf(1, up, "12:00:00"), false}, {blankReport(), false}}, time.Time{}, at(0)},
		"a cleared and refilled report keeps ages": {
			[]version{{reportOf(1, up, "12:00:00"), false}, {blankReport(), false}, {reportOf(2, up, "12:00:00"), false}}, at(20), at(0),
		},
		"a cleared report refilled with the same words is a new one": {
			[]version{{reportOf(1, up, "12:00:00"), false}, {blankReport(), false}, {reportOf(1, up, "12:00:00"), false}}, at(20), at(0),
		},
		"a change of the spec is no report": {[]version{{reportOf(1, up, "12:00:00"), false}, {respec(reportOf(1, up, "12:00:00")), false}}, at(0), at(0)},
		"a change of the spec does not prove an old report": {
			[]version{{reportOf(1, up, "12:00:00"), true}, {respec(reportOf(1, up, "12:00:00")), false}}, time.Time{}, time.Time{},
		},
		"what changed while we were not watching is unproven": {
			[]version{{reportOf(1, up, "12:00:00"), false}, {reportOf(2, up, "12:00:00"), true}}, time.Time{}, at(0),
		},
		"what restarted while we were not watching has no age": {
			[]version{{reportOf(1, up, "12:00:00"), false}, {reportOf(2, up, "12:00:05"), true}}, time.Time{}, time.Time{},
		},
	} {
		t.Run(name, func(t *testing.T) {
			var r *report
			for i, v := range c.versions {
				r = r.next(v.object, at(10*i), v.unproven)
			}
			require.Equal(t, c.updated, r.updated)
			require.Equal(t, c.since, r.sessions[sessionKey{peer: netip.MustParseAddr("10.0.0.2"), kind: plan.SessionNode}].since)
		})
	}
}

func TestAReportIsMapped(t *testing.T) {
	o := reportOf(1, apiv3.BGPSessionStateEstablished, "12:00:00")
	o.Status.BGP.PeersV4 = append([]apiv3.CalicoNodePeer{{PeerIP: "10.0.0.9", Type: apiv3.BGPPeerTypeNodeMesh, State: apiv3.BGPSessionStateIdle}}, o.Status.BGP.PeersV4...)
	o.Status.BGP.PeersV6 = []apiv3.CalicoNodePeer{{PeerIP: "fd00::2", Type: apiv3.BGPPeerTypeGlobalPeer, State: apiv3.BGPSessionStateEstablished}}
	o.Status.BGP.NumberEstablishedV6 = 1 // BIRD waits with the other one
	o.Status.Routes.RoutesV4 = []apiv3.CalicoNodeRoute{
		{Destination: "172.30.1.0/26", LearnedFrom: apiv3.CalicoNodeRouteLearnedFrom{SourceType: apiv3.RouteSourceTypeBGPPeer, PeerIP: "10.0.0.2"}},
		{Destination: "172.30.2.0/26", LearnedFrom: apiv3.CalicoNodeRouteLearnedFrom{SourceType: apiv3.RouteSourceTypeStatic}},
	}
	now := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	var none *report
	r := none.next(o, now, false)
	want := plan.Status{Node: "n", Updated: now, Written: time.Unix(1, 0), Waiting: 1, Sessions: []plan.Session{
		{Peer: netip.MustParseAddr("10.0.0.2"), Kind: plan.SessionNode, Established: true, Since: now},
		{Peer: netip.MustParseAddr("10.0.0.9"), Kind: plan.SessionMesh, Since: now},
		{Peer: netip.MustParseAddr("fd00::2"), Kind: plan.SessionGlobal, Established: true, Since: now},
	}}
	require.Equal(t, want, r.status(true, false), "routes that were not asked for are not there")

	o.Spec.Classes = []apiv3.NodeStatusClassType{apiv3.NodeStatusClassTypeRoutes}
	want.HasRoutes, want.Routes = true, []plan.Route{
		{Prefix: netip.MustParsePrefix("172.30.1.0/26"), From: netip.MustParseAddr("10.0.0.2")},
		{Prefix: netip.MustParsePrefix("172.30.2.0/26")},
	}
	require.Equal(t, want, r.status(true, false))
	require.False(t, r.status(true, true).HasRoutes, "a node always has routes: none of a family means that its BIRD was not there")
	o.Status.Routes = apiv3.CalicoNodeBGPRouteStatus{}
	require.False(t, r.status(true, false).HasRoutes, "Calico empties all routes where one family's BIRD does not answer")
	require.Equal(t, plan.Status{Node: "n", Cleared: now}, none.next(blankReport(), now, false).status(true, false))
}

// A report that comes once routes are no longer asked for, and not before, shows that this reporter cannot list them.
func TestAReporterThatFailsOverRoutesIsRecognised(t *testing.T) {
	start := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	asking := func(o *apiv3.CalicoNodeStatus) *apiv3.CalicoNodeStatus {
		o.Spec.Classes = []apiv3.NodeStatusClassType{apiv3.NodeStatusClassTypeRoutes}
		return o
	}
	for after, want := range map[time.Duration]bool{plan.RoutesTimeout - 1: false, plan.RoutesTimeout: true} {
		var r *report
		r = r.next(asking(blankReport()), start, false)
		r = r.next(blankReport(), start.Add(after), false)
		r = r.next(reportOf(9, apiv3.BGPSessionStateEstablished, "12:00:00"), start.Add(after+time.Second), false)
		require.Equal(t, want, r.status(true, false).RoutesUnanswered)
		r = r.next(blankReport(), start.Add(after+time.Minute), false)
		require.Equal(t, want, r.status(true, false).RoutesUnanswered, "it stays known while its sessions are asked for")
		r = r.next(asking(reportOf(10, apiv3.BGPSessionStateEstablished, "12:00:00")), start.Add(after+2*time.Minute), false)
		require.False(t, r.status(true, false).RoutesUnanswered, "it has answered")
	}
}

// Where listenPort is set, or a peerIP has a port, confd adds it to the session's name (Mesh_10_0_0_9_port_178), and the reporter makes the peer of a
// route of that.
func TestThePeerOfARouteIsReadWithItsPort(t *testing.T) {
	four, six := netip.MustParseAddr("10.0.0.2"), netip.MustParseAddr("fd00::2:0:1")
	for text, want := range map[string]netip.Addr{
		"10.0.0.2": four, "10.0.0.2.port.178": four, "10.0.0.2.port.179": four, "10.0.0.2.port.65535": four,
		"fd00::2:0:1": six, "fd00::2:0:1:port:178": six, "fd00::": netip.MustParseAddr("fd00::"), "fd00:::port:178": netip.MustParseAddr("fd00::"),
		"fe80::1%eth0": netip.MustParseAddr("fe80::1"), "::ffff:10.0.0.2": four,
	} {
		got, ok := peerAddress(text)
		require.True(t, ok, text)
		require.Equal(t, want, got, text)
	}
	for _, text := range []string{
		"", "?", "10.0.0.2.port.", "10.0.0.2.port.0", "10.0.0.2.port.65536", "10.0.0.2.port.x", "10.0.0.2:port:178", "10.0.0.2:178", "10.0.0.2.178", "fd00::2.port.178",
		"fd00::2:port:", "fd00::2:port:178:port:178", "10.0.0.2.port.178.port.178", "10.0.0.port.178",
	} {
		_, ok := peerAddress(text)
		require.False(t, ok, text)
	}
}

// What a report says in words that we do not know is not known, and named. It is not taken for something that is not there.
func TestWhatAReportSaysInUnknownWordsIsNotKnown(t *testing.T) {
	const mesh, node, up = apiv3.BGPPeerTypeNodeMesh, apiv3.BGPPeerTypeNodePeer, apiv3.BGPSessionStateEstablished
	from := func(source apiv3.CalicoNodeRouteSourceType, peer string) apiv3.CalicoNodeRouteLearnedFrom {
		return apiv3.CalicoNodeRouteLearnedFrom{SourceType: source, PeerIP: peer}
	}
	known := apiv3.CalicoNodeRoute{Destination: "172.30.1.0/26", LearnedFrom: from(apiv3.RouteSourceTypeBGPPeer, "10.0.0.2.port.178")}
	for name, c := range map[string]struct {
		peers                []apiv3.CalicoNodePeer
		routes               []apiv3.CalicoNodeRoute
		unread, unreadRoutes string
	}{
		"nothing":                      {},
		"states that are down":         {peers: []apiv3.CalicoNodePeer{{PeerIP: "10.0.0.9", Type: mesh}, {PeerIP: "10.0.0.8", Type: mesh, State: "Close"}}},
		"a peer":                       {peers: []apiv3.CalicoNodePeer{{PeerIP: "node-3", Type: node, State: up}}, unread: `session with "node-3" of type "NodePeer" in state "Established"`},
		"a type":                       {peers: []apiv3.CalicoNodePeer{{PeerIP: "10.0.0.9", Type: "Local", State: up}}, unread: `session with "10.0.0.9" of type "Local" in state "Established"`},
		"no type":                      {peers: []apiv3.CalicoNodePeer{{PeerIP: "10.0.0.9", State: up}}, unread: `of type ""`},
		"a state":                      {peers: []apiv3.CalicoNodePeer{{PeerIP: "10.0.0.9", Type: mesh, State: "up"}}, unread: `in state "up"`},
		"a text that moves the cursor": {peers: []apiv3.CalicoNodePeer{{PeerIP: "\x1b[2J", Type: mesh}}, unread: `session with "\x1b[2J"`},
		"a route from an unknown peer": {routes: []apiv3.CalicoNodeRoute{{Destination: "172.30.3.0/26", LearnedFrom: from(apiv3.RouteSourceTypeNodeMesh, "10.0.0.9.via.178")}}, unreadRoutes: `route to "172.30.3.0/26" from NodeMesh "10.0.0.9.via.178"`},
		"a route to nowhere":           {routes: []apiv3.CalicoNodeRoute{{Destination: "default", LearnedFrom: from(apiv3.RouteSourceTypeKernel, "")}}, unreadRoutes: `route to "default" from Kernel ""`},
		"a route from another source":  {routes: []apiv3.CalicoNodeRoute{{Destination: "172.30.3.0/26", LearnedFrom: from("Babel", "")}}, unreadRoutes: `from Babel ""`},
		"a route without a source":     {routes: []apiv3.CalicoNodeRoute{{Destination: "172.30.3.0/26"}}, unreadRoutes: `from nowhere ""`},
	} {
		t.Run(name, func(t *testing.T) {
			o := reportOf(1, up, "12:00:00")
			o.Spec.Classes = []apiv3.NodeStatusClassType{apiv3.NodeStatusClassTypeRoutes}
			o.Status.BGP.PeersV4 = append(o.Status.BGP.PeersV4, c.peers...)
			o.Status.Routes.RoutesV4 = append([]apiv3.CalicoNodeRoute{known}, c.routes...)
			var none *report
			r := none.next(o, time.Unix(1, 0), false)
			got := r.status(true, false)
			require.Contains(t, strings.Join(got.Unread, "\n"), c.unread)
			require.Equal(t, c.unread != "", len(got.Unread) == 1)
			require.Contains(t, strings.Join(got.UnreadRoutes, "\n"), c.unreadRoutes)
			require.Equal(t, c.unreadRoutes == "", got.HasRoutes, "it is not known which routes the node has")
			require.Equal(t, c.unreadRoutes != "", len(got.UnreadRoutes) == 1)
			require.True(t, got.Sessions[0].Established, "what can be read is known")
			require.Equal(t, got.Unread, r.next(blankReport(), time.Unix(2, 0), false).status(true, false).Unread, "clearing it does not make it known")
		})
	}
}

// A request is another one where its node, its period or its classes are others; their order is ours, so that the reporter looks.
func TestWhichRequestIsAnother(t *testing.T) {
	same := plan.StatusRequest{Node: "n", Period: time.Minute, Routes: true}
	spec := reportSpec(same)
	slices.Reverse(spec.Classes)
	require.True(t, sameRequest(spec, reportSpec(same)))
	for what, edit := range map[string]func(*plan.StatusRequest){
		"the node": func(w *plan.StatusRequest) { w.Node = "m" }, "the period": func(w *plan.StatusRequest) { w.Period++ }, "the classes": func(w *plan.StatusRequest) { w.Routes = false },
	} {
		other := same
		edit(&other)
		require.False(t, sameRequest(spec, reportSpec(other)), what)
	}
	spec.UpdatePeriodSeconds = nil
	require.False(t, sameRequest(spec, reportSpec(same)))
}

func TestStatusNamesAreNames(t *testing.T) {
	long := strings.Repeat("a", 244) + ".example"
	for _, node := range []string{five, "node-1", strings.Repeat("a", 246), long, long[:252] + "c"} {
		require.Empty(t, validation.IsDNS1123Subdomain(statusName(node)), node)
	}
	require.Equal(t, "rrpool-10.240.0.5", statusName(five))
	require.NotEqual(t, statusName(long), statusName(long[:251]+"d"))
}

func TestExactlyTheWantedReportsAreAskedFor(t *testing.T) {
	b := newBench(t)
	foreign := apiv3.NewCalicoNodeStatus()
	foreign.Name, foreign.Spec = "debug", reportSpec(plan.StatusRequest{Node: five, Period: time.Second})
	_, err := b.other.reports.write(t.Context(), foreign)
	require.NoError(t, err)
	b.run()
	watch := func(want ...plan.StatusRequest) (did bool, writes []string) {
		writes = b.writes(func() { did = b.watch(want...) })
		return did, writes
	}
	plain, routed := plan.StatusRequest{Node: five, Period: 1500 * time.Millisecond}, plan.StatusRequest{Node: "10.240.0.6", Routes: true}
	did, writes := watch(plain, routed)
	require.True(t, did)
	require.Equal(t, []string{"create caliconodestatuses/rrpool-10.240.0.5", "create caliconodestatuses/rrpool-10.240.0.6"}, writes)
	require.EqualValues(t, 2, *b.report(five).Spec.UpdatePeriodSeconds)
	require.EqualValues(t, 1, *b.report("10.240.0.6").Spec.UpdatePeriodSeconds)
	require.Equal(t, []apiv3.NodeStatusClassType{"Agent", "BGP", "Routes"}, b.report("10.240.0.6").Spec.Classes)
	require.Len(t, b.observe().Statuses, 2, "those of others are ignored")
	did, writes = watch(routed, plain)
	require.False(t, did)
	require.Empty(t, writes)

	for _, node := range []string{plain.Node, routed.Node} {
		b.fill(node, func(s *apiv3.CalicoNodeStatusStatus) {
			s.Agent.BIRDV4.State = apiv3.BGPDaemonStateReady
			s.Routes.RoutesV4 = []apiv3.CalicoNodeRoute{{Destination: "172.30.1.0/26", LearnedFrom: apiv3.CalicoNodeRouteLearnedFrom{SourceType: apiv3.RouteSourceTypeStatic}}}
		})
	}
	b.await("both reports", func(c plan.Cluster) bool {
		return !c.Statuses[plain.Node].Updated.IsZero() && c.Statuses[routed.Node].HasRoutes && len(c.Statuses[routed.Node].Routes) == 1
	})
	plain.Period, routed.Routes = time.Minute, false
	generation := b.report(routed.Node).Generation
	_, writes = watch(plain, routed)
	writes = slices.DeleteFunc(writes, func(w string) bool { return strings.HasPrefix(w, "patch caliconodestatuses/status") })
	require.Len(t, writes, 2)
	require.False(t, isCleared(b.report(plain.Node)), "another period does not spoil what is known")
	require.True(t, isCleared(b.report(routed.Node)), "stale routes are gone")
	require.Greater(t, b.report(routed.Node).Generation, generation)

	_, writes = watch(plain)
	require.Equal(t, []string{"delete caliconodestatuses/rrpool-10.240.0.6"}, writes)
	_, writes = watch()
	require.Equal(t, []string{"delete caliconodestatuses/rrpool-10.240.0.5"}, writes)
	require.Empty(t, b.observe().Statuses)
	_, err = b.other.reports.get(t.Context(), "debug")
	require.NoError(t, err)
}

func TestAReportOfSomebodyElseUnderOurNameIsNotTouchedAndStopsNoOther(t *testing.T) {
	b := newBench(t)
	foreign := apiv3.NewCalicoNodeStatus()
	foreign.Name, foreign.Spec = statusName(five), reportSpec(plan.StatusRequest{Node: "another"})
	_, err := b.other.reports.write(t.Context(), foreign)
	require.NoError(t, err)
	b.run()
	did, err := b.Watch(t.Context(), []plan.StatusRequest{{Node: five, Routes: true}, {Node: "10.240.0.6"}})
	var taken *NameTakenError
	require.ErrorAs(t, err, &taken)
	require.True(t, did)
	require.Len(t, b.report(five).Spec.Classes, 2)
	_, err = b.Apply(t.Context(), scope, plan.RefreshStatus{Node: five})
	require.ErrorAs(t, err, &taken)
}

// Whoever takes the labels from a report does not keep all steps from being taken: its name and its node say whose it is.
func TestAReportWithoutItsLabelsIsStillOurs(t *testing.T) {
	b := newBench(t).run()
	b.node(five, nil)
	require.True(t, b.watch(plan.StatusRequest{Node: five}))
	o := b.report(five)
	o.Labels = nil
	_, err := b.other.reports.write(t.Context(), o)
	require.NoError(t, err)
	b.await("the report", func(plan.Cluster) bool {
		return len(b.store.reports()) == 1 && !isLabelled(b.store.reports()[0].object)
	})
	require.Contains(t, b.observe().Statuses, five)
	_, err = b.Apply(t.Context(), scope, plan.RefreshStatus{Node: five})
	require.NoError(t, err)
	require.True(t, b.watch(plan.StatusRequest{Node: five, Routes: true}))
	require.True(t, isLabelled(b.report(five)))
	require.True(t, b.watch(), "it is taken away with the others")
}

// Where one address family has no sessions, the reporter writes every period.
func TestAReporterThatWritesRegularlyIsRecognised(t *testing.T) {
	at := func(s int) time.Time { return time.Date(2026, 5, 1, 12, 0, s, 0, time.UTC) }
	reportOf := func(s int, state apiv3.BGPSessionState) *apiv3.CalicoNodeStatus {
		o := blankReport()
		o.Status.LastUpdated = metav1.NewTime(at(s))
		o.Status.BGP.PeersV4 = []apiv3.CalicoNodePeer{{PeerIP: "10.0.0.2", Type: apiv3.BGPPeerTypeNodeMesh, State: state}}
		return o
	}
	var r *report
	r = r.next(reportOf(1, apiv3.BGPSessionStateEstablished), at(1), false)
	require.False(t, r.regular, "the first one says nothing about the next")
	r = r.next(reportOf(2, apiv3.BGPSessionStateIdle), at(2), false)
	require.False(t, r.regular, "it had a reason to write")
	r = r.next(reportOf(3, apiv3.BGPSessionStateIdle), at(3), false)
	require.True(t, r.regular)
	require.True(t, r.status(true, false).Regular)
	r = r.next(reportOf(4, apiv3.BGPSessionStateEstablished), at(4), false)
	require.True(t, r.regular, "news does not end it")
	r = r.next(blankReport(), at(5), false).next(reportOf(6, apiv3.BGPSessionStateEstablished), at(6), false)
	require.False(t, r.regular, "an answer is no habit: ask a silent one once, not for ever")
}

func TestARefreshClearsAReportOnce(t *testing.T) {
	b := newBench(t).run()
	b.clock.Move(time.Since(b.clock.Now()).Round(time.Second)) // to that of the apiserver, which dates objects
	b.apply(plan.RefreshStatus{Node: five}, false)
	b.watch(plan.StatusRequest{Node: five, Period: time.Second})
	b.apply(plan.RefreshStatus{Node: five}, false)
	peers := []apiv3.CalicoNodePeer{{PeerIP: "10.0.0.2", Type: apiv3.BGPPeerTypeNodePeer, State: apiv3.BGPSessionStateEstablished, Since: "12:00:00"}}
	b.fill(five, func(s *apiv3.CalicoNodeStatusStatus) { s.BGP.PeersV4 = peers })
	first := b.clock.Now()
	b.await("the report", func(c plan.Cluster) bool { return c.Statuses[five].Updated.Equal(first) })

	b.clock.Move(time.Minute)
	refresh := []string{"update caliconodestatuses/rrpool-10.240.0.5"}
	if group == GroupV3 && !inEtcd {
		refresh = append([]string{"patch caliconodestatuses/status/rrpool-10.240.0.5"}, refresh...) // first blank, then the question
	}
	require.Equal(t, refresh, b.writes(func() { b.apply(plan.RefreshStatus{Node: five}, true) }))
	cleared := b.observe().Statuses[five]
	require.True(t, b.clock.Now().Equal(cleared.Cleared))
	require.Zero(t, cleared.Updated)
	require.True(t, cleared.Sessions[0].Established, "what it said before is still known")
	require.Empty(t, b.writes(func() { b.apply(plan.RefreshStatus{Node: five}, false) }))
	second := b.clock.Move(refreshRetry)
	generation := b.report(five).Generation
	require.Len(t, b.writes(func() { b.apply(plan.RefreshStatus{Node: five}, true) }), 1, "it stays blank: asked again")
	require.Greater(t, b.report(five).Generation, generation)
	require.Empty(t, b.writes(func() { b.apply(plan.RefreshStatus{Node: five}, false) }), "and given time again")
	successor := b.adapter()
	start(t, successor)
	require.NoError(t, successor.WaitSynced(t.Context()))
	after, err := successor.Observe(t.Context(), scope)
	require.NoError(t, err)
	require.WithinDuration(t, cleared.Cleared, after.Statuses[five].Cleared, time.Second, "silent since the first question, not the last")
	b.fill(five, func(s *apiv3.CalicoNodeStatusStatus) { s.BGP.PeersV4 = peers })
	seen := b.await("the report again", func(c plan.Cluster) bool { return c.Statuses[five].Updated.Equal(second) })
	require.True(t, seen.Statuses[five].Sessions[0].Since.Equal(first))

	// A restart forgets what was proven, and nothing else.
	b.stop()
	_, err = b.Observe(t.Context(), scope)
	require.ErrorContains(t, err, "stopped")
	b.Adapter = b.adapter()
	b.run()
	status := b.observe().Statuses[five]
	require.Zero(t, status.Updated)
	require.True(t, status.Sessions[0].Established)
	require.Zero(t, status.Sessions[0].Since)
	third := b.clock.Move(time.Minute)
	b.apply(plan.RefreshStatus{Node: five}, true)
	b.fill(five, func(s *apiv3.CalicoNodeStatusStatus) { s.BGP.PeersV4 = peers })
	seen = b.await("a proof", func(c plan.Cluster) bool { return c.Statuses[five].Updated.Equal(third) })
	require.True(t, seen.Statuses[five].Sessions[0].Since.Equal(third))
}

// A watch that lags behind has not brought an answer yet, which the API has.
func TestAnAnswerOnItsWayIsNotLost(t *testing.T) {
	b := newBench(t).run()
	want, name := plan.StatusRequest{Node: five, Period: time.Second}, statusName(five)
	answer := func() *report {
		b.fill(five, func(s *apiv3.CalicoNodeStatusStatus) { s.BGP.NumberEstablishedV4 = 1 })
		b.await("the answer", func(c plan.Cluster) bool { return c.Statuses[five].Updated.Equal(b.clock.Now()) })
		return b.store.reports()[0]
	}
	answerLate := func() *report {
		b.clock.Move(time.Minute)
		b.apply(plan.RefreshStatus{Node: five}, true)
		blank := b.store.reports()[0]
		b.clock.Move(refreshRetry)
		out := answer()
		b.store.mu.Lock()
		defer b.store.mu.Unlock()
		b.store.statuses[name] = blank
		return out
	}
	b.watch(want)
	answer()

	late := answerLate()
	require.Empty(t, b.writes(func() { b.apply(plan.RefreshStatus{Node: five}, false) }))
	arrives := model.KVPair{Key: model.ResourceKey{Kind: apiv3.KindCalicoNodeStatus, Name: name}, Value: late.object}
	b.store.OnUpdates([]api.Update{{KVPair: arrives}})
	require.Equal(t, b.clock.Now(), b.observe().Statuses[five].Updated, "it is heard when it arrives")

	answerLate()
	want.Routes = true
	b.watch(want)
	require.True(t, isCleared(b.report(five)), "it is not what is asked for any more")
	require.True(t, b.clock.Now().Equal(b.observe().Statuses[five].Cleared), "silent since now, not since what it has answered")
}

func TestAReportThatWeFindIsNoProof(t *testing.T) {
	b := newBench(t).run()
	want := plan.StatusRequest{Node: five, Period: time.Second}
	b.watch(want)
	b.fill(five, func(s *apiv3.CalicoNodeStatusStatus) { s.BGP.NumberEstablishedV4 = 1 })
	b.await("the report", func(c plan.Cluster) bool { return !c.Statuses[five].Updated.IsZero() })

	// A watch that lags behind has not brought the object, which may be of any age.
	b.store.forget(apiv3.KindCalicoNodeStatus, statusName(five))
	require.False(t, b.watch(want))
	seen, ok := b.observe().Statuses[five]
	require.True(t, ok)
	require.Zero(t, seen.Updated)
}

func TestAFailedWriteOfAReportChangesNothingThatIsKnown(t *testing.T) {
	b := newBench(t).run()
	want := plan.StatusRequest{Node: five, Period: time.Minute, Routes: true}
	b.node(five, nil)
	b.watch(want)
	b.fill(want.Node, func(s *apiv3.CalicoNodeStatusStatus) {
		s.Agent.BIRDV4.State = apiv3.BGPDaemonStateReady
		s.BGP.NumberEstablishedV4 = 1
		s.BGP.PeersV4 = []apiv3.CalicoNodePeer{{
			PeerIP: "10.0.0.2", Type: apiv3.BGPPeerTypeNodePeer, State: apiv3.BGPSessionStateEstablished, Since: "12:00:00",
		}}
		s.Routes.RoutesV4 = []apiv3.CalicoNodeRoute{{Destination: "172.30.1.0/26"}}
	})
	b.await("the report", func(c plan.Cluster) bool { return !c.Statuses[want.Node].Updated.IsZero() })
	require.Zero(t, b.observe().Statuses[want.Node].Waiting)

	permit := b.cfg.Permit
	b.cfg.Permit = func(context.Context) error { return errors.New("refused once") }
	want.Routes = false
	hold := func(v bool) { b.store.mu.Lock(); b.store.stopped = v; b.store.mu.Unlock() }
	hold(true) // the watch is slower than we are
	b.fill(want.Node, func(s *apiv3.CalicoNodeStatusStatus) { s.BGP.PeersV4[0].Since = "12:00:01" })
	_, err := b.putReport(t.Context(), statusName(want.Node), want)
	require.Error(t, err)
	live := b.report(want.Node)
	hold(false)
	key := model.ResourceKey{Kind: apiv3.KindCalicoNodeStatus, Name: live.Name}
	b.store.OnUpdates([]api.Update{{KVPair: model.KVPair{Key: key, Value: live, Revision: live.ResourceVersion}}}) // now it brings it
	b.cfg.Permit = permit

	require.Zero(t, b.observe().Statuses[want.Node].Waiting, "sessions seem to wait")
	require.True(t, b.watch(want), "the report is never corrected")
}
