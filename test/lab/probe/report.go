package probe

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Report says which probes were lost. Phase, Only and Without return parts of it; ZeroLoss evaluates it.
type Report struct {
	// From and Until are the times of the measurement.
	From, Until time.Time
	// Interval is the time between two probes of a pair.
	Interval time.Duration
	// Phases in order; the time before the first checkpoint belongs to none.
	Phases []Phase
	// Pairs, sorted by name.
	Pairs []Pair
	// Machine are the outages that the machine causes: of the control pair, which needs no routing, and of full socket buffers.
	Machine []Outage
}

// Phase is the time between two checkpoints.
type Phase struct {
	Name        string
	From, Until time.Time
}

// Pair is one direction between two pods.
type Pair struct {
	From, To string
	// Sent and Lost count probes; they begin with the first one that arrived.
	Sent, Lost int
	// LongestRun is the greatest number of probes lost in a row.
	LongestRun int
	// LongestSilence is the longest time between two probes. If it is much more than the interval, the prober was not scheduled and may have
	// missed an outage.
	LongestSilence time.Duration
	// Silences are longer than shortSilence.
	Silences []Silence
	// Outages in order.
	Outages []Outage
	// Unconnected: no probe ever arrived, and Sent and Lost count all of them.
	Unconnected bool

	perPhase map[string]Pair
}

// Silence is a time in which nothing was sent.
type Silence struct{ From, Until time.Time }

// Duration is how long nothing was sent.
func (s Silence) Duration() time.Duration { return s.Until.Sub(s.From) }

// Outage is a run of lost probes.
type Outage struct {
	// From is when the first lost probe was sent, Until when the next one that arrived was sent (or the last one, if none arrived).
	From, Until time.Time
	Lost        int
	// Phase in which it began.
	Phase string
}

// Duration is how long nothing arrived.
func (o Outage) Duration() time.Duration { return o.Until.Sub(o.From) }

func newReport(epoch, until time.Time, interval time.Duration, phases []Phase, samples []sample, control sample, overflows []Outage) Report {
	r := Report{From: epoch, Until: until, Interval: interval, Phases: phases}
	r.Machine = slices.Concat(newPair(control, epoch, phases).Outages, overflows)
	slices.SortFunc(r.Machine, func(a, b Outage) int { return a.From.Compare(b.From) })
	for _, s := range samples {
		if len(s.sent) > 0 {
			r.Pairs = append(r.Pairs, newPair(s, epoch, phases))
		}
	}
	slices.SortFunc(r.Pairs, func(a, b Pair) int { return cmp.Or(strings.Compare(a.From, b.From), strings.Compare(a.To, b.To)) })
	return r
}

func newPair(s sample, epoch time.Time, phases []Phase) Pair {
	whole := Pair{From: s.from, To: s.to, Unconnected: !slices.Contains(s.arrived, true)}
	parts := map[string]Pair{}
	phaseOf := phaseFinder(phases)
	var run Outage
	for i, sent := range s.sent {
		at := epoch.Add(sent)
		phase := phaseOf(at)
		part, known := parts[phase]
		if !known {
			part = Pair{From: s.from, To: s.to, Unconnected: whole.Unconnected}
		}
		silence := time.Duration(0)
		if i > 0 {
			silence = sent - s.sent[i-1]
		}
		part.count(at, silence)
		whole.count(at, silence)
		parts[phase] = part
		if !s.arrived[i] {
			if run.Lost == 0 {
				run = Outage{From: at, Phase: phase}
			}
			run.Lost++
		}
		if run.Lost > 0 && (s.arrived[i] || i == len(s.sent)-1) {
			run.Until = at
			began := parts[run.Phase]
			began.add(run)
			parts[run.Phase] = began
			whole.add(run)
			run = Outage{}
		}
	}
	whole.perPhase = parts
	return whole
}

// phaseFinder returns a function that returns the phase of a time. Times must ascend.
func phaseFinder(phases []Phase) func(time.Time) string {
	next, name := 0, ""
	return func(at time.Time) string {
		for next < len(phases) && !at.Before(phases[next].From) {
			name = phases[next].Name
			next++
		}
		return name
	}
}

func (p *Pair) count(at time.Time, silence time.Duration) {
	p.Sent++
	p.LongestSilence = max(p.LongestSilence, silence)
	if silence > shortSilence {
		p.Silences = append(p.Silences, Silence{From: at.Add(-silence), Until: at})
	}
}

func (p *Pair) add(o Outage) {
	p.Lost += o.Lost
	p.LongestRun = max(p.LongestRun, o.Lost)
	p.Outages = append(p.Outages, o)
}

// Longest returns the pair's longest outage, zero if it has none.
func (p Pair) Longest() Outage {
	if len(p.Outages) == 0 {
		return Outage{}
	}
	return slices.MaxFunc(p.Outages, func(a, b Outage) int { return cmp.Compare(a.Duration(), b.Duration()) })
}

// String is for failure messages.
func (p Pair) String() string {
	longest := p.Longest()
	return fmt.Sprintf("%s → %s lost %d of %d, %d in a row, longest %s at %s in phase %q", p.From, p.To, p.Lost, p.Sent, p.LongestRun,
		longest.Duration().Round(time.Millisecond), longest.From.Format("15:04:05.000"), longest.Phase)
}

// Phase returns the part of the report for all phases of a name. An outage belongs to the phase in which it began.
func (r Report) Phase(name string) Report {
	narrowed := r.keep(func(p Pair) (Pair, bool) {
		part, ok := p.perPhase[name]
		return part, ok
	})
	narrowed.Phases = nil
	for _, phase := range r.Phases {
		if phase.Name == name {
			narrowed.Phases = append(narrowed.Phases, phase)
			narrowed.From, narrowed.Until = phase.From, phase.Until
		}
	}
	return narrowed
}

// Only returns the part of the report for pairs between these endpoints.
func (r Report) Only(names ...string) Report {
	return r.keep(func(p Pair) (Pair, bool) { return p, slices.Contains(names, p.From) && slices.Contains(names, p.To) })
}

// Between returns the part of the report for pairs with these prefixes of names, such as "a/" and "b/".
func (r Report) Between(from, to string) Report {
	return r.keep(func(p Pair) (Pair, bool) { return p, strings.HasPrefix(p.From, from) && strings.HasPrefix(p.To, to) })
}

// Without returns the part of the report for pairs without these endpoints.
func (r Report) Without(names ...string) Report {
	return r.keep(func(p Pair) (Pair, bool) { return p, !slices.Contains(names, p.From) && !slices.Contains(names, p.To) })
}

func (r Report) keep(choose func(Pair) (Pair, bool)) Report {
	var kept []Pair
	for _, pair := range r.Pairs {
		if p, ok := choose(pair); ok {
			kept = append(kept, p)
		}
	}
	r.Pairs = kept
	return r
}

const (
	// singleLossOdds: fewer than one probe in this many may be lost. When the best path changes, BIRD replaces each kernel route, which takes
	// microseconds, and a probe can be lost meanwhile.
	singleLossOdds = 10_000
	// If a pair has no probe for more than shortSilence, the machine was too busy, and outages in that time are not known. A report is valid if
	// no silence is longer than maxSilence, which is less than half of the shortest outage of a wrong change (1.1 s:
	// TestImmediatePromotionLosesPackets in test/chaos), and all together are at most one part in silenceOdds of the time.
	shortSilence = 250 * time.Millisecond
	maxSilence   = 500 * time.Millisecond
	silenceOdds  = 100
	// shownPairs is how many pairs an error names.
	shownPairs = 3
	// besides is the time before and after an outage of the machine in which other losses are attributed to the machine.
	besides = 100 * time.Millisecond
)

// sorted returns the pairs that were never connected, that lost probes in a row, that did so while the machine itself lost some, and that
// were not probed often enough.
func (r Report) sorted() (unconnected, broken, doubtful, starved []Pair) {
	for _, pair := range r.Pairs {
		switch {
		case pair.Unconnected:
			unconnected = append(unconnected, pair)
		case r.Broken(pair):
			broken = append(broken, pair)
		case pair.LongestRun > 1:
			doubtful = append(doubtful, pair)
		case pair.starved(r.Interval):
			starved = append(starved, pair)
		}
	}
	return unconnected, broken, doubtful, starved
}

// ZeroLoss returns nil if the report proves that nothing was lost: every pair was probed nearly all the time and connected, no pair lost two
// probes in a row, and fewer than one probe in 10,000 was lost. Otherwise the error says what was lost, when, and by which pairs. For losses at
// the time of an outage of the machine, it says that no loss can be ruled out.
func (r Report) ZeroLoss() error {
	if len(r.Pairs) == 0 {
		return errors.New("no loss can be ruled out: nothing was probed")
	}
	sent, all := r.Totals()
	lost := all
	for _, pair := range r.Pairs {
		lost -= r.explained(pair)
	}
	unconnected, broken, doubtful, starved := r.sorted()
	switch {
	case len(unconnected) > 0:
		return fmt.Errorf("%d pairs were never connected: %s", len(unconnected), names(unconnected))
	case len(broken) > 0:
		return fmt.Errorf("%d of %d pairs lost probes in a row: %s", len(broken), len(r.Pairs), names(broken))
	case lost*singleLossOdds >= sent && lost > 0:
		return fmt.Errorf("%d of %d probes were lost, one by one: %s", lost, sent, names(r.Lossy()))
	case len(doubtful) > 0 || all*singleLossOdds >= sent && all > 0:
		return fmt.Errorf("no loss can be ruled out: the machine itself lost probes of the control pair when %d of %d others were lost: %s",
			all-lost, sent, names(r.Lossy()))
	case len(starved) > 0:
		worst := slices.MaxFunc(starved, func(a, b Pair) int { return int(a.LongestSilence - b.LongestSilence) })
		return fmt.Errorf("no loss can be ruled out: %d pairs were not probed often enough, for up to %s: the machine is too busy",
			len(starved), worst.LongestSilence.Round(time.Millisecond))
	}
	return nil
}

// OwnLoss returns how many probes the machine itself lost in the time of the report.
func (r Report) OwnLoss() (lost int) {
	for _, m := range r.Machine {
		if m.Until.After(r.From) && m.From.Before(r.Until) {
			lost += m.Lost
		}
	}
	return lost
}

// Broken reports whether a pair lost two probes in a row for which the machine is not the cause.
func (r Report) Broken(pair Pair) bool {
	return slices.ContainsFunc(pair.Outages, func(o Outage) bool { return o.Lost > 1 && !r.machines(o) })
}

// explained returns how many of a pair's probes were lost because of the machine.
func (r Report) explained(pair Pair) (lost int) {
	for _, o := range pair.Outages {
		if r.machines(o) {
			lost += o.Lost
		}
	}
	return lost
}

// machines reports whether the machine is the cause of an outage: all of it is within, or near, outages of the machine. While probes of the
// control pair arrive, routing is the cause of every loss.
func (r Report) machines(o Outage) bool {
	from, lost := o.From, false
	for _, m := range r.Machine {
		if !m.From.After(from.Add(besides)) && m.Until.Add(besides).After(from) {
			from, lost = m.Until.Add(besides), true
		}
	}
	return lost && !from.Before(o.Until)
}

// starved reports whether the pair was without probes for too long, or too often.
func (p Pair) starved(interval time.Duration) bool {
	all := time.Duration(0)
	for _, s := range p.Silences {
		all += s.Duration()
	}
	return p.LongestSilence > maxSilence || all*silenceOdds > time.Duration(p.Sent)*interval
}

// Lossy returns the pairs with losses, the longest outage first.
func (r Report) Lossy() []Pair {
	lossy := r.keep(func(p Pair) (Pair, bool) { return p, p.Lost > 0 }).Pairs
	slices.SortStableFunc(lossy, func(a, b Pair) int { return int(b.Longest().Duration() - a.Longest().Duration()) })
	return lossy
}

// LongestOutage returns the longest outage of all pairs, zero if nothing was lost.
func (r Report) LongestOutage() time.Duration {
	longest := time.Duration(0)
	for _, pair := range r.Pairs {
		longest = max(longest, pair.Longest().Duration())
	}
	return longest
}

// Totals returns how many probes all pairs together have sent and lost.
func (r Report) Totals() (sent, lost int) {
	for _, pair := range r.Pairs {
		sent += pair.Sent
		lost += pair.Lost
	}
	return sent, lost
}

func names(pairs []Pair) string {
	shown := make([]string, 0, shownPairs)
	for _, pair := range pairs[:min(shownPairs, len(pairs))] {
		shown = append(shown, pair.String())
	}
	text := strings.Join(shown, "; ")
	if more := len(pairs) - len(shown); more > 0 {
		text += fmt.Sprintf("; and %d more", more)
	}
	return text
}
