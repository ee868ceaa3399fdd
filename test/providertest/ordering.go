package providertest

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rrpool/rrpool/cloud"
)

const quotaMessage = "The user account has insufficient infrastructure quota. Allocated: 9, Quota: 9"

func (s *suite) creates() {
	s.step(s.spec(1))
	pool := s.observe()
	require.True(s, pool.Exists)
	require.True(s, pool.Owned, "a pool is ours from its first moment, or a crash would lose it")
	require.Empty(s, pool.Zones)
	require.Empty(s, s.Workers(), "no zone, no worker")

	for range 10 {
		pool = s.observe()
		if len(pool.Zones) > 0 {
			require.NotEmpty(s, pool.Taints, "taints before zones")
		}
		s.step(s.spec(1))
	}
	require.Len(s, pool.Zones, zoneCount)
	s.settle(s.spec(1))
	s.whole(1, zoneCount)
	require.Equal(s, s.spec(1).Taints, s.observe().Taints)
}

func (s *suite) retaints() {
	s.step(s.spec(1))
	for len(s.observe().Zones) == 0 {
		s.step(s.spec(1))
	}
	s.machines.StripTaints()
	s.Advance(while)
	s.settle(s.spec(1))
	require.Equal(s, s.spec(1).Taints, s.observe().Taints)
	s.whole(1, zoneCount)
	// The same for an instance that has just started.
	s.machines.StripTaints()
	s.p = s.restart()
	s.settle(s.spec(1))
	s.p = s.restart()
	require.Equal(s, s.spec(1).Taints, s.observe().Taints)
}

func (s *suite) untaintedNodes() {
	s.settle(s.spec(1))
	grown := s.spec(2)
	grown.Untainted = s.ids()[:1]
	require.ErrorContains(s, s.refused(grown, cloud.Conflict), grown.Untainted[0])
	// The untainted one may be replaced, and what is whole is left alone.
	same := s.spec(1)
	same.Untainted, same.Replace = grown.Untainted, grown.Untainted
	require.NotEmpty(s, s.step(same).Did)
	s.settle(s.spec(1))
	// So may another one, to the end.
	workers := s.ids()
	other := s.spec(1)
	other.Untainted, other.Replace = workers[:1], workers[1:2]
	s.settle(other)
	s.whole(1, zoneCount)
	require.NotContains(s, s.ids(), workers[1])
	s.settle(s.spec(2))
	s.whole(2, zoneCount)
}

func (s *suite) failed() []string {
	return ids(slices.DeleteFunc(s.observe().Workers, func(w cloud.Worker) bool { return w.State != cloud.WorkerFailed }))
}

func (s *suite) overQuota() {
	s.machines.FailWorkers(100, quotaMessage)
	s.until(s.spec(1))
	s.Advance(while)
	require.Len(s, s.failed(), zoneCount)
	problems := s.observe().Problems
	require.Len(s, problems, zoneCount)
	require.Contains(s, strings.Join(problems, "\n"), "insufficient infrastructure quota")

	before := s.Mutations()
	for range 60 { // an impatient caller, within nine minutes
		want := s.spec(1)
		want.Replace = s.failed()
		_, err := s.p.Ensure(context.Background(), want)
		require.NoError(s, err)
		s.Advance(9 * time.Second)
	}
	require.LessOrEqual(s, s.Mutations()-before, 3*zoneCount, "one try per zone, and what it takes")
}

func (s *suite) autoscaled() {
	s.settle(s.spec(1))
	s.machines.SetAutoscaled(true)
	pool := s.observe()
	require.True(s, pool.Autoscaled)
	require.NotEmpty(s, pool.Problems)
	require.True(s, s.step(s.spec(1)).Done, "as long as there is nothing to change")
	replace, retire := s.spec(1), s.spec(1)
	replace.Replace, retire.Retire = s.ids(), s.ids()
	for _, want := range []cloud.PoolSpec{s.spec(2), replace, retire} {
		_ = s.refused(want, cloud.Conflict)
	}
	s.machines.SetAutoscaled(false)
	s.settle(s.spec(2))
}

func (s *suite) foreign() {
	s.machines.AddForeignPool()
	pool := s.observe()
	require.True(s, pool.Exists)
	require.False(s, pool.Owned)
	require.NotEmpty(s, pool.Problems)
	before := s.Mutations()
	_ = s.refused(s.spec(1), cloud.Conflict)
	_, err := s.p.Delete(context.Background())
	require.True(s, cloud.Is(err, cloud.Conflict), "%v", err)
	require.Equal(s, before, s.Mutations())
	require.Equal(s, 1, s.Pools())
}
