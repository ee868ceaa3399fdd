package status

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/rrpool/rrpool/cmd/rrpool/iostreams"
)

// watcher reads the cluster until there is nothing more to wait for: once, until Ctrl-C,
// or until the cluster is Ready.
type watcher struct {
	iostreams.Streams
	take              func(context.Context) (*Facts, error)
	phrase            Phrase
	render            renderer
	watch, wait       bool
	interval, timeout time.Duration
	// lines: each change is written below the last one, instead of over it.
	lines bool

	shown, reported, problem string
}

func (w *watcher) run(ctx context.Context) error {
	deadline := w.Now().Add(w.timeout)
	facts, err := w.take(ctx)
	if err != nil {
		return err
	}
	if !w.watch && !w.wait {
		return w.once(*facts)
	}
	for {
		if err := w.draw(newView(*facts, w.phrase)); err != nil {
			return err
		}
		if done, err := w.ended(*facts, deadline); done {
			return err
		}
		w.Wait(w.pause(deadline), ctx.Done())
		fresh, err := w.take(ctx)
		switch {
		case ctx.Err() != nil:
			return w.interrupted()
		case err != nil:
			facts.Now = w.Now()
			w.failed(err)
		default:
			facts, w.problem = fresh, ""
		}
	}
}

// pause is how long to wait before the next read, for --wait at most until the deadline.
func (w *watcher) pause(deadline time.Time) time.Duration {
	if w.wait {
		return min(w.interval, deadline.Sub(w.Now()))
	}
	return w.interval
}

// interrupted: a watch ends with Ctrl-C, a wait has failed.
func (w *watcher) interrupted() error {
	if w.wait {
		return iostreams.ErrInterrupted
	}
	return nil
}

func (w *watcher) once(f Facts) error { return show(w.Streams, newView(f, w.phrase), w.render) }

// ended says whether there is nothing more to wait for, and with which error.
func (w *watcher) ended(f Facts, deadline time.Time) (bool, error) {
	reached := f.Object != nil && Reached(f.Object) && f.Manager.Status != Stopped
	expired := !w.Now().Before(deadline)
	if !w.wait || !reached && !expired {
		return false, nil
	}
	if !w.watch {
		if err := w.once(f); err != nil {
			return true, err
		}
	}
	if reached {
		return true, nil
	}
	state, _ := stateOf(f)
	return true, fmt.Errorf("--timeout: the cluster is %s, not %s, after %s: %s", state, Ready, w.timeout, w.phrase.Command("status --watch"))
}

// draw shows a watch; a wait only reports its progress on standard error.
func (w *watcher) draw(v view) error {
	switch {
	case !w.watch:
		w.report(v)
		return nil
	case w.lines:
		return w.append(v)
	}
	return w.redraw(v)
}

// report writes a line when the state or the step has changed.
func (w *watcher) report(v view) {
	line := fmt.Sprintf("waiting: %s", v.State)
	if v.Step.Name != "" {
		line += ", step " + v.Step.Name
	}
	if line != w.reported {
		w.reported = line
		_, _ = fmt.Fprintln(w.Err, line)
	}
}

// append writes the view when something other than the time has changed.
func (w *watcher) append(v view) error {
	var same bytes.Buffer
	timeless := v
	timeless.GeneratedAt.Reset()
	if err := iostreams.WriteJSON(&same, timeless); err != nil {
		return fmt.Errorf("rendering the status: %w", err)
	}
	if same.String() == w.shown {
		return nil
	}
	first := w.shown == ""
	w.shown = same.String()
	return show(w.Streams, v, func(s iostreams.Streams, v view) error {
		if !first {
			_, _ = fmt.Fprintln(s.Out)
		}
		return w.render(s, v)
	})
}

// ANSI sequences that put a screen over the last one without a flicker.
const (
	clearScreen = "\x1b[2J"
	home        = "\x1b[H"
	restOfLine  = "\x1b[K"
	restBelow   = "\x1b[J"
)

func (w *watcher) redraw(v view) error {
	var screen bytes.Buffer
	to := w.Streams
	to.Out = &screen
	if err := w.render(to, v); err != nil {
		return fmt.Errorf("rendering the status: %w", err)
	}
	footer := fmt.Sprintf("\n%s, every %s; Ctrl-C ends\n", v.GeneratedAt.UTC().Format("15:04:05Z"), w.interval)
	if w.problem != "" {
		footer = "\n" + w.Paint(iostreams.Red, w.Fold("‼ "+w.problem, "  ")) + footer
	}
	content := strings.ReplaceAll(iostreams.Visible(screen.String()+footer), "\n", restOfLine+"\n")
	begin := home
	if w.shown == "" {
		begin = clearScreen + home
	}
	w.shown = "something"
	_, err := fmt.Fprint(iostreams.Unguarded(w.Out), begin+content+restBelow)
	return err //nolint:wrapcheck // iostreams.Run says it
}

// failed says that the cluster could not be read; the next attempt may succeed.
func (w *watcher) failed(err error) {
	problem := "what is shown is old: " + iostreams.Sentence(err)
	if problem != w.problem && (w.lines || !w.watch) {
		_, _ = fmt.Fprintf(w.Err, "‼ %s; trying again every %s\n", problem, w.interval)
	}
	w.problem = problem
}
