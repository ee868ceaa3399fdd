//go:build linux

package chaos_test

import (
	"slices"
	"strings"
	"time"

	"github.com/projectcalico/calico/libcalico-go/lib/options"
	"github.com/stretchr/testify/require"
)

// apart is the time between two shutdowns.
const apart = 20 * time.Second

// reflectors are those that serve, the most senior first. The cluster must be calm.
func (c *cluster) reflectors() []string {
	c.t.Helper()
	return c.seniority(c.waitReflectors("calm", func(h []string) bool { return len(h) >= 3 }))
}

// waitReplaced waits until somebody else has the role instead of the victim, and
// the others still have it.
func (c *cluster) waitReplaced(before []string, victim string) []string {
	c.t.Helper()
	stay := slices.DeleteFunc(slices.Clone(before), func(n string) bool { return n == victim })
	return c.waitReflectors("a substitute for "+victim, func(now []string) bool {
		return len(now) == len(before) && !slices.Contains(now, victim) &&
			!slices.ContainsFunc(stay, func(n string) bool { return !slices.Contains(now, n) })
	})
}

// newOne is the one that was not there before.
func newOne(before, after []string) string {
	for _, n := range after {
		if !slices.Contains(before, n) {
			return n
		}
	}
	return ""
}

func (c *cluster) onePerZone(holders []string) bool {
	c.t.Helper()
	zones := c.zones()
	seen := map[string]bool{}
	for _, h := range holders {
		seen[zones[h]] = true
	}
	return len(seen) == len(holders)
}

func (c *cluster) requireOnePerZone(holders []string) {
	c.t.Helper()
	require.True(c.t, c.onePerZone(holders), "%v are in zones %v", holders, c.zones())
}

// requireNoPeersOf checks that no BGPPeer is left for a node that is gone.
func (c *cluster) requireNoPeersOf(node string) {
	c.t.Helper()
	peers, err := c.Lab.Calico().BGPPeers().List(c.ctx, options.ListOptions{})
	require.NoError(c.t, err)
	require.NotEmpty(c.t, peers.Items)
	for i := range peers.Items {
		require.NotContains(c.t, strings.Split(peers.Items[i].Name, "."), node)
	}
}

// shutDownEach shuts nodes down in order, and tells when the last one began to go.
func (c *cluster) shutDownEach(nodes []string) time.Time {
	c.t.Helper()
	next := time.Now()
	for _, n := range nodes {
		time.Sleep(time.Until(next))
		next = time.Now().Add(apart)
		c.t.Logf("%s %s is shut down", time.Now().Format("15:04:05.000"), n)
		require.NoError(c.t, c.Lab.Shutdown(c.ctx, n))
	}
	time.Sleep(apart / 2)
	return next.Add(-apart)
}

// requireNetCaught checks that the manager switched the mesh on before the last
// reflector went, and said why.
func (c *cluster) requireNetCaught(e event, last time.Time) {
	c.t.Helper()
	writes := c.meshWrites(e)
	require.NotEmpty(c.t, writes, "the mesh came back")
	c.t.Logf("    mesh: %s, the last one went at %s", writes[0], last.Format("15:04:05.000"))
	require.True(c.t, writes[0].Time.Before(last), "the mesh came on at %s, after the last one went at %s", writes[0].Time, last)
	c.requireMesh(true)
	c.told(e, []string{"MeshRestored", "only 1 route reflectors serve, at least 2 should: the mesh takes over until they are back"})
}
