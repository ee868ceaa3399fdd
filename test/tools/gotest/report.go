package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
)

// event is a line of go test -json; see go doc test2json.
type event struct {
	Action, Package, ImportPath, Test, Output string
	Elapsed                                   float64
}

// report prints packages as they end and keeps what the closing lines need.
type report struct {
	out      io.Writer
	failed   bool
	packages int
	passed   int
	skipped  []string
	failures []string
	// output of each test that has not ended, by package and test.
	output map[[2]string][]string
}

func newReport(out io.Writer) *report {
	return &report{out: out, output: map[[2]string][]string{}}
}

// read takes events until there are no more.
func (r *report) read(from io.Reader) error {
	lines := bufio.NewReader(from)
	for {
		line, err := lines.ReadBytes('\n')
		if len(line) > 0 {
			r.line(line)
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("reading test events: %w", err)
		}
	}
}

// line takes one event. What is no event is something that go has to say.
func (r *report) line(line []byte) {
	var e event
	if err := json.Unmarshal(line, &e); err != nil {
		r.print("%s", line)
		return
	}
	key := [2]string{e.Package, e.Test}
	switch e.Action {
	case "build-output":
		r.print("%s", e.Output)
	case "output":
		r.output[key] = append(r.output[key], e.Output)
	case "pass", "fail", "skip":
		if e.Test == "" {
			r.packageEnded(e)
		} else {
			r.testEnded(e)
		}
		delete(r.output, key)
	}
}

func (r *report) testEnded(e event) {
	switch name := e.Package + " " + e.Test; e.Action {
	case "pass":
		r.passed++
	case "skip":
		r.skipped = append(r.skipped, name+": "+reason(r.output[[2]string{e.Package, e.Test}]))
	case "fail":
		r.failures = append(r.failures, name)
		r.print("%s", strings.Join(r.output[[2]string{e.Package, e.Test}], ""))
	}
}

func (r *report) packageEnded(e event) {
	switch e.Action {
	case "pass":
		r.packages++
		r.print("ok    %s  %.1fs\n", e.Package, e.Elapsed)
	case "fail":
		r.packages++
		r.failed = true
		r.unfinished(e.Package)
		r.print("%s", strings.Join(r.output[[2]string{e.Package, ""}], ""))
		r.print("FAIL  %s  %.1fs\n", e.Package, e.Elapsed)
		r.failures = append(r.failures, e.Package)
	}
}

// unfinished prints what tests said that a panic or a time-out ended.
func (r *report) unfinished(name string) {
	for key, output := range r.output {
		if key[0] == name && key[1] != "" {
			r.failures = append(r.failures, name+" "+key[1]+": did not end")
			r.print("%s", strings.Join(output, ""))
			delete(r.output, key)
		}
	}
}

// close prints the closing lines and gives an error when anything failed.
func (r *report) close() error {
	slices.Sort(r.skipped)
	slices.Sort(r.failures)
	for _, name := range r.skipped {
		r.print("SKIP  %s\n", name)
	}
	for _, name := range r.failures {
		r.print("FAIL  %s\n", name)
	}
	r.print("%d packages, %d tests passed, %d failed, %d skipped\n", r.packages, r.passed, len(r.failures), len(r.skipped))
	if r.failed || len(r.failures) > 0 {
		return errors.New("tests failed")
	}
	return nil
}

func (r *report) print(format string, args ...any) { _, _ = fmt.Fprintf(r.out, format, args...) }

// reason is what a test said when it was skipped.
func reason(output []string) string {
	var said []string
	for _, line := range output {
		line = strings.TrimSpace(line)
		if line != "" && !strings.HasPrefix(line, "=== ") && !strings.HasPrefix(line, "--- ") {
			said = append(said, line)
		}
	}
	if len(said) == 0 {
		return "no reason given"
	}
	return strings.Join(said, "; ")
}
