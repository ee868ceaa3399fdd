package docs_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const module = "github.com/rrpool/rrpool/"

// In the picture of the parts in docs/architecture.md every import between them goes along
// arrows, and every arrow is an import.
func TestThePictureOfTheArchitectureIsTheCode(t *testing.T) {
	page, err := os.ReadFile(filepath.Join(root, "docs", "architecture.md"))
	require.NoError(t, err)
	drawn := pictured(string(page))
	require.Greater(t, len(drawn.parts), 8)
	imports, err := imported()
	require.NoError(t, err)
	require.Empty(t, drawn.differences(imports))
}

// Negative control.
func TestAPictureThatIsNotTheCodeIsFound(t *testing.T) {
	p := pictured("```mermaid\nflowchart TD\n  %% parts\n  a[\"cmd/a\"] --> b[\"cloud\"] & c[\"cloud/c\"]\n  b --> c\n```\n")
	require.Equal(t, map[string]string{"a": "cmd/a", "b": "cloud", "c": "cloud/c"}, p.parts)
	p.arrows[[2]string{"a", "c"}] = false // b leads there
	require.Empty(t, p.differences(map[string][]string{"cmd/a/x": {"cloud", "cloud/c/deep"}, "cloud/b": {"cloud/c", "cloud"}, "cloud/c/deep": nil}))
	require.Equal(t, []string{
		"cloud imports cloud/c only in the picture",
		"cloud imports cmd/a (cloud/b: cmd/a/x) and not in the picture",
		"cloud/c is drawn, and there is no such package",
		"cmd/new is no part of the picture",
	}, p.differences(map[string][]string{"cmd/a/x": {"cloud"}, "cloud/b": {"cmd/a/x"}, "cmd/new": nil}))
}

// picture is what is drawn: parts by their name in it, and who imports whom.
type picture struct {
	parts  map[string]string
	arrows map[[2]string]bool
}

var (
	chart = regexp.MustCompile("(?s)```mermaid\nflowchart TD\n {2}%% parts\n(.*?)```")
	part  = regexp.MustCompile(`(\w+)(?:\["([\w./-]+)(?:<br/>[^"]*)?"\])?`)
)

func pictured(page string) picture {
	p := picture{map[string]string{}, map[[2]string]bool{}}
	text := chart.FindStringSubmatch(page)
	if text == nil {
		return p
	}
	names := func(side string) []string {
		var out []string
		for _, m := range part.FindAllStringSubmatch(side, -1) {
			if out = append(out, m[1]); m[2] != "" {
				p.parts[m[1]] = m[2]
			}
		}
		return out
	}
	for line := range strings.Lines(text[1]) {
		from, to, _ := strings.Cut(line, "-->")
		targets := names(to)
		for _, a := range names(from) {
			for _, b := range targets {
				p.arrows[[2]string{a, b}] = true
			}
		}
	}
	return p
}

// of is the part that a package belongs to: that of the longest path.
func (p picture) of(pkg string) string {
	longest := ""
	for name, at := range p.parts {
		if (pkg == at || strings.HasPrefix(pkg, at+"/")) && len(at) >= len(p.parts[longest]) {
			longest = name
		}
	}
	return longest
}

// leads reports whether arrows lead from one part to another.
func (p picture) leads(from, to string) bool {
	for arrow, drawn := range p.arrows {
		if drawn && arrow[0] == from && (arrow[1] == to || p.leads(arrow[1], to)) {
			return true
		}
	}
	return false
}

// differences are what the picture and the imports of the packages do not agree on.
func (p picture) differences(imports map[string][]string) []string {
	var out []string
	seen, taken := map[string]bool{}, map[[2]string]bool{}
	for pkg, others := range imports {
		from := p.of(pkg)
		if seen[from] = true; from == "" {
			out = append(out, pkg+" is no part of the picture")
			continue
		}
		for _, other := range others {
			to := p.of(other)
			taken[[2]string{from, to}] = true
			if to != "" && from != to && !p.leads(from, to) {
				out = append(out, p.parts[from]+" imports "+p.parts[to]+" ("+pkg+": "+other+") and not in the picture")
			}
		}
	}
	out = append(out, p.invented(seen, taken)...)
	slices.Sort(out)
	return slices.Compact(out)
}

// invented are the parts that no package is seen of, and the arrows that no import takes.
func (p picture) invented(seen map[string]bool, taken map[[2]string]bool) []string {
	var out []string
	for arrow, drawn := range p.arrows {
		if drawn && !taken[arrow] {
			out = append(out, p.parts[arrow[0]]+" imports "+p.parts[arrow[1]]+" only in the picture")
		}
	}
	for name, at := range p.parts {
		if !seen[name] {
			out = append(out, at+" is drawn, and there is no such package")
		}
	}
	return out
}

// imported is what each package of the product imports of the product. Tests may import
// what they like.
func imported() (map[string][]string, error) {
	out := map[string][]string{}
	for _, top := range []string{"cloud", "cmd", "config", "controllers"} {
		err := filepath.WalkDir(filepath.Join(root, top), func(name string, _ fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
				return err
			}
			file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ImportsOnly)
			if err != nil {
				return err
			}
			folder, err := filepath.Rel(root, filepath.Dir(name))
			pkg := filepath.ToSlash(folder)
			out[pkg] = append(out[pkg], own(file.Imports)...)
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	return out, nil
}

// own are those of them that are packages of the product.
func own(imports []*ast.ImportSpec) []string {
	var out []string
	for _, i := range imports {
		if name, ok := strings.CutPrefix(strings.Trim(i.Path.Value, `"`), module); ok {
			out = append(out, name)
		}
	}
	return out
}
