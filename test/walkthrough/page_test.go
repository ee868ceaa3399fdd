package walkthrough

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"
	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/text"

	"github.com/rrpool/rrpool/cmd/rrpool/command"
	"github.com/rrpool/rrpool/cmd/rrpool/iostreams"
)

func TestABlockCannotHide(t *testing.T) {
	for name, tc := range map[string]struct{ page, says string }{
		"behind another word for shell":               {"```bash\na\n```\n", `line 1: a fence says "bash"`},
		"behind no word at all":                       {"text\n\n```\na\n```\n", `line 3: a fence says ""`},
		"behind an unknown comment":                   {"<!-- skip: slow -->\n```sh\na\n```\n", `line 1: "<!-- skip: slow -->" is neither`},
		"without a reason":                            {"<!-- not run: -->\n```sh\na\n```\n", "is neither"},
		"behind a comment that is not directly above": {"<!-- not run: slow -->\n\n```sh\na\n```\n", "line 1: <!-- not run: slow --> does not stand"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Blocks([]byte(tc.page))
			require.ErrorContains(t, err, tc.says)
		})
	}
}

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
}

func TestABlockThatCannotBeTypedIsFound(t *testing.T) {
	require.ErrorContains(t, typable(Block{Text: "kubectl cordon <node>\n"}), "<node> in a command")
	require.ErrorContains(t, typable(Block{Text: "for node in a b; do\n  echo\n"}), "syntax error")
	require.ErrorContains(t, typable(Block{Text: "kubectl get nodes --selector \"!$role\"\n"}), `takes "!$ro" for a command typed before`)
	require.ErrorContains(t, typable(Block{Text: "echo !!\n"}), "typed before")
	require.NoError(t, typable(Block{Text: "kubectl get nodes --selector '!'\"$role\"\nif ! true || [ a != b ]; then echo a; fi\n"}))
	require.NoError(t, typable(Block{Text: "read line <\"$file\" >/dev/null\n"}))
}

// call is the program rrpool as a page calls it, in a block or, with line 0, in a sentence.
type call struct {
	line int
	text string
}

var (
	// called begins a call, in a block or behind a prompt. What comes before it on its line is another command.
	called = regexp.MustCompile(`(?:^|[;|&(]\s*|\$ )(?:kubectl )?rrpool((?:\s+[^;|&()#]*)?)`)
	// span is a call in a sentence. A name such as rrpool-manager is none, nor is a namespace or a label.
	span = regexp.MustCompile(`^(?:kubectl )?rrpool (\S.*)$`)
	word = regexp.MustCompile(`'[^']*'|"[^"]*"|\S+`)
)

func calls(source []byte) []call {
	var out []call
	_ = ast.Walk(goldmark.DefaultParser().Parse(text.NewReader(source)), func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		switch n := n.(type) {
		case *ast.FencedCodeBlock:
			if language := string(n.Language(source)); entering && (language == "sh" || language == "console") {
				out = append(out, callsIn(lineOf(source, n), string(n.Lines().Value(source)), language == "console")...)
			}
		case *ast.CodeSpan:
			if match := span.FindStringSubmatch(string(n.Text(source))); entering && match != nil { //nolint:staticcheck // SA1019: of a span, it is the text
				out = append(out, call{text: match[1]})
			}
		}
		return ast.WalkContinue, nil
	})
	return out
}

// callsIn finds the calls in a block. Of what is shown, only what stands behind a prompt is one.
func callsIn(first int, block string, prompted bool) []call {
	var out []call
	for i, line := range strings.Split(strings.ReplaceAll(block, "\\\n", "  "), "\n") {
		if prompted && !strings.HasPrefix(line, "$ ") {
			continue
		}
		for _, match := range called.FindAllStringSubmatch(line, -1) {
			out = append(out, call{line: first + i, text: strings.TrimSpace(match[1])})
		}
	}
	return out
}

// check says what is wrong with a call: a command, a flag or a value that the program does not have. Each call has a program of its
// own: flags that were given stay given.
func (c call) check() error {
	var args []string
	for _, w := range word.FindAllString(c.text, -1) {
		if strings.HasPrefix(w, ">") || strings.HasPrefix(w, "2>") {
			break
		}
		args = append(args, strings.Trim(w, `'"`))
	}
	cmd, rest, err := command.New(iostreams.Program, iostreams.System()).Find(args)
	if err != nil {
		return err
	}
	// A sentence may name a flag without a value.
	var short *pflag.ValueRequiredError
	if err := cmd.ParseFlags(rest); err != nil && (c.line > 0 || !errors.As(err, &short)) {
		return err
	}
	return cmd.ValidateArgs(cmd.Flags().Args())
}

// Whatever a page says to type, the program has.
func TestEveryCallOfAPageIsUnderstood(t *testing.T) {
	count := 0
	for _, page := range pages(t) {
		source, err := os.ReadFile(page)
		require.NoError(t, err)
		for _, c := range calls(source) {
			count++
			require.NoError(t, c.check(), "%s:%d: rrpool %s", page, c.line, c.text)
		}
	}
	require.Greater(t, count, 80)
}

func TestACallThatIsWrongIsFound(t *testing.T) {
	for wrong, says := range map[string]string{
		"statsu":            `"statsu"`,
		"status --wach":     "--wach",
		"plan --nodes five": "five",
		"plan now":          "now",
		"migrate -f":        "needs an argument",
		"plan -o picture":   "picture",
	} {
		require.ErrorContains(t, call{1, wrong}.check(), says)
	}
	require.NoError(t, call{0, "migrate -f"}.check(), "in a sentence")
	for _, right := range []string{"", "status -v", "plan -f 'a file.yaml' >plan.txt", "plan --nodes 500 --zones 3"} {
		require.NoError(t, call{1, right}.check(), right)
	}
}
