package simulate

import (
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A row of docs/capacity.md: clients, five more columns, and the peak RSS in megabytes.
var measured = regexp.MustCompile(`(?m)^\| ([0-9,]+) \|(?:[^|]*\|){4} ([0-9,]+) MB \|`)

// What was measured with one BIRD whose clients connect at the same moment: each client
// announces a prefix, and gets all others.
func TestMemoryAsMeasured(t *testing.T) {
	rows := measured.FindAllStringSubmatch(page(t, "capacity"), -1)
	require.GreaterOrEqual(t, len(rows), 4)
	for _, row := range rows {
		number := func(i int) int {
			n, err := strconv.Atoi(strings.ReplaceAll(row[i], ",", ""))
			require.NoError(t, err)
			return n
		}
		clients, bytes := number(1), float64(number(2))*1e6
		f := &figures{
			Reflectors: 1, SessionsPerReflector: span{Most: clients}, SessionsPerClient: span{Least: 1, Most: 1},
			ClientRIB: paths{Paths: uint64(clients - 1)},
		}
		if clients < 500 {
			require.Greater(t, float64(estimate(f).Bytes), bytes, "with few clients it is an upper bound")
			continue
		}
		require.InEpsilon(t, bytes, float64(estimate(f).Bytes), 0.1, clients)
	}
	require.Zero(t, estimate(&figures{}))
}
