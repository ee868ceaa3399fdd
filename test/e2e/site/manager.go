//go:build linux

package site

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/rrpool/rrpool/test/controlplane"
	"github.com/rrpool/rrpool/test/programs"
)

const (
	// ServiceAccount is the manager's.
	ServiceAccount = "rrpool-manager"
	// Metrics is where the manager serves its metrics.
	Metrics = "127.0.0.1:8443"
	// Probes is where the manager serves healthz and readyz.
	Probes = "127.0.0.1:8081"
)

// User is the manager's, as the audit log has it.
func User() string { return controlplane.ServiceAccountUser(Namespace, ServiceAccount) }

// ManagerEnded reports whether the manager that was started last has ended by itself, as one that loses its lease does. It is then to be
// started again, as a kubelet does.
func (s *Site) ManagerEnded() bool {
	if s.manager == nil || s.manager.Running() {
		return false
	}
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
func (s *Site) StartManager(flags ...string) (err error) {
	config := s.Apiserver
	if config == nil {
		config = s.Lab.ControlPlane().ServiceAccountConfig(Namespace, ServiceAccount)
	}
	kubeconfig := filepath.Join(filepath.Dir(s.Lab.Kubeconfig()), "manager.kubeconfig")
	if err := controlplane.WriteKubeconfig(kubeconfig, config); err != nil {
		return err
	}
	cmd := exec.Command(programs.Path("manager"), "--kubeconfig", kubeconfig, "--namespace", Namespace, //nolint:gosec // G204: ours
		"--metrics-bind-address="+Metrics, "--health-probe-bind-address="+Probes)
	cmd.Args = append(cmd.Args, flags...)
	cmd.Env = append(s.Environment(), "PATH=/nonexistent", "HOME=/nonexistent")
	s.manager, err = controlplane.StartProcess(cmd, s.managerLog(), nil)
	return err
}

// Environment leads programs to the cloud, if there is one.
func (s *Site) Environment() []string {
	if s.Cloud == nil {
		return nil
	}
	return []string{"IBMCLOUD_CS_API_ENDPOINT=" + s.endpoint + "/global", "IBMCLOUD_IAM_API_ENDPOINT=" + s.endpoint}
}

// KillManager ends the manager as kill -9 does.
func (s *Site) KillManager() {
	s.manager.Kill()
	s.manager = nil
}

// ManagerLog is everything that managers have said so far.
func (s *Site) ManagerLog() (string, error) {
	logs, err := filepath.Glob(filepath.Join(filepath.Dir(s.Lab.Kubeconfig()), "*manager*.log"))
	var all strings.Builder
	for _, log := range logs {
		content, readErr := os.ReadFile(log) //nolint:gosec // G304: ours
		err = errors.Join(err, readErr)
		all.Write(content)
	}
	return all.String(), err
}

// Command is the command line as an administrator of the cluster calls it. It is
// interrupted, as by Ctrl-C, when ctx ends. It needs the program rrpool.
func (s *Site) Command(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, programs.Path("rrpool"), args...) //nolint:gosec // G204: ours
	cmd.Env = append(s.Environment(), "PATH=/nonexistent", "HOME=/nonexistent", "KUBECONFIG="+s.Lab.Kubeconfig())
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 10 * time.Second
	return cmd
}
