package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
)

// event is a line of go test -json; see go doc test2json.
type event struct {
	Action, Package, ImportPath, Test, Output string
	Elapsed                                   float64
}

// failure is of a test, of a package when test is empty, or of go itself.
type failure struct{ name, test, ending, output string }

func (f failure) String() string { return strings.TrimSpace(f.name+" "+f.test) + f.ending }

// report prints packages as they end and keeps what the closing lines need.
type report struct {
	out      io.Writer
	packages int
	passed   int
	skipped  []string
	repeated []string
	failures []failure
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
		output := strings.Join(r.output[[2]string{e.Package, e.Test}], "")
		r.failures = append(r.failures, failure{name: e.Package, test: e.Test, output: output})
		r.print("%s", output)
	}
}

func (r *report) packageEnded(e event) {
	switch e.Action {
	case "pass":
		r.packages++
		r.print("ok    %s  %.1fs\n", e.Package, e.Elapsed)
	case "fail":
		r.packages++
		r.unfinished(e.Package)
		r.print("%s", strings.Join(r.output[[2]string{e.Package, ""}], ""))
		r.print("FAIL  %s  %.1fs\n", e.Package, e.Elapsed)
		r.failures = append(r.failures, failure{name: e.Package})
	}
}

// unfinished prints what tests said that a panic or a time-out ended.
func (r *report) unfinished(name string) {
	for key, output := range r.output {
		if key[0] == name && key[1] != "" {
			all := strings.Join(output, "")
			r.failures = append(r.failures, failure{name, key[1], ": did not end", all})
			r.print("%s", all)
			delete(r.output, key)
		}
	}
}

// repeat is what of a package has shown nothing, by the names of its tests.
type repeat struct {
	name  string
	tests []string
}

// run is for go test's -run.
func (r repeat) run() string { return "^(" + strings.Join(r.tests, "|") + ")$" }

// takeBack removes the failures of those packages in which all failing tests said what
// matches, and returns them. A test of which a part fails speaks by that part.
func (r *report) takeBack(matching pattern, packages []string) []repeat {
	var out []repeat
	for _, name := range packages {
		again := repeat{name: name}
		for _, f := range r.failures {
			if f.name != name || f.test == "" {
				continue
			}
			if !r.excused(f, matching) {
				again.tests = nil
				break
			}
			if !strings.Contains(f.test, "/") {
				again.tests = append(again.tests, f.test)
			}
		}
		if len(again.tests) == 0 {
			continue
		}
		r.failures = slices.DeleteFunc(r.failures, func(f failure) bool { return f.name == name })
		r.packages--
		for _, test := range again.tests {
			r.repeated = append(r.repeated, name+" "+test)
		}
		out = append(out, again)
	}
	return out
}

// excused: the test ended, and failed by what matches, or by a part of it and nothing else.
func (r *report) excused(f failure, matching pattern) bool {
	if f.ending != "" || matching.MatchString(f.output) {
		return f.ending == ""
	}
	return !strings.Contains(f.output, "Error Trace:") && slices.ContainsFunc(r.failures, func(part failure) bool {
		return part.name == f.name && strings.HasPrefix(part.test, f.test+"/")
	})
}

// close prints the closing lines and gives an error when anything failed.
func (r *report) close() error {
	slices.Sort(r.skipped)
	for _, name := range r.skipped {
		r.print("SKIP  %s\n", name)
	}
	for _, name := range r.repeated {
		r.print("AGAIN %s: what it said of its first run shows nothing\n", name)
	}
	slices.SortFunc(r.failures, func(a, b failure) int { return strings.Compare(a.String(), b.String()) })
	for _, f := range r.failures {
		r.print("FAIL  %s\n%s", f, gist(f.output))
	}
	r.print("%d packages, %d tests passed, %d failed, %d skipped\n", r.packages, r.passed, len(r.failures), len(r.skipped))
	if len(r.failures) > 0 {
		return errors.New("tests failed")
	}
	return nil
}

// gistLines is how much of a failing test's output the closing lines repeat.
const gistLines = 20

// logged are the lines of programs that a test has started.
var logged = regexp.MustCompile(`level=|"level":|^=== `)

// gist is the end of what a test said.
func gist(output string) string {
	lines := slices.DeleteFunc(strings.SplitAfter(output, "\n"), logged.MatchString)
	return strings.Join(lines[max(0, len(lines)-gistLines):], "")
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
