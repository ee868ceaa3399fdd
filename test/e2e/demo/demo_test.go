//go:build linux

package main

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rrpool/rrpool/cmd/rrpool/iostreams"
	"github.com/rrpool/rrpool/test/lab/probe"
)

func TestTheDemoFailsWherePacketsAreLost(t *testing.T) {
	report := func(lost int) probe.Report {
		return probe.Report{Pairs: []probe.Pair{{From: "a", To: "b", Sent: 20_000, Lost: lost, LongestRun: lost}}}
	}
	for lost, want := range []string{
		"Done: nothing was lost between workloads, there and back", "Done: 1 of 40000 packets between workloads were lost, no two in a row, there and back",
	} {
		ending, err := verdict(report(lost), report(0))
		require.NoError(t, err)
		require.Equal(t, want, ending)
	}
	_, err := verdict(report(2), report(0))
	require.ErrorContains(t, err, phaseThere)
	_, err = verdict(report(0), report(2))
	require.ErrorContains(t, err, phaseBack)
}

func TestWhatATranscriptShows(t *testing.T) {
	const plan = "The migration\n\n1. a step\n‼ a warning\n2. a step\n"
	for name, tc := range map[string]struct {
		plan, said, shown string
		most              int
		unexpected        bool
	}{
		"the first lines, and how many are left out": {most: 2, said: "a\nb\nc\nd", shown: "a\nb\n[2 more lines]\n"},
		"warnings and no plan, until the mode is set": {
			plan: "as above", said: plan + "√ spec.mode is FullMesh\nprogress\n",
			shown: "The migration\n‼ a warning\n[3 lines: as above]\n√ spec.mode is FullMesh\nprogress\n",
		},
		"all of an answer that was not expected": {
			plan: "as above", said: plan + "rrpool: refused\n",
			shown: "The migration\n‼ a warning\n\n1. a step\n2. a step\nrrpool: refused\n", unexpected: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			var out strings.Builder
			said := &transcript{console: newConsole(iostreams.Streams{Out: &out, Now: time.Now}), plan: tc.plan, most: tc.most}
			_, err := said.Write([]byte(tc.said[:3]))
			require.NoError(t, err)
			_, err = said.Write([]byte(tc.said[3:]))
			require.NoError(t, err)
			said.end(!tc.unexpected)
			require.Equal(t, tc.shown, out.String())
		})
	}
}
