package simulate

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rrpool/rrpool/cmd/rrpool/iostreams"
	"github.com/rrpool/rrpool/test/cli"
)

// scene is a question, and the exit code of its answer. The other questions, whose answers
// are kept, stand in the docs.
type scene struct {
	args []string
	code int
}

func scenes(t *testing.T) map[string]scene {
	t.Helper()
	pool := cli.PoolFile(t, "{topology: {type: Quorum, redundancy: 2}, provider: {iks: {zones: [us-south-1, us-south-2, us-south-3]}}}")
	return map[string]scene{
		"auto":             {args: []string{"--nodes", "120", "--zones", "3"}},
		"file":             {args: []string{"-f", pool, "--nodes", "300"}},
		"hierarchy":        {args: []string{"--nodes", "4967", "--reflectors", "33", "--racks", "10", "--topology", "hierarchy"}},
		"too-many-paths":   {args: []string{"--nodes", "1989", "--reflectors", "11", "--topology", "multicluster"}, code: 1},
		"compare":          {args: []string{"--nodes", "5000", "--zones", "3", "--compare"}},
		"too-many-clients": {args: []string{"--nodes", "5000", "--topology", "single"}, code: 1},
		"tiny":             {args: []string{"--nodes", "1", "--compare"}},
	}
}

// Each scene as a table; on a narrow terminal all have narrow lines.
func TestTables(t *testing.T) {
	kept := []string{"auto", "hierarchy", "too-many-paths"}
	narrow := iostreams.Streams{Terminal: true, Width: 60, Getenv: cli.Environment("NO_COLOR", "1")}
	for name, tc := range scenes(t) {
		t.Run(name, func(t *testing.T) {
			args := append([]string{"simulate"}, tc.args...)
			got := cli.Ask(t, New, args...)
			require.Equal(t, tc.code, got.Code, got.Err)
			if tc.code == 0 {
				require.Empty(t, got.Err, "nothing but the answer")
			} else {
				cli.RequireSentence(t, got.Err, "Too")
				require.Contains(t, got.Out, "× rrpool refuses ")
			}
			if name == "file" {
				require.Contains(t, got.Out, "300 nodes with workloads in 3 zones\n\n                      Quorum")
			}
			if slices.Contains(kept, name) {
				cli.Golden(t, name+".golden", got.Out)
			}
			small := cli.AskIn(t, narrow, New, args...)
			require.NotContains(t, small.Out, "\x1b", "NO_COLOR")
			cli.RequireWidth(t, small.Out, 60)
			if name == "compare" {
				cli.Golden(t, name+"-60.golden", small.Out)
			}
		})
	}
}

func TestFormats(t *testing.T) {
	tc := scenes(t)["hierarchy"]
	got := cli.Ask(t, New, append([]string{"simulate", "-o", "json"}, tc.args...)...)
	require.Equal(t, tc.code, got.Code, got.Err)
	cli.Golden(t, "hierarchy.json.golden", got.Out)
}

// Bad input gets one sentence that names the flag, the value and the remedy.
func TestBadInput(t *testing.T) {
	existing := cli.PoolFile(t, "{provider: {type: ExistingNodes}}")
	cli.RequireBad(t, New, "simulate", map[string]cli.Bad{
		"no size":                           {nil, []string{"--nodes: missing", "such as --nodes 2000 --zones 3"}},
		"too many nodes":                    {[]string{"--nodes", "50001"}, []string{"--nodes", `"50001"`, "from 1 to 50000"}},
		"more zones than nodes":             {[]string{"--nodes", "3", "--zones", "4"}, []string{"--zones: 4 zones for --nodes 3", "at most as many"}},
		"more racks than nodes":             {[]string{"--nodes", "3", "--racks", "4"}, []string{"--racks: 4 racks for --nodes 3", "at most as many"}},
		"fewer racks than zones":            {[]string{"--nodes", "90", "--zones", "3", "--racks", "2"}, []string{"--racks", "2 racks in 3 zones", "give at least 3"}},
		"reflectors that zones cannot have": {[]string{"--nodes", "90", "--zones", "3", "--reflectors", "13"}, []string{"--reflectors", "13 reflectors", "3 zones", "use 12 or 15"}},
		"fewer reflectors than zones":       {[]string{"--nodes", "90", "--zones", "3", "--reflectors", "2"}, []string{"--reflectors", "use 3, or other --zones"}},
		"too many zones to size for":        {[]string{"--nodes", "90", "--zones", "30"}, []string{"spec.sizing.max: 25", "30 zones", "or give --reflectors"}},
		"an unknown topology":               {[]string{"--nodes", "90", "--topology", "ring"}, []string{"--topology", `"ring"`, "auto, single, quorum, hierarchy, multicluster"}},
		"one of all":                        {[]string{"--nodes", "90", "--compare", "--topology", "quorum"}, []string{"[compare topology] were all set"}},
		"a quorum on existing nodes":        {[]string{"--nodes", "90", "--topology", "quorum", "-f", existing}, []string{"spec.topology.type: Quorum", "ExistingNodes", "use Single"}},
		"no client on existing nodes":       {[]string{"--nodes", "3", "-f", existing}, []string{"--nodes: 3 nodes would be 3 reflectors and no client", "give more"}},
	})
}
