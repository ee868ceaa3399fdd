package simulate

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"

	"github.com/rrpool/rrpool/cmd/rrpool/iostreams"
	"github.com/rrpool/rrpool/test/cli"
)

const head = "apiVersion: rrpool.io/v1alpha1\nkind: RouteReflectorPool\nmetadata: {name: default}\n"

// scene is a question whose answer is kept.
type scene struct {
	args []string
	code int
}

func scenes(t *testing.T) map[string]scene {
	t.Helper()
	pool := cli.File(t, head+"spec: {topology: {type: Quorum, redundancy: 2}, provider: {iks: {zones: [us-south-1, us-south-2, us-south-3]}}}")
	return map[string]scene{
		"auto":             {args: []string{"--nodes", "120", "--zones", "3"}},
		"single-500":       {args: []string{"--nodes", "500", "--reflectors", "3", "--topology", "single"}},
		"quorum-2000":      {args: []string{"--nodes", "2000", "--zones", "3", "--topology", "quorum", "--fail", "2"}},
		"quorum-2000-3":    {args: []string{"--nodes", "2000", "--zones", "3", "--topology", "quorum", "--fail", "3"}},
		"quorum-by-hand":   {args: []string{"--nodes", "300", "--topology", "quorum", "--reflectors", "7", "--per-client", "3"}},
		"hierarchy-5000":   {args: []string{"--nodes", "5000", "--reflectors", "33", "--racks", "10", "--topology", "hierarchy", "--fail", "3"}},
		"hierarchy-zones":  {args: []string{"--nodes", "900", "--zones", "3", "--topology", "hierarchy", "--fail", "1"}},
		"multicluster":     {args: []string{"--nodes", "60", "--zones", "3", "--reflectors", "3", "--topology", "multicluster", "--fail", "1"}},
		"multicluster-big": {args: []string{"--nodes", "2000", "--reflectors", "11", "--topology", "multicluster"}, code: 1},
		"too-many-clients": {args: []string{"--nodes", "5000", "--topology", "single", "--max-clients", "500"}, code: 1},
		"compare-2000":     {args: []string{"--nodes", "2000", "--zones", "3", "--compare"}},
		"compare-5000":     {args: []string{"--nodes", "5000", "--zones", "3", "--compare", "--fail", "2"}},
		"compare-tiny":     {args: []string{"--nodes", "6", "--compare"}},
		"file":             {args: []string{"-f", pool, "--clients", "300"}},
	}
}

func TestOutputs(t *testing.T) {
	for name, tc := range scenes(t) {
		for _, format := range []string{"table", "json"} {
			t.Run(name+"/"+format, func(t *testing.T) {
				got := cli.Ask(t, New, append([]string{"simulate", "-o", format}, tc.args...)...)
				require.Equal(t, tc.code, got.Code, got.Err)
				if tc.code == 0 {
					require.Empty(t, got.Err, "nothing but the answer")
				} else {
					cli.RequireSentence(t, got.Err, "Too")
				}
				cli.Golden(t, filepath.Join(name, format+".golden"), got.Out)
			})
		}
	}
}

// YAML holds what JSON holds.
func TestYAML(t *testing.T) {
	args := []string{"simulate", "--nodes", "200", "--zones", "3", "--compare", "--fail", "1", "-o"}
	var v, other view
	require.NoError(t, yaml.UnmarshalStrict([]byte(cli.Ask(t, New, append(args, "yaml")...).Out), &v))
	require.NoError(t, json.Unmarshal([]byte(cli.Ask(t, New, append(args, "json")...).Out), &other))
	require.Equal(t, other, v)
	require.Equal(t, "rrpool.io/simulate/v1", v.SchemaVersion)
	require.Len(t, v.Topologies, 4)
}

// A narrow terminal gets narrow lines; colours only where wanted.
func TestTerminals(t *testing.T) {
	for name, tc := range scenes(t) {
		t.Run(name, func(t *testing.T) {
			s := iostreams.Streams{Terminal: true, Width: 60, Getenv: cli.Environment("NO_COLOR", "1")}
			got := cli.AskIn(t, s, New, append([]string{"simulate"}, tc.args...)...)
			require.Equal(t, tc.code, got.Code, got.Err)
			require.NotContains(t, got.Out, "\x1b", "NO_COLOR")
			cli.RequireWidth(t, got.Out, 60)
			cli.Golden(t, filepath.Join(name, "table60.golden"), got.Out)
		})
	}
	s := iostreams.Streams{Terminal: true, Width: 80}
	coloured := cli.AskIn(t, s, New, append([]string{"simulate"}, scenes(t)["quorum-2000-3"].args...)...)
	require.Contains(t, coloured.Out, "\x1b")
	cli.Golden(t, "colours.golden", coloured.Out)
}

// The same question has the same answer.
func TestTheAnswerIsTheSameEachTime(t *testing.T) {
	args := []string{"simulate", "--nodes", "600", "--zones", "3", "--compare", "--fail", "2", "-o", "json"}
	first := cli.Ask(t, New, args...)
	require.Zero(t, first.Code, first.Err)
	for range 3 {
		require.Equal(t, first, cli.Ask(t, New, args...))
	}
}

type failing struct{ err error }

func (f failing) Write([]byte) (int, error) { return 0, f.err }

func TestFailuresToWrite(t *testing.T) {
	got := cli.AskIn(t, iostreams.Streams{Out: failing{syscall.EPIPE}}, New, "simulate", "--nodes", "60")
	require.Equal(t, cli.Answer{}, got, "a reader that has seen enough")
	got = cli.AskIn(t, iostreams.Streams{Out: failing{errors.New("disk full")}}, New, "simulate", "--nodes", "60")
	require.Equal(t, cli.Answer{Err: "rrpool: writing the simulation: disk full\n", Code: 1}, got)

	path := filepath.Join(t.TempDir(), "simulation.json")
	got = cli.Ask(t, New, "simulate", "--nodes", "60", "-o", "json", "--output-file", path)
	require.Equal(t, cli.Answer{}, got)
	content, err := os.ReadFile(path)
	require.NoError(t, err)
	require.True(t, strings.HasSuffix(string(content), "}\n"))
}
