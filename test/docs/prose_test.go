package docs_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// prose are the pages that people write.
func prose(t *testing.T) map[string]string {
	t.Helper()
	out := map[string]string{}
	for _, pattern := range []string{"README.md", "docs/*.md", "docs/runbook/*.md", ".github/*.md"} {
		found, err := filepath.Glob(filepath.Join(root, pattern))
		require.NoError(t, err)
		require.NotEmpty(t, found, pattern)
		for _, name := range found {
			text, err := os.ReadFile(name)
			require.NoError(t, err)
			page, err := filepath.Rel(root, name)
			require.NoError(t, err)
			out[filepath.ToSlash(page)] = string(text)
		}
	}
	return out
}

var (
	made   = regexp.MustCompile("(?m)(?:`|^ *\\$? ?)make ([a-z][a-z -]*)")
	tested = regexp.MustCompile(`\[` + "`?" + `((?:Test|Fuzz)\w+)` + "`?" + `\]\((?:\.\./)*([\w/.-]+_test\.go)\)`)
)

// What a page says that make makes is a target of the Makefile.
func TestEachTargetThatAPageNamesExists(t *testing.T) {
	b, err := open()
	require.NoError(t, err)
	for name, text := range prose(t) {
		require.Empty(t, b.unmade(text), name)
	}
	require.Equal(t, []string{"tests", "sok"}, b.unmade("`make test`, `make tests`, they make do.\n\n```sh\nmake generate sok   # x\nmake soak\n```\n"))
}

func (b book) unmade(text string) []string {
	var out []string
	for _, match := range made.FindAllStringSubmatch(text, -1) {
		for _, target := range strings.Fields(match[1]) {
			if _, ok := b.recipes[target]; !ok {
				out = append(out, target)
			}
		}
	}
	return out
}

// A test that a page calls in to witness is where the link leads.
func TestEachTestThatAPageNamesExists(t *testing.T) {
	seen, read := 0, folders{}
	for name, text := range prose(t) {
		missing, count := read.untold(text)
		require.Empty(t, missing, name)
		seen += count
	}
	require.Greater(t, seen, 100)
	missing, _ := read.untold("[TestNothing](../test/docs/prose_test.go), [`TestEachTestThatAPageNamesExists`](../test/docs/prose_test.go), [TestGone](test/docs/gone_test.go)")
	require.Equal(t, []string{"TestGone", "TestNothing"}, missing)
}

// folders are the functions of those that were read.
type folders map[string]functions

// untold gives the tests that a text names and that are not in the file linked.
func (f folders) untold(text string) (missing []string, count int) {
	for _, match := range tested.FindAllStringSubmatch(text, -1) {
		count++
		folder := filepath.Join(root, filepath.Dir(match[2]))
		if f[folder] == nil {
			f[folder], _ = declared(folder) // without files there are none
		}
		if test, ok := f[folder][match[1]]; !ok || test.file != filepath.Base(match[2]) {
			missing = append(missing, match[1])
		}
	}
	slices.Sort(missing)
	return missing, count
}
