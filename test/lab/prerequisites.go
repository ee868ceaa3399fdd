//go:build linux

package lab

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/rrpool/rrpool/test/controlplane"
)

// agentPackage is built into the node agent: Calico's confd and node status reporter.
const agentPackage = "github.com/rrpool/rrpool/test/lab/cmd/calico-node"

// checkPrograms names what must be installed. Debian puts BIRD into sbin, which is not in everyone's PATH.
func checkPrograms() error {
	_ = os.Setenv("PATH", os.Getenv("PATH")+":/usr/sbin:/sbin")
	var missing []string
	for _, program := range []string{"bird", "bird6", "birdc", "nice", "chrt"} {
		if _, err := exec.LookPath(program); err != nil {
			missing = append(missing, program)
		}
	}
	if len(missing) > 0 {
		return fmt.Errorf("not installed: %s (on Debian and Ubuntu: apt-get install -y bird)", strings.Join(missing, ", "))
	}
	out, err := exec.Command("bird", "--version").CombinedOutput()
	if err != nil {
		return fmt.Errorf("asking bird for its version: %w", err)
	}
	if !strings.Contains(string(out), "BIRD version 1.6.") {
		return fmt.Errorf("Calico's BIRD is 1.6, but bird --version says %q: install the package bird, not bird2", //nolint:staticcheck // ST1005: a name
			strings.TrimSpace(string(out)))
	}
	return nil
}

// Prepare builds everything that a lab runs, as Isolate does, when it is missing. It takes minutes the first time.
func Prepare(ctx context.Context, log io.Writer) error {
	_, err := prepare(ctx, log)
	return err
}

// prepare builds the control plane and the node agent, and returns the agent's path. The namespaces have no network to do it in.
func prepare(ctx context.Context, log io.Writer) (agent string, err error) {
	if _, err := controlplane.Assets(ctx, log); err != nil {
		return "", err
	}
	cache, err := controlplane.CacheDir()
	if err != nil {
		return "", err
	}
	if err := os.MkdirAll(cache, 0o750); err != nil {
		return "", fmt.Errorf("making the cache folder: %w", err)
	}
	agent = filepath.Join(cache, "calico-node")
	start := time.Now()
	notice := time.AfterFunc(5*time.Second, func() {
		fmt.Fprintln(log, "building Calico's confd and node status reporter (minutes, the first time) ...")
	})
	defer notice.Stop()
	// Go builds only what has changed; the rename keeps a running lab's binary as it is.
	partial := fmt.Sprintf("%s.%d", agent, os.Getpid())
	out, err := exec.CommandContext(ctx, "go", "build", "-buildvcs=false", "-ldflags=-s -w", "-o", partial, agentPackage).CombinedOutput() //nolint:gosec // G204: constants
	if err != nil {
		return "", fmt.Errorf("building the node agent: %w\n%s", err, out)
	}
	if took := time.Since(start); took > 10*time.Second {
		fmt.Fprintf(log, "built confd and the node status reporter in %s\n", took.Round(time.Second))
	}
	if err := os.Rename(partial, agent); err != nil {
		return "", fmt.Errorf("placing the node agent: %w", err)
	}
	return agent, nil
}

// mayUseRealTime tells whether BIRD can be given the priority that keeps two cores from looking like a slow network.
func mayUseRealTime() bool { return exec.Command("chrt", "-r", "10", "true").Run() == nil }
