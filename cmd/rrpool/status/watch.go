package status

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/rrpool/rrpool/cmd/rrpool/iostreams"
)

// watcher looks until there is nothing more to wait for: once, until Ctrl-C,
// or until the cluster is Ready.
type watcher struct {
	iostreams.Streams
	look
	phrase            Phrase
	render            renderer
	watch, wait       bool
	interval, timeout time.Duration
	// lines: each change is written below the last one, instead of over it.
	lines bool

	shown, told, trouble string
}

func (w *watcher) run(ctx context.Context) error {
	deadline := w.Now().Add(w.timeout)
	facts, err := w.take(ctx, w.Now())
	if err != nil {
		return err
	}
	if !w.watch && !w.wait {
		return w.once(*facts)
	}
	for {
		if err := w.draw(*facts); err != nil {
			return err
		}
		if done, err := w.ended(*facts, deadline); done {
			return err
		}
		w.Wait(min(w.interval, max(deadline.Sub(w.Now()), 0)+w.unbounded()), ctx.Done())
		fresh, err := w.take(ctx, w.Now())
		switch {
		case ctx.Err() != nil:
			return w.interrupted()
		case err != nil:
			facts.Now = w.Now()
			w.blind(err)
		default:
			facts, w.trouble = fresh, ""
		}
	}
}

// unbounded keeps a watch without an end from reading without a pause.
func (w *watcher) unbounded() time.Duration {
	if w.wait {
		return 0
	}
	return w.interval
}

func (w *watcher) once(f Facts) error {
	return w.Emit("status", "", func(s iostreams.Streams) error { return w.render(s, newView(f, w.phrase)) })
}

// ended says whether there is nothing more to wait for, and how that came.
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
	return true, fmt.Errorf("--timeout: the cluster is %s, not %s, after %s: %s", stateOf(f), Ready, w.timeout, w.phrase.Command("status --watch"))
}

// interrupted: a watch that is stopped has done what it was for, a wait has not.
func (w *watcher) interrupted() error {
	if w.wait {
		return iostreams.ErrInterrupted
	}
	return nil
}

// draw shows the facts of a watch; a wait only reports its progress on standard error.
func (w *watcher) draw(f Facts) error {
	v := newView(f, w.phrase)
	if !w.watch {
		w.tell(v)
		return nil
	}
	if w.lines {
		return w.append(v)
	}
	return w.redraw(v)
}

// tell writes a line when the state or the step has changed.
func (w *watcher) tell(v view) {
	line := fmt.Sprintf("waiting: %s", v.State)
	if v.Step.Name != "" {
		line += ", step " + v.Step.Name
	}
	if line != w.told {
		w.told = line
		_, _ = fmt.Fprintln(w.Err, line)
	}
}

// append writes what has changed since it was shown last. That time goes by is no
// change.
func (w *watcher) append(v view) error {
	var same bytes.Buffer
	timeless := v
	timeless.GeneratedAt = ""
	if err := iostreams.WriteJSON(&same, timeless); err != nil {
		return fmt.Errorf("rendering the status: %w", err)
	}
	if same.String() == w.shown {
		return nil
	}
	first := w.shown == ""
	w.shown = same.String()
	return w.Emit("status", "", func(s iostreams.Streams) error {
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
	footer := fmt.Sprintf("\n%s, every %s; Ctrl-C ends\n", v.now.UTC().Format("15:04:05Z"), w.interval)
	if w.trouble != "" {
		footer = "\n" + w.Paint(iostreams.Red, w.Fold("‼ "+w.trouble, "  ")) + footer
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

// blind says that the cluster could not be looked at; the next look may work.
func (w *watcher) blind(err error) {
	trouble := "what is shown is old: " + iostreams.Sentence(err)
	if trouble != w.trouble && (w.lines || !w.watch) {
		_, _ = fmt.Fprintf(w.Err, "‼ %s; trying again every %s\n", trouble, w.interval)
	}
	w.trouble = trouble
}
