package iostreams

import (
	"fmt"
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"
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
	lines := strings.Split(wrapped(paragraph, max(s.Width-len(indent), 20)), "\n")
	for i := range lines {
		lines[i] = strings.TrimRight(lines[i], " ")
	}
	return strings.Join(lines, "\n"+indent)
}

// wrapped breaks between words, and words that are longer than the width.
func wrapped(paragraph string, width int) string {
	return text.WrapText(text.WrapSoft(paragraph, width), width)
}

// Say writes a paragraph to Out, in a colour after the space that it begins with; further lines are indented.
func (s Streams) Say(colour, indent, paragraph string) {
	words := strings.TrimLeft(paragraph, " \n")
	before := strings.TrimSuffix(paragraph, words)
	_, _ = fmt.Fprintln(s.Out, before+s.Paint(colour, s.Fold(words, indent)))
}

// NewTable makes a table without a frame and with a line below the header. The first columns, as many as names, are
// wrapped where the terminal has a width; the others are numbers.
func NewTable(width, names int, header ...any) table.Writer {
	const gap, number = "  ", 12
	w := table.NewWriter()
	style := table.StyleDefault
	style.Options = table.Options{SeparateHeader: true}
	style.Box.PaddingLeft, style.Box.PaddingRight = "", gap
	style.Box.MiddleHorizontal = "-"
	style.Format.Header = text.FormatDefault
	w.SetStyle(style)
	w.SuppressTrailingSpaces()
	w.AppendHeader(header)
	columns := make([]table.ColumnConfig, len(header))
	for i := range columns {
		columns[i] = table.ColumnConfig{Number: i + 1}
		if i >= names {
			columns[i].Align, columns[i].AlignHeader = text.AlignRight, text.AlignRight
		} else if width > 0 {
			columns[i].WidthMax, columns[i].WidthMaxEnforcer = (width-number*(len(header)-names))/names-len(gap), wrapped
		}
	}
	w.SetColumnConfigs(columns)
	return w
}

// Number counts something: "1 node", "3 nodes".
func Number(n int, of string) string {
	if n == 1 {
		return "1 " + of
	}
	return fmt.Sprintf("%d %ss", n, of)
}
