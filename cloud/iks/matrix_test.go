package iks_test

import (
	"cmp"
	"fmt"
	"maps"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rrpool/rrpool/test/iksserver"
)

// endpoint is one kind of request that the provider makes. Path and query are regular expressions.
type endpoint struct{ name, method, path, query string }

func (e endpoint) matches(r iksserver.Request) bool {
	return r.Method == e.method && pattern(e.path).MatchString(r.Path) && pattern(e.query).MatchString(r.Query.Encode())
}

var patterns sync.Map

func pattern(text string) *regexp.Regexp {
	known, ok := patterns.Load(text)
	if !ok {
		known, _ = patterns.LoadOrStore(text, regexp.MustCompile(text))
	}
	return known.(*regexp.Regexp) //nolint:forcetypeassert // see the line before
}

// endpoints that the lifecycle uses in each generation: all of them, as the test asserts.
var endpoints = map[string][]endpoint{
	iksserver.VPC: append([]endpoint{
		{"list pools", "GET", "^/v2/vpc/getWorkerPools$", ""},
		{"list the pool's workers", "GET", "^/v2/vpc/getWorkers$", "pool="},
		{"list all workers", "GET", "^/v2/vpc/getWorkers$", "^cluster=[^&]*&showDeleted=false$"},
		{"list subnets", "GET", "^/v2/vpc/getSubnets$", ""},
		{"list flavors", "GET", "^/v2/getFlavors$", ""},
		{"list zones", "GET", "^/v2/vpc/getZones$", ""},
		{"create the pool", "POST", "^/v2/vpc/createWorkerPool$", ""},
		{"add a zone", "POST", "^/v2/vpc/createWorkerPoolZone$", ""},
		{"replace a worker", "POST", "^/v2/vpc/replaceWorker$", ""},
		{"remove a worker", "POST", "^/v2/removeWorker$", ""},
	}, shared...),
	iksserver.Classic: append([]endpoint{
		{"list pools", "GET", "^/v1/clusters/[^/]*/workerpools$", ""},
		{"list the pool's workers", "GET", "^/v1/clusters/[^/]*/workers$", "pool="},
		{"list all workers", "GET", "^/v1/clusters/[^/]*/workers$", "^showDeleted=false$"},
		{"list VLANs", "GET", "^/v1/datacenters/[^/]*/vlans$", ""},
		{"list flavors", "GET", "^/v1/datacenters/[^/]*/machine-types$", ""},
		{"list zones", "GET", "^/v1/zones$", ""},
		{"create the pool", "POST", "^/v1/clusters/[^/]*/workerpools$", ""},
		{"add a zone", "POST", "^/v1/clusters/[^/]*/workerpools/[^/]*/zones$", ""},
		{"replace a worker", "POST", "^/v2/replaceWorker$", ""},
		{"remove a worker", "DELETE", "^/v1/clusters/[^/]*/workers/[^/]*$", ""},
	}, shared...),
}

var shared = []endpoint{
	{"log in", "POST", "^/identity/token$", ""},
	{"read the cluster", "GET", "^/v2/getCluster$", ""},
	{"read the pool", "GET", "^/v2/(vpc|classic)/getWorkerPool$", ""},
	{"resize", "POST", "^/v2/resizeWorkerPool$", ""},
	{"set taints", "POST", "^/v2/setWorkerPoolTaints$", ""},
	{"remove a zone", "POST", "^/v2/removeWorkerPoolZone$", ""},
	{"delete the pool", "DELETE", "^/v1/clusters/[^/]*/workerpools/[^/]*$", ""},
}

func nameOf(generation string) func(iksserver.Request) string {
	return func(r iksserver.Request) string {
		var names []string
		for _, e := range endpoints[generation] {
			if e.matches(r) {
				names = append(names, e.name)
			}
		}
		if len(names) != 1 {
			return fmt.Sprintf("%s %s?%s is of the endpoints %q", r.Method, r.Path, r.Query.Encode(), names)
		}
		return names[0]
	}
}

// everyFault is every way for one answer to go wrong. What takes effect although its
// answer is lost is distinguished from what does not.
func everyFault() map[string]iksserver.Fault {
	out := map[string]iksserver.Fault{
		"no answer": {Hang: true}, "no answer, but executed": {Hang: true, Executed: true},
		"a broken connection": {Reset: true}, "a broken connection, but executed": {Reset: true, Executed: true},
		"a page instead": {Status: http.StatusOK, Body: "<html>Please log in</html>"}, "a page, but executed": iksserver.Body("<html>Please log in</html>"),
		"null": iksserver.Body("null"), "nothing": iksserver.Body(""), "half an answer": {Spoil: half},
		"null, unexecuted": {Status: http.StatusOK, Body: "null"}, "an empty object": {Status: http.StatusOK, Body: "{}"},
		"a slow answer": {Slow: 3 * time.Second}, "an expired token": {ExpireToken: true},
		"a redirect":          {Status: http.StatusTemporaryRedirect, Header: http.Header{"Location": {"/elsewhere"}}},
		"429 and Retry-After": iksserver.RateLimited(7 * time.Minute),
	}
	for _, status := range []int{400, 401, 403, 404, 409, 429, 500, 502, 503, 504} {
		out[fmt.Sprintf("%d, a proxy's page", status)] = iksserver.Fault{Status: status, Body: "<html>?</html>"}
		out[fmt.Sprintf("%d, in the service's words", status)] = iksserver.Fault{
			Status: status, Body: `{"incidentID":"i1","code":"E9999","errorCode":"BXNIM0001E","description":"It is so.","errorMessage":"It is so."}`,
		}
		if status >= 500 {
			out[fmt.Sprintf("%d, but executed", status)] = iksserver.Fault{Status: status, Body: "<html>?</html>", Executed: true}
		}
	}
	return out
}

func half(body []byte) []byte { return body[:len(body)/2] }

// A fault hits one request, or all that come for some time.
var durations = map[string]func(iksserver.Fault) iksserver.Fault{
	"once":           func(f iksserver.Fault) iksserver.Fault { f.Times = 1; return f },
	"for 40 minutes": func(f iksserver.Fault) iksserver.Fault { f.For = 40 * time.Minute; return f },
}

// cell is one fault on one endpoint, in one stage of the lifecycle.
type cell struct {
	name  string
	fault iksserver.Fault
	// fresh: a new process begins the stage, else what it asks for is known.
	fresh bool
}

// TestEveryEndpointMayFailInEveryWay takes a pool through its lifecycle, with one fault on one endpoint in each
// stage, until every endpoint has failed in every way. At every state of the cloud there is one pool and no worker
// untainted, and only workers that were named go; no change is made twice; each stage comes to its end by itself.
//
// With RRPOOL_CHAOS=1 that is in every stage that uses it, and both once and for some time; else in one of these
// stages, for one of these times, and in one profile, a status in one generation.
func TestEveryEndpointMayFailInEveryWay(t *testing.T) {
	for g, generation := range both {
		for i, profile := range iksserver.Profiles {
			t.Run(fmt.Sprintf("%s, %s", generation, profile), func(t *testing.T) {
				t.Parallel()
				clean := cleanRun(t, generation, profile)
				cells := someCells(generation, i+g*len(iksserver.Profiles), clean)
				if os.Getenv("RRPOOL_CHAOS") == "1" {
					cells = allCells(generation, clean)
				}
				runs := 0
				for _, of := range cells {
					runs = max(runs, len(of))
				}
				for n := range runs {
					synctest.Test(t, func(t *testing.T) { faultyRun(t, generation, profile, clean, cells, n) })
				}
			})
		}
	}
}

// cleanStage is what a stage needs where nothing fails.
type cleanStage struct {
	// bill counts the changes, by endpoint, used are all endpoints.
	bill map[string]int
	used map[string]bool
}

// cleanRun runs the lifecycle without faults. A process that has just started begins each stage.
func cleanRun(t *testing.T, generation string, profile iksserver.Profile) (clean []cleanStage) {
	t.Helper()
	name, used := nameOf(generation), map[string]bool{}
	synctest.Test(t, func(t *testing.T) {
		w := newEnvironment(t, generation, profile)
		for _, s := range lifecycle {
			w.restart()
			require.Empty(t, w.complaints(s, nil, name), "%s", s.name)
			now := cleanStage{bill(w.last, name), map[string]bool{}}
			require.LessOrEqual(t, now.bill["set taints"], 3, "%s: the taints are set again and again", s.name)
			for _, r := range w.last {
				used[name(r)], now.used[name(r)] = true, true
			}
			clean = append(clean, now)
		}
	})
	for _, e := range endpoints[generation] {
		require.True(t, used[e.name], "no request uses %q", e.name)
		delete(used, e.name)
	}
	require.Empty(t, used, "an endpoint that the matrix lacks")
	return clean
}

// allCells gives the cells of each stage.
func allCells(generation string, clean []cleanStage) [][]cell {
	out := make([][]cell, len(clean))
	for i, c := range clean {
		for _, e := range endpoints[generation] {
			for _, name := range faultNames {
				for span := range durations {
					if c.used[e.name] {
						out[i] = append(out[i], newCell(e, name, span))
					}
				}
			}
		}
	}
	return out
}

// someCells puts a fault on an endpoint into one stage, the one that has the fewest so far. The profiles, counted over both generations,
// share the faults.
func someCells(generation string, profile int, clean []cleanStage) [][]cell {
	out := make([][]cell, len(clean))
	use := func(e endpoint) (stages []int) {
		for i, c := range clean {
			if c.used[e.name] {
				stages = append(stages, i)
			}
		}
		return stages
	}
	sorted := slices.Clone(endpoints[generation])
	slices.SortStableFunc(sorted, func(a, b endpoint) int { return cmp.Compare(len(use(a)), len(use(b))) })
	for i, e := range sorted {
		for j, name := range faultNames {
			every := len(iksserver.Profiles)
			if strings.ContainsAny(name, "0123456789") {
				every *= len(both)
			}
			if (i+j+profile)%every > 0 {
				continue
			}
			stage := slices.MinFunc(use(e), func(a, b int) int { return cmp.Compare(len(out[a]), len(out[b])) })
			out[stage] = append(out[stage], newCell(e, name, slices.Sorted(maps.Keys(durations))[(i+j/2)%2]))
		}
	}
	return out
}

var faultNames = slices.Sorted(maps.Keys(everyFault()))

// known are the endpoints whose answers are kept for a while.
var known = []string{"log in", "read the cluster", "read the pool"}

func newCell(e endpoint, fault, span string) cell {
	f := durations[span](everyFault()[fault].On(e.method, e.path))
	f.Query = e.query
	return cell{e.name + ": " + fault + ", " + span, f, slices.Contains(known, e.name)}
}

// faultyRun is the n-th: of each stage it has the n-th cell.
func faultyRun(t *testing.T, generation string, profile iksserver.Profile, clean []cleanStage, cells [][]cell, n int) {
	t.Helper()
	w := newEnvironment(t, generation, profile)
	for i, s := range lifecycle {
		var c cell
		if n < len(cells[i]) {
			c = cells[i][n]
			w.Inject(c.fault)
		}
		w.misled = w.misled || profile == iksserver.Sparse && strings.HasPrefix(c.name, "set taints: ") && c.fault.Status == http.StatusOK
		if c.fresh {
			w.restart()
		}
		require.Empty(t, w.complaints(s, clean[i].bill, nameOf(generation)), "%s: %s", s.name, c.name)
		hit := slices.ContainsFunc(w.last, func(r iksserver.Request) bool { return r.Faulty })
		require.Equal(t, c.name != "", hit, "%s: %s never came to pass", s.name, c.name)
		w.ClearFaults()
	}
}
