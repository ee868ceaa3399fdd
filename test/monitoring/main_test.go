//go:build linux

package monitoring_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rrpool/rrpool/test/e2e/site"
	"github.com/rrpool/rrpool/test/lab"
)

// promtoolVariable carries the path of promtool into the namespaces.
const promtoolVariable = "RRPOOL_PROMTOOL"

func TestMain(m *testing.M) {
	if os.Getenv(lab.ChaosVariable) != "" {
		if err := buildAll(context.Background()); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	lab.Main(m)
}

// buildAll builds what the namespaces, which have no network, cannot.
func buildAll(ctx context.Context) error {
	if err := site.BuildManager(ctx); err != nil {
		return err
	}
	if os.Getenv(promtoolVariable) != "" {
		return nil
	}
	tool := exec.CommandContext(ctx, "go", "-C", filepath.Join("..", "tools", "prometheus"), "tool", "-n", "promtool")
	tool.Env = append(os.Environ(), "GOFLAGS="+os.Getenv("GOFLAGS")+" -tags=remove_all_sd")
	tool.Stderr = os.Stderr
	path, err := tool.Output()
	if err != nil {
		return fmt.Errorf("building promtool: %w", err)
	}
	return os.Setenv(promtoolVariable, strings.TrimSpace(string(path)))
}
