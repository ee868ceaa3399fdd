//go:build linux

package lab

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"syscall"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

const (
	// restartDelay is runit's, which supervises these processes in calico-node.
	restartDelay = time.Second
	// termTimeout is how long a daemon may take to end by itself: BIRD has yet to tell its peers, on a machine that may be slow.
	termTimeout = 30 * time.Second
)

// daemon is a process inside a space, its output in a file.
type daemon struct {
	space   *space
	command []string
	env     []string
	logPath string
	// restart starts it again whenever it ends by itself.
	restart bool

	mu       sync.Mutex
	cmd      *exec.Cmd
	ended    chan struct{} // closed when cmd has ended
	stopping bool
	watcher  sync.WaitGroup
}

func (d *daemon) start() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.stopping = false
	return d.launch()
}

func (d *daemon) launch() error {
	log, err := os.OpenFile(d.logPath, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("opening the log of %q: %w", d.command[0], err)
	}
	cmd := exec.Command(d.command[0], d.command[1:]...) //nolint:gosec // G204: ours
	cmd.Env, cmd.Stdout, cmd.Stderr = append(os.Environ(), d.env...), log, log
	if err := d.space.start(cmd); err != nil {
		return errors.Join(fmt.Errorf("starting %q: %w", d.command[0], err), log.Close())
	}
	ended := make(chan struct{})
	d.cmd, d.ended = cmd, ended
	d.watcher.Add(1)
	go func() {
		defer d.watcher.Done()
		_ = cmd.Wait()
		_ = log.Close()
		close(ended)
		d.revive()
	}()
	return nil
}

// revive starts the process again after a while, when that is wanted.
func (d *daemon) revive() {
	for {
		d.mu.Lock()
		again := d.restart && !d.stopping
		d.mu.Unlock()
		if !again {
			return
		}
		time.Sleep(restartDelay)
		d.mu.Lock()
		if d.stopping || d.launch() == nil {
			d.mu.Unlock()
			return
		}
		d.mu.Unlock()
	}
}

// stop ends the process with a signal, and by force when that does not help. It returns when the process is gone.
func (d *daemon) stop(signal syscall.Signal) {
	d.mu.Lock()
	d.stopping = true
	cmd, ended := d.cmd, d.ended
	d.mu.Unlock()
	if cmd != nil {
		_ = cmd.Process.Signal(signal)
		select {
		case <-ended:
		case <-time.After(termTimeout):
			_ = cmd.Process.Kill()
		}
	}
	d.watcher.Wait()
}

func (d *daemon) signal(signal syscall.Signal) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.cmd.Process.Signal(signal)
}

func (d *daemon) running() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.cmd == nil {
		return false
	}
	select {
	case <-d.ended:
		return false
	default:
		return true
	}
}

// space is a network and a mount namespace, and the one thread that lives in them. Processes that it starts die with it.
type space struct {
	jobs chan func()
	done chan struct{}
	ns   netns.NsHandle
	link *netlink.Handle
}

func newSpace() (*space, error) {
	s := &space{jobs: make(chan func()), done: make(chan struct{})}
	go func() {
		// Never unlocked: the thread, and with it the namespaces, ends with this goroutine.
		runtime.LockOSThread()
		defer close(s.done)
		for job := range s.jobs {
			job()
		}
	}()
	if err := s.enter(s.open); err != nil {
		s.close()
		return nil, fmt.Errorf("making a network namespace: %w", err)
	}
	return s, nil
}

func (s *space) open() (err error) {
	if err := unix.Unshare(unix.CLONE_NEWNET | unix.CLONE_NEWNS); err != nil {
		return err
	}
	if s.ns, err = netns.Get(); err != nil {
		return err
	}
	if s.link, err = netlink.NewHandleAt(s.ns); err != nil {
		return errors.Join(err, s.ns.Close())
	}
	loopback, err := s.link.LinkByName("lo")
	if err != nil {
		return err
	}
	return s.link.LinkSetUp(loopback)
}

// enter runs do on the thread inside the namespaces and waits for it.
func (s *space) enter(do func() error) error {
	result := make(chan error)
	s.jobs <- func() { result <- do() }
	return <-result
}

// start starts a command inside. It dies when the space is closed.
func (s *space) start(cmd *exec.Cmd) error {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	return s.enter(cmd.Start)
}

// sysctl sets a kernel parameter of the network namespace, by its path below /proc/sys/net.
func (s *space) sysctl(path, value string) error {
	return s.enter(func() error { return os.WriteFile("/proc/sys/net/"+path, []byte(value), 0o600) })
}

// close ends the thread; the kernel does the rest.
func (s *space) close() {
	close(s.jobs)
	<-s.done
	if s.link != nil {
		s.link.Close()
		_ = s.ns.Close()
	}
}
