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
	cmd := exec.Command("bash", "-n")
	cmd.Stdin = strings.NewReader(b.Text)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("line %d: %w: %s", b.Line, err, out)
	}
	return nil
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
	require.NoError(t, typable(Block{Text: "read line <\"$file\" >/dev/null\n"}))
}
