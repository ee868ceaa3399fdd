//go:build linux

package chaos_test

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/projectcalico/calico/libcalico-go/lib/options"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/controllers/plan/topology"
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
	for _, pair := range report.Lossy() {
		require.Contains(c.t, []string{pair.From, pair.To}, first)
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
	// No BGPPeer is left for the node that is gone.
	peers, err := c.Lab.Calico().BGPPeers().List(c.ctx, options.ListOptions{})
	require.NoError(c.t, err)
	require.NotEmpty(c.t, peers.Items)
	for i := range peers.Items {
		require.NotContains(c.t, strings.Split(peers.Items[i].Name, "."), hit)
	}
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

// cordonFirst: a person cordons the reflector that is the client of no other. What that may cost is said before, for exactly two nodes.
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
	require.NoError(c.t, c.Edit(c.ctx, func(spec *v1alpha1.RouteReflectorPoolSpec) {
		spec.Rollout.NotReadyGrace = metav1.Duration{Duration: time.Minute}
	}))
	going := c.reflectors()
	e := c.begin("reflectors shut down in turn")
	next := time.Now()
	for _, n := range going {
		time.Sleep(time.Until(next))
		next = time.Now().Add(apart)
		c.t.Logf("%s %s is shut down", time.Now().Format("15:04:05.000"), n)
		require.NoError(c.t, c.Lab.Shutdown(c.ctx, n))
	}
	time.Sleep(apart / 2)
	last := next.Add(-apart)
	// The manager switched the mesh on before the last reflector went, and said why.
	writes := c.meshWrites(e)
	require.NotEmpty(c.t, writes, "the mesh came back")
	c.t.Logf("    mesh: %s, the last one went at %s", writes[0], last.Format("15:04:05.000"))
	require.True(c.t, writes[0].Time.Before(last), "the mesh came on at %s, after the last one went at %s", writes[0].Time, last)
	c.requireMesh(true)
	c.requireEvents(e, []string{"MeshRestored", "only 1 route reflectors serve, at least 2 should: the mesh takes over until they are back"})
	c.requireLostNothing(e, going...)
}

// replicated and bare are the nodes that a drained cluster prefers: a ReplicaSet
// has made the pods of the former, and those of the latter have no controller.
var replicated, bare = []string{"infra-0", "infra-1"}, "infra-2"

const byHand = "worker-0"

// A cluster without zones gets its reflectors by draining them, and loses all of them together.
func TestDrainedReflectors(t *testing.T) {
	infra := map[string]string{"node-role.kubernetes.io/infra": ""}
	specs := []lab.NodeSpec{
		{Name: replicated[0], Labels: infra, Pods: 1, Controlled: true},
		{Name: replicated[1], Labels: infra, Pods: 2, Controlled: true},
		{Name: bare, Labels: infra, Pods: 3},
	}
	for i := range 5 {
		specs = append(specs, lab.NodeSpec{Name: fmt.Sprintf("worker-%d", i), Pods: 1})
	}
	c := start(t, site.Options{Nodes: specs})
	c.stages([]stage{
		{"promotion is Drain", migrateDraining},
		{"all reflectors are shut down in the same second", shutDownTogether},
	})
}

// migrateDraining: what can be moved is evicted, what cannot stays, no pod loses anything while it runs, and every
// cordon of ours is undone.
func migrateDraining(c *cluster) {
	stay, err := c.Lab.Pods(c.ctx, bare)
	require.NoError(c.t, err)
	require.Len(c.t, stay, 3)
	require.NoError(c.t, c.Lab.Cordon(c.ctx, byHand))
	e := c.begin("onto drained nodes")
	require.NoError(c.t, c.CreatePool(c.ctx, func(o *v1alpha1.RouteReflectorPool) {
		hasty(o)
		o.Spec.Provider.ExistingNodes.Promotion = v1alpha1.PromotionDrain
		o.Spec.Provider.ExistingNodes.Preferred.MatchLabels = map[string]string{"node-role.kubernetes.io/infra": ""}
	}))
	reflectors := c.waitReflectors("three reflectors", func(h []string) bool { return len(h) == 3 })
	require.Equal(c.t, append(slices.Clone(replicated), bare), reflectors)
	c.requireMesh(false)
	require.Equal(c.t, []string{byHand}, c.cordoned(), "ours are undone, a person's is not")
	left, err := c.Lab.Pods(c.ctx, bare)
	require.NoError(c.t, err)
	require.Subset(c.t, left, stay, "pods without a controller stay")
	events := [][]string{{"PodsStay", bare, stay[0]}}
	for _, n := range replicated {
		events = append(events, []string{"NodeCordoned", n}, []string{"PodsEvicted", n}, []string{"NodeUncordoned", n})
	}
	c.requireEvents(e, events...)
	c.requireLostNothing(e)
}

// shutDownTogether: no reflector is left, and every route is withdrawn. The mesh is switched on without a wait, and
// carries everyone within seconds. The grace is as it is by default, so that nothing else happens meanwhile.
func shutDownTogether(c *cluster) {
	require.NoError(c.t, c.Edit(c.ctx, func(spec *v1alpha1.RouteReflectorPoolSpec) {
		spec.Rollout.NotReadyGrace = metav1.Duration{Duration: time.Minute}
	}))
	going := c.reflectors()
	e := c.begin("all reflectors shut down together")
	var all sync.WaitGroup
	errs := make([]error, len(going))
	for i, n := range going {
		all.Go(func() { errs[i] = c.Lab.Shutdown(c.ctx, n) })
	}
	all.Wait()
	known := time.Now()
	for _, err := range errs {
		require.NoError(c.t, err)
	}
	require.Less(c.t, known.Sub(e.from), 2*time.Second, "they go together")
	require.Eventually(c.t, func() bool { return len(c.meshWrites(e)) > 0 }, limit, 100*time.Millisecond)
	time.Sleep(15 * time.Second) // for whatever else might be lost
	c.requireMesh(true)
	c.requireEvents(e, []string{"MeshRestored", "only 0 route reflectors serve, at least 2 should: the mesh takes over until they are back"})

	report := c.lost(e, going...)
	decided := c.meshWrites(e)[0].Time
	from, until := bounds(report)
	require.NotEmpty(c.t, report.Lossy(), "without reflectors there are no routes, or nothing is measured")
	c.t.Logf("lost from %s after the first went to %s; decided %s after the API knew of all; routes back %s after that",
		from.Sub(e.from).Round(time.Millisecond), until.Sub(e.from).Round(time.Millisecond),
		decided.Sub(known).Round(time.Millisecond), until.Sub(decided).Round(time.Millisecond))
	require.Less(c.t, decided.Sub(known), 2*time.Second, "the mesh is switched on as soon as the API knows")
	require.Less(c.t, until.Sub(decided), 5*time.Second, "the mesh carries everyone")
}

// A cluster moves from one topology to another, and reflectors come, go and fail in each. No
// packet is lost, and the mesh is never needed in between.
func TestTopologiesGrowShrinkAndChange(t *testing.T) {
	c := start(t, site.Options{MeshPassword: "s3cret"})
	c.stages([]stage{
		{"onto Single", migrateDedicated},
		{"Single to Quorum", move(v1alpha1.TopologyQuorum, 6, 2, 6)},
		{"a reflector more in each zone", move(v1alpha1.TopologyQuorum, 9, 2, 9)},
		{"and one less", move(v1alpha1.TopologyQuorum, 6, 2, 6)},
		{"Quorum to Hierarchy", move(v1alpha1.TopologyHierarchy, 3, 2, 9)},
		{"a reflector more in each rack", move(v1alpha1.TopologyHierarchy, 3, 3, 12)},
		{"a rack's reflector is lost", loseReflector},
		{"and one less in each rack", move(v1alpha1.TopologyHierarchy, 3, 2, 9)},
		{"Hierarchy to Single", move(v1alpha1.TopologySingle, 3, 2, 3)},
		{"Single to Hierarchy", move(v1alpha1.TopologyHierarchy, 3, 2, 9)},
		{"Hierarchy to MultiCluster", move(v1alpha1.TopologyMultiCluster, 3, 3, 3)},
		{"back to the mesh", backToMesh},
	})
}

func migrateDedicated(c *cluster) {
	e := c.begin("onto dedicated nodes")
	require.NoError(c.t, c.CreatePool(c.ctx, hasty))
	c.waitReflectors("three reflectors", func(h []string) bool { return len(h) == 3 })
	c.requireMesh(false)
	c.requireLostNothing(e)
}

// move changes the topology, and how many reflectors it has, and waits until they all have their slots.
func move(kind v1alpha1.TopologyType, sized, redundancy int32, reflectors int) func(*cluster) {
	return func(c *cluster) {
		e := c.begin(string(kind))
		require.NoError(c.t, c.Edit(c.ctx, func(spec *v1alpha1.RouteReflectorPoolSpec) {
			spec.Topology.Type, spec.Topology.Redundancy, spec.Sizing.Min = kind, redundancy, sized
		}))
		c.waitReflectors("the new slots", func(h []string) bool {
			slots := c.slots()
			if len(h) != reflectors || len(slots) != reflectors {
				return false
			}
			for _, slot := range slots {
				if topology.KindOf(slot) != kind {
					return false
				}
			}
			return true
		})
		c.requireMesh(false)
		require.Empty(c.t, c.meshWrites(e), "the mesh was not needed")
		c.requireEvents(e)
		c.requireLostNothing(e)
	}
}

func (c *cluster) slots() map[string]string {
	c.t.Helper()
	out := map[string]string{}
	for _, n := range c.nodes() {
		if slot, is := n.Labels["rrpool.io/route-reflector"]; is {
			out[n.Name] = slot
		}
	}
	return out
}

// loseReflector: the machine of one of a rack's reflectors is shut down, and comes back.
func loseReflector(c *cluster) {
	e := c.begin("a rack's reflector is lost")
	hit := ""
	for node, slot := range c.slots() {
		if slot == "rack-us-south-1-1" {
			hit = node
		}
	}
	require.NotEmpty(c.t, hit)
	require.NoError(c.t, c.Lab.Shutdown(c.ctx, hit))
	c.waitFor("it to be missed", func(o *v1alpha1.RouteReflectorPool) bool { return !ready(o) })
	require.NoError(c.t, c.Lab.PowerOn(c.ctx, hit))
	c.waitReflectors("all twelve", func(h []string) bool { return len(h) == 12 })
	require.Empty(c.t, c.meshWrites(e), "the mesh was not needed")
	c.requireEvents(e)
	c.requireLostNothing(e)
}

func backToMesh(c *cluster) {
	e := c.begin("back to the mesh")
	require.NoError(c.t, c.SetMode(c.ctx, v1alpha1.ModeFullMesh))
	c.waitFor("the mesh", func(o *v1alpha1.RouteReflectorPool) bool {
		return o.Status.ObservedGeneration == o.Generation && o.Status.Step.Name == "Steady" && len(c.slots()) == 0
	})
	c.requireMesh(true)
	c.requireLostNothing(e)
}
