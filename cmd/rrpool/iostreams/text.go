package iostreams

import (
	"fmt"
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"

	"github.com/rrpool/rrpool/controllers/plan"
)

// ANSI sequences.
const (
	Bold   = "\x1b[1m"
	Dim    = "\x1b[2m"
	Red    = "\x1b[31m"
	Green  = "\x1b[32m"
	Yellow = "\x1b[33m"
	plain  = "\x1b[0m"
)

// colours are the sequences that Paint writes.
var colours = []string{Bold, Dim, Red, Green, Yellow, plain}

// Paint colours each line of the text when the terminal shows colours.
func (s Streams) Paint(colour, text string) string {
	if !s.Colour || text == "" || colour == "" {
		return text
	}
	return colour + strings.ReplaceAll(text, "\n", plain+"\n"+colour) + plain
}

// Fold wraps a paragraph at the terminal's width; further lines are indented.
func (s Streams) Fold(paragraph, indent string) string {
	if s.Width <= 0 {
		return paragraph
	}
	width := max(s.Width-len(indent), 20)
	lines := strings.Split(text.WrapText(text.WrapSoft(paragraph, width), width), "\n")
	for i := range lines {
		lines[i] = strings.TrimRight(lines[i], " ")
	}
	return strings.Join(lines, "\n"+indent)
}

// Say writes a paragraph to Out, in a colour after the space that it begins with; further lines are indented.
func (s Streams) Say(colour, indent, paragraph string) {
	words := strings.TrimLeft(paragraph, " \n")
	before := strings.TrimSuffix(paragraph, words)
	_, _ = fmt.Fprintln(s.Out, before+s.Paint(colour, s.Fold(words, indent)))
}

// Gap is between columns.
const Gap = "  "

// NewTable makes a table without a frame and with a line below the header.
func NewTable() table.Writer {
	w := table.NewWriter()
	style := table.StyleDefault
	style.Options = table.Options{SeparateHeader: true}
	style.Box.PaddingLeft, style.Box.PaddingRight = "", Gap
	style.Box.MiddleHorizontal = "-"
	style.Format.Header = text.FormatDefault
	w.SetStyle(style)
	w.SuppressTrailingSpaces()
	return w
}

// Right aligns a column, counted from 1, to the right.
func Right(column int) table.ColumnConfig {
	return table.ColumnConfig{Number: column, Align: text.AlignRight, AlignHeader: text.AlignRight}
}

// Number counts something: "1 node", "3 nodes".
func Number(n int, of string) string {
	if n == 1 {
		return "1 " + of
	}
	return fmt.Sprintf("%d %ss", n, of)
}

// Named is how many items of a list Few names.
const Named = plan.Named

// Few names the first three of a list and counts the rest.
func Few(items []string) string { return plan.Few(items) }
