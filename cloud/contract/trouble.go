package contract

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rrpool/rrpool/cloud"
)

const quotaMessage = "The user account has insufficient infrastructure quota. Allocated: 9, Quota: 9"

func replaces(t *testing.T, h Harness) {
	p := h.Provider()
	settle(t, h, p, spec(1))
	victim := h.World.Workers()[1]
	h.World.Break(victim.ID, "disk is gone")
	pool := observe(t, p)
	require.Len(t, pool.Problems, 1)
	require.Contains(t, pool.Problems[0], "disk is gone")
	require.Contains(t, pool.Problems[0], victim.ID)

	before := h.World.Mutations()
	got := step(t, h, p, spec(1))
	require.False(t, got.Done)
	require.Contains(t, got.WaitingFor, victim.ID)
	require.Equal(t, before, h.World.Mutations(), "nobody has asked for a replacement")

	want := spec(1)
	want.Replace = []string{victim.ID}
	settle(t, h, p, want)
	whole(t, h, p, 1, zoneCount)
	require.NotContains(t, ids(h.World.Workers()), victim.ID)
}

func replacesInTurn(t *testing.T, h Harness) {
	p := h.Provider()
	settle(t, h, p, spec(2))
	zone := h.World.Workers()[0].Zone
	want := spec(2)
	for _, w := range h.World.Workers() {
		if w.Zone == zone {
			h.World.Break(w.ID, "dead")
			want.Replace = append(want.Replace, w.ID)
		}
	}
	require.Len(t, want.Replace, 2)
	got := until(t, h, p, want)
	require.NotEmpty(t, got.WaitingFor)
	touched := 0
	for _, id := range want.Replace {
		w := find(h.World.Workers(), id)
		if w == nil || w.State == cloud.WorkerDeleting {
			touched++
		}
	}
	require.Equal(t, 1, touched, "the second waits for the first one's substitute")
	settle(t, h, p, want)
	whole(t, h, p, 2, zoneCount)
}

func find(workers []cloud.Worker, id string) *cloud.Worker {
	for i := range workers {
		if workers[i].ID == id {
			return &workers[i]
		}
	}
	return nil
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
	h.World.FailWorkers(100, quotaMessage)
	until(t, h, p, spec(1))
	h.World.Advance(while)
	pool := observe(t, p)
	require.Len(t, failed(pool), zoneCount)
	require.Len(t, pool.Problems, zoneCount)
	require.Contains(t, strings.Join(pool.Problems, "\n"), "insufficient infrastructure quota")

	before := h.World.Mutations()
	told := false
	for range 60 { // an impatient caller, within nine minutes
		want := spec(1)
		want.Replace = failed(observe(t, p))
		_, err := p.Ensure(context.Background(), want)
		if err != nil {
			require.True(t, cloud.Is(err, cloud.QuotaExceeded), "%v", err)
			require.Contains(t, err.Error(), "quota")
			require.Positive(t, cloud.RetryAfter(err))
			told = true
		}
		h.World.Advance(9 * time.Second)
	}
	require.True(t, told)
	require.LessOrEqual(t, h.World.Mutations()-before, 3*zoneCount, "one try per zone, and what it takes")
}

func autoscaled(t *testing.T, h Harness) {
	p := h.Provider()
	settle(t, h, p, spec(1))
	h.World.SetAutoscaled(true)
	pool := observe(t, p)
	require.True(t, pool.Autoscaled)
	require.NotEmpty(t, pool.Problems)
	require.True(t, step(t, h, p, spec(1)).Done, "as long as there is nothing to change")
	before := h.World.Mutations()
	replace := spec(1)
	replace.Replace = ids(h.World.Workers())
	retire := spec(1)
	retire.Retire = ids(h.World.Workers())
	for _, want := range []cloud.PoolSpec{spec(2), replace, retire} {
		_, err := p.Ensure(context.Background(), want)
		require.True(t, cloud.Is(err, cloud.Conflict), "%v", err)
	}
	require.Equal(t, before, h.World.Mutations())
	h.World.SetAutoscaled(false)
	settle(t, h, p, spec(2))
}

func foreign(t *testing.T, h Harness) {
	h.World.AddForeignPool()
	p := h.Provider()
	pool := observe(t, p)
	require.True(t, pool.Exists)
	require.False(t, pool.Owned)
	require.NotEmpty(t, pool.Problems)
	before := h.World.Mutations()
	_, err := p.Ensure(context.Background(), spec(1))
	require.True(t, cloud.Is(err, cloud.Conflict), "%v", err)
	_, err = p.Delete(context.Background())
	require.True(t, cloud.Is(err, cloud.Conflict), "%v", err)
	require.Equal(t, before, h.World.Mutations())
	require.Equal(t, 1, h.World.Pools())
}

func wrongSpecs(t *testing.T, h Harness) {
	none, twice, strange, bare := spec(0), spec(1), spec(1), spec(1)
	bare.Taints = nil
	twice.Taints = append(twice.Taints, cloud.Taint{Key: twice.Taints[0].Key, Value: "x", Effect: "NoSchedule"})
	strange.Taints = []cloud.Taint{{Key: "a", Value: "b", Effect: "Sometimes"}}
	for _, want := range []cloud.PoolSpec{none, twice, strange, bare} {
		_, err := h.Provider().Ensure(context.Background(), want)
		require.True(t, cloud.Is(err, cloud.InvalidInput), "%v", err)
	}
	require.Zero(t, h.World.Mutations())
}

func errorsTell(t *testing.T, h Harness) {
	p := h.Provider()
	settle(t, h, p, spec(1))
	for _, c := range []struct {
		fault Fault
		kind  cloud.Kind
		retry time.Duration
	}{
		{ServerError, cloud.Unavailable, 0},
		{Limited, cloud.RateLimited, LimitedFor},
		{Denied, cloud.Unauthorized, 0},
	} {
		h.World.Inject(c.fault)
		before, requests := h.World.Workers(), h.World.Requests()
		_, observed := p.Observe(context.Background())
		_, ensured := p.Ensure(context.Background(), spec(2))
		_, deleted := p.Delete(context.Background())
		for _, err := range []error{observed, ensured, deleted} {
			require.True(t, cloud.Is(err, c.kind), "%s: %v", c.fault, err)
			if c.retry > 0 {
				require.Equal(t, c.retry, cloud.RetryAfter(err))
			}
		}
		require.ElementsMatch(t, before, h.World.Workers())
		require.LessOrEqual(t, h.World.Requests()-requests, 3, "one request per call: no retries inside")
		h.World.Heal()
		require.True(t, step(t, h, p, spec(1)).Done, "and all is well again after %s", c.fault)
	}
}

func hangs(t *testing.T, h Harness) {
	p := h.Provider()
	settle(t, h, p, spec(1))
	h.World.Inject(Hanging)
	var wait sync.WaitGroup
	for range 3 { // the second and third wait for the first
		wait.Go(func() {
			ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
			defer cancel()
			start := time.Now()
			_, err := p.Observe(ctx)
			if !cloud.Is(err, cloud.Unavailable) || time.Since(start) > soon {
				t.Errorf("after %s: %v", time.Since(start), err)
			}
		})
	}
	wait.Wait()
	h.World.Heal()
	canceled, cancel := context.WithCancel(context.Background())
	cancel()
	_, err := p.Ensure(canceled, spec(2))
	require.True(t, cloud.Is(err, cloud.Unavailable))
	require.ErrorIs(t, err, context.Canceled)
	require.True(t, step(t, h, p, spec(1)).Done)
}

func concurrently(t *testing.T, h Harness) {
	instances := []cloud.Provider{h.Provider(), h.Provider()}
	ctx := context.Background()
	for range 12 {
		var wait sync.WaitGroup
		for i := range 6 {
			wait.Go(func() {
				p := instances[i%2]
				// The loser of a race gets an error, and comes again.
				_, _ = p.Ensure(ctx, spec(1))
				_, _ = p.Observe(ctx)
			})
		}
		wait.Wait()
		h.World.Advance(while)
	}
	require.Zero(t, h.World.Untainted())
	require.Equal(t, 1, h.World.Pools())
	whole(t, h, instances[0], 1, zoneCount)
}
