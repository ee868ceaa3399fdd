//go:build linux

package reflector_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rrpool/rrpool/test/bench/reflector"
)

const (
	// few clients, so that nobody has to wait for the tests.
	few = 20
	// patience is how long a measurement may take on a slow machine.
	patience = 5 * time.Minute
)

func TestEveryClientOfARealBIRDGetsEveryPrefix(t *testing.T) {
	needBIRD(t)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	dir := t.TempDir()
	result, err := reflector.Measure(ctx, reflector.Options{Clients: few, Dir: dir, Progress: t.Logf})
	require.NoError(t, err)
	t.Logf("%+v", result)

	require.Equal(t, few, result.Clients)
	require.EqualValues(t, few*(few-1), result.Restart.RoutesSent, "each client gets the prefix of each other one, once")
	require.EqualValues(t, few-1, result.Return.RoutesSent, "who comes back gets all; to the others nothing is repeated")
	require.GreaterOrEqual(t, result.AllReturn.RoutesSent, int64(few*(few-1)))
	require.Zero(t, result.Lost, "no session ended that was not meant to")
	require.Positive(t, result.Start)
	require.Positive(t, result.Sessions)
	require.LessOrEqual(t, result.Sessions, result.Restart.Converged)
	require.Positive(t, result.Restart.CPU)
	require.Less(t, result.Restart.CPU, result.Restart.Converged+1, "BIRD has one thread")
	require.Positive(t, result.Return.Converged)
	require.Positive(t, result.AllReturn.Converged)
	require.Greater(t, result.PeakMemory, int64(1<<20))
	require.Positive(t, result.SlowestAnswer)
	require.GreaterOrEqual(t, result.Bystanders, 0.0)

	requireCalicoReflector(t, filepath.Join(dir, "bird.cfg"))
}

// requireCalicoReflector holds what confd has rendered to what a reflector's sessions with its clients are in a real cluster.
func requireCalicoReflector(t *testing.T, path string) {
	t.Helper()
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	config := string(text)
	for option, times := range map[string]int{
		"protocol bgp Node_":                    few,
		"from bgp_template {":                   few,
		"  rr client;\n":                        few,
		"  rr cluster id 244.0.0.1;\n":          few,
		"  multihop;\n":                         few,
		"  source address 172.20.0.1;":          few,
		"    calico_export_to_bgp_peers(true);": few,
		"  add paths on;\n":                     1,
		"  graceful restart;":                   1,
		"  connect delay time 2;\n":             1,
		"  connect retry time 5;\n":             1,
		"  error wait time 5,30;\n":             1,
		"passive on":                            0,
		"password":                              0,
		"protocol kernel":                       0,
		"protocol direct":                       1,
	} {
		require.Equal(t, times, strings.Count(config, option), "%q in:\n%s", option, config)
	}
}

func TestConvergenceIsNotReportedWhileOneClientWithholdsItsPrefix(t *testing.T) {
	needBIRD(t)
	const withholding = 3
	const lacking = "20 of 20 sessions are Established, clients with every prefix: 1; 172.20.1.0 has 18 prefixes of 19 and lacks 10.240.0.192/26"
	// A machine that is too slow to come that far in time is given twice the time.
	for allowed := 2 * time.Second; ; allowed *= 2 {
		ctx, cancel := context.WithTimeout(t.Context(), allowed)
		result, err := reflector.Measure(ctx, reflector.Options{
			Clients: few, Silent: func(number int) bool { return number == withholding },
		})
		cancel()
		require.Zero(t, result)
		require.ErrorIs(t, ctx.Err(), context.DeadlineExceeded, "%v", err)
		if err != nil && strings.Contains(err.Error(), lacking) {
			require.ErrorIs(t, err, context.DeadlineExceeded)
			return
		}
		require.Less(t, allowed, patience, "%v", err)
	}
}

func TestSizesThatCannotBeMeasuredAreRefused(t *testing.T) {
	for _, clients := range []int{-1, 0, 1, reflector.MostClients + 1} {
		_, err := reflector.Measure(t.Context(), reflector.Options{Clients: clients})
		require.ErrorContains(t, err, "from 2 to 16384 are possible")
	}
}
