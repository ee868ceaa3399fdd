//go:build linux

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
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

// rrpool types a command, shows what it says, and holds it to its exit code. Of an
// answer that is long for a demonstration only the first lines are shown, if most is not 0.
func (p prompt) rrpool(ctx context.Context, code, most int, words ...string) error {
	return p.run(ctx, &transcript{console: p.console, most: most}, code, words)
}

// move is the same for a command that first shows what will be done. Instead of that it says where it can be read.
func (p prompt) move(ctx context.Context, plan string, words ...string) error {
	return p.run(ctx, &transcript{console: p.console, plan: plan}, 0, words)
}

func (p prompt) run(ctx context.Context, said *transcript, code int, words []string) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	line := "rrpool " + strings.Join(words, " ")
	p.write("", "$ "+line)
	cmd := p.Command(ctx, words...)
	cmd.Stdout, cmd.Stderr = said, said // both through one pipe, so in the order in which they are said
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		return fmt.Errorf("calling %s: %w", line, err)
	}
	got := cmd.ProcessState.ExitCode()
	if said.end(got == code); got != code {
		return fmt.Errorf("%s ended with code %d instead of %d", line, got, code)
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

// transcript shows what a command says, line by line, so that nothing comes into the
// middle of a line. What it leaves out it counts.
type transcript struct {
	*console
	// most lines are shown, all with 0.
	most int
	// plan, when set, is shown instead of what comes after the first line until the mode
	// is set. Warnings are shown in any case.
	plan string

	rest   []byte
	lines  int
	hidden []string
}

// Write implements io.Writer.
func (t *transcript) Write(chunk []byte) (int, error) {
	t.rest = append(t.rest, chunk...)
	for {
		line, rest, whole := bytes.Cut(t.rest, []byte("\n"))
		if !whole {
			return len(chunk), nil
		}
		t.rest = rest
		t.line(string(line))
	}
}

func (t *transcript) line(line string) {
	t.lines++
	if t.plan != "" && strings.HasPrefix(line, "√ spec.mode is ") {
		t.write(fmt.Sprintf("[%d lines: %s]", len(t.hidden), t.plan))
		t.plan, t.hidden = "", nil
	}
	planned := t.plan != "" && t.lines > 1 && !strings.HasPrefix(line, "‼")
	if planned || t.most > 0 && t.lines > t.most {
		t.hidden = append(t.hidden, line)
		return
	}
	t.write(line)
}

// end says how much was left out, or all of that when the command did not do as expected.
func (t *transcript) end(expected bool) {
	if len(t.rest) > 0 {
		t.line(string(t.rest))
	}
	switch {
	case len(t.hidden) == 0:
	case expected && t.plan == "":
		t.write(fmt.Sprintf("[%d more lines]", len(t.hidden)))
	default:
		t.write(t.hidden...)
	}
}
