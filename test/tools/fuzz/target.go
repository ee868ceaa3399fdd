package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// target is one fuzz target.
type target struct{ name, pkg, dir string }

// find gives the targets of packages, and the path of their module.
func find(ctx context.Context, patterns []string) (module string, targets []target, err error) {
	var out, complaint bytes.Buffer
	command := exec.CommandContext(ctx, "go", append([]string{"list", "-json=ImportPath,Dir,TestGoFiles,XTestGoFiles,Module"}, patterns...)...) //nolint:gosec // G204: packages of this repository
	command.Stdout, command.Stderr = &out, &complaint
	if err := command.Run(); err != nil {
		return "", nil, fmt.Errorf("listing packages: %w: %s", err, complaint.String())
	}
	for list := json.NewDecoder(&out); ; {
		var p struct {
			ImportPath, Dir           string
			TestGoFiles, XTestGoFiles []string
			Module                    struct{ Path string }
		}
		if err := list.Decode(&p); errors.Is(err, io.EOF) {
			return module, targets, nil
		} else if err != nil {
			return "", nil, fmt.Errorf("reading the list of packages: %w", err)
		}
		module = p.Module.Path
		for _, file := range slices.Concat(p.TestGoFiles, p.XTestGoFiles) {
			names, err := targetsIn(filepath.Join(p.Dir, file))
			if err != nil {
				return "", nil, err
			}
			for _, name := range names {
				targets = append(targets, target{name: name, pkg: p.ImportPath, dir: p.Dir})
			}
		}
	}
}

// targetsIn are the functions of a file that go test would fuzz.
func targetsIn(path string) ([]string, error) {
	file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", path, err)
	}
	var out []string
	for _, declaration := range file.Decls {
		function, ok := declaration.(*ast.FuncDecl)
		if ok && function.Recv == nil && strings.HasPrefix(function.Name.Name, "Fuzz") {
			out = append(out, function.Name.Name)
		}
	}
	return out, nil
}

// result is what came of a target.
type result struct {
	target
	execs, inputs int
	// finding is "" for none, said what the test printed.
	finding, said string
}

// grace is what a target has for its seeds besides its time.
const grace = 2 * time.Minute

// progressForm is what go test says while it fuzzes.
var progressForm = regexp.MustCompile(`fuzz: elapsed: [^,]+, execs: (\d+) .*new interesting: (\d+)`)

// one runs a target. Nothing is made small: of a few seconds, that may take most.
func (o options) one(ctx context.Context, t target, binary, cache string) result {
	ctx, cancel := context.WithTimeout(ctx, o.time+grace)
	defer cancel()
	command := exec.CommandContext(ctx, binary, "-test.run=^$", "-test.fuzz=^"+t.name+"$", "-test.fuzztime="+o.length(), //nolint:gosec // G204: we have built it
		"-test.parallel=1", "-test.fuzzminimizetime=0s", "-test.fuzzcachedir="+cache)
	command.Dir = o.in(t)
	said, err := command.CombinedOutput()
	out := result{target: t, said: string(said)}
	if all := progressForm.FindAllSubmatch(said, -1); len(all) > 0 {
		last := all[len(all)-1]
		out.execs, _ = strconv.Atoi(string(last[1])) // digits
		out.inputs, _ = strconv.Atoi(string(last[2]))
	}
	switch {
	case ctx.Err() != nil:
		out.finding = "did not end"
	case err != nil && !ranOut.MatchString(out.said):
		out.finding = "failed: " + firstFailure(out.said)
	case out.execs == 0:
		out.finding = "nothing was tried"
	}
	return out
}

// ranOut is what go test says at times when the end comes in the middle of a try, and
// nothing was found.
var ranOut = regexp.MustCompile(`\n--- FAIL: \S+ \([\d.]+s\)\n\s+context deadline exceeded\nFAIL\s*$`)

// failureForm is the line under which a test says what is wrong.
var failureForm = regexp.MustCompile(`(?m)^\s+(Error:\s+.*|panic: .*|\S+\.go:\d+: \S.*|Failing input written to .*)$`)

func firstFailure(said string) string {
	if line := failureForm.FindString(said); line != "" {
		return strings.Join(strings.Fields(line), " ")
	}
	return "see above"
}
