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

// insideVariable says to a re-executed binary that it is inside its namespaces.
const insideVariable = "RRPOOL_LAB_INSIDE"

// spareThreads is how many more threads may run Go code at a time than there are CPUs.
const spareThreads = 6

// seldom is how much the heap grows, in percent, before garbage is collected.
const seldom = 400

// Main is for TestMain: it runs the tests of the binary inside private namespaces, then cleanup, which must not fail either, and ends the
// process. Where the lab cannot run it says why, and fails.
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

// Isolate makes sure that the process runs in private network and mount namespaces with everything that a lab needs. Called outside,
// it checks the prerequisites, builds what is missing, and re-executes the binary inside with the same arguments: it returns only an
// error. Called inside, it returns nil. Call it first thing: what came before runs twice.
func Isolate(ctx context.Context, log io.Writer) error {
	if os.Getenv(insideVariable) != "" {
		// What has the CPU's favour, such as the sender of the probes, must not wait for a slot that a thread without it holds.
		runtime.GOMAXPROCS(runtime.NumCPU() + spareThreads)
		debug.SetGCPercent(seldom) // it halts every thread until each has had the CPU
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

// reexecute makes this process one in new namespaces, as root of a new user namespace unless we are root already.
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

// settleIn prepares the namespaces: a writable run folder that hides the host's, and loopback. Mounts are private by unshare's default.
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

// checkPrograms names what must be installed. Debian puts BIRD into sbin, which is not in everyone's PATH.
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

// mayUseRealTime reports whether BIRD can be given the priority that keeps two cores from looking like a slow network.
func mayUseRealTime() bool { return exec.Command("chrt", "-r", "10", "true").Run() == nil }

// ChaosVariable names the variable that lets tests run that take minutes: `make lab`, `make chaos` and `make soak` set it.
const ChaosVariable = "RRPOOL_CHAOS"

// SkipLong skips a test that takes minutes unless ChaosVariable is set.
func SkipLong(tb testing.TB) {
	tb.Helper()
	if os.Getenv(ChaosVariable) == "" {
		tb.Skipf("it takes minutes: make lab, make chaos or make soak runs it, with %s=1", ChaosVariable)
	}
}
