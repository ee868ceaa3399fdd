//go:build linux

package main

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rrpool/rrpool/test/bench/reflector"
)

var update = flag.Bool("update", false, "write the goldens anew")

// measured are figures with known growth: time and routes are quadratic, memory is linear.
func measured(bystanders float64, sizes ...int) report {
	r := report{Machine: "BIRD 1.6.8, 2 cores of an example"}
	for _, n := range sizes {
		square := float64(n) * float64(n)
		r.Results = append(r.Results, reflector.Result{
			Clients: n, Start: 0.01, Sessions: 2e-4 * float64(n), SlowestAnswer: 3e-6 * square, PeakMemory: int64(n) * 100_000,
			Restart:    reflector.Figures{Converged: 6e-6 * square, CPU: 5e-6 * square, RoutesSent: int64(n * (n - 1))},
			AllReturn:  reflector.Figures{Converged: 5e-6 * square, CPU: 4e-6 * square, RoutesSent: int64(n*(n-1) + 7)},
			Return:     reflector.Figures{Converged: 4e-5 * float64(n), CPU: 1e-5 * float64(n), RoutesSent: int64(n - 1)},
			Bystanders: bystanders,
		})
	}
	return r
}

func TestReports(t *testing.T) {
	for name, r := range map[string]report{
		"a quiet machine": measured(0.05, 100, 500, 1000),
		"a busy machine":  measured(1.25, 100, 500),
		"a single size":   measured(0, 20),
	} {
		t.Run(name, func(t *testing.T) {
			var err error
			r.Growth, err = growthOf(r.Results)
			require.NoError(t, err)
			golden := filepath.Join("testdata", strings.ReplaceAll(name, " ", "-")+".golden")
			if *update {
				require.NoError(t, os.WriteFile(golden, []byte(r.table()), 0o600))
			}
			want, err := os.ReadFile(golden)
			require.NoError(t, err)
			require.Equal(t, string(want), r.table())
		})
	}
}

func TestGrowthIsComputedFromTheFiguresOfTheRun(t *testing.T) {
	all, err := growthOf(measured(0, 100, 500, 1000).Results)
	require.NoError(t, err)
	exponents := map[string]float64{}
	for _, g := range all {
		exponents[g.Figure] = g.Exponent
		require.Len(t, g.Ratios, 2)
		require.Equal(t, []int{100, 500, 500, 1000}, []int{g.Ratios[0].From, g.Ratios[0].To, g.Ratios[1].From, g.Ratios[1].To})
	}
	for figure, exponent := range map[string]float64{
		"CONVERGED": 2, "BIRD CPU": 2, "ROUTES SENT": 2, "PEAK RSS": 1, "ALL RETURN": 2, "ONE RETURNS": 1,
	} {
		require.InDelta(t, exponent, exponents[figure], 0.01, figure)
	}
	text, err := json.Marshal(report{Growth: all})
	require.NoError(t, err)
	require.Contains(t, string(text), `{"from":500,"to":1000,"ratio":4,"exponent":2}`)

	broken := measured(0, 100, 500)
	broken.Results[1].Restart.CPU = 0
	_, err = growthOf(broken.Results)
	require.ErrorContains(t, err, "computing the growth of BIRD CPU: 0 at size 500 has no logarithm")
}

func TestFlags(t *testing.T) {
	o, err := parse([]string{"-sizes", "500, 100,500", "-o", "json", "-timeout", "1m"}, nil)
	require.NoError(t, err)
	require.Equal(t, options{sizes: []int{100, 500}, output: "json", timeout: time.Minute}, o)
	for name, wrong := range map[string]struct {
		args    []string
		message string
	}{
		"no number":         {[]string{"-sizes", "100,many"}, `"many" is not a number from 2 to 16384`},
		"too many":          {[]string{"-sizes", "20000"}, `"20000" is not a number from 2 to 16384`},
		"a client alone":    {[]string{"-sizes", "1"}, `"1" is not a number`},
		"an unknown output": {[]string{"-o", "yaml"}, `-o "yaml": it is table or json`},
		"an argument":       {[]string{"100"}, `unexpected argument "100"`},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := parse(wrong.args, nil)
			require.ErrorContains(t, err, wrong.message)
		})
	}
}
