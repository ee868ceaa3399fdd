//go:build linux

package site

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
	"time"

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
