package providertest

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rrpool/rrpool/cloud"
)

// step makes one call and holds it to what every call has to keep.
func step(t *testing.T, h Harness, p cloud.Provider, want cloud.PoolSpec) cloud.Progress {
	t.Helper()
	before := h.World.Mutations()
	got, err := p.Ensure(context.Background(), want)
	require.NoError(t, err)
	check(t, h, got, h.World.Mutations()-before)
	return got
}

func check(t *testing.T, h Harness, got cloud.Progress, changes int) {
	t.Helper()
	require.LessOrEqual(t, changes, 1, "one call makes at most one change: %+v", got)
	require.Equal(t, changes == 1, got.Did != "", "a change is reported, and only a change: %+v", got)
	require.False(t, got.Done && (got.Did != "" || got.WaitingFor != ""), "done means nothing is left: %+v", got)
	require.True(t, got.Done || got.Did != "" || got.WaitingFor != "", "a call says what it did or waits for")
	wellMade(t, h)
}

// wellMade holds at every moment.
func wellMade(t *testing.T, h Harness) {
	t.Helper()
	if m := h.machines(); m != nil {
		require.Zero(t, m.Untainted(), "no worker without taint, ever")
	}
	require.LessOrEqual(t, h.World.Pools(), 1, "one pool, ever")
}

// settle calls until all is done, with time passing whenever the provider waits.
func settle(t *testing.T, h Harness, p cloud.Provider, want cloud.PoolSpec) {
	t.Helper()
	settleEach(t, h, func() cloud.Provider { return p }, want)
}

// settleEach is settle with a provider of its own for each call.
func settleEach(t *testing.T, h Harness, provider func() cloud.Provider, want cloud.PoolSpec) {
	t.Helper()
	var last cloud.Progress
	for range 60 {
		if last = step(t, h, provider(), want); last.Done {
			return
		}
		if last.Did == "" {
			h.World.Advance(while)
		}
	}
	require.Fail(t, "never done", "%+v", last)
}

// until calls until a call changes nothing.
func until(t *testing.T, h Harness, p cloud.Provider, want cloud.PoolSpec) cloud.Progress {
	t.Helper()
	for range 60 {
		if got := step(t, h, p, want); got.Did == "" {
			return got
		}
	}
	require.Fail(t, "there is always something to change")
	return cloud.Progress{}
}

// noPoolYet asserts what is there before the first call.
func noPoolYet(t *testing.T, p cloud.Provider) {
	t.Helper()
	require.NotEmpty(t, p.Name())
	pool := observe(t, p)
	require.False(t, pool.Exists)
	require.Len(t, pool.ClusterZones, zoneCount)
	require.IsNonDecreasing(t, pool.ClusterZones)
}

func observe(t *testing.T, p cloud.Provider) cloud.Pool {
	t.Helper()
	pool, err := p.Observe(context.Background())
	require.NoError(t, err)
	return pool
}

// whole asserts a pool of size deployed workers in each of n zones.
func whole(t *testing.T, h Harness, p cloud.Provider, size, n int) {
	t.Helper()
	pool := observe(t, p)
	require.True(t, pool.Exists)
	require.True(t, pool.Owned)
	require.Equal(t, size, pool.SizePerZone)
	require.Len(t, pool.Zones, n)
	require.Len(t, pool.Workers, size*n)
	perZone := map[string]int{}
	for _, w := range pool.Workers {
		require.Equal(t, cloud.WorkerDeployed, w.State, "%+v", w)
		require.NotEmpty(t, w.NodeName)
		perZone[w.Zone]++
	}
	for _, z := range pool.Zones {
		require.Equal(t, size, perZone[z], "workers in zone %s", z)
	}
	require.Len(t, h.World.Workers(), size*n)
	require.Empty(t, pool.Problems)
}

func ids(workers []cloud.Worker) []string {
	var out []string
	for _, w := range workers {
		out = append(out, w.ID)
	}
	return out
}

// soon is how long a call may outlive its context: more than any stall of the machine,
// and far less than a provider's own patience with its cloud.
const soon = 20 * time.Second
