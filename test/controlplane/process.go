package controlplane

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"
)

// stopTimeout is how long a process may take to end by itself before it is killed, on a machine that may be slow.
const stopTimeout = 30 * time.Second

// Process is a child that ends with us, its output at the end of a file. Its methods are safe on nil, but for Signal.
type Process struct {
	cmd  *exec.Cmd
	done chan struct{}
	// Err is how it ended, and Ended when, once it has.
	Err   error
	Ended time.Time
}

// StartProcess starts a command. It dies with the thread that starts it, as the kernel has it: enter runs its argument on a thread that ends late
// enough. Without enter the process gets a thread of its own.
func StartProcess(cmd *exec.Cmd, log string, enter func(func() error) error) (*Process, error) {
	file, err := os.OpenFile(log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600) //nolint:gosec // G304: our own folders
	if err != nil {
		return nil, fmt.Errorf("opening the log of %q: %w", cmd.Path, err)
	}
	cmd.Stdout, cmd.Stderr, cmd.SysProcAttr = file, file, childAttributes()
	p := &Process{cmd: cmd, done: make(chan struct{})}
	started := make(chan error)
	go func() {
		defer close(p.done)
		defer file.Close() //nolint:errcheck // nothing to do about it
		if enter == nil {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			enter = func(do func() error) error { return do() }
		}
		err := enter(cmd.Start)
		started <- err
		if err == nil {
			p.Err, p.Ended = cmd.Wait(), time.Now()
		}
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("starting %q: %w", cmd.Path, err)
	}
	return p, nil
}

// Pid is the kernel's number of the process.
func (p *Process) Pid() int { return p.cmd.Process.Pid }

// Done is closed when the process has ended.
func (p *Process) Done() <-chan struct{} { return p.done }

// Running reports whether the process has not ended yet.
func (p *Process) Running() bool {
	if p == nil {
		return false
	}
	select {
	case <-p.done:
		return false
	default:
		return true
	}
}

// Signal sends the process a signal. It fails when the process has ended.
func (p *Process) Signal(s syscall.Signal) error {
	if err := p.cmd.Process.Signal(s); err != nil {
		return fmt.Errorf("sending %s to %s: %w", s, filepath.Base(p.cmd.Path), err)
	}
	return nil
}

// Stop ends the process with a signal and waits for it, by force when it takes too long, and returns how it ended.
func (p *Process) Stop(s syscall.Signal) error {
	if !p.Running() {
		return nil
	}
	_ = p.cmd.Process.Signal(s)
	select {
	case <-p.done:
		return p.Err
	case <-time.After(stopTimeout):
		p.Kill()
		return fmt.Errorf("stopping %s: it did not end within %s of %s", filepath.Base(p.cmd.Path), stopTimeout, s)
	}
}

// Kill ends the process now.
func (p *Process) Kill() {
	if p.Running() {
		_ = p.cmd.Process.Kill()
		<-p.done
	}
}

// Tail is the end of a log, for errors.
func Tail(path string) string {
	data, err := os.ReadFile(path) //nolint:gosec // G304: our own folders
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimSpace(string(data)), "\n")
	return strings.Join(lines[max(0, len(lines)-10):], "\n")
}
