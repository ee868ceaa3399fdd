package providertest

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rrpool/rrpool/cloud"
)

func (s *suite) leavesAlone() {
	s.settle(s.spec(2))
	s.observe()
	changes := s.Mutations()
	for range 5 {
		requests := s.Requests()
		require.True(s, s.step(s.spec(2)).Done)
		require.LessOrEqual(s, s.Requests()-requests, 2)
		requests = s.Requests()
		s.observe()
		require.LessOrEqual(s, s.Requests()-requests, 2)
	}
	require.Equal(s, changes, s.Mutations())
}

func (s *suite) crashes() {
	settle := func(want cloud.PoolSpec) {
		s.settleBy(func() cloud.Progress {
			got := s.step(want)
			if got.Did != "" {
				s.p = s.restart()
			}
			return got
		})
	}
	require.NotEmpty(s, s.p.Name())
	pool := s.observe()
	require.False(s, pool.Exists)
	require.Len(s, pool.ClusterZones, zoneCount)
	require.IsNonDecreasing(s, pool.ClusterZones)
	var before []string
	for _, size := range []int{1, 2} {
		settle(s.spec(size))
		s.whole(size, zoneCount)
		require.Subset(s, s.ids(), before, "those that were there stay")
		before = s.ids()
	}
	want, stay := s.spec(1), []string(nil)
	for _, workers := range byZone(s.Workers()) {
		want.Retire = append(want.Retire, slices.Max(workers)) // the newest, which a cloud's scale-down would not remove
		stay = append(stay, slices.Min(workers))
	}
	settle(want)
	require.ElementsMatch(s, stay, s.ids())
	s.whole(1, zoneCount)
}

func (s *suite) losesAnswers() {
	lost := 0
	for range 60 {
		s.faulty.Inject(LostAnswer)
		before := s.Mutations()
		got, err := s.p.Ensure(context.Background(), s.spec(1))
		changes := s.Mutations() - before
		require.LessOrEqual(s, changes, 1)
		s.wellMade()
		s.faulty.Heal()
		if changes == 1 {
			lost++
			require.Empty(s, got.Did)
			require.True(s, cloud.Is(err, cloud.Unavailable) || err == nil && got.WaitingFor != "", "%v %v", got, err)
			continue
		}
		require.NoError(s, err)
		if got.Done {
			break
		}
		s.Advance(while)
	}
	s.whole(1, zoneCount)
	once := zoneCount
	if s.machines != nil {
		once += 2
	}
	require.Equal(s, once, lost, "created and tainted once where that is done, each zone once")
}

func (s *suite) doesNotChoose() {
	s.settle(s.spec(2))
	before, all := s.Mutations(), s.ids()
	for range 5 {
		got := s.step(s.spec(1))
		require.False(s, got.Done)
		require.Contains(s, got.WaitingFor, "retired")
		s.Advance(while)
	}
	require.Equal(s, before, s.Mutations())

	// One zone of three: still not.
	want := s.spec(1)
	want.Retire = all[:1]
	s.until(want)
	s.Advance(while)
	s.until(want)
	require.ElementsMatch(s, all[1:], s.ids())
	require.Equal(s, 2, s.observe().SizePerZone)
}

func (s *suite) replaces() {
	s.settle(s.spec(1))
	dead := s.Workers()[1]
	s.Break(dead.ID, "disk is gone")
	problems := s.observe().Problems
	require.Len(s, problems, 1)
	require.Contains(s, problems[0], dead.ID)

	before := s.Mutations()
	got := s.until(s.spec(1))
	require.False(s, got.Done)
	require.Contains(s, got.WaitingFor, dead.ID)
	require.Contains(s, s.ids(), dead.ID, "it was not named")
	if s.machines != nil {
		require.Contains(s, problems[0], "disk is gone")
		require.Equal(s, before, s.Mutations(), "no replacement was asked for")
	}

	want := s.spec(1)
	want.Replace = []string{dead.ID}
	s.settle(want)
	s.whole(1, zoneCount)
	require.NotContains(s, s.ids(), dead.ID)
}

func (s *suite) replacesZone() {
	s.settle(s.spec(2))
	want := s.spec(2)
	want.Replace = byZone(s.Workers())[s.Workers()[0].Zone]
	require.Len(s, want.Replace, 2)
	for _, id := range want.Replace {
		s.Break(id, "dead")
	}
	if s.machines != nil {
		require.NotEmpty(s, s.until(want).WaitingFor)
		left := slices.DeleteFunc(s.Workers(), func(w cloud.Worker) bool {
			return w.State == cloud.WorkerDeleting || !slices.Contains(want.Replace, w.ID)
		})
		require.Len(s, left, 1, "the second waits for the first one's substitute")
	}
	s.settle(want)
	s.whole(2, zoneCount)
	for _, id := range want.Replace {
		require.NotContains(s, s.ids(), id)
	}
}

func (s *suite) listedZones() {
	zones := s.observe().ClusterZones
	want := s.spec(1)
	want.Zones = zones[:2]
	s.settle(want)
	s.whole(1, 2)

	want.Zones = zones[:1]
	require.Contains(s, s.until(want).WaitingFor, zones[1], "a zone with a worker in it is not dropped")
	want.Retire = byZone(s.Workers())[zones[1]]
	s.settle(want)
	s.whole(1, 1)
}

func (s *suite) deletes() {
	remove := func() cloud.Progress {
		return s.checked(func() (cloud.Progress, error) { return s.p.Delete(context.Background()) })
	}
	require.True(s, remove().Done, "no pool is done")
	s.settle(s.spec(1))
	before, once := s.Mutations(), zoneCount
	if s.machines != nil {
		once = 1
	}
	s.settleBy(remove)
	require.Zero(s, s.Pools())
	require.Equal(s, before+once, s.Mutations())
	require.False(s, s.observe().Exists)
	s.settle(s.spec(1))
	s.whole(1, zoneCount)
}

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
	// The untainted worker may be replaced; others stay.
	same := s.spec(1)
	same.Untainted, same.Replace = grown.Untainted, grown.Untainted
	require.NotEmpty(s, s.step(same).Did)
	s.settle(s.spec(1))
	// Another one may be replaced too.
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
	for range 60 { // repeated within nine minutes
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
