//go:build linux

package chaos_test

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/rrpool/rrpool/test/lab/probe"
)

// record is what is felt when, so that every lost packet has its causes.
type record struct {
	checkpoint func(phase string)

	mu       sync.Mutex
	active   []*occurrence
	segments []*segment
	events   map[*fault]int
}

// segment is a time in which the same faults were felt.
type segment struct {
	phase       string
	from        time.Time
	faults      []*fault
	occurrences []string
	cut         map[string]bool // nodes that are off the network themselves
}

func newRecord(checkpoint func(string)) *record {
	l := &record{checkpoint: checkpoint, events: map[*fault]int{}}
	l.open()
	return l
}

// feel: from here on losses may be due to k. Call it before k is done.
func (l *record) feel(k *occurrence) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.active = append(l.active, k)
	l.events[k.fault]++
	l.open()
}

// forget: from here on nothing is.
func (l *record) forget(k *occurrence) {
	l.mu.Lock()
	defer l.mu.Unlock()
	k.off = time.Now()
	l.active = slices.DeleteFunc(l.active, func(o *occurrence) bool { return o == k })
	l.open()
}

// felt are those of now.
func (l *record) felt() []*occurrence {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.active)
}

// happened is how often a fault has happened.
func (l *record) happened(name string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	for f, n := range l.events {
		if f.name == name {
			return n
		}
	}
	return 0
}

func (l *record) open() {
	s := &segment{phase: fmt.Sprintf("segment %d", len(l.segments)), from: time.Now(), cut: map[string]bool{}}
	for _, k := range l.active {
		s.faults = append(s.faults, k.fault)
		s.occurrences = append(s.occurrences, k.String())
		if k.fault.cuts {
			s.cut[k.node] = true
		}
	}
	l.segments = append(l.segments, s)
	l.checkpoint(s.phase)
}

// share is what the probes of one pair saw in one segment.
type share struct {
	*segment
	pair probe.Pair
}

// shares splits a report by segments.
func (l *record) shares(report probe.Report) []share {
	l.mu.Lock()
	defer l.mu.Unlock()
	var out []share
	for _, s := range l.segments {
		for _, pair := range report.Phase(s.phase).Pairs {
			out = append(out, share{s, pair})
		}
	}
	return out
}

// off: one end of the pair was off the network itself.
func (s share) off() bool { return s.cut[s.pair.From] || s.cut[s.pair.To] }

// verdict: nothing was lost but by nodes that were cut off, and by what cannot be prevented, within its bound.
func verdict(report probe.Report, shares []share, stood standstill) error {
	strict := report
	strict.Pairs = nil
	lost := map[*segment][]probe.Pair{}
	for _, s := range shares {
		switch {
		case s.off():
		case s.bound() > 0:
			if s.pair.Longest().Duration() > s.bound() {
				lost[s.segment] = append(lost[s.segment], s.pair)
			}
		default:
			pair := stood.leaveOut(s.pair)
			strict.Pairs = append(strict.Pairs, pair)
			if pair.LongestRun > 1 {
				lost[s.segment] = append(lost[s.segment], pair)
			}
		}
	}
	errs := []error{strict.ZeroLoss(), stood.tooLong(report.Until.Sub(report.From))}
	for s, pairs := range lost {
		worst := slices.MaxFunc(pairs, func(a, b probe.Pair) int { return a.LongestRun - b.LongestRun })
		errs = append(errs, fmt.Errorf("while %s was felt, %d pairs lost more than they may (%s); the worst: %s", s.felt(), len(pairs), s.bound(), worst))
	}
	return errors.Join(errs...)
}

// bound is how long a pair may have been out of reach, zero where it must not.
func (s *segment) bound() time.Duration {
	bound := time.Duration(0)
	for _, f := range s.faults {
		bound = max(bound, f.bound)
	}
	return bound
}

func (s *segment) felt() string {
	if len(s.occurrences) == 0 {
		return "nothing"
	}
	return fmt.Sprintf("%q", s.occurrences)
}
