package walkthrough

import (
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/text"
)

// Call is the program rrpool as a page calls it, in a block or in a sentence.
type Call struct {
	// Line is 0 in a sentence.
	Line int
	Text string
}

var (
	// called begins a call, in a block or behind a prompt. What comes before it on its line is another command.
	called = regexp.MustCompile(`(?:^|[;|&(]\s*|\$ )(?:kubectl )?rrpool((?:\s+[^;|&()#]*)?)`)
	// span is a call in a sentence. A name such as rrpool-manager is none, nor is a namespace or a label.
	span = regexp.MustCompile(`^(?:kubectl )?rrpool (\S.*)$`)
	word = regexp.MustCompile(`'[^']*'|"[^"]*"|\S+`)
)

// Calls are all calls of a page.
func Calls(source []byte) []Call {
	var calls []Call
	_ = ast.Walk(goldmark.DefaultParser().Parse(text.NewReader(source)), func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		if !entering {
			return ast.WalkContinue, nil
		}
		switch n := n.(type) {
		case *ast.FencedCodeBlock:
			if language := string(n.Language(source)); language == "sh" || language == "console" {
				calls = append(calls, callsIn(lineOf(source, n), string(n.Lines().Value(source)), language == "console")...)
			}
		case *ast.CodeSpan:
			if match := span.FindStringSubmatch(string(n.Text(source))); match != nil { //nolint:staticcheck // SA1019: of a span, it is the text
				calls = append(calls, Call{Text: match[1]})
			}
		}
		return ast.WalkContinue, nil
	})
	return calls
}

// callsIn finds the calls in a block. Of what is shown, only what stands behind a prompt is one.
func callsIn(first int, block string, prompted bool) []Call {
	var calls []Call
	for i, line := range strings.Split(strings.ReplaceAll(block, "\\\n", "  "), "\n") {
		if prompted && !strings.HasPrefix(line, "$ ") {
			continue
		}
		for _, match := range called.FindAllStringSubmatch(line, -1) {
			calls = append(calls, Call{Line: first + i, Text: strings.TrimSpace(match[1])})
		}
	}
	return calls
}

// Check tells what is wrong with a call: a command, a flag or a value that the program does not have.
func (c Call) Check(root *cobra.Command) error {
	var args []string
	for _, w := range word.FindAllString(c.Text, -1) {
		if strings.HasPrefix(w, ">") || strings.HasPrefix(w, "2>") {
			break
		}
		args = append(args, strings.Trim(w, `'"`))
	}
	cmd, rest, err := root.Find(args)
	if err != nil {
		return fmt.Errorf("rrpool %s: %w", c.Text, err)
	}
	// A sentence may name a flag without a value.
	var short *pflag.ValueRequiredError
	if err := cmd.ParseFlags(rest); err != nil && (c.Line > 0 || !errors.As(err, &short)) {
		return fmt.Errorf("rrpool %s: %w", c.Text, err)
	}
	if err := cmd.ValidateArgs(cmd.Flags().Args()); err != nil {
		return fmt.Errorf("rrpool %s: %w", c.Text, err)
	}
	return nil
}
