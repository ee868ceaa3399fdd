package command

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rrpool/rrpool/cmd/rrpool/terminal"
)

// Commands are typed in blocks, on lines of their own or behind something of the shell's, up to what is the shell's again; in
// console blocks behind a dollar sign; and in the text as code.
var (
	fenced  = regexp.MustCompile("(?ms)^ *```(\\w*)\n(.*?)^ *```$")
	inBlock = map[string]*regexp.Regexp{
		"sh":      regexp.MustCompile(`(?m)(?:^ *|[|;&(] ?)(?:kubectl )?rrpool( [^\n#|;&<>()]*)`),
		"console": regexp.MustCompile(`(?m)^\$ (?:kubectl )?rrpool( [^\n#|;&<>()]*)`),
	}
	inText = regexp.MustCompile("`(?:kubectl )?rrpool( [^`#|;&<>()…]*)")
)

// Each command that a page tells to type exists, and takes what it is given.
func TestEveryCommandOfThePages(t *testing.T) {
	seen := 0
	for _, pattern := range []string{"README.md", ".github/*.md", "docs/*.md", "docs/runbook/*.md"} {
		pages, err := filepath.Glob(filepath.Join("../../..", pattern))
		require.NoError(t, err)
		require.NotEmpty(t, pages, pattern)
		for _, page := range pages {
			text, err := os.ReadFile(page)
			require.NoError(t, err)
			wrong, count := mistyped(string(text))
			require.Empty(t, wrong, page)
			seen += count
		}
	}
	require.Greater(t, seen, 100)
	wrong, _ := mistyped("`rrpool plan --mode FullMesh`\n```sh\nrrpool stats   # x\nrrpool check --pro | tee\n```\n`rrpool status now`")
	require.Len(t, wrong, 3, "%q", wrong)
}

func mistyped(text string) (wrong []string, count int) {
	var all [][]string
	for _, block := range fenced.FindAllStringSubmatch(text, -1) {
		if commands := inBlock[block[1]]; commands != nil {
			all = append(all, commands.FindAllStringSubmatch(block[2], -1)...)
		}
	}
	all = append(all, inText.FindAllStringSubmatch(fenced.ReplaceAllString(text, ""), -1)...)
	for _, match := range all {
		err := takes(strings.Fields(strings.ReplaceAll(match[1], `"`, "")))
		if err != nil && !strings.Contains(err.Error(), "flag needs an argument") { // named in the text, not typed
			wrong = append(wrong, fmt.Sprintf("rrpool%s: %v", match[1], err))
		}
	}
	return wrong, len(all)
}

func takes(args []string) error {
	command, rest, err := New("rrpool", terminal.Streams{}).Find(args)
	if err == nil {
		err = command.ParseFlags(rest)
	}
	if err == nil {
		err = command.ValidateArgs(command.Flags().Args())
	}
	return err
}
