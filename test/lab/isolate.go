//go:build linux

package lab

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/rrpool/rrpool/test/programs"
)

// insideVariable is set for a re-executed binary, which is inside its namespaces.
const insideVariable = "RRPOOL_LAB_INSIDE"

// spareThreads is GOMAXPROCS less the number of CPUs.
const spareThreads = 6

// seldom is the garbage collector's percentage.
const seldom = 400

// Main is for TestMain: it runs the tests of the binary inside private namespaces, then cleanup, which must not fail either, and exits. If the
// lab cannot run it prints why, and fails.
func Main(m *testing.M, cleanup ...func() error) {
	if err := Isolate(context.Background(), os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "lab:", err)
		os.Exit(1)
	}
	code := m.Run()
	for _, clean := range cleanup {
		if err := clean(); err != nil {
			fmt.Fprintln(os.Stderr, "lab:", err)
			code = max(code, 1)
		}
	}
	os.Exit(code)
}

// Isolate makes sure that the process runs in private network and mount namespaces with everything that a lab needs. Called outside, it checks
// the prerequisites, builds what is missing, and re-executes the binary inside with the same arguments: it returns only an error. Called inside,
// it returns nil. Call it first: code before it runs twice.
func Isolate(ctx context.Context, log io.Writer) error {
	if os.Getenv(insideVariable) != "" {
		// A thread with real-time priority, such as the sender of the probes, must not wait for a thread without it.
		runtime.GOMAXPROCS(runtime.NumCPU() + spareThreads)
		debug.SetGCPercent(seldom) // each collection stops all threads until the last of them was scheduled
		return settleIn()
	}
	if err := checkPrograms(); err != nil {
		return err
	}
	if err := programs.Build(ctx, log, "etcd", "kube-apiserver", "calico-node"); err != nil {
		return fmt.Errorf("preparing the lab: %w", err)
	}
	return reexecute()
}

// reexecute replaces this process by one in new namespaces and, unless it runs as root, as root of a new user namespace.
func reexecute() error {
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("finding this binary: %w", err)
	}
	arguments := []string{"--net", "--mount"}
	if os.Geteuid() != 0 {
		arguments = append(arguments, "--map-root-user")
	}
	unshare := func(program ...string) *exec.Cmd {
		return exec.Command("unshare", slices.Concat(arguments, program)...) //nolint:gosec // G204: ourselves
	}
	if out, err := unshare("true").CombinedOutput(); err != nil {
		return fmt.Errorf("making private namespaces (needs root, or unprivileged user namespaces: "+
			"sysctl kernel.unprivileged_userns_clone, kernel.apparmor_restrict_unprivileged_userns, user.max_user_namespaces): %w: %s", err, out)
	}
	inside := unshare(append([]string{self}, os.Args[1:]...)...)
	return syscall.Exec(inside.Path, inside.Args, append(os.Environ(), insideVariable+"=1")) //nolint:gosec // G204: ourselves
}

// settleIn prepares the namespaces: a writable run folder over the host's, and loopback.
func settleIn() error {
	run, err := filepath.EvalSymlinks("/var/run")
	if err != nil {
		return fmt.Errorf("finding the run folder: %w", err)
	}
	if err := unix.Mount("tmpfs", run, "tmpfs", 0, "mode=755"); err != nil {
		return fmt.Errorf("mounting a private %s: %w", run, err)
	}
	if err := os.Mkdir(calicoRunDir, 0o755); err != nil { //nolint:gosec // G301: as Calico makes it
		return fmt.Errorf("making %s: %w", calicoRunDir, err)
	}
	return setUp(&netlink.Handle{}, "lo")
}

// checkPrograms returns an error if programs are not installed. It adds Debian's folders of BIRD to PATH.
func checkPrograms() error {
	_ = os.Setenv("PATH", os.Getenv("PATH")+":/usr/sbin:/sbin")
	var missing []string
	for _, program := range []string{"bird", "bird6", "birdc", "nice", "chrt", "unshare"} {
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

// mayUseRealTime reports whether BIRD can have real-time priority, so that a loaded machine does not delay it.
func mayUseRealTime() bool { return exec.Command("chrt", "-r", "10", "true").Run() == nil }

// ChaosVariable is the environment variable that enables tests that take minutes: `make lab`, `make chaos` and `make soak` set it.
const ChaosVariable = "RRPOOL_CHAOS"

// SkipLong skips a test that takes minutes unless ChaosVariable is set.
func SkipLong(tb testing.TB) {
	tb.Helper()
	if os.Getenv(ChaosVariable) == "" {
		tb.Skipf("it takes minutes: make lab, make chaos or make soak runs it, with %s=1", ChaosVariable)
	}
}
