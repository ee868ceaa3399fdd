// Package walkthrough runs the shell commands of the docs. It finds a page's blocks of commands as GitHub does, and runs them in their order, by
// one bash, in a lab cluster.
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

// Place is where a block runs.
type Place int

const (
	// Here is the shell that all blocks of the page share.
	Here Place = iota
	// EveryNode is a shell on each node, as root.
	EveryNode
	// Nowhere is for what is impossible in the lab.
	Nowhere
)

// Block is a fenced block of shell commands.
type Block struct {
	// Line is the line of its first command, from 1.
	Line int
	// Heading is the heading before it.
	Heading string
	Text    string
	Place   Place
	// Reason is why it does not run.
	Reason string
}

// First returns the first command, which identifies the block.
func (b Block) First() string {
	line, _, _ := strings.Cut(strings.TrimSpace(b.Text), "\n")
	return line
}

var (
	notRun   = regexp.MustCompile(`^<!-- not run: (\S.*) -->$`)
	onNodes  = "<!-- on every node -->"
	notShell = []string{"console", "yaml", "json", "mermaid", "text", "promql", "go"}
)

// Blocks returns the blocks of shell commands of a page, in their order. Every code block must name its language; that of commands is sh. A
// comment directly before a block must be known: that it does not run, with the reason, or that it runs on every node.
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

// mark parses the comment before the block, if there is one.
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

// lineOf returns the line on which the content of a block begins.
func lineOf(source []byte, n ast.Node) int {
	if n.Lines().Len() == 0 {
		return 0
	}
	return 1 + bytes.Count(source[:n.Lines().At(0).Start], []byte("\n"))
}
