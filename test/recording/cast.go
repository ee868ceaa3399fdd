// Package recording keeps what a terminal was shown, with the time, and draws it as a
// picture that moves. The file is an asciicast of version 2, which asciinema plays:
// https://docs.asciinema.org/manual/asciicast/v2/
package recording

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"
)

const version = 2

// Cast is a recording.
type Cast struct {
	// Width and Height of the terminal in characters.
	Width, Height int
	Title         string
	Begun         time.Time
	Events        []Event
}

// Event is what was written at once, as a terminal gets it: lines end with \r\n.
type Event struct {
	// At is the time since the beginning.
	At   time.Duration
	Text string
}

// header is the first line of the file.
type header struct {
	Version   int    `json:"version"`
	Width     int    `json:"width"`
	Height    int    `json:"height"`
	Timestamp int64  `json:"timestamp"`
	Title     string `json:"title"`
}

// output is the kind of an event that was written to the terminal. There are others.
const output = "o"

// Write writes the file.
func (c Cast) Write(to io.Writer) error {
	w := json.NewEncoder(to)
	w.SetEscapeHTML(false)
	errs := []error{w.Encode(header{version, c.Width, c.Height, c.Begun.Unix(), c.Title})}
	for _, e := range c.Events {
		errs = append(errs, w.Encode([]any{json.Number(fmt.Sprintf("%.3f", e.At.Seconds())), output, e.Text}))
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("writing the recording: %w", err)
	}
	return nil
}

// Read reads the file.
func Read(from io.Reader) (Cast, error) {
	lines := bufio.NewScanner(from)
	lines.Scan()
	var h header
	if err := json.Unmarshal(lines.Bytes(), &h); err != nil {
		return Cast{}, fmt.Errorf("reading the head of the recording: %w", errors.Join(err, lines.Err()))
	}
	if h.Version != version || h.Width < 1 || h.Height < 1 {
		return Cast{}, fmt.Errorf("the recording is of version %d, %d by %d: want version %d, and a size", h.Version, h.Width, h.Height, version)
	}
	c := Cast{Width: h.Width, Height: h.Height, Title: h.Title, Begun: time.Unix(h.Timestamp, 0).UTC()}
	for lines.Scan() {
		e, err := event(lines.Bytes())
		if err != nil {
			return Cast{}, fmt.Errorf("reading event %d of the recording: %w", len(c.Events)+1, err)
		}
		c.Events = append(c.Events, e)
	}
	if err := lines.Err(); err != nil {
		return Cast{}, fmt.Errorf("reading the recording: %w", err)
	}
	return c, nil
}

func event(line []byte) (Event, error) {
	var (
		at         float64
		kind, text string
	)
	if err := json.Unmarshal(line, &[]any{&at, &kind, &text}); err != nil {
		return Event{}, err
	}
	if kind != output {
		return Event{}, fmt.Errorf("kind %q: only %q is known here", kind, output)
	}
	return Event{time.Duration(at * float64(time.Second)).Round(time.Millisecond), text}, nil
}

// Recorder records what is written to it.
type Recorder struct {
	mu   sync.Mutex
	cast Cast
	now  func() time.Time
}

// NewRecorder begins a recording now.
func NewRecorder(title string, width, height int, now func() time.Time) *Recorder {
	return &Recorder{cast: Cast{Width: width, Height: height, Title: title, Begun: now()}, now: now}
}

// Write implements io.Writer.
func (r *Recorder) Write(chunk []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	text := strings.ReplaceAll(string(chunk), "\n", "\r\n")
	r.cast.Events = append(r.cast.Events, Event{r.now().Sub(r.cast.Begun).Round(time.Millisecond), text})
	return len(chunk), nil
}

// Cast is what was recorded so far.
func (r *Recorder) Cast() Cast {
	r.mu.Lock()
	defer r.mu.Unlock()
	c := r.cast
	c.Events = append([]Event(nil), c.Events...)
	return c
}
