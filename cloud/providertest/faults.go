package providertest

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rrpool/rrpool/cloud"
)

func replaces(t *testing.T, h Harness) {
	p := h.Provider()
	settle(t, h, p, h.spec(1))
	dead := h.World.Workers()[1]
	h.World.Break(dead.ID, "disk is gone")
	pool := observe(t, p)
	require.Len(t, pool.Problems, 1)
	if h.machines() != nil {
		require.Contains(t, pool.Problems[0], "disk is gone")
	}
	require.Contains(t, pool.Problems[0], dead.ID)

	before := h.World.Mutations()
	got := until(t, h, p, h.spec(1))
	require.False(t, got.Done)
	require.Contains(t, got.WaitingFor, dead.ID)
	require.Contains(t, ids(h.World.Workers()), dead.ID, "it was not named")
	if h.machines() != nil {
		require.Equal(t, before, h.World.Mutations(), "no replacement was asked for")
	}

	want := h.spec(1)
	want.Replace = []string{dead.ID}
	settle(t, h, p, want)
	whole(t, h, p, 1, zoneCount)
	require.NotContains(t, ids(h.World.Workers()), dead.ID)
}

func wrongSpecs(t *testing.T, h Harness) {
	wrong := map[string]func(*cloud.PoolSpec){
		"no size":         func(s *cloud.PoolSpec) { s.SizePerZone = 0 },
		"a negative size": func(s *cloud.PoolSpec) { s.SizePerZone = -1 },
		"a taint that is given twice": func(s *cloud.PoolSpec) {
			s.Taints = []cloud.Taint{{Key: "a", Value: "b", Effect: "NoExecute"}, {Key: "a", Value: "x", Effect: "NoSchedule"}}
		},
		"an unknown effect": func(s *cloud.PoolSpec) { s.Taints = []cloud.Taint{{Key: "a", Value: "b", Effect: "Sometimes"}} },
	}
	if h.machines() != nil {
		wrong["no taint"] = func(s *cloud.PoolSpec) { s.Taints = nil }
	} else {
		wrong["a flavor"] = func(s *cloud.PoolSpec) { s.Flavor = "bx2.16x64" }
		wrong["a taint"] = func(s *cloud.PoolSpec) { s.Taints = []cloud.Taint{{Key: "a", Value: "b", Effect: "NoExecute"}} }
		wrong["a label"] = func(s *cloud.PoolSpec) { s.Labels = map[string]string{"team": "network"} }
		wrong["a zone that is listed twice"] = func(s *cloud.PoolSpec) { s.Zones = []string{"a", "b", "a"} }
	}
	p, requests := h.Provider(), h.World.Requests()
	for name, edit := range wrong {
		want := h.spec(1)
		edit(&want)
		_, err := p.Ensure(context.Background(), want)
		require.True(t, cloud.Is(err, cloud.InvalidInput), "%s: %v", name, err)
	}
	require.Equal(t, requests, h.World.Requests())
}

// breakZone breaks both workers of a zone, and gives the spec that replaces them.
func breakZone(t *testing.T, h Harness) cloud.PoolSpec {
	t.Helper()
	zone := h.World.Workers()[0].Zone
	want := h.spec(2)
	for _, w := range h.World.Workers() {
		if w.Zone == zone {
			h.World.Break(w.ID, "dead")
			want.Replace = append(want.Replace, w.ID)
		}
	}
	require.Len(t, want.Replace, 2)
	return want
}

func replacesZone(t *testing.T, h Harness) {
	p := h.Provider()
	settle(t, h, p, h.spec(2))
	want := breakZone(t, h)
	if h.machines() != nil {
		require.NotEmpty(t, until(t, h, p, want).WaitingFor)
		left := slices.DeleteFunc(h.World.Workers(), func(w cloud.Worker) bool {
			return w.State == cloud.WorkerDeleting || !slices.Contains(want.Replace, w.ID)
		})
		require.Len(t, left, 1, "the second waits for the first one's substitute")
	}
	settle(t, h, p, want)
	whole(t, h, p, 2, zoneCount)
	for _, id := range want.Replace {
		require.NotContains(t, ids(h.World.Workers()), id)
	}
}

func reportsErrors(t *testing.T, h Harness) {
	p := h.Provider()
	settle(t, h, p, h.spec(1))
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
		_, ensured := p.Ensure(context.Background(), h.spec(2))
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
		require.True(t, step(t, h, p, h.spec(1)).Done, "and all is well again after %s", c.fault)
	}
}

func hangs(t *testing.T, h Harness) {
	p := h.Provider()
	settle(t, h, p, h.spec(1))
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
	_, err := p.Ensure(canceled, h.spec(2))
	require.True(t, cloud.Is(err, cloud.Unavailable))
	require.ErrorIs(t, err, context.Canceled)
	require.True(t, step(t, h, p, h.spec(1)).Done)
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
				_, _ = p.Ensure(ctx, h.spec(1))
				_, _ = p.Observe(ctx)
			})
		}
		wait.Wait()
		h.World.Advance(while)
	}
	wellMade(t, h)
	require.Equal(t, 1, h.World.Pools())
	whole(t, h, instances[0], 1, zoneCount)
}
