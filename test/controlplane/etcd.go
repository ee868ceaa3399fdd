package controlplane

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/rrpool/rrpool/test/programs"
)

// Etcd is an etcd without an apiserver, as Calico's own.
type Etcd struct {
	// URL of its clients: https with a --cert-file.
	URL     string
	port    string
	flags   []string
	plane   *ControlPlane
	process *Process
}

// StartEtcd starts an etcd with its data in a folder, on loopback, and waits until it listens.
func StartEtcd(ctx context.Context, dir string, flags ...string) (*Etcd, error) {
	if err := programs.Build(ctx, os.Stderr, "etcd"); err != nil {
		return nil, fmt.Errorf("preparing etcd: %w", err)
	}
	e := &Etcd{plane: &ControlPlane{options: Options{Dir: dir}}, flags: flags}
	var err error
	if e.port, err = e.plane.holdPort(); err != nil {
		return nil, err
	}
	scheme := "http"
	if slices.ContainsFunc(flags, func(flag string) bool { return strings.HasPrefix(flag, "--cert-file=") }) {
		scheme = "https"
	}
	e.URL = scheme + "://" + net.JoinHostPort(loopback, e.port)
	return e, e.run(ctx, dir)
}

// Restart stops etcd, and starts it at the same address with the data in another folder, as after a restore.
func (e *Etcd) Restart(ctx context.Context, dir string) error {
	e.process.Kill()
	return e.run(ctx, dir)
}

func (e *Etcd) run(ctx context.Context, dir string) (err error) {
	args := append([]string{
		"--data-dir=" + filepath.Join(dir, "etcd"), "--unsafe-no-fsync", "--log-level=warn", "--socket-reuse-port",
		"--listen-client-urls=" + e.URL, "--advertise-client-urls=" + e.URL, "--listen-peer-urls=http://" + loopback + ":0",
	}, e.flags...)
	if e.process, err = StartProcess(exec.Command(programs.Path("etcd"), args...), filepath.Join(dir, "etcd.log"), nil); err != nil { //nolint:gosec // G204: built by us
		return err
	}
	err = wait.PollUntilContextTimeout(ctx, 20*time.Millisecond, readyTimeout, true, func(ctx context.Context) (bool, error) {
		connection, err := (&net.Dialer{}).DialContext(ctx, "tcp", net.JoinHostPort(loopback, e.port))
		if err == nil {
			_ = connection.Close()
		}
		return err == nil, nil
	})
	if err != nil {
		return fmt.Errorf("waiting for etcd: %w\n%s", err, Tail(filepath.Join(dir, "etcd.log")))
	}
	return nil
}

// Pause suspends etcd, as a disk that hangs does, until Resume.
func (e *Etcd) Pause() error { return e.process.Signal(syscall.SIGSTOP) }

// Resume undoes Pause.
func (e *Etcd) Resume() error { return e.process.Signal(syscall.SIGCONT) }

// Stop stops etcd.
func (e *Etcd) Stop() {
	e.process.Kill()
	_ = e.plane.Stop()
}
