// Package cli runs rrpool's commands in tests, with a fixed clock and no environment.
package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/rrpool/rrpool/cmd/rrpool/cluster"
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

// Command returns a command of the program.
type Command func(iostreams.Streams) *cobra.Command

// Ask runs a command. args begin with the command's name.
func Ask(t *testing.T, command Command, args ...string) Answer {
	t.Helper()
	return AskIn(t, iostreams.Streams{}, command, args...)
}

// AskIn is Ask with some of the streams given.
func AskIn(t *testing.T, s iostreams.Streams, command Command, args ...string) Answer {
	t.Helper()
	return Run(t.Context(), s, Root(command), args...)
}

// Run runs a program until ctx ends. args begin with the name of a command.
func Run(ctx context.Context, s iostreams.Streams, program Command, args ...string) Answer {
	var out, err bytes.Buffer
	if s.Out == nil {
		s.Out = &out
	}
	s.Err = &err
	s = Defaults(s)
	code := iostreams.Run(ctx, program(s), args, s)
	return Answer{out.String(), err.String(), code}
}

// Play is Run in a cluster that changes: instead of waiting, the program gets the next change, and after the last one Ctrl-C. It returns the
// times of the waits too.
func Play[A sync.Locker](t *testing.T, s iostreams.Streams, program Command, api A, changes []func(A), args ...string) (Answer, []time.Duration) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	clock, waits := Now, []time.Duration{}
	s.Now = func() time.Time { return clock }
	s.Sleep = func(d time.Duration, _ <-chan struct{}) {
		clock, waits = clock.Add(d), append(waits, d)
		if len(changes) == 0 {
			stop()
			return
		}
		api.Lock()
		defer api.Unlock()
		changes[0](api)
		changes = changes[1:]
	}
	return Run(ctx, s, program, args...), waits
}

// Root returns the program with these commands.
func Root(commands ...Command) Command {
	return func(s iostreams.Streams) *cobra.Command {
		root := &cobra.Command{Use: iostreams.Program}
		for _, command := range commands {
			root.AddCommand(command(s))
		}
		return root
	}
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

// Environment returns a function that looks up variables, given as names and values in turn.
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

// Golden compares got with a file in testdata; -update writes the file.
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

// Pool is a RouteReflectorPool as YAML, to which a spec can be added.
const Pool = "apiVersion: rrpool.io/v1alpha1\nkind: RouteReflectorPool\nmetadata: {name: default}\n"

// PoolFile writes a file with a RouteReflectorPool with a spec in YAML, and returns its path.
func PoolFile(t *testing.T, spec string) string {
	t.Helper()
	return File(t, Pool+"spec: "+spec+"\n")
}

// File writes a file, and returns its path.
func File(t *testing.T, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "file.yaml")
	require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
	return path
}

// Serve serves the handler as an apiserver, and returns the path of a kubeconfig for it.
func Serve(t *testing.T, handler http.Handler) string {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	return Kubeconfig(t, &rest.Config{Host: server.URL})
}

// Connect serves the handler as an apiserver, and returns a connection to it.
func Connect(t *testing.T, handler http.Handler) *cluster.Connection {
	t.Helper()
	var access cluster.Access
	flags := pflag.NewFlagSet("test", pflag.ContinueOnError)
	access.Register(flags)
	require.NoError(t, flags.Parse([]string{"--kubeconfig", Serve(t, handler), "--request-timeout", "5s"}))
	c, err := access.Connect()
	require.NoError(t, err)
	return c
}

// API is an apiserver with objects by their paths; for nil the response is NotFound.
type API map[string]any

// ServeHTTP implements http.Handler.
func (a API) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch object, known := a[r.URL.Path]; {
	case !known:
		http.NotFound(w, r)
	case object == nil:
		Fail(w, NotFound)
	default:
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(object)
	}
}

// NodeList returns the response to the path of all nodes.
func NodeList(nodes ...corev1.Node) corev1.NodeList {
	return corev1.NodeList{TypeMeta: metav1.TypeMeta{Kind: "NodeList", APIVersion: "v1"}, Items: nodes}
}

// Paths of objects.
const (
	NodesPath = "/api/v1/nodes"
	PoolPath  = "/apis/rrpool.io/v1alpha1/routereflectorpools/default"
)

// Fail writes an apiserver's error response.
func Fail(w http.ResponseWriter, status metav1.Status) {
	status.TypeMeta, status.Status = metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, metav1.StatusFailure
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(int(status.Code))
	_ = json.NewEncoder(w).Encode(status)
}

// NotFound is the response to a request for an object that does not exist, of a kind that does.
var NotFound = metav1.Status{Code: http.StatusNotFound, Reason: metav1.StatusReasonNotFound, Details: &metav1.StatusDetails{Name: "default"}}

// Lease returns the manager's lease, which m1 has renewed a time before Now.
func Lease(before time.Duration) *coordinationv1.Lease {
	holder, seconds, renewed := "m1", int32(15), metav1.NewMicroTime(Now.Add(-before))
	return &coordinationv1.Lease{
		TypeMeta:   metav1.TypeMeta{Kind: "Lease", APIVersion: "coordination.k8s.io/v1"},
		ObjectMeta: metav1.ObjectMeta{Name: "rrpool-manager", Namespace: "rrpool-system"},
		Spec:       coordinationv1.LeaseSpec{HolderIdentity: &holder, LeaseDurationSeconds: &seconds, RenewTime: &renewed},
	}
}

// Broken is a writer that fails with an error.
type Broken struct{ Err error }

// Write implements io.Writer.
func (b Broken) Write([]byte) (int, error) { return 0, b.Err }

// Kubeconfig writes a kubeconfig with the context rrpool, and returns its path.
func Kubeconfig(t *testing.T, config *rest.Config) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "kubeconfig")
	require.NoError(t, controlplane.WriteKubeconfig(path, config))
	return path
}

// Bad are the arguments of a command that fails, and words of its error message.
type Bad [2][]string

// RequireBad requires that each call fails with a message of one sentence, and no other output.
func RequireBad(t *testing.T, command Command, name string, calls map[string]Bad) {
	t.Helper()
	for what, call := range calls {
		t.Run(what, func(t *testing.T) {
			got := Ask(t, command, append([]string{name}, call[0]...)...)
			RequireRefused(t, got, call[1]...)
		})
	}
}

// RequireRefused requires that a call failed with a message of one sentence, and no other output.
func RequireRefused(t *testing.T, got Answer, says ...string) {
	t.Helper()
	require.Equal(t, 1, got.Code)
	require.Empty(t, got.Out)
	RequireSentence(t, got.Err, says...)
}

// RequireSentence requires one line of error message with all the words.
func RequireSentence(t *testing.T, text string, says ...string) {
	t.Helper()
	require.True(t, strings.HasPrefix(text, "rrpool: "), text)
	require.Equal(t, 1, strings.Count(text, "\n"), "one line: %s", text)
	require.NotContains(t, text, "goroutine")
	for _, words := range says {
		require.Contains(t, text, words)
	}
}

// RequireWidth requires that every line fits a terminal, and that there are no colours.
func RequireWidth(t *testing.T, text string, width int) {
	t.Helper()
	require.NotContains(t, text, "\x1b")
	for line := range strings.SplitSeq(text, "\n") {
		require.LessOrEqual(t, len([]rune(line)), width, "%q", line)
	}
}
