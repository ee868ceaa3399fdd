// Package contract is the suite that every cloud.Provider has to pass. It
// asserts what has become of the cloud, not which calls were made.
package contract

import (
	"testing"
	"time"

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

// World is the cloud behind a provider. Workers take no time but what Advance gives.
type World interface {
	// Advance lets time pass, for the cloud and for the providers.
	Advance(d time.Duration)
	// Workers of our pool that are not gone, in any order.
	Workers() []cloud.Worker
	// Pools counts the pools that bear our name.
	Pools() int
	// Untainted counts the workers of our pool that were ever ordered without taint.
	Untainted() int
	// Mutations counts the changing requests so far, Requests all.
	Mutations() int
	Requests() int
	// FailWorkers lets the next n workers fail with message.
	FailWorkers(n int, message string)
	// Break makes a worker fail.
	Break(workerID, message string)
	// SetAutoscaled puts our pool under an autoscaler's care.
	SetAutoscaled(on bool)
	// AddForeignPool makes somebody else's pool of our name.
	AddForeignPool()
	// StripTaints takes the taints from our pool.
	StripTaints()
	// Inject puts the cloud out of order until Heal.
	Inject(f Fault)
	Heal()
}

// zones that the World has.
const zoneCount = 3

// while is longer than any state of a worker lasts, and settles whatever a
// provider waits to settle.
const while = 5 * time.Minute

func spec(size int) cloud.PoolSpec {
	return cloud.PoolSpec{
		SizePerZone: size,
		Labels:      map[string]string{"rrpool.io/role": "route-reflector"},
		Taints:      []cloud.Taint{{Key: "rrpool.io/dedicated", Value: "route-reflector", Effect: "NoExecute"}},
	}
}

// Run runs the suite. fresh gives a new harness for each test.
func Run(t *testing.T, fresh func(t *testing.T) Harness) {
	t.Helper()
	for _, c := range []struct {
		name string
		test func(*testing.T, Harness)
	}{
		{"a pool is created, marked and only then given zones", creates},
		{"an unchanged pool is left alone and costs two reads", rests},
		{"a new instance continues after any step", crashes},
		{"a change whose answer is lost is not made twice", losesAnswers},
		{"a pool grows", grows},
		{"a pool shrinks by the workers that were named, and only by them", shrinks},
		{"a pool is not shrunk while nobody is named", doesNotChoose},
		{"failed workers are replaced, one zone at a time", replaces},
		{"two dead workers of a zone are replaced one after the other", replacesInTurn},
		{"a used-up quota is told and does not start a storm of orders", overQuota},
		{"an autoscaled pool is refused", autoscaled},
		{"a foreign pool of the same name is left alone", foreign},
		{"taints that somebody took away come back before the next zone", retaints},
		{"zones can be listed, and given up once they are empty", listedZones},
		{"another flavor is refused, and only that", otherFlavor},
		{"a pool is deleted, and only once", deletes},
		{"a wrong spec is refused without asking the cloud", wrongSpecs},
		{"errors say when to come back, and nothing is changed", errorsTell},
		{"a hanging cloud holds nobody longer than their context", hangs},
		{"many callers at once make one pool", concurrently},
	} {
		t.Run(c.name, func(t *testing.T) { c.test(t, fresh(t)) })
	}
}
