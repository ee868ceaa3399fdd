package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// versionPackage has the variables that a build is stamped with.
const versionPackage = "github.com/rrpool/rrpool/cmd/version"

// arguments of go for a static manager; the Dockerfile and the Makefile have the same, and
// a test compares them.
func arguments(s stamp) []string {
	ldflags := fmt.Sprintf("-s -w -X %[1]s.release=%[2]s -X %[1]s.commit=%[3]s -X %[1]s.date=%[4]s",
		versionPackage, s.version, s.revision, s.date())
	return []string{"build", "-buildvcs=false", "-trimpath", "-ldflags", ldflags}
}

// compile builds the manager beside the archive, and gives its path. What is up to date is
// not linked again.
func compile(ctx context.Context, root, output string, platform v1.Platform, s stamp) (string, error) {
	beside, err := filepath.Abs(filepath.Dir(output))
	if err != nil {
		return "", fmt.Errorf("finding the folder of %q: %w", output, err)
	}
	path := filepath.Join(beside, "image", platform.OS+"-"+platform.Architecture, "manager")
	cmd := exec.CommandContext(ctx, "go", append(arguments(s), "-o", path, "./cmd/manager")...) //nolint:gosec // G204: our own arguments
	cmd.Dir = root
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off", "GOOS="+platform.OS, "GOARCH="+platform.Architecture)
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("compiling the manager for %s: %w\n%s", platform.String(), err, out)
	}
	return path, nil
}
