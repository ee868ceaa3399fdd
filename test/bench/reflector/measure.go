//go:build linux

package reflector

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"time"
)

// returns is how many clients come back, one after another; the median counts.
const returns = 5

// Options say what to load BIRD with.
type Options struct {
	// Clients is how many there are: 2 to MostClients.
	Clients int
	// Silent tells of a client, by its number, that it announces nothing. Then no client can have every prefix. Default: none.
	Silent func(number int) bool
	// Dir keeps BIRD's configuration and its log. Default: a temporary folder, removed at the end.
	Dir string
	// Progress is told what is going on. Default: nobody.
	Progress func(format string, args ...any)
}

// Result is what was measured. Durations are in seconds.
type Result struct {
	Clients int `json:"clients"`
	// Start is how long BIRD takes to read its configuration and answer.
	Start float64 `json:"startSeconds"`
	// Restart is the worst case: BIRD has just started, and everybody connects at the same moment.
	Restart Figures `json:"restart"`
	// Sessions is when, in the restart, the last session was Established.
	Sessions float64 `json:"sessionsSeconds"`
	// SlowestAnswer is the longest that BIRD kept its control socket waiting in the restart.
	SlowestAnswer float64 `json:"slowestAnswerSeconds"`
	// PeakMemory is the most that BIRD had resident, in bytes.
	PeakMemory int64 `json:"peakMemoryBytes"`
	// Lost is how many Established sessions ended, of themselves.
	Lost int64 `json:"sessionsLost"`
	// Return is one client whose BIRD was killed and is back, while all others are up: the median of several.
	Return Figures `json:"return"`
	// AllReturn is when all clients vanish and connect again at the same moment, to a BIRD that stayed up: its network is back.
	AllReturn Figures `json:"allReturn"`
	// Bystanders is how many cores everything else on the machine kept busy, on the average. What they take is missing here.
	Bystanders float64 `json:"bystandersCores"`
}

// Figures are of one event, from its beginning until every client has every prefix.
type Figures struct {
	Converged float64 `json:"convergedSeconds"`
	// CPU is BIRD's time on a processor.
	CPU float64 `json:"cpuSeconds"`
	// RoutesSent is what the clients received, repetitions included.
	RoutesSent int64 `json:"routesSent"`
}

// Measure loads a BIRD, until ctx ends at most: that the clients have not converged by then is an error which says what is missing.
func Measure(ctx context.Context, options Options) (result Result, err error) {
	if options.Clients < 2 || options.Clients > MostClients {
		return Result{}, fmt.Errorf("measuring %d clients: from 2 to %d are possible", options.Clients, MostClients)
	}
	if options.Silent == nil {
		options.Silent = func(int) bool { return false }
	}
	if options.Progress == nil {
		options.Progress = func(string, ...any) {}
	}
	if options.Dir == "" {
		if options.Dir, err = os.MkdirTemp("", "rrbench-"); err != nil {
			return Result{}, fmt.Errorf("making a folder: %w", err)
		}
		defer func() { err = errors.Join(err, os.RemoveAll(options.Dir)) }()
	}
	result, err = measure(ctx, options)
	if err != nil {
		return Result{}, fmt.Errorf("measuring %d clients: %w", options.Clients, err)
	}
	return result, nil
}

func measure(ctx context.Context, options Options) (Result, error) {
	if err := prepareHost(options.Clients); err != nil {
		return Result{}, err
	}
	config, err := configure(ctx, options.Dir, options.Clients)
	if err != nil {
		return Result{}, err
	}
	began := time.Now()
	daemon, err := startBIRD(ctx, options.Dir, config)
	if err != nil {
		return Result{}, err
	}
	defer daemon.stop()
	b := &bench{
		options: options, bird: daemon, result: Result{Clients: options.Clients, Start: time.Since(began).Seconds()},
		crowd: newCrowd(netip.AddrPortFrom(reflectorAddress, birdPort), options.Clients, options.Silent),
	}
	defer b.crowd.close()
	if err := b.run(ctx); err != nil {
		return Result{}, err
	}
	return b.result, nil
}

// bench is one BIRD with its clients.
type bench struct {
	options Options
	bird    *bird
	crowd   *crowd
	result  Result
}

func (b *bench) run(ctx context.Context) error {
	others, err := watchBystanders(b.bird)
	if err != nil {
		return err
	}
	if err := b.restart(ctx); err != nil {
		return fmt.Errorf("while BIRD comes up with everybody waiting: %w", err)
	}
	if err := b.comeBack(ctx); err != nil {
		return fmt.Errorf("while one client comes back: %w", err)
	}
	if b.result.AllReturn, err = b.event(ctx, func() time.Time { return b.crowd.restart(ctx, b.crowd.everyone()...) }); err != nil {
		return fmt.Errorf("while all clients come back: %w", err)
	}
	b.options.Progress("%d clients, all gone and back, have every prefix after %.1f s", b.options.Clients, b.result.AllReturn.Converged)
	b.result.Lost = b.crowd.lost.Load()
	b.result.Bystanders, err = others.cores()
	return err
}

// restart lets everybody connect to a BIRD that has just started.
func (b *bench) restart(ctx context.Context) error {
	b.options.Progress("%d clients connect at once", b.options.Clients)
	asking, stop := context.WithCancel(ctx)
	defer stop()
	slowest := make(chan time.Duration, 1)
	go func() { slowest <- b.bird.slowest(asking) }()
	var began time.Time
	figures, err := b.event(ctx, func() time.Time {
		began = time.Now()
		b.crowd.start(ctx)
		return began
	})
	stop()
	b.result.SlowestAnswer = (<-slowest).Seconds()
	if err != nil {
		return err
	}
	b.result.Restart = figures
	b.result.Sessions = b.crowd.established.since().Sub(began).Seconds()
	b.result.PeakMemory, err = b.bird.peakMemory()
	b.options.Progress("%d clients have every prefix after %.1f s (BIRD: %.1f s of CPU, %.0f MB, slowest answer %.1f s)",
		b.options.Clients, figures.Converged, figures.CPU, float64(b.result.PeakMemory)/1e6, b.result.SlowestAnswer)
	return err
}

// comeBack lets clients spread over the whole come back, one after another.
func (b *bench) comeBack(ctx context.Context) error {
	var all []Figures
	for i := range returns {
		figures, err := b.event(ctx, func() time.Time {
			return b.crowd.restart(ctx, i*b.options.Clients/returns)
		})
		if err != nil {
			return err
		}
		all = append(all, figures)
	}
	slices.SortFunc(all, func(x, y Figures) int { return int(1e9 * (x.Converged - y.Converged)) })
	b.result.Return = all[len(all)/2]
	return nil
}

// event measures from what cause says is the beginning until every client has every prefix.
func (b *bench) event(ctx context.Context, cause func() time.Time) (Figures, error) {
	routes := b.crowd.routes()
	spent, err := b.bird.cpu()
	if err != nil {
		return Figures{}, err
	}
	began := cause()
	select {
	case <-b.bird.ended:
		return Figures{}, fmt.Errorf("BIRD has ended: %s", b.bird.lastWords())
	case <-b.crowd.complete.reached():
	case <-ctx.Done():
		return Figures{}, fmt.Errorf("%s: %w", b.crowd.lacking(), ctx.Err())
	}
	converged := b.crowd.complete.since()
	after, err := b.bird.cpu()
	if err != nil {
		return Figures{}, err
	}
	return Figures{
		Converged: converged.Sub(began).Seconds(), CPU: (after - spent).Seconds(), RoutesSent: b.crowd.routes() - routes,
	}, nil
}
