package recording

import (
	"fmt"
	"regexp"
	"strings"
	"time"
	"unicode"
)

// Line is one of the screen.
type Line struct {
	// At is when it was complete.
	At    time.Duration
	Spans []Span
}

// Span is text of one look: a class of the picture's style, none for plain text.
type Span struct{ Look, Text string }

// Text is the line without its looks.
func (l Line) Text() string {
	var out strings.Builder
	for _, s := range l.Spans {
		out.WriteString(s.Text)
	}
	return out.String()
}

// looks are the sequences that our commands write (package terminal), and the class that
// each is drawn in.
var looks = map[string]string{
	"\x1b[0m": "", "\x1b[1m": "bold", "\x1b[2m": "dim", "\x1b[31m": "red", "\x1b[32m": "green", "\x1b[33m": "yellow",
}

var sequence = regexp.MustCompile(`\x1b\[[0-9;]*m`)

// Lines are those of the screen, from its first to its last, where nothing is ever drawn
// over: a text that does more to a terminal than colours and ends of lines is an error.
// A line that is wider than the terminal goes on in the next.
func (c Cast) Lines() ([]Line, error) {
	s := screen{width: c.Width, lines: []Line{{}}}
	for _, e := range c.Events {
		s.now = e.At
		if err := s.write(e.Text); err != nil {
			return nil, fmt.Errorf("what was written after %s: %w", e.At, err)
		}
	}
	if s.column == 0 {
		s.lines = s.lines[:len(s.lines)-1]
	}
	return s.lines, nil
}

type screen struct {
	width, column int
	look          string
	now           time.Duration
	lines         []Line
}

func (s *screen) write(text string) error {
	for text != "" {
		at := sequence.FindStringIndex(text)
		if at == nil {
			at = []int{len(text), len(text)}
		}
		if err := s.print(text[:at[0]]); err != nil {
			return err
		}
		if code := text[at[0]:at[1]]; code != "" {
			look, known := looks[code]
			if !known {
				return fmt.Errorf("%q is none of our colours", code)
			}
			s.look = look
		}
		text = text[at[1]:]
	}
	return nil
}

func (s *screen) print(text string) error {
	for _, r := range strings.ReplaceAll(text, "\r\n", "\n") {
		switch {
		case r == '\n':
			s.next()
		case !unicode.IsPrint(r):
			return fmt.Errorf("%q cannot be drawn", r)
		default:
			if s.column == s.width {
				s.next()
			}
			s.put(r)
		}
	}
	return nil
}

func (s *screen) next() {
	s.lines[len(s.lines)-1].At = s.now
	s.lines = append(s.lines, Line{At: s.now})
	s.column = 0
}

func (s *screen) put(r rune) {
	line := &s.lines[len(s.lines)-1]
	if n := len(line.Spans); n == 0 || line.Spans[n-1].Look != s.look {
		line.Spans = append(line.Spans, Span{Look: s.look})
	}
	line.Spans[len(line.Spans)-1].Text += string(r)
	line.At = s.now
	s.column++
}
