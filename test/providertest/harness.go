// Package providertest is the suite that every cloud.Provider has to pass. It
// asserts what has become of the cloud, not which calls were made.
package providertest

import (
	"slices"
	"testing"
	"time"

	"github.com/rrpool/rrpool/cloud"
)

// PoolName is the name the harness's providers are to use.
const PoolName = "route-reflectors"

// Fault is a way for the cloud to be out of order.
type Fault string

// The faults.
const (
	// ServerError: every request fails inside the service.
	ServerError Fault = "ServerError"
	// Limited: too many requests, come back after LimitedFor.
	Limited Fault = "Limited"
	// Denied: the credentials lack a permission.
	Denied Fault = "Denied"
	// Hanging: no answer at all.
	Hanging Fault = "Hanging"
	// LostAnswer: the next change happens, but is not answered. It ends by itself.
	LostAnswer Fault = "LostAnswer"
)

// LimitedFor is how long a Limited cloud wants to be left alone.
const LimitedFor = 7 * time.Second

// World is the cloud behind a provider. Workers take no time but what Advance
// gives. It is empty of our pool and has three zones, and where its provider takes
// nodes that are there already, three or more in each zone that could join.
type World interface {
	// Advance lets time pass, for the cloud and for the providers.
	Advance(d time.Duration)
	// Workers of our pool that are not gone, in any order.
	Workers() []cloud.Worker
	// Pools counts the pools that bear our name.
	Pools() int
	// Mutations counts the changing requests so far, Requests all.
	Mutations() int
	Requests() int
	// Break makes a worker fail. A cloud that has words for it says message.
	Break(workerID, message string)
}

// Faulty is a World that can be out of order.
type Faulty interface {
	World
	// Inject puts the cloud out of order until Heal.
	Inject(f Fault)
	Heal()
}

// Machines is a World whose provider orders machines.
type Machines interface {
	World
	// Untainted counts the workers of our pool that were ever ordered without taint.
	Untainted() int
	// FailWorkers lets the next n workers fail with message.
	FailWorkers(n int, message string)
	// SetAutoscaled puts our pool under an autoscaler's control.
	SetAutoscaled(on bool)
	// AddForeignPool makes a pool of our name that rrpool did not make.
	AddForeignPool()
	// StripTaints takes the taints from our pool.
	StripTaints()
}

// zones that the World has.
const zoneCount = 3

// while is longer than any state of a worker lasts, and settles whatever a provider waits to settle.
const while = 5 * time.Minute

// Run runs the suite. fresh gives a new World for each test, and makes a new provider
// instance for it, as a restart would. There are further tests for Machines and Faulty.
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
	// machines is the World as one of machines, nil when it is not.
	machines Machines
	// faulty is the World as one of faults, nil when it is not.
	faulty Faulty
	// restart makes a new instance.
	restart func() cloud.Provider
	p       cloud.Provider
}

// suiteTest names a test.
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

// outOfOrder are the further tests of Worlds that can be.
var outOfOrder = []suiteTest{
	{"a change whose answer is lost is not made twice", (*suite).losesAnswers},
	{"errors say when to come back, and nothing is changed", (*suite).reportsErrors},
	{"a hanging cloud is left when the context ends", (*suite).hangs},
}

// ordering are the further tests of providers that order machines.
var ordering = []suiteTest{
	{"a pool is created, marked and only then given zones", (*suite).creates},
	{"a used-up quota is reported and is not asked for again and again", (*suite).overQuota},
	{"an autoscaled pool is refused", (*suite).autoscaled},
	{"a foreign pool of the same name is left alone", (*suite).foreign},
	{"taints that a person took away come back before the next zone", (*suite).retaints},
	{"a pool whose nodes lack the taint is not grown", (*suite).untaintedNodes},
}
