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

	"github.com/rrpool/rrpool/cmd/rrpool/command"
	"github.com/rrpool/rrpool/cmd/rrpool/iostreams"
)

func TestBlocksOfAPage(t *testing.T) {
	const page = "# A page\n\n## With `this`\n\n```sh\na=1\nb\n```\n\n```console\n$ not typed\n```\n\n1. in a list:\n\n   ```sh\n   c <<E\n     indented\n   E\n   ```\n\n" +
		"# Then\n\n<!-- not run: needs Docker -->\n```sh\ndocker run\n```\n\n<!-- on every node -->\n```sh\ncalicoctl node status\n```\n"
	blocks, err := Blocks([]byte(page))
	require.NoError(t, err)
	require.Equal(t, []Block{
		{Line: 6, Heading: "With `this`", Text: "a=1\nb\n"},
		{Line: 17, Heading: "With `this`", Text: "c <<E\n  indented\nE\n"},
		{Line: 26, Heading: "Then", Text: "docker run\n", Place: Nowhere, Reason: "needs Docker"},
		{Line: 31, Heading: "Then", Text: "calicoctl node status\n", Place: EveryNode},
	}, blocks)
	require.Equal(t, "c <<E", blocks[1].First())
}

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

// typable says why a block cannot be pasted into a shell.
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

// check parses a call with a program of its own: flags that were given stay given.
func check(c Call) error {
	return c.Check(command.New(iostreams.Program, iostreams.System()))
}

// Whatever a page says to type, the program has.
func TestEveryCallOfAPageIsUnderstood(t *testing.T) {
	all := pages(t)
	calls := 0
	for _, page := range all {
		source, err := os.ReadFile(page)
		require.NoError(t, err)
		for _, c := range Calls(source) {
			calls++
			require.NoError(t, check(c), "%s:%d", page, c.Line)
		}
	}
	require.Greater(t, calls, 80)
	t.Logf("%d calls in %d pages", calls, len(all))
}

func TestCallsOfAPage(t *testing.T) {
	const page = "Type `rrpool status --watch`, not `rrpool-manager` nor `rrpool.io/pool`.\n\n```sh\nrrpool plan \\\n  --nodes 5   # a remark\nkubectl get rrp\n" +
		"a=$(rrpool cost -o json | jq .)\n```\n\n```console\n$ kubectl rrpool check\nrrpool is not typed here\n```\n\n```yaml\nrrpool nor here\n```\n"
	require.Equal(t, []Call{
		{Text: "status --watch"}, {Line: 4, Text: "plan     --nodes 5"}, {Line: 6, Text: "cost -o json"}, {Line: 11, Text: "check"},
	}, Calls([]byte(page)))
}

func TestACallThatIsWrongIsFound(t *testing.T) {
	for wrong, says := range map[string]string{
		"statsu":              `"statsu"`,
		"status --wach":       "--wach",
		"plan --nodes five":   "five",
		"plan now":            "now",
		"plan --mode Mesh":    "Mesh",
		"migrate -f":          "needs an argument",
		"topology -o picture": "picture",
	} {
		t.Run(wrong, func(t *testing.T) {
			require.ErrorContains(t, check(Call{Line: 1, Text: wrong}), says)
		})
	}
	require.NoError(t, check(Call{Text: "migrate -f"}), "in a sentence")
	for _, right := range []string{"", "status -v", "plan -f 'a file.yaml' >plan.txt", "plan --nodes 500 --zones 3"} {
		require.NoError(t, check(Call{Text: right}), right)
	}
}
