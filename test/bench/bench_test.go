//go:build linux

package main

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rrpool/rrpool/test/lab"
)

const (
	// few clients, so that the tests take little time.
	few = 20
	// patience is how long a measurement may take on a slow machine.
	patience = 5 * time.Minute
)

func TestMain(m *testing.M) { lab.Main(m) }

func TestEveryClientOfARealBIRDGetsEveryPrefix(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	dir := t.TempDir()
	r, err := measure(ctx, few, 2*few, func(int) bool { return false }, dir)
	require.NoError(t, err)
	t.Logf("%+v", r)

	require.Equal(t, few, r.Clients)
	require.EqualValues(t, few*(2*few-2), r.Restart.RoutesSent, "each client gets both prefixes of each other one, once")
	require.EqualValues(t, 2*few-2, r.Return.RoutesSent, "the one that returns gets all; to the others nothing is repeated")
	require.GreaterOrEqual(t, r.AllReturn.RoutesSent, int64(few*(2*few-2)))
	require.Zero(t, r.Lost, "no session ended that was not meant to")
	require.Positive(t, r.Sessions)
	require.LessOrEqual(t, r.Sessions, r.Restart.Converged)
	require.Positive(t, r.Restart.CPU)
	require.Less(t, r.Restart.CPU, r.Restart.Converged+time.Second, "BIRD has one thread")
	require.Positive(t, r.Return.Converged)
	require.Positive(t, r.AllReturn.Converged)
	require.Greater(t, r.PeakMemory, int64(1<<20))
	require.Positive(t, r.SlowestAnswer)
	// What confd has rendered is what a reflector's sessions with its clients are in a real cluster.
	text, err := os.ReadFile(filepath.Join(dir, "bird.cfg"))
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
	const withholding = 3
	const lacking = "1 of 20 clients have every prefix"
	// A machine that is too slow to come that far in time is given twice the time.
	for allowed := 2 * time.Second; ; allowed *= 2 {
		ctx, cancel := context.WithTimeout(t.Context(), allowed)
		r, err := measure(ctx, few, few, func(number int) bool { return number == withholding }, t.TempDir())
		cancel()
		require.Zero(t, r)
		require.ErrorIs(t, ctx.Err(), context.DeadlineExceeded, "%v", err)
		if err != nil && strings.Contains(err.Error(), lacking) {
			require.ErrorIs(t, err, context.DeadlineExceeded)
			return
		}
		require.Less(t, allowed, patience, "%v", err)
	}
}
