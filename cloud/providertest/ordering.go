package providertest

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rrpool/rrpool/cloud"
)

const quotaMessage = "The user account has insufficient infrastructure quota. Allocated: 9, Quota: 9"

func creates(t *testing.T, h Harness) {
	p := h.Provider()
	noPoolYet(t, p)
	step(t, h, p, h.spec(1))
	pool := observe(t, p)
	require.True(t, pool.Exists)
	require.True(t, pool.Owned, "a pool is ours from its first moment, or a crash would lose it")
	require.Empty(t, pool.Zones)
	require.Empty(t, h.World.Workers(), "no zone, no worker")

	for range 10 {
		pool = observe(t, p)
		if len(pool.Zones) > 0 {
			require.NotEmpty(t, pool.Taints, "taints before zones")
		}
		step(t, h, p, h.spec(1))
	}
	require.Len(t, pool.Zones, zoneCount)
	settle(t, h, p, h.spec(1))
	whole(t, h, p, 1, zoneCount)
	require.Equal(t, h.spec(1).Taints, observe(t, p).Taints)
}

func retaints(t *testing.T, h Harness) {
	p := h.Provider()
	step(t, h, p, h.spec(1))
	for len(observe(t, p).Zones) == 0 {
		step(t, h, p, h.spec(1))
	}
	h.machines().StripTaints()
	h.World.Advance(while)
	settle(t, h, p, h.spec(1))
	require.Equal(t, h.spec(1).Taints, observe(t, p).Taints)
	whole(t, h, p, 1, zoneCount)
	// The same for an instance that has just started.
	h.machines().StripTaints()
	settle(t, h, h.Provider(), h.spec(1))
	require.Equal(t, h.spec(1).Taints, observe(t, h.Provider()).Taints)
}

func untaintedNodes(t *testing.T, h Harness) {
	p := h.Provider()
	settle(t, h, p, h.spec(1))
	before := h.World.Mutations()
	grown := h.spec(2)
	grown.Untainted = ids(h.World.Workers())[:1]
	_, err := p.Ensure(context.Background(), grown)
	require.True(t, cloud.Is(err, cloud.Conflict), "%v", err)
	require.Contains(t, err.Error(), grown.Untainted[0])
	require.Equal(t, before, h.World.Mutations())
	// The untainted one may be replaced, and what is whole is left alone.
	same := h.spec(1)
	same.Untainted, same.Replace = grown.Untainted, grown.Untainted
	require.NotEmpty(t, step(t, h, p, same).Did)
	settle(t, h, p, h.spec(1))
	// So may another one, to the end: on classic its place is filled again by a resize.
	workers := ids(h.World.Workers())
	other := h.spec(1)
	other.Untainted, other.Replace = workers[:1], workers[1:2]
	settle(t, h, p, other)
	whole(t, h, p, 1, zoneCount)
	require.NotContains(t, ids(h.World.Workers()), workers[1])
	settle(t, h, p, h.spec(2))
	whole(t, h, p, 2, zoneCount)
}

func otherFlavor(t *testing.T, h Harness) {
	p := h.Provider()
	settle(t, h, p, h.spec(1))
	other := h.spec(1)
	other.Flavor = "bx2.16x64"
	_, err := p.Ensure(context.Background(), other)
	require.True(t, cloud.Is(err, cloud.InvalidInput), "%v", err)
	h.World.Break(h.World.Workers()[0].ID, "dead")
	other.Replace = []string{h.World.Workers()[0].ID}
	got := step(t, h, p, other)
	require.NotEmpty(t, got.Did, "what is dead is replaced all the same")
}

func failed(p cloud.Pool) (out []string) {
	for _, w := range p.Workers {
		if w.State == cloud.WorkerFailed {
			out = append(out, w.ID)
		}
	}
	return out
}

func overQuota(t *testing.T, h Harness) {
	p := h.Provider()
	h.machines().FailWorkers(100, quotaMessage)
	until(t, h, p, h.spec(1))
	h.World.Advance(while)
	pool := observe(t, p)
	require.Len(t, failed(pool), zoneCount)
	require.Len(t, pool.Problems, zoneCount)
	require.Contains(t, strings.Join(pool.Problems, "\n"), "insufficient infrastructure quota")

	before := h.World.Mutations()
	reported := false
	for range 60 { // an impatient caller, within nine minutes
		want := h.spec(1)
		want.Replace = failed(observe(t, p))
		_, err := p.Ensure(context.Background(), want)
		if err != nil {
			require.True(t, cloud.Is(err, cloud.QuotaExceeded), "%v", err)
			require.Contains(t, err.Error(), "quota")
			require.Positive(t, cloud.RetryAfter(err))
			reported = true
		}
		h.World.Advance(9 * time.Second)
	}
	require.True(t, reported)
	require.LessOrEqual(t, h.World.Mutations()-before, 3*zoneCount, "one try per zone, and what it takes")
}

func autoscaled(t *testing.T, h Harness) {
	p := h.Provider()
	settle(t, h, p, h.spec(1))
	h.machines().SetAutoscaled(true)
	pool := observe(t, p)
	require.True(t, pool.Autoscaled)
	require.NotEmpty(t, pool.Problems)
	require.True(t, step(t, h, p, h.spec(1)).Done, "as long as there is nothing to change")
	before := h.World.Mutations()
	replace := h.spec(1)
	replace.Replace = ids(h.World.Workers())
	retire := h.spec(1)
	retire.Retire = ids(h.World.Workers())
	for _, want := range []cloud.PoolSpec{h.spec(2), replace, retire} {
		_, err := p.Ensure(context.Background(), want)
		require.True(t, cloud.Is(err, cloud.Conflict), "%v", err)
	}
	require.Equal(t, before, h.World.Mutations())
	h.machines().SetAutoscaled(false)
	settle(t, h, p, h.spec(2))
}

func foreign(t *testing.T, h Harness) {
	h.machines().AddForeignPool()
	p := h.Provider()
	pool := observe(t, p)
	require.True(t, pool.Exists)
	require.False(t, pool.Owned)
	require.NotEmpty(t, pool.Problems)
	before := h.World.Mutations()
	_, err := p.Ensure(context.Background(), h.spec(1))
	require.True(t, cloud.Is(err, cloud.Conflict), "%v", err)
	_, err = p.Delete(context.Background())
	require.True(t, cloud.Is(err, cloud.Conflict), "%v", err)
	require.Equal(t, before, h.World.Mutations())
	require.Equal(t, 1, h.World.Pools())
}
