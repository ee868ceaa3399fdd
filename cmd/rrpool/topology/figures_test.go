package topology

import (
	"cmp"
	"encoding/json"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rrpool/rrpool/cmd/rrpool/iostreams"
	"github.com/rrpool/rrpool/controllers/plan/simulate"
	"github.com/rrpool/rrpool/test/cli"
)

// figuresFor gives the figures for these flags.
func figuresFor(t *testing.T, args ...string) view {
	t.Helper()
	got := ask(t, append([]string{"topology", "-o", "json"}, args...)...)
	var v view
	require.NoError(t, json.Unmarshal([]byte(got.Out), &v), got.Err)
	return v
}

// The rows of the proposal: reproduced where they are right.
func TestTheRowsOfTheProposal(t *testing.T) {
	t.Run("Single, 500 nodes, 3 reflectors", func(t *testing.T) {
		one := figuresFor(t, "--nodes", "497", "--reflectors", "3", "--topology", "single").Topologies[0]
		require.Nil(t, one.Refused)
		require.Equal(t, span{Least: 497, Most: 497, Mean: 497}, one.Figures.ClientsPerReflector)
		require.Equal(t, 499, one.Figures.SessionsPerReflector.Most)
		require.Equal(t, 3, one.Figures.SessionsPerClient.Most)
	})
	t.Run("Quorum, 2000 nodes, 13 reflectors: what it takes", func(t *testing.T) {
		one := figuresFor(t, "--nodes", "1987", "--reflectors", "13", "--topology", "quorum").Topologies[0]
		require.Nil(t, one.Refused)
		require.Equal(t, 8, one.Figures.SessionsPerClient.Most, "more than (13 + 2)/2")
		require.GreaterOrEqual(t, one.Figures.SurvivesAny, 2)
	})
}

// The figures are those measured on real BIRD (facts: 8 workload nodes).
func TestFiguresThatWereMeasured(t *testing.T) {
	for name, tc := range map[string]struct {
		args              []string
		client, reflector uint64
	}{
		"Single of 3":       {[]string{"--nodes", "8", "--reflectors", "3", "--topology", "single"}, 3, 3},
		"MultiCluster of 3": {[]string{"--nodes", "8", "--reflectors", "3", "--topology", "multicluster"}, 15, 5},
		"2 racks, 2 spines": {[]string{"--nodes", "8", "--racks", "2", "--reflectors", "8", "--topology", "hierarchy"}, 18, 6},
	} {
		t.Run(name, func(t *testing.T) {
			one := figuresFor(t, tc.args...).Topologies[0]
			require.Equal(t, tc.client, one.Figures.PathsOnClient.Paths)
			require.Equal(t, tc.reflector, one.Figures.PathsOnReflector.Paths)
		})
	}
}

// --nodes are those that run workloads: a pool comes on top, and existing nodes are among them.
func TestNodes(t *testing.T) {
	dedicated := figuresFor(t, "--nodes", "500", "--topology", "single").Topologies[0].Figures
	require.Equal(t, []int{500, 8, 508}, []int{dedicated.Clients, dedicated.Reflectors, dedicated.Nodes})
	file := cli.PoolFile(t, "{provider: {type: ExistingNodes}}")
	existing := figuresFor(t, "--nodes", "500", "-f", file).Topologies[0].Figures
	require.Equal(t, []int{492, 8, 500}, []int{existing.Clients, existing.Reflectors, existing.Nodes})
}

// A row of docs/capacity.md: clients, five more columns, and the peak RSS in megabytes.
var measured = regexp.MustCompile(`(?m)^\| ([0-9,]+) \|(?:[^|]*\|){4} ([0-9,]+) MB \|`)

// What was measured with one BIRD whose clients connect at the same moment: each client
// announces a prefix, and gets all others.
func TestMemoryAsMeasured(t *testing.T) {
	rows := measured.FindAllStringSubmatch(cli.Page(t, "capacity"), -1)
	require.GreaterOrEqual(t, len(rows), 4)
	for _, row := range rows {
		number := func(i int) int {
			n, err := strconv.Atoi(strings.ReplaceAll(row[i], ",", ""))
			require.NoError(t, err)
			return n
		}
		clients, megabytes := number(1), float64(number(2))
		f := &figures{
			SessionsPerReflector: span{Most: clients}, SessionsPerClient: span{Least: 1, Most: 1},
			ClientRIB: simulate.Count{Paths: uint64(clients - 1)},
		}
		if clients < 500 {
			require.Greater(t, float64(memory(f).Paths), megabytes, "with few clients it is an upper bound")
			continue
		}
		require.InEpsilon(t, megabytes, float64(memory(f).Paths), 0.1, clients)
	}
	require.Zero(t, memory(&figures{}))
}

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
	narrow := iostreams.Streams{Terminal: true, Width: 60, Getenv: cli.Environment("NO_COLOR", "1")}
	for name, tc := range scenes(t) {
		t.Run(name, func(t *testing.T) {
			args := append([]string{"topology", "-o", "table"}, tc.args...)
			got := ask(t, args...)
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
			if name == "hierarchy" {
				cli.Golden(t, name+".golden", got.Out)
			}
			small := cli.AskIn(t, narrow, New, args...)
			cli.RequireWidth(t, small.Out, 60)
		})
	}
	cli.Golden(t, "hierarchy.json.golden", ask(t, append([]string{"topology", "-o", "json"}, scenes(t)["hierarchy"].args...)...).Out)
}

// The former name of the command does the same, says the new one, and is in no help.
func TestSimulate(t *testing.T) {
	flags := []string{"--nodes", "120", "--zones", "3", "--compare"}
	got := cli.Ask(t, NewSimulate, append([]string{"simulate"}, flags...)...)
	require.Equal(t, "‼ rrpool simulate is deprecated: use rrpool topology -o table\n", got.Err)
	require.Equal(t, ask(t, append([]string{"topology", "-o", "table"}, flags...)...).Out, got.Out)
	require.Contains(t, cli.Ask(t, NewSimulate, "simulate", "--nodes", "9", "-o", "yaml").Out, "schemaVersion: rrpool.io/simulate/v2")
	require.NotContains(t, cli.Ask(t, NewSimulate, "--help").Out, "simulate")
}

func TestTheExamplesOfTheDocs(t *testing.T) {
	for _, page := range []string{"topology", "topologies"} {
		cli.RequireExamples(t, page, func(args ...string) cli.Answer { return cli.Ask(t, New, args...) })
	}
}

// The table of sizes is what the command says.
func TestTheTableOfSizes(t *testing.T) {
	var want strings.Builder
	want.WriteString("| nodes | Single | Quorum | Hierarchy | MultiCluster | Auto takes |\n|---|---|---|---|---|---|\n")
	for _, size := range []int{100, 500, 1000, 2000, 3000, 5000} {
		v := figuresFor(t, "--nodes", strconv.Itoa(size), "--zones", "3", "--compare")
		fmt.Fprintf(&want, "| %d |", size)
		for _, one := range v.Topologies {
			if one.Refused != nil {
				want.WriteString(" – |")
				continue
			}
			f := one.Figures
			fmt.Fprintf(&want, " %d reflectors, %d sessions, %d paths |", f.Reflectors, f.SessionsPerReflector.Most, f.PathsOnClient.Paths)
		}
		fmt.Fprintf(&want, " %s |\n", cmp.Or(v.Auto, "none"))
	}
	require.Contains(t, cli.Page(t, "topologies"), want.String())
}
