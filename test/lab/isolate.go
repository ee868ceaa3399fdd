//go:build linux

package lab

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"
	"syscall"
	"testing"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/rrpool/rrpool/test/programs"
)

// insideVariable says to a re-executed binary that it is inside its namespaces.
const insideVariable = "RRPOOL_LAB_INSIDE"

// policyVariable set to "skip" makes Main skip the tests of a binary where the lab cannot run, instead of failing.
const policyVariable = "RRPOOL_LAB"

// spareThreads is how many more threads may run Go code at a time than there are CPUs.
const spareThreads = 6

// seldom is how much the heap grows, in percent, before garbage is collected.
const seldom = 400

// Main is for TestMain: it runs the tests of the binary inside private namespaces, then cleanup, which must not fail either, and ends the
// process. Where the lab cannot run it says why, and fails.
func Main(m *testing.M, cleanup ...func() error) {
	if err := Isolate(context.Background(), os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "lab:", err)
		if os.Getenv(policyVariable) == "skip" {
			fmt.Fprintln(os.Stderr, "lab: skipped, as "+policyVariable+"=skip says")
			os.Exit(0)
		}
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
// it checks the prerequisites, builds what is missing, re-executes the binary inside with the same arguments, and ends the process
// with the result: it returns only an error. Called inside, it returns nil. Call it first thing: what came before runs twice.
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
	code, err := reexecute()
	if err != nil {
		return err
	}
	os.Exit(code)
	return nil
}

// reexecute runs this binary in new namespaces, as root of a new user namespace unless we are root already.
func reexecute() (int, error) {
	self, err := os.Executable()
	if err != nil {
		return 0, fmt.Errorf("finding this binary: %w", err)
	}
	cmd := exec.Command(self, os.Args[1:]...) //nolint:gosec // G204: ourselves
	cmd.Args[0] = os.Args[0]
	cmd.Env = append(os.Environ(), insideVariable+"=1")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWNET | unix.CLONE_NEWNS, Pdeathsig: syscall.SIGKILL}
	if os.Geteuid() != 0 {
		cmd.SysProcAttr.Cloneflags |= unix.CLONE_NEWUSER
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}}
		cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}}
	}
	// The terminal sends Ctrl-C to both of us; the inner one decides what to do about it. Ignoring it would be inherited.
	signal.Notify(make(chan os.Signal, 1), os.Interrupt)
	runtime.LockOSThread() // the child is to die with this thread, so it must not go before us
	if err := cmd.Start(); err != nil {
		return 0, fmt.Errorf("making private namespaces (needs root, or unprivileged user namespaces: "+
			"sysctl kernel.unprivileged_userns_clone, kernel.apparmor_restrict_unprivileged_userns, user.max_user_namespaces): %w", err)
	}
	terminate := make(chan os.Signal, 1)
	signal.Notify(terminate, syscall.SIGTERM, syscall.SIGQUIT)
	go func() {
		for s := range terminate {
			_ = cmd.Process.Signal(s)
		}
	}()
	var exit *exec.ExitError
	if err := cmd.Wait(); err != nil && !errors.As(err, &exit) {
		return 0, fmt.Errorf("running inside private namespaces: %w", err)
	}
	return max(cmd.ProcessState.ExitCode(), -1) & 0xff, nil
}

// settleIn prepares the namespaces: mounts that stay private, a writable run folder that hides the host's, and loopback.
func settleIn() error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("making mounts private: %w", err)
	}
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

// mayUseRealTime reports whether BIRD can be given the priority that keeps two cores from looking like a slow network.
func mayUseRealTime() bool { return exec.Command("chrt", "-r", "10", "true").Run() == nil }

// ChaosVariable names the variable that lets tests run that take minutes: `make
// lab`, `make chaos` and `make soak` set it.
const ChaosVariable = "RRPOOL_CHAOS"

// SkipLong skips a test that takes minutes unless ChaosVariable is set.
func SkipLong(tb testing.TB) {
	tb.Helper()
	if os.Getenv(ChaosVariable) == "" {
		tb.Skipf("it takes minutes: make lab, make chaos or make soak runs it, with %s=1", ChaosVariable)
	}
}
