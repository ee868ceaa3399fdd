//go:build linux

package site

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"

	"k8s.io/client-go/rest"

	"github.com/rrpool/rrpool/test/controlplane"
	"github.com/rrpool/rrpool/test/programs"
)

const (
	serviceAccount = "rrpool-manager"
	// Metrics is where the manager serves its metrics.
	Metrics = "127.0.0.1:8443"
	// Probes is where the manager serves healthz and readyz.
	Probes = "127.0.0.1:8081"
)

// User is the manager's, as the audit log has it.
func User() string { return controlplane.ServiceAccountUser(Namespace, serviceAccount) }

// manager is the running process.
type manager struct {
	cmd  *exec.Cmd
	done chan error
}

// ManagerEnded tells whether the manager that was started last has ended by itself, as one that loses its lease does. It is then to be
// started again, as a kubelet does.
func (s *Site) ManagerEnded() bool {
	if s.manager == nil || len(s.manager.done) == 0 {
		return false
	}
	s.wait()
	s.manager = nil
	return true
}

func (s *Site) managerLog() string {
	return filepath.Join(filepath.Dir(s.Lab.Kubeconfig()), "manager.log")
}

// StartManager starts the manager with the rights of its service account and
// nothing else; flags are added to its own. Its log goes on where an earlier
// one's ended. One that is killed leaves its lease behind: --leader-elect=false
// lets the next one go on at once.
func (s *Site) StartManager(flags ...string) error {
	config, err := s.managerConfig()
	if err != nil {
		return err
	}
	kubeconfig := filepath.Join(filepath.Dir(s.Lab.Kubeconfig()), "manager.kubeconfig")
	if err := controlplane.WriteKubeconfig(kubeconfig, config); err != nil {
		return err
	}
	log, err := os.OpenFile(s.managerLog(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("opening the manager's log: %w", err)
	}
	defer func() { _ = log.Close() }()
	cmd := exec.Command(programs.Path("manager"), "--kubeconfig", kubeconfig, "--namespace", Namespace, //nolint:gosec // G204: ours
		"--metrics-bind-address="+Metrics, "--health-probe-bind-address="+Probes)
	cmd.Args = append(cmd.Args, flags...)
	cmd.Env = []string{"PATH=/nonexistent", "HOME=/nonexistent"}
	for name, value := range s.Environment() {
		cmd.Env = append(cmd.Env, name+"="+value)
	}
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	m := &manager{cmd: cmd, done: make(chan error, 1)}
	started := make(chan error)
	go m.run(started)
	if err := <-started; err != nil {
		return fmt.Errorf("starting the manager: %w", err)
	}
	s.manager = m
	return nil
}

// run holds one thread for as long as the manager lives, which dies with the thread that
// started it: any other may come to be the thread of a host, and end with that.
func (m *manager) run(started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	err := m.cmd.Start()
	started <- err
	if err == nil {
		m.done <- m.cmd.Wait()
	}
}

// Environment leads programs to the cloud, if there is one.
func (s *Site) Environment() map[string]string {
	if s.Cloud == nil {
		return nil
	}
	return map[string]string{"IBMCLOUD_CS_API_ENDPOINT": s.endpoint + "/global", "IBMCLOUD_IAM_API_ENDPOINT": s.endpoint}
}

// KillManager ends the manager as kill -9 does.
func (s *Site) KillManager() {
	if s.manager == nil {
		return
	}
	_ = s.manager.cmd.Process.Kill()
	s.wait()
	s.manager = nil
}

// wait reaps the process; how it ended is no news.
func (s *Site) wait() {
	if err := <-s.manager.done; err == nil {
		s.tell("the manager had ended by itself")
	}
}

// StopManager ends the manager in order.
func (s *Site) StopManager() error {
	if s.manager == nil {
		return nil
	}
	_ = s.manager.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case err := <-s.manager.done:
		s.manager = nil
		return err
	case <-time.After(30 * time.Second):
		s.KillManager()
		return errors.New("stopping the manager: it did not end within 30 s of SIGTERM")
	}
}

// ManagerLog is everything the manager has said so far.
func (s *Site) ManagerLog() (string, error) {
	content, err := os.ReadFile(s.managerLog())
	if err != nil {
		return "", fmt.Errorf("reading the manager's log: %w", err)
	}
	return string(content), nil
}

func (s *Site) copyManagerLog(path string) error {
	content, err := os.ReadFile(s.managerLog())
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("reading the manager's log: %w", err)
	}
	return os.WriteFile(path, content, 0o600)
}

// door is the manager's way to the apiserver, where a write that has been done
// can be held until somebody has seen it.
type door struct {
	server *http.Server
	url    string
	seen   chan Write
}

// Write is one that the apiserver has done for the manager. The manager does not
// know yet, and finds out when Release is called, unless it is dead by then.
type Write struct {
	// Method is POST, PUT, PATCH or DELETE, and Object the end of the path, such as
	// nodes/worker-1. It has no name for one that is created.
	Method, Object string
	release        chan struct{}
}

// String is for failure messages.
func (w Write) String() string { return w.Method + " " + w.Object }

// Release lets the answer through.
func (w Write) Release() { close(w.release) }

// WatchWrites makes managers that are started from now on stop at each write
// that changes the cluster, until it is received from the channel and released.
// What they only say of it, events, leases and the status of the pool, is not
// held.
func (s *Site) WatchWrites() (<-chan Write, error) {
	config, err := s.Lab.ControlPlane().ServiceAccountConfig(Namespace, serviceAccount)
	if err != nil {
		return nil, err
	}
	target, err := url.Parse(config.Host)
	if err != nil {
		return nil, fmt.Errorf("reading the apiserver's address: %w", err)
	}
	transport, err := rest.TransportFor(config)
	if err != nil {
		return nil, fmt.Errorf("making the way to the apiserver: %w", err)
	}
	d := &door{seen: make(chan Write)}
	proxy := &httputil.ReverseProxy{
		Rewrite:        func(r *httputil.ProxyRequest) { r.SetURL(target) },
		Transport:      transport,
		FlushInterval:  -1,
		ModifyResponse: d.hold,
		ErrorHandler:   func(w http.ResponseWriter, _ *http.Request, _ error) { w.WriteHeader(http.StatusBadGateway) },
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("opening the manager's door: %w", err)
	}
	d.url = "http://" + listener.Addr().String()
	d.server = &http.Server{Handler: proxy, ReadHeaderTimeout: 10 * time.Second}
	go func() { _ = d.server.Serve(listener) }()
	s.door = d
	return d.seen, nil
}

// hold keeps the answer to a write until it is released, or the one who asked is gone.
func (d *door) hold(response *http.Response) error {
	r := response.Request
	if r.Method == http.MethodGet || response.StatusCode >= http.StatusMultipleChoices || saysOnly(r.URL.Path) {
		return nil
	}
	w := Write{Method: r.Method, Object: lastTwo(r.URL.Path), release: make(chan struct{})}
	select {
	case d.seen <- w:
	case <-r.Context().Done():
		return context.Cause(r.Context())
	}
	<-w.release
	return nil
}

// saysOnly: a write that changes nothing but what is said.
func saysOnly(path string) bool {
	return strings.Contains(path, "/events") || strings.Contains(path, "/leases") || strings.HasSuffix(path, "/status")
}

func lastTwo(path string) string {
	parts := strings.Split(path, "/")
	last := parts[len(parts)-1]
	if len(parts) < 2 || strings.HasPrefix(parts[len(parts)-2], "v") {
		return last
	}
	return parts[len(parts)-2] + "/" + last
}

// managerConfig is how the manager reaches the apiserver: through the door, if there is one.
func (s *Site) managerConfig() (*rest.Config, error) {
	if s.door != nil {
		return &rest.Config{Host: s.door.url}, nil
	}
	return s.Lab.ControlPlane().ServiceAccountConfig(Namespace, serviceAccount)
}

func (d *door) close() error {
	if d == nil {
		return nil
	}
	return d.server.Close()
}

// Command is the command line as an administrator of the cluster calls it. It is
// interrupted, as by Ctrl-C, when ctx ends. It needs the program rrpool.
func (s *Site) Command(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, programs.Path("rrpool"), args...) //nolint:gosec // G204: ours
	cmd.Env = []string{"PATH=/nonexistent", "HOME=/nonexistent", "KUBECONFIG=" + s.Lab.Kubeconfig()}
	for name, value := range s.Environment() {
		cmd.Env = append(cmd.Env, name+"="+value)
	}
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 10 * time.Second
	return cmd
}
