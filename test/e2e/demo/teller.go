//go:build linux

package main

import (
	"fmt"
	"io"
	"sync"
	"time"
)

// teller writes what happens. What it is given at once stays together.
type teller struct {
	mu    sync.Mutex
	out   io.Writer
	begun time.Time
}

func newTeller(out io.Writer) *teller { return &teller{out: out, begun: time.Now()} }

// title begins a part.
func (t *teller) title(text string) { t.write("\n== %s\n", text) }

// say is one line of what happens outside of the commands, with the seconds since the
// start.
func (t *teller) say(text string) {
	t.write("%6.1fs  %s\n", time.Since(t.begun).Seconds(), text)
}

func (t *teller) write(format string, args ...any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	_, _ = fmt.Fprintf(t.out, format, args...)
}
