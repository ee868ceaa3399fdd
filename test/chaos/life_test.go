//go:build linux

package chaos_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/test/e2e/site"
	"github.com/rrpool/rrpool/test/lab"
)

// A cluster where every node runs pods gets its reflectors, loses them in every
// way there is, and gets others. Only the very first promotion costs anything,
// and that is said before.
func TestLifeOfBusyReflectors(t *testing.T) {
	c := start(t, site.Options{Nodes: lab.Workers(9), MeshPassword: "s3cret"})
	c.stages([]stage{
		{"all nodes are busy", migrateBusy},
		{"BIRD is killed on a reflector", killBIRD},
		{"a reflector's link is cut", cutLink},
		{"a reflector's node is deleted", deleteNode},
		{"a zone is cut", cutZone},
		{"the most senior reflector is cordoned by a person", cordonSenior},
		{"all reflectors are shut down, one after the other", shutDownInTurn},
	})
}

// migrateBusy: loss only on pairs of the first, below 5 s, and announced.
func migrateBusy(c *cluster) {
	e := c.begin("onto busy nodes")
	require.NoError(c.t, c.CreatePool(c.ctx, hasty))
	holders := c.waitReflectors("three reflectors", func(h []string) bool { return len(h) == 3 })
	c.requireMesh(false)
	c.requireOnePerZone(holders)
	first := c.seniority(holders)[0]
	c.requireLostNothing(e, first)

	report := c.lost(e)
	require.NotEmpty(c.t, report.Lossy(), "the first busy reflector costs something, or nothing is measured")
	require.Less(c.t, report.LongestOutage(), 5*time.Second)
	for _, pair := range lossyPairs(report) {
		require.Contains(c.t, pair, first)
	}
	from, _ := bounds(report)
	told := c.told(e, []string{"MeshDisabled", "all 6 nodes have Established sessions with all 3 route reflectors"})
	require.True(c.t, slices.ContainsFunc(told, func(told site.Event) bool {
		return told.Time.Before(from) && strings.Contains(told.Note, "node "+first+" will be the first route reflector") &&
			strings.Contains(told.Note, "its 1 pods cannot be reached from other nodes")
	}), "the loss that began at %s was announced before", from.Format("15:04:05.000"))
}

// killBIRD: the node stays Ready, the others carry on, nobody is replaced.
func killBIRD(c *cluster) {
	before, err := c.Holders(c.ctx)
	require.NoError(c.t, err)
	victim := c.seniority(before)[1]
	e := c.begin("BIRD killed on a reflector")
	require.NoError(c.t, c.Lab.KillBIRD(victim))
	c.waitFor("its lost sessions to be seen", func(o *v1alpha1.RouteReflectorPool) bool {
		return slices.ContainsFunc(o.Status.Reflectors, func(r v1alpha1.ReflectorStatus) bool { return r.SessionsEstablished < r.SessionsExpected })
	})
	time.Sleep(10 * time.Second) // beyond the grace, if it were NotReady
	require.NoError(c.t, c.Lab.StartBIRD(c.ctx, victim))
	require.Equal(c.t, before, c.waitReflectors("all sessions to be back", func([]string) bool { return true }))
	require.NoError(c.t, c.Lab.WaitReflected(c.ctx, before...))
	require.Empty(c.t, c.meshWrites(e))
	c.told(e)
	c.requireLostNothing(e)
}

// cutLink: the node is Unknown, and another one of its zone takes over. It is the
// most junior one: of the most senior one, which has to step down first in case
// it is alive, the peers hold on to its sessions for three minutes.
func cutLink(c *cluster) {
	before, zones := c.reflectors(), c.zones()
	victim := before[len(before)-1]
	e := c.begin("a reflector's link is cut")
	require.NoError(c.t, c.Lab.CutLink(victim))
	require.NoError(c.t, c.Lab.SetUnknown(c.ctx, victim))
	after := c.waitReplaced(before, victim)
	c.requireOnePerZone(after)
	substitute := newOne(before, after)
	require.Equal(c.t, zones[victim], zones[substitute])
	c.told(e, []string{"ReflectorAdded", substitute}, []string{"ReflectorRemoved", victim, "it is not Ready"})

	require.NoError(c.t, c.Lab.RestoreLink(victim))
	require.NoError(c.t, c.Lab.SetReady(c.ctx, victim, true))
	require.NoError(c.t, c.Lab.WaitReflected(c.ctx, after...))
	require.Equal(c.t, after, c.waitReflectors("calm", func([]string) bool { return true }), "who comes back is an ordinary node")
	c.requireLostNothing(e, victim)
}

// deleteNode: the machine is destroyed, and its object deleted.
func deleteNode(c *cluster) {
	before, zones := c.reflectors(), c.zones()
	victim := before[0]
	e := c.begin("a reflector's node is deleted")
	require.NoError(c.t, c.Lab.LoseNode(c.ctx, victim))
	after := c.waitReplaced(before, victim)
	substitute := newOne(before, after)
	require.Equal(c.t, zones[victim], zones[substitute])
	c.told(e, []string{"ReflectorAdded", substitute})
	c.requireNoPeersOf(victim)
	c.requireLostNothing(e, victim)
}

// cutZone: another zone lends a reflector, and has it back afterwards.
func cutZone(c *cluster) {
	before, zones := c.reflectors(), c.zones()
	victim := before[1]
	e := c.begin("a zone is cut")
	cut, err := c.Lab.CutZone(c.ctx, zones[victim])
	require.NoError(c.t, err)
	require.Contains(c.t, cut, victim)
	lent := newOne(before, c.waitReplaced(before, victim))
	require.NotEqual(c.t, zones[victim], zones[lent])
	c.told(e, []string{"ReflectorAdded", lent}, []string{"ReflectorRemoved", victim, "it is not Ready"})

	require.NoError(c.t, c.Lab.RestoreZone(c.ctx, zones[victim]))
	after := c.waitReflectors("the zone to have its share back", func(h []string) bool { return len(h) == 3 && c.onePerZone(h) })
	require.NotContains(c.t, after, lent)
	c.told(e, []string{"ReflectorRemoved", lent})
	require.Empty(c.t, c.meshWrites(e), "there were enough reflectors all the time")
	c.requireLostNothing(e, cut...)
}

// cordonSenior: a person cordons the reflector that has nobody above it. What that
// may cost is said before, for exactly two nodes.
func cordonSenior(c *cluster) {
	before := c.reflectors()
	victim := before[0]
	e := c.begin("the most senior reflector is cordoned")
	require.NoError(c.t, c.Lab.Cordon(c.ctx, victim))
	after := c.waitReplaced(before, victim)
	c.requireOnePerZone(after)
	require.Equal(c.t, []string{victim}, c.cordoned(), "nobody undoes a person's cordon")
	told := c.told(e, []string{"ReflectorAdded", newOne(before, after)}, []string{"ReflectorRemoved", victim, "it is cordoned"})

	report := c.lost(e)
	allowed := ""
	for _, told := range told {
		if strings.Contains(told.Note, "the pods of these two nodes cannot reach each other for some seconds") {
			allowed = told.About
			from, _ := bounds(report)
			require.True(c.t, from.IsZero() || told.Time.Before(from.Add(time.Second)), "announced at %s, lost from %s", told.Time, from)
		}
	}
	require.NotEmpty(c.t, allowed, "the turn of a session that nobody can bridge is announced")
	require.Less(c.t, report.LongestOutage(), 5*time.Second)
	for _, pair := range report.Lossy() {
		require.Contains(c.t, allowed, pair.From, "%s", pair)
		require.Contains(c.t, allowed, pair.To, "%s", pair)
	}
	for _, other := range before[1:] {
		if strings.Contains(allowed, other) {
			require.NoError(c.t, c.lost(e, victim).ZeroLoss())
			require.NoError(c.t, c.lost(e, other).ZeroLoss())
		}
	}
	require.NoError(c.t, c.Lab.Uncordon(c.ctx, victim))
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
