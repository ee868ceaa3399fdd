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

	"github.com/rrpool/rrpool/test/controlplane"
)

// restartDelay is runit's, which supervises these processes in calico-node.
const restartDelay = time.Second

// daemon is a process inside a space, its output in a file.
type daemon struct {
	space   *space
	command []string
	env     []string
	logPath string
	// restart starts it again whenever it ends by itself.
	restart bool

	mu       sync.Mutex
	process  *controlplane.Process
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
	cmd := exec.Command(d.command[0], d.command[1:]...) //nolint:gosec // G204: ours
	cmd.Env = append(os.Environ(), d.env...)
	process, err := controlplane.StartProcess(cmd, d.logPath, d.space.enter)
	if err != nil {
		return err
	}
	d.process = process
	if d.restart {
		d.watcher.Go(func() {
			<-process.Done()
			d.startAgain()
		})
	}
	return nil
}

// startAgain starts the process after a while, unless it was stopped.
func (d *daemon) startAgain() {
	for {
		time.Sleep(restartDelay)
		d.mu.Lock()
		over := d.stopping || d.launch() == nil
		d.mu.Unlock()
		if over {
			return
		}
	}
}

// stop ends the process with a signal, and by force when that does not help. It returns when the process is gone.
func (d *daemon) stop(signal syscall.Signal) {
	d.mu.Lock()
	d.stopping = true
	process := d.process
	d.mu.Unlock()
	_ = process.Stop(signal) // how it ended is in its log
	d.watcher.Wait()
}

func (d *daemon) signal(signal syscall.Signal) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.process.Signal(signal)
}

func (d *daemon) running() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.process.Running()
}

// space is a network and a mount namespace, and the one thread in them. Processes that it starts die with it.
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
	return setUp(s.link, "lo")
}

// enter runs do on the thread inside the namespaces and waits for it.
func (s *space) enter(do func() error) error {
	result := make(chan error)
	s.jobs <- func() { result <- do() }
	return <-result
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
