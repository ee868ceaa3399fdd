package status

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/rrpool/rrpool/cmd/rrpool/iostreams"
)

// watcher reads the cluster once, or until Ctrl-C.
type watcher struct {
	iostreams.Streams
	*flags
	take func(context.Context) (*Status, error)

	shown   Status
	problem string
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
		if err := w.append(s); err != nil {
			return err
		}
		w.Sleep(max(w.interval, time.Second), ctx.Done())
		fresh, err := w.take(ctx)
		switch {
		case ctx.Err() != nil:
			return nil //nolint:nilerr // Ctrl-C is how a watch ends
		case err != nil:
			w.failed(err)
		default:
			s, w.problem = fresh, ""
		}
	}
}

func (w *watcher) show(s *Status) error {
	return w.Print("status", w.output.Value, s, func(to iostreams.Streams) { page{to, s, w.verbose}.render() })
}

// append writes the status below the last one when something other than the time has changed.
func (w *watcher) append(s *Status) error {
	before := w.shown
	w.shown = *s
	w.shown.GeneratedAt.Reset()
	if equality.Semantic.DeepEqual(before, w.shown) {
		return nil
	}
	if before.SchemaVersion != "" { // not the first one
		_, _ = fmt.Fprintln(w.Out)
	}
	return w.show(s)
}

// failed says that the cluster could not be read; the next attempt may succeed.
func (w *watcher) failed(err error) {
	problem := "what is shown is old: " + iostreams.Sentence(err)
	if problem != w.problem {
		_, _ = fmt.Fprintf(w.Err, "‼ %s; trying again every %s\n", problem, w.interval)
	}
	w.problem = problem
}
