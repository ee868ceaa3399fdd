// Command fuzz runs every fuzz target of the module for a while, and ends with a table
// that says what came of each. A finding makes it fail, and so do too few targets: one
// that is no longer found would otherwise look like one without a finding.
//
//	fuzz [-time 30s] [-jobs 2] [-least 10] [-run regexp] [package...]
//
// Only the module's own packages are instrumented: building all others anew takes
// minutes, and their branches are not what is looked for.
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"text/tabwriter"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "fuzz:", err)
		os.Exit(1)
	}
}

// options are what the flags say.
type options struct {
	time time.Duration
	// tries, when set, is how often each target is tried instead: a second may pass without one on a busy machine.
	tries int
	jobs  int
	least int
	only  *regexp.Regexp
	// in is the folder that a target runs in, and leaves its finding in: that of its
	// package, except in tests.
	in func(target) string
	// progress is for what takes time.
	progress io.Writer
}

func run(ctx context.Context, args []string, out, progress io.Writer) error {
	flags := flag.NewFlagSet("fuzz", flag.ContinueOnError)
	flags.SetOutput(progress)
	o := options{in: func(t target) string { return t.dir }, progress: progress}
	flags.DurationVar(&o.time, "time", 30*time.Second, "how long each target runs")
	flags.IntVar(&o.jobs, "jobs", 2, "how many targets run at a time")
	flags.IntVar(&o.least, "least", 10, "how many targets there have to be")
	only := flags.String("run", ".", "names of the targets to run, as a regular expression")
	if err := flags.Parse(args); err != nil {
		return fmt.Errorf("reading the flags: %w", err)
	}
	var err error
	if o.only, err = regexp.Compile(*only); err != nil {
		return fmt.Errorf("reading -run: %w", err)
	}
	if o.jobs < 1 || o.time <= 0 {
		return errors.New("-time and -jobs: give more than nothing")
	}
	patterns := flags.Args()
	if len(patterns) == 0 {
		patterns = []string{"./..."}
	}
	return o.all(ctx, patterns, out)
}

// length is how long a target runs, as go test has it.
func (o options) length() string {
	if o.tries > 0 {
		return fmt.Sprintf("%dx", o.tries)
	}
	return o.time.String()
}

// all finds, builds and runs the targets, and says what came of it.
func (o options) all(ctx context.Context, patterns []string, out io.Writer) error {
	began := time.Now()
	module, targets, err := find(ctx, patterns)
	if err != nil {
		return err
	}
	if len(targets) < o.least {
		return fmt.Errorf("%d targets in %s, and there have to be %d: is one lost?", len(targets), strings.Join(patterns, " "), o.least)
	}
	targets = slices.DeleteFunc(targets, func(t target) bool { return !o.only.MatchString(t.name) })
	work, err := os.MkdirTemp("", "fuzz")
	if err != nil {
		return fmt.Errorf("making a folder for the tests: %w", err)
	}
	defer os.RemoveAll(work) //nolint:errcheck // what is left is small
	binaries, err := o.build(ctx, module, targets, work)
	if err != nil {
		return err
	}
	built := time.Since(began)
	results := o.fuzz(ctx, targets, binaries, work)
	o.table(out, results)
	fmt.Fprintf(out, "%d targets for %s each, %d at a time: %s, of which %s to build\n",
		len(results), o.length(), o.jobs, time.Since(began).Round(time.Second), built.Round(time.Second))
	if found := slices.DeleteFunc(results, func(r result) bool { return r.finding == "" }); len(found) > 0 {
		return fmt.Errorf("%d targets have a finding", len(found))
	}
	return ctx.Err()
}

// build makes one instrumented test of each package.
func (o options) build(ctx context.Context, module string, targets []target, work string) (map[string]string, error) {
	binaries := map[string]string{}
	for _, t := range targets {
		if binaries[t.pkg] != "" {
			continue
		}
		fmt.Fprintf(o.progress, "building %s\n", t.pkg)
		binary := filepath.Join(work, fmt.Sprintf("%d.test", len(binaries)))
		command := exec.CommandContext(ctx, "go", "test", "-c", "-vet=off", "-gcflags="+module+"/...=-d=libfuzzer", "-o", binary, t.pkg) //nolint:gosec // G204: packages of this repository
		if said, err := command.CombinedOutput(); err != nil {
			return nil, fmt.Errorf("building the tests of %s: %w: %s", t.pkg, err, said)
		}
		binaries[t.pkg] = binary
	}
	return binaries, nil
}

// fuzz runs the targets, some at a time.
func (o options) fuzz(ctx context.Context, targets []target, binaries map[string]string, work string) []result {
	results := make([]result, len(targets))
	next, wait := make(chan int), sync.WaitGroup{}
	for range o.jobs {
		wait.Go(func() {
			for i := range next {
				results[i] = o.one(ctx, targets[i], binaries[targets[i].pkg], filepath.Join(work, fmt.Sprintf("cache%d", i)))
				fmt.Fprintf(o.progress, "%s: %s\n", targets[i].name, cmp.Or(results[i].finding, "nothing found"))
			}
		})
	}
	for i := range targets {
		next <- i
	}
	close(next)
	wait.Wait()
	return results
}

func (o options) table(out io.Writer, results []result) {
	for _, r := range results {
		if r.finding != "" {
			fmt.Fprintf(out, "%s in %s:\n%s\n", r.name, r.pkg, r.said)
		}
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "TARGET\tPACKAGE\tEXECS\tNEW INPUTS\tFINDING")
	for _, r := range results {
		fmt.Fprintf(w, "%s\t%s\t%d\t%d\t%s\n", r.name, r.pkg, r.execs, r.inputs, cmp.Or(r.finding, "none"))
	}
	_ = w.Flush()
}
