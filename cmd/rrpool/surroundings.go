package main

import (
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"
)

// surroundings are all that a command touches besides its flags and the cluster,
// so that tests can put their own in place.
type surroundings struct {
	out, err io.Writer
	// terminal says that a person looks at out.
	terminal bool
	// width of the terminal in columns, 0 without a limit.
	width  int
	colour bool
	now    func() time.Time
	getenv func(string) string
	// web is for what is not the cluster.
	web *http.Client
}

// webTimeout bounds each request to what is not the cluster.
const webTimeout = 15 * time.Second

func system() surroundings {
	s := surroundings{
		out: os.Stdout, err: os.Stderr,
		terminal: isTerminal(os.Stdout),
		now:      time.Now,
		getenv:   os.Getenv,
		web:      &http.Client{Timeout: webTimeout},
	}
	if s.terminal {
		s.width = columns(os.Stdout)
	}
	return s.settle()
}

// settle applies what the environment says about the terminal.
func (s surroundings) settle() surroundings {
	if wanted, err := strconv.Atoi(s.getenv("COLUMNS")); err == nil && wanted > 0 && s.terminal {
		s.width = wanted
	}
	s.colour = s.terminal && s.getenv("NO_COLOR") == "" && s.getenv("TERM") != "dumb"
	return s
}

func isTerminal(file *os.File) bool {
	info, err := file.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0 && info.Name() != "null"
}

// ANSI sequences.
const (
	bold   = "\x1b[1m"
	yellow = "\x1b[33m"
	plain  = "\x1b[0m"
)

// paint colours each line of the text, where colours are wanted.
func (s surroundings) paint(colour, text string) string {
	if !s.colour || text == "" {
		return text
	}
	return colour + strings.ReplaceAll(text, "\n", plain+"\n"+colour) + plain
}
