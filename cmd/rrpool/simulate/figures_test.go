package simulate

import (
	"encoding/json"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rrpool/rrpool/controllers/plan/simulate"
	"github.com/rrpool/rrpool/test/cli"
)

// ask gives the answer as data.
func ask(t *testing.T, args ...string) view {
	t.Helper()
	got := cli.Ask(t, New, append([]string{"simulate", "-o", "json"}, args...)...)
	var v view
	require.NoError(t, json.Unmarshal([]byte(got.Out), &v), got.Err)
	return v
}

// The rows of the proposal: reproduced where they are right.
func TestTheRowsOfTheProposal(t *testing.T) {
	t.Run("Single, 500 nodes, 3 reflectors", func(t *testing.T) {
		one := ask(t, "--nodes", "497", "--reflectors", "3", "--topology", "single").Topologies[0]
		require.Nil(t, one.Refused)
		require.Equal(t, span{Least: 497, Most: 497, Mean: 497}, one.Figures.ClientsPerReflector)
		require.Equal(t, 499, one.Figures.SessionsPerReflector.Most)
		require.Equal(t, 3, one.Figures.SessionsPerClient.Most)
	})
	t.Run("Quorum, 2000 nodes, 13 reflectors: what it takes", func(t *testing.T) {
		one := ask(t, "--nodes", "1987", "--reflectors", "13", "--topology", "quorum").Topologies[0]
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
			one := ask(t, tc.args...).Topologies[0]
			require.Equal(t, tc.client, one.Figures.PathsOnClient.Paths)
			require.Equal(t, tc.reflector, one.Figures.PathsOnReflector.Paths)
		})
	}
}

// --nodes are those that run workloads: a pool comes on top, and existing nodes are among them.
func TestNodes(t *testing.T) {
	dedicated := ask(t, "--nodes", "500", "--topology", "single").Topologies[0].Figures
	require.Equal(t, []int{500, 8, 508}, []int{dedicated.Clients, dedicated.Reflectors, dedicated.Nodes})
	file := cli.PoolFile(t, "{provider: {type: ExistingNodes}}")
	existing := ask(t, "--nodes", "500", "-f", file).Topologies[0].Figures
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
