//go:build linux

package site

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"

	"github.com/rrpool/rrpool/test/controlplane"
)

// These carry the programs' paths into the namespaces.
const (
	managerVariable     = "RRPOOL_SITE_MANAGER"
	commandLineVariable = "RRPOOL_SITE_COMMAND_LINE"
)

// BuildManager builds the manager. Call it before lab.Main or lab.Isolate, as
// the namespaces have no network to build in; inside it does nothing.
func BuildManager(ctx context.Context) error { return build(ctx, "manager", managerVariable) }

// BuildCommandLine builds the command line, for Command. Call it as BuildManager.
func BuildCommandLine(ctx context.Context) error { return build(ctx, "rrpool", commandLineVariable) }

// build builds one of the programs in cmd, and leaves its path in a variable.
func build(ctx context.Context, program, variable string) error {
	if os.Getenv(variable) != "" {
		return nil
	}
	cache, err := controlplane.CacheDir()
	if err != nil {
		return err
	}
	path := filepath.Join(cache, fmt.Sprintf("%s.%d", program, os.Getpid()))
	cmd := exec.CommandContext(ctx, "go", "build", "-buildvcs=false", "-o", path, "./cmd/"+program) //nolint:gosec // G204: constants
	cmd.Dir = root()
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("building %s: %w\n%s", program, err, out)
	}
	final := filepath.Join(cache, program)
	if err := os.Rename(path, final); err != nil {
		return fmt.Errorf("placing %s: %w", program, err)
	}
	return os.Setenv(variable, final)
}

// root is the repository's.
func root() string {
	_, file, _, _ := runtime.Caller(0)
	return filepath.Join(filepath.Dir(file), "..", "..", "..")
}
