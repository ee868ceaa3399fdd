//go:build linux

package main

import (
	"context"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rrpool/rrpool/cmd/rrpool/iostreams"
	"github.com/rrpool/rrpool/test/lab/probe"
)

// idle is a cluster on which every command says nothing and ends as expected, and where so many packets are lost in a row.
type idle struct{ lost int }

func (idle) Command(ctx context.Context, words ...string) *exec.Cmd {
	if words[0] == "plan" {
		return exec.CommandContext(ctx, "sh", "-c", "exit 2")
	}
	return exec.CommandContext(ctx, "true")
}
func (idle) StartManager(...string) error   { return nil }
func (idle) Checkpoint(string)              {}
func (idle) WaitMesh(context.Context) error { return nil }
func (i idle) Packets(string) probe.Report {
	pair := probe.Pair{From: "a", To: "b", Sent: 20_000, Lost: i.lost, LongestRun: i.lost}
	return probe.Report{Pairs: []probe.Pair{pair}}
}

func TestTheDemoFailsWherePacketsAreLost(t *testing.T) {
	for name, tc := range map[string]struct {
		lost         int
		ends, failed string
	}{
		"none":         {0, "== Done: nothing was lost between workloads, there and back", ""},
		"a single one": {1, "== Done: 2 of 40000 packets between workloads were lost, no two in a row, there and back", ""},
		"two in a row": {2, "", phaseThere},
	} {
		t.Run(name, func(t *testing.T) {
			var out strings.Builder
			err := show(t.Context(), prompt{newConsole(iostreams.Streams{Out: &out, Now: time.Now}), idle{tc.lost}})
			if tc.failed != "" {
				require.ErrorContains(t, err, tc.failed)
				return
			}
			require.NoError(t, err)
			require.True(t, strings.HasSuffix(out.String(), tc.ends+"\n"), out.String())
		})
	}
}

func TestWhatATranscriptShows(t *testing.T) {
	const plan = "The migration\n\n1. a step\n‼ a warning\n2. a step\n"
	for name, tc := range map[string]struct {
		plan, said, shown string
		most              int
		unexpected        bool
	}{
		"everything, the end of a line that has none as well": {said: "a\n\nb\nc", shown: "a\n\nb\nc\n"},
		"the first lines, and how many are left out":          {most: 2, said: "a\nb\nc\nd\n", shown: "a\nb\n[2 more lines]\n"},
		"all of a short answer":                               {most: 2, said: "a\nb\n", shown: "a\nb\n"},
		"all of an answer that was not expected":              {most: 1, said: "a\nb\nc\n", shown: "a\nb\nc\n", unexpected: true},
		"warnings and no plan, until the mode is set": {
			plan: "as above", said: plan + "√ spec.mode is FullMesh\nprogress\n",
			shown: "The migration\n‼ a warning\n[3 lines: as above]\n√ spec.mode is FullMesh\nprogress\n",
		},
		"the plan of one who did not set the mode": {
			plan: "as above", said: plan + "rrpool: refused\n",
			shown: "The migration\n‼ a warning\n\n1. a step\n2. a step\nrrpool: refused\n", unexpected: true,
		},
		"why a mode was not set that had not to be": {
			plan: "as above", said: "√ is already under way\nprogress\n", shown: "√ is already under way\nprogress\n",
		},
	} {
		t.Run(name, func(t *testing.T) {
			var out strings.Builder
			said := &transcript{console: newConsole(iostreams.Streams{Out: &out, Now: time.Now}), plan: tc.plan, most: tc.most}
			for i := range len(tc.said) {
				n, err := said.Write([]byte(tc.said[i : i+1]))
				require.NoError(t, err)
				require.Equal(t, 1, n)
			}
			said.end(!tc.unexpected)
			require.Equal(t, tc.shown, out.String())
		})
	}
}
