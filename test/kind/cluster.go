//go:build linux

// Package kind types docs/kind.md in a real kind cluster, with real kubelets, Calico's own agents and the manager in its Deployment, breaks what
// can break, and counts every 10 ms what pods lose. make kind-test runs it.
package kind

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
)

// Selectors of nodes: reflectors, and, added to that, no control-plane nodes.
const (
	Reflectors = "rrpool.io/route-reflector"
	Workers    = ",!node-role.kubernetes.io/control-plane"
)

// Cluster runs kubectl in a cluster.
type Cluster struct {
	// Programs is the folder with kubectl, Env its environment.
	Programs string
	Env      []string
}

// Kubectl returns a command of kubectl.
func (c Cluster) Kubectl(ctx context.Context, arguments ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, filepath.Join(c.Programs, "kubectl"), arguments...) //nolint:gosec // G204: the test's own program
	cmd.Env = c.Env
	return cmd
}

// Ask runs kubectl and returns its output.
func (c Cluster) Ask(ctx context.Context, arguments ...string) (string, error) {
	out, err := c.Kubectl(ctx, arguments...).Output()
	if err != nil {
		return "", fmt.Errorf("kubectl %q: %w", arguments, err)
	}
	return string(out), nil
}
