//go:build linux

package lab

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"syscall"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

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
