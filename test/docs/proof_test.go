package docs_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// check reports a test that is not there, or that nothing runs as the row says.
func (b book) check(p proof) error {
	functions, err := declared(filepath.Join(root, path.Dir(p.file)))
	if err != nil {
		return err
	}
	test, ok := functions[p.test]
	if !ok || test.file != path.Base(p.file) {
		return fmt.Errorf("there is no %s in %s", p.test, p.file)
	}
	long := functions.reach(p.test, "SkipLong", map[string]bool{}) || functions.reach(p.test, "skipLong", map[string]bool{})
	switch {
	case long && p.target == "":
		return fmt.Errorf("%s is not run by make test: name the target that does, as (`make lab`)", p.test)
	case p.target != "" && !b.runs(p.target, p):
		return fmt.Errorf("make %s does not run %s", p.target, p.test)
	}
	return nil
}

var (
	filter  = regexp.MustCompile(`-(?:test\.)?run '([^']*)'`)
	ofTests = regexp.MustCompile(`\./(?:test|cmd|cloud|controllers)/[\w/]+`)
)

// runs reports whether the recipe of a target has a line that runs this test.
func (b book) runs(target string, p proof) bool {
	recipe := strings.ReplaceAll(b.recipes[target], "$$", "$")
	for line := range strings.Lines(recipe) {
		if !slices.Contains(ofTests.FindAllString(line, -1), "./"+path.Dir(p.file)) {
			continue
		}
		chosen := filter.FindStringSubmatch(line)
		if len(chosen) == 0 || regexp.MustCompile(chosen[1]).MatchString(p.test) {
			return true
		}
	}
	return false
}

// function is one that a package declares, with the names that it mentions.
type function struct {
	file     string
	mentions map[string]bool
}

type functions map[string]function

// declared gives the functions in the test files of a folder, and beside them.
func declared(folder string) (functions, error) {
	files, err := filepath.Glob(filepath.Join(folder, "*.go"))
	if err != nil || len(files) == 0 {
		return nil, fmt.Errorf("no Go files in %s", folder)
	}
	out := functions{}
	for _, name := range files {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		if err != nil {
			return nil, fmt.Errorf("reading the tests of %s: %w", folder, err)
		}
		for _, d := range file.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && f.Body != nil {
				out[f.Name.Name] = function{filepath.Base(name), mentioned(f.Body)}
			}
		}
	}
	return out, nil
}

func mentioned(body ast.Node) map[string]bool {
	out := map[string]bool{}
	ast.Inspect(body, func(n ast.Node) bool {
		if call, ok := n.(*ast.CallExpr); ok {
			switch f := call.Fun.(type) {
			case *ast.Ident:
				out[f.Name] = true
			case *ast.SelectorExpr:
				out[f.Sel.Name] = true
			}
		}
		return true
	})
	return out
}

// reach reports whether a function calls another one of that name, itself or by those
// that it calls.
func (fs functions) reach(from, name string, seen map[string]bool) bool {
	if seen[from] {
		return false
	}
	seen[from] = true
	for called := range fs[from].mentions {
		if called == name || fs.reach(called, name, seen) {
			return true
		}
	}
	return false
}
