package main

import (
	"os"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rrpool/rrpool/test/controlplane"
	"github.com/rrpool/rrpool/test/programs"
)

// An operator that writes while nothing happens misses the goal, and so does a routing write too many.
func TestWritesAtRestAreCaught(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a kube-apiserver")
	}
	require.NoError(t, programs.Build(t.Context(), os.Stderr, "kubectl"))
	loop := `while sleep 0.3; do "` + programs.Path("kubectl") + `" label node --all --overwrite seen=$RANDOM; done`
	b := &bench{size: 2, restTime: 5 * time.Second, warmUp: 2 * time.Second, operator: []string{"bash", "-c", loop}}
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(b.dir)) })
	require.NoError(t, b.run(t.Context()))
	require.Equal(t, 6, b.Nodes)
	require.Positive(t, b.RestWrites)
	require.Positive(t, b.Peak)
	require.ErrorContains(t, b.missed(), "writes at rest, not 0")
	heartbeats, err := b.plane.Requests("system:node:bench", time.Time{})
	require.NoError(t, err)
	require.False(t, slices.ContainsFunc(heartbeats, controlplane.AuditEvent.Lease), "leases fill the log of a large cluster")
	require.NoError(t, figures{Routing: 6, Floor: 6}.missed())
	require.ErrorContains(t, figures{Nodes: 9, Routing: 7, Floor: 6}.missed(), "9 nodes: 7 routing writes, not 6")
}
