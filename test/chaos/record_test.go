//go:build linux

package chaos_test

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

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

func (l *record) felt() []*occurrence {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.active)
}

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

type share struct {
	*segment
	pair probe.Pair
}

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

const (
	// besides is how near to a standstill a short loss is its doing: BIRD, too, was stopped, perhaps between taking a route away and
	// putting it back.
	besides = time.Second
	// brief is the longest loss that is.
	brief = 250 * time.Millisecond
	// longestStand is how long the machine may stand still at a time: much shorter than a session takes to come back. All of them
	// together may take one part in standsOdds of the time.
	longestStand, standsOdds = 1500 * time.Millisecond, 100
)

// standstill are the times in which the machine let no probe be sent: what happened then is not known. An apiserver that starts on
// two cores is enough for it; a run is evidence all the same, as long as they are few and short.
type standstill []probe.Silence

func stands(report probe.Report) standstill {
	var all standstill
	for _, p := range report.Pairs {
		all = append(all, p.Silences...)
	}
	slices.SortFunc(all, func(a, b probe.Silence) int { return a.From.Compare(b.From) })
	var merged standstill
	for _, s := range all {
		if n := len(merged); n > 0 && !s.From.After(merged[n-1].Until) {
			if s.Until.After(merged[n-1].Until) {
				merged[n-1].Until = s.Until
			}
			continue
		}
		merged = append(merged, s)
	}
	return merged
}

// leaveOut takes out of a pair what the machine's standing still explains.
func (s standstill) leaveOut(p probe.Pair) probe.Pair {
	if p.LongestSilence <= longestStand {
		p.LongestSilence, p.Silences = 0, nil // how many there may be is tooLong's to say
	}
	outages := p.Outages
	p.Outages, p.LongestRun = nil, 0
	for _, o := range outages {
		if s.explains(o) {
			p.Lost -= o.Lost
			continue
		}
		p.Outages = append(p.Outages, o)
		p.LongestRun = max(p.LongestRun, o.Lost)
	}
	return p
}

func (s standstill) explains(o probe.Outage) bool {
	return o.Duration() <= brief && slices.ContainsFunc(s, func(still probe.Silence) bool {
		return o.From.After(still.From.Add(-besides)) && o.From.Before(still.Until.Add(besides))
	})
}

// tooLong: the run proves nothing.
func (s standstill) tooLong(took time.Duration) error {
	total, longest := s.total()
	if longest > longestStand || total*standsOdds > took {
		return fmt.Errorf("no loss can be ruled out: the machine stood still for %s, up to %s at a time", total, longest)
	}
	return nil
}

func (s standstill) total() (total, longest time.Duration) {
	for _, still := range s {
		total += still.Duration()
		longest = max(longest, still.Duration())
	}
	return total, longest
}

func TestAStandstillExplainsWhatIsShortAndNear(t *testing.T) {
	begun := time.Unix(1000, 0)
	at := func(ms int) time.Time { return begun.Add(time.Duration(ms) * time.Millisecond) }
	still := standstill{{From: at(0), Until: at(400)}}
	for name, tc := range map[string]struct {
		from, until int
		explained   bool
	}{
		"short, right after it":    {from: 410, until: 500, explained: true},
		"short, right before it":   {from: -100, until: -50, explained: true},
		"short, two seconds later": {from: 2400, until: 2500},
		"long, right after it":     {from: 410, until: 1410},
	} {
		t.Run(name, func(t *testing.T) {
			pair := probe.Pair{From: "a", To: "b", Sent: 100_000, Lost: 3, LongestRun: 3, Outages: []probe.Outage{{From: at(tc.from), Until: at(tc.until), Lost: 3}}}
			err := verdict(probe.Report{Until: at(100_000), From: begun}, []share{{&segment{}, pair}}, still)
			require.Equal(t, tc.explained, err == nil, "%v", err)
		})
	}
	calmly := []share{{&segment{}, probe.Pair{From: "a", To: "b", Sent: 100_000}}}
	require.Error(t, verdict(probe.Report{Until: at(30_000), From: begun}, calmly, still), "more than a hundredth of the time")
	long := standstill{{From: at(0), Until: at(1600)}}
	require.Error(t, long.tooLong(time.Hour), "so long that sessions may have come and gone")
}
