// Package iostreams holds what all commands of rrpool share: their streams, flags and tables, and how an error becomes one sentence.
package iostreams

import (
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"
	"golang.org/x/term"

	"github.com/rrpool/rrpool/controllers/plan"
)

// Streams are the streams, terminal, clock and environment of a command.
type Streams struct {
	In       io.Reader
	Out, Err io.Writer
	// Terminal is set if Out is a terminal. Interactive is set if In is one, so that the user can be asked.
	Terminal, Interactive bool
	// Width is the width of the terminal in columns, 0 for no limit.
	Width  int
	Colour bool
	Now    func() time.Time
	// Sleep waits, and returns early when the channel is closed.
	Sleep  func(time.Duration, <-chan struct{})
	Getenv func(string) string
}

// System returns the streams of this process.
func System() Streams {
	s := Streams{
		In: os.Stdin, Out: Guard(os.Stdout), Err: Guard(os.Stderr),
		Terminal:    term.IsTerminal(int(os.Stdout.Fd())),
		Interactive: term.IsTerminal(int(os.Stdin.Fd())),
		Now:         time.Now,
		Sleep:       sleep,
		Getenv:      os.Getenv,
	}
	if width, _, err := term.GetSize(int(os.Stdout.Fd())); err == nil && s.Terminal {
		s.Width = width
	}
	return s.Settle()
}

// Settle sets Colour from Terminal, NO_COLOR and TERM.
func (s Streams) Settle() Streams {
	s.Colour = s.Terminal && s.Getenv("NO_COLOR") == "" && s.Getenv("TERM") != "dumb"
	return s
}

func sleep(period time.Duration, done <-chan struct{}) {
	select {
	case <-time.After(period):
	case <-done:
	}
}

// guard is a writer that replaces control characters, except our colours. Names and messages
// from the cluster and the cloud could contain escape sequences, which a terminal would obey.
type guard struct{ to io.Writer }

// Guard makes everything that is written to w safe to print on a terminal.
func Guard(w io.Writer) io.Writer { return guard{w} }

// Write implements io.Writer.
func (g guard) Write(content []byte) (int, error) {
	if _, err := io.WriteString(g.to, Visible(string(content))); err != nil {
		return 0, err //nolint:wrapcheck // a Writer passes on
	}
	return len(content), nil
}

// hidden matches our colours and every character that is not printable.
var hidden = regexp.MustCompile("\x1b\\[(?:[012]|3[123])m|[^\n\t\\p{L}\\p{M}\\p{N}\\p{P}\\p{S}\\p{Zs}]")

// Visible replaces every character that is not printable by �, except our colours.
func Visible(text string) string {
	text = string([]rune(text)) // replaces invalid UTF-8
	return hidden.ReplaceAllStringFunc(text, func(found string) string {
		if slices.Contains(colours, found) {
			return found
		}
		return string(utf8.RuneError)
	})
}

// The colours, as ANSI sequences.
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

// Paint colours each line of the text, if s.Colour is set.
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

// wrapped breaks lines between words, and inside words that are longer than the width.
func wrapped(paragraph string, width int) string {
	return text.WrapText(text.WrapSoft(paragraph, width), width)
}

// Say writes a paragraph to Out, folded, in a colour; further lines are indented. Spaces and newlines at the beginning of the paragraph are kept.
func (s Streams) Say(colour, indent, paragraph string) {
	words := strings.TrimLeft(paragraph, " \n")
	before := strings.TrimSuffix(paragraph, words)
	_, _ = fmt.Fprintln(s.Out, before+s.Paint(colour, s.Fold(words, indent)))
}

// Page returns the URL of a page of the docs. If before and the URL do not fit in one line of the
// terminal, it returns the path in the repository: a URL that is broken into two lines does not work.
func (s Streams) Page(page, before string) string {
	if address := plan.Docs + page; s.Width <= 0 || len(before)+len(address) <= s.Width {
		return address
	}
	return "docs/" + page
}

// NewTable makes a table without a frame and with a line below the header. names is the number of columns
// with text, which come first; their text is wrapped if width is not 0. The other columns hold numbers.
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
			room := (width-number*(len(header)-names))/names - len(gap)
			columns[i].WidthMax, columns[i].WidthMaxEnforcer = max(room, len("us-south-1")), wrapped
		}
	}
	w.SetColumnConfigs(columns)
	return w
}

// Number renders a count of something: "1 node", "3 nodes".
func Number(n int, of string) string {
	if n == 1 {
		return "1 " + of
	}
	return fmt.Sprintf("%d %ss", n, of)
}
