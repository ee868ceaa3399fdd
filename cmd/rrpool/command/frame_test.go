package command

import (
	"errors"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/spf13/cobra"
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
	return cli.Run(t.Context(), s, func(s iostreams.Streams) *cobra.Command { return New(CalledAs(args), s) }, args[1:]...)
}

func TestHelp(t *testing.T) {
	for name, args := range map[string][]string{
		"help": nil, "help-version": {"help", "version"},
	} {
		t.Run(name, func(t *testing.T) {
			got := ask(t, args...)
			require.Zero(t, got.Code)
			require.Empty(t, got.Err)
			cli.Golden(t, filepath.Join("help", name+".golden"), got.Out)
		})
	}
	require.Equal(t, ask(t), ask(t, "--help"))
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
	got := askIn(t, iostreams.Streams{}, "kubectl-rrpool", "plan", "--kubeconfig", "/nonexistent")
	require.Contains(t, got.Err, "without a cluster: kubectl rrpool plan --nodes 500")
}

func TestVersion(t *testing.T) {
	got := ask(t, "version")
	require.Zero(t, got.Code)
	require.Regexp(t, `^rrpool \S+ \((commit .*, )?go1\.\d+\S*, \w+/\w+\)\n$`, got.Out)
}

func TestCompletion(t *testing.T) {
	require.Equal(t, "table\njson\nyaml\n:4\n", ask(t, "__complete", "cost", "-o", "").Out)
	require.Contains(t, ask(t, "__complete", "cost", "--").Out, "--hourly-price")
	require.Contains(t, ask(t, "__complete", "").Out, "cost\tWhat the pool of route reflectors costs")
}

func TestFailuresToWrite(t *testing.T) {
	for name, tc := range map[string]struct {
		err  error
		code int
		says string
	}{
		"a reader that has seen enough": {syscall.EPIPE, 0, ""},
		"a full disk":                   {syscall.ENOSPC, 1, "rrpool: writing the figures: no space left on device\n"},
	} {
		t.Run(name, func(t *testing.T) {
			got := askIn(t, iostreams.Streams{Out: cli.Broken{Err: tc.err}}, "rrpool", "topology", "-o", "table", "--nodes", "9")
			require.Equal(t, cli.Answer{Err: tc.says, Code: tc.code}, got)
		})
	}
}

// stamps are what the Makefile, the Dockerfile and the release have the linker write: a name that is wrong would stamp nothing.
const stamps = "-X github.com/rrpool/rrpool/cmd/version.release=v1.2.3 -X github.com/rrpool/rrpool/cmd/version.commit=cafe -X github.com/rrpool/rrpool/cmd/version.date=today"

func TestAsAProcess(t *testing.T) {
	path := filepath.Join(t.TempDir(), "kubectl-rrpool")
	out, err := exec.Command("go", "build", "-ldflags", stamps, "-o", path, "..").CombinedOutput()
	require.NoError(t, err, string(out))
	t.Run("the reader has gone", func(t *testing.T) {
		read, write, err := os.Pipe()
		require.NoError(t, err)
		require.NoError(t, read.Close())
		cmd := exec.Command(path, "topology", "-o", "table", "--nodes", "9")
		var said strings.Builder
		cmd.Stdout, cmd.Stderr = write, &said
		require.NoError(t, cmd.Run(), "exit code 0, and no signal")
		require.NoError(t, write.Close())
		require.Empty(t, said.String())
	})
	t.Run("its version", func(t *testing.T) {
		out, err := exec.Command(path, "version").Output()
		require.NoError(t, err)
		require.Contains(t, string(out), "rrpool v1.2.3 (commit cafe of today, ")
	})
}

// Every command has a description, an example, a section of the generated docs/cli.md, and a page in docs that names no flag
// which it does not have.
func TestEveryCommandIsDocumented(t *testing.T) {
	pages := map[string][]string{"rollback": {"migrate"}, "version": {"cli"}, "topology": {"topology", "topologies"}}
	others := []string{"--dry-run", "--selector", "--server-side", "--from-file", "--for", "--timeout"} // of kubectl
	docs := func(page string) string { return cli.Page(t, page) }
	for _, cmd := range New("rrpool", iostreams.Streams{}).Commands() {
		name := cmd.Name()
		if cmd.Hidden {
			continue
		}
		require.Contains(t, docs("cli"), "\n## "+name+"\n\n"+cmd.Short+".\n", "make docs writes it")
		if name != "version" {
			require.NotEmpty(t, cmd.Long, name)
			require.NotEmpty(t, cmd.Example, name)
		}
		known := others
		if name == "migrate" {
			known = append(known, "--watch") // of rrpool status
		}
		if pages[name] == nil {
			pages[name] = []string{name}
		}
		for _, page := range pages[name] {
			for _, flag := range flagsIn.FindAllString(docs(page), -1) {
				own := page == name || name == "topology"
				has := func(c *cobra.Command) bool { return c.Flag(flag[2:]) != nil }
				require.True(t, !own || slices.Contains(known, flag) || slices.ContainsFunc(append(cmd.Commands(), cmd), has), "docs/%s.md names %s", page, flag)
			}
		}
	}
	require.Greater(t, len(flagsIn.FindAllString(docs("topology"), -1)), 10, "flags are found")
}

// What docs/peering.md has one type is what the program takes.
func TestTheCommandsOfAPageAreTaken(t *testing.T) {
	taken := func(line string) error {
		words := strings.Fields(line)
		cmd, flags, err := New("rrpool", iostreams.Streams{}).Find(words[1:])
		return errors.Join(err, cmd.ParseFlags(flags), cmd.ValidateArgs(cmd.Flags().Args()))
	}
	typed := regexp.MustCompile(`(?m)^rrpool [^|\n]*`).FindAllString(strings.Join(cli.Blocks(t, "peering", "sh"), "\n"), -1)
	require.Len(t, typed, 4)
	for _, line := range typed {
		require.NoError(t, taken(line), line)
	}
	require.Error(t, taken("rrpool peering kubeconfig b"))
}

var flagsIn = regexp.MustCompile("--[a-z][a-z-]+")

// Bad flags and arguments end with one sentence, whatever the command.
func TestEveryCommandRefusesWhatItDoesNotKnow(t *testing.T) {
	for _, cmd := range New("rrpool", iostreams.Streams{}).Commands() {
		for _, bad := range []string{"--no-such-flag", "no-such-argument"} {
			got := ask(t, cmd.Name(), bad)
			cli.RequireRefused(t, got)
		}
	}
}

// Without a cluster that it can ask, every command that asks one ends with a sentence for the user and leaves nothing on standard output.
func TestEveryCommandWithoutACluster(t *testing.T) {
	silence := func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }
	stranger := func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusUnauthorized) }
	failed := func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusInternalServerError)
		_, _ = io.WriteString(w, `{"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "InternalError", "code": 500, "message": "etcd is\nfull."}`)
	}
	const closed = "http://127.0.0.1:1" // port 1 is reserved: the kernel gives it to no server
	unreachable := cli.Kubeconfig(t, &rest.Config{Host: closed})
	for name, tc := range map[string]struct{ flags, says []string }{
		"no server listens":            {[]string{"--kubeconfig", unreachable}, []string{closed, `context "rrpool"`, "cannot be reached (connection refused)", "check the address and the network"}},
		"no such host":                 {[]string{"--kubeconfig", cli.Kubeconfig(t, &rest.Config{Host: "https://nowhere.invalid"})}, []string{"https://nowhere.invalid", "cannot be reached"}},
		"silence":                      {[]string{"--kubeconfig", cli.Serve(t, http.HandlerFunc(silence)), "--request-timeout", "1s"}, []string{"did not answer within 1s", "give more --request-timeout"}},
		"credentials of a stranger":    {[]string{"--kubeconfig", cli.Serve(t, http.HandlerFunc(stranger))}, []string{"does not accept the credentials", "log in again"}},
		"an apiserver that fails":      {[]string{"--kubeconfig", cli.Serve(t, http.HandlerFunc(failed))}, []string{"asking http://127.0.0.1"}},
		"no time to wait":              {[]string{"--kubeconfig", unreachable, "--request-timeout", "0s"}, []string{"--request-timeout: 0s", "use for example 15s"}},
		"no kubeconfig":                {[]string{"--kubeconfig", "/nonexistent"}, []string{"--kubeconfig", `"/nonexistent"`, "give the name of a kubeconfig file"}},
		"a kubeconfig that is no YAML": {[]string{"--kubeconfig", cli.File(t, "contexts: [")}, []string{"--kubeconfig", "no kubeconfig can be read"}},
		"a kubeconfig of nothing":      {[]string{"--kubeconfig", cli.File(t, "")}, []string{"no cluster is known", "give --kubeconfig, or set KUBECONFIG"}},
		"an unknown context":           {[]string{"--kubeconfig", unreachable, "--context", "elsewhere"}, []string{"--context", `"elsewhere"`, "kubectl config get-contexts"}},
	} {
		for _, command := range [][]string{
			{"check"},
			{"check", "--pre"},
			{"plan"},
			{"migrate", "--yes"},
			{"rollback", "--yes"},
			{"status"},
			{"status", "-v"},
			{"status", "--watch", "-o", "json"},
			{"cost"},
			{"topology"},
			{"peering", "kubeconfig"},
			{"report", "--output-file", filepath.Join(t.TempDir(), "report.tar.gz")},
		} {
			t.Run(name+": "+command[0], func(t *testing.T) {
				t.Parallel()
				got := ask(t, append(command, tc.flags...)...)
				require.Equal(t, 1, got.Code, got.Err)
				require.Empty(t, got.Out)
				lines := strings.SplitAfter(strings.TrimSuffix(got.Err, "\n"), "\n")
				cli.RequireSentence(t, lines[len(lines)-1]+"\n", tc.says...) // progress comes before it
			})
		}
	}
}

// Every command that takes a file refuses one that it cannot read; check's own tests have what can be wrong in it.
func TestEveryCommandWithoutItsFile(t *testing.T) {
	for _, command := range [][]string{{"check"}, {"plan"}, {"migrate", "--yes"}, {"topology", "--nodes", "9"}} {
		got := ask(t, append(command, "-f", "/nonexistent")...)
		cli.RequireRefused(t, got, "--filename", `"/nonexistent"`, "no such file", "give the name of a file")
	}
}
