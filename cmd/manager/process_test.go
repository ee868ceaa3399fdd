package main

import (
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

// launch starts a manager that is stopped with the test.
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

// said is what its log has.
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

// wait is how long d takes.
func (h fastClock) wait(d time.Duration) time.Duration { return time.Duration(float64(d) / h.speed) }

// variable makes a child live by h.
func (h fastClock) variable() string {
	return fmt.Sprintf("%s=%d,%g,%d", childVariable, h.epoch.UnixNano(), h.speed, h.lease)
}

// fastClockFrom reads the variable's value.
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

// runManager is what a child process runs.
func runManager(value string) int {
	tuned, err := fastClockFrom(value)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 2
	}
	return run(os.Args[1:], os.Stdout, os.Stderr, tuned)
}
