package plan

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/rrpool/rrpool/cmd/rrpool/iostreams"
	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/test/cli"
)

// scene is a question, and the exit code of its answer.
type scene struct {
	args []string
	code int
}

// scenes are the questions. The answers to some are kept.
func scenes(t *testing.T) map[string]scene {
	t.Helper()
	file := func(spec string) string { return cli.PoolFile(t, spec) }
	return map[string]scene{
		"dedicated-small": {[]string{"--nodes", "6", "--zones", "1"}, 2},
		"existing":        {[]string{"--nodes", "5", "--zones", "2", "-f", file("{provider: {type: ExistingNodes}}")}, 2},
		"immediate": {[]string{
			"--nodes", "4", "--zones", "1", "-f", file("{provider: {type: ExistingNodes, existingNodes: {promotion: Immediate}}}"),
		}, 2},
		"own-sizing":     {[]string{"--nodes", "40", "--zones", "2", "-f", file("{sizing: {method: Linear, ratio: '0.1'}, provider: {iks: {flavor: own.2x4}}}")}, 2},
		"on-the-mesh":    {[]string{"--nodes", "10", "--mode", "FullMesh"}, 0},
		"paused":         {[]string{"--nodes", "10", "-f", file("{mode: Paused}")}, 0},
		"too-few-nodes":  {[]string{"--nodes", "3", "-f", file("{provider: {type: ExistingNodes}}")}, 1},
		"too-many-zones": {[]string{"--nodes", "60", "--zones", "30"}, 1},
		"quorum":         {[]string{"--nodes", "60", "-f", file("{topology: {type: Quorum}, sizing: {min: 9}}")}, 2},
		"racks-by-size":  {[]string{"--nodes", "60", "--zones", "1", "-f", file("{topology: {type: Hierarchy, maxClientsPerReflector: 30}}")}, 2},
		"too-many-paths": {[]string{"--nodes", "60", "-f", file("{topology: {type: MultiCluster}, sizing: {min: 9}}")}, 1},
	}
}

// kept are the scenes whose tables are kept. docs/plan.md has the one of a dedicated pool.
var kept = []string{"existing", "immediate", "paused", "quorum", "too-many-paths"}

// Each scene as a table; on narrow terminals all have narrow lines.
func TestTables(t *testing.T) {
	for name, tc := range scenes(t) {
		t.Run(name, func(t *testing.T) {
			args := append([]string{"plan"}, tc.args...)
			got := cli.Ask(t, New, args...)
			require.Equal(t, tc.code, got.Code, got.Err)
			if slices.Contains(kept, name) {
				cli.Golden(t, name+".golden", got.Out)
			}
			switch tc.code {
			case 0:
				require.Contains(t, got.Out, "√ There is nothing to do.")
				require.Empty(t, got.Err, "nothing but the plan")
			case 1:
				require.Contains(t, got.Out, "× It does nothing: ")
				cli.RequireSentence(t, got.Err)
			default:
				require.Contains(t, got.Out, " steps, about ")
				require.Empty(t, got.Err, "nothing but the plan")
			}
			s := iostreams.Streams{Terminal: true, Width: 60, Getenv: cli.Environment("NO_COLOR", "1")}
			small := cli.AskIn(t, s, New, args...)
			require.Equal(t, tc.code, small.Code, small.Err)
			require.NotContains(t, small.Out, "\x1b", "NO_COLOR")
			cli.RequireWidth(t, small.Out, 60)
		})
	}
	cli.Golden(t, "existing.json.golden", cli.Ask(t, New, append([]string{"plan", "-o", "json"}, scenes(t)["existing"].args...)...).Out)
}

// Bad input gets one sentence that names the field, the value and the remedy.
func TestBadInput(t *testing.T) {
	cli.RequireBad(t, New, "plan", map[string]cli.Bad{
		"too many nodes":                {[]string{"--nodes", "5001"}, []string{"--nodes", `"5001"`, "from 3 to 5000"}},
		"zones without nodes":           {[]string{"--zones", "3"}, []string{"--zones", "give --nodes as well"}},
		"an unknown mode":               {[]string{"--mode", "Mesh"}, []string{"--mode", `"Mesh"`, "RouteReflector, FullMesh"}},
		"a cluster and an invented one": {[]string{"--nodes", "9", "--context", "x"}, []string{"[context nodes] were all set"}},
		"a region that cannot be":       {[]string{"--nodes", "9", "--region", "Frankfurt am Main"}, []string{"--region", "such as eu-de"}},
		"zones of a real cluster":       {[]string{"--nodes", "9", "-f", cli.PoolFile(t, "{provider: {iks: {zones: [eu-de-1]}}}")}, []string{"spec.provider.iks.zones", "leave the field out"}},
		"no kubeconfig":                 {[]string{"--kubeconfig", "/nonexistent"}, []string{"--kubeconfig", "without a cluster: rrpool plan --nodes 500 --zones 3"}},
	})
}

func TestMain(m *testing.M) { cli.Main(m) }

func TestTheExamplesOfTheDocs(t *testing.T) {
	cli.RequireExamples(t, "plan", func(args ...string) cli.Answer { return cli.Ask(t, New, args...) })
}

// On a real apiserver: what a user must be allowed, one right after the other, and the
// plan for a cluster with and without a RouteReflectorPool.
func TestARealApiserver(t *testing.T) {
	a := cli.RealApiserver(t, "planner")
	admin := a.Admin
	for i := range 5 {
		a.Node(fmt.Sprintf("node-%d", i), "a", fmt.Sprintf("10.9.0.%d", i+1))
	}
	args := []string{"plan", "-o", "table", "--kubeconfig", a.Kubeconfig()}
	asked := func() cli.Answer { return cli.Ask(t, New, args...) }
	role, rights := metav1.ObjectMeta{Name: "rrpool-planner"}, cli.Roles(t, "plan")[0].Rules
	for i, missing := range []string{"may not get routereflectorpools.rrpool.io", "", "crd.projectcalico.org"} {
		a.Grant(role, rights[:i]...)
		got := a.Eventually(asked, func(a cli.Answer) bool { return a.Code == 1 && strings.Contains(a.Err, missing) })
		require.Empty(t, got.Out)
		cli.RequireSentence(t, got.Err)
	}
	a.Grant(role, rights[:3]...)
	got := a.Eventually(asked, func(a cli.Answer) bool { return a.Code == 2 })
	require.Contains(t, got.Out, "The pods were not counted: the user of context \"rrpool\" may not list pods")
	require.Contains(t, got.Out, "Next: rrpool migrate")
	a.Grant(role, rights...)
	got = a.Eventually(asked, func(a cli.Answer) bool { return a.Code == 2 && strings.Contains(a.Out, "runs no pods") })
	require.Contains(t, got.Out, "√ No packet between pods is lost.")
	require.Contains(t, got.Out, "has no RouteReflectorPool")

	object := &v1alpha1.RouteReflectorPool{ObjectMeta: metav1.ObjectMeta{Name: "default"}}
	object.Spec.Mode = v1alpha1.ModeFullMesh
	require.NoError(t, admin.Create(t.Context(), object))
	got = cli.Ask(t, New, args...)
	require.Zero(t, got.Code, got.Err)
	require.Contains(t, got.Out, "There is nothing to do.")
	got = cli.Ask(t, New, append(args, "--mode", "RouteReflector")...)
	require.Equal(t, 2, got.Code)
	require.NotContains(t, got.Out, "has no RouteReflectorPool")
	got = cli.Ask(t, New, append(args, "-f", cli.PoolFile(t, "{provider: {type: IKS}}"))...)
	require.Equal(t, 2, got.Code)
	require.Contains(t, got.Out, "‼ First: ClusterIDUnknown")
	require.Contains(t, got.Out, "Next: rrpool check")

	crd := &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: "bgppeers.crd.projectcalico.org"}}
	require.NoError(t, admin.Delete(t.Context(), crd))
	// The CRD goes by and by: its watch may end before its list does.
	got = a.Eventually(asked, func(a cli.Answer) bool { return a.Code == 1 && strings.Contains(a.Err, "CalicoNotInstalled") })
	cli.RequireSentence(t, got.Err, "CalicoNotInstalled")
}

// A server that lists but never answers a watch does not hold the command up.
func TestAWatchThatHangs(t *testing.T) {
	hang, watched := make(chan struct{}), atomic.Bool{}
	defer close(hang)
	path := cli.Serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		switch {
		case r.URL.Query().Get("watch") != "":
			watched.Store(true)
			select {
			case <-hang:
			case <-r.Context().Done():
			}
		case strings.HasSuffix(r.URL.Path, "/routereflectorpools/default"):
			cli.Fail(w, cli.NotFound)
		case strings.HasSuffix(r.URL.Path, "/nodes"):
			_, _ = w.Write([]byte(`{"kind":"NodeList","apiVersion":"v1","metadata":{"resourceVersion":"7"},"items":[]}`))
		default:
			_, _ = w.Write([]byte(`{"kind":"List","apiVersion":"crd.projectcalico.org/v1","metadata":{"resourceVersion":"7"},"items":[]}`))
		}
	}))
	done := make(chan cli.Answer, 1)
	go func() { done <- cli.Ask(t, New, "plan", "--kubeconfig", path, "--request-timeout", "2s") }()
	select {
	case got := <-done:
		require.True(t, watched.Load(), "it came as far as that: %s", got.Err)
	case <-time.After(2 * time.Minute):
		require.Fail(t, "the command hangs")
	}
}
