//go:build linux

package chaos_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/test/e2e/site"
	"github.com/rrpool/rrpool/test/lab"
	"github.com/rrpool/rrpool/test/lab/probe"
)

// The same probes, record and observer must see what a bad operator does: the mesh goes first, and reflectors were to follow.
func TestChaosSeesABadOperator(t *testing.T) {
	s := newRun(t, time.Minute)
	s.control = true
	bad := &fault{name: "an operator switches the mesh off first", begin: meshOffForSeconds, end: meshOn}
	pause(t.Context(), 2*time.Second) // in which nothing is lost
	s.play(t.Context(), t.Context(), []planned{{fault: bad}}, s.begun.Add(s.length))
	err := s.finish()
	require.ErrorContains(t, err, `while ["an operator switches the mesh off first"] was felt, 30 pairs lost more than they may (0s)`)
	require.ErrorContains(t, err, "taken away: the mesh")

	report := s.Lab.Report()
	require.Greater(t, report.LongestOutage(), 2*time.Second)
	for _, part := range s.record.shares(report) {
		require.True(t, len(part.faults) > 0 || part.pair.Lost == 0, "before it happened nothing was lost: %s", part.pair)
	}
}

// meshOffForSeconds counts them from when the last session has gone: confd may take as long to render it, and would else see only that the
// mesh is on again.
func meshOffForSeconds(ctx context.Context, s *chaosRun, node string) error {
	if err := meshOff(ctx, s, node); err != nil {
		return err
	}
	for now := s.glimpse(); slices.ContainsFunc(s.Workers, func(n string) bool { return slices.ContainsFunc(now.sessions[n], lab.Session.Established) }); now = s.glimpse() {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		pause(ctx, glance)
	}
	pause(ctx, 3*time.Second)
	return nil
}

// What is lost is judged by who was cut off, and by what was felt.
func TestLossIsJudgedByItsCause(t *testing.T) {
	lost := func(from string, probes int) probe.Pair {
		p := probe.Pair{From: from, To: "b", Sent: 100_000}
		if probes > 0 {
			begun := time.Unix(0, 0)
			p.Lost, p.LongestRun = probes, probes
			p.Outages = []probe.Outage{{From: begun, Until: begun.Add(time.Duration(probes) * 10 * time.Millisecond), Lost: probes}}
		}
		return p
	}
	cutOff := &segment{cut: map[string]bool{"a": true}, occurrences: []string{"client: link is cut (a)"}}
	costly := &segment{faults: []*fault{{bound: time.Second}}, occurrences: []string{"a person deletes rrpool-clients"}}
	for name, tc := range map[string]struct {
		share share
		says  string
	}{
		"nothing is lost":                         {share: share{&segment{}, lost("a", 0)}},
		"one packet of very many":                 {share: share{&segment{}, lost("a", 1)}},
		"two in a row":                            {share: share{&segment{}, lost("a", 2)}, says: "while nothing was felt, 1 pairs lost more than they may (0s); the worst: a → b"},
		"by a node that was cut off":              {share: share{cutOff, lost("a", 500)}},
		"by another node at that time":            {share: share{cutOff, lost("c", 500)}, says: "client: link is cut (a)"},
		"by what cannot be prevented, in time":    {share: share{costly, lost("a", 90)}},
		"by what cannot be prevented, for longer": {share: share{costly, lost("a", 110)}, says: "lost more than they may (1s)"},
	} {
		t.Run(name, func(t *testing.T) {
			err := verdict(probe.Report{}, []share{tc.share, {&segment{}, lost("x", 0)}}, nil)
			if tc.says == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, tc.says)
		})
	}
}

// This is the negative control of all the others: without the preparation, a
// node with workloads that becomes a reflector while the mesh is on loses packets: about two seconds of them,
// or less where the sides happen to connect at once. It is not the first one, which runs no pods.
func TestImmediatePromotionLosesPackets(t *testing.T) {
	idle := lab.NodeSpec{Name: "control-plane", Labels: map[string]string{"node-role.kubernetes.io/control-plane": ""}}
	c := start(t, site.Options{Nodes: []lab.NodeSpec{
		idle, {Name: "worker-0", Pods: 1}, {Name: "worker-1", Pods: 1}, {Name: "worker-2", Pods: 1}, {Name: "worker-3", Pods: 1},
	}})
	e := c.begin("onto nodes with workloads, at once")
	require.NoError(t, c.CreatePool(c.ctx, func(o *v1alpha1.RouteReflectorPool) {
		o.Spec.Provider.ExistingNodes.Promotion = v1alpha1.PromotionImmediate
	}))
	var reflectors []string
	c.waitFor("three reflectors", func(*v1alpha1.RouteReflectorPool) bool {
		var err error
		reflectors, err = c.CurrentReflectors(c.ctx)
		return err == nil && len(reflectors) == 3
	})
	time.Sleep(10 * time.Second) // until their sessions are back
	require.Equal(t, idle.Name, reflectors[0])
	promoted := reflectors[1:]
	for i, n := range promoted {
		c.requireEvents(e, []string{"ReflectorAdded", n, "at once (promotion: Immediate)", "cannot be reached from other nodes"})
		require.ErrorContains(t, c.lost(e, promoted[1-i]).ZeroLoss(), "lost probes in a row", "%s and the plain nodes", n)
	}
	c.requireLostNothing(e, promoted...)
}
