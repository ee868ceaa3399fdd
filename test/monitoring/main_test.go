//go:build linux

// Package monitoring_test lets reflectors die in the lab, scrapes the manager meanwhile,
// and has Prometheus' own promtool say which alerts of config/monitoring fire.
package monitoring_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/rrpool/rrpool/test/lab"
	"github.com/rrpool/rrpool/test/programs"
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
	if err := programs.Build(ctx, os.Stderr, "manager"); err != nil {
		return err
	}
	if os.Getenv(promtoolVariable) != "" {
		return nil
	}
	// go tool would leave the tag out, and build every cloud's client with it.
	path := filepath.Join(filepath.Dir(programs.Path("manager")), "promtool")
	build := exec.CommandContext(ctx, "go", "-C", filepath.Join("..", "tools", "prometheus"),
		"build", "-tags", "remove_all_sd", "-o", path, "github.com/prometheus/prometheus/cmd/promtool")
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("building promtool: %w\n%s", err, out)
	}
	return os.Setenv(promtoolVariable, path)
}
