package main

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/test/controlplane/intercept"
)

// seedVariable chooses another weather.
const seedVariable = "RRPOOL_SEED"

// weather is a seeded schedule of faults.
type weather struct {
	random *rand.Rand
	counts map[string]int
}

func newWeather(seed uint64) *weather {
	return &weather{random: rand.New(rand.NewPCG(seed, 0)), counts: map[string]int{}} //nolint:gosec // G404: for a test, repeatable
}

// rule spoils about every fifth request.
func (w *weather) rule(r intercept.Request) intercept.Verdict {
	v := w.draw(r)
	switch {
	case v.Answer != 0:
		w.counts[fmt.Sprintf("%d (executed: %t)", v.Answer, v.Executed)]++
	case v.Delay != 0:
		w.counts["slow"]++
	}
	return v
}

func (w *weather) draw(r intercept.Request) intercept.Verdict {
	dice := w.random.IntN(100)
	switch {
	case r.Lease(), r.Verb == "watch":
		return intercept.Verdict{}
	case dice < 4:
		return intercept.Verdict{Delay: time.Duration(200+w.random.IntN(1000)) * time.Millisecond}
	case dice < 7:
		return intercept.Verdict{Answer: http.StatusTooManyRequests, RetryAfter: time.Second}
	case dice < 10:
		return intercept.Verdict{Answer: http.StatusServiceUnavailable}
	case dice < 12:
		return intercept.Verdict{Answer: http.StatusInternalServerError}
	case !r.Write():
		return intercept.Verdict{}
	case dice < 15:
		return intercept.Verdict{Answer: http.StatusServiceUnavailable, Executed: true}
	case dice < 21 && !r.Cloud:
		return intercept.Verdict{Answer: http.StatusConflict}
	case dice < 23 && !r.Cloud:
		return intercept.Verdict{Answer: http.StatusConflict, Executed: true}
	}
	return intercept.Verdict{}
}

// stormy lives a life in bad weather.
func (a *arena) stormy(seed uint64) {
	a.Helper()
	a.begin()
	w := newWeather(seed)
	up := false
	a.between.Rules(func(r intercept.Request) intercept.Verdict {
		if up = up || r.Work(); !up {
			return intercept.Verdict{} // one that cannot even begin ends, and is started again
		}
		return w.rule(r)
	})
	a.rise()
	last, dropped := time.Now(), 0
	l := a.live(func() {
		a.succeed()
		if time.Since(last) > 1500*time.Millisecond {
			last = time.Now()
			dropped += a.managers[len(a.managers)-1].line.DropWatches(dropped%2 == 0)
		}
	})
	all := a.between.Requests()
	a.Logf("seed %d: %d writes, %d requests in %s, at most %d in a second; %d watches dropped, spoiled: %v",
		seed, len(l.work), len(all), l.took.Round(100*time.Millisecond), busiest(all), dropped, w.counts)
	require.Len(a, a.managers, 1, "weather kills no manager")
	a.requireAsGolden(l)
	a.requireNoRepetition(l, dropped)
	require.LessOrEqual(a, len(l.work), 4*reports[a.kind], "writes, and attempts to write")
	require.LessOrEqual(a, busiest(all), 12*speed, "requests in a second, which is %d s for the manager", speed)
}

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

// Conflicts, refusals, lost answers, slow answers and dropped watches, all through a life.
func TestALifeInBadWeather(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a kube-apiserver and waits for settle times")
	}
	t.Parallel()
	a := newArena(t, v1alpha1.ProviderIKS)
	a.stormy(1)
}

// The same in many kinds of bad weather, with both kinds of providers.
func TestLivesInBadWeather(t *testing.T) {
	skipLong(t)
	from, _ := strconv.ParseUint(os.Getenv(seedVariable), 10, 64)
	for _, kind := range []v1alpha1.ProviderType{v1alpha1.ProviderIKS, v1alpha1.ProviderExistingNodes} {
		t.Run(string(kind), func(t *testing.T) {
			a := newArena(t, kind)
			for seed := from + 2; seed < from+7; seed++ {
				a.run(fmt.Sprintf("seed %d", seed), func() { a.stormy(seed) })
			}
		})
	}
}

// What lasts is said while it lasts, and is over when it is over.
func TestWhatTheApiserverRefusesIsSaid(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a kube-apiserver")
	}
	t.Parallel()
	a := newArena(t, v1alpha1.ProviderIKS)
	for _, tc := range []struct {
		name    string
		refused func(intercept.Request) bool
		code    int
		stale   bool
		status  string
		says    []string
	}{
		{
			name: "nodes cannot be written", code: http.StatusInternalServerError,
			refused: func(r intercept.Request) bool { return r.Kind() == "patch nodes" },
			status:  "True", says: []string{"10.241.0.3", "injected 500"},
		},
		{
			name: "Calico's objects cannot be listed", code: http.StatusServiceUnavailable, stale: true,
			refused: func(r intercept.Request) bool { return r.Resource == "bgppeers" && !r.Write() },
			status:  "Unknown", says: []string{"BGPPeer", "injected 503"},
		},
		{
			name: "somebody is always faster", code: http.StatusConflict,
			refused: func(r intercept.Request) bool { return r.Kind() == "patch nodes" },
			status:  "True", says: []string{"10.241.0.3", "injected 409"},
		},
	} {
		a.run(tc.name, func() {
			a.begin()
			a.between.Rules(func(r intercept.Request) intercept.Verdict {
				if tc.refused(r) {
					return intercept.Verdict{Answer: tc.code}
				}
				return intercept.Verdict{}
			})
			m := a.rise()
			require.NoError(a, a.admin.Create(a.Context(), a.newObject()))
			if tc.stale {
				m.line.DropWatches(true)
			}
			told := func(o *v1alpha1.RouteReflectorPool) string {
				degraded := meta.FindStatusCondition(o.Status.Conditions, v1alpha1.ConditionDegraded)
				if degraded == nil {
					return ""
				}
				return string(degraded.Status) + " " + degraded.Message
			}
			a.until("it is said", func() {}, func(o *v1alpha1.RouteReflectorPool) bool {
				text := told(o)
				return strings.HasPrefix(text, tc.status) && containsAll(text, tc.says)
			})
			a.Logf("Degraded: %s", told(a.object()))
			before := len(a.between.Requests())
			time.Sleep(2 * time.Second) // how often it tries can only be counted
			tries := len(a.between.Requests()) - before
			a.Logf("%d requests in 2 s", tries)
			require.Less(a, tries, 2*12*speed)
			a.between.Rules()
			a.until("it is over", func() {}, func(o *v1alpha1.RouteReflectorPool) bool { return rested(o) && len(o.Status.Reflectors) == 3 })
			require.NoError(a, a.admin.Delete(a.Context(), a.object()))
			a.until("deleted", func() {}, func(o *v1alpha1.RouteReflectorPool) bool { return o == nil })
		})
	}
}
