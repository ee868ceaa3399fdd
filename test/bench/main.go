//go:build linux

// Command bench measures what one route reflector can carry: it loads one real BIRD with more and more synthetic clients, and shows how
// convergence, CPU time and memory grow.
//
//	bench [-sizes 100,500,1000,2000] [-o table|json] [-timeout d]
//
// BIRD is configured by Calico's own confd from Calico's own templates, as the route reflector of a cluster in the topology Single, and
// started as calico-node starts it. What differs: there is no kernel protocol, so routes are not written into a kernel (N writes beside N²
// routes sent), and the clients are no BIRDs: they say in their OPEN what a BIRD on a Calico node says, announce one block of addresses
// each, and read everything. All are addresses of one loopback.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/rrpool/rrpool/test/controlplane"
	"github.com/rrpool/rrpool/test/lab"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// run measures each size, on a new BIRD.
func run(ctx context.Context, args []string, out, progress io.Writer) error {
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.SetOutput(progress)
	list := flags.String("sizes", "100,500,1000,2000", "how many clients, separated by commas")
	output := flags.String("o", "table", "table or json")
	timeout := flags.Duration("timeout", 10*time.Minute, "time that each size has")
	if err := flags.Parse(args); err != nil {
		return fmt.Errorf("reading the flags: %w", err)
	}
	sizes, err := parse(*list)
	if err == nil && *output != "table" && *output != "json" {
		err = fmt.Errorf("-o %q: use table or json", *output)
	}
	if err == nil {
		err = lab.Isolate(ctx, progress)
	}
	if err != nil {
		return err
	}
	runtime.GOMAXPROCS(max(1, runtime.NumCPU()-1)) // BIRD needs a core of its own
	var results []result
	for _, size := range sizes {
		one, cancel := context.WithTimeout(ctx, *timeout)
		r, err := inFolder(one, options{
			clients: size, silent: func(int) bool { return false },
			progress: func(format string, args ...any) { fmt.Fprintf(progress, format+"\n", args...) },
		})
		cancel()
		if err != nil {
			return err
		}
		results = append(results, r)
	}
	if *output == "json" {
		encoder := json.NewEncoder(out)
		encoder.SetIndent("", "  ")
		return encoder.Encode(struct {
			Machine string   `json:"machine"`
			Results []result `json:"results"`
		}{machine(), results})
	}
	_, err = fmt.Fprintf(out, "One BIRD as Calico's route reflector; %s\n\n%s", machine(), table(results))
	return err
}

// parse reads the sizes: ascending, each once.
func parse(list string) ([]int, error) {
	var out []int
	for text := range strings.SplitSeq(list, ",") {
		size, err := strconv.Atoi(strings.TrimSpace(text))
		if err != nil || size < 2 || size > mostClients {
			return nil, fmt.Errorf("-sizes %q: %q is not a number from 2 to %d", list, text, mostClients)
		}
		out = append(out, size)
	}
	slices.Sort(out)
	return slices.Compact(out), nil
}

// growing are the figures that grow with the clients.
var growing = []struct {
	name string
	of   func(result) float64
}{
	{"CONVERGED", func(r result) float64 { return r.Restart.Converged }},
	{"BIRD CPU", func(r result) float64 { return r.Restart.CPU }},
	{"ROUTES SENT", func(r result) float64 { return float64(r.Restart.RoutesSent) }},
	{"PEAK RSS", func(r result) float64 { return float64(r.PeakMemory) }},
	{"ALL RETURN", func(r result) float64 { return r.AllReturn.Converged }},
	{"ONE RETURNS", func(r result) float64 { return r.Return.Converged }},
}

// table is the report for people.
func table(results []result) string {
	var text strings.Builder
	w := tabwriter.NewWriter(&text, 0, 0, 2, ' ', tabwriter.AlignRight)
	row := func(cells ...string) { fmt.Fprintln(w, strings.Join(cells, "\t")+"\t") }
	fmt.Fprint(w, "BIRD comes up with every client waiting\n\n")
	row("CLIENTS", "SESSIONS UP", "CONVERGED", "BIRD CPU", "ROUTES SENT", "PEAK RSS", "SLOWEST ANSWER", "SESSIONS LOST")
	for _, r := range results {
		row(fmt.Sprint(r.Clients), seconds(r.Sessions), seconds(r.Restart.Converged), seconds(r.Restart.CPU), fmt.Sprint(r.Restart.RoutesSent),
			digits(float64(r.PeakMemory)/1e6)+" MB", seconds(r.SlowestAnswer), fmt.Sprint(r.Lost))
	}
	fmt.Fprint(w, "\nClients vanish and come back to a BIRD that is up: all at once, and one while all others stay\n\n")
	row("CLIENTS", "ALL: CONVERGED", "BIRD CPU", "ROUTES SENT", "ONE: CONVERGED", "BIRD CPU", "ROUTES SENT")
	for _, r := range results {
		row(fmt.Sprint(r.Clients), seconds(r.AllReturn.Converged), seconds(r.AllReturn.CPU), fmt.Sprint(r.AllReturn.RoutesSent),
			seconds(r.Return.Converged), seconds(r.Return.CPU), fmt.Sprint(r.Return.RoutesSent))
	}
	_ = w.Flush()
	text.WriteString("\nHow it grows: the ratio from one size to the next, and the power n^x of the clients that this is\n\n")
	for i := 1; i < len(results); i++ {
		from, to := results[i-1], results[i]
		fmt.Fprintf(&text, "%d → %d:", from.Clients, to.Clients)
		for _, figure := range growing {
			ratio := figure.of(to) / figure.of(from)
			fmt.Fprintf(&text, "  %s ×%s n^%.1f", figure.name, digits(ratio), math.Log(ratio)/math.Log(float64(to.Clients)/float64(from.Clients)))
		}
		text.WriteString("\n")
	}
	text.WriteString("\nSeconds and bytes are this machine's: another one's differ by a factor. How they grow is a property of BIRD.\n")
	return text.String()
}

// seconds shows what a person can tell apart.
func seconds(s float64) string {
	if s < 0.1 {
		return fmt.Sprintf("%.1f ms", s*1000)
	}
	return digits(s) + " s"
}

// digits are two significant ones, or all before the point.
func digits(x float64) string {
	if x >= 10 {
		return strconv.FormatFloat(x, 'f', 0, 64)
	}
	return strconv.FormatFloat(x, 'g', 2, 64)
}

// machine describes what is measured on what.
func machine() string {
	processor := runtime.GOARCH
	if text, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		if _, rest, found := strings.Cut(string(text), "model name\t: "); found {
			processor, _, _ = strings.Cut(rest, "\n")
		}
	}
	version, _ := exec.Command("bird", "--version").CombinedOutput() // empty without one: then nothing is measured
	kernel, _ := os.ReadFile("/proc/sys/kernel/osrelease")
	return fmt.Sprintf("%s, %d cores of %s, Linux %s", strings.TrimSpace(string(version)), runtime.NumCPU(), processor, strings.TrimSpace(string(kernel)))
}

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
	defer daemon.Kill()
	r.Start = time.Since(began).Seconds()
	c := newClientSet(o.clients, o.silent)
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
func (r *result) restart(ctx context.Context, daemon *bird, c *clientSet) error {
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
func event(ctx context.Context, daemon *bird, c *clientSet, cause func() time.Time) (figures, error) {
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
	case <-daemon.Done():
		return figures{}, fmt.Errorf("BIRD has ended: %s", controlplane.Tail(daemon.log))
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
