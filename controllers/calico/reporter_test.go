//go:build !race

// Calico's reporter has data races of its own (HasSameOrNewerSpec).

package calico

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	apiv3 "github.com/projectcalico/api/pkg/apis/projectcalico/v3"
	"github.com/projectcalico/calico/libcalico-go/lib/backend/api"
	"github.com/projectcalico/calico/libcalico-go/lib/backend/syncersv1/nodestatussyncer"
	"github.com/projectcalico/calico/node/pkg/status"
	populator "github.com/projectcalico/calico/node/pkg/status/populators"
	"github.com/stretchr/testify/require"

	"github.com/rrpool/rrpool/controllers/plan"
)

// bird is a BIRD whose one session is always up.
type bird struct{ asked atomic.Int64 }

func (*bird) Show() {}

func (f *bird) Populate(s *apiv3.CalicoNodeStatus) error {
	f.asked.Add(1)
	s.Status.BGP = apiv3.CalicoNodeBGPStatus{NumberEstablishedV4: 1, PeersV4: []apiv3.CalicoNodePeer{
		{PeerIP: "10.0.0.2", Type: apiv3.BGPPeerTypeNodePeer, State: apiv3.BGPSessionStateEstablished, Since: "12:00:00"},
	}}
	return nil
}

// routes is its routing table: one block of its own, and many that another cluster or a router has brought.
type routes struct{ foreign int }

func (routes) Show() {}

func (r routes) Populate(s *apiv3.CalicoNodeStatus) error {
	s.Status.Routes.RoutesV4 = []apiv3.CalicoNodeRoute{{Destination: "172.30.1.0/26", LearnedFrom: apiv3.CalicoNodeRouteLearnedFrom{SourceType: apiv3.RouteSourceTypeStatic}}}
	for i := range r.foreign {
		s.Status.Routes.RoutesV4 = append(s.Status.Routes.RoutesV4, apiv3.CalicoNodeRoute{
			Type: apiv3.RouteTypeFIB, Destination: fmt.Sprintf("10.%d.%d.%d/26", i/6>>10, i/6>>2&255, i/6&3<<6), Gateway: "10.0.0.2", Interface: "eth0",
			LearnedFrom: apiv3.CalicoNodeRouteLearnedFrom{SourceType: apiv3.RouteSourceTypeBGPPeer, PeerIP: "10.0.0.2"},
		})
	}
	return nil
}

// calicoNode runs the reporter of a real calico-node for one node, with so many paths to prefixes of others.
func calicoNode(b *bench, node string, foreign int) *bird {
	b.t.Helper()
	client := calicoctl(b.t, b.plane)
	f := &bird{}
	reporter := status.NewNodeStatusReporter(node, nil, client, status.PopulatorRegistry{
		populator.IPFamilyV4: {apiv3.NodeStatusClassTypeBGP: f, apiv3.NodeStatusClassTypeRoutes: routes{foreign}},
	})
	syncer := nodestatussyncer.New(client.(interface{ Backend() api.Client }).Backend(), reporter)
	go reporter.Run()
	syncer.Start()
	b.t.Cleanup(func() {
		syncer.Stop()
		reporter.Stop()
	})
	return f
}

// askedAgain waits until BIRD has been asked some more times.
func askedAgain(t *testing.T, f *bird) {
	t.Helper()
	until := f.asked.Load() + 3
	require.Eventually(t, func() bool { return f.asked.Load() >= until }, 2*time.Minute, 20*time.Millisecond)
}

func TestTheRealReporterAnswersARefreshAtOnce(t *testing.T) {
	if !inEtcd {
		onlyV1(t) // the reporter of this version does not know the other
	}
	b := newBench(t).run()
	f := calicoNode(b, five, 0)
	want := plan.StatusRequest{Node: five, Period: 24 * time.Hour}
	b.watch(want)
	first := b.clock.Now()
	b.await("the first report", func(c plan.Cluster) bool { return c.Statuses[want.Node].Updated.Equal(first) })

	second := b.clock.Move(time.Hour)
	b.apply(plan.RefreshStatus{Node: want.Node}, true)
	seen := b.await("a fresh report, long before the period is over", func(c plan.Cluster) bool {
		return c.Statuses[want.Node].Updated.Equal(second)
	})
	require.True(t, seen.Statuses[want.Node].Sessions[0].Since.Equal(first))

	// Classes and period that are changed later reach the reporter as well.
	want.Routes = true
	b.watch(want)
	b.await("routes", func(c plan.Cluster) bool { return len(c.Statuses[want.Node].Routes) == 1 })
	want.Period, want.Routes = time.Second, false
	b.watch(want)
	b.await("no routes", func(c plan.Cluster) bool {
		return !c.Statuses[want.Node].HasRoutes && !c.Statuses[want.Node].Updated.IsZero()
	})
	require.Empty(t, b.report(want.Node).Status.Routes)
	askedAgain(t, f)
}

func TestTheRealReporterOverlooksARefreshThatDoesNotCountTheGenerationUp(t *testing.T) {
	if !inEtcd {
		onlyV1(t) // the reporter of this version does not know the other
	}
	b := newBench(t).run()
	f := calicoNode(b, five, 0)
	b.watch(plan.StatusRequest{Node: five, Period: time.Second})
	b.await("the first report", func(c plan.Cluster) bool { return !c.Statuses[five].Updated.IsZero() })
	askedAgain(t, f)

	o := b.report(five)
	o.Status = apiv3.CalicoNodeStatusStatus{}
	_, err := b.other.reports.write(t.Context(), o)
	require.NoError(t, err)
	askedAgain(t, f)
	require.True(t, isCleared(b.report(five)), "if this fails, Calico has changed and bump is no longer needed")

	b.apply(plan.RefreshStatus{Node: five}, false)
}

// How many paths a node has from another cluster or from routers is nothing that the cluster says. Too many for a report: it is
// never written, and once it is asked for sessions alone it is known that this node's cannot list them.
func TestTheRealReporterWithMorePathsThanAReportHolds(t *testing.T) {
	if !inEtcd {
		onlyV1(t) // the reporter of this version does not know the other
	}
	b := newBench(t).run()
	f := calicoNode(b, five, 6*2000)
	want := plan.StatusRequest{Node: five, Period: time.Second, Routes: true}
	b.watch(want)
	askedAgain(t, f)
	require.True(t, isCleared(b.report(five)), "a report of 2,000 blocks by six paths each is not taken")
	b.clock.Move(plan.RoutesTimeout)
	want.Routes = false
	b.watch(want)
	b.await("its sessions", func(c plan.Cluster) bool {
		st := c.Statuses[five]
		return !st.Updated.IsZero() && len(st.Sessions) == 1 && st.RoutesUnanswered
	})
}
