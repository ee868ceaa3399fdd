package status

import (
	"bytes"
	"context"
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/rrpool/rrpool/cmd/rrpool/iostreams"
)

// watcher reads the cluster once, or until Ctrl-C.
type watcher struct {
	iostreams.Streams
	*flags
	take func(context.Context) (*Status, error)

	shown, problem string
}

func (w *watcher) run(ctx context.Context) error {
	s, err := w.take(ctx)
	if err != nil {
		return err
	}
	if !w.watch {
		return w.show(s)
	}
	for {
		draw := w.redraw
		if w.appends() {
			draw = w.append
		}
		if err := draw(s); err != nil {
			return err
		}
		w.Sleep(w.interval, ctx.Done())
		fresh, err := w.take(ctx)
		switch {
		case ctx.Err() != nil:
			return nil //nolint:nilerr // Ctrl-C is how a watch ends
		case err != nil:
			s.GeneratedAt = metav1.NewTime(w.Now())
			w.failed(err)
		default:
			s, w.problem = fresh, ""
		}
	}
}

func (w *watcher) show(s *Status) error {
	return w.Print("status", w.output.Value, s, func(to iostreams.Streams) { page{to, s, w.verbose}.render() })
}

// appends: each change is written below the last one, instead of over it.
func (w *watcher) appends() bool { return w.output.Value == "json" || !w.Terminal }

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
	if problem != w.problem && w.appends() {
		_, _ = fmt.Fprintf(w.Err, "‼ %s; trying again every %s\n", problem, w.interval)
	}
	w.problem = problem
}
