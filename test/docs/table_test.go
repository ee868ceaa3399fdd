package docs_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/rrpool/rrpool/test/docs/links"
)

const root = "../.."

// row is a line of the table of failure modes.
type row struct {
	line                         int
	fault, happens, sees, remedy string
	shown                        string
}

// rows reads the tables of a page. Their heads are no rows.
func rows(page string) ([]row, error) {
	var out []row
	lines := strings.Split(page, "\n")
	for i, line := range lines {
		if !strings.HasPrefix(line, "|") || strings.HasPrefix(line, "|-") || i+1 < len(lines) && strings.HasPrefix(lines[i+1], "|-") {
			continue
		}
		cells := strings.Split(strings.Trim(line, "|"), "|")
		for j := range cells {
			cells[j] = strings.TrimSpace(cells[j])
		}
		if len(cells) != 5 || slices.Contains(cells, "") {
			return nil, fmt.Errorf("line %d: a row has five cells, none of them empty", i+1)
		}
		out = append(out, row{i + 1, cells[0], cells[1], cells[2], cells[3], cells[4]})
	}
	return out, nil
}

// proof is a test that a row names.
type proof struct {
	test, file string
	// target of the Makefile that runs it, where make test does not.
	target string
}

var link = regexp.MustCompile("\\[((?:Test|Fuzz)\\w+)\\]\\(\\.\\./([\\w/.-]+_test\\.go)\\)(?: \\(`make ([\\w-]+)`\\))?")

func (r row) proofs() []proof {
	var out []proof
	for _, m := range link.FindAllStringSubmatch(r.shown, -1) {
		out = append(out, proof{m[1], m[2], m[3]})
	}
	return out
}

// book is what rows are held to.
type book struct {
	// ci are the targets of the Makefile that CI runs, recipes all of them.
	ci      []string
	recipes map[string]string
	// words is the text of the product's code.
	words string
}

// problems says what is wrong with a row, as one problem per line.
func (b book) problems(r row) []string {
	var out []string
	say := func(format string, args ...any) {
		out = append(out, fmt.Sprintf("line %d (%s): ", r.line, r.fault)+fmt.Sprintf(format, args...))
	}
	proofs := r.proofs()
	if len(proofs) == 0 {
		say("no test is linked as [TestName](../path_test.go)")
	}
	inCI := false
	for _, p := range proofs {
		if err := b.check(p); err != nil {
			say("%v", err)
		}
		inCI = inCI || p.target == "" || slices.Contains(b.ci, p.target)
	}
	if !inCI {
		say("none of its tests is run by CI (%s)", strings.Join(b.ci, ", "))
	}
	for _, m := range word.FindAllStringSubmatch(r.sees, -1) {
		if !strings.Contains(b.words, `"`+m[1]+`"`) && !paged(m[1]) {
			say("%q is no condition, reason, step or event of the code", m[1])
		}
	}
	return out
}

// word is a name in code type that a user is to see.
var word = regexp.MustCompile("`([A-Z]\\w+)`")

func open() (book, error) {
	b := book{recipes: map[string]string{}}
	makefile, err := os.ReadFile(filepath.Join(root, "Makefile"))
	if err != nil {
		return b, err
	}
	for _, m := range regexp.MustCompile(`(?m)^([\w-]+):[^\n]*##[^\n]*\n((?:\t[^\n]*\n)+)`).FindAllStringSubmatch(string(makefile), -1) {
		b.recipes[m[1]] = m[2]
	}
	run, err := os.ReadFile(filepath.Join(root, ".ci", "run"))
	if err != nil {
		return b, err
	}
	for _, m := range regexp.MustCompile(`(?m)^[^#\n]*\bmake ([\w-]+)`).FindAllStringSubmatch(string(run), -1) {
		b.ci = append(b.ci, m[1])
	}
	b.words, err = code()
	return b, err
}

// paged says whether the runbook has a page or a section about it.
func paged(name string) bool {
	files := os.DirFS(root)
	return links.Leads(files, "docs/runbook/"+name+".md") == nil || links.Leads(files, "docs/runbook/conditions.md#"+strings.ToLower(name)) == nil
}

// code is the text of all Go files of the product.
func code() (string, error) {
	var out strings.Builder
	for _, folder := range []string{"cloud", "cmd", "config", "controllers"} {
		err := filepath.WalkDir(filepath.Join(root, folder), func(name string, _ os.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
				return err
			}
			content, err := os.ReadFile(name)
			out.Write(content)
			return err
		})
		if err != nil {
			return "", err
		}
	}
	return out.String(), nil
}
