package probe

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

const (
	// singleLossOdds: fewer than one probe in this many may be lost. BIRD swaps each kernel route once when the best path moves,
	// in microseconds, and a probe can fall into that by chance.
	singleLossOdds = 10_000
	// A pair that gets no probe for more than shortSilence was kept from it by the machine: what happened then is not known. A report
	// is evidence all the same while none lasts longer than maxSilence, which is less than half of what the least of all wrong changes
	// costs (1.1 s: TestImmediatePromotionLosesPackets in test/chaos), and all together take at most one part in silenceOdds of the time.
	shortSilence = 250 * time.Millisecond
	maxSilence   = 500 * time.Millisecond
	silenceOdds  = 100
	// shownPairs is how many pairs an error names.
	shownPairs = 3
)

// ZeroLoss returns nil when the report proves that nothing was lost: every pair was probed nearly all the time and answered, no pair lost
// two probes in a row, and fewer than one probe in 10,000 was lost. Otherwise the error says what was lost, when, and by whom.
func (r Report) ZeroLoss() error {
	if len(r.Pairs) == 0 {
		return errors.New("no loss can be ruled out: nothing was probed")
	}
	sent, lost := 0, 0
	var unconnected, starved, broken []Pair
	for _, pair := range r.Pairs {
		sent += pair.Sent
		lost += pair.Lost
		switch {
		case pair.Unconnected:
			unconnected = append(unconnected, pair)
		case pair.LongestRun > 1:
			broken = append(broken, pair)
		case pair.starved(r.Interval):
			starved = append(starved, pair)
		}
	}
	switch {
	case len(unconnected) > 0:
		return fmt.Errorf("%d pairs were never connected: %s", len(unconnected), names(unconnected))
	case len(broken) > 0:
		return fmt.Errorf("%d of %d pairs lost probes in a row: %s", len(broken), len(r.Pairs), names(broken))
	case lost*singleLossOdds >= sent && lost > 0:
		return fmt.Errorf("%d of %d probes were lost, one by one: %s", lost, sent, names(r.Lossy()))
	case len(starved) > 0:
		return fmt.Errorf("no loss can be ruled out: %d pairs were not probed often enough, for up to %s: %s",
			len(starved), slices.MaxFunc(starved, bySilence).LongestSilence.Round(time.Millisecond), r.starving())
	}
	return nil
}

// starved: the pair was left without probes for too long, or too often.
func (p Pair) starved(interval time.Duration) bool {
	all := time.Duration(0)
	for _, s := range p.Silences {
		all += s.Duration()
	}
	return p.LongestSilence > maxSilence || all*silenceOdds > time.Duration(p.Sent)*interval
}

// starving is why there were too few probes.
func (r Report) starving() string {
	if r.Priority != nil {
		return fmt.Sprintf("the machine is too busy, and the prober has no priority (%v)", r.Priority)
	}
	return "the machine is too busy"
}

// Lossy are the pairs that lost anything, the longest outage first.
func (r Report) Lossy() []Pair {
	lossy := r.keep(func(p Pair) (Pair, bool) { return p, p.Lost > 0 }).Pairs
	slices.SortStableFunc(lossy, func(a, b Pair) int { return int(b.Longest().Duration() - a.Longest().Duration()) })
	return lossy
}

// LongestOutage over all pairs, zero when nothing was lost.
func (r Report) LongestOutage() time.Duration {
	longest := time.Duration(0)
	for _, pair := range r.Pairs {
		longest = max(longest, pair.Longest().Duration())
	}
	return longest
}

// Totals over all pairs.
func (r Report) Totals() (sent, lost int) {
	for _, pair := range r.Pairs {
		sent += pair.Sent
		lost += pair.Lost
	}
	return sent, lost
}

// String is a table with a line for each phase name.
func (r Report) String() string {
	var text strings.Builder
	table := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "PHASE\tSECONDS\tPAIRS\tSENT\tLOST\tLOSSY PAIRS\tLONGEST RUN\tLONGEST OUTAGE\tLONGEST SILENCE")
	row := func(name string, took time.Duration, part Report) {
		sent, lost := part.Totals()
		run, silence := 0, time.Duration(0)
		for _, pair := range part.Pairs {
			run, silence = max(run, pair.LongestRun), max(silence, pair.LongestSilence)
		}
		fmt.Fprintf(table, "%s\t%.1f\t%d\t%d\t%d\t%d\t%d\t%s\t%s\n", name, took.Seconds(), len(part.Pairs), sent, lost,
			len(part.Lossy()), run, part.LongestOutage().Round(time.Millisecond), silence.Round(time.Millisecond))
	}
	seconds := map[string]time.Duration{}
	var order []string
	for _, phase := range r.Phases {
		if !slices.Contains(order, phase.Name) {
			order = append(order, phase.Name)
		}
		seconds[phase.Name] += phase.Until.Sub(phase.From)
	}
	for _, name := range order {
		row(name, seconds[name], r.Phase(name))
	}
	row("all", r.Until.Sub(r.From), r)
	_ = table.Flush()
	return text.String()
}

func bySilence(a, b Pair) int { return int(a.LongestSilence - b.LongestSilence) }

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
