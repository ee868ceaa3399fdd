package probe

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

var epoch = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

// history is a pair that was probed every 10 ms; '.' was answered, 'x' was lost, '_' was not sent.
func history(from, to, probes string) sample {
	s := sample{from: from, to: to}
	for i, c := range probes {
		if c != '_' {
			s.sent = append(s.sent, time.Duration(i)*DefaultInterval)
			s.answered = append(s.answered, c == '.')
		}
	}
	return s
}

func reportOf(phases []Phase, samples ...sample) Report {
	return newReport(epoch, epoch.Add(time.Hour), DefaultInterval, phases, samples)
}

func dots(n int) string { return strings.Repeat(".", n) }

func gap(n int) string { return strings.Repeat("_", n) }

func TestZeroLoss(t *testing.T) {
	tests := map[string]struct {
		samples []sample
		want    string
	}{
		"all answered":                               {samples: []sample{history("a", "b", dots(100))}},
		"one lost of more than ten thousand":         {samples: []sample{history("a", "b", dots(10_000)+"x.")}},
		"one lost of exactly ten thousand":           {samples: []sample{history("a", "b", dots(9_998)+"x.")}, want: "1 of 10000 probes were lost"},
		"the allowance is shared by all pairs":       {samples: []sample{history("a", "b", dots(6_000)+"x."), history("b", "a", dots(6_000))}},
		"two lost in different places of twenty":     {samples: []sample{history("a", "b", dots(9)+"x"+dots(9)+"x")}, want: "2 of 20 probes were lost"},
		"two in a row, however many were answered":   {samples: []sample{history("a", "b", dots(90_000)+"xx.")}, want: "a → b lost 2 of 90003, 2 in a row, longest 20ms"},
		"only one direction is broken":               {samples: []sample{history("a", "b", dots(100)), history("b", "a", "..xxx")}, want: "1 of 2 pairs lost probes in a row: b → a"},
		"never connected":                            {samples: []sample{history("a", "b", "xxxx")}, want: "1 pairs were never connected"},
		"nothing probed":                             {want: "nothing was probed"},
		"a pause in which nothing could be noticed":  {samples: []sample{history("a", "b", "..."+gap(50)+"...")}, want: "not probed often enough, for up to 510ms"},
		"a pause of less than half a second in 41 s": {samples: []sample{history("a", "b", dots(2_000)+gap(40)+dots(2_101))}},
		"the same in 40 s":                           {samples: []sample{history("a", "b", dots(2_000)+gap(40)+dots(2_000))}, want: "not probed often enough, for up to 410ms"},
		"two of them in 60 s":                        {samples: []sample{history("a", "b", dots(2_000)+gap(40)+dots(2_000)+gap(40)+dots(2_000))}, want: "not probed often enough"},
		"a pause in which something is lost as well": {samples: []sample{history("a", "b", dots(9_000)+gap(40)+"xx"+dots(9_000))}, want: "lost probes in a row"},
		"a pause that is short of being an excuse":   {samples: []sample{history("a", "b", "..."+gap(20)+"...")}},
		"more pairs than a line can name":            {samples: []sample{history("a", "b", ".xx"), history("a", "c", ".xx"), history("b", "a", ".xx"), history("b", "c", ".xx")}, want: "; and 1 more"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			err := reportOf(nil, test.samples...).ZeroLoss()
			if test.want == "" {
				require.NoError(t, err)
			} else {
				require.ErrorContains(t, err, test.want)
			}
		})
	}
}

func TestAnOutageBelongsToThePhaseInWhichItBegan(t *testing.T) {
	phases := []Phase{
		{Name: "before", From: epoch.Add(20 * time.Millisecond), Until: epoch.Add(50 * time.Millisecond)},
		{Name: "after", From: epoch.Add(50 * time.Millisecond), Until: epoch.Add(time.Second)},
	}
	report := reportOf(phases, history("a", "b", "....xxx..x."), history("b", "a", dots(11)))

	before := report.Phase("before")
	require.Len(t, before.Pairs, 2)
	require.Equal(t, 3, before.Pairs[0].Sent)
	require.Equal(t, []Outage{{From: epoch.Add(40 * time.Millisecond), Until: epoch.Add(70 * time.Millisecond), Lost: 3, Phase: "before"}}, before.Pairs[0].Outages)
	require.Equal(t, 30*time.Millisecond, before.LongestOutage())
	require.ErrorContains(t, before.ZeroLoss(), "3 in a row")

	after := report.Phase("after")
	require.Equal(t, []int{6, 1, 1}, []int{after.Pairs[0].Sent, after.Pairs[0].Lost, after.Pairs[0].LongestRun})
	require.ErrorContains(t, after.ZeroLoss(), "one by one")

	require.Equal(t, []int{11, 4, 3}, []int{report.Pairs[0].Sent, report.Pairs[0].Lost, report.Pairs[0].LongestRun})
	require.Empty(t, report.Phase("never").Pairs)
	require.ErrorContains(t, report.Phase("never").ZeroLoss(), "nothing was probed")
}

func TestASeriesCountsFromItsFirstAnswerAndForgetsWhatIsUnderWayAtItsEnd(t *testing.T) {
	ms := time.Millisecond
	tests := map[string]struct {
		answers []string // per probe, every 10 ms: "", or when it was answered after the probe
		end     bool
		want    string
	}{
		"lost before the first answer": {answers: []string{"", "", "1ms", "", "1ms"}, want: ".x."},
		"answered too late":            {answers: []string{"1ms", "1001ms", "1ms"}, want: ".x."},
		"never answered":               {answers: []string{"", ""}, want: "xx"},
		"removed with two under way":   {answers: []string{"1ms", "", "1ms", "", ""}, end: true, want: ".x."},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			s := &series{from: "a", to: "b"}
			for i := range test.answers {
				s.begin(time.Duration(i) * 10 * ms)
			}
			for i, answer := range test.answers {
				if delay, err := time.ParseDuration(answer); err == nil {
					s.answer(uint32(i), time.Duration(i)*10*ms+delay)
				}
			}
			if test.end {
				s.end()
			}
			got := ""
			for _, answered := range s.sample(time.Hour).answered {
				got += map[bool]string{true: ".", false: "x"}[answered]
			}
			require.Equal(t, test.want, got)
		})
	}
}
