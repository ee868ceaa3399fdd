// Package providertest is the test suite for every cloud.Provider. It asserts the state of the cloud, not which calls were made.
package providertest

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rrpool/rrpool/cloud"
)

// PoolName is the pool's name that the tested providers must use.
const PoolName = "route-reflectors"

// Fault is a failure of the cloud.
type Fault string

// The faults.
const (
	// ServerError: every request fails inside the service.
	ServerError Fault = "ServerError"
	// Limited: too many requests, retry after LimitedFor.
	Limited Fault = "Limited"
	// Denied: the credentials lack a permission.
	Denied Fault = "Denied"
	// Hanging: no answer at all.
	Hanging Fault = "Hanging"
	// LostAnswer: the next change takes effect, but there is no response. It ends after that.
	LostAnswer Fault = "LostAnswer"
)

// LimitedFor is the RetryAfter of a Limited cloud.
const LimitedFor = 7 * time.Second

// World is the cloud of a provider. Its time passes by Advance only. At first it has no pool of rrpool's, and three zones; if the provider uses
// existing nodes, three or more in each zone that can join the pool.
type World interface {
	// Advance moves the clocks of the cloud and of the providers forward.
	Advance(d time.Duration)
	// Workers returns the workers of rrpool's pool that are not deleted, in any order.
	Workers() []cloud.Worker
	// Pools counts the pools with the name PoolName.
	Pools() int
	// Mutations counts the changing requests so far, Requests all requests.
	Mutations() int
	Requests() int
	// Break makes a worker fail, with a message if the cloud reports one.
	Break(workerID, message string)
}

// Faulty is a World that can fail.
type Faulty interface {
	World
	// Inject makes the cloud fail until Heal.
	Inject(f Fault)
	Heal()
}

// Machines is a World whose provider orders machines.
type Machines interface {
	World
	// Untainted counts all workers of the pool that were ordered without a taint.
	Untainted() int
	// FailWorkers makes the next n ordered workers fail with a message.
	FailWorkers(n int, message string)
	// SetAutoscaled sets whether an autoscaler controls the pool.
	SetAutoscaled(on bool)
	// AddForeignPool creates a pool named PoolName without rrpool's label.
	AddForeignPool()
	// StripTaints removes the taints of the pool.
	StripTaints()
}

// zoneCount is the number of zones of a World.
const zoneCount = 3

// while is longer than every state of a worker, and than every wait of a provider.
const while = 5 * time.Minute

// Run runs the suite. fresh returns a new World for each test, and a function that returns a new provider instance for it, as after a restart.
// There are further tests for Machines and Faulty.
func Run(t *testing.T, fresh func(t *testing.T) (World, func() cloud.Provider)) {
	t.Helper()
	tests := slices.Clone(allProviders)
	world, _ := fresh(t)
	if _, ok := world.(Machines); ok {
		tests = append(tests, ordering...)
	}
	if _, ok := world.(Faulty); ok {
		tests = append(tests, outOfOrder...)
	}
	for _, c := range tests {
		t.Run(c.name, func(t *testing.T) {
			world, restart := fresh(t)
			machines, _ := world.(Machines)
			faulty, _ := world.(Faulty)
			c.test(&suite{t, world, machines, faulty, restart, restart()})
		})
	}
}

// suite is one test of the suite, with a provider of its own.
type suite struct {
	*testing.T
	World
	// machines is the World if it is a Machines, else nil.
	machines Machines
	// faulty is the World if it is a Faulty, else nil.
	faulty Faulty
	// restart returns a new instance of the provider.
	restart func() cloud.Provider
	p       cloud.Provider
}

// suiteTest is a test and its name.
type suiteTest struct {
	name string
	test func(*suite)
}

// allProviders are the tests of every provider.
var allProviders = []suiteTest{
	{"an unchanged pool is left alone and costs two reads", (*suite).leavesAlone},
	{"a pool grows, shrinks by the workers that were named, and a new instance continues after any step", (*suite).crashes},
	{"a pool is not shrunk while no worker is named", (*suite).doesNotChoose},
	{"a failed worker is replaced when it is named", (*suite).replaces},
	{"all workers of a zone that are dead are replaced, ordered ones one after the other", (*suite).replacesZone},
	{"zones can be listed, and given up once they are empty", (*suite).listedZones},
	{"a pool is deleted, and only once", (*suite).deletes},
	{"a wrong spec is refused without asking the cloud", (*suite).wrongSpecs},
	{"many callers at once make one pool", (*suite).concurrently},
}

// outOfOrder are the further tests of a Faulty World.
var outOfOrder = []suiteTest{
	{"a change whose answer is lost is not made twice", (*suite).losesAnswers},
	{"errors say when to come back, and nothing is changed", (*suite).reportsErrors},
	{"a hanging cloud is left when the context ends", (*suite).hangs},
}

// ordering are the further tests of a Machines World.
var ordering = []suiteTest{
	{"a pool is created, marked and only then given zones", (*suite).creates},
	{"a used-up quota is reported and is not asked for again and again", (*suite).overQuota},
	{"an autoscaled pool is refused", (*suite).autoscaled},
	{"a foreign pool of the same name is left alone", (*suite).foreign},
	{"taints that a person took away come back before the next zone", (*suite).retaints},
	{"a pool whose nodes lack the taint is not grown", (*suite).untaintedNodes},
}

// soon is how long a call may go on after its context has ended: more than delays of a loaded machine, and far less than a provider's own time-outs.
const soon = 20 * time.Second

// spec returns the wanted pool of a size.
func (s *suite) spec(size int) cloud.PoolSpec {
	if s.machines == nil {
		return cloud.PoolSpec{SizePerZone: size}
	}
	return cloud.PoolSpec{
		SizePerZone: size,
		Taints:      []cloud.Taint{{Key: "rrpool.io/dedicated", Value: "route-reflector", Effect: "NoExecute"}},
	}
}

// step calls Ensure once and checks what holds for every call.
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

// wellMade checks what must hold at every time.
func (s *suite) wellMade() {
	if s.machines != nil {
		require.Zero(s, s.machines.Untainted(), "no worker without taint, ever")
	}
	require.LessOrEqual(s, s.Pools(), 1, "one pool, ever")
}

// refused calls Ensure, which must fail with an error of that kind and change nothing.
func (s *suite) refused(want cloud.PoolSpec, kind cloud.Kind) error {
	before := s.Mutations()
	_, err := s.p.Ensure(context.Background(), want)
	require.True(s, cloud.Is(err, kind), "%v", err)
	require.Equal(s, before, s.Mutations())
	return err
}

// settle calls Ensure until it is done, and moves the clock forward while the provider waits.
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

// until calls Ensure until a call changes nothing.
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

// whole asserts that the pool has size deployed workers in each of n zones.
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

// ids returns the ids of the workers that are not deleted.
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
