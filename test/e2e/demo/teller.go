//go:build linux

package main

import (
	"fmt"
	"regexp"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/rrpool/rrpool/cmd/rrpool/iostreams"
)

// teller writes what happens. What it is given at once stays together.
type teller struct {
	mu    sync.Mutex
	to    iostreams.Streams
	begun time.Time
}

func newTeller(to iostreams.Streams) *teller { return &teller{to: to, begun: to.Now()} }

// title begins a part.
func (t *teller) title(text string) { t.write("", "== "+text) }

// say is one line of what happens outside of the commands, with the seconds since the
// start.
func (t *teller) say(text string) {
	t.write(fmt.Sprintf("%6.1fs  %s", t.to.Now().Sub(t.begun).Seconds(), text))
}

// write writes lines, as a terminal shows them best.
func (t *teller) write(lines ...string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, line := range lines {
		_, _ = fmt.Fprintln(t.to.Out, t.to.Paint(colour(line), fold(t.to, line)))
	}
}

// colour is that of the commands where they write to a terminal themselves. Here they
// write to us.
func colour(line string) string {
	for _, look := range []struct{ begins, colour string }{
		{"== ", iostreams.Bold},
		{"$ ", iostreams.Bold},
		{"[", iostreams.Dim},
		{"√", iostreams.Green},
		{"‼", iostreams.Yellow},
		{"×", iostreams.Red},
	} {
		if strings.HasPrefix(line, look.begins) {
			return look.colour
		}
	}
	return ""
}

// fold breaks a line that is too long for the terminal, between words.
func fold(to iostreams.Streams, line string) string {
	if utf8.RuneCountInString(line) <= to.Width {
		return line
	}
	head := before.FindString(line)
	to.Width -= len(head)
	return head + to.Fold(line[len(head):], strings.Repeat(" ", max(len(head), 2)))
}

// before is what stands before the words of a line: a time, or what has none.
var before = regexp.MustCompile(`^ *(?:\d+\.\ds {2})?`)
