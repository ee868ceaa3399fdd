// Package providertest is the suite that every cloud.Provider has to pass. It
// asserts what has become of the cloud, not which calls were made.
package providertest

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rrpool/rrpool/cloud"
)

// PoolName is the name the harness's providers are to use.
const PoolName = "route-reflectors"

// Harness is one cloud, empty of our pool, with three zones.
type Harness struct {
	World World
	// Provider makes a new instance, as a restart would.
	Provider func() cloud.Provider
}

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
// gives. It also implements Machines or ExistingNodes, which decides on the
// further tests of its provider.
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

// ExistingNodes is a World whose provider takes nodes that are there already. Three or
// more of each zone could join.
type ExistingNodes interface {
	World
	// Nodes are the names of all nodes there are.
	Nodes() []string
}

// zones that the World has.
const zoneCount = 3

// while is longer than any state of a worker lasts, and settles whatever a
// provider waits to settle.
const while = 5 * time.Minute

// machines gives the World as one of machines, nil when it is not.
func (h Harness) machines() Machines {
	m, _ := h.World.(Machines)
	return m
}

// spec is what is asked for: of a pool that is ordered, labels and taints too.
func (h Harness) spec(size int) cloud.PoolSpec {
	if h.machines() == nil {
		return cloud.PoolSpec{SizePerZone: size}
	}
	return cloud.PoolSpec{
		SizePerZone: size,
		Labels:      map[string]string{"rrpool.io/role": "route-reflector"},
		Taints:      []cloud.Taint{{Key: "rrpool.io/dedicated", Value: "route-reflector", Effect: "NoExecute"}},
	}
}

// suiteTest is one test of the suite.
type suiteTest struct {
	name string
	test func(*testing.T, Harness)
}

// Run runs the suite. fresh gives a new harness for each test.
func Run(t *testing.T, fresh func(t *testing.T) Harness) {
	t.Helper()
	h := fresh(t)
	tests := allProviders
	switch {
	case h.machines() != nil:
		tests = append(slices.Clone(tests), ordering...)
	default:
		require.NoError(t, ordersNothing(context.Background(), h), "a World without Machines is of a provider that orders none")
		tests = append(slices.Clone(tests), taking...)
	}
	for _, c := range tests {
		t.Run(c.name, func(t *testing.T) { c.test(t, fresh(t)) })
	}
}

// allProviders are the tests of every provider.
var allProviders = []suiteTest{
	{"an unchanged pool is left alone and costs two reads", leavesAlone},
	{"a new instance continues after any step", crashes},
	{"a change whose answer is lost is not made twice", losesAnswers},
	{"a pool grows", grows},
	{"a pool shrinks by the workers that were named, and only by them", shrinks},
	{"a pool is not shrunk while no worker is named", doesNotChoose},
	{"a failed worker is replaced when it is named", replaces},
	{"all workers of a zone that are dead are replaced, ordered ones one after the other", replacesZone},
	{"zones can be listed, and given up once they are empty", listedZones},
	{"a pool is deleted, and only once", deletes},
	{"a wrong spec is refused without asking the cloud", wrongSpecs},
	{"errors say when to come back, and nothing is changed", reportsErrors},
	{"a hanging cloud is left when the context ends", hangs},
	{"many callers at once make one pool", concurrently},
}

// ordering are the further tests of providers that order machines.
var ordering = []suiteTest{
	{"a pool is created, marked and only then given zones", creates},
	{"a used-up quota is reported and is not asked for again and again", overQuota},
	{"an autoscaled pool is refused", autoscaled},
	{"a foreign pool of the same name is left alone", foreign},
	{"taints that a person took away come back before the next zone", retaints},
	{"a pool whose nodes lack the taint is not grown", untaintedNodes},
	{"another flavor is refused, and only that", otherFlavor},
}

// taking are the further tests of providers that take nodes that are there.
var taking = []suiteTest{
	{"a pool is made of nodes that are there, one a call", joins},
	{"a substitute comes before a node leaves", substitutesFirst},
}
