package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rrpool/rrpool/test/controlplane"
)

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

// stacks are nothing that helps here.
var stacks = regexp.MustCompile(`,"stacktrace":"[^"]*"`)

// stop ends the process as Kubernetes does, and looks into what it said.
func (p *process) stop() {
	_ = p.Stop(syscall.SIGTERM) // how it ended is in its log
	said := p.said()
	if p.t.Failed() {
		short := stacks.ReplaceAllString(said, "")
		p.t.Logf("the manager's log ends:\n%s", short[max(0, len(short)-10000):])
	}
	if strings.Contains(said, testKey) {
		p.t.Error("the API key is in the log")
	}
}
