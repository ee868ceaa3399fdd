package simulate

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rrpool/rrpool/cmd/rrpool/iostreams"
	"github.com/rrpool/rrpool/test/cli"
)

const head = "apiVersion: rrpool.io/v1alpha1\nkind: RouteReflectorPool\nmetadata: {name: default}\n"

// scene is a question, and the exit code of its answer. The other questions, whose answers
// are kept, stand in the docs.
type scene struct {
	args []string
	code int
}

func scenes(t *testing.T) map[string]scene {
	t.Helper()
	pool := cli.File(t, head+"spec: {topology: {type: Quorum, redundancy: 2}, provider: {iks: {zones: [us-south-1, us-south-2, us-south-3]}}}")
	return map[string]scene{
		"auto":             {args: []string{"--nodes", "120", "--zones", "3"}},
		"file":             {args: []string{"-f", pool, "--nodes", "300", "--fail", "2"}},
		"hierarchy":        {args: []string{"--nodes", "4967", "--reflectors", "33", "--racks", "10", "--topology", "hierarchy", "--fail", "3"}},
		"quorum-by-hand":   {args: []string{"--nodes", "300", "--topology", "quorum", "--reflectors", "7", "--per-client", "3"}},
		"too-many-paths":   {args: []string{"--nodes", "1989", "--reflectors", "11", "--topology", "multicluster"}, code: 1},
		"compare":          {args: []string{"--nodes", "5000", "--zones", "3", "--compare", "--fail", "2"}},
		"too-many-clients": {args: []string{"--nodes", "5000", "--topology", "single", "--max-clients", "500"}, code: 1},
		"tiny":             {args: []string{"--nodes", "1", "--compare"}},
	}
}

// Each scene as a table; on a narrow terminal all have narrow lines.
func TestTables(t *testing.T) {
	kept := []string{"auto", "file", "hierarchy", "quorum-by-hand", "too-many-paths", "compare"}
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
			if slices.Contains(kept, name) {
				cli.Golden(t, name+".golden", got.Out)
			}
			small := cli.AskIn(t, narrow, New, args...)
			require.NotContains(t, small.Out, "\x1b", "NO_COLOR")
			cli.RequireWidth(t, small.Out, 60)
			if name == "hierarchy" || name == "compare" {
				cli.Golden(t, name+"-60.golden", small.Out)
			}
		})
	}
	coloured := cli.AskIn(t, iostreams.Streams{Terminal: true, Width: 80}, New, "simulate", "--nodes", "9", "--compare")
	require.Contains(t, coloured.Out, iostreams.Green+"√ Auto takes Single.")
}

func TestFormats(t *testing.T) {
	all := scenes(t)
	for name, format := range map[string]string{"hierarchy": "json", "quorum-by-hand": "yaml"} {
		got := cli.Ask(t, New, append([]string{"simulate", "-o", format}, all[name].args...)...)
		require.Equal(t, all[name].code, got.Code, got.Err)
		cli.Golden(t, name+"."+format+".golden", got.Out)
	}
}

// Bad input gets one sentence that names the flag, the value and the remedy.
func TestBadInput(t *testing.T) {
	for name, tc := range map[string]struct {
		args []string
		says []string
	}{
		"no size":                           {nil, []string{"--nodes: missing", "such as --nodes 2000 --zones 3"}},
		"too many nodes":                    {[]string{"--nodes", "50001"}, []string{"--nodes", `"50001"`, "from 1 to 50000"}},
		"more zones than nodes":             {[]string{"--nodes", "3", "--zones", "4"}, []string{"--zones: 4 zones for --nodes 3", "at most as many"}},
		"more racks than nodes":             {[]string{"--nodes", "3", "--racks", "4"}, []string{"--racks: 4 racks for --nodes 3", "at most as many"}},
		"fewer racks than zones":            {[]string{"--nodes", "90", "--zones", "3", "--racks", "2"}, []string{"--racks", "2 racks in 3 zones", "give at least 3"}},
		"reflectors that zones cannot have": {[]string{"--nodes", "90", "--zones", "3", "--reflectors", "13"}, []string{"--reflectors", "13 reflectors", "3 zones", "use 12 or 15"}},
		"fewer reflectors than zones":       {[]string{"--nodes", "90", "--zones", "3", "--reflectors", "2"}, []string{"--reflectors", "use 3, or other --zones"}},
		"too many zones to size for":        {[]string{"--nodes", "90", "--zones", "30"}, []string{"spec.sizing.max: 25", "30 zones", "or give --reflectors"}},
		"more failures than reflectors":     {[]string{"--nodes", "90", "--reflectors", "3", "--fail", "4"}, []string{"--fail: 4 of 3 reflectors", "give at most 3"}},
		"more failures than sizing gives":   {[]string{"--nodes", "90", "--fail", "4", "--topology", "single"}, []string{"--fail: 4 of 3 reflectors", "give at most 3"}},
		"an endless number of failures":     {[]string{"--nodes", "90", "--fail", "11"}, []string{"--fail", `"11"`, "from 1 to 10"}},
		"an unknown topology":               {[]string{"--nodes", "90", "--topology", "ring"}, []string{"--topology", `"ring"`, "auto, single, quorum, hierarchy, multicluster"}},
		"one of all":                        {[]string{"--nodes", "90", "--compare", "--topology", "quorum"}, []string{"--compare true and --topology quorum exclude each other", "leave out one"}},
		"a comparison by hand":              {[]string{"--nodes", "90", "--compare", "--per-client", "3"}, []string{"--compare true and --per-client 3 exclude each other"}},
		"by hand without reflectors":        {[]string{"--nodes", "90", "--topology", "quorum", "--per-client", "3"}, []string{"--per-client: 3", "--reflectors with at least 3"}},
		"by hand, not a quorum":             {[]string{"--nodes", "90", "--topology", "single", "--reflectors", "5", "--per-client", "3"}, []string{"--per-client: 3", "give --topology quorum"}},
		"by hand, more than there are":      {[]string{"--nodes", "90", "--topology", "quorum", "--reflectors", "5", "--per-client", "6"}, []string{"--per-client: 6", "--reflectors with at least 6"}},
		"by hand, too many groups":          {[]string{"--nodes", "2000", "--topology", "quorum", "--reflectors", "25", "--per-client", "12"}, []string{"--per-client: 12 of 25", "5200300 groups", "at most 300"}},
		"by hand, groups without clients":   {[]string{"--nodes", "77", "--topology", "quorum", "--reflectors", "13", "--per-client", "3"}, []string{"--per-client: 3 of 13", "286 groups", "at most 77", "more nodes"}},
		"by hand, and redundancy":           {[]string{"--nodes", "90", "--topology", "quorum", "--reflectors", "5", "--per-client", "3", "--redundancy", "2"}, []string{"--per-client 3 and --redundancy 2 exclude each other"}},
		"an unknown format":                 {[]string{"--nodes", "90", "-o", "csv"}, []string{"--output", `"csv"`, "table, json, yaml"}},
		"a quorum on existing nodes":        {[]string{"--nodes", "90", "--topology", "quorum", "-f", cli.File(t, head+"spec: {provider: {type: ExistingNodes}}")}, []string{"spec.topology.type: Quorum", "ExistingNodes", "use Single"}},
		"no client on existing nodes":       {[]string{"--nodes", "3", "-f", cli.File(t, head+"spec: {provider: {type: ExistingNodes}}")}, []string{"--nodes: 3 nodes would be 3 reflectors and no client", "give more"}},
	} {
		t.Run(name, func(t *testing.T) {
			got := cli.Ask(t, New, append([]string{"simulate"}, tc.args...)...)
			require.Equal(t, 1, got.Code)
			require.Empty(t, got.Out, "no half of an answer")
			cli.RequireSentence(t, got.Err, tc.says...)
		})
	}
}
