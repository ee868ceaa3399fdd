package main

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/test/controlplane/intercept"
)

// seedVariable chooses other random faults.
const seedVariable = "RRPOOL_SEED"

// tooManyPerSecond is more requests in a real second, which is ten for the manager, than it has reason
// for: about two a second by its clock when it works, and hundreds when it spins.
const tooManyPerSecond = 12 * speed

// spoil spoils about every tenth request.
func spoil(random *rand.Rand, r intercept.Request) intercept.Verdict {
	if r.Lease() || r.Verb == "watch" {
		return intercept.Verdict{}
	}
	outcomes := ofAnyRequest
	if r.Write() {
		outcomes = append(slices.Clone(ofAnyRequest), ofWrites...)
	}
	if r.Write() && !r.Cloud { // the cloud's conflicts mean something else
		outcomes = append(outcomes, ofObjects...)
	}
	if dice := random.IntN(60); dice < len(outcomes) {
		v := outcomes[dice]
		if v.Delay > 0 {
			v.Delay += time.Duration(random.IntN(1000)) * time.Millisecond
		}
		return v
	}
	return intercept.Verdict{}
}

// What may become of any request, of writes, and of writes to objects.
var (
	ofAnyRequest = []intercept.Verdict{
		{Delay: 200 * time.Millisecond},
		{Answer: http.StatusTooManyRequests, RetryAfter: time.Second},
		{Answer: http.StatusServiceUnavailable},
		{Answer: http.StatusInternalServerError},
	}
	ofWrites  = []intercept.Verdict{{Answer: http.StatusServiceUnavailable, Executed: true}}
	ofObjects = []intercept.Verdict{{Answer: http.StatusConflict}, {Answer: http.StatusConflict, Executed: true}}
)

// busiest is the greatest number of requests in any second.
func busiest(all []intercept.Request) int {
	most, first := 0, 0
	for i, r := range all {
		for all[first].At.Add(time.Second).Before(r.At) {
			first++
		}
		most = max(most, i-first+1)
	}
	return most
}

// Conflicts, refusals, lost answers, slow answers and dropped watches, all through a scenario.
func TestScenarioWithRandomFaults(t *testing.T) {
	skipLong(t)
	from, _ := strconv.ParseUint(os.Getenv(seedVariable), 10, 64)
	shared(t, func(a *environment, share, shares int) {
		for seed := from + 1 + uint64(share); seed < from+4; seed += uint64(shares) {
			a.subtest(fmt.Sprintf("seed %d", seed), func() {
				a.begin()
				random, spoiled, up := rand.New(rand.NewPCG(seed, 0)), 0, false
				a.between.Rules(func(r intercept.Request) intercept.Verdict {
					if up = up || r.Work(); !up {
						return intercept.Verdict{} // one that cannot even begin ends, and is started again
					}
					v := spoil(random, r)
					if v != (intercept.Verdict{}) {
						spoiled++
					}
					return v
				})
				a.start()
				last, dropped := time.Now(), 0
				l := a.runScenario(func() {
					a.restart()
					if time.Since(last) > 3*time.Second {
						last = time.Now()
						dropped += a.managers[len(a.managers)-1].line.DropWatches(dropped%2 == 0)
					}
				})
				all := a.between.Requests()
				a.Logf("seed %d: %d writes, %d requests in %s, at most %d in a second; %d watches dropped, %d spoiled",
					seed, len(l.work), len(all), l.took.Round(100*time.Millisecond), busiest(all), dropped, spoiled)
				require.NotZero(a, spoiled)
				require.Len(a, a.managers, 1, "no fault ends a manager")
				a.requireAsGolden(l)
				a.requireNoRepetition(l, dropped)
				require.LessOrEqual(a, len(l.work), 4*reports[a.kind], "writes, and attempts to write")
				require.LessOrEqual(a, busiest(all), tooManyPerSecond)
			})
		}
	})
}

// lastingRefusal is what an apiserver refuses for long.
type lastingRefusal struct {
	name    string
	refused func(intercept.Request) bool
	code    int
	// stale: watches that are open end as well.
	stale bool
	// degraded is the condition's status, and words that its message has.
	degraded metav1.ConditionStatus
	says     []string
}

// refused in turn, in one scenario: each keeps it from what the next one needs.
var refused = []lastingRefusal{
	{
		name: "another writer is always faster", code: http.StatusConflict,
		refused:  func(r intercept.Request) bool { return r.Kind() == "patch nodes" },
		degraded: metav1.ConditionTrue, says: []string{"10.241.0.3", "injected 409"},
	},
	{
		name: "Calico's objects cannot be listed", code: http.StatusServiceUnavailable, stale: true,
		refused:  func(r intercept.Request) bool { return r.Resource == "bgppeers" && !r.Write() },
		degraded: metav1.ConditionUnknown, says: []string{"BGPPeer", "injected 503"},
	},
	{
		name: "the mesh cannot be switched", code: http.StatusInternalServerError,
		refused:  func(r intercept.Request) bool { return r.Kind() == "create bgpconfigurations" },
		degraded: metav1.ConditionTrue, says: []string{"BGPConfiguration", "injected 500"},
	},
}

// refuseRequests: what lasts is said while it lasts, tried again in moderation, and over when it is over.
func (a *environment) refuseRequests() {
	a.Helper()
	a.begin()
	var now *lastingRefusal
	a.between.Rules(func(r intercept.Request) intercept.Verdict {
		if now == nil || !now.refused(r) {
			return intercept.Verdict{}
		}
		return intercept.Verdict{Answer: now.code}
	})
	m := a.start()
	for i := range refused {
		a.between.Swap(func() { now = &refused[i] })
		if i == 0 {
			require.NoError(a, a.admin.Create(a.Context(), a.newObject()))
		}
		if refused[i].stale {
			m.line.DropWatches(true)
		}
		a.until(refused[i].name, func() {}, refused[i].said)
		before, began := len(a.between.Requests()), time.Now()
		time.Sleep(time.Second) // how often it tries can only be counted; a busy machine may sleep for longer
		tried := len(a.between.Requests()) - before
		require.Less(a, float64(tried)/time.Since(began).Seconds(), float64(tooManyPerSecond))
	}
	a.between.Swap(func() { now = nil })
	a.until("it is over", func() {}, func(o *v1alpha1.RouteReflectorPool) bool { return rested(o) && len(o.Status.Reflectors) == 3 })
	require.NoError(a, a.admin.Delete(a.Context(), a.object()))
	a.until("deleted", func() {}, func(o *v1alpha1.RouteReflectorPool) bool { return o == nil })
}

// said: the object's conditions report it.
func (l lastingRefusal) said(o *v1alpha1.RouteReflectorPool) bool {
	degraded := meta.FindStatusCondition(o.Status.Conditions, v1alpha1.ConditionDegraded)
	return degraded != nil && degraded.Status == l.degraded && !slices.ContainsFunc(l.says, func(w string) bool { return !strings.Contains(degraded.Message, w) })
}
