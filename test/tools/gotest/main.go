// Command gotest runs go test and ends with what a reader has to know: what
// failed, and what was skipped and why. Nothing is skipped silently.
//
//	gotest [-first regexp] [-alone regexp] [-again regexp] [-timeout d] package...
//
// Packages whose import path matches -first begin before all others, so that nobody
// waits for the longest one in the end. Packages whose import path matches -alone run one at a time, after all others. Of
// these, tests that fail with output that matches -again, and nothing else does, have
// shown nothing and run once more; the closing lines name them.
package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "gotest:", err)
		os.Exit(1)
	}
}

// pattern is a regular expression as a flag.
type pattern struct{ *regexp.Regexp }

func (p *pattern) Set(text string) (err error) {
	p.Regexp, err = regexp.Compile(text)
	return err
}

func (p *pattern) String() string { return "" }

// run fails when any test does, or when a package cannot be built.
func run(ctx context.Context, args []string, out, progress io.Writer) error {
	flags := flag.NewFlagSet("gotest", flag.ContinueOnError)
	flags.SetOutput(progress)
	never := regexp.MustCompile(`[^\s\S]`)
	first, alone, again := pattern{never}, pattern{never}, pattern{never}
	flags.Var(&first, "first", "import paths of packages that begin before all others, as a regular expression")
	flags.Var(&alone, "alone", "import paths of packages that run one at a time, as a regular expression")
	flags.Var(&again, "again", "output with which a test that runs alone is given a second run, as a regular expression")
	timeout := flags.Duration("timeout", 10*time.Minute, "time that each package has")
	if err := flags.Parse(args); err != nil {
		return fmt.Errorf("reading the flags: %w", err)
	}
	packages, err := list(ctx, flags.Args())
	if err != nil {
		return err
	}
	together, single := split(packages, alone)
	others, longest := split(together, first)
	results := newReport(out)
	// Many wait for an apiserver rather than compute: one more at a time than there are cores.
	more := fmt.Sprintf("-p=%d", runtime.GOMAXPROCS(0)+1)
	for _, set := range []struct {
		packages []string
		flags    []string
	}{
		{slices.Concat(longest, others), []string{more}},
		{single, []string{"-p=1"}},
	} {
		if len(set.packages) == 0 {
			continue
		}
		flags := append([]string{"test", "-json", "-timeout=" + timeout.String()}, set.flags...)
		if err := test(ctx, append(flags, set.packages...), results, progress); err != nil {
			return err
		}
	}
	for _, r := range results.takeBack(again, single) {
		if err := test(ctx, []string{"test", "-json", "-timeout=" + timeout.String(), "-count=1", "-run=" + r.run(), r.name}, results, progress); err != nil {
			return err
		}
	}
	return results.close()
}

// list expands patterns such as ./... to import paths.
func list(ctx context.Context, patterns []string) ([]string, error) {
	var out, complaint bytes.Buffer
	command := exec.CommandContext(ctx, "go", append([]string{"list", "-e"}, patterns...)...) //nolint:gosec // packages of this repository
	command.Stdout, command.Stderr = &out, &complaint
	if err := command.Run(); err != nil {
		return nil, fmt.Errorf("listing packages: %w: %s", err, complaint.String())
	}
	return strings.Fields(out.String()), nil
}

// split sets apart what matches.
func split(packages []string, like pattern) (others, matching []string) {
	for _, name := range packages {
		if like.MatchString(name) {
			matching = append(matching, name)
		} else {
			others = append(others, name)
		}
	}
	return others, matching
}

// test runs go and feeds the report. That tests fail is the report's to say.
func test(ctx context.Context, args []string, results *report, progress io.Writer) error {
	command := exec.CommandContext(ctx, "go", args...) //nolint:gosec // packages of this repository
	command.Cancel = func() error { return command.Process.Signal(os.Interrupt) }
	command.WaitDelay = 30 * time.Second
	command.Stderr = progress
	pipe, err := command.StdoutPipe()
	if err != nil {
		return fmt.Errorf("reading from go test: %w", err)
	}
	if err := command.Start(); err != nil {
		return fmt.Errorf("starting go test: %w", err)
	}
	before := len(results.failures)
	read := results.read(pipe)
	var ended *exec.ExitError
	if err := command.Wait(); errors.As(err, &ended) {
		if len(results.failures) == before {
			results.failures = append(results.failures, failure{name: "go " + strings.Join(args, " ")})
		}
	} else if err != nil {
		return fmt.Errorf("running go test: %w", err)
	}
	return errors.Join(read, ctx.Err())
}
