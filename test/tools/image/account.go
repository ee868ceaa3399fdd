package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
)

// accounting are the arguments of go, in the root, that judge what is linked into the manager
// and write the licences of it beside it. The Dockerfile has the same, and a test compares them.
func accounting(root, binary string) []string {
	return []string{"-C", "test/tools/supply", "run", ".", "-root", root, "-notices", binary}
}

// noticesOf is the file that has been written.
func noticesOf(binary string) string { return binary + ".notices.txt" }

// account writes it. Both paths are absolute.
func account(ctx context.Context, root, binary string) error {
	cmd := exec.CommandContext(ctx, "go", accounting(root, binary)...) //nolint:gosec // G204: our own arguments
	cmd.Dir = root
	cmd.Env = append(os.Environ(), "GOWORK=off")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("collecting the licences of what is linked into %q: %w\n%s", binary, err, out)
	}
	return nil
}
