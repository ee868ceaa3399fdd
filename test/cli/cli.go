// Package cli calls the commands of rrpool in tests as a user does, with a fixed clock and no environment.
package cli

import (
	"bytes"
	"flag"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"
	"k8s.io/client-go/rest"

	"github.com/rrpool/rrpool/cmd/rrpool/iostreams"
	"github.com/rrpool/rrpool/test/controlplane"
)

var update = flag.Bool("update", false, "write the golden outputs anew")

// Now is the time of the commands' clock.
var Now = time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC)

// Answer is the result of one run.
type Answer struct {
	Out, Err string
	Code     int
}

// Command makes a command of the program.
type Command func(iostreams.Streams) *cobra.Command

// Ask runs a command. args begin with its name.
func Ask(t *testing.T, command Command, args ...string) Answer {
	t.Helper()
	return AskIn(t, iostreams.Streams{}, command, args...)
}

// AskIn is Ask with some of the streams given.
func AskIn(t *testing.T, s iostreams.Streams, command Command, args ...string) Answer {
	t.Helper()
	var out, err bytes.Buffer
	if s.Out == nil {
		s.Out = &out
	}
	s.Err = &err
	s = Defaults(s)
	code := iostreams.Run(t.Context(), Root(command(s)), args, s)
	return Answer{out.String(), err.String(), code}
}

// Root is the program with one command.
func Root(command *cobra.Command) *cobra.Command {
	root := &cobra.Command{Use: iostreams.Program}
	root.AddCommand(command)
	return root
}

// Defaults fills in the streams that are not given.
func Defaults(s iostreams.Streams) iostreams.Streams {
	if s.In == nil {
		s.In = strings.NewReader("")
	}
	if s.Getenv == nil {
		s.Getenv = Environment()
	}
	if s.Now == nil {
		s.Now = func() time.Time { return Now }
	}
	return s.Settle()
}

// Unreachable is an address without a server. Port 1 is reserved: unlike a port that was
// just closed, the kernel never gives it to another server.
const Unreachable = "http://127.0.0.1:1"

// Environment has the variables given, name by value.
func Environment(pairs ...string) func(string) string {
	return func(name string) string {
		for i := 0; i < len(pairs); i += 2 {
			if pairs[i] == name {
				return pairs[i+1]
			}
		}
		return ""
	}
}

// Golden compares with a file below testdata; -update writes it.
func Golden(t *testing.T, name, got string) {
	t.Helper()
	file := filepath.Join("testdata", name)
	if *update {
		require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o750))
		require.NoError(t, os.WriteFile(file, []byte(got), 0o600))
	}
	want, err := os.ReadFile(file)
	require.NoError(t, err, "go test -update writes it")
	require.Equal(t, string(want), got, file)
}

// File makes a file with that content.
func File(t *testing.T, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "file.yaml")
	require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
	return path
}

// Serve gives the path of a kubeconfig for the handler as an apiserver.
func Serve(t *testing.T, handler http.Handler) string {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	return Kubeconfig(t, &rest.Config{Host: server.URL})
}

// Kubeconfig gives the path of a kubeconfig; its context is named rrpool.
func Kubeconfig(t *testing.T, config *rest.Config) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "kubeconfig")
	require.NoError(t, controlplane.WriteKubeconfig(path, config))
	return path
}

// RequireSentence requires one line of error with all the words.
func RequireSentence(t *testing.T, text string, says ...string) {
	t.Helper()
	require.True(t, strings.HasPrefix(text, "rrpool: "), text)
	require.Equal(t, 1, strings.Count(text, "\n"), "one line: %s", text)
	require.NotContains(t, text, "goroutine")
	for _, words := range says {
		require.Contains(t, text, words)
	}
}

// RequireWidth requires that every line fits a terminal.
func RequireWidth(t *testing.T, text string, width int) {
	t.Helper()
	for line := range strings.SplitSeq(text, "\n") {
		require.LessOrEqual(t, len([]rune(line)), width, "%q", line)
	}
}
