package providertest

import (
	"context"
	"slices"

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
		want.Retire = append(want.Retire, slices.Max(workers)) // the newest: no cloud would choose it
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
