package main

import (
	"bytes"
	"context"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func trial(t *testing.T) options {
	t.Helper()
	dir := t.TempDir()
	return options{tries: 10_000, jobs: 2, only: regexp.MustCompile("."), in: func(target) string { return dir }, progress: io.Discard}
}

func TestATargetWithoutAFindingIsCounted(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	require.NoError(t, trial(t).all(t.Context(), []string{"./testdata/sound"}, &out))
	require.Regexp(t, `(?m)^FuzzSound +github.com/rrpool/rrpool/test/tools/fuzz/testdata/sound +[1-9]\d* +\d+ +none$`, out.String())
	require.Contains(t, out.String(), "1 targets for 10000x each, 2 at a time")
}

func TestAFindingFails(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	o := trial(t)
	require.EqualError(t, o.all(t.Context(), []string{"./testdata/broken", "./testdata/sound"}, &out), "1 targets have a finding")
	require.Regexp(t, `(?m)^FuzzBroken .* failed: broken_test.go:\d+: ".*" is too long$`, out.String())
	require.Regexp(t, `(?m)^FuzzSound .* none$`, out.String())
	left, err := os.ReadDir(filepath.Join(o.in(target{}), "testdata", "fuzz", "FuzzBroken"))
	require.NoError(t, err)
	require.Len(t, left, 1, "the input that fails is kept")
}

func TestALostTargetFails(t *testing.T) {
	t.Parallel()
	o := trial(t)
	o.least = 2
	require.ErrorContains(t, o.all(t.Context(), []string{"./testdata/sound"}, io.Discard), "1 targets in ./testdata/sound, and there have to be 2")
}

func TestATargetThatNeverRanIsAFinding(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	got := trial(t).one(ctx, target{name: "FuzzSound"}, "/bin/true", t.TempDir())
	require.Equal(t, "did not end", got.finding)
	got = trial(t).one(t.Context(), target{name: "FuzzSound"}, "/bin/true", t.TempDir())
	require.Equal(t, "nothing was tried", got.finding)
}

func TestTheEndInTheMiddleOfATryIsNoFinding(t *testing.T) {
	t.Parallel()
	end := "fuzz: elapsed: 1s, execs: 9 (3/sec), new interesting: 2 (total: 3)\n--- FAIL: FuzzSound (1.01s)\n    context deadline exceeded\nFAIL\n"
	for said, finding := range map[string]string{
		end: "",
		strings.Replace(end, "    context", "    a_test.go:7: the client says: context", 1): "failed: a_test.go:7: the client says: context deadline exceeded",
	} {
		script := filepath.Join(t.TempDir(), "test")
		require.NoError(t, os.WriteFile(script, []byte("#!/bin/sh\ncat <<'END'\n"+said+"END\nexit 1\n"), 0o700))
		got := trial(t).one(t.Context(), target{name: "FuzzSound"}, script, t.TempDir())
		require.Equal(t, finding, got.finding)
		require.Equal(t, 9, got.execs)
		require.Equal(t, 2, got.inputs)
	}
}

func TestTheModuleHasTargets(t *testing.T) {
	t.Parallel()
	_, targets, err := find(t.Context(), []string{"github.com/rrpool/rrpool/..."})
	require.NoError(t, err)
	require.GreaterOrEqual(t, len(targets), 10)
}
