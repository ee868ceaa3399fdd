package probe

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

var epoch = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

// history is a pair that was probed every 10 ms; '.' was arrived, 'x' was lost, '_' was not sent.
func history(from, to, probes string) sample {
	s := sample{from: from, to: to}
	for i, c := range probes {
		if c != '_' {
			s.sent = append(s.sent, time.Duration(i)*DefaultInterval)
			s.arrived = append(s.arrived, c == '.')
		}
	}
	return s
}

func reportOf(phases []Phase, samples ...sample) Report {
	return newReport(epoch, epoch.Add(time.Hour), DefaultInterval, phases, samples, sample{}, nil)
}

func dots(n int) string { return strings.Repeat(".", n) }

func gap(n int) string { return strings.Repeat("_", n) }

func TestZeroLoss(t *testing.T) {
	tests := map[string]struct {
		samples []sample
		want    string
	}{
		"all arrived":                                {samples: []sample{history("a", "b", dots(100))}},
		"one lost of more than ten thousand":         {samples: []sample{history("a", "b", dots(10_000)+"x.")}},
		"one lost of exactly ten thousand":           {samples: []sample{history("a", "b", dots(9_998)+"x.")}, want: "1 of 10000 probes were lost"},
		"the allowance is shared by all pairs":       {samples: []sample{history("a", "b", dots(6_000)+"x."), history("b", "a", dots(6_000))}},
		"two lost in different places of twenty":     {samples: []sample{history("a", "b", dots(9)+"x"+dots(9)+"x")}, want: "2 of 20 probes were lost"},
		"two in a row, however many were arrived":    {samples: []sample{history("a", "b", dots(90_000)+"xx.")}, want: "a → b lost 2 of 90003, 2 in a row, longest 20ms"},
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

// Where the control pair loses probes as well, the machine did it: that proves no loss, and no absence of one.
func TestWhatTheMachineLosesIsNotBlamedOnRouting(t *testing.T) {
	tests := map[string]struct {
		control, pair string
		overflows     []Outage
		want          string
	}{
		"at the same time":                     {control: dots(50) + "xxx" + dots(47), pair: dots(50) + "xxx" + dots(47), want: "no loss can be ruled out: the machine itself lost probes of the control pair when 3 of 100"},
		"some here, some there":                {control: dots(50) + "x..x...x.x" + dots(40), pair: dots(52) + "xxxxxx" + dots(42), want: "no loss can be ruled out"},
		"single ones, more than are allowed":   {control: dots(50) + "x" + dots(49), pair: dots(50) + "x" + dots(49), want: "no loss can be ruled out"},
		"single ones, as few as are allowed":   {control: dots(50) + "x" + dots(49), pair: dots(50) + "x" + dots(10_000)},
		"at another time":                      {control: dots(10) + "xxx" + dots(87), pair: dots(50) + "xxx" + dots(47), want: "1 of 1 pairs lost probes in a row"},
		"longer than the control pair":         {control: dots(10) + "xxx" + dots(87), pair: dots(10) + strings.Repeat("x", 60) + dots(30), want: "1 of 1 pairs lost probes in a row"},
		"the control pair alone":               {control: dots(10) + "xxx" + dots(87), pair: dots(100)},
		"a socket had no room":                 {control: dots(100), pair: dots(50) + "xxx" + dots(47), overflows: []Outage{{From: epoch.Add(490 * time.Millisecond), Until: epoch.Add(530 * time.Millisecond)}}, want: "no loss can be ruled out"},
		"the control pair was never connected": {control: strings.Repeat("x", 100), pair: dots(50) + "xxx" + dots(47), want: "no loss can be ruled out"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			samples := []sample{history("a", "b", test.pair)}
			err := newReport(epoch, epoch.Add(time.Hour), DefaultInterval, nil, samples, history("c", "c", test.control), test.overflows).ZeroLoss()
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

func TestASeriesCountsFromItsFirstArrivalAndForgetsWhatIsUnderWayAtItsEnd(t *testing.T) {
	ms := time.Millisecond
	tests := map[string]struct {
		arrivals []string // per probe, every 10 ms: "", or when it came, counted from when it was sent
		end      bool
		want     string
	}{
		"lost before the first arrival": {arrivals: []string{"", "", "1ms", "", "1ms"}, want: ".x."},
		"arrived too late":              {arrivals: []string{"1ms", "1001ms", "1ms"}, want: ".x."},
		"never arrived":                 {arrivals: []string{"", ""}, want: "xx"},
		"removed with two under way":    {arrivals: []string{"1ms", "", "1ms", "", ""}, end: true, want: ".x."},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			s := &series{from: "a", to: "b"}
			for i := range test.arrivals {
				s.begin(time.Duration(i) * 10 * ms)
			}
			for i, arrival := range test.arrivals {
				if delay, err := time.ParseDuration(arrival); err == nil {
					s.take(message{sequence: uint32(i)}, time.Duration(i)*10*ms+delay)
				}
			}
			if test.end {
				s.end()
			}
			got := ""
			for _, arrived := range s.sample(time.Hour).arrived {
				got += map[bool]string{true: ".", false: "x"}[arrived]
			}
			require.Equal(t, test.want, got)
		})
	}
}
