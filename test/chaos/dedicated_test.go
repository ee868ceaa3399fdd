//go:build linux

package chaos_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rrpool/rrpool/test/e2e/site"
)

// The safety net catches a cluster with a dedicated pool as well, when all its
// workers are updated one after the other.
func TestDedicatedReflectors(t *testing.T) {
	c := start(t, site.Options{MeshPassword: "s3cret"})
	c.stages([]stage{
		{"dedicated nodes", migrateDedicated},
		{"all reflectors are shut down, one after the other", shutDownInTurn},
	})
}

func migrateDedicated(c *cluster) {
	e := c.begin("onto dedicated nodes")
	require.NoError(c.t, c.CreatePool(c.ctx, hasty))
	c.waitReflectors("three reflectors", func(h []string) bool { return len(h) == 3 })
	c.requireMesh(false)
	c.requireLostNothing(e)
}
