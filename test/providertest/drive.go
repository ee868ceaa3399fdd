package providertest

import (
	"context"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rrpool/rrpool/cloud"
)

// soon is how long a call may outlive its context: more than any stall of the machine,
// and far less than a provider's own patience with its cloud.
const soon = 20 * time.Second

// spec is what is asked for: of a pool that is ordered, labels and taints too.
func (s *suite) spec(size int) cloud.PoolSpec {
	if s.machines == nil {
		return cloud.PoolSpec{SizePerZone: size}
	}
	return cloud.PoolSpec{
		SizePerZone: size,
		Taints:      []cloud.Taint{{Key: "rrpool.io/dedicated", Value: "route-reflector", Effect: "NoExecute"}},
	}
}

// step makes one call and holds it to what every call has to keep.
func (s *suite) step(want cloud.PoolSpec) cloud.Progress {
	return s.checked(func() (cloud.Progress, error) { return s.p.Ensure(context.Background(), want) })
}

func (s *suite) checked(call func() (cloud.Progress, error)) cloud.Progress {
	before := s.Mutations()
	got, err := call()
	require.NoError(s, err)
	changes := s.Mutations() - before
	require.LessOrEqual(s, changes, 1, "one call makes at most one change: %+v", got)
	require.Equal(s, changes == 1, got.Did != "", "a change is reported, and only a change: %+v", got)
	require.False(s, got.Done && (got.Did != "" || got.WaitingFor != ""), "done means nothing is left: %+v", got)
	require.True(s, got.Done || got.Did != "" || got.WaitingFor != "", "a call says what it did or waits for")
	s.wellMade()
	return got
}

// wellMade holds at every moment.
func (s *suite) wellMade() {
	if s.machines != nil {
		require.Zero(s, s.machines.Untainted(), "no worker without taint, ever")
	}
	require.LessOrEqual(s, s.Pools(), 1, "one pool, ever")
}

// refused makes a call that has to fail so, and change nothing.
func (s *suite) refused(want cloud.PoolSpec, kind cloud.Kind) error {
	before := s.Mutations()
	_, err := s.p.Ensure(context.Background(), want)
	require.True(s, cloud.Is(err, kind), "%v", err)
	require.Equal(s, before, s.Mutations())
	return err
}

// settle calls until all is done, with time passing whenever the provider waits.
func (s *suite) settle(want cloud.PoolSpec) {
	s.settleBy(func() cloud.Progress { return s.step(want) })
}

func (s *suite) settleBy(step func() cloud.Progress) {
	var last cloud.Progress
	for range 60 {
		if last = step(); last.Done {
			return
		}
		if last.Did == "" {
			s.Advance(while)
		}
	}
	require.Fail(s, "never done", "%+v", last)
}

// until calls until a call changes nothing.
func (s *suite) until(want cloud.PoolSpec) cloud.Progress {
	for range 60 {
		if got := s.step(want); got.Did == "" {
			return got
		}
	}
	require.Fail(s, "there is always something to change")
	return cloud.Progress{}
}

func (s *suite) observe() cloud.Pool {
	pool, err := s.p.Observe(context.Background(), cloud.PoolSpec{})
	require.NoError(s, err)
	return pool
}

// whole asserts a pool of size deployed workers in each of n zones.
func (s *suite) whole(size, n int) {
	pool := s.observe()
	require.True(s, pool.Exists)
	require.True(s, pool.Owned)
	require.Equal(s, size, pool.SizePerZone)
	require.Len(s, pool.Zones, n)
	require.Len(s, pool.Workers, size*n)
	for _, w := range pool.Workers {
		require.Equal(s, cloud.WorkerDeployed, w.State, "%+v", w)
		require.NotEmpty(s, w.NodeName)
	}
	for zone, workers := range byZone(pool.Workers) {
		require.Contains(s, pool.Zones, zone)
		require.Len(s, workers, size, "workers in zone %s", zone)
	}
	require.Len(s, s.Workers(), size*n)
	require.Empty(s, pool.Problems)
}

// ids are those of the workers that are not gone.
func (s *suite) ids() []string { return ids(s.Workers()) }

func ids(workers []cloud.Worker) []string {
	var out []string
	for _, w := range workers {
		out = append(out, w.ID)
	}
	return out
}

func byZone(workers []cloud.Worker) map[string][]string {
	out := map[string][]string{}
	for _, w := range workers {
		out[w.Zone] = append(out[w.Zone], w.ID)
	}
	return out
}
