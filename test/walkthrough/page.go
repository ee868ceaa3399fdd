// Package walkthrough types what the docs say. The blocks of shell commands of a page are found as GitHub finds them, and run in
// their order, by one real bash, in a lab cluster.
package walkthrough

import (
	"bytes"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/text"
)

// Place is where a block is typed.
type Place int

const (
	// Here is the shell of the page, which all its blocks share.
	Here Place = iota
	// EveryNode is a shell of its own on each node, as root.
	EveryNode
	// Nowhere is for a block that cannot be run in the lab.
	Nowhere
)

// Block is a fenced block of shell commands.
type Block struct {
	// Line is that of its first command, from 1.
	Line int
	// Heading is what it stands under.
	Heading string
	Text    string
	Place   Place
	// Reason is why it is not run.
	Reason string
}

// First is the first command, to tell blocks apart.
func (b Block) First() string {
	line, _, _ := strings.Cut(strings.TrimSpace(b.Text), "\n")
	return line
}

var (
	notRun   = regexp.MustCompile(`^<!-- not run: (\S.*) -->$`)
	onNodes  = "<!-- on every node -->"
	notShell = []string{"console", "yaml", "json", "mermaid", "text", "promql", "go"}
)

// Blocks finds the blocks of shell commands of a page, in their order. Every fence says what it holds, so that none is overlooked: sh
// is for commands. A comment directly above a block is one of those that are known: not run, with a reason, or on every node.
func Blocks(source []byte) ([]Block, error) {
	var blocks []Block
	heading := ""
	err := ast.Walk(goldmark.DefaultParser().Parse(text.NewReader(source)), func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		if n.Kind() == ast.KindHeading && entering {
			heading = string(n.Lines().Value(source))
		}
		fence, is := n.(*ast.FencedCodeBlock)
		if !is || !entering {
			return ast.WalkContinue, nil
		}
		b := Block{Line: lineOf(source, fence), Heading: heading, Text: string(fence.Lines().Value(source))}
		language := string(fence.Language(source))
		if slices.Contains(notShell, language) {
			return ast.WalkSkipChildren, nil
		}
		if language != "sh" {
			return ast.WalkStop, fmt.Errorf("line %d: a fence says %q: sh is for commands that are run, console for what is only shown", b.Line-1, language)
		}
		if err := b.mark(source, fence); err != nil {
			return ast.WalkStop, err
		}
		blocks = append(blocks, b)
		return ast.WalkSkipChildren, nil
	})
	return blocks, err
}

// mark reads the comment above the block, if there is one.
func (b *Block) mark(source []byte, fence ast.Node) error {
	above, is := fence.PreviousSibling().(*ast.HTMLBlock)
	if !is {
		return nil
	}
	comment := strings.TrimSpace(string(above.Lines().Value(source)))
	if lineOf(source, above)+strings.Count(comment, "\n")+2 != b.Line {
		return fmt.Errorf("line %d: %s does not stand on the line directly above its fence", lineOf(source, above), comment)
	}
	match := notRun.FindStringSubmatch(comment)
	switch {
	case comment == onNodes:
		b.Place = EveryNode
	case match != nil:
		b.Place, b.Reason = Nowhere, match[1]
	default:
		return fmt.Errorf("line %d: %q is neither <!-- not run: reason --> nor %s", lineOf(source, above), comment, onNodes)
	}
	return nil
}

// lineOf is the line on which the content of a block begins.
func lineOf(source []byte, n ast.Node) int {
	if n.Lines().Len() == 0 {
		return 0
	}
	return 1 + bytes.Count(source[:n.Lines().At(0).Start], []byte("\n"))
}
