package modelcheck

import (
	"errors"
	"go/ast"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

const rolloutSources = "../../controllers/plan/rollout"

// Each gate of rollout is taken out in turn, and the explorer finds what that breaks.
// With none taken out, it finds nothing in the same clusters.
func TestWithoutAnyOneGateTheExplorerFails(t *testing.T) {
	t.Parallel()
	binary := mutantBinary(t)
	jobs := map[string][]string{"": nil}
	for _, m := range Mutations {
		switch {
		case m.Redundant != "":
			require.NotEmpty(t, m.Guards, m.Name)
			continue
		case m.Scenario == "":
			t.Errorf("%s: no scenario finds it, and no reason says why", m.Name)
			continue
		}
		jobs[m.Name] = []string{m.Scenario}
		jobs[""] = append(jobs[""], m.Scenario)
	}
	var mu sync.Mutex
	slots := make(chan struct{}, 2)
	var wg sync.WaitGroup
	for name, scenarios := range jobs {
		wg.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			found, out := explored(t, binary, name, scenarios)
			mu.Lock()
			defer mu.Unlock()
			if name == "" && found {
				t.Errorf("nothing is taken out, and yet:\n%s", out)
			}
			if name != "" && !found {
				t.Errorf("without the gate %q nothing breaks:\n%s", name, out)
			}
		})
	}
	wg.Wait()
}

// explored runs the binary with a mutation, and says whether it has found a violation.
func explored(t *testing.T, binary, mutation string, scenarios []string) (found bool, out string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), binary, "-only", strings.Join(scenarios, "|"))
	cmd.Env = append(os.Environ(), MutantVariable+"="+mutation, "GOMAXPROCS=1")
	text, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		require.Equal(t, 1, exit.ExitCode(), "%s: %s", mutation, text)
		require.Contains(t, string(text), "BROKEN: ", mutation)
		return true, string(text)
	}
	require.NoError(t, err, "%s: %s", mutation, text)
	return false, string(text)
}

// mutantBinary is the explorer, with every mutation in it.
func mutantBinary(t *testing.T) string {
	t.Helper()
	source, err := filepath.Abs(rolloutSources)
	require.NoError(t, err)
	folder := t.TempDir()
	overlay, err := Overlay(source, folder, Mutations)
	require.NoError(t, err)
	binary := filepath.Join(folder, "explore")
	out, err := exec.CommandContext(t.Context(), "go", "build", "-overlay", overlay, "-o", binary, "./explore").CombinedOutput()
	require.NoError(t, err, "%s", out)
	return binary
}

// Whatever looks like a gate is in the list of mutations, or in that of exceptions.
func TestEveryGateIsTakenOut(t *testing.T) {
	t.Parallel()
	listed := map[string]bool{}
	for _, m := range Mutations {
		listed[m.Function] = true
	}
	files, err := sources(rolloutSources)
	require.NoError(t, err)
	there := map[string]bool{}
	for name, f := range files {
		for fn, d := range f.functions() {
			there[fn] = true
			_, excepted := exceptions[fn]
			if looksLikeAGate(d) && !listed[fn] && !excepted {
				t.Errorf("%s: %s looks like a gate: add it to Mutations, or to exceptions with a reason", filepath.Base(name), fn)
			}
		}
	}
	for fn, why := range exceptions {
		require.True(t, there[fn], "exception %s is no function any more", fn)
		require.NotEmpty(t, why)
		require.False(t, listed[fn], "%s is in both lists", fn)
	}
}

// looksLikeAGate: it gives a gate, or fills one, or is called one; or is a rule.
func looksLikeAGate(d *ast.FuncDecl) bool {
	gate := func(list *ast.FieldList) bool {
		if list == nil {
			return false
		}
		for _, f := range list.List {
			if isPointerTo(f.Type, "gate") {
				return true
			}
		}
		return false
	}
	return !gate(d.Recv) && (gate(d.Type.Params) || gate(d.Type.Results) || strings.HasSuffix(d.Name.Name, "Gate") || isRule(d))
}

func isRule(d *ast.FuncDecl) bool {
	return d.Recv == nil && len(d.Type.Params.List) == 1 && isPointerTo(d.Type.Params.List[0].Type, "view") &&
		d.Type.Results != nil && isPointerTo(d.Type.Results.List[0].Type, "Step")
}

func isPointerTo(t ast.Expr, name string) bool {
	star, ok := t.(*ast.StarExpr)
	if !ok {
		return false
	}
	id, ok := star.X.(*ast.Ident)
	return ok && id.Name == name
}

// The control of that: a gate that nobody lists is seen.
func TestAGateThatNobodyListsIsSeen(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	text := "package rollout\nfunc (v *view) newGate() {}\nfunc (v *view) fills(g *gate) {}\nfunc rule(v *view) *Step { return nil }\nfunc (g *gate) open() bool { return true }\nfunc other(v *view) bool { return true }\n"
	require.NoError(t, os.WriteFile(filepath.Join(folder, "new.go"), []byte(text), 0o600))
	files, err := sources(folder)
	require.NoError(t, err)
	for _, f := range files {
		for name, d := range f.functions() {
			require.Equal(t, name == "newGate" || name == "fills" || name == "rule", looksLikeAGate(d), name)
		}
	}
	_, err = Overlay(folder, t.TempDir(), []Mutation{{Name: "x", Function: "gone", Statement: "return"}})
	require.ErrorContains(t, err, "gone")
}
