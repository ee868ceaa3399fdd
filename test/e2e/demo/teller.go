//go:build linux

package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	eventsv1 "k8s.io/api/events/v1"

	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/test/e2e/site"
)

// teller writes what happens, with the seconds since the start.
type teller struct {
	mu    sync.Mutex
	out   io.Writer
	begun time.Time
	step  string
	seen  map[string]int32
}

func newTeller(out io.Writer) *teller {
	return &teller{out: out, begun: time.Now(), seen: map[string]int32{}}
}

func (t *teller) title(text string) { t.write("\n== %s\n", text) }

// say is one line of what happens.
func (t *teller) say(text string) {
	t.write("%6.1fs  %s\n", time.Since(t.begun).Seconds(), text)
}

func (t *teller) write(format string, args ...any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	_, _ = fmt.Fprintf(t.out, format, args...)
}

// follow tells each step and each change until the cluster is where it is wanted.
func (t *teller) follow(ctx context.Context, s *site.Site) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	told := make(chan struct{})
	go func() {
		defer close(told)
		for ctx.Err() == nil {
			t.look(ctx, s)
			time.Sleep(100 * time.Millisecond)
		}
	}()
	err := s.WaitReady(ctx)
	time.Sleep(500 * time.Millisecond) // the last events are on their way
	cancel()
	<-told
	return err
}

// look tells what is new.
func (t *teller) look(ctx context.Context, s *site.Site) {
	if o, err := s.Pool(ctx); err == nil {
		t.tellStep(o.Status.Step)
	}
	var list eventsv1.EventList
	if err := s.Client.List(ctx, &list); err != nil {
		return
	}
	slices.SortFunc(list.Items, func(a, b eventsv1.Event) int { return a.EventTime.Compare(b.EventTime.Time) })
	for _, e := range list.Items {
		count := int32(1)
		if e.Series != nil {
			count = e.Series.Count
		}
		if t.seen[e.Name] < count {
			t.seen[e.Name] = count
			t.say(fmt.Sprintf("      %s: %s", e.Reason, e.Note))
		}
	}
}

func (t *teller) tellStep(step v1alpha1.StepStatus) {
	line := step.Name + ": " + step.Reason
	if step.Name == "" || line == t.step {
		return
	}
	t.step = line
	t.say("step  " + line)
	if n := len(step.WaitingFor); n > 0 {
		more := ""
		if n > 1 {
			more = fmt.Sprintf(" and %d more", n-1)
		}
		t.say("      waiting for " + step.WaitingFor[0] + more)
	}
}
