package main

import (
	"bytes"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// process is a manager that runs as its own process, as it does in a cluster.
type process struct {
	t    *testing.T
	cmd  *exec.Cmd
	log  *bytes.Buffer // to be read when done is closed
	done chan struct{}
	err  error // how it ended, once done is closed
	once sync.Once
}

// launch starts a manager with these variables on top of our own. It is this very
// program, see TestMain: another one would have to be linked first.
func launch(t *testing.T, env []string, args ...string) *process {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	p := &process{t: t, cmd: exec.Command(self, args...), log: &bytes.Buffer{}, done: make(chan struct{})}
	p.cmd.Env = append(append(os.Environ(), childVariable+"=real"), env...)
	p.cmd.Stdout, p.cmd.Stderr = p.log, p.log
	require.NoError(t, p.cmd.Start())
	go func() {
		defer close(p.done)
		p.err = p.cmd.Wait()
	}()
	t.Cleanup(p.stop)
	return p
}

// ended waits for the end of the process, and gives what it said until then.
func (p *process) ended() (said string, err error) {
	<-p.done
	return p.log.String(), p.err
}

// stop ends the process as Kubernetes does, and looks into what it said.
func (p *process) stop() {
	p.once.Do(func() {
		_ = p.cmd.Process.Signal(syscall.SIGTERM)
		<-p.done
		if p.t.Failed() {
			p.t.Logf("the manager's log:\n%s", p.log)
		}
		if strings.Contains(p.log.String(), testKey) {
			p.t.Error("the API key is in the log")
		}
	})
}
