//go:build linux

package main

import (
	"bytes"
	"fmt"
	"strings"
)

// transcript shows what a command says, line by line, so that nothing comes into the
// middle of a line. What it leaves out it counts.
type transcript struct {
	*teller
	// most lines are shown, all with 0.
	most int
	// plan, when set, is told instead of what comes after the first line until the mode
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
