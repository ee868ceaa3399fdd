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
			err := show(t.Context(), prompt{newTeller(iostreams.Streams{Out: &out, Now: time.Now}), idle{tc.lost}})
			if tc.failed != "" {
				require.ErrorContains(t, err, tc.failed)
				return
			}
			require.NoError(t, err)
			require.True(t, strings.HasSuffix(out.String(), tc.ends+"\n"), out.String())
		})
	}
}
