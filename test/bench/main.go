//go:build linux

// Command bench measures what one route reflector can carry: it loads one real BIRD, configured by Calico's own confd, with more and
// more synthetic clients, and shows how convergence, CPU time and memory grow.
//
//	bench [-sizes 100,500,1000,2000] [-o table|json] [-timeout d]
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rrpool/rrpool/cmd/rrpool/iostreams"
	"github.com/rrpool/rrpool/test/bench/reflector"
	"github.com/rrpool/rrpool/test/lab"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// options are what the command line says.
type options struct {
	sizes   []int
	output  string
	timeout time.Duration
}

func parse(args []string, progress io.Writer) (options, error) {
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.SetOutput(progress)
	sizes := flags.String("sizes", "100,500,1000,2000", "how many clients, separated by commas")
	output := flags.String("o", "table", "table or json")
	timeout := flags.Duration("timeout", 10*time.Minute, "time that each size has")
	if err := flags.Parse(args); err != nil {
		return options{}, fmt.Errorf("reading the flags: %w", err)
	}
	if flags.NArg() > 0 {
		return options{}, fmt.Errorf("unexpected argument %q: everything is a flag", flags.Arg(0))
	}
	if *output != "table" && *output != "json" {
		return options{}, fmt.Errorf("-o %q: it is table or json", *output)
	}
	o := options{output: *output, timeout: *timeout}
	for text := range strings.SplitSeq(*sizes, ",") {
		size, err := strconv.Atoi(strings.TrimSpace(text))
		if err != nil || size < 2 || size > reflector.MostClients {
			return options{}, fmt.Errorf("-sizes %q: %q is not a number from 2 to %d", *sizes, text, reflector.MostClients)
		}
		o.sizes = append(o.sizes, size)
	}
	slices.Sort(o.sizes)
	o.sizes = slices.Compact(o.sizes)
	return o, nil
}

// run measures each size in turn, on a new BIRD.
func run(ctx context.Context, args []string, out, progress io.Writer) error {
	o, err := parse(args, progress)
	if errors.Is(err, flag.ErrHelp) {
		return nil
	}
	if err != nil {
		return err
	}
	if err := lab.Isolate(ctx, progress); err != nil {
		return err
	}
	runtime.GOMAXPROCS(max(1, runtime.NumCPU()-1)) // BIRD needs a core of its own
	r := report{Machine: machine()}
	for _, size := range o.sizes {
		result, err := measure(ctx, o.timeout, size, progress)
		if err != nil {
			return err
		}
		r.Results = append(r.Results, result)
	}
	if r.Growth, err = growthOf(r.Results); err != nil {
		return err
	}
	if o.output == "json" {
		return iostreams.WriteJSON(out, r)
	}
	_, err = io.WriteString(out, r.table())
	return err
}

func measure(ctx context.Context, timeout time.Duration, size int, progress io.Writer) (reflector.Result, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	return reflector.Measure(ctx, reflector.Options{
		Clients: size, Progress: func(format string, args ...any) { fmt.Fprintf(progress, format+"\n", args...) },
	})
}

// machine says what was measured on what.
func machine() string {
	processor := runtime.GOARCH
	if text, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		for line := range strings.Lines(string(text)) {
			if key, value, found := strings.Cut(line, ":"); found && strings.TrimSpace(key) == "model name" {
				processor = strings.TrimSpace(value)
				break
			}
		}
	}
	version := "BIRD"
	if text, err := exec.Command("bird", "--version").CombinedOutput(); err == nil {
		version = strings.Replace(strings.TrimSpace(string(text)), "BIRD version", "BIRD", 1)
	}
	var kernel unix.Utsname
	_ = unix.Uname(&kernel) // it has no way to fail
	return fmt.Sprintf("%s, %d cores of %s, Linux %s", version, runtime.NumCPU(), processor, unix.ByteSliceToString(kernel.Release[:]))
}
