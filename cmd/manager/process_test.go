package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rrpool/rrpool/test/controlplane"
)

// process is a manager that runs as its own process, as it does in a cluster.
type process struct {
	t    *testing.T
	cmd  *exec.Cmd
	log  *bytes.Buffer
	once sync.Once
}

var binary struct {
	sync.Once
	path string
	err  error
}

// launch starts a manager with these variables on top of our own.
func launch(t *testing.T, env []string, args ...string) *process {
	t.Helper()
	binary.Do(func() {
		dir, err := controlplane.CacheDir()
		if binary.err = err; err != nil {
			return
		}
		binary.path = filepath.Join(dir, fmt.Sprintf("manager-test.%d", os.Getpid()))
		out, err := exec.Command("go", "build", "-o", binary.path, ".").CombinedOutput()
		if binary.err = err; err != nil {
			t.Log(string(out))
		}
	})
	require.NoError(t, binary.err)
	p := &process{t: t, cmd: exec.Command(binary.path, args...), log: &bytes.Buffer{}}
	p.cmd.Env = append(os.Environ(), env...)
	p.cmd.Stdout, p.cmd.Stderr = p.log, p.log
	require.NoError(t, p.cmd.Start())
	t.Cleanup(p.stop)
	return p
}

// stop ends the process as Kubernetes does, and looks into what it said.
func (p *process) stop() {
	p.once.Do(func() {
		_ = p.cmd.Process.Signal(syscall.SIGTERM)
		_ = p.cmd.Wait()
		if p.t.Failed() {
			p.t.Logf("the manager's log:\n%s", p.log)
		}
		if strings.Contains(p.log.String(), testKey) {
			p.t.Error("the API key is in the log")
		}
	})
}
