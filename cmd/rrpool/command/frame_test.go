package command

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/client-go/rest"

	"github.com/rrpool/rrpool/cmd/rrpool/iostreams"
	"github.com/rrpool/rrpool/test/cli"
)

// ask calls the program as a user does.
func ask(t *testing.T, args ...string) cli.Answer {
	t.Helper()
	return askIn(t, iostreams.Streams{}, append([]string{"rrpool"}, args...)...)
}

// askIn is ask with some of the streams given; args begin with the program.
func askIn(t *testing.T, s iostreams.Streams, args ...string) cli.Answer {
	t.Helper()
	var out, err bytes.Buffer
	if s.Out == nil {
		s.Out = &out
	}
	s.Err = &err
	s = cli.Defaults(s)
	code := iostreams.Run(t.Context(), New(CalledAs(args), s), args[1:], s)
	return cli.Answer{Out: out.String(), Err: err.String(), Code: code}
}

func TestHelp(t *testing.T) {
	for name, args := range map[string][]string{
		"help": nil, "help-flag": {"--help"}, "help-version": {"help", "version"},
	} {
		t.Run(name, func(t *testing.T) {
			got := ask(t, args...)
			require.Zero(t, got.Code)
			require.Empty(t, got.Err)
			cli.Golden(t, filepath.Join("help", name+".golden"), got.Out)
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
		got := askIn(t, iostreams.Streams{}, called, "cost", "--help")
		require.Zero(t, got.Code)
		require.Contains(t, got.Out, "\n  "+want+"\n", called)
	}
	got := askIn(t, iostreams.Streams{}, "kubectl-rrpool", "cost", "--kubeconfig", "/nonexistent")
	require.Contains(t, got.Err, "without a cluster: kubectl rrpool cost --nodes 300")
}

func TestVersion(t *testing.T) {
	got := ask(t, "version")
	require.Zero(t, got.Code)
	require.Regexp(t, `^rrpool \S+ \((commit .*, )?go1\.\d+\S*, \w+/\w+\)\n$`, got.Out)
	got = ask(t, "version", "-o", "json")
	require.Zero(t, got.Code)
	var b build
	require.NoError(t, json.Unmarshal([]byte(got.Out), &b))
	require.Equal(t, versionSchema, b.SchemaVersion)
	require.NotEmpty(t, b.Version)
	require.NotEmpty(t, b.Platform)
}

func TestCompletion(t *testing.T) {
	for _, shell := range []string{"bash", "zsh", "fish", "powershell"} {
		got := ask(t, "completion", shell)
		require.Zero(t, got.Code, shell)
		require.Contains(t, got.Out, "rrpool", shell)
		require.Empty(t, got.Err)
	}
	require.Equal(t, "table\njson\nyaml\n:4\n", ask(t, "__complete", "cost", "-o", "").Out)
	require.Contains(t, ask(t, "__complete", "cost", "--").Out, "--hourly-price")
	require.Contains(t, ask(t, "__complete", "").Out, "cost\tWhat the pool of route reflectors costs")
}

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
		"an error with an exit code of its own": {&iostreams.ExitError{Code: 2, Err: errors.New("there are changes")}, 2, "rrpool: writing the report: there are changes\n"},
	} {
		t.Run(name, func(t *testing.T) {
			got := askIn(t, iostreams.Streams{Out: failing{tc.err}}, "rrpool", "cost", "--hourly-price", "1")
			require.Equal(t, cli.Answer{Err: tc.says, Code: tc.code}, got)
		})
	}
}

// program builds the program once for the tests that need a process.
func program(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "kubectl-rrpool")
	out, err := exec.Command("go", "build", "-ldflags", "-X github.com/rrpool/rrpool/cmd/version.release=v1.2.3", "-o", path, "..").CombinedOutput()
	require.NoError(t, err, string(out))
	return path
}

func TestAsAProcess(t *testing.T) {
	path := program(t)
	t.Run("the reader has gone", func(t *testing.T) {
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
		require.Contains(t, string(out), "2851.20")
	})
	t.Run("its version", func(t *testing.T) {
		out, err := exec.Command(path, "version").Output()
		require.NoError(t, err)
		require.Contains(t, string(out), "rrpool v1.2.3 (")
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

// Every command has a description, an example, a page in docs, and a section of the generated docs/cli.md.
func TestEveryCommandIsDocumented(t *testing.T) {
	pages := map[string]string{"rollback": "migrate", "import-env": "migrating", "version": "cli"}
	reference, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", "cli.md"))
	require.NoError(t, err, "make docs writes it")
	for _, cmd := range New("rrpool", iostreams.Streams{}).Commands() {
		name := cmd.Name()
		page := pages[name]
		if page == "" {
			page = name
		}
		require.FileExists(t, filepath.Join("..", "..", "..", "docs", page+".md"))
		require.Contains(t, string(reference), "\n## "+name+"\n\n"+cmd.Short+".\n")
		if name != "version" {
			require.NotEmpty(t, cmd.Long, name)
			require.NotEmpty(t, cmd.Example, name)
		}
	}
}

// Bad flags and arguments end with one sentence, whatever the command.
func TestEveryCommandRefusesWhatItDoesNotKnow(t *testing.T) {
	for _, cmd := range New("rrpool", iostreams.Streams{}).Commands() {
		for _, bad := range []string{"--no-such-flag", "no-such-argument"} {
			got := ask(t, cmd.Name(), bad)
			require.Equal(t, 1, got.Code, cmd.Name())
			require.Empty(t, got.Out)
			cli.RequireSentence(t, got.Err)
		}
	}
}

// Against an apiserver that cannot be reached, every command that asks one ends with a
// sentence and leaves nothing on standard output.
func TestEveryCommandWithoutAnApiserver(t *testing.T) {
	path := cli.Kubeconfig(t, &rest.Config{Host: cli.Unreachable})
	for _, args := range [][]string{
		{"check"},
		{"check", "--pre"},
		{"plan"},
		{"migrate", "--yes"},
		{"rollback", "--yes"},
		{"status"},
		{"status", "-v"},
		{"status", "--wait"},
		{"cost"},
		{"topology"},
		{"report", "--output-file", filepath.Join(t.TempDir(), "report.tar.gz")},
		{"import-env", "--from-cluster"},
	} {
		got := ask(t, append(args, "--kubeconfig", path, "--request-timeout", "2s")...)
		require.Equal(t, 1, got.Code, "%s: %s", args, got.Err)
		require.Empty(t, got.Out, args)
		lines := strings.SplitAfter(strings.TrimSuffix(got.Err, "\n"), "\n")
		cli.RequireSentence(t, lines[len(lines)-1]+"\n", cli.Unreachable, "cannot be reached") // progress comes before it
	}
}
