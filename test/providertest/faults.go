package providertest

import (
	"context"
	"sync"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rrpool/rrpool/cloud"
)

func (s *suite) wrongSpecs() {
	taint := cloud.Taint{Key: "a", Value: "b", Effect: "NoExecute"}
	wrong := []func(*cloud.PoolSpec){
		func(s *cloud.PoolSpec) { s.SizePerZone = 0 },
		func(s *cloud.PoolSpec) { s.SizePerZone = -1 },
	}
	if s.machines != nil {
		wrong = append(wrong, func(s *cloud.PoolSpec) { s.Taints = nil })
	} else {
		wrong = append(
			wrong,
			func(s *cloud.PoolSpec) { s.Flavor = "bx2.16x64" },
			func(s *cloud.PoolSpec) { s.Options.OperatingSystem = "UBUNTU_24_64" },
			func(s *cloud.PoolSpec) { s.Options.Networks = map[string]cloud.Network{"a": {SubnetID: "s"}} },
			func(s *cloud.PoolSpec) { s.Taints = []cloud.Taint{taint} },
		)
	}
	requests := s.Requests()
	for _, edit := range wrong {
		want := s.spec(1)
		edit(&want)
		_ = s.refused(want, cloud.InvalidInput)
	}
	require.Equal(s, requests, s.Requests())
}

func (s *suite) reportsErrors() {
	s.settle(s.spec(1))
	for _, c := range []struct {
		fault Fault
		kind  cloud.Kind
		retry time.Duration
	}{
		{ServerError, cloud.Unavailable, 0},
		{Limited, cloud.RateLimited, LimitedFor},
		{Denied, cloud.Unauthorized, 0},
	} {
		s.faulty.Inject(c.fault)
		before, requests := s.Workers(), s.Requests()
		_, observed := s.p.Observe(context.Background(), cloud.PoolSpec{})
		_, ensured := s.p.Ensure(context.Background(), s.spec(2))
		_, deleted := s.p.Delete(context.Background())
		for _, err := range []error{observed, ensured, deleted} {
			require.True(s, cloud.Is(err, c.kind), "%s: %v", c.fault, err)
			if c.retry > 0 {
				require.Equal(s, c.retry, cloud.RetryAfter(err))
			}
		}
		require.ElementsMatch(s, before, s.Workers())
		require.LessOrEqual(s, s.Requests()-requests, 3, "one request per call: no retries inside")
		s.faulty.Heal()
		require.True(s, s.step(s.spec(1)).Done, "and all is well again after %s", c.fault)
	}
}

func (s *suite) hangs() {
	s.settle(s.spec(1))
	s.faulty.Inject(Hanging)
	var wait sync.WaitGroup
	for range 3 { // the second and third wait for the first
		wait.Go(func() {
			ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
			defer cancel()
			start := time.Now()
			_, err := s.p.Observe(ctx, cloud.PoolSpec{})
			if !cloud.Is(err, cloud.Unavailable) || time.Since(start) > soon {
				s.Errorf("after %s: %v", time.Since(start), err)
			}
		})
	}
	wait.Wait()
	s.faulty.Heal()
	canceled, cancel := context.WithCancel(context.Background())
	cancel()
	_, err := s.p.Ensure(canceled, s.spec(2))
	require.True(s, cloud.Is(err, cloud.Unavailable))
	require.ErrorIs(s, err, context.Canceled)
	require.True(s, s.step(s.spec(1)).Done)
}

func (s *suite) concurrently() {
	instances := []cloud.Provider{s.p, s.restart()}
	ctx := context.Background()
	for range 12 {
		var wait sync.WaitGroup
		for i := range 6 {
			wait.Go(func() {
				p := instances[i%2]
				// The call that loses a race returns an error, and is repeated.
				_, _ = p.Ensure(ctx, s.spec(1))
				_, _ = p.Observe(ctx, cloud.PoolSpec{})
			})
		}
		wait.Wait()
		s.Advance(while)
	}
	s.wellMade()
	require.Equal(s, 1, s.Pools())
	s.whole(1, zoneCount)
}
