package walkthrough

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// pages are all that a user reads, but for what is generated.
func pages(t *testing.T) []string {
	t.Helper()
	var pages []string
	for _, pattern := range []string{"README.md", ".github/*.md", "docs/*.md", "docs/runbook/*.md"} {
		found, err := filepath.Glob(filepath.Join("..", "..", pattern))
		require.NoError(t, err)
		pages = append(pages, found...)
	}
	return pages
}

// placeholder is what a reader would have to replace within a command: a variable can be set once.
var placeholder = regexp.MustCompile(`<[a-zA-Z][a-zA-Z -]*>`)

// typable tells why a block cannot be pasted into a shell.
func typable(b Block) error {
	if found := placeholder.FindString(b.Text); found != "" {
		return fmt.Errorf("line %d: %s in a command: set a variable in a block at the top of the page", b.Line, found)
	}
	if found := recalls(b.Text); found != "" {
		return fmt.Errorf("line %d: an interactive bash takes %q for a command typed before, also within double quotes: write '!' and go on in other quotes", b.Line, found)
	}
	cmd := exec.Command("bash", "-n")
	cmd.Stdin = strings.NewReader(b.Text)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("line %d: %w: %s", b.Line, err, out)
	}
	return nil
}

// recalls finds what an interactive bash replaces by words from its history: an exclamation mark that neither stands alone in single
// quotes nor before a blank or an equals sign. That single quotes may protect more is left out.
func recalls(text string) string {
	for i, r := range text {
		if r != '!' {
			continue
		}
		before, after := text[:i], text[i+1:]
		alone := strings.HasSuffix(before, "'") && strings.HasPrefix(after, "'")
		if !alone && strings.IndexAny(after, " \t\n=") != 0 && after != "" {
			return text[i:min(i+4, len(text))]
		}
	}
	return ""
}

// Also where a page is not run, its commands can be pasted into a shell.
func TestEveryBlockCanBeTyped(t *testing.T) {
	n := 0
	for _, page := range pages(t) {
		source, err := os.ReadFile(page)
		require.NoError(t, err)
		blocks, err := Blocks(source)
		require.NoError(t, err, page)
		for _, b := range blocks {
			n++
			require.NoError(t, typable(b), page)
		}
	}
	require.Greater(t, n, 60)
	t.Logf("%d blocks", n)
}

func TestABlockThatCannotBeTypedIsFound(t *testing.T) {
	require.ErrorContains(t, typable(Block{Text: "kubectl cordon <node>\n"}), "<node> in a command")
	require.ErrorContains(t, typable(Block{Text: "for node in a b; do\n  echo\n"}), "syntax error")
	require.ErrorContains(t, typable(Block{Text: "kubectl get nodes --selector \"!$role\"\n"}), `takes "!$ro" for a command typed before`)
	require.ErrorContains(t, typable(Block{Text: "echo !!\n"}), "typed before")
	require.NoError(t, typable(Block{Text: "kubectl get nodes --selector '!'\"$role\"\nif ! true || [ a != b ]; then echo a; fi\n"}))
	require.NoError(t, typable(Block{Text: "read line <\"$file\" >/dev/null\n"}))
}
