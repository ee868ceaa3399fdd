//go:build linux

package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/rrpool/rrpool/cmd/rrpool/iostreams"
	"github.com/rrpool/rrpool/test/e2e/site"
)

// patience is how long a command may take on a slow machine.
const patience = 6 * time.Minute

// changes is the exit code of a plan that has any.
const changes = 2

// prompt is where commands are typed, as a user does.
type prompt struct {
	*console
	*site.Site
}

// rrpool types a command, shows what it says, and holds it to its exit code. Of an answer that is long for a demonstration only the first
// lines are shown, if most is not 0: all of it when the code is another.
func (p prompt) rrpool(ctx context.Context, code, most int, words ...string) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	line := "rrpool " + strings.Join(words, " ")
	p.write("", "$ "+line)
	cmd := p.Command(ctx, words...)
	said, err := cmd.StdoutPipe()
	cmd.Stderr = cmd.Stdout // both through one pipe, so in the order in which they are said
	if err = errors.Join(err, cmd.Start()); err != nil {
		return fmt.Errorf("calling %s: %w", line, err)
	}
	var hidden []string
	shown := 0
	for lines := bufio.NewScanner(said); lines.Scan(); {
		if shown++; most > 0 && shown > most {
			hidden = append(hidden, lines.Text())
			continue
		}
		p.write(lines.Text())
	}
	_ = cmd.Wait() // the code says how it ended
	if got := cmd.ProcessState.ExitCode(); got != code {
		p.write(hidden...)
		return fmt.Errorf("%s ended with code %d instead of %d", line, got, code)
	}
	if len(hidden) > 0 {
		p.write(fmt.Sprintf("[%d more lines]", len(hidden)))
	}
	return nil
}

// console writes what happens. What it is given at once stays together.
type console struct {
	mu    sync.Mutex
	to    iostreams.Streams
	begun time.Time
}

func newConsole(to iostreams.Streams) *console { return &console{to: to, begun: to.Now()} }

// title begins a part.
func (t *console) title(text string) { t.write("", "== "+text) }

// say is one line of what happens outside of the commands, with the seconds since the start.
func (t *console) say(text string) {
	t.write(fmt.Sprintf("%6.1fs  %s", t.to.Now().Sub(t.begun).Seconds(), text))
}

// write writes lines, in colours where it is a terminal.
func (t *console) write(lines ...string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, line := range lines {
		_, _ = fmt.Fprintln(t.to.Out, t.to.Paint(colour(line), line))
	}
}

// colour is that of the commands where they write to a terminal themselves. Here they write to us.
func colour(line string) string {
	first, _ := utf8.DecodeRuneInString(line)
	return map[rune]string{
		'=': iostreams.Bold, '$': iostreams.Bold, '[': iostreams.Dim, '√': iostreams.Green, '‼': iostreams.Yellow, '×': iostreams.Red,
	}[first]
}
