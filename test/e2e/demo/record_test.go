//go:build linux

package main

import (
	"bytes"
	"context"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rrpool/rrpool/cmd/rrpool/iostreams"
	"github.com/rrpool/rrpool/test/lab/probe"
	"github.com/rrpool/rrpool/test/recording"
)

var update = flag.Bool("update", false, "draw docs/pictures/demo.svg anew from the recording")

const pictures = "../../../docs/pictures"

func kept(t *testing.T) recording.Cast {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(pictures, "demo.cast"))
	require.NoError(t, err, "make recording makes it")
	cast, err := recording.Read(bytes.NewReader(content))
	require.NoError(t, err)
	return cast
}

// The picture of the README is drawn from the recording beside it: -update draws it anew.
func TestThePictureIsOfTheRecording(t *testing.T) {
	got, err := kept(t).Picture("make demo", "A terminal. rrpool check, plan, migrate, status, topology and cost move a cluster of six nodes "+
		"onto three route reflectors, and rrpool rollback back to the mesh. Thirty pairs of pods count their packets all the time: none is lost.")
	require.NoError(t, err)
	path := filepath.Join(pictures, "demo.svg")
	if *update {
		require.NoError(t, os.WriteFile(path, got, 0o600))
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, string(want), string(got), "make recording draws it")
	require.Less(t, len(got), 300_000)
}

// idle is a cluster on which every command says nothing, and ends as it should.
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

// played is what the demo's code tells of a cluster.
func played(t *testing.T, c cluster) ([]string, error) {
	t.Helper()
	t.Setenv("TMPDIR", "/tmp")
	var out strings.Builder
	told := newTeller(iostreams.Streams{Out: &out, Now: time.Now})
	told.open()
	err := show(t.Context(), prompt{told, c})
	return script(strings.Split(out.String(), "\n")), err
}

var timed = regexp.MustCompile(`^ *\d+\.\ds {2}`)

// script are the lines that do not depend on what happens: titles, commands, and what is
// told between them, but for the workers that join.
func script(lines []string) []string {
	var out []string
	for _, line := range lines {
		switch {
		case strings.HasPrefix(line, "== "), strings.HasPrefix(line, "$ "), strings.HasPrefix(line, "PAIRS OF PODS"):
			out = append(out, line)
		case timed.MatchString(line) && !strings.HasPrefix(timed.ReplaceAllString(line, ""), "worker "):
			out = append(out, timed.ReplaceAllString(line, ""))
		}
	}
	return out
}

func texts(t *testing.T, cast recording.Cast) []string {
	t.Helper()
	lines, err := cast.Lines()
	require.NoError(t, err)
	var out []string
	for _, line := range lines {
		out = append(out, line.Text())
	}
	return out
}

// What the demo does has not changed since it was recorded.
func TestTheRecordingIsOfThisDemo(t *testing.T) {
	want, err := played(t, idle{})
	require.NoError(t, err)
	recorded := texts(t, kept(t))
	require.Equal(t, want, script(recorded), "make recording records it anew")
	require.Greater(t, len(want), 12)
	require.Equal(t, want[len(want)-1], recorded[len(recorded)-1])
	require.Equal(t, "== Done: nothing was lost between workloads, there and back", want[len(want)-1])
	require.Equal(t, []string{"0", "0"}, losses(recorded))
}

// losses are the figures of the tables of packets.
func losses(lines []string) []string {
	var out []string
	for i, line := range lines {
		if strings.HasPrefix(line, "PAIRS OF PODS") {
			out = append(out, strings.Fields(lines[i+2])[2])
		}
	}
	return out
}

// Negative control: another command, another order, and a loss are seen.
func TestAnotherDemoIsNotThatOfTheRecording(t *testing.T) {
	want := texts(t, kept(t))
	command := slices.IndexFunc(want, func(line string) bool { return strings.HasPrefix(line, "$ rrpool status") })
	changed := slices.Clone(want)
	changed[command] = "$ rrpool status -v"
	require.NotEqual(t, script(want), script(changed))
	require.NotEqual(t, script(want), script(slices.Delete(slices.Clone(want), command, command+1)))
	require.Equal(t, []string{"7"}, losses([]string{"PAIRS OF PODS  PACKETS SENT  LOST", "---", "  30  4711     7"}))

	_, err := played(t, idle{lost: 2})
	require.ErrorContains(t, err, phaseThere)
	single, err := played(t, idle{lost: 1})
	require.NoError(t, err)
	require.Equal(t, "== Done: 2 of 40000 packets between workloads were lost, no two in a row, there and back", single[len(single)-1])
}

// A recording has the colours and the width of its terminal, whatever there is really.
func TestWhatIsRecordedIsWhatATerminalShows(t *testing.T) {
	var out strings.Builder
	now := time.Unix(1_800_000_000, 0)
	to, recorder := recorded(iostreams.Streams{Out: iostreams.Guard(&out), Now: func() time.Time { return now }})
	told := newTeller(to)
	now = now.Add(1500 * time.Millisecond)
	told.say(strings.Repeat("word ", 30) + "\x1b[2J")
	told.write("√ done", "[2 lines]")
	cast := recorder.Cast()
	var shown strings.Builder
	for _, e := range cast.Events {
		require.Equal(t, 1500*time.Millisecond, e.At)
		shown.WriteString(e.Text)
	}
	require.Equal(t, strings.ReplaceAll(out.String(), "\n", "\r\n"), shown.String())
	require.Contains(t, shown.String(), "\x1b[32m√ done\x1b[0m\r\n\x1b[2m[2 lines]\x1b[0m\r\n")
	require.NotContains(t, shown.String(), "\x1b[2J")
	for _, line := range texts(t, cast) {
		require.LessOrEqual(t, len([]rune(line)), columns)
	}
}
