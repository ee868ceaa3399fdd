package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"

	"github.com/rrpool/rrpool/cmd/version"
	"github.com/rrpool/rrpool/test/controlplane"
)

// besideOthers: the test starts a kube-apiserver, and runs at the same time as others do.
func besideOthers(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("starts a kube-apiserver")
	}
	t.Parallel()
}

// process is a manager that runs as its own process, as it does in a cluster.
type process struct {
	*controlplane.Process
	t   *testing.T
	log string
}

func launch(t *testing.T, env []string, args ...string) *process {
	t.Helper()
	p := launchInto(t, filepath.Join(t.TempDir(), "log"), env, args...)
	t.Cleanup(p.stop)
	return p
}

// launchInto starts a manager with these variables on top of our own, whose log goes on in a file. It is this very
// program, see TestMain: another one would have to be linked first.
func launchInto(t *testing.T, log string, env []string, args ...string) *process {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.Command(self, args...)
	cmd.Env = append(append(os.Environ(), childVariable+"=real"), env...)
	started, err := controlplane.StartProcess(cmd, log, nil)
	require.NoError(t, err)
	return &process{started, t, log}
}

func (p *process) said() string {
	content, err := os.ReadFile(p.log)
	require.NoError(p.t, err)
	return string(content)
}

// ended waits for the end of the process, and gives what it said until then.
func (p *process) ended() (said string, err error) {
	<-p.Done()
	return p.said(), p.Err
}

// stop ends the process as Kubernetes does, and looks into what it said.
func (p *process) stop() {
	_ = p.Stop(syscall.SIGTERM) // how it ended is in its log
	said := p.said()
	if p.t.Failed() {
		short := regexp.MustCompile(`,"stacktrace":"[^"]*"`).ReplaceAllString(said, "") // stacks are nothing that helps here
		p.t.Logf("the manager's log ends:\n%s", short[max(0, len(short)-10000):])
	}
	if strings.Contains(said, testKey) {
		p.t.Error("the API key is in the log")
	}
}

// childVariable makes a test binary a manager. Its value is a hurry, or "real".
const childVariable = "RRPOOL_TEST_MANAGER"

// fastClock is a clock that is faster than time, from epoch on.
type fastClock struct {
	epoch time.Time
	speed float64
	// lease is how long a lease really lasts, 0 for client-go's own time.
	lease time.Duration
}

func (h fastClock) now() time.Time { return h.epoch.Add(h.of(time.Since(h.epoch))) }

// of is how much time passes by the clock while d really does.
func (h fastClock) of(d time.Duration) time.Duration { return time.Duration(float64(d) * h.speed) }

func (h fastClock) wait(d time.Duration) time.Duration { return time.Duration(float64(d) / h.speed) }

func (h fastClock) variable() string {
	return fmt.Sprintf("%s=%d,%g,%d", childVariable, h.epoch.UnixNano(), h.speed, h.lease)
}

func fastClockFrom(value string) (tuning, error) {
	if value == "real" {
		return tuning{}, nil
	}
	var epoch, lease int64
	var h fastClock
	if _, err := fmt.Sscanf(value, "%d,%g,%d", &epoch, &h.speed, &lease); err != nil {
		return tuning{}, fmt.Errorf("reading %s=%q: %w", childVariable, value, err)
	}
	h.epoch, h.lease = time.Unix(0, epoch), time.Duration(lease)
	return tuning{now: h.now, wait: h.wait, lease: h.lease}, nil
}

func runManager(value string) int {
	tuned, err := fastClockFrom(value)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 2
	}
	return run(os.Args[1:], os.Stdout, os.Stderr, tuned)
}

func TestFlags(t *testing.T) {
	t.Setenv("POD_NAMESPACE", "")
	o, err := parse(nil, &bytes.Buffer{})
	require.NoError(t, err)
	o.zap = zap.Options{}
	require.Equal(t, options{
		leaderElect: true, metrics: ":8443", probes: ":8081", namespace: "rrpool-system", tokenFile: "/var/run/secrets/tokens/sa-token",
	}, o)
	o, err = parse([]string{
		"--leader-elect=false", "--metrics-bind-address=0", "--health-probe-bind-address=127.0.0.1:0",
		"--kubeconfig=/dev/null", "--namespace=other", "--iam-token-file=/token", "--zap-log-level=debug", "--zap-encoder=console",
	}, &bytes.Buffer{})
	require.NoError(t, err)
	require.NotNil(t, o.zap.Level)
	o.zap = zap.Options{}
	require.Equal(t, options{metrics: "0", probes: "127.0.0.1:0", kubeconfig: "/dev/null", namespace: "other", tokenFile: "/token"}, o)
}

func TestBadFlagsAreNamed(t *testing.T) {
	for name, tc := range map[string]struct{ flag, says string }{
		"an address without a port":     {"--metrics-bind-address=localhost", `--metrics-bind-address: "localhost" is no address`},
		"an empty probe address":        {"--health-probe-bind-address=", `--health-probe-bind-address: "" is no address`},
		"a namespace that cannot exist": {"--namespace=A_b", `--namespace: "A_b" is no namespace`},
		"no file with a token":          {"--iam-token-file=", "--iam-token-file: name a file"},
		"no certificate in the folder":  {"--metrics-cert-dir=/nonexistent", "--metrics-cert-dir: open /nonexistent/tls.crt"},
		"a file that is not there":      {"--kubeconfig=/nonexistent/x", "--kubeconfig: stat /nonexistent/x"},
		"an argument":                   {"start", `unexpected argument "start"`},
		"a log level of no meaning":     {"--zap-log-level=loud", "--zap-log-level"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := parse([]string{tc.flag}, &bytes.Buffer{})
			require.ErrorContains(t, err, tc.says)
		})
	}
}

func TestNamespaceOfThePod(t *testing.T) {
	file := filepath.Join(t.TempDir(), "namespace")
	require.NoError(t, os.WriteFile(file, []byte("from-file\n"), 0o600))
	require.Equal(t, "from-env", defaultNamespace("from-env", file))
	require.Equal(t, "from-file", defaultNamespace("", file))
	require.Equal(t, "rrpool-system", defaultNamespace("", file+"-missing"))
}

func kubeconfig(t *testing.T, settings string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "config")
	require.NoError(t, os.WriteFile(file, []byte("clusters: [{name: c, cluster: {server: 'https://h', "+settings+"}}]\n"+
		"contexts: [{name: c, context: {cluster: c}}]\ncurrent-context: c\n"), 0o600))
	return file
}

// An apiserver must prove who it is.
func TestAKubeconfigThatTrustsAnyServerIsRefused(t *testing.T) {
	_, err := clusterConfig(kubeconfig(t, "insecure-skip-tls-verify: true"))
	require.ErrorContains(t, err, "insecure-skip-tls-verify")
}

// A manager says which version it is: when it is asked, whatever other flags say, and in
// its log, to the servers and to whoever reads their audit logs.
func TestItSaysWhichVersionItIs(t *testing.T) {
	var out, faults bytes.Buffer
	require.Zero(t, run([]string{"--version", "--namespace=A_b"}, &out, &faults, tuning{}))
	require.Empty(t, faults.String())
	require.Regexp(t, `^rrpool-manager \S+ \(.*go1\.\d+\S*, \w+/\w+\)\n$`, out.String())

	empty := filepath.Join(t.TempDir(), "config")
	require.NoError(t, os.WriteFile(empty, nil, 0o600))
	said, err := launch(t, nil, "--kubeconfig="+empty).ended()
	require.Error(t, err, "there is no cluster")
	require.Contains(t, said, `"msg":"starting","version":"`+version.Get().Version+`"`)

	config, err := clusterConfig(kubeconfig(t, "insecure-skip-tls-verify: false"))
	require.NoError(t, err)
	require.Regexp(t, `^rrpool-manager/\S+ \(\w+/\w+\)$`, config.UserAgent)
}
