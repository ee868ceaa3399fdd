//go:build linux

package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/rrpool/rrpool/test/lab"
)

const (
	// few clients, so that the tests take little time.
	few = 20
	// patience is how long a measurement may take on a slow machine.
	patience = 5 * time.Minute
)

// impossible is why BIRD cannot be measured here.
var impossible error

// TestMain runs the tests inside private namespaces.
func TestMain(m *testing.M) {
	if impossible = lab.Isolate(context.Background(), os.Stderr); impossible != nil {
		fmt.Fprintln(os.Stderr, "bench:", impossible)
	}
	os.Exit(m.Run())
}

// needBIRD fails a test where a real BIRD cannot be measured; with RRPOOL_LAB=skip it is skipped, as those of the lab.
func needBIRD(t *testing.T) {
	t.Helper()
	if impossible != nil && os.Getenv("RRPOOL_LAB") == "skip" {
		t.Skipf("a real BIRD cannot be measured here: %v", impossible)
	}
	require.NoError(t, impossible, "a real BIRD cannot be measured here")
}

func announcing(int) bool { return false }

func TestEveryClientOfARealBIRDGetsEveryPrefix(t *testing.T) {
	needBIRD(t)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	dir := t.TempDir()
	r, err := measure(ctx, options{clients: few, silent: announcing, dir: dir, progress: t.Logf})
	require.NoError(t, err)
	t.Logf("%+v", r)

	require.Equal(t, few, r.Clients)
	require.EqualValues(t, few*(few-1), r.Restart.RoutesSent, "each client gets the prefix of each other one, once")
	require.EqualValues(t, few-1, r.Return.RoutesSent, "the one that returns gets all; to the others nothing is repeated")
	require.GreaterOrEqual(t, r.AllReturn.RoutesSent, int64(few*(few-1)))
	require.Zero(t, r.Lost, "no session ended that was not meant to")
	require.Positive(t, r.Start)
	require.Positive(t, r.Sessions)
	require.LessOrEqual(t, r.Sessions, r.Restart.Converged)
	require.Positive(t, r.Restart.CPU)
	require.Less(t, r.Restart.CPU, r.Restart.Converged+1, "BIRD has one thread")
	require.Positive(t, r.Return.Converged)
	require.Positive(t, r.AllReturn.Converged)
	require.Greater(t, r.PeakMemory, int64(1<<20))
	require.Positive(t, r.SlowestAnswer)
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
		r, err := inFolder(ctx, options{clients: few, silent: func(number int) bool { return number == withholding }, progress: t.Logf})
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

func TestSizes(t *testing.T) {
	sizes, err := parse("500, 100,500")
	require.NoError(t, err)
	require.Equal(t, []int{100, 500}, sizes)
	for _, list := range []string{"100,many", "20000", "1", ""} {
		_, err := parse(list)
		require.ErrorContains(t, err, "is not a number from 2 to 16384", list)
	}
	for _, clients := range []int{-1, 0, 1, mostClients + 1} {
		_, err := measure(t.Context(), options{clients: clients})
		require.ErrorContains(t, err, "from 2 to 16384 are possible")
	}
}

func TestTheTableShowsHowFiguresGrow(t *testing.T) {
	var results []result
	for _, n := range []int{100, 500} { // time and routes are quadratic, memory is linear
		square := float64(n) * float64(n)
		results = append(results, result{
			Clients: n, Sessions: 0.01, SlowestAnswer: 3e-6 * square, PeakMemory: int64(n) * 100_000,
			Restart:   figures{Converged: 6e-6 * square, CPU: 5e-6 * square, RoutesSent: int64(n * n)},
			AllReturn: figures{Converged: 5e-6 * square, CPU: 4e-6 * square, RoutesSent: int64(n * n)},
			Return:    figures{Converged: 4e-5 * float64(n), CPU: 1e-5 * float64(n), RoutesSent: int64(n - 1)},
		})
	}
	text := table(results)
	require.Contains(t, text, "100 → 500:  CONVERGED ×25 n^2.0  BIRD CPU ×25 n^2.0  ROUTES SENT ×25 n^2.0  PEAK RSS ×5 n^1.0  ALL RETURN ×25 n^2.0  ONE RETURNS ×5 n^1.0\n")
	require.Regexp(t, `(?m)^ *500 +10\.0 ms +1\.5 s +1\.2 s +250000 +50 MB +0\.75 s +0$`, text)
	require.Regexp(t, `(?m)^ *500 +1\.2 s +1 s +250000 +20\.0 ms +5\.0 ms +499$`, text)
}

func TestWhatAClientAnnouncesIsReadAsItWasMeant(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		number := rapid.IntRange(0, mostClients-1).Draw(t, "client")
		kind, body, err := read(bufio.NewReaderSize(bytes.NewReader(announce(block(number), clientAddress(number))), largestMessage))
		require.NoError(t, err)
		require.EqualValues(t, typeUpdate, kind)
		withdrawn, announced, err := split(body)
		require.NoError(t, err)
		require.Empty(t, withdrawn)
		var prefixes []netip.Prefix
		require.NoError(t, each(announced, func(p netip.Prefix) error { prefixes = append(prefixes, p); return nil }))
		require.Equal(t, []netip.Prefix{block(number)}, prefixes)
		from, err := owner(prefixes[0])
		require.NoError(t, err)
		require.Equal(t, number, from)
		require.True(t, nodeNetwork.Contains(clientAddress(number)))
	})
}

func TestNoMessageIsReadBeyondItsEnd(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		body := rapid.SliceOfN(rapid.Byte(), 0, 60).Draw(t, "body")
		if withdrawn, announced, err := split(body); err == nil {
			require.LessOrEqual(t, len(withdrawn)+len(announced)+4, len(body))
			_ = each(withdrawn, func(netip.Prefix) error { return nil })
			_ = each(announced, func(netip.Prefix) error { return nil })
		}
	})
	whole := announce(block(1), clientAddress(1))
	for size := headerSize; size < len(whole); size++ {
		_, _, err := read(bufio.NewReaderSize(bytes.NewReader(whole[:size]), largestMessage))
		require.Error(t, err)
	}
	_, _, err := split([]byte{0, 9, 0, 0})
	require.ErrorIs(t, err, errShort)
	require.ErrorIs(t, each([]byte{0, 0, 0, 1, 26, 10}, nil), errShort)
	_, err = owner(netip.MustParsePrefix("10.240.0.0/24"))
	require.Error(t, err)
}
