package plan

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rrpool/rrpool/cmd/rrpool/iostreams"
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
		"dedicated":       {[]string{"--nodes", "500", "--zones", "3", "--region", "us-south"}, 2},
		"dedicated-small": {[]string{"--nodes", "6", "--zones", "1"}, 2},
		"existing":        {[]string{"--nodes", "5", "--zones", "2", "-f", file("{provider: {type: ExistingNodes}}")}, 2},
		"immediate": {[]string{
			"--nodes", "4", "--zones", "1",
			"-f", file("{provider: {type: ExistingNodes, existingNodes: {promotion: Immediate}}}"),
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

// kept are the scenes whose tables are kept, with those on a terminal of 60 columns.
// docs/plan.md has the one of a dedicated pool.
var kept = map[string]bool{
	"existing": false, "immediate": true, "paused": false, "quorum": false, "too-many-paths": false,
}

// Each scene as a table; on narrow terminals all have narrow lines.
func TestTables(t *testing.T) {
	for name, tc := range scenes(t) {
		t.Run(name, func(t *testing.T) {
			args := append([]string{"plan"}, tc.args...)
			got := cli.Ask(t, New, args...)
			require.Equal(t, tc.code, got.Code, got.Err)
			narrow, keep := kept[name]
			if keep {
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
			if narrow {
				cli.Golden(t, name+"-60.golden", small.Out)
			}
		})
	}
}

func TestFormats(t *testing.T) {
	tc := scenes(t)["existing"]
	got := cli.Ask(t, New, append([]string{"plan", "-o", "json"}, tc.args...)...)
	require.Equal(t, tc.code, got.Code, got.Err)
	cli.Golden(t, "existing.json.golden", got.Out)
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
