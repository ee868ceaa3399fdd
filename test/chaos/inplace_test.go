//go:build linux

package chaos_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/test/e2e/site"
	"github.com/rrpool/rrpool/test/lab"
)

// A cluster where every node runs pods gets its reflectors, loses them in every way there is, and gets others. Only
// the very first promotion costs anything, and that is said before.
func TestInPlaceReflectorsFailAndAreReplaced(t *testing.T) {
	c := start(t, site.Options{Nodes: lab.Workers(9), MeshPassword: "s3cret"})
	c.stages([]stage{
		{"all nodes run workloads", migrateInPlace},
		{"BIRD is killed on a reflector", killBIRD},
		{"a reflector's link is cut", cutLink},
		{"a reflector's node is deleted", deleteNode},
		{"a zone is cut", cutZone},
		{"the first reflector in peering order is cordoned by a person", cordonFirst},
		{"all reflectors are shut down, one after the other", shutDownInTurn},
	})
}

// migrateInPlace: loss only on pairs of the first, below 5 s, and announced.
func migrateInPlace(c *cluster) {
	e := c.begin("onto nodes with workloads")
	require.NoError(c.t, c.CreatePool(c.ctx, hasty))
	reflectors := c.waitReflectors("three reflectors", func(h []string) bool { return len(h) == 3 })
	c.requireMesh(false)
	c.requireOnePerZone(reflectors)
	first := c.inPeeringOrder(reflectors)[0]
	c.requireLostNothing(e, first)

	report := c.lost(e)
	require.NotEmpty(c.t, report.Lossy(), "the first reflector costs something, or nothing is measured")
	require.Less(c.t, report.LongestOutage(), 5*time.Second)
	for _, pair := range lossyPairs(report) {
		require.Contains(c.t, pair, first)
	}
	from, _ := bounds(report)
	events := c.requireEvents(e, []string{"MeshDisabled", "all 6 nodes have Established sessions with all 3 route reflectors"})
	require.True(c.t, slices.ContainsFunc(events, func(one eventsv1.Event) bool {
		return one.EventTime.Time.Before(from) && strings.Contains(one.Note, "node "+first+" will be the first route reflector") &&
			strings.Contains(one.Note, "its 1 pods cannot be reached from other nodes")
	}), "the loss that began at %s was announced before", from.Format("15:04:05.000"))
}

// killBIRD: the node stays Ready, the others carry on, none is replaced.
func killBIRD(c *cluster) {
	before, err := c.CurrentReflectors(c.ctx)
	require.NoError(c.t, err)
	hit := c.inPeeringOrder(before)[1]
	e := c.begin("BIRD killed on a reflector")
	require.NoError(c.t, c.Lab.KillBIRD(hit))
	c.waitFor("its lost sessions to be seen", func(o *v1alpha1.RouteReflectorPool) bool {
		return slices.ContainsFunc(o.Status.Reflectors, func(r v1alpha1.ReflectorStatus) bool { return r.SessionsEstablished < r.SessionsExpected })
	})
	time.Sleep(10 * time.Second) // beyond the grace, if it were NotReady
	require.NoError(c.t, c.Lab.StartBIRD(c.ctx, hit))
	require.Equal(c.t, before, c.waitReflectors("all sessions to be back", func([]string) bool { return true }))
	require.NoError(c.t, c.Lab.WaitReflected(c.ctx, before...))
	require.Empty(c.t, c.meshWrites(e))
	c.requireEvents(e)
	c.requireLostNothing(e)
}

// cutLink: the node is Unknown, and another one of its zone takes over. It is the last in peering order: the first
// has to step down in case it runs, and its peers keep their sessions for three minutes.
func cutLink(c *cluster) {
	before, zones := c.reflectors(), c.zones()
	hit := before[len(before)-1]
	e := c.begin("a reflector's link is cut")
	require.NoError(c.t, c.Lab.CutLink(hit))
	require.NoError(c.t, c.Lab.SetReady(c.ctx, hit, corev1.ConditionUnknown))
	after := c.waitReplaced(before, hit)
	c.requireOnePerZone(after)
	substitute := newOne(before, after)
	require.Equal(c.t, zones[hit], zones[substitute])
	c.requireEvents(e, []string{"ReflectorAdded", substitute}, []string{"ReflectorRemoved", hit, "it is not Ready"})

	require.NoError(c.t, c.Lab.RestoreLink(hit))
	require.NoError(c.t, c.Lab.SetReady(c.ctx, hit, corev1.ConditionTrue))
	require.NoError(c.t, c.Lab.WaitReflected(c.ctx, after...))
	require.Equal(c.t, after, c.waitReflectors("calm", func([]string) bool { return true }), "a node that comes back is an ordinary one")
	c.requireLostNothing(e, hit)
}

// deleteNode: the machine is destroyed, and its object deleted.
func deleteNode(c *cluster) {
	before, zones := c.reflectors(), c.zones()
	hit := before[0]
	e := c.begin("a reflector's node is deleted")
	require.NoError(c.t, c.Lab.Crash(hit))
	require.NoError(c.t, c.Lab.RemoveNode(c.ctx, hit))
	after := c.waitReplaced(before, hit)
	substitute := newOne(before, after)
	require.Equal(c.t, zones[hit], zones[substitute])
	c.requireEvents(e, []string{"ReflectorAdded", substitute})
	c.requireNoPeersOf(hit)
	c.requireLostNothing(e, hit)
}

// cutZone: a node of another zone becomes a reflector until the zone is back.
func cutZone(c *cluster) {
	before, zones := c.reflectors(), c.zones()
	hit := before[1]
	e := c.begin("a zone is cut")
	cut := slices.DeleteFunc(c.Lab.Nodes(), func(n string) bool { return zones[n] != zones[hit] })
	for _, n := range cut {
		require.NoError(c.t, c.Lab.CutLink(n))
	}
	for _, n := range cut {
		require.NoError(c.t, c.Lab.SetReady(c.ctx, n, corev1.ConditionUnknown))
	}
	lent := newOne(before, c.waitReplaced(before, hit))
	require.NotEqual(c.t, zones[hit], zones[lent])
	c.requireEvents(e, []string{"ReflectorAdded", lent}, []string{"ReflectorRemoved", hit, "it is not Ready"})

	for _, n := range cut {
		require.NoError(c.t, c.Lab.RestoreLink(n))
		require.NoError(c.t, c.Lab.SetReady(c.ctx, n, corev1.ConditionTrue))
	}
	after := c.waitReflectors("the zone to have its share back", func(h []string) bool { return len(h) == 3 && c.onePerZone(h) })
	require.NotContains(c.t, after, lent)
	c.requireEvents(e, []string{"ReflectorRemoved", lent})
	require.Empty(c.t, c.meshWrites(e), "there were enough reflectors all the time")
	c.requireLostNothing(e, cut...)
}

// cordonFirst: a person cordons the reflector that is the client of no other. What that
// may cost is said before, for exactly two nodes.
func cordonFirst(c *cluster) {
	before := c.reflectors()
	hit := before[0]
	e := c.begin("the first reflector in peering order is cordoned")
	require.NoError(c.t, c.Lab.Cordon(c.ctx, hit))
	after := c.waitReplaced(before, hit)
	c.requireOnePerZone(after)
	require.Equal(c.t, []string{hit}, c.cordoned(), "a person's cordon stays")
	events := c.requireEvents(e, []string{"ReflectorAdded", newOne(before, after)}, []string{"ReflectorRemoved", hit, "it is cordoned"})

	report := c.lost(e)
	from, _ := bounds(report)
	reversed := slices.DeleteFunc(events, func(one eventsv1.Event) bool { return one.Action != "StageDemotion" })
	require.NotEmpty(c.t, reversed, "the reversal of a session is announced")
	require.True(c.t, from.IsZero() || reversed[0].EventTime.Time.Before(from.Add(time.Second)), "announced at %s, lost from %s", reversed[0].EventTime.Time, from)
	require.Less(c.t, report.LongestOutage(), 5*time.Second)
	for _, pair := range report.Lossy() {
		require.Contains(c.t, []string{pair.From, pair.To}, hit, "%s", pair)
		require.True(c.t, slices.ContainsFunc(reversed, func(one eventsv1.Event) bool {
			return one.Related != nil && strings.Contains(one.Related.Name, pair.From) && strings.Contains(one.Related.Name, pair.To)
		}), "%s: the session of these two was not reversed", pair)
	}
	require.LessOrEqual(c.t, len(report.Lossy()), 2, "two nodes, both ways")
	require.NoError(c.t, c.Lab.Uncordon(c.ctx, hit))
}

// shutDownInTurn: the way a rolling update of workers does it. The grace is as it
// is by default, so that nothing but the safety net can help.
func shutDownInTurn(c *cluster) {
	c.edit(func(spec *v1alpha1.RouteReflectorPoolSpec) {
		spec.Rollout.NotReadyGrace = metav1.Duration{Duration: time.Minute}
	})
	going := c.reflectors()
	e := c.begin("reflectors shut down in turn")
	last := c.shutDownEach(going)
	c.requireNetCaught(e, last)
	c.requireLostNothing(e, going...)
}
