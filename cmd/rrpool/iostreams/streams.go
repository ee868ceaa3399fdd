// Package iostreams is what all commands of rrpool share: their streams, flags, tables
// and files, and how an error becomes one sentence.
package iostreams

import (
	"io"
	"os"
	"regexp"
	"slices"
	"strconv"
	"time"
	"unicode/utf8"

	"golang.org/x/term"
)

// Streams are all that a command reaches besides its flags and the cluster. Tests give their own.
type Streams struct {
	In       io.Reader
	Out, Err io.Writer
	// Terminal: Out is a terminal. Interactive: In is one, so that questions can be asked.
	Terminal, Interactive bool
	// Width of the terminal in columns, 0 without a limit.
	Width  int
	Colour bool
	Now    func() time.Time
	// Sleep waits, and returns early when the channel is closed.
	Sleep  func(time.Duration, <-chan struct{})
	Getenv func(string) string
}

// System are the streams of this process.
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

// Settle applies COLUMNS, NO_COLOR and TERM.
func (s Streams) Settle() Streams {
	if columns, err := strconv.Atoi(s.Getenv("COLUMNS")); err == nil && columns > 0 && s.Terminal {
		s.Width = columns
	}
	s.Colour = s.Terminal && s.Getenv("NO_COLOR") == "" && s.Getenv("TERM") != "dumb"
	return s
}

func sleep(period time.Duration, done <-chan struct{}) {
	select {
	case <-time.After(period):
	case <-done:
	}
}

// guard removes control characters. Commands print names and messages from the cluster
// and the cloud, and a terminal would obey sequences in them: only our colours pass.
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

// hidden matches our colours, and every character that a terminal does not show as itself.
var hidden = regexp.MustCompile("\x1b\\[(?:[012]|3[123])m|[^\n\t\\p{L}\\p{M}\\p{N}\\p{P}\\p{S}\\p{Zs}]")

// Visible replaces every character that a terminal does not show as itself by �, except our colours.
func Visible(text string) string {
	text = string([]rune(text)) // without bytes that are no characters
	return hidden.ReplaceAllStringFunc(text, func(found string) string {
		if slices.Contains(colours, found) {
			return found
		}
		return string(utf8.RuneError)
	})
}
