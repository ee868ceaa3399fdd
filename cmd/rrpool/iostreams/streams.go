// Package iostreams is what all commands of rrpool share towards the one who calls
// them: streams, flags, tables, files, and one sentence for an error.
package iostreams

import (
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/jedib0t/go-pretty/v6/text"
)

// Streams are all that a command touches besides its flags and the cluster, so that
// tests can put their own in place.
type Streams struct {
	In       io.Reader
	Out, Err io.Writer
	// Terminal says that a person looks at Out, Interactive that one can answer on In.
	Terminal, Interactive bool
	// Width of the terminal in columns, 0 without a limit.
	Width  int
	Colour bool
	Now    func() time.Time
	// Sleep waits, and returns early with the context's error; nil for a real wait.
	// Only what is asked again and again, such as --watch, waits.
	Sleep  func(time.Duration, <-chan struct{})
	Getenv func(string) string
	// Web is for what is not the cluster.
	Web *http.Client
}

// webTimeout bounds each request to what is not the cluster.
const webTimeout = 15 * time.Second

// System are the streams of this process.
func System() Streams {
	s := Streams{
		In: os.Stdin, Out: Guard(os.Stdout), Err: Guard(os.Stderr),
		Terminal:    isTerminal(os.Stdout),
		Interactive: isTerminal(os.Stdin),
		Now:         time.Now,
		Getenv:      os.Getenv,
		Web:         &http.Client{Timeout: webTimeout},
	}
	if s.Terminal {
		s.Width = columns(os.Stdout)
	}
	return s.Settle()
}

// Settle applies what the environment says about the terminal.
func (s Streams) Settle() Streams {
	if wanted, err := strconv.Atoi(s.Getenv("COLUMNS")); err == nil && wanted > 0 && s.Terminal {
		s.Width = wanted
	}
	s.Colour = s.Terminal && s.Getenv("NO_COLOR") == "" && s.Getenv("TERM") != "dumb"
	return s
}

// Wait lets a moment pass; done ends it early.
func (s Streams) Wait(moment time.Duration, done <-chan struct{}) {
	if s.Sleep != nil {
		s.Sleep(moment, done)
		return
	}
	timer := time.NewTimer(moment)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-done:
	}
}

func isTerminal(file *os.File) bool {
	info, err := file.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0 && info.Name() != "null"
}

// ANSI sequences.
const (
	Bold   = "\x1b[1m"
	Dim    = "\x1b[2m"
	Red    = "\x1b[31m"
	Green  = "\x1b[32m"
	Yellow = "\x1b[33m"
	plain  = "\x1b[0m"
)

// Paint colours each line of the text, where colours are wanted.
func (s Streams) Paint(colour, text string) string {
	if !s.Colour || text == "" || colour == "" {
		return text
	}
	return colour + strings.ReplaceAll(text, "\n", plain+"\n"+colour) + plain
}

// Fold breaks a paragraph where the terminal ends; further lines are indented.
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
