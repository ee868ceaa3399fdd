//go:build linux

package site

import (
	"context"
	"os"
	"os/exec"
	"time"

	"github.com/rrpool/rrpool/test/programs"
)

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
