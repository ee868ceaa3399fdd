//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"
)

// returns is how many clients come back, one after another; the median counts.
const returns = 5

// options say what to load BIRD with.
type options struct {
	clients  int                   // 2 to mostClients
	silent   func(number int) bool // clients that announce nothing: then no client can have every prefix
	dir      string                // for BIRD's configuration and its log
	progress func(format string, args ...any)
}

// result is what was measured. Durations are in seconds.
type result struct {
	Clients int `json:"clients"`
	// Start is how long BIRD takes to read its configuration and answer.
	Start float64 `json:"startSeconds"`
	// Restart is the worst case: BIRD has just started, and all clients connect at the same moment.
	Restart figures `json:"restart"`
	// Sessions is when, in the restart, the last session was Established.
	Sessions float64 `json:"sessionsSeconds"`
	// SlowestAnswer is the longest that BIRD kept its control socket waiting in the restart.
	SlowestAnswer float64 `json:"slowestAnswerSeconds"`
	// PeakMemory is the most that BIRD had resident, in bytes.
	PeakMemory int64 `json:"peakMemoryBytes"`
	// Lost is how many Established sessions ended by themselves.
	Lost int64 `json:"sessionsLost"`
	// Return is one client whose BIRD was killed and is back, while all others are up: the median of several.
	Return figures `json:"return"`
	// AllReturn is when all clients vanish and connect again at the same moment, to a BIRD that stayed up.
	AllReturn figures `json:"allReturn"`
}

// figures are of one event, from its beginning until every client has every prefix.
type figures struct {
	Converged float64 `json:"convergedSeconds"`
	// CPU is BIRD's time on a processor.
	CPU float64 `json:"cpuSeconds"`
	// RoutesSent is what the clients received, repetitions included.
	RoutesSent int64 `json:"routesSent"`
}

// measure loads a BIRD, until ctx ends at most: that the clients have not converged by then is an error which names what is missing.
func measure(ctx context.Context, o options) (result, error) {
	if o.clients < 2 || o.clients > mostClients {
		return result{}, fmt.Errorf("measuring %d clients: from 2 to %d are possible", o.clients, mostClients)
	}
	r := result{Clients: o.clients}
	err := prepareHost(o.clients)
	var config string
	if err == nil {
		config, err = configure(ctx, o.dir, o.clients)
	}
	if err == nil {
		err = r.measure(ctx, o, config)
	}
	if err != nil {
		return result{}, fmt.Errorf("measuring %d clients: %w", o.clients, err)
	}
	return r, nil
}

func (r *result) measure(ctx context.Context, o options, config string) error {
	began := time.Now()
	daemon, err := startBIRD(ctx, o.dir, config)
	if err != nil {
		return err
	}
	defer daemon.stop()
	r.Start = time.Since(began).Seconds()
	c := newCrowd(o.clients, o.silent)
	defer c.close()
	if err := r.restart(ctx, daemon, c); err != nil {
		return fmt.Errorf("while BIRD comes up with all clients waiting: %w", err)
	}
	o.progress("%d clients have every prefix after %.1f s (BIRD: %.1f s of CPU, %.0f MB, slowest answer %.1f s)",
		o.clients, r.Restart.Converged, r.Restart.CPU, float64(r.PeakMemory)/1e6, r.SlowestAnswer)
	var all []figures
	for i := range returns {
		f, err := event(ctx, daemon, c, func() time.Time { return c.restart(c.clients[i*o.clients/returns]) })
		if err != nil {
			return fmt.Errorf("while one client comes back: %w", err)
		}
		all = append(all, f)
	}
	slices.SortFunc(all, func(x, y figures) int { return int(1e9 * (x.Converged - y.Converged)) })
	r.Return = all[len(all)/2]
	if r.AllReturn, err = event(ctx, daemon, c, func() time.Time { return c.restart(c.clients...) }); err != nil {
		return fmt.Errorf("while all clients come back: %w", err)
	}
	o.progress("%d clients, all gone and back, have every prefix after %.1f s", o.clients, r.AllReturn.Converged)
	c.mu.Lock()
	defer c.mu.Unlock()
	r.Lost = c.lost
	return nil
}

// restart lets all clients connect to a BIRD that has just started.
func (r *result) restart(ctx context.Context, daemon *bird, c *crowd) error {
	asking, stop := context.WithCancel(ctx)
	defer stop()
	slowest := make(chan time.Duration, 1)
	go func() { slowest <- daemon.slowest(asking) }()
	var began time.Time
	f, err := event(ctx, daemon, c, func() time.Time {
		began = time.Now()
		c.start()
		return began
	})
	stop()
	r.SlowestAnswer = (<-slowest).Seconds()
	if err != nil {
		return err
	}
	c.mu.Lock()
	r.Restart, r.Sessions = f, c.establishedAt.Sub(began).Seconds()
	c.mu.Unlock()
	r.PeakMemory, err = daemon.peakMemory()
	return err
}

// event measures from the beginning, which cause returns, until every client has every prefix.
func event(ctx context.Context, daemon *bird, c *crowd, cause func() time.Time) (figures, error) {
	state := func() (routes int64, full time.Time, all chan struct{}) {
		c.mu.Lock()
		defer c.mu.Unlock()
		return c.routes, c.full, c.all
	}
	routes, _, _ := state()
	spent, err := daemon.cpu()
	if err != nil {
		return figures{}, err
	}
	began := cause()
	_, _, all := state()
	select {
	case <-daemon.ended:
		return figures{}, fmt.Errorf("BIRD has ended: %s", daemon.lastLines())
	case <-all:
	case <-ctx.Done():
		return figures{}, fmt.Errorf("%s: %w", c.lacking(), ctx.Err())
	}
	after, err := daemon.cpu()
	sent, full, _ := state()
	return figures{Converged: full.Sub(began).Seconds(), CPU: (after - spent).Seconds(), RoutesSent: sent - routes}, err
}

// inFolder runs a measurement with a folder that is removed afterwards.
func inFolder(ctx context.Context, o options) (r result, err error) {
	if o.dir, err = os.MkdirTemp("", "rrbench-"); err != nil {
		return result{}, fmt.Errorf("making a folder: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(o.dir)) }()
	return measure(ctx, o)
}
