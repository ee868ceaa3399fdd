package main

import (
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestHelp(t *testing.T) {
	for name, args := range map[string][]string{
		"help": nil, "help-flag": {"--help"}, "help-cost": {"cost", "--help"}, "help-version": {"help", "version"},
	} {
		t.Run(name, func(t *testing.T) {
			got := ask(t, args...)
			require.Zero(t, got.code)
			require.Empty(t, got.err)
			golden(t, filepath.Join("help", name+".golden"), got.out)
		})
	}
}

// Installed as a plugin of kubectl, the program calls itself as the user does.
func TestTheNameItIsCalledBy(t *testing.T) {
	for called, want := range map[string]string{
		"rrpool":                          "rrpool cost [flags]",
		"/usr/local/bin/kubectl-rrpool":   "kubectl rrpool cost [flags]",
		"kubectl-rrpool.exe":              "kubectl rrpool cost [flags]",
		"/opt/kubectl-rrpool/bin/rrpool":  "rrpool cost [flags]",
		"something-else-it-was-linked-as": "rrpool cost [flags]",
	} {
		got := askIn(t, surroundings{}, called, "cost", "--help")
		require.Zero(t, got.code)
		require.Contains(t, got.out, "\n  "+want+"\n", called)
	}
	got := askIn(t, surroundings{}, "kubectl-rrpool", "cost", "--kubeconfig", "/nonexistent")
	require.Contains(t, got.err, "without a cluster: kubectl rrpool cost --nodes 3")
}

func TestVersion(t *testing.T) {
	got := ask(t, "version")
	require.Zero(t, got.code)
	require.Regexp(t, `^rrpool \S+ \(go1\.\d+\S*, \w+/\w+\)\n$`, got.out)
	got = ask(t, "version", "-o", "json")
	require.Zero(t, got.code)
	var b build
	require.NoError(t, json.Unmarshal([]byte(got.out), &b))
	require.Equal(t, versionSchema, b.SchemaVersion)
	require.NotEmpty(t, b.Version)
	require.NotEmpty(t, b.Platform)
	release = "v1.2.3"
	defer func() { release = "" }()
	require.Contains(t, ask(t, "version").out, "rrpool v1.2.3 (")
}

func TestCompletion(t *testing.T) {
	for _, shell := range []string{"bash", "zsh", "fish", "powershell"} {
		got := ask(t, "completion", shell)
		require.Zero(t, got.code, shell)
		require.Contains(t, got.out, "rrpool", shell)
		require.Empty(t, got.err)
	}
	require.Equal(t, "table\njson\ncsv\nhtml\n:4\n", ask(t, "__complete", "cost", "-o", "").out)
	require.Contains(t, ask(t, "__complete", "cost", "--").out, "--hourly-price")
	require.Contains(t, ask(t, "__complete", "").out, "cost\tWhat the route-reflector pool costs")
}

// An error may carry an exit code of its own, as plan's "there are changes" will.
type coded struct{ code int }

func (coded) Error() string   { return "there are changes" }
func (c coded) ExitCode() int { return c.code }

// failing fails every write.
type failing struct{ err error }

func (f failing) Write([]byte) (int, error) { return 0, f.err }

func TestFailuresToWrite(t *testing.T) {
	for name, tc := range map[string]struct {
		err  error
		code int
		says string
	}{
		"a reader that has seen enough":         {syscall.EPIPE, 0, ""},
		"a full disk":                           {syscall.ENOSPC, 1, "rrpool: writing the report: no space left on device\n"},
		"an error with an exit code of its own": {coded{2}, 2, "rrpool: writing the report: there are changes\n"},
	} {
		t.Run(name, func(t *testing.T) {
			got := askIn(t, surroundings{out: failing{tc.err}}, "rrpool", "cost", "--hourly-price", "1")
			require.Equal(t, answer{"", tc.says, tc.code}, got)
		})
	}
}

// program builds the program once for the tests that need a process.
func program(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "kubectl-rrpool")
	out, err := exec.Command("go", "build", "-o", path, ".").CombinedOutput()
	require.NoError(t, err, string(out))
	return path
}

func TestAsAProcess(t *testing.T) {
	path := program(t)
	t.Run("nobody reads the report", func(t *testing.T) {
		read, write, err := os.Pipe()
		require.NoError(t, err)
		require.NoError(t, read.Close())
		cmd := exec.Command(path, "cost", "--hourly-price", "0.11")
		var said strings.Builder
		cmd.Stdout, cmd.Stderr = write, &said
		require.NoError(t, cmd.Run(), "exit code 0, and no signal")
		require.NoError(t, write.Close())
		require.Empty(t, said.String())
	})
	t.Run("an answer, by the name of the plugin", func(t *testing.T) {
		out, err := exec.Command(path, "cost", "--hourly-price", "0.11").Output()
		require.NoError(t, err)
		require.Contains(t, string(out), "950.40/year")
	})
	t.Run("an error", func(t *testing.T) {
		cmd := exec.Command(path, "cost", "--hourly-price=-1")
		cmd.Stdout = io.Discard
		var said strings.Builder
		cmd.Stderr = &said
		var exit *exec.ExitError
		require.ErrorAs(t, cmd.Run(), &exit)
		require.Equal(t, 1, exit.ExitCode())
		require.Equal(t, 1, strings.Count(said.String(), "\n"), said.String())
	})
}
