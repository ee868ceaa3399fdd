package modelcheck

import (
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// MutantVariable names the mutation that a binary built with an Overlay runs with.
const MutantVariable = "RRPOOL_MUTANT"

// helpers are what mutations use. To opened, every gate has been waiting long enough.
const helpers = `package rollout

import "os"

var mutant = os.Getenv(%q)

func opened(v *view) *view {
	out := *v
	out.d.Timer, out.now = true, v.now.Add(1<<60)
	return &out
}
`

// Overlay writes the sources of package rollout, with all mutations in them, and an
// overlay file for go build, into folder. Without MutantVariable they do nothing.
func Overlay(source, folder string, mutations []Mutation) (string, error) {
	replace := map[string]string{}
	missing := map[string]bool{}
	for _, m := range mutations {
		missing[m.Function] = true
	}
	files, err := sources(source)
	if err != nil {
		return "", err
	}
	for name, f := range files {
		text := mutate(f, mutations, missing)
		to := filepath.Join(folder, filepath.Base(name))
		if err := os.WriteFile(to, text, 0o600); err != nil {
			return "", fmt.Errorf("writing a mutated file: %w", err)
		}
		replace[name] = to
	}
	if len(missing) > 0 {
		return "", fmt.Errorf("mutating package rollout: it has no functions %v", missing)
	}
	added := filepath.Join(folder, "mutant.go")
	text := fmt.Sprintf(helpers, MutantVariable)
	if err := os.WriteFile(added, []byte(text), 0o600); err != nil {
		return "", fmt.Errorf("writing the mutant's name: %w", err)
	}
	replace[filepath.Join(source, "mutant.go")] = added
	overlay, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", fmt.Errorf("writing the overlay: %w", err)
	}
	path := filepath.Join(folder, "overlay.json")
	return path, os.WriteFile(path, overlay, 0o600)
}

// sourceFile is a file of the package, read.
type sourceFile struct {
	*ast.File
	set  *token.FileSet
	text []byte
}

func sources(folder string) (map[string]sourceFile, error) {
	names, err := filepath.Glob(filepath.Join(folder, "*.go"))
	if err != nil {
		return nil, fmt.Errorf("looking for sources: %w", err)
	}
	out := map[string]sourceFile{}
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		text, err := os.ReadFile(name) //nolint:gosec // G304: our own sources
		if err != nil {
			return nil, fmt.Errorf("reading a source: %w", err)
		}
		set := token.NewFileSet()
		f, err := parser.ParseFile(set, name, text, 0)
		if err != nil {
			return nil, fmt.Errorf("parsing a source: %w", err)
		}
		out[name] = sourceFile{f, set, text}
	}
	return out, nil
}

// functions of a file, by name.
func (f sourceFile) functions() map[string]*ast.FuncDecl {
	out := map[string]*ast.FuncDecl{}
	for _, d := range f.Decls {
		if fn, ok := d.(*ast.FuncDecl); ok {
			out[fn.Name.Name] = fn
		}
	}
	return out
}

// mutate puts each mutation at the beginning of its function.
func mutate(f sourceFile, mutations []Mutation, missing map[string]bool) []byte {
	type insertion struct {
		at   int
		text string
	}
	var all []insertion
	functions := f.functions()
	for _, m := range mutations {
		fn, here := functions[m.Function]
		if !here {
			continue
		}
		delete(missing, m.Function)
		at := f.set.Position(fn.Body.Lbrace).Offset + 1
		all = append(all, insertion{at, fmt.Sprintf(" if mutant == %q { %s };", m.Name, m.Statement)})
	}
	slices.SortStableFunc(all, func(a, b insertion) int { return b.at - a.at })
	text := slices.Clone(f.text)
	for _, x := range all {
		text = slices.Insert(text, x.at, []byte(x.text)...)
	}
	return text
}
