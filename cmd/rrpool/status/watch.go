package status

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/rrpool/rrpool/cmd/rrpool/iostreams"
)

// watcher reads the cluster until there is nothing more to wait for: once, until Ctrl-C,
// or until the cluster is Ready.
type watcher struct {
	iostreams.Streams
	*flags
	phrase Phrase
	take   func(context.Context) (*Status, error)

	shown, reported, problem string
}

func (w *watcher) run(ctx context.Context) error {
	deadline := w.Now().Add(w.timeout)
	s, err := w.take(ctx)
	if err != nil {
		return err
	}
	if !w.watch && !w.wait {
		return w.show(s)
	}
	for {
		if err := w.draw(s); err != nil {
			return err
		}
		if ended, err := w.ended(s, deadline); ended {
			return err
		}
		pause := w.interval
		if w.wait {
			pause = min(pause, deadline.Sub(w.Now()))
		}
		w.Sleep(pause, ctx.Done())
		fresh, err := w.take(ctx)
		if ctx.Err() != nil {
			if w.wait {
				return iostreams.ErrInterrupted
			}
			return nil
		}
		if err != nil {
			s.GeneratedAt = metav1.NewTime(w.Now())
			w.failed(err)
			continue
		}
		s, w.problem = fresh, ""
	}
}

// ended says whether there is nothing more to wait for, and with which error.
func (w *watcher) ended(s *Status, deadline time.Time) (bool, error) {
	reached := s.Object != nil && Reached(s.Object) && s.Manager.Status != Stopped
	if !w.wait || !reached && w.Now().Before(deadline) {
		return false, nil
	}
	if !w.watch {
		if err := w.show(s); err != nil {
			return true, err
		}
	}
	if reached {
		return true, nil
	}
	return true, fmt.Errorf("--timeout: the cluster is %s, not %s, after %s: %s", s.State, Ready, w.timeout, w.phrase.Command("status --watch"))
}

func (w *watcher) show(s *Status) error {
	return w.Print("status", w.output.Value, s, func(to iostreams.Streams) { page{to, s, w.verbose}.render() })
}

// draw shows a watch; a wait only reports its progress on standard error.
func (w *watcher) draw(s *Status) error {
	switch {
	case !w.watch:
		w.report(s)
		return nil
	case w.appends():
		return w.append(s)
	}
	return w.redraw(s)
}

// appends: each change is written below the last one, instead of over it.
func (w *watcher) appends() bool { return w.output.Value == "json" || !w.Terminal }

// report writes a line when the state or the step has changed.
func (w *watcher) report(s *Status) {
	line := fmt.Sprintf("waiting: %s", s.State)
	if s.Object != nil && s.Object.Status.Step.Name != "" {
		line += ", step " + s.Object.Status.Step.Name
	}
	if line != w.reported {
		w.reported = line
		_, _ = fmt.Fprintln(w.Err, line)
	}
}

// append writes the status when something other than the time has changed.
func (w *watcher) append(s *Status) error {
	var same bytes.Buffer
	timeless := *s
	timeless.GeneratedAt.Reset()
	if err := iostreams.WriteJSON(&same, timeless); err != nil {
		return fmt.Errorf("rendering the status: %w", err)
	}
	if same.String() == w.shown {
		return nil
	}
	if w.shown != "" {
		_, _ = fmt.Fprintln(w.Out)
	}
	w.shown = same.String()
	return w.show(s)
}

// ANSI sequences that put a screen over the last one without a flicker.
const (
	home       = "\x1b[H"
	restOfLine = "\x1b[K"
	restBelow  = "\x1b[J"
)

func (w *watcher) redraw(s *Status) error {
	var screen bytes.Buffer
	to := w.Streams
	to.Out = &screen
	page{to, s, w.verbose}.render()
	_, _ = fmt.Fprintln(to.Out)
	if w.problem != "" {
		_, _ = fmt.Fprintln(to.Out, w.Paint(iostreams.Red, w.Fold("‼ "+w.problem, "  ")))
	}
	_, _ = fmt.Fprintf(to.Out, "%s, every %s; Ctrl-C ends\n", s.GeneratedAt.UTC().Format("15:04:05Z"), w.interval)
	content := strings.ReplaceAll(iostreams.Visible(screen.String()), "\n", restOfLine+"\n")
	_, err := fmt.Fprint(iostreams.Unguarded(w.Out), home+content+restBelow)
	return err //nolint:wrapcheck // iostreams.Run says it
}

// failed says that the cluster could not be read; the next attempt may succeed.
func (w *watcher) failed(err error) {
	problem := "what is shown is old: " + iostreams.Sentence(err)
	if problem != w.problem && (w.appends() || !w.watch) {
		_, _ = fmt.Fprintf(w.Err, "‼ %s; trying again every %s\n", problem, w.interval)
	}
	w.problem = problem
}
