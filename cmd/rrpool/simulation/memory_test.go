package simulation

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// What was measured with one BIRD whose clients connect at the same moment: each client
// announces a prefix, and gets all others.
func TestMemoryAsMeasured(t *testing.T) {
	for clients, megabytes := range map[int]float64{500: 12, 1000: 22, 2000: 56, 3000: 83, 5000: 254} {
		f := &figures{
			Reflectors: 1, SessionsPerReflector: span{Most: clients}, SessionsPerClient: span{Least: 1, Most: 1},
			ClientRIB: paths{Paths: uint64(clients - 1)},
		}
		require.InEpsilon(t, megabytes*1e6, float64(estimate(f).Bytes), 0.25, clients)
	}
	require.Zero(t, estimate(&figures{}))
}
