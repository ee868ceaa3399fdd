//go:build linux

// Command bench measures the capacity of one route reflector: it connects increasing numbers of synthetic clients to a real BIRD, and prints
// convergence, CPU time and memory.
//
//	bench [--sizes 100,500,1000,2000] [--prefixes 5000]
//
// BIRD is configured by Calico's own confd from Calico's own templates, as the route reflector of a cluster in the topology Single, and started
// as calico-node starts it. There are two differences: BIRD has no kernel protocol, so routes are not written into a kernel (N writes beside N²
// routes sent), and the clients are no BIRDs: they send the OPEN of a Calico node's BIRD, announce address blocks, and read everything. All have
// addresses of one loopback.
package main

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"slices"
	"syscall"
	"time"

	"github.com/spf13/pflag"

	"github.com/rrpool/rrpool/test/controlplane"
	"github.com/rrpool/rrpool/test/lab"
)

// timeout is how long the measurement of one size may take.
const timeout = 15 * time.Minute

func main() {
	sizes := pflag.IntSlice("sizes", []int{100, 500, 1000, 2000}, "how many clients, separated by commas")
	prefixes := pflag.Int("prefixes", 0, "how many prefixes all clients announce together; 0: each announces one")
	pflag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, *sizes, *prefixes)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// run measures each size, on a new BIRD, and prints a line of the table of docs/capacity.md for each.
func run(ctx context.Context, sizes []int, prefixes int) error {
	if i := slices.IndexFunc(sizes, func(n int) bool { return n < 2 || n > mostBlocks }); i >= 0 {
		return fmt.Errorf("--sizes: %d is not from 2 to %d", sizes[i], mostBlocks)
	}
	if prefixes != 0 && (prefixes < slices.Max(sizes) || prefixes > mostBlocks) {
		return fmt.Errorf("--prefixes: %d is not from the largest of --sizes to %d", prefixes, mostBlocks)
	}
	if err := lab.Isolate(ctx, os.Stderr); err != nil {
		return err
	}
	runtime.GOMAXPROCS(max(1, runtime.NumCPU()-1)) // leaves a core to BIRD
	dir, err := os.MkdirTemp("", "rrbench-")
	if err != nil {
		return fmt.Errorf("making a folder: %w", err)
	}
	defer os.RemoveAll(dir) //nolint:errcheck // a temporary one
	fmt.Println("| clients | sessions up | converged | BIRD CPU | routes sent | peak RSS | slowest answer | sessions lost " +
		"| all at once: converged | BIRD CPU | one of them: converged | BIRD CPU | routes sent |")
	for _, size := range sizes {
		one, cancel := context.WithTimeout(ctx, timeout)
		r, err := measure(one, size, cmp.Or(prefixes, size), func(int) bool { return false }, dir)
		cancel()
		if err != nil {
			return err
		}
		fmt.Printf("| %d | %s | %s | %s | %d | %d MB | %s | %d | %s | %s | %s | %s | %d |\n", r.Clients,
			digits(r.Sessions), digits(r.Restart.Converged), digits(r.Restart.CPU), r.Restart.RoutesSent, r.PeakMemory/1e6, digits(r.SlowestAnswer), r.Lost,
			digits(r.AllReturn.Converged), digits(r.AllReturn.CPU), digits(r.Return.Converged), digits(r.Return.CPU), r.Return.RoutesSent)
	}
	return nil
}

// digits rounds to two or three digits.
func digits(d time.Duration) time.Duration {
	unit := time.Duration(1)
	for d/unit >= 1000 {
		unit *= 10
	}
	return d.Round(unit)
}

// returns is how many clients restart for Return, one after another.
const returns = 5

type result struct {
	Clients  int
	prefixes int
	// Restart is the worst case: BIRD has just started, and all clients connect at the same time.
	Restart figures
	// Sessions is the time until the last session was Established, in Restart.
	Sessions time.Duration
	// SlowestAnswer is the longest time until BIRD's control socket answered, in Restart.
	SlowestAnswer time.Duration
	// PeakMemory is BIRD's largest resident set, in bytes.
	PeakMemory int64
	// Lost is how many Established sessions ended by themselves.
	Lost int64
	// Return is the restart of one client while all others are up: the median of several.
	Return figures
	// AllReturn is the restart of all clients at the same time, while BIRD runs on.
	AllReturn figures
}

// figures are measured from an event until every client has every prefix.
type figures struct {
	Converged time.Duration
	// CPU is BIRD's processor time.
	CPU time.Duration
	// RoutesSent counts the prefixes that clients received, including repeated ones.
	RoutesSent int64
}

// measure measures a BIRD with clients that together announce prefixes, at least one each. If they have not converged when ctx ends, the error
// says what is missing. Silent clients announce nothing: then no client can have every prefix. BIRD's configuration and log are in dir.
func measure(ctx context.Context, clients, prefixes int, silent func(number int) bool, dir string) (result, error) {
	r := result{Clients: clients, prefixes: prefixes}
	if err := r.measure(ctx, silent, dir); err != nil {
		return result{}, fmt.Errorf("measuring %d clients: %w", clients, err)
	}
	return r, nil
}

func (r *result) measure(ctx context.Context, silent func(number int) bool, dir string) error {
	if err := prepareHost(); err != nil {
		return err
	}
	config, err := configure(ctx, dir, r.Clients)
	if err != nil {
		return err
	}
	daemon, err := startBIRD(ctx, dir, config)
	if err != nil {
		return err
	}
	defer daemon.Kill()
	c := newClientSet(r.Clients, r.prefixes, silent)
	defer c.close()
	if err := r.restart(ctx, daemon, c); err != nil {
		return fmt.Errorf("while BIRD comes up with all clients waiting: %w", err)
	}
	var all []figures
	for i := range returns {
		f, err := event(ctx, daemon, c, func() time.Time { return c.restart(c.clients[i*r.Clients/returns]) })
		if err != nil {
			return fmt.Errorf("while one client comes back: %w", err)
		}
		all = append(all, f)
	}
	slices.SortFunc(all, func(x, y figures) int { return cmp.Compare(x.Converged, y.Converged) })
	r.Return = all[len(all)/2]
	if r.AllReturn, err = event(ctx, daemon, c, func() time.Time { return c.restart(c.clients...) }); err != nil {
		return fmt.Errorf("while all clients come back: %w", err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	r.Lost = c.lost
	return nil
}

func (r *result) restart(ctx context.Context, daemon *bird, c *clientSet) error {
	asking, stop := context.WithCancel(ctx)
	defer stop()
	slowest := make(chan time.Duration, 1)
	go func() { slowest <- daemon.slowest(asking) }()
	began := time.Now()
	f, err := event(ctx, daemon, c, func() time.Time { c.start(); return began })
	stop()
	r.SlowestAnswer = <-slowest
	if err != nil {
		return err
	}
	c.mu.Lock()
	r.Restart, r.Sessions = f, c.establishedAt.Sub(began)
	c.mu.Unlock()
	r.PeakMemory, err = daemon.peakMemory()
	return err
}

// event measures from the time that cause returns until every client has every prefix.
func event(ctx context.Context, daemon *bird, c *clientSet, cause func() time.Time) (figures, error) {
	before, err := daemon.cpu()
	if err != nil {
		return figures{}, err
	}
	_, sent := c.converged()
	began := cause()
	for {
		select {
		case <-daemon.Done():
			return figures{}, fmt.Errorf("BIRD has ended: %s", controlplane.Tail(daemon.log))
		case <-ctx.Done():
			return figures{}, fmt.Errorf("%s: %w", c.lacking(), ctx.Err())
		case <-time.After(2 * time.Millisecond):
		}
		if converged, routes := c.converged(); converged {
			took := time.Since(began)
			after, err := daemon.cpu()
			return figures{Converged: took, CPU: after - before, RoutesSent: routes - sent}, err
		}
	}
}
