//go:build linux

package lab

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
)

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

// mayUseRealTime tells whether BIRD can be given the priority that keeps two cores from looking like a slow network.
func mayUseRealTime() bool { return exec.Command("chrt", "-r", "10", "true").Run() == nil }
