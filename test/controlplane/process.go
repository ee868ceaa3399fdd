package controlplane

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// stopTimeout is how long a process may take to end by itself before it is killed.
const stopTimeout = 10 * time.Second

// process is a child that ends with us, its output in a file.
type process struct {
	name string
	cmd  *exec.Cmd
	log  *os.File
	done chan struct{} // closed when it ended
}

func startProcess(name, binary, dir string, args []string) (*process, error) {
	log, err := os.OpenFile(filepath.Join(dir, name+".log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600) //nolint:gosec // G304: our folder
	if err != nil {
		return nil, fmt.Errorf("opening the log of %s: %w", name, err)
	}
	cmd := exec.Command(binary, args...) //nolint:gosec // G204: built by us
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = childAttributes()
	p := &process{name: name, cmd: cmd, log: log, done: make(chan struct{})}
	started := make(chan error)
	go p.run(started)
	if err := <-started; err != nil {
		return nil, fmt.Errorf("starting %s: %w", name, err)
	}
	return p, nil
}

// run holds one thread for as long as the child lives: "kill me when my parent dies" means the parent thread.
func (p *process) run(started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	defer close(p.done)
	defer p.log.Close() //nolint:errcheck // nothing to do about it
	err := p.cmd.Start()
	started <- err
	if err == nil {
		_ = p.cmd.Wait()
	}
}

// signal sends the process a signal. It fails when the process has ended, and does nothing on nil.
func (p *process) signal(s syscall.Signal) error {
	if p == nil {
		return nil
	}
	if err := p.cmd.Process.Signal(s); err != nil {
		return fmt.Errorf("sending %s to %s: %w", s, p.name, err)
	}
	return nil
}

// stop ends the process and waits for it, by force when it takes too long: an apiserver waits for clients that are cut off. It is
// safe to call again, and on nil.
func (p *process) stop() {
	if p == nil || p.exited() {
		return
	}
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-p.done:
	case <-time.After(stopTimeout):
		p.kill()
	}
}

// kill ends the process now.
func (p *process) kill() {
	if p == nil || p.exited() {
		return
	}
	_ = p.cmd.Process.Kill()
	<-p.done
}

func (p *process) exited() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// port is a TCP port on loopback that nobody else gets as long as it is held. One that is merely free now would be
// anybody's until its server listens, which takes an apiserver seconds, and again whenever that is restarted.
type port struct {
	number int
	socket int
}

// holdPort finds a port and holds it: bound, so that the kernel gives it to nobody, and not listening, so that no
// connection comes here. A server that shares its port (SO_REUSEPORT) can listen there.
func holdPort() (*port, error) {
	socket, err := newSocket()
	if err != nil {
		return nil, fmt.Errorf("finding a free port: %w", err)
	}
	p := &port{socket: socket}
	if err := unix.SetsockoptInt(socket, unix.SOL_SOCKET, unix.SO_REUSEPORT, 1); err != nil {
		return nil, errors.Join(fmt.Errorf("sharing a port: %w", err), p.release())
	}
	if err := unix.Bind(socket, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		return nil, errors.Join(fmt.Errorf("finding a free port: %w", err), p.release())
	}
	address, err := unix.Getsockname(socket)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("finding a free port: %w", err), p.release())
	}
	p.number = address.(*unix.SockaddrInet4).Port //nolint:forcetypeassert // as it was bound
	return p, nil
}

// newSocket makes one that no child inherits: a child would hold the port longer than we do.
func newSocket() (int, error) {
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	socket, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM, 0)
	if err == nil {
		unix.CloseOnExec(socket)
	}
	return socket, err
}

// release lets others have the port.
func (p *port) release() error { return unix.Close(p.socket) }

// get succeeds when the URL answers 200.
func get(ctx context.Context, client *http.Client, url string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return fmt.Errorf("asking %q: %w", url, err)
	}
	response, err := client.Do(request)
	if err != nil {
		return fmt.Errorf("asking %q: %w", url, err)
	}
	if err := response.Body.Close(); err != nil {
		return fmt.Errorf("asking %q: %w", url, err)
	}
	if response.StatusCode != http.StatusOK {
		return errors.New(url + " answers " + response.Status)
	}
	return nil
}
