package main

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/controllers/calico"
	"github.com/rrpool/rrpool/test/controlplane/intercept"
)

// chaosVariable lets tests run that take minutes, as test/lab has it.
const chaosVariable = "RRPOOL_CHAOS"

var update = flag.Bool("update", false, "write the golden files of how scenarios end")

func skipLong(t *testing.T) {
	t.Helper()
	if os.Getenv(chaosVariable) == "" {
		t.Skipf("it takes minutes: make soak runs it, with %s=1", chaosVariable)
	}
}

// writesBetweenKills is how many writes a manager makes before it is killed: long enough to
// get somewhere, and shorter than any phase.
const writesBetweenKills = 14

// Managers are killed again and again in the middle of a scenario, leadership changes in
// the middle of another, and the apiserver refuses in a third.
func TestFaultsInTheMiddleOfAScenario(t *testing.T) {
	besideOthers(t)
	a := newEnvironment(t, v1alpha1.ProviderIKS)
	a.subtest("killed", func() { a.killFrom(5) })
	a.subtest("leaders replaced", func() { a.replaceLeaders(leaderChanges, 21, 28) })
	a.subtest("refused", a.refuseRequests)
	a.subtest("wrong, and caught", a.requireFaultsAreSeen)
}

// A manager is killed at every single write there is, right before it and right after it,
// when its answer is lost; on both kinds of providers. Its successors finish.
func TestKilledAtEveryWrite(t *testing.T) {
	skipLong(t)
	shared(t, func(a *environment, share, shares int) {
		for first := 1 + share; first <= 2*writesBetweenKills; first += shares {
			a.subtest(fmt.Sprintf("from write %d on", first), func() { a.killFrom(first) })
		}
	})
}

// shared runs scenarios on both providers beside each other. A scenario on existing nodes
// takes three times as long, so they are shared among two environments.
func shared(t *testing.T, do func(a *environment, share, shares int)) {
	t.Helper()
	for kind, shares := range map[v1alpha1.ProviderType]int{v1alpha1.ProviderIKS: 1, v1alpha1.ProviderExistingNodes: 2} {
		for share := range shares {
			t.Run(fmt.Sprintf("%s %d of %d", kind, share+1, shares), func(t *testing.T) {
				t.Parallel()
				do(newEnvironment(t, kind), share, shares)
			})
		}
	}
}

// subtest runs a scenario as a test of its own. After one that failed the next would meet what it left.
func (a *environment) subtest(name string, do func()) {
	a.Helper()
	outer := a.T
	passed := outer.Run(name, func(t *testing.T) {
		a.T = t
		defer func() { a.T = outer }()
		defer a.stopAll()
		do()
	})
	require.True(outer, passed)
}

// killFrom runs a scenario with kills at write first and every writesBetweenKills after, alternately
// before the write and after it; a first beyond writesBetweenKills begins with the other of the two.
func (a *environment) killFrom(first int) {
	a.Helper()
	a.begin()
	executed := first > writesBetweenKills
	if executed {
		first -= writesBetweenKills
	}
	next := first
	var at []string
	a.between.Rules(func(r intercept.Request) intercept.Verdict {
		if r.Number != next {
			return intercept.Verdict{}
		}
		next += writesBetweenKills
		executed = !executed
		at = append(at, fmt.Sprintf("%s %s %s (executed: %t)", r.Kind(), r.Name, map[bool]string{true: "and its answer", false: "before"}[executed], executed))
		return intercept.Verdict{Cut: true, Executed: executed}
	})
	a.start()
	l := a.runScenario(a.restart)
	a.Logf("%d writes, %d kills, %s: %s", len(l.work), len(at), l.took.Round(100*time.Millisecond), strings.Join(at, "; "))
	require.NotEmpty(a, at)
	require.GreaterOrEqual(a, len(a.managers), len(at), "each kill took a manager")
	a.requireAsGolden(l)
	a.requireNoRepetition(l, len(at))
}

func (a *environment) golden(phase int) string {
	return filepath.Join("testdata", "scenario", fmt.Sprintf("%s-%d.golden", strings.ToLower(string(a.kind)), phase))
}

// requireAsGolden: each phase has ended as it always does.
func (a *environment) requireAsGolden(l scenario) {
	a.Helper()
	for i, p := range l.phases {
		path := a.golden(i + 1)
		if *update {
			require.NoError(a, os.MkdirAll(filepath.Dir(path), 0o755))
			require.NoError(a, os.WriteFile(path, []byte(p.end), 0o600))
		}
		want, err := os.ReadFile(path)
		require.NoError(a, err)
		require.ElementsMatch(a, strings.Split(string(want), "\n"), strings.Split(p.end, "\n"), "phase "+p.name)
	}
}

var serial = regexp.MustCompile(`c1-[0-9a-f]{7}`)

// requireNoRepetition: what changes routing or the cloud took effect exactly as often as
// in a scenario without kills; and each kill costs a few reports more.
func (a *environment) requireNoRepetition(l scenario, kills int) {
	a.Helper()
	var did []string
	reported := 0
	for _, r := range l.work {
		switch {
		case !r.Executed():
		case strings.HasPrefix(r.Resource, "routereflectorpools"), r.Resource == "caliconodestatuses":
			reported++
		default:
			did = append(did, serial.ReplaceAllString(r.Kind()+" "+r.Name, "…"))
		}
	}
	slices.Sort(did)
	path := filepath.Join("testdata", "scenario", strings.ToLower(string(a.kind))+"-writes.golden")
	if *update {
		require.NoError(a, os.WriteFile(path, []byte(strings.Join(did, "\n")+"\n"), 0o600))
	}
	want, err := os.ReadFile(path)
	require.NoError(a, err)
	require.ElementsMatch(a, strings.Split(strings.TrimSpace(string(want)), "\n"), did, "writes")
	require.LessOrEqual(a, reported, reports[a.kind]+15*kills, "reports and requests for reports")
}

// reports is how many writes of a scenario without kills are the manager's status, or ask nodes for theirs.
var reports = map[v1alpha1.ProviderType]int{v1alpha1.ProviderIKS: 95, v1alpha1.ProviderExistingNodes: 180}

// requireFaultsAreSeen: the checks see a manager that does wrong. It comes through a line as any other does.
func (a *environment) requireFaultsAreSeen() {
	a.Helper()
	a.between.Rules()
	line, err := a.between.Open("second writer", a.plane.AdminConfig(), nil, func() {})
	require.NoError(a, err)
	defer line.Close()
	second, err := client.New(line.Config(), client.Options{})
	require.NoError(a, err)
	require.Empty(a, a.net.Broken(), "nothing is wrong so far")

	config := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"nodeToNodeMeshEnabled": false}}}
	config.SetGroupVersionKind(calico.GroupV1.WithKind("BGPConfiguration"))
	config.SetName("default")
	require.NoError(a, second.Create(a.Context(), config))
	broken := a.net.Broken()
	require.Len(a, broken, 6+2, "six nodes without reflectors, and no way between two that stand for all: %v", broken)
	require.NoError(a, second.Delete(a.Context(), config))
	require.NotEmpty(a, a.net.Broken(), "the mesh takes its time to come back")
	a.waitFor("the mesh", func() bool {
		a.look("again")
		return len(a.net.Broken()) == 0
	})
}

func TestASecondWriterIsSeen(t *testing.T) {
	begin := time.Now()
	at := func(line string, after time.Duration) intercept.Request {
		return intercept.Request{Line: line, Verb: "patch", Resource: "nodes", At: begin.Add(after)}
	}
	g := &leaders{changes: []newLeader{{"a", begin}, {"b", begin.Add(time.Minute)}}}
	require.Empty(t, g.lateWrites([]intercept.Request{at("a", time.Second), at("b", 2*time.Minute)}))
	late := g.lateWrites([]intercept.Request{at("a", time.Second), at("b", 61*time.Second), at("a", 62*time.Second), at("a", 63*time.Second)})
	require.Len(t, late[begin.Add(time.Minute)], 2, "%v", late)
	require.NotEmpty(t, g.lateWrites([]intercept.Request{at("c", time.Second)}), "a manager that never led")
}

const seedVariable = "RRPOOL_SEED"

// tooManyPerSecond is more requests in a real second, which is ten for the manager, than it has reason
// for: about two a second by its clock when it works, and hundreds when it spins.
const tooManyPerSecond = 12 * speed

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
