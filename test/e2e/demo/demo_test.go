//go:build linux

package main

import (
	"testing"

	"github.com/stretchr/testify/require"

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
