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
